"""Kubernetes quantities: CPU in millicores, memory in bytes or MiB, exact."""

import re
from collections.abc import Mapping
from decimal import Decimal

MEBIBYTE = 1024**2

CPU_UNITS: Mapping[str, Decimal | int] = {"": 1000, "m": 1}
"""In millicores."""

MEMORY_UNITS: Mapping[str, Decimal | int] = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
}
"""In bytes."""

EXPORTED_MEMORY_UNITS: Mapping[str, Decimal | int] = {
    **MEMORY_UNITS,
    **{
        unit: 1000**power
        for power, letter in enumerate("KMGT", start=1)
        for unit in (f"{letter}B", f"{letter.lower()}B")
    },
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
    "K": 1000,
    "B": 1,
}
"""In bytes, also with the units that people and databases write."""

SLURM_MEMORY_UNITS: Mapping[str, Decimal | int] = {letter: 1024**power for power, letter in enumerate("KMGT", start=1)}
"""In bytes. Source: Slurm, convert_num_unit."""

_ALL_UNITS = {**MEMORY_UNITS, "m": Decimal("0.001")}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([A-Za-z]*)")


def read_quantity(value: object, units: Mapping[str, Decimal | int] = _ALL_UNITS) -> Decimal | None:
    """Return the number times its unit; None for an unknown unit or any other value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(value))
    return None if match is None or match[2] not in units else Decimal(match[1]) * units[match[2]]


def cpu_text(millicores: int) -> str:
    """Format as people write it: `2`, `0.5`, `125m`."""
    return f"{millicores / 1000:g}" if millicores % 10 == 0 else f"{millicores}m"


def memory_text(mebibytes: int) -> str:
    """Format as people write it: `1.5Gi`, `100Mi`."""
    return f"{mebibytes / 1024:g}Gi" if mebibytes % 256 == 0 else f"{mebibytes}Mi"


def cpu_quantity(millicores: int) -> str:
    """Format as the API server does: another notation of the same amount would show as a change forever."""
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def memory_quantity(mebibytes: int) -> str:
    """Format as the API server does: in the largest unit without a fraction."""
    amount, units = mebibytes, iter(("Mi", "Gi", "Ti", "Pi"))
    unit = next(units)
    while amount % 1024 == 0 and amount > 0 and unit != "Pi":
        amount, unit = amount // 1024, next(units)
    return f"{amount}{unit}"
