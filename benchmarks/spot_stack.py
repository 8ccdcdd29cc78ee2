"""The stack file suggested for a trace, with its GPU pools on spot nodes and their old groups as fallback."""

from collections.abc import Mapping
from typing import Any

import yaml

from ebbtide.lab.advice.suggest import suggested_stack
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.prices import instance_type
from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_of_text

_LARGER: Mapping[str, str] = {
    "g6.2xlarge": "g6.4xlarge",
    "g6.4xlarge": "g6.8xlarge",
    "g6.8xlarge": "g6.16xlarge",
    "g6.24xlarge": "g6.48xlarge",
}
"""A second shape that holds the same workers. No other type with eight GPUs holds those of g6.48xlarge."""


def text_for(trace: Trace) -> str:
    return suggested_stack(trace, name="suggested", max_job_s=None)


def on_spot(text: str, *, shapes: int) -> str:
    """Return the file with a spot group beside each GPU group: its type, and with `shapes` 2 a larger one."""
    file: dict[str, Any] = yaml.safe_load(text)
    groups, workers = file["config"]["ebbtide:nodeGroups"], file["config"]["ebbtide:workers"]
    for name, group in list(groups.items()):
        types = group["instanceTypes"]
        if not instance_type(types[0]).gpu:
            continue
        spot = [*types, *(_LARGER[kind] for kind in types if shapes == 2 and kind in _LARGER)]
        groups[spot_name(name)] = {"kind": "spot", "instanceTypes": spot, "max": group["max"] * len(spot)}
        for pool in workers.values():
            if pool["nodeGroup"] == name:
                pool |= {
                    "nodeGroup": spot_name(name),
                    "fallback": name,
                    "checkpoints": {
                        "store": "s3://acme-checkpoints",
                        "every": "5m",
                        "saveWithin": "90s",
                        "required": True,
                    },
                }
    return yaml.safe_dump(file, sort_keys=False)


def spot_name(group: str) -> str:
    """Return a name within the limit for spot groups with GPUs."""
    return f"s-{group.removeprefix('gpu-')}"


def stack_of(text: str) -> StackSettings:
    return stack_of_text(text, stack="suggested", file="suggested")
