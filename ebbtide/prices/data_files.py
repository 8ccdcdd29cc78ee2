"""Read the shipped files as text, on demand: a run reads the prices of its own regions only."""

from functools import cache
from importlib.resources import files

_DATA = files("ebbtide.prices").joinpath("data")


def shipped_text(name: str) -> str:
    return _DATA.joinpath(name).read_text(encoding="utf-8")


@cache
def shipped_regions() -> frozenset[str]:
    """Regions with shipped on-demand prices."""
    return frozenset(file.name.removesuffix(".csv") for file in _DATA.joinpath("regions").iterdir())
