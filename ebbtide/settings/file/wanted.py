"""How a validator of the stack file says no: what would be right, an example, and what to do about it."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import PydanticCustomError

WANTED = "wanted"
"""The error type that carries a full sentence; every other type is pydantic's own and is translated."""


def wanted(
    code: str, what: str, *, found: str = "", example: str = "", hint: str = "", at: str | tuple[str, ...] = ""
) -> PydanticCustomError:
    """`code` is stable, whatever becomes of the words. `at` leads to a key below the field, when the fault is there.

    `found` is for a fault that no single value shows.
    """
    return _error(
        {
            "code": code,
            "wanted": what,
            "found": found,
            "example": example,
            "hint": hint,
            "at": (at,) if isinstance(at, str) and at else tuple(at),
        }
    )


def all_of(faults: Sequence[PydanticCustomError]) -> PydanticCustomError:
    """Several faults of one value as one error, since a validator can raise only one."""
    first, *others = [dict(fault.context or {}) for fault in faults]
    return _error({**first, "also": others})


def _error(context: dict[str, Any]) -> PydanticCustomError:
    return PydanticCustomError(WANTED, "{wanted}", context)
