"""What the cluster autoscaler asks before it moves a pod, of raw objects: shared by `ebbtide why` and by previews.

Pure. Annotations, volumes and budgets' selectors are judged as cluster-autoscaler's drainability rules and the
Eviction API judge them.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from ebbtide.preview.replacing import value_at

Item: TypeAlias = Mapping[str, Any]

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def local_volumes(pod: Item, allowed: str) -> list[str]:
    """Those of its volumes that keep files on the node: an emptyDir in memory does not."""
    safe = {name.strip() for name in allowed.split(",")}
    found: list[str] = []
    for volume in value_at(pod, "spec.volumes") or ():
        kind = next((kind for kind in ("emptyDir", "hostPath") if volume.get(kind) is not None), "")
        in_memory = value_at(volume, "emptyDir.medium") == "Memory"
        if kind and not in_memory and volume.get("name") not in safe:
            found.append(f"{kind} {volume.get('name')}")
    return found


def covers(budget: Item, pod: Item) -> bool:
    """An empty selector covers the whole namespace; a missing one covers nothing."""
    selector = value_at(budget, "spec.selector")
    if selector is None or value_at(budget, "metadata.namespace") != value_at(pod, "metadata.namespace"):
        return False
    labels: Mapping[str, str] = value_at(pod, "metadata.labels") or {}
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    exact = all(labels.get(key) == value for key, value in wanted.items())
    return exact and all(_matches(expression, labels) for expression in selector.get("matchExpressions") or ())


def _matches(expression: Item, labels: Mapping[str, str]) -> bool:
    key, values = str(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
