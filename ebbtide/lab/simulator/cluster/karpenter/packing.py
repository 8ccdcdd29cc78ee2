"""Karpenter's simulation of kube-scheduler: the nodes and NodeClaims that pods would go to.

Pods are sorted by CPU, then memory. Each goes on the first node that takes it, then on the planned NodeClaim with the
fewest pods that takes it, then on a new one of the first NodePool by weight. A NodeClaim keeps every type that still
fits; prices are looked at only when the packing is complete, so it fills few large nodes.

A limit of nodes is compared with the existing nodes. The NodeClaims of one plan do not count towards it, since no
instance type has a capacity of `nodes`; they count towards every other limit.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/provisioning/scheduling: scheduler.go (`add`, `subtractMax`,
`updateRemainingResources`), queue.go, nodeclaim.go; disruption/helpers.go (`SimulateScheduling`).
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.karpenter.model import NodePoolModel, TypeModel
from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.state import Node, Pod, PodKind, Room


class Claim:
    """A planned NodeClaim, with the types that fit its pods."""

    def __init__(self, pool: NodePoolModel, types: Sequence[TypeModel]) -> None:
        self.pool = pool
        self.types = list(types)
        self.pods: list[Pod] = []
        self.zone = ""  # of its pods' disks
        self._room = Room(_largest([kind.shape for kind in types]))

    def take(self, pod: Pod, placement: Placement) -> bool:
        spec = pod.spec
        if not self._room.fits(spec) or (pod.zone and self.zone not in ("", pod.zone)):
            return False
        types = [kind for kind in self.types if placement.takes(kind.shape, spec) and self._fits(kind.shape, spec)]
        if not types:
            return False
        self.types = types
        self.pods.append(pod)
        self.zone = self.zone or pod.zone
        self._room.take(spec)
        return True

    @property
    def cheapest(self) -> TypeModel:
        return min(self.types, key=lambda kind: (kind.usd, kind.shape.name))

    def below(self, usd: float) -> None:
        """Keep the types that cost less."""
        self.types = [kind for kind in self.types if kind.usd < usd]

    def _fits(self, shape: GroupModel, more: WorkloadModel) -> bool:
        pods = [pod.spec for pod in self.pods]
        return (
            len(pods) < shape.max_pods
            and sum(spec.cpu_m for spec in pods) + more.cpu_m <= shape.cpu_m
            and sum(spec.memory_mib for spec in pods) + more.memory_mib <= shape.memory_mib
            and sum(spec.gpu for spec in pods) + more.gpu <= shape.gpu
        )


def _largest(shapes: Sequence[GroupModel]) -> GroupModel:
    return GroupModel(
        name="",
        min=0,
        max=0,
        cpu_m=max(shape.cpu_m for shape in shapes),
        memory_mib=max(shape.memory_mib for shape in shapes),
        gpu=max(shape.gpu for shape in shapes),
        max_pods=max(shape.max_pods for shape in shapes),
    )


class SchedulingSimulation:
    """One simulation. The cluster is not changed.

    `moved`: names of pods on the nodes `without`, which consolidation would move. They do not go on a node that had a
    pod event within `consolidateAfter`; pods that wait, or whose node is being removed, do.
    """

    def __init__(
        self,
        fleet: Fleet,
        placement: Placement,
        without: Iterable[Node] = (),
        moved: AbstractSet[str] = frozenset(),
    ) -> None:
        excluded = {node.name for node in without}
        self._fleet = fleet
        self._moved = moved
        self._placement = placement
        self._nodes = [node for node in fleet.places() if node.name not in excluded]
        self._rooms: dict[str, Room] = {}
        self._first: dict[tuple[PodKind, bool], int] = {}  # nodes before it take no such pod: free sizes only shrink
        self._left = fleet.left_of_limits(excluded)
        self._pools = sorted(fleet.pools.values(), key=lambda pool: (-pool.weight, pool.name))
        self._hopeless: set[PodKind] = set()
        self.claims: list[Claim] = []
        self.placed: dict[str, tuple[Node, list[Pod]]] = {}
        self.unplaced: list[Pod] = []

    def put(self, pods: Iterable[Pod]) -> "SchedulingSimulation":
        ordered = sorted(pods, key=lambda pod: (-pod.spec.cpu_m, -pod.spec.memory_mib, int(pod.created_at), pod.name))
        for pod in ordered:
            if not (self._onto_node(pod) or self._onto_claim(pod) or self._onto_new_claim(pod)):
                self.unplaced.append(pod)
        return self

    def _onto_node(self, pod: Pod) -> bool:
        kind = pod.kind, pod.name in self._moved
        first = self._first.get(kind, 0)
        for number in range(first, len(self._nodes)):
            node = self._nodes[number]
            if pod.name in self._moved and not self._fleet.takes_moved_pods(node):
                continue
            room = self._rooms.get(node.name, node.room)
            if pod.may_run_on(node) and room.fits(pod.spec) and self._placement.takes(node.shape, pod.spec):
                if node.name not in self._rooms:
                    room = self._rooms[node.name] = room.copy()
                room.take(pod.spec)
                self.placed.setdefault(node.name, (node, []))[1].append(pod)
                self._first[kind] = number
                return True
        self._first[kind] = len(self._nodes)
        return False

    def _onto_claim(self, pod: Pod) -> bool:
        self.claims.sort(key=lambda claim: len(claim.pods))
        return any(claim.take(pod, self._placement) for claim in self.claims)

    def _onto_new_claim(self, pod: Pod) -> bool:
        if pod.kind in self._hopeless:
            return False
        for pool in self._pools:
            left = self._left.get(pool.name, {})
            types = [
                kind
                for kind in pool.types
                if all(kind.counts(name) <= most for name, most in left.items()) and self._fleet.is_offered(kind.shape)
            ]
            claim = Claim(pool, types) if types else None
            if claim is not None and claim.take(pod, self._placement):
                self.claims.append(claim)
                for resource in left.keys() - {"nodes"}:  # the largest node that the claim may become
                    left[resource] -= max(kind.counts(resource) for kind in claim.types)
                return True
        self._hopeless.add(pod.kind)
        return False
