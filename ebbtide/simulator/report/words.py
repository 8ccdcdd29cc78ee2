"""Figures as a reader wants them: dollars, durations, shares. One home, so that page and terminal never disagree."""

import re

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def dollars(usd: float) -> str:
    """Cents below 100 dollars, whole dollars above: nobody reads the cents of a month's bill."""
    digits = 2 if abs(usd) < 99.995 else 0
    text = f"{abs(usd):,.{digits}f}"
    negative = usd < 0 and float(text.replace(",", "")) > 0  # never "minus nothing"
    return f"{MINUS if negative else ''}${text}"


def percent(fraction: float) -> str:
    """Whole percent, one digit below 10 %: 0.412 is `41 %`, 0.0412 is `4.1 %`."""
    value = fraction * 100
    text = f"{abs(value):.{1 if abs(value) < 9.95 else 0}f}"
    return f"{MINUS if value < 0 and float(text) > 0 else ''}{text.removesuffix('.0')} %"


def duration(seconds: float) -> str:
    """The two largest units: `38 s`, `3 min 44 s`, `2 h 05 min`, `1 d 3 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s" if whole or seconds == 0 else "under 1 s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def short(text: str) -> str:
    """A duration for a narrow column: `3m 44s` for `3 min 44 s`."""
    return re.sub(r" (min|[dhs])\b", lambda unit: unit[1][0], text)


def count(value: float) -> str:
    return f"{value:,.0f}"


def several(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`, `no jobs`."""
    if number == 0:
        return f"no {noun}s"
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def glued(text: str) -> str:
    """A figure and its unit on one line, whatever the width of the page."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")
