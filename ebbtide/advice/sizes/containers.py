"""The containers whose requests the stack file says, and where it says so.

Each pod's own container alone: what a fragment (`pod:`) adds beside it has its sizes in Kubernetes' words there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ebbtide.advice.sizes.rules import Asked, Resource
from ebbtide.provisioning_labels import WORKER_NAMESPACE, NodeKind, ReplicasOwner
from ebbtide.settings.file.entries import RAY, SERVICES, VARIANTS
from ebbtide.settings.file.keys import CRON_JOBS, JOBS, WORKERS, WORKLOADS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import head_size, home_kind, home_of, pod_size
from ebbtide.settings.pods import namespace_of
from ebbtide.settings.sections.jobs import JobSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import (
    HEAD,
    RAY_CONTAINER,
    RayHead,
    RaySettings,
    group_name,
    head_name,
    namespace_of_ray,
)
from ebbtide.settings.sections.serving.services import ServiceSettings, pod_name
from ebbtide.settings.sections.workers import WORKER_CONTAINER, WorkerSettings
from ebbtide.settings.sections.workloads import Vertical, WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, Category


@dataclass(frozen=True, slots=True)
class Place:
    """By which labels its use is recorded."""

    namespace: str
    workload: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    at: Location  # of its pod in the file; where a service has its keys, a variant may have none of its own
    place: Place
    pod: PodSettings
    asked: Asked
    kind: NodeKind  # of the groups that it may go to
    group: str = ""  # the only one, where the file or the reading says so
    always: bool = True  # it runs all the time, and not while there is work
    several: bool = False  # pods at least, of which one goes on while another is away

    @property
    def size(self) -> PodSize:
        """Of the whole pod."""
        return head_size(self.pod) if isinstance(self.pod, RayHead) else pod_size(self.pod)

    @property
    def beside(self) -> PodSize:
        """What the pod asks for beside this container."""
        size = self.size
        return PodSize(cpu=size.cpu - self.pod.cpu, memory=size.memory - self.pod.memory, gpu=0)

    def with_requests(self, cpu: int, memory: int) -> "Container":
        pod = self.pod.model_copy(update={"cpu": cpu, "memory": memory})
        return replace(self, pod=pod, asked=replace(self.asked, cpu=cpu, memory=memory))

    @property
    def path(self) -> str:
        """As the commands write it: `workers.train`."""
        section, *rest = map(str, self.at)
        return ".".join([section.partition(":")[2], *rest])


def containers(settings: StackSettings) -> list[Container]:
    """In the order of the file's sections."""
    return [
        *(_of_workload(name, it) for name, it in settings.workloads.items()),
        *(one for name, it in settings.services.items() for one in _of_service(name, it)),
        *_of_work(settings),
        *(one for name, it in settings.ray.items() for one in _of_ray(name, it)),
    ]


def _of_workload(name: str, it: WorkloadSettings) -> Container:
    scaled = it.replicas_owner is ReplicasOwner.HPA  # an autoscaler of others, which may scale by either
    return Container(
        at=(WORKLOADS, name),
        place=Place(namespace_of(name, it), name, name),
        pod=it,
        asked=_asked(it, careful=_is_careful(it), vertical=it.vertical, scaled=frozenset(Resource) if scaled else None),
        kind=home_of(it),
        several=it.replicas > 1,
    )


def _of_service(name: str, service: ServiceSettings) -> Iterator[Container]:
    for variant, it in service.variants.items():
        pods, workload = pod_name(name, variant), it.workload(name, service)
        yield Container(
            at=(SERVICES, name, VARIANTS, variant) if variant else (SERVICES, name),
            place=Place(NAMESPACE, pods, pods),
            pod=workload,
            asked=_asked(
                workload,
                careful=_is_careful(workload),
                vertical=it.vertical,
                scaled=frozenset(Resource(key) for key in it.scale.metrics.of_pods),
            ),
            kind=home_of(workload),
            always=not it.spot and it.scale.min > 0,
            several=not it.spot and it.scale.min > 1,
        )


def _is_careful(it: WorkloadSettings) -> bool:
    return it.category is Category.FIXED or it.kind is WorkloadKind.STATEFUL_SET or it.has_disks


def _of_work(settings: StackSettings) -> Iterator[Container]:
    """Pools and jobs: what runs while there is work."""
    found: list[tuple[str, str, str, WorkerSettings | JobSettings]] = [
        *((WORKERS, name, WORKER_CONTAINER, it) for name, it in settings.workers.items()),
        *((JOBS, name, name, it) for name, it in settings.jobs.items()),
        *((CRON_JOBS, name, name, it) for name, it in settings.cron_jobs.items()),
    ]
    for section, name, container, it in found:
        yield Container(
            at=(section, name),
            place=Place(WORKER_NAMESPACE, name, container),
            pod=it,
            asked=_asked(it),
            kind=_kind(settings, it.node_group, it),
            group=it.node_group,
            always=False,
        )


def _of_ray(name: str, cluster: RaySettings) -> Iterator[Container]:
    space = namespace_of_ray(name)
    yield Container(
        at=(RAY, name, HEAD),
        place=Place(space, head_name(name), RAY_CONTAINER),
        pod=cluster.head,
        asked=_asked(cluster.head, careful=True),
        kind=NodeKind.FIXED,
    )
    for key, group in cluster.groups.items():
        yield Container(
            at=(RAY, name, "groups", key),
            place=Place(space, group_name(name, key), RAY_CONTAINER),
            pod=group,
            asked=replace(_asked(group), whole_cores=True),
            kind=home_kind(Category.WORKER, group.gpu.count),
            group=group.node_group,
            always=False,
        )


def _kind(settings: StackSettings, group: str, pod: PodSettings) -> NodeKind:
    named = settings.node_groups.get(group)
    return home_kind(Category.WORKER, pod.gpu.count) if named is None else named.kind


def _asked(
    pod: PodSettings,
    *,
    careful: bool = False,
    vertical: Vertical = Vertical.OFF,
    scaled: frozenset[Resource] | None = None,
) -> Asked:
    return Asked(
        cpu=pod.cpu,
        memory=pod.memory,
        careful=careful,
        least_memory=pod.shm or 0,
        limits_cpu=pod.limits.cpu is not None,
        set_by="" if vertical is Vertical.OFF else "the Vertical Pod Autoscaler",
        scaled_by=scaled or frozenset(),
    )
