"""The instant at which all golden files are made, in every module that reads the clock."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from functools import cache
from typing import Self
from unittest.mock import patch

from tests.paths import ROOT
from tests.unit.operate.raw_objects import NOW

_EDGES = ("cli", "operate", "settings")  # the lint refuses a clock elsewhere, but for processes of their own


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class _Then(datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        at = NOW.astimezone(tz)
        return cls(at.year, at.month, at.day, at.hour, at.minute, tzinfo=at.tzinfo)


@contextmanager
def stopped() -> Generator[None]:
    with ExitStack() as stack:
        for module in _modules():
            stack.enter_context(patch(f"{module}.datetime", _Then))
        yield


@cache
def _modules() -> tuple[str, ...]:
    files = (file for edge in _EDGES for file in sorted((ROOT / "ebbtide" / edge).rglob("*.py")))
    reading = (file for file in files if "datetime.now(" in file.read_text(encoding="utf-8"))
    return tuple(".".join(file.relative_to(ROOT).with_suffix("").parts) for file in reading)
