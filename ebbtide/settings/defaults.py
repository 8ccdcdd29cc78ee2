"""What a stack file may leave out. The shortest one is a customer, a zone with hours, and one worker pool."""

from collections.abc import Mapping
from typing import Any, cast

from ebbtide.provisioning_labels import NodeKind

REGION = "us-east-1"

SPOT_TYPES = ("m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge")
"""Four families: the fewer there are to choose from, the sooner a node is taken back."""

_GROUPS: Mapping[NodeKind, Mapping[str, Any]] = {
    # Two nodes, so that the system pods and the controller survive one of them.
    NodeKind.FIXED: {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 6},
    # Two families of one shape: when one is sold out in a zone the other may not be.
    NodeKind.FLEXIBLE: {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "max": 20},
    # Images with CUDA and a framework inside take 10 to 20 GiB each.
    NodeKind.GPU: {"instanceTypes": ["g5.2xlarge"], "max": 8, "diskSize": 100},
    NodeKind.SPOT: {"instanceTypes": list(SPOT_TYPES), "max": 20},
}


def filled_group(name: str, group: object) -> object:
    """A group of the file with its kind and the defaults of that kind; what is not a mapping stays as it is."""
    if not isinstance(group, Mapping):
        return group
    given = dict(cast("Mapping[str, Any]", group))
    if "kind" not in given and name in set(NodeKind):
        given["kind"] = name
    kind = given.get("kind")
    # A kind that is missing or wrong is one fault: the keys that would follow from it are filled in all the same.
    known = NodeKind(kind) if isinstance(kind, str) and kind in set(NodeKind) else NodeKind.FLEXIBLE
    given = {**_GROUPS[known], **given}
    largest = given.get("max")
    if "min" not in group and "min" in given and type(largest) is int and largest > 0:
        given["min"] = min(given["min"], largest)
    return given


def filled_groups(groups: Mapping[str, object], *, gpus_wanted: bool) -> dict[str, object]:
    """The file's groups, filled, and a default one for each kind that is needed and missing.

    Fixed nodes carry the system pods and the controller; flexible ones are the point of it all.
    """
    filled = {name: filled_group(name, group) for name, group in groups.items()}
    present = [
        cast("Mapping[str, object]", group).get("kind") for group in filled.values() if isinstance(group, Mapping)
    ]
    needed = [NodeKind.FIXED, NodeKind.FLEXIBLE, *([NodeKind.GPU] if gpus_wanted else [])]
    return filled | {str(kind): filled_group(kind, {}) for kind in needed if kind not in present and kind not in filled}
