"""Counts and shares in words, and the sign for an unknown figure."""

from collections.abc import Callable, Sequence

from ebbtide.text.money import MINUS

DASH = "\N{EN DASH}"


def known(value: float | None, text: Callable[[float], str], unknown: str = DASH) -> str:
    return unknown if value is None else text(value)


def count(value: float) -> str:
    """`1,234`: no fraction."""
    return f"{value:,.0f}"


def percent(fraction: float) -> str:
    """Whole percent, one digit below 10 %: 0.412 is `41 %`, 0.0412 is `4.1 %`."""
    value = fraction * 100
    text = f"{abs(value):.{1 if abs(value) < 9.95 else 0}f}"
    return f"{MINUS if value < 0 and float(text) > 0 else ''}{text.removesuffix('.0')} %"


def number_of(count: int, noun: str) -> str:
    """`0 jobs`, `1 job`, `2,000 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def several(number: int, noun: str) -> str:
    """`no jobs`, `1 job`, `2,000 jobs`."""
    return number_of(number, noun) if number else f"no {noun}s"


def verb(number: int, one: str, more: str) -> str:
    """Return the form of a verb that agrees with a count, such as `does` or `do`."""
    return one if number == 1 else more


def first_names(names: Sequence[str], most: int = 6) -> str:
    """Return the names, from a seventh on as their number: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
