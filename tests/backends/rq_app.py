"""The jobs of these tests, run by RQ's workers."""

from doing import do


def job(name: str, seconds: float) -> None:
    do(name, seconds)
