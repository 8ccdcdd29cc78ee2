"""The pool's settings of checkpoints: one variable, written from the pool's section of the stack file."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from ebbtide.jobs.checkpoints.errors import CheckpointError

VARIABLE = "EBBTIDE_CHECKPOINTS"
_KEYS = {"store": str, "every": (int, float), "saveWithin": (int, float), "required": bool, "openWithin": (int, float)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCheckpoints:
    store: str
    every: float  # seconds
    save_within: float  # seconds
    required: bool
    open_within: float  # seconds


def pool_checkpoints(environment: Mapping[str, str] = os.environ) -> PoolCheckpoints | None:
    """Return the pool's settings; None without the variable."""
    text = environment.get(VARIABLE)
    if text is None:
        return None
    try:
        document: Any = json.loads(text)
    except ValueError:
        document = None
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    wrong = [key for key, kind in _KEYS.items() if not isinstance(fields.get(key), kind)]
    if wrong:
        example = '{"store": "s3://bucket/team", "every": 300, "saveWithin": 90, "required": false, "openWithin": 600}'
        raise CheckpointError(f"{VARIABLE}: found {text!r}, wanted {', '.join(wrong)}, for example {example}")
    return PoolCheckpoints(
        store=fields["store"],
        every=fields["every"],
        save_within=fields["saveWithin"],
        required=fields["required"],
        open_within=fields["openWithin"],
    )


_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(duration: str | float | timedelta, name: str) -> float:
    """Return the seconds of `90s`, `5m` or `2h` as in a stack file, a number of seconds, or a `timedelta`.

    `name` is for the error.
    """
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", duration)
        value = float(match[1]) * _UNITS[match[2]] if match else -1.0
    else:
        value = float(duration)
    if value < 0:
        raise ValueError(f"{name}: found {duration!r}, wanted a duration, for example '5m' or '90s'")
    return value
