"""The pods of a stack with their sizes, their numbers, and the nodes that they may use."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import admits, head_size, home_kind, home_of, pod_size, with_adopted_pools
from ebbtide.settings.declared import DeclaredPod, declared_pods
from ebbtide.settings.file.keys import LASTING, PODS_IN
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import RayHead
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category


@dataclass(frozen=True, kw_only=True)
class PlacedPod(DeclaredPod):
    """A pod and the nodes that it may use, apart from its own node selectors."""

    size: PodSize
    kind: NodeKind
    group: str  # as named by the pod; empty: any group of the kind
    fallback: str = ""  # a second group; only beside a first
    least: int  # minimum number of pods
    most: int

    @property
    def initial(self) -> int:
        """Return the number of pods before an autoscaler changes it."""
        return self.pod.replicas if isinstance(self.pod, WorkloadSettings) else self.least

    @property
    def node_set(self) -> str:
        """Return the set of nodes on an existing cluster."""
        return self.group or self.kind.value

    def groups(self, groups: Mapping[str, NodeGroupSettings]) -> Collection[str]:
        """Return the node groups that it may use."""
        if self.group:
            return (self.group, self.fallback) if self.fallback else (self.group,)
        return [name for name, group in groups.items() if admits(group, self.kind, self.pod)]


def placed_pods(stack: StackSettings, sections: Iterable[str] = PODS_IN) -> Iterator[PlacedPod]:
    """Yield the pods of sections that are valid, with adopted pods: all that need capacity on nodes."""
    for declared in declared_pods(stack, sections):
        pod = declared.pod
        size = head_size(pod) if isinstance(pod, RayHead) else pod_size(pod)
        yield PlacedPod(
            **vars(declared),
            size=size,
            kind=_kind(pod, size),
            group=pod.node_group if isinstance(pod, GroupPodSettings) else "",
            fallback=pod.fallback if isinstance(pod, WorkerSettings) else "",
            least=pod.least,
            most=pod.most,
        )


def resident_pods(stack: StackSettings) -> Iterator[PlacedPod]:
    """Yield the pods that run without jobs. Adopted pools are not among them."""
    return placed_pods(with_adopted_pools(stack), LASTING)


def _kind(pod: PodSettings, size: PodSize) -> NodeKind:
    match pod:
        case WorkloadSettings():
            return home_of(pod)
        case RayHead():
            return NodeKind.FIXED
        case _:
            return home_kind(Category.WORKER, size.gpu)
