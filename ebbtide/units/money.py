"""US dollars, and the month that monthly amounts are for."""

HOURS_PER_MONTH = 730
"""As AWS counts it: a twelfth of a year."""

MINUS = "\N{MINUS SIGN}"


def dollars(usd: float) -> str:
    """Cents below 100 dollars, whole dollars above: nobody reads the cents of a month's bill."""
    digits = 2 if abs(usd) < 99.995 else 0
    text = f"{abs(usd):,.{digits}f}"
    negative = usd < 0 and float(text.replace(",", "")) > 0  # never "minus nothing"
    return f"{MINUS if negative else ''}${text}"


def whole_dollars(usd: float | None) -> str:
    """For a table whose heading names the currency: `1,234`, or `-` for an amount that is not known."""
    return "-" if usd is None else f"{usd:,.0f}"
