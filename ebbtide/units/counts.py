"""Counted things in words."""


def several(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`, `no jobs`."""
    if number == 0:
        return f"no {noun}s"
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
