"""Phrases about missing prices, the same in every output."""

from collections.abc import Sequence


def named(lines: Sequence[str]) -> str:
    """Join the names of lines without a price: `a`, `a and b`, `a, b and c`."""
    *most, last = lines
    return f"{', '.join(most)} and {last}" if most else last


def at_least(usd: str, lines: Sequence[str]) -> str:
    """The sum `usd`, which lacks these lines."""
    return f"at least {usd}, without {named(lines)}" if lines else usd


def how_to_price(region: str) -> str:
    """`region` is empty for nodes of an existing cluster in no known region, or of a described size."""
    if not region:
        return "usdPerHour in ebbtide:cluster.nodeShapes gives their price, and aws:region that of their instanceTypes"
    return (
        f"`ebbtide prices update --region {region}` reads prices from AWS; --prices DIR uses those of a directory; "
        "usdPerHour prices a described shape"
    )
