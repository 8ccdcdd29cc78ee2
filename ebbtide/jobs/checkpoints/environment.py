"""What the pool says about its checkpoints: one variable, which the stack file's section becomes."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
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
    """None without the variable."""
    text = environment.get(VARIABLE)
    if text is None:
        return None
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
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
