"""The valid sections of a stack file, for checks across sections.

A check names the sections that it needs and runs only if they are valid, so no check reports the consequence of a fault
in another section. Names of entries come from the file itself, so they include invalid entries.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.file.entries import RAY, SERVICES, VARIANTS, named_entries
from ebbtide.settings.file.keys import ADOPTED, CRON_JOBS, JOBS, PODS, WORKERS, WORKLOADS
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import head_size, home_kind, home_of, pod_size
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.jobs import JobSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import RayGroup, RaySettings, group_name, head_name
from ebbtide.settings.sections.serving.services import pod_name
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category


class Placed(NamedTuple):
    """A pod, its location in the file, and the nodes it may use, apart from its own node selectors."""

    at: Location
    name: str  # of its account and its budget
    category: Category
    pod: PodSettings
    size: PodSize
    kind: NodeKind
    group: str = ""  # as named by the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSections:
    stack: StackSettings  # with the fields of `valid` sections only
    valid: frozenset[str]  # sections without a fault
    config: Mapping[str, object]  # the file's, with defaults of node groups
    existing: bool  # the stack uses an existing cluster
    token_fault: str = ""  # why ElastiCache would refuse the password

    def names(self, section: str) -> tuple[str, ...]:
        """Return the names of a section's entries, including invalid ones."""
        return tuple(name for name, _ in named_entries(self.config.get(section)))

    def lacks(self, section: str, name: str) -> bool:
        """True if the section has no entry of that name. False for a section that is not a mapping."""
        return isinstance(self.config.get(section, {}), Mapping) and name not in self.names(section)

    @property
    def pods(self) -> Iterator[Placed]:
        return pods_of(self.stack, self.valid.intersection(PODS))

    @property
    def placed_pods(self) -> Iterator[Placed]:
        """Yield the pods of this file and the adopted ones: all that need room on nodes."""
        return pods_of(self.stack, self.valid)


def pods_of(stack: StackSettings, sections: Collection[str]) -> Iterator[Placed]:
    for section in _PODS_OF:
        if section in sections:
            yield from _PODS_OF[section](stack)


class Rule(NamedTuple):
    needs: tuple[str, ...]  # sections
    find: Callable[[ParsedSections], Iterator[Finding]]
    on: ClusterKind | None = None  # None: either kind

    def findings(self, parsed: ParsedSections) -> Iterator[Finding]:
        kind = ClusterKind.EXISTING if parsed.existing else ClusterKind.EKS
        if parsed.valid.issuperset(self.needs) and self.on in (None, kind):
            yield from self.find(parsed)


def _workload_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, workload in stack.workloads.items():
        yield _workload((WORKLOADS, name), name, workload)


def _service_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, service in stack.services.items():
        for variant, variant_settings in service.variants.items():
            at: Location = (SERVICES, name, VARIANTS, variant)
            yield _workload(at, pod_name(name, variant), variant_settings.workload(name, service))


def _workload(at: Location, name: str, pod: WorkloadSettings) -> Placed:
    return Placed(at, name, pod.category, pod, pod_size(pod), home_of(pod))


def _pool_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, pool in stack.workers.items():
        yield _worker((WORKERS, name), name, pool)


def _job_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, job in stack.jobs.items():
        yield _worker((JOBS, name), name, job)


def _cron_job_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, job in stack.cron_jobs.items():
        yield _worker((CRON_JOBS, name), name, job)


def _ray_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, cluster in stack.ray.items():
        yield from _ray_cluster_pods(name, cluster)


def _ray_cluster_pods(name: str, cluster: RaySettings) -> Iterator[Placed]:
    head, size = cluster.head, head_size(cluster.head)
    yield Placed((RAY, name, "head"), head_name(name), Category.FIXED, head, size, NodeKind.FIXED)
    for key, group in cluster.groups.items():
        yield _worker((RAY, name, "groups", key), group_name(name, key), group)


def _worker(at: Location, name: str, pod: WorkerSettings | JobSettings | RayGroup) -> Placed:
    size = pod_size(pod)
    kind = home_kind(Category.WORKER, size.gpu)
    return Placed(at, name, Category.WORKER, pod, size, kind, pod.node_group)


def _adopted_pods(stack: StackSettings) -> Iterator[Placed]:
    for name, rule in stack.adopted.items():
        yield _workload((ADOPTED, name), name, rule.modelled())


_PODS_OF: Mapping[str, Callable[[StackSettings], Iterator[Placed]]] = {
    WORKLOADS: _workload_pods,
    SERVICES: _service_pods,
    WORKERS: _pool_pods,
    JOBS: _job_pods,
    CRON_JOBS: _cron_job_pods,
    RAY: _ray_pods,
    ADOPTED: _adopted_pods,
}
