"""What the program would have to say for a resource to be as it was found: a refresh brings it into the state.

An input that the program leaves to another hand (`ignoreChanges`) is sent as the state has it. So the number of nodes
that the autoscaler chose is lost at the next update, unless a refresh has brought it here.
"""

from collections.abc import Mapping
from typing import Any, cast


def refreshed(inputs: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` with what differs between two answers of the provider. All else stays as the program wrote it."""
    return {key: _refreshed(value, before.get(key), now.get(key)) for key, value in inputs.items()}


def _refreshed(given: Any, before: Any, now: Any) -> Any:
    if before == now:
        return given
    if isinstance(given, Mapping) and isinstance(before, Mapping) and isinstance(now, Mapping):
        said, old, new = (
            cast("Mapping[str, Any]", given),
            cast("Mapping[str, Any]", before),
            cast("Mapping[str, Any]", now),
        )
        come = {key: value for key, value in new.items() if key not in old}
        return {**refreshed({key: each for key, each in said.items() if key in new}, old, new), **come}
    return now
