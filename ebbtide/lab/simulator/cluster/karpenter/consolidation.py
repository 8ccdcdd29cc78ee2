"""The nodes that Karpenter would remove, and their replacements.

A node is no candidate while it boots, is nominated, had a pod event less than `consolidateAfter` ago, or has a pod
that may not be evicted now. Each method looks at the candidates that budgets allow: all empty ones at once; then as
many as possible together, in the order of price per pod, if their pods fit on other nodes or one cheaper node; then a
single one. A method that finds nothing rests until the cluster changes, or for five minutes, unless a budget held a
candidate back.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/disruption: consolidation.go, emptiness.go,
multinodeconsolidation.go, singlenodeconsolidation.go, validation.go, helpers.go, types.go.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.autoscaler import DrainBlock, Retention
from ebbtide.lab.simulator.cluster.autoscaler.retention import RetentionLedger
from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.karpenter.model import DisruptionReason, allowed
from ebbtide.lab.simulator.cluster.karpenter.packing import Claim, SchedulingSimulation
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline

MOST_AT_ONCE = 100
EMPTY, UNDERUTILIZED = DisruptionReason.EMPTY, DisruptionReason.UNDERUTILIZED


@dataclass(frozen=True, slots=True)
class Candidate:
    node: Node
    pods: tuple[Pod, ...]  # that would move
    cost: float  # 1 for the node, and about 1 for each pod

    @property
    def empty(self) -> bool:
        return self.cost <= 1.0


@dataclass(frozen=True, slots=True)
class Command:
    reason: DisruptionReason
    nodes: tuple[Node, ...]
    replacement: Claim | None = None
    places: tuple[Node, ...] = ()  # nodes that the pods would move to


@dataclass(frozen=True, slots=True)
class Rest:
    """The state of the cluster when a method found nothing."""

    changes: int  # of nodes, pods and NodePools
    version: int  # of everything, budgets of pods included
    since: float


Method = Callable[[], Command | None]


class Consolidation:
    def __init__(self, timeline: Timeline, state: ClusterState, placement: Placement, fleet: Fleet) -> None:
        self._timeline = timeline
        self._state = state
        self._placement = placement
        self._fleet = fleet
        self.retention = RetentionLedger()
        self.methods: tuple[Method, ...] = (self._empty, self._several, self._one)
        self._rests: dict[Method, Rest] = {}

    @property
    def rests_in_vain(self) -> bool:
        """True if a change happened that does not end a rest, so another pass may find more."""
        now, version = self._timeline.now, self._state.version
        rests = [rest for rest in self._rests.values() if rest.changes == self._fleet.changes]
        ends = self._ends_of_waits() if rests else []
        return any(rest.version != version or any(rest.since < end <= now for end in ends) for rest in rests)

    def next_candidate_at(self) -> float | None:
        """The next end of a timer that makes a candidate."""
        now = self._timeline.now
        ends = self._ends_of_waits()
        ends += [budget.until_s for pool in self._fleet.pools.values() for budget in pool.budgets]
        return min((end for end in ends if now < end < float("inf")), default=None)

    def _ends_of_waits(self) -> list[float]:
        """When each node becomes a candidate; the end of a wait is not a change of the cluster."""
        return [
            end
            for node in self._fleet.nodes()
            if node.ready and not node.leaving
            for end in (self._fleet.consolidatable_at(node), self._fleet.nominated_until(node))
        ]

    def candidates(self, reason: DisruptionReason) -> list[Candidate]:
        found = [candidate for node in self._fleet.nodes() if (candidate := self._candidate(node))]
        return [
            candidate
            for candidate in found
            if candidate.empty == (reason is EMPTY)
            and (reason is EMPTY or not self._fleet.pool_of(candidate.node).only_empty)
        ]

    def _candidate(self, node: Node) -> Candidate | None:
        now = self._timeline.now
        if node.leaving:
            self.retention.note(node, Retention.GOING, now)
            return None
        if not node.ready:
            self.retention.note(node, Retention.BOOTING, now)
            return None
        blocked = next((pod for pod in node.pods.values() if self._blocks(pod)), None)
        if blocked is not None:
            self.retention.note(node, DrainBlock.BUDGET, now, blocked.workload)
            return None
        self.retention.note(node, Retention.NOT_YET, now)
        if now < self._fleet.nominated_until(node) or now < self._fleet.consolidatable_at(node):
            return None
        pods = tuple(pod for pod in node.pods.values() if not pod.stopping)
        return Candidate(node, pods, 1.0 + sum(max(0.0, _cost(pod)) for pod in pods))

    def _blocks(self, pod: Pod) -> bool:
        if pod.stopping:
            return False
        return pod.do_not_disrupt or self._state.deployments[pod.workload].disruptions_allowed == 0

    def _within_budgets(
        self, reason: DisruptionReason, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], bool]:
        """The candidates that budgets allow, in order, and whether a budget held one back."""
        left = self._allowed(reason)
        chosen: list[Candidate] = []
        for candidate in candidates:
            pool = self._fleet.pool_of(candidate.node).name
            if left[pool] > 0:
                left[pool] -= 1
                chosen.append(candidate)
        return chosen, len(chosen) < len(candidates)

    def _allowed(self, reason: DisruptionReason) -> dict[str, float]:
        nodes = [node for node in self._fleet.nodes() if node.ready]
        counts = Counter(self._fleet.pool_of(node).name for node in nodes)
        going = Counter(self._fleet.pool_of(node).name for node in nodes if node.leaving)
        return {
            name: max(0, allowed(pool.budgets, reason, counts[name], self._timeline.now) - going[name])
            for name, pool in self._fleet.pools.items()
        }

    def _resting(self, method: Method) -> bool:
        return method in self._rests and self._rests[method].changes == self._fleet.consolidation_state()

    def _rest(self, method: Method, *, held_back: bool) -> None:
        if not held_back:
            self._rests[method] = Rest(self._fleet.consolidation_state(), self._state.version, self._timeline.now)

    def _empty(self) -> Command | None:
        candidates = self.candidates(EMPTY)
        if not candidates or self._resting(self._empty):
            return None
        chosen, held_back = self._within_budgets(EMPTY, candidates)
        if not chosen:
            self._rest(self._empty, held_back=held_back)
            return None
        return Command(EMPTY, tuple(candidate.node for candidate in chosen))

    def _several(self) -> Command | None:
        candidates = self.candidates(UNDERUTILIZED)
        if not candidates or self._resting(self._several):
            return None
        chosen, held_back = self._within_budgets(UNDERUTILIZED, self._dearest_first(candidates))
        best = None
        low, high = 1, min(len(chosen) - 1, MOST_AT_ONCE)
        while low <= high:
            middle = (low + high) // 2
            command = self._cheaper(chosen[: middle + 1])
            if command and command.replacement:
                self._drop_same_types(command)
            if command and (command.replacement is None or command.replacement.types):
                best, low = command, middle + 1
            else:
                high = middle - 1
        if best is None:
            self._rest(self._several, held_back=held_back)
        return best

    def _one(self) -> Command | None:
        candidates = self.candidates(UNDERUTILIZED)
        if not candidates or self._resting(self._one):
            return None
        left, held_back = self._allowed(UNDERUTILIZED), False
        for candidate in self._in_turn(self._dearest_first(candidates)):
            if left[self._fleet.pool_of(candidate.node).name] <= 0:
                held_back = True
            elif command := self._cheaper([candidate]):
                return command
            else:
                self.retention.note(candidate.node, Retention.NO_OTHER_PLACE, self._timeline.now)
        self._rest(self._one, held_back=held_back)
        return None

    def _dearest_first(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return sorted(candidates, key=lambda candidate: -self._fleet.type_of(candidate.node).usd / candidate.cost)

    def _in_turn(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Alternate between NodePools."""
        turns: Counter[str] = Counter()
        ranked: list[tuple[int, Candidate]] = []
        for candidate in candidates:
            pool = self._fleet.pool_of(candidate.node).name
            ranked.append((turns[pool], candidate))
            turns[pool] += 1
        return [candidate for _, candidate in sorted(ranked, key=lambda entry: entry[0])]

    def _cheaper(self, candidates: Sequence[Candidate]) -> Command | None:
        """Remove the nodes, or replace them by one that costs less than they do together."""
        packing = self._packed(candidates)
        if packing is None or len(packing.claims) > 1:
            return None
        nodes = tuple(candidate.node for candidate in candidates)
        places = tuple(node for node, _ in packing.placed.values())
        if not packing.claims:
            return Command(UNDERUTILIZED, nodes, places=places)
        (claim,) = packing.claims
        claim.below(sum(self._fleet.type_of(node).usd for node in nodes))
        if not claim.types or (claim.pool.spot and all(self._fleet.pool_of(node).spot for node in nodes)):
            return None
        return Command(UNDERUTILIZED, nodes, claim, places)

    def _packed(self, candidates: Sequence[Candidate]) -> SchedulingSimulation | None:
        """The simulation without these nodes; None if one of their pods has no place on a node that is ready."""
        moved = [pod for candidate in candidates for pod in candidate.pods if self._fleet.movable(pod)]
        waiting = [pod for pod in self._state.unschedulable.values() if not pod.stopping]
        to_move = self._fleet.pods_to_move()
        removed = [candidate.node for candidate in candidates]
        packing = SchedulingSimulation(self._fleet, self._placement, removed, {pod.name for pod in moved})
        packing.put([*waiting, *moved, *to_move])
        leaving = {pod.name for pod in to_move}
        pending = {pod.name for pod in waiting}
        booting = [pod for node, pods in packing.placed.values() if not node.ready for pod in pods]
        if any(pod.name not in leaving for pod in booting) or any(pod.name not in pending for pod in packing.unplaced):
            return None
        return packing

    def _drop_same_types(self, command: Command) -> None:
        """A replacement of the same type as a removed node must be cheaper than removing only the other nodes."""
        claim = command.replacement
        if claim is not None:
            removed = {node.group for node in command.nodes}
            same = [kind.usd for kind in claim.types if kind.shape.name in removed]
            if same:
                claim.below(min(same))

    def confirmed(self, command: Command) -> Command | None:
        """Check nodes, pods and budgets again; None if the command is given up."""
        valid = {candidate.node.name: candidate for candidate in self.candidates(command.reason)}
        candidates = [valid[node.name] for node in command.nodes if node.name in valid]
        within, held_back = self._within_budgets(command.reason, candidates)
        if command.reason is EMPTY:
            return Command(EMPTY, tuple(candidate.node for candidate in within)) if within else None
        if held_back or len(candidates) < len(command.nodes):
            return None
        packing = self._packed(candidates)
        if packing is None or len(packing.claims) != (command.replacement is not None):
            return None
        if command.replacement is not None:
            possible = {kind.shape.name for kind in packing.claims[0].types}
            if any(kind.shape.name not in possible for kind in command.replacement.types):
                return None
        return command


def _cost(pod: Pod) -> float:
    """A pod's disruption cost, from its deletion cost. At the lowest one, the pod's node may count as empty."""
    return min(max(1.0 + pod.deletion_cost / 2.0**27, -10.0), 10.0)
