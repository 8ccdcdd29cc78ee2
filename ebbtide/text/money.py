"""US dollars, and the length of a month for monthly amounts."""

from math import ceil, floor, log10

HOURS_PER_MONTH = 730
"""AWS' month: a twelfth of a year."""

LEAST_SHOWN = 0.005
"""Half a cent: smaller amounts are shown as 0."""

MINUS = "\N{MINUS SIGN}"


def dollars(usd: float) -> str:
    """Format with cents below 100 dollars, without above."""
    return _written(usd, 2 if abs(usd) < _CENTS_BELOW else 0)


def cents(usd: float) -> str:
    """Format with cents at any size, as an invoice does."""
    return _written(usd, 2)


def about_dollars(usd: float, *, at_most: bool = False) -> str:
    """Format an estimate with two digits: 442 is `$440`. An upper bound is rounded up: `$450`."""
    if abs(usd) < LEAST_SHOWN:
        return dollars(0.0)
    step = 10.0 ** (floor(log10(abs(usd))) - 1)
    return dollars(step * (ceil(round(usd / step, _STEP_DIGITS)) if at_most else round(usd / step)))


def dollar_range(low: float, high: float) -> str:
    """Format bounds, rounded outward in steps of a twentieth of their distance or less: 81 to 918 is `$80 to $920`.

    A step is 1, 2 or 5 times a power of ten: at least a cent, and at least a dollar from 100 dollars on. A low bound
    above 0 is also rounded by a twentieth of itself at most: 722 to 16,270 is `$720 to $16,500`. Bounds closer together
    than half a cent are one figure.
    """
    if high - low < LEAST_SHOWN:
        return dollars(low)
    least = 1.0 if max(abs(low), abs(high)) >= _CENTS_BELOW else _CENT
    step = max(_step((high - low) / 20), least)
    digits = 2 if step < 1 else 0
    low_step = min(step, max(_step(low / 20), _CENT if digits else 1.0)) if low > LEAST_SHOWN else step
    bounds = low_step * floor(round(low / low_step, _STEP_DIGITS)), step * ceil(round(high / step, _STEP_DIGITS))
    return " to ".join(_written(usd, digits) for usd in bounds)


def _step(most: float) -> float:
    """Return the highest step up to `most`."""
    power = 10.0 ** floor(log10(most))
    return power * max(times for times in (1, 2, 5) if times * power <= most * _ROUNDING)


_CENT, _CENTS_BELOW = 0.01, 99.995
_ROUNDING, _STEP_DIGITS = 1 + 1e-9, 6  # 0.3 / 0.1 is 2.9999999999999996


def _written(usd: float, digits: int) -> str:
    text = f"{abs(usd):,.{digits}f}"
    negative = usd < 0 and float(text.replace(",", "")) > 0  # never "minus nothing"
    return f"{MINUS if negative else ''}${text}"


def whole_dollars(usd: float | None) -> str:
    """Format for a table whose heading names the currency: `1,234`, or `-` for an unknown amount."""
    return "-" if usd is None else f"{usd:,.0f}"
