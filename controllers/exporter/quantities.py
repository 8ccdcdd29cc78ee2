"""Kubernetes quantities as numbers: cores, bytes, devices. Exact until the last step, so that 3920m is 3.92."""

import re
from collections.abc import Mapping
from decimal import Decimal

_THOUSANDS = {
    unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
_BINARY = {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)}
_UNITS: Mapping[str, Decimal] = {**_THOUSANDS, **_BINARY}
_FORM = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:([A-Za-z]{0,2})|[eE]([+-]?[0-9]{1,2}))")


def quantity(value: object) -> Decimal:
    """Raises ValueError for what is none."""
    match = _FORM.fullmatch(str(value))
    if match is None or (match[2] or "") not in _UNITS:
        raise ValueError(f"{str(value)[:50]!r} is no quantity")
    return Decimal(match[1]) * (_UNITS[match[2] or ""] if match[3] is None else Decimal(10) ** int(match[3]))
