"""US dollars, and the length of a month for monthly amounts."""

HOURS_PER_MONTH = 730
"""AWS' month: a twelfth of a year."""

MINUS = "\N{MINUS SIGN}"


def dollars(usd: float) -> str:
    """Format with cents below 100 dollars, without above."""
    digits = 2 if abs(usd) < 99.995 else 0
    text = f"{abs(usd):,.{digits}f}"
    negative = usd < 0 and float(text.replace(",", "")) > 0  # never "minus nothing"
    return f"{MINUS if negative else ''}${text}"


def whole_dollars(usd: float | None) -> str:
    """Format for a table whose heading names the currency: `1,234`, or `-` for an unknown amount."""
    return "-" if usd is None else f"{usd:,.0f}"
