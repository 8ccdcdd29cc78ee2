"""A snapshot of the cluster for one scan of the autoscaler, in which pods can be tried on nodes.

The real nodes are not changed: free resources are copied when the first pod is tried on a node. A pod that had a place
before is tried there first. For waiting pods every search begins at a random node. For pods of a removal the nodes have
one order within a scan, and a search begins after the last node that took a pod.

Source: kubernetes/autoscaler 1.35.2, simulator/scheduling/hinting_simulator.go and hints.go.

The template of a new node is a real node of the group that was seen for a minute, or else a synthetic one. The
synthetic node has a kube-proxy pod, so a group that was never seen may take fewer pods in the estimate than on its
nodes; a pod that fills a node exactly never gets one from zero.

Source: kubernetes/autoscaler 1.35.2, processors/nodeinfosprovider/mixed_nodeinfos_processor.go (`stabilizationDelay`,
the cache of former nodes) and cloudprovider/utils.go (`BuildKubeProxy`, 100 millicores).

A search begins at a random node, since the autoscaler's nodes are in a Go map. It lists the nodes again after every
pod, so each pod goes to the first fitting node after a random one. Up to eight entries keep their order, and an
iteration begins at one of eight slots; empty slots count as the first entry. More entries are in random order.

Source: kubernetes/autoscaler 1.35.2, simulator/clustersnapshot/store/delta.go (`buildNodeInfoList`, `clearCaches`) and
predicate/plugin_runner.go (`lastIndex`); Go 1.24 and later, internal/runtime/maps (`Iter.Init`).
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod, PodKind, Room

SLOTS = 8


def beginning(entries: int, rng: random.Random) -> int:
    """The entry at which an iteration begins."""
    if entries > SLOTS:
        return rng.randrange(entries)
    slot = rng.randrange(SLOTS)
    return slot if slot < entries else 0


SEEN_FOR_S = 60.0


class Templates:
    def __init__(self, groups: Iterable[GroupModel]) -> None:
        self._synthetic = {group.name for group in groups if group.template_less_cpu_m}
        self.next_seen: float | None = None  # the time at which the next group has been seen for long enough

    def learn(self, nodes: Iterable[Node], now: float) -> None:
        """Remember each group's node once it was seen, even if the group has no node later."""
        self.next_seen = None
        if not self._synthetic:
            return
        seen = [(node.ready_at + SEEN_FOR_S, node.group) for node in nodes if node.ready]
        self._synthetic -= {group for at, group in seen if at < now}
        self.next_seen = min((at for at, group in seen if group in self._synthetic), default=None)

    def room(self, group: GroupModel) -> Room:
        """The free resources of a new node."""
        room = Room(group)
        if group.name in self._synthetic:
            room.cpu_m -= group.template_less_cpu_m
            room.pods_left -= 1
        return room


Allowed = Callable[[Node], bool]
BOOTING = "booting "


@dataclass(slots=True)
class Hints:
    """The last place of each pod. A place that a scan does not confirm is forgotten after the next scan."""

    confirmed: dict[str, str] = field(default_factory=dict[str, str])
    fresh: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, pod: Pod) -> str | None:
        return self.fresh.get(pod.name) or self.confirmed.get(pod.name)

    def forget_unconfirmed(self) -> None:
        self.confirmed, self.fresh = self.fresh, {}


@dataclass(slots=True)
class Memory:
    """The state of searches between pods and between scans."""

    rng: random.Random
    templates: Templates
    after: int = 0  # the offset in the list at which a search begins
    waiting: Hints = field(default_factory=Hints)
    moved: Hints = field(default_factory=Hints)


class Snapshot:
    def __init__(self, state: ClusterState, placement: Placement, memory: Memory) -> None:
        self._placement = placement
        self._memory = memory
        self._rooms: dict[str, Room] = {}
        self._arrived: dict[str, list[Pod]] = {}
        self.nodes = [node for node in state.nodes.values() if not node.leaving]
        self._listed: list[Node] = []  # in the order of this scan; filled by the first search
        self._first = 0
        self._by_name = state.nodes
        self._booting = [node for node in self.nodes if not node.ready]

    def room(self, node: Node) -> Room:
        if (room := self._rooms.get(node.name)) is not None:
            return room
        return node.room if node.ready else self._memory.templates.room(node.shape)

    def pods_on(self, node: Node) -> list[Pod]:
        """Pods on the node, and pods tried there."""
        return [*node.pods.values(), *self._arrived.get(node.name, ())]

    def empty(self, node: Node) -> bool:
        return not node.pods and not self._arrived.get(node.name)

    def put(self, pods: Iterable[Pod]) -> list[Pod]:
        """Find places for waiting pods, and return the pods without one."""
        unplaced: list[Pod] = []
        hopeless: set[PodKind] = set()
        for pod in pods:
            node = self._hinted(pod, self._memory.waiting, _anywhere)
            if node is None and pod.kind not in hopeless:
                node = self._search(pod, _anywhere, beginning(len(self._round()), self._memory.rng))
            if node is None:
                hopeless.add(pod.kind)
                unplaced.append(pod)
            else:
                self._place(pod, node, self._memory.waiting)
        return unplaced

    def put_all(self, pods: Iterable[Pod], allowed: Allowed) -> bool:
        """Find other places for all pods of a node, or change nothing and return False."""
        placed: list[tuple[Pod, Node]] = []
        for pod in pods:
            node = self._hinted(pod, self._memory.moved, allowed)
            if node is None:
                self._round()
                node = self._search(pod, allowed, self._first)
            if node is None:
                for moved, target in placed:
                    self._rooms[target.name].give_back(moved.spec)
                    self._arrived[target.name].remove(moved)
                return False
            self._place(pod, node, self._memory.moved)
            placed.append((pod, node))
        return True

    def _hinted(self, pod: Pod, hints: Hints, allowed: Allowed) -> Node | None:
        hint = hints.of(pod)
        node = self._node_of_hint(hint) if hint else None
        return node if node is not None and allowed(node) and self._takes(node, pod) else None

    def _node_of_hint(self, hint: str) -> Node | None:
        """The node of a hint. The real one has numbered placeholders for booting nodes until they are ready."""
        if hint.startswith(BOOTING):
            number = int(hint.removeprefix(BOOTING))
            return self._booting[number] if number < len(self._booting) else None
        node = self._by_name.get(hint)
        return node if node is not None and node.ready and not node.leaving else None

    def _place(self, pod: Pod, node: Node, hints: Hints) -> None:
        hints.fresh[pod.name] = node.name if node.ready else f"{BOOTING}{self._booting.index(node)}"
        if node.name not in self._rooms:
            room = self.room(node)
            self._rooms[node.name] = room.copy() if room is node.room else room
        self._rooms[node.name].take(pod.spec)
        self._arrived.setdefault(node.name, []).append(pod)

    def _round(self) -> list[Node]:
        if not self._listed and self.nodes:
            rng = self._memory.rng
            begin = beginning(len(self.nodes), rng)
            self._listed = self.nodes[begin:] + self.nodes[:begin]
            if len(self.nodes) > SLOTS:
                rng.shuffle(self._listed)
            self._first = beginning(len(self.nodes), rng)
        return self._listed

    def _search(self, pod: Pod, allowed: Allowed, first: int) -> Node | None:
        nodes, count, after, rooms = self._listed, len(self._listed), self._memory.after, self._rooms
        workload = pod.spec
        for step in range(count):
            position = (after + step) % count
            node = nodes[(first + position) % count]
            room = rooms.get(node.name, node.room)
            if room.cpu_m < workload.cpu_m or room.pods_left < 1:
                continue  # most nodes are full: no call is needed
            if allowed(node) and self._takes(node, pod):
                self._memory.after = (position + 1) % count
                return node
        return None

    def _takes(self, node: Node, pod: Pod) -> bool:
        if not pod.may_run_on(node):
            return False
        return self.room(node).fits(pod.spec) and self._placement.takes(node.shape, pod.spec)


def _anywhere(_: Node) -> bool:
    return True
