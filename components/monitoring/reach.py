"""The pods and ports that the bundled Prometheus calls, for its network policy. Plain data.

A policy on the calling side knows ports by number alone, since each plugin reads names of ports in its own way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from components.monitoring.targets import OWN_PORT, Target, scraped_pods, targets
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.pods import serving_needs
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.pods.pod import METRICS_PORT
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.serving.gateway import KEDA_NAMESPACE, OWNING_GATEWAY
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


@dataclass(frozen=True, kw_only=True)
class BundledCalls:
    """The calls of a stack's bundled Prometheus and of its Alertmanager."""

    scrapes: Sequence[Reached]
    asked_from: Sequence[str] = ()  # namespaces whose pods query it, besides private addresses
    writes: Sequence[int] = ()  # ports outside the cluster
    tells: Sequence[int] | None = None  # ports of receivers; None without an Alertmanager


def bundled_calls(settings: StackSettings) -> BundledCalls | None:
    """Return None for a stack without a bundled Prometheus."""
    monitoring = settings.monitoring
    if monitoring.prometheus is not PrometheusKind.BUNDLED:
        return None
    alerts, remote = monitoring.alerts, monitoring.remote_write
    receivers = None if alerts is None else {one.port for one in (alerts.receiver, alerts.dead_man) if one}
    return BundledCalls(
        scrapes=[*reached(settings, targets(settings))],
        asked_from=[KEDA_NAMESPACE] if serving_needs(settings).keda else [],
        writes=() if remote is None else (remote.port,),
        tells=None if receivers is None else sorted(receivers),
    )


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
