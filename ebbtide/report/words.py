"""Figures as a reader wants them: dollars, durations, shares. One home, so that page and terminal never disagree."""

from ebbtide.units.counts import several as several
from ebbtide.units.durations import duration as duration
from ebbtide.units.durations import latency as latency
from ebbtide.units.durations import short as short
from ebbtide.units.money import MINUS as MINUS
from ebbtide.units.money import dollars as dollars

DASH = "\N{EN DASH}"


def percent(fraction: float) -> str:
    """Whole percent, one digit below 10 %: 0.412 is `41 %`, 0.0412 is `4.1 %`."""
    value = fraction * 100
    text = f"{abs(value):.{1 if abs(value) < 9.95 else 0}f}"
    return f"{MINUS if value < 0 and float(text) > 0 else ''}{text.removesuffix('.0')} %"


def count(value: float) -> str:
    return f"{value:,.0f}"


def glued(text: str) -> str:
    """A figure and its unit on one line, whatever the width of the page."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
