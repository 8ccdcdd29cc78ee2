"""Which pods the bundled Prometheus calls, on which ports: what its network policy must let through. Plain data.

A policy on the calling side knows ports by number alone, since each plugin reads names of ports in its own way.
"""

from collections.abc import Iterator
from typing import NamedTuple

from components.monitoring.targets import OWN_PORT, Target, scraped_pods
from ebbtide.labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.pod import METRICS_PORT
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.serving.gateway import OWNING_GATEWAY
from ebbtide.vocabulary.labels import WORKLOAD

GPU_EXPORTER = Target(name="gpu", namespace="kube-system", workloads=("nvidia-gpu-exporter",), port=METRICS_PORT)
GPU_EXPORTER_PORT = 9400

_OWN_PORT, _RAY_PORT, _AUTOSCALER_PORT, _ENVOY_PORT = 8080, 8080, 8085, 19001


class Reached(NamedTuple):
    """Pods of one namespace with these values of a label, `workload` as a rule."""

    namespace: str
    workloads: tuple[str, ...]
    ports: tuple[int, ...]
    label: str = WORKLOAD


def gpu_target(settings: StackSettings) -> Target | None:
    """On EKS with a GPU group: on a cluster that is there already its owner may run one, and two disturb each other."""
    groups = () if settings.cluster.context is not None else settings.node_groups.values()
    return GPU_EXPORTER if any(group.kind is NodeKind.GPU for group in groups) else None


def reached(settings: StackSettings, targets: tuple[Target, ...]) -> Iterator[Reached]:
    for target in (*targets, gpu_target(settings)):
        if target is not None:
            yield Reached(target.namespace, target.workloads, tuple(sorted(_ports(settings, target))), target.label)


def _ports(settings: StackSettings, target: Target) -> set[int]:
    numbers = {it.number for it in scraped_pods(settings) if it[:3] in _pods_of(target)}
    if numbers:
        return numbers
    if target.port == OWN_PORT:
        return {_OWN_PORT}
    if target == GPU_EXPORTER:
        return {GPU_EXPORTER_PORT}
    if target.label == OWNING_GATEWAY:
        return {_ENVOY_PORT}
    if target.namespace in map(namespace_of_ray, settings.ray):
        return {_RAY_PORT}
    return {_AUTOSCALER_PORT}


def _pods_of(target: Target) -> set[tuple[str, str, str]]:
    """Namespace, workload and name of the port."""
    return {(target.namespace, name, target.port) for name in target.workloads}
