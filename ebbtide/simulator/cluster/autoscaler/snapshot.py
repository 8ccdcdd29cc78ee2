"""What-if space: the cluster as one look of the autoscaler sees it, where pods can be tried on nodes.

Nothing here touches the real nodes: a room is copied when the first pod is tried on it. A pod that found a place before
is tried there first. For pods that wait, every search begins at a random node; for those a removal would move, the
nodes keep one order within a look and a search begins after the last node that took a pod.

Source: kubernetes/autoscaler 1.35.2, simulator/scheduling/hinting_simulator.go and hints.go; see also `rounds`.

What the autoscaler takes a new node of a group for: a real one it has seen for a minute, before that a made-up one.

The providers' made-up node carries a kube-proxy pod of its own, so a group that was never seen running may take fewer
pods in the estimate than on its nodes; whoever sizes pods to fill a node exactly never gets one from zero.

Source: kubernetes/autoscaler 1.35.2, processors/nodeinfosprovider/mixed_nodeinfos_processor.go (`stabilizationDelay`,
the cache of former nodes) and cloudprovider/utils.go (`BuildKubeProxy`, 100 millicores).

Where the autoscaler begins to look for a place: its nodes come out of a Go map, begun anew at a random entry.

It lists the nodes it plans with anew after every pod it tries, so pods do not go round the nodes: each lands on the
first fitting node after a random one. Up to eight entries keep the order in which they came, and a walk begins at one
of eight slots, of which the empty ones stand for the first entry; more entries are in no order of their own.

Source: kubernetes/autoscaler 1.35.2, simulator/clustersnapshot/store/delta.go (`buildNodeInfoList`, `clearCaches`) and
predicate/plugin_runner.go (`lastIndex`); Go 1.24 and later, internal/runtime/maps (`Iter.Init`).
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ebbtide.simulator.cluster.model import GroupModel
from ebbtide.simulator.cluster.scheduler import Placement
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod, PodKind, Room

SLOTS = 8


def beginning(entries: int, rng: random.Random) -> int:
    """The entry at which one walk begins."""
    if entries > SLOTS:
        return rng.randrange(entries)
    slot = rng.randrange(SLOTS)
    return slot if slot < entries else 0


SEEN_FOR_S = 60.0


class Templates:
    def __init__(self, groups: Iterable[GroupModel]) -> None:
        self._made_up = {group.name for group in groups if group.template_less_cpu_m}
        self.next_seen: float | None = None  # when the next group will have been seen for long enough

    def learn(self, nodes: Iterable[Node], now: float) -> None:
        """Once seen, a group's node is remembered, whether the group keeps one or not."""
        self.next_seen = None
        if not self._made_up:
            return
        seen = [(node.ready_at + SEEN_FOR_S, node.group) for node in nodes if node.ready]
        self._made_up -= {group for at, group in seen if at < now}
        self.next_seen = min((at for at, group in seen if group in self._made_up), default=None)

    def room(self, group: GroupModel) -> Room:
        """What pods find on a new node."""
        room = Room(group)
        if group.name in self._made_up:
            room.cpu_m -= group.template_less_cpu_m
            room.pods_left -= 1
        return room


Allowed = Callable[[Node], bool]
BOOTING = "booting "


@dataclass(slots=True)
class Hints:
    """Where pods found a place, by pod; what no look confirms is forgotten after the next one."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    fresh: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, pod: Pod) -> str | None:
        return self.fresh.get(pod.name) or self.known.get(pod.name)

    def forget_unconfirmed(self) -> None:
        self.known, self.fresh = self.fresh, {}


@dataclass(slots=True)
class Memory:
    """What the searches for places keep from one to the next, and from look to look."""

    rng: random.Random
    templates: Templates
    after: int = 0  # a search begins so many nodes after the first of the list
    waiting: Hints = field(default_factory=Hints)
    moved: Hints = field(default_factory=Hints)


class Snapshot:
    def __init__(self, state: ClusterState, placement: Placement, memory: Memory) -> None:
        self._placement = placement
        self._memory = memory
        self._rooms: dict[str, Room] = {}
        self._arrived: dict[str, list[Pod]] = {}
        self.nodes = [node for node in state.nodes.values() if not node.leaving]
        self._listed: list[Node] = []  # in the order of this look; filled by the first search
        self._first = 0
        self._by_name = state.nodes
        self._booting = [node for node in self.nodes if not node.ready]

    def room(self, node: Node) -> Room:
        if (room := self._rooms.get(node.name)) is not None:
            return room
        return node.room if node.ready else self._memory.templates.room(node.shape)

    def pods_on(self, node: Node) -> list[Pod]:
        """Those that are there and those tried there."""
        return [*node.pods.values(), *self._arrived.get(node.name, ())]

    def empty(self, node: Node) -> bool:
        return not node.pods and not self._arrived.get(node.name)

    def put(self, pods: Iterable[Pod]) -> list[Pod]:
        """Find places for as many as possible of pods that wait; returns those without one."""
        left: list[Pod] = []
        hopeless: set[PodKind] = set()
        for pod in pods:
            node = self._hinted(pod, self._memory.waiting, _anywhere)
            if node is None and pod.kind not in hopeless:
                node = self._search(pod, _anywhere, beginning(len(self._round()), self._memory.rng))
            if node is None:
                hopeless.add(pod.kind)
                left.append(pod)
            else:
                self._place(pod, node, self._memory.waiting)
        return left

    def put_all(self, pods: Iterable[Pod], allowed: Allowed) -> bool:
        """Find other places for all pods of a node, or leave everything as it was."""
        placed: list[tuple[Pod, Node]] = []
        for pod in pods:
            node = self._hinted(pod, self._memory.moved, allowed)
            if node is None:
                self._round()
                node = self._search(pod, allowed, self._first)
            if node is None:
                for moved, taken in placed:
                    self._rooms[taken.name].give_back(moved.spec)
                    self._arrived[taken.name].remove(moved)
                return False
            self._place(pod, node, self._memory.moved)
            placed.append((pod, node))
        return True

    def _hinted(self, pod: Pod, hints: Hints, allowed: Allowed) -> Node | None:
        hint = hints.of(pod)
        node = self._known_as(hint) if hint else None
        return node if node is not None and allowed(node) and self._takes(node, pod) else None

    def _known_as(self, hint: str) -> Node | None:
        """The real one stands in for nodes that boot by numbered ones, and forgets these once they are ready."""
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
                continue  # most nodes are full: told apart without a call
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
