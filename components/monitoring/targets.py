"""The scrape targets of a stack by namespace. Plain data.

Ebbtide's processes serve their metrics on the port of their probes. The metrics ports of all other targets have one
common name: the customer's scraped pods, Ray's pods (KubeRay's operator sets it), and the cluster autoscaler on EKS. If
a pod's API and metrics share a port, its section of the stack file may name that port (`metrics: http`). Envoy's pods
are selected by the label of their Gateway: on an existing cluster they run where Envoy Gateway's chart puts them.

**Few series of Envoy are kept**: Envoy reports some 80 series and four histograms for each Envoy cluster.

**Network policy.** A policy on the calling side identifies ports only by number, since network plugins interpret port
names differently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from ebbtide.monitoring.serving import counts_requests
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.capacity.pods import serving_needs
from ebbtide.settings.capacity.process_documents import has_workloads
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.pods.pod import METRICS_PORT, ScrapedPodSettings
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.serving.gateway import GATEWAY, GATEWAY_NAMESPACE, KEDA_NAMESPACE, OWNING_GATEWAY
from ebbtide.vocabulary.labels import CONTROLLER, EXPORTER, NAMESPACE, WORKLOAD, WORKLOADS

OWN_PORT = "http"
USUAL = timedelta(seconds=30)
"""Scrape interval."""
ENVOY_GATEWAYS_NAMESPACE = "envoy-gateway-system"
"""The namespace of Envoy Gateway's chart, and of its Envoys."""
ENVOY_PATH = "/stats/prometheus"
ENVOY_KEPT = (
    "envoy_cluster_(membership_total|upstream_rq|upstream_rq_active|upstream_rq_pending_active|"
    "upstream_rq_pending_overflow|upstream_rq_time_bucket|upstream_rq_time_count)|"
    "envoy_control_plane_connected_state|envoy_http_rq_direct_response"
)
ENVOY_OF_ROUTES = "(httproute/.*)?"
"""Values of `envoy_cluster_name`: a backend of a route, or empty for the entire proxy."""
_AUTOSCALER = "kube-system", "cluster-autoscaler"  # its component imports AWS, which other clusters never load


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    """Pods of one namespace with these values of a label, by default `workload`, at a port of this name."""

    name: str
    namespace: str
    workloads: tuple[str, ...]
    port: str
    reports_other_pods: bool = False
    """True if the samples' labels `namespace` and `pod` name other pods than the target: then these labels are kept."""
    label: str = WORKLOAD
    path: str = "/metrics"
    every: timedelta = USUAL
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    """Regular expressions for the values of labels: only matching series are kept; all if empty."""


def targets(settings: StackSettings) -> tuple[ScrapeTarget, ...]:
    own = (CONTROLLER, EXPORTER, *((WORKLOADS,) if has_workloads(settings) else ()))
    return (
        ScrapeTarget(name="ebbtide", namespace=NAMESPACE, workloads=own, port=OWN_PORT, reports_other_pods=True),
        *_of_the_autoscaler(settings),
        *_of_pods(settings),
        *_of_ray(settings),
        *_of_envoy(settings),
    )


class ScrapedPods(NamedTuple):
    """Pods of the stack file that have a metrics port: their label `workload`, and the port."""

    namespace: str
    name: str
    port: str
    number: int


def scraped_pods(settings: StackSettings) -> Iterator[ScrapedPods]:
    for declared in declared_pods(settings):
        pod = declared.pod
        if isinstance(pod, ScrapedPodSettings) and pod.metrics_port is not None:
            yield ScrapedPods(declared.namespace, declared.name, pod.metrics_port, pod.ports[pod.metrics_port])


def scraped_workers(settings: StackSettings) -> dict[str, int]:
    """Return the metrics ports by pool, for pools that have one."""
    return {pods.name: pods.number for pods in scraped_pods(settings) if pods.namespace == WORKER_NAMESPACE}


def _of_the_autoscaler(settings: StackSettings) -> Iterator[ScrapeTarget]:
    if settings.cluster.context is None:
        yield ScrapeTarget(name="ebbtide", namespace=_AUTOSCALER[0], workloads=(_AUTOSCALER[1],), port=METRICS_PORT)


def _of_pods(settings: StackSettings) -> Iterator[ScrapeTarget]:
    named: dict[tuple[str, str], list[str]] = {}
    for pods in scraped_pods(settings):
        named.setdefault((pods.namespace, pods.port), []).append(pods.name)
    for (namespace, port), names in sorted(named.items()):
        target = "ebbtide-pods" if port == METRICS_PORT else f"ebbtide-pods-{port}"
        yield ScrapeTarget(name=target, namespace=namespace, workloads=tuple(sorted(names)), port=port)


def _of_envoy(settings: StackSettings) -> Iterator[ScrapeTarget]:
    """Envoy is scraped more often, since autoscalers read its counts every 15 seconds."""
    ours = settings.cluster.context is None
    if serving_needs(settings).gateway and counts_requests(settings):
        yield ScrapeTarget(
            name="ebbtide-envoy",
            namespace=GATEWAY_NAMESPACE if ours else ENVOY_GATEWAYS_NAMESPACE,
            workloads=(GATEWAY,),
            label=OWNING_GATEWAY,
            port=METRICS_PORT,
            path=ENVOY_PATH,
            every=timedelta(seconds=10),
            kept={"__name__": ENVOY_KEPT, "envoy_cluster_name": ENVOY_OF_ROUTES},
        )


def _of_ray(settings: StackSettings) -> Iterator[ScrapeTarget]:
    for name, cluster in sorted(settings.ray.items()):
        pods = tuple(sorted(cluster.pods(name)))
        yield ScrapeTarget(name="ebbtide-ray", namespace=namespace_of_ray(name), workloads=pods, port=METRICS_PORT)


GPU_EXPORTER = ScrapeTarget(name="gpu", namespace="kube-system", workloads=("nvidia-gpu-exporter",), port=METRICS_PORT)
GPU_EXPORTER_PORT = 9400

_OWN_PORT, _RAY_PORT, _AUTOSCALER_PORT, _ENVOY_PORT = 8080, 8080, 8085, 19001


class Reached(NamedTuple):
    """Pods of one namespace with these values of a label, by default `workload`."""

    namespace: str
    workloads: tuple[str, ...]
    ports: tuple[int, ...]
    label: str = WORKLOAD


@dataclass(frozen=True, kw_only=True)
class BundledCalls:
    """The calls of a stack's bundled Prometheus and of its Alertmanager."""

    scrapes: Sequence[Reached]
    queried_from: Sequence[str] = ()  # namespaces whose pods query Prometheus, in addition to private addresses
    writes: Sequence[int] = ()  # ports outside the cluster
    alert_ports: Sequence[int] | None = None  # ports of receivers; None without an Alertmanager


def bundled_calls(settings: StackSettings) -> BundledCalls | None:
    """Return None for a stack without a bundled Prometheus."""
    monitoring = settings.monitoring
    if monitoring.prometheus is not PrometheusKind.BUNDLED:
        return None
    alerts, remote = monitoring.alerts, monitoring.remote_write
    receivers = (
        None if alerts is None else {receiver.port for receiver in (alerts.receiver, alerts.dead_man) if receiver}
    )
    return BundledCalls(
        scrapes=[*reached(settings, targets(settings))],
        queried_from=[KEDA_NAMESPACE] if serving_needs(settings).keda else [],
        writes=() if remote is None else (remote.port,),
        alert_ports=None if receivers is None else sorted(receivers),
    )


def gpu_target(settings: StackSettings) -> ScrapeTarget | None:
    """Return the exporter if nodes on EKS have GPUs. Existing clusters may have one already, and two would conflict."""
    groups = () if settings.cluster.context is not None else settings.node_groups.values()
    return GPU_EXPORTER if any(group.has_gpus for group in groups) else None


def reached(settings: StackSettings, targets: tuple[ScrapeTarget, ...]) -> Iterator[Reached]:
    for target in (*targets, gpu_target(settings)):
        if target is not None:
            yield Reached(target.namespace, target.workloads, tuple(sorted(_ports(settings, target))), target.label)


def _ports(settings: StackSettings, target: ScrapeTarget) -> set[int]:
    numbers = {pods.number for pods in scraped_pods(settings) if pods[:3] in _pods_of(target)}
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


def _pods_of(target: ScrapeTarget) -> set[tuple[str, str, str]]:
    """Return namespace, workload and name of the port."""
    return {(target.namespace, name, target.port) for name in target.workloads}
