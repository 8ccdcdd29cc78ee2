"""All containers of a pod, including init containers."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict


def each_container(
    pod: "PodSpecArgsDict", change: "Callable[[ContainerArgsDict], ContainerArgsDict]"
) -> "PodSpecArgsDict":
    """The pod with `change` made to each of them. Ebbtide's pods are plain values."""
    beside = cast("Sequence[ContainerArgsDict]", pod["containers"])
    before = cast("Sequence[ContainerArgsDict]", pod.get("init_containers") or ())
    changed: PodSpecArgsDict = {**pod, "containers": [change(container) for container in beside]}
    if before:
        changed["init_containers"] = [change(container) for container in before]
    return changed
