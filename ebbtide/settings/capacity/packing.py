"""Count the nodes that a set of pods needs: first fit, largest pods first.

No scheduler packs much tighter, and the scheduler of EKS spreads pods, so pods that do not fit here do not fit there.
Nodes in the same state are counted, not listed: a million replicas take no longer than one.

If pods may use several groups, `grown` chooses as a replay does. Karpenter is first: its NodePools in the order of
weight, then of name. Then each scale-up of the cluster autoscaler grows one group: of those with the highest priority
the one whose new nodes have the least idle CPU and memory, for all waiting pods that fit there. GPUs and prices do not
count. Among equals the real autoscaler draws; here and in a replay the most expensive group grows, so no figure
promises a saving that depends on luck.

The nodes of an existing cluster are not in the stack file, so nothing is calculated for it.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ebbtide.prices import Capacity
from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import (
    PodSize,
    copies,
    fits,
    growth_ranks,
    node_of,
    pod_size,
    takes,
    with_adopted_pools,
)
from ebbtide.settings.fragment.values import inside
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """A node group for packing: the capacity of one empty node, and the maximum number of nodes."""

    each: Capacity
    most: int
    least: int = 0  # nodes that exist before any pod; only `grown` uses them
    by_karpenter: bool = False
    priority: int = 0
    rank: int = 0  # among groups that are equal otherwise, the lowest grows


@dataclass(frozen=True, slots=True)
class _Alike:
    """Nodes of one group with the same free capacity."""

    group: str
    room: Capacity
    count: int


@dataclass
class Packing:
    groups: Mapping[str, Nodes]
    opened: dict[str, int] = field(init=False)
    used: list[_Alike] = field(default_factory=list[_Alike])
    homes: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])  # pods by their name and group

    def __post_init__(self) -> None:
        self.opened = dict.fromkeys(self.groups, 0)

    def place(self, size: PodSize, replicas: int, within: Collection[str], name: str = "") -> None:
        """Place pods on nodes in use, then on empty ones, then beyond the maximum of the first suitable group."""
        unplaced = self.place_within_maximum(size, replicas, within, name)
        suitable = self._suitable(size, within)
        if unplaced and suitable:
            self._open(suitable[0], size, unplaced, most=unplaced, name=name)

    def place_within_maximum(self, size: PodSize, replicas: int, within: Collection[str], name: str = "") -> int:
        """Place pods on nodes in use, then on empty ones. Return the number of the others."""
        unplaced = self.place_on_used(size, replicas, within, name)
        for group in self._suitable(size, within):
            most = max(0, self.groups[group].most - self.opened[group])
            unplaced = self._open(group, size, unplaced, most=most, name=name)
        return unplaced

    def place_on_used(self, size: PodSize, replicas: int, within: Collection[str], name: str = "") -> int:
        """Place pods on nodes in use. Return the number of the others."""
        used, self.used = self.used, []
        unplaced = replicas
        for alike in used:
            if alike.group in within:
                unplaced = self._fill(alike, size, unplaced, name)
            else:
                self.used.append(alike)
        return unplaced

    def loads(self, name: str) -> Iterator[tuple[Capacity, int]]:
        """Yield the capacity that pods take of a node of the group, and the number of nodes with this load."""
        each = self.groups[name].each
        for alike in self.used:
            if alike.group == name:
                yield _minus(each, alike.room), alike.count

    def has_room(self, size: PodSize, within: Collection[str]) -> bool:
        """True if one more pod fits on a node."""
        suitable = [name for name in self._suitable(size, within) if self.opened[name] <= self.groups[name].most]
        empty = any(self.opened[name] < self.groups[name].most for name in suitable)
        return empty or any(copies(size, alike.room) for alike in self.used if alike.group in suitable)

    def _suitable(self, size: PodSize, within: Collection[str]) -> list[str]:
        return [name for name, nodes in self.groups.items() if name in within and fits(size, nodes.each)]

    def open(self, group: str, count: int) -> None:
        """Add empty nodes to those in use."""
        self.opened[group] += count
        self.used.append(_Alike(group, self.groups[group].each, count))

    def _open(self, group: str, size: PodSize, unplaced: int, *, most: int, name: str) -> int:
        empty = self.groups[group].each
        count = min(most, -(-unplaced // copies(size, empty)))
        self.opened[group] += count
        return self._fill(_Alike(group, empty, count), size, unplaced, name)

    def _fill(self, alike: _Alike, size: PodSize, unplaced: int, name: str) -> int:
        """Place up to `unplaced` pods on these nodes, node by node, and return the number that remains."""
        per_node = copies(size, alike.room)
        full = min(alike.count, unplaced // per_node) if per_node else 0
        partial = min(unplaced - full * per_node, per_node) if full < alike.count else 0
        split = ((full, per_node), (1 if partial else 0, partial), (alike.count - full - (1 if partial else 0), 0))
        self.used += [_Alike(alike.group, _less(alike.room, size, pods), count) for count, pods in split if count]
        remaining = unplaced - full * per_node - partial
        if remaining < unplaced:
            self.homes.setdefault(name, Counter())[alike.group] += unplaced - remaining
        return remaining


def alike_nodes_needed(node: Capacity, pods: Iterable[tuple[PodSize, int]]) -> int:
    """Return how many nodes like `node` the pods need, without a maximum."""
    return nodes_needed(pods, {"": Nodes(each=node, most=sys.maxsize)})[""]


def nodes_needed(pods: Iterable[tuple[PodSize, int]], groups: Mapping[str, Nodes]) -> dict[str, int]:
    """Return the nodes of each group that the pods need. `pods` are pairs of size and count; all may run on any group.

    Groups are filled in order. Pods beyond the maximum of all groups count on the first suitable group, which then
    needs more nodes than its `most`. A pod that fits no empty node is left out.
    """
    return packed([(size, replicas, groups) for size, replicas in pods], groups).opened


def packed(pods: Iterable[tuple[PodSize, int, Collection[str]]], groups: Mapping[str, Nodes]) -> Packing:
    """Pack pods, each of which may run on some of the groups."""
    packing = Packing(groups)
    for size, replicas, within in sorted(pods, key=lambda pod: (pod[0].cpu, pod[0].memory), reverse=True):
        packing.place(size, replicas, within)
    return packing


class Waiting(NamedTuple):
    """Pods of one size, and the groups that they may use."""

    size: PodSize
    pods: int
    groups: Collection[str]
    name: str = ""


def grown(pods: Iterable[Waiting], groups: Mapping[str, Nodes]) -> Packing:
    """Pack pods as the provisioners do, one group at a time. Pods beyond the maximum of all groups count on the group
    that would grow next.
    """
    packing = Packing(groups)
    for name, nodes in groups.items():
        if nodes.least:
            packing.open(name, nodes.least)
    waiting: list[Waiting] = []
    for pod in sorted(pods, key=lambda pod: (pod.size.cpu, pod.size.memory), reverse=True):
        left = packing.place_on_used(pod.size, pod.pods, pod.groups, pod.name)
        waiting += [pod._replace(pods=left)] if left else []
    while options := _scale_ups(waiting, packing, limited=True):
        waiting = min(options, key=lambda option: option.order).carried_out(waiting, packing)
    while options := _scale_ups(waiting, packing, limited=False):
        waiting = min(options, key=lambda option: option.order).carried_out(waiting, packing)
    return packing


class _ScaleUp(NamedTuple):
    group: str
    order: tuple[bool, int, float, int]
    helped: Sequence[int]  # of each kind of waiting pods

    def carried_out(self, waiting: Sequence[Waiting], packing: Packing) -> list[Waiting]:
        """Place the pods that it helps. Return the others."""
        for pod, helped in zip(waiting, self.helped, strict=True):
            packing.place(pod.size, helped, (self.group,), pod.name)
        left = [pod._replace(pods=pod.pods - helped) for pod, helped in zip(waiting, self.helped, strict=True)]
        return [pod for pod in left if pod.pods]


def _scale_ups(waiting: Sequence[Waiting], packing: Packing, *, limited: bool) -> list[_ScaleUp]:
    """Return the possible scale-ups, one for each group that helps; without a limit beyond the groups' maximum, too."""
    options: list[_ScaleUp] = []
    for name, nodes in packing.groups.items():
        most = max(0, nodes.most - packing.opened[name]) if limited else sys.maxsize
        trial = Packing({name: replace(nodes, most=most)})
        helped = [pod.pods - trial.place_within_maximum(pod.size, pod.pods, {name} & {*pod.groups}) for pod in waiting]
        if any(helped):
            opened = trial.opened[name]
            cpu = sum(pod.size.cpu * count for pod, count in zip(waiting, helped, strict=True))
            memory = sum(pod.size.memory * count for pod, count in zip(waiting, helped, strict=True))
            all_cpu, all_memory = opened * nodes.each.cpu, opened * nodes.each.memory
            waste = (all_cpu - cpu) / all_cpu + (all_memory - memory) / all_memory
            order = (not nodes.by_karpenter, -nodes.priority, 0.0 if nodes.by_karpenter else waste, nodes.rank)
            options.append(_ScaleUp(name, order, helped))
    return options


def _less(room: Capacity, size: PodSize, pods: int) -> Capacity:
    return Capacity(
        cpu=room.cpu - pods * size.cpu,
        memory=room.memory - pods * size.memory,
        gpu=room.gpu - pods * size.gpu,
        pods=room.pods - pods,
    )


def _minus(whole: Capacity, part: Capacity) -> Capacity:
    return Capacity(
        cpu=whole.cpu - part.cpu,
        memory=whole.memory - part.memory,
        gpu=whole.gpu - part.gpu,
        pods=whole.pods - part.pods,
    )


class PodRequests(NamedTuple):
    """Pods of one size: minimum, maximum, and the groups that they may run on."""

    name: str
    size: PodSize
    least: int
    most: int
    groups: Collection[str]
    arch: Architecture | None


def pod_requests(stack: StackSettings) -> Iterator[PodRequests]:
    settings = with_adopted_pools(stack)
    for pod in placed_pods(settings):
        groups = pod.groups(settings.node_groups)
        yield PodRequests(pod.name, pod.size, pod.least, pod.most, groups, pod.pod.arch)


def groups_of(workload: WorkloadSettings, settings: StackSettings) -> Collection[str]:
    return [name for name, group in settings.node_groups.items() if takes(group, workload)]


def nodes_at_maximum(settings: StackSettings) -> Mapping[str, int]:
    """Return the number of nodes that each group needs if every pod that may run there does."""
    pods = [Waiting(request.size, request.most, request.groups) for request in pod_requests(settings)]
    return grown(pods, nodes_of(settings)).opened


def adopted_pods(settings: StackSettings) -> Packing:
    """Pack the adopted pods that never sleep, as if no others run, with pools at their minimum."""
    awake = {name for name, rule in settings.adopted.items() if rule.sleep is None or not rule.sleep.sleeps}
    requests = [request for request in pod_requests(settings) if request.name in awake]
    return grown([Waiting(pod.size, pod.least, pod.groups, pod.name) for pod in requests], nodes_of(settings))


def lasting_pods(settings: StackSettings, fewer: Mapping[str, int] | None = None) -> Packing:
    """Pack the pods that stay: services at their maximum, adopted pods, and the minimum of what scales to zero.

    `fewer` has the number of pods that remain of each sleeping workload, by its name.
    """
    numbers = fewer or {}
    pods = [Waiting(pod.size, numbers.get(pod.name, pod.least), pod.groups) for pod in pod_requests(settings)]
    return grown(pods, nodes_of(settings))


def mounts_alone(workload: WorkloadSettings) -> bool:
    """True if the workload mounts a ReadWriteOnce claim. Without `shared`, the claim of a single pod counts as one."""
    shared_values = [volume.shared for volume in workload.volumes.values() if volume.claim is not None]
    shared_values += [None for _, key, _ in inside(workload.pod) if key == "persistentVolumeClaim"]
    return any(workload.is_alone if shared is None else not shared for shared in shared_values)


def one_at_a_time(workload: WorkloadSettings) -> bool:
    """True if a release must end all former pods before the next one starts."""
    return mounts_alone(workload) or (workload.is_alone and workload.category is Category.FIXED)


def room_for_next(workload: WorkloadSettings, settings: StackSettings, lasting: Packing) -> bool:
    """True if a release may start the next pod before an old one ends: a node has room, or one can be added."""
    return not settings.node_groups or lasting.has_room(pod_size(workload), groups_of(workload, settings))


def nodes_of(settings: StackSettings) -> Mapping[str, Nodes]:
    ranks = growth_ranks(settings.node_groups, settings.region)
    return {
        name: Nodes(
            each=node_of(group),
            most=group.max,
            least=group.min,
            by_karpenter=group.by_karpenter,
            priority=group.growth_priority,
            rank=ranks[name],
        )
        for name, group in settings.node_groups.items()
    }
