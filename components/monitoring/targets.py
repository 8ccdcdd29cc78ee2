"""What of a stack is scraped, namespace by namespace. Plain data.

Our own processes serve their metrics on the port that their probes use. All others have a port of one name: those of
the customer's pods that are to be scraped, Ray's by KubeRay's operator, and the cluster autoscaler that a stack on EKS
brings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings.every_pod import rolling_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import METRICS_PORT
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.vocabulary.exporter import EXPORTER
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from ebbtide.vocabulary.workloads import WORKLOADS

OWN_PORT = "http"
_AUTOSCALER = "kube-system", "cluster-autoscaler"  # its component is of AWS, which other clusters never load


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Pods of one namespace with these values of the label `workload`, at a port of this name."""

    name: str
    namespace: str
    workloads: tuple[str, ...]
    port: str
    tells_of_others: bool = False
    """Its labels `namespace` and `pod` are those of what it tells of, and stay; elsewhere they say who tells."""


def targets(settings: StackSettings) -> tuple[Target, ...]:
    own = (CONTROLLER, EXPORTER, *((WORKLOADS,) if settings.ray else ()))
    return (
        Target(name="ebbtide", namespace=NAMESPACE, workloads=own, port=OWN_PORT, tells_of_others=True),
        *_of_the_autoscaler(settings),
        *_of_pods(settings),
        *_of_ray(settings),
    )


def scraped_workers(settings: StackSettings) -> dict[str, int]:
    """The number of the port of metrics, by pool, of those that name one."""
    return {
        name: entry.pod.ports[METRICS_PORT]
        for name, entry, _ in rolling_pods(settings)
        if entry.namespace == WORKER_NAMESPACE and METRICS_PORT in entry.pod.ports
    }


def _of_the_autoscaler(settings: StackSettings) -> Iterator[Target]:
    if settings.cluster.context is None:
        yield Target(name="ebbtide", namespace=_AUTOSCALER[0], workloads=(_AUTOSCALER[1],), port=METRICS_PORT)


def _of_pods(settings: StackSettings) -> Iterator[Target]:
    named: dict[str, list[str]] = {}
    for name, entry, _ in rolling_pods(settings):
        if METRICS_PORT in entry.pod.ports:
            named.setdefault(entry.namespace, []).append(name)
    for namespace, names in sorted(named.items()):
        yield Target(name="ebbtide-pods", namespace=namespace, workloads=tuple(sorted(names)), port=METRICS_PORT)


def _of_ray(settings: StackSettings) -> Iterator[Target]:
    for name, cluster in sorted(settings.ray.items()):
        pods = tuple(sorted(cluster.pods(name)))
        yield Target(name="ebbtide-ray", namespace=namespace_of_ray(name), workloads=pods, port=METRICS_PORT)
