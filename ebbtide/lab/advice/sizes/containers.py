"""The containers whose requests the stack file sets, and their position in the file.

Covers each pod's main container. A fragment (`pod:`) sizes the containers that it adds in Kubernetes' own fields.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ebbtide.lab.advice.sizes.rules import ContainerRequests, ResourceName
from ebbtide.provisioning_labels import NodeKind, ReplicasOwner
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import head_size, home_kind, home_of, pod_size
from ebbtide.settings.declared import namespace_of
from ebbtide.settings.file.keys import LASTING, RAY, SERVICES, VARIANTS, WORKER_WORDS, WORKERS, WORKLOADS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
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
from ebbtide.settings.sections.workers import WORKER_CONTAINER
from ebbtide.settings.sections.workloads import Vertical, WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, Category


@dataclass(frozen=True, slots=True)
class ContainerLabels:
    """Labels under which a container's use is recorded."""

    namespace: str
    workload: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    at: Location  # of its pod in the file; a variant may inherit keys from its service
    place: ContainerLabels
    pod: PodSettings
    requests: ContainerRequests
    kind: NodeKind  # of the groups that it may run on
    group: str = ""  # the only group, if the file or the settings choose one
    always: bool = True  # runs all the time, not only while there is work
    several: bool = False  # has at least two pods, so that one serves while another is away

    @property
    def size(self) -> PodSize:
        """Size of the entire pod."""
        return head_size(self.pod) if isinstance(self.pod, RayHead) else pod_size(self.pod)

    @property
    def other_containers(self) -> PodSize:
        """Requests of the pod's other containers."""
        size = self.size
        return PodSize(cpu=size.cpu - self.pod.cpu, memory=size.memory - self.pod.memory, gpu=0)

    def with_requests(self, cpu: int, memory: int) -> "Container":
        pod = self.pod.model_copy(update={"cpu": cpu, "memory": memory})
        return replace(self, pod=pod, requests=replace(self.requests, cpu=cpu, memory=memory))

    @property
    def path(self) -> str:
        """Path as the commands write it: `workers.train`."""
        section, *keys = map(str, self.at)
        return ".".join([section.partition(":")[2], *keys])


def containers(settings: StackSettings) -> list[Container]:
    """Return all containers in the order of the file's sections."""
    return [
        *(_of_workload(name, workload) for name, workload in settings.workloads.items()),
        *(container for name, service in settings.services.items() for container in _of_service(name, service)),
        *_of_workers(settings),
        *(container for name, cluster in settings.ray.items() for container in _of_ray(name, cluster)),
    ]


def _of_workload(name: str, workload: WorkloadSettings) -> Container:
    scaled = workload.replicas_owner is ReplicasOwner.HPA  # a foreign autoscaler, which may scale by CPU or memory
    return Container(
        at=(WORKLOADS, name),
        place=ContainerLabels(namespace_of(name, workload), name, name),
        pod=workload,
        requests=_requests(
            workload,
            careful=_is_careful(workload),
            vertical=workload.vertical,
            scaled=frozenset(ResourceName) if scaled else None,
        ),
        kind=home_of(workload),
        several=workload.replicas > 1,
    )


def _of_service(name: str, service: ServiceSettings) -> Iterator[Container]:
    for variant, settings in service.variants.items():
        pods, workload = pod_name(name, variant), settings.workload(name, service)
        yield Container(
            at=(SERVICES, name, VARIANTS, variant) if variant else (SERVICES, name),
            place=ContainerLabels(NAMESPACE, pods, pods),
            pod=workload,
            requests=_requests(
                workload,
                careful=_is_careful(workload),
                vertical=settings.vertical,
                scaled=frozenset(ResourceName(key) for key in settings.scale.metrics.of_pods),
            ),
            kind=home_of(workload),
            always=not settings.spot and settings.scale.min > 0,
            several=not settings.spot and settings.scale.min > 1,
        )


def _is_careful(workload: WorkloadSettings) -> bool:
    return workload.category is Category.FIXED or workload.kind is WorkloadKind.STATEFUL_SET or workload.has_disks


def _of_workers(settings: StackSettings) -> Iterator[Container]:
    """Yield the containers in the workers' namespace."""
    for placed in placed_pods(settings, WORKER_WORDS):
        container = WORKER_CONTAINER if placed.at[0] == WORKERS else placed.name
        node_group = settings.node_groups.get(placed.group)
        yield Container(
            at=placed.at,
            place=ContainerLabels(placed.namespace, placed.name, container),
            pod=placed.pod,
            requests=_requests(placed.pod),
            kind=placed.kind if node_group is None else node_group.kind,
            group=placed.group,
            always=placed.at[0] in LASTING,
        )


def _of_ray(name: str, cluster: RaySettings) -> Iterator[Container]:
    namespace = namespace_of_ray(name)
    yield Container(
        at=(RAY, name, HEAD),
        place=ContainerLabels(namespace, head_name(name), RAY_CONTAINER),
        pod=cluster.head,
        requests=_requests(cluster.head, careful=True),
        kind=NodeKind.FIXED,
    )
    for key, group in cluster.groups.items():
        yield Container(
            at=(RAY, name, "groups", key),
            place=ContainerLabels(namespace, group_name(name, key), RAY_CONTAINER),
            pod=group,
            requests=replace(_requests(group), whole_cores=True),
            kind=home_kind(Category.WORKER, group.gpu.count),
            group=group.node_group,
            always=False,
        )


def _requests(
    pod: PodSettings,
    *,
    careful: bool = False,
    vertical: Vertical = Vertical.OFF,
    scaled: frozenset[ResourceName] | None = None,
) -> ContainerRequests:
    return ContainerRequests(
        cpu=pod.cpu,
        memory=pod.memory,
        careful=careful,
        least_memory=pod.shm or 0,
        limits_cpu=pod.limits.cpu is not None,
        set_by="" if vertical is Vertical.OFF else "the Vertical Pod Autoscaler",
        scaled_by=scaled or frozenset(),
    )
