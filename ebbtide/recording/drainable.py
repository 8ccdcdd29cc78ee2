"""Drains: the cluster autoscaler's rules about a pod, and the budgets that the Eviction API applies to it.

The policies judge pod templates with it, and `ebbtide why node` judges pods of the cluster. Pure. Order and exceptions
follow cluster-autoscaler `pkg/simulator/drainability/rules`: `safe-to-evict: "true"` overrides everything except
a budget.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ebbtide.provisioning_labels import SAFE_TO_EVICT
from ebbtide.recording.values import mappings, selects, texts, value_at

Item: TypeAlias = Mapping[str, Any]
"""A raw object of the Kubernetes API, or a part of one."""

SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SYSTEM_NAMESPACE = "kube-system"
_KNOWN_CONTROLLERS = ("ReplicaSet", "StatefulSet", "Job", "ReplicationController")


class Pin(StrEnum):
    """A reason why the autoscaler does not move a pod, and so keeps its node."""

    ANNOTATED = "annotated"
    BARE = "bare"  # no controller would create it again
    CUSTOM = "custom"  # of a controller that the autoscaler does not know, such as an operator
    SYSTEM = "system"  # in kube-system, without a budget
    LOCAL_VOLUMES = "local-volumes"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerRules:
    """Configuration of an autoscaler, with its own defaults."""

    local_storage_pins: bool = True
    system_pods_pin: bool = True
    custom_controllers_pin: bool = True


def pins(pod: Item, rules: AutoscalerRules, *, bare: bool, has_budget: bool) -> Iterator[Pin]:
    """Yield what pins the node of a pod that has not ended and is not a DaemonSet's. It has `metadata` and `spec`."""
    safe = _annotations(pod).get(SAFE_TO_EVICT)
    if safe == "true":
        return
    if safe == "false":
        yield Pin.ANNOTATED
    kind = controller_kind(pod)
    if bare:
        yield Pin.BARE
    elif rules.custom_controllers_pin and kind and kind not in _KNOWN_CONTROLLERS:
        yield Pin.CUSTOM
    if rules.system_pods_pin and not has_budget and value_at(pod, "metadata.namespace") == SYSTEM_NAMESPACE:
        yield Pin.SYSTEM
    if rules.local_storage_pins and local_volumes(pod):
        yield Pin.LOCAL_VOLUMES


def controller_kind(pod: Item) -> str:
    """The kind of the pod's controller; empty without one, as in a template."""
    owners = mappings(value_at(pod, "metadata.ownerReferences"))
    return next((str(owner.get("kind")) for owner in owners if owner.get("controller")), "")


def local_volumes(pod: Item) -> list[str]:
    """Volumes that keep files on the node, such as "emptyDir scratch"; an emptyDir in memory does not."""
    safe = {name.strip() for name in _annotations(pod).get(SAFE_VOLUMES, "").split(",")}
    volumes: list[str] = []
    for volume in mappings(value_at(pod, "spec.volumes")):
        kind = next((kind for kind in ("emptyDir", "hostPath") if volume.get(kind) is not None), "")
        in_memory = value_at(volume, "emptyDir.medium") == "Memory"
        if kind and not in_memory and volume.get("name") not in safe:
            volumes.append(f"{kind} {volume.get('name')}")
    return volumes


def covers(budget: Item, pod: Item) -> bool:
    """True if the budget covers the pod: an empty selector covers the entire namespace, a missing one nothing."""
    if _namespace(budget) != _namespace(pod):
        return False
    selector = value_at(budget, "spec.selector")
    return selector is not None and selects(selector, texts(value_at(pod, "metadata.labels")))


def _namespace(item: Item) -> str:
    return str(value_at(item, "metadata.namespace") or "default")


def _annotations(pod: Item) -> dict[str, str]:
    return texts(value_at(pod, "metadata.annotations"))
