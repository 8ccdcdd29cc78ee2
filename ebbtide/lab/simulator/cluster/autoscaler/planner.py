"""Scale-down decisions: unneeded nodes, their timers, and the nodes to remove now.

An unremovable node is not checked again for a while, even after a change. So a budget that opens at closing time frees
no node for minutes. A removable node uses up its pods' share of the budgets and their new places, so a budget of one
gives one candidate at a time. Earlier candidates are checked first and keep their timers.

To save scans, a verdict is renewed without a check while its cause certainly persists. The next check is planned for
the time at which the real autoscaler would check.
"""

import math
import random
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.autoscaler.pacing import Cooldown
from ebbtide.lab.simulator.cluster.autoscaler.removal import Blocked, BudgetsLeft, DrainBlock, blocker
from ebbtide.lab.simulator.cluster.autoscaler.retention import Retention, RetentionLedger
from ebbtide.lab.simulator.cluster.autoscaler.snapshot import Snapshot
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, GroupModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod

GPU_UTILIZATION_THRESHOLD = 0.5
"""The default of a separate flag of the real autoscaler."""
# Constants, since the look-up of an enumeration's member is slow.
BUDGET, SYSTEM = DrainBlock.BUDGET, DrainBlock.SYSTEM
BOOTING, MINIMUM, RESTING, IN_USE = Retention.BOOTING, Retention.MINIMUM, Retention.RESTING, Retention.IN_USE


@dataclass(slots=True)
class ScaleDownCandidate:
    node: Node
    since: float
    to_move: list[Pod]
    risky: bool  # its pods share a budget that lets them go only one by one


@dataclass(slots=True)
class Unremovable:
    """A node that stays, with the reason and the time of its next check. `blocked` None: its pods fit nowhere else."""

    node: Node
    until: float
    blocked: Blocked | None
    version: int  # of the state at the check


class Planner:
    def __init__(
        self,
        state: ClusterState,
        counts: Mapping[str, int],
        flags: AutoscalerFlags,
        cooldown: Cooldown,
        rng: random.Random,
    ) -> None:
        self._state = state
        self._cooldown = cooldown
        self.retention = RetentionLedger()
        self._counts = counts
        self._flags = flags
        self._rng = rng
        self._unneeded: dict[str, ScaleDownCandidate] = {}
        self._verdicts: dict[str, Unremovable] = {}
        self._cut_short = False
        self.reasons: set[tuple[DrainBlock, str]] = set()

    def update(self, snapshot: Snapshot, now: float) -> None:
        """Find the unneeded nodes. Those that were unneeded before keep their timers."""
        budgets = BudgetsLeft(self._state.deployments)
        self._refresh_verdicts(now)
        nodes = self._in_order(snapshot, now)
        places = {node.name for node in snapshot.nodes if node.ready} if nodes else set[str]()
        candidates: dict[str, ScaleDownCandidate] = {}
        most = self._most_candidates()
        self._cut_short = False
        for node in nodes:
            if len(candidates) >= most:
                self._cut_short = True
                break
            if candidate := self._removable(node, snapshot, budgets, places, now):
                candidates[node.name] = candidate
                self.retention.note(node, Retention.NOT_YET, now)
        for name in self._unneeded:
            if name not in candidates and (node := self._state.nodes.get(name)):
                self._state.mark(node, unwanted=False)
        self._unneeded = candidates

    def due(
        self, now: float, in_progress: Mapping[str, int]
    ) -> tuple[list[ScaleDownCandidate], list[ScaleDownCandidate]]:
        """Empty nodes, and nodes to drain, whose timers have ended; groups keep their minimum."""
        sizes = {name: self._counts[name] - in_progress.get(name, 0) for name in self._counts}
        empty: list[ScaleDownCandidate] = []
        drain: list[ScaleDownCandidate] = []
        ripe = [candidate for candidate in self._unneeded.values() if now >= self._ripe_at(candidate)]
        self._rng.shuffle(ripe)  # the real one keeps them in a map
        for candidate in sorted(ripe, key=lambda candidate: bool(candidate.to_move)):
            group = candidate.node.shape
            if sizes[group.name] <= group.min:
                continue
            sizes[group.name] -= 1
            (drain if candidate.to_move else empty).append(candidate)
        return empty, sorted(drain, key=lambda candidate: candidate.risky)

    def _ripe_at(self, candidate: ScaleDownCandidate) -> float:
        unneeded_s = candidate.node.shape.scale_down_unneeded_s
        return candidate.since + (self._flags.scale_down_unneeded_s if unneeded_s is None else unneeded_s)

    def _most_candidates(self) -> int:
        """The limit of candidates: more could not be removed in time."""
        parallel = self._flags.max_scale_down_parallelism
        scans = max(1, int(self._flags.scale_down_unneeded_s / self._flags.scan_interval_s))
        return min(len(self._unneeded) + 2 * parallel, parallel * (scans + 1))

    def note_removal(self, nodes: Iterable[Node], now: float) -> None:
        for node in nodes:
            self.retention.note(node, Retention.GOING, now)

    def mark(self) -> None:
        """Mark unneeded nodes, so that the scheduler prefers others."""
        for candidate in self._unneeded.values():
            self._state.mark(candidate.node, unwanted=True)

    def next_timer(self, now: float) -> float | None:
        """The next end of a timer; None if only a change can matter."""
        times = [end for candidate in self._unneeded.values() if (end := self._ripe_at(candidate)) > now]
        if (recheck := self._next_recheck()) < math.inf:
            times.append(recheck)
        if self._cut_short:
            times.append(now)
        return min(times, default=None)

    def _next_recheck(self) -> float:
        """The earliest end of a verdict that does not persist. Called after every scan, for every busy node."""
        earliest, shut, nodes = math.inf, self._blocked_workloads(), self._state.nodes
        for verdict in self._verdicts.values():
            if verdict.until < earliest:
                blocked, node = verdict.blocked, verdict.node
                if blocked is not None and blocked.pod.workload in shut and blocked.pod.name in node.pods:
                    continue  # the common case, without a call
                if node.name in nodes and not self._persists(verdict, shut):
                    earliest = verdict.until
        return earliest

    def _blocked_workloads(self) -> set[str]:
        """The workloads whose budgets allow no eviction now."""
        return {name for name, owner in self._state.deployments.items() if owner.disruptions_allowed == 0}

    def _refresh_verdicts(self, now: float) -> None:
        """Drop the verdicts whose time is over, and renew those that persisted until then.

        Changes happened after the last scan; before it the real autoscaler would have found the same.
        """
        period = self._flags.unremovable_recheck_s
        over = [verdict for verdict in self._verdicts.values() if verdict.until <= now]
        shut = self._blocked_workloads() if over else set[str]()
        for verdict in over:
            name = verdict.node.name
            persisted = now if self._persists(verdict, shut) else now - self._flags.scan_interval_s
            if name not in self._state.nodes:
                persisted = -math.inf
            if verdict.until <= persisted:
                verdict.until += period * ((persisted - verdict.until) // period + 1)
            if verdict.until <= now:
                del self._verdicts[name]

    def _persists(self, verdict: Unremovable, shut: Container[str]) -> bool:
        """True if another check would certainly find the same. `shut`: workloads whose budgets allow no eviction."""
        blocked = verdict.blocked
        if blocked is None or blocked.why is SYSTEM or blocked.pod.name not in verdict.node.pods:
            return verdict.version == self._state.version
        return blocked.pod.workload in shut or blocked.why is not BUDGET or verdict.version == self._state.version

    def _in_order(self, snapshot: Snapshot, now: float) -> list[Node]:
        """The nodes to check: empty ones first, then the candidates of the last scan."""
        nodes: list[Node] = []
        autoscaled = self._state.autoscaled
        smallest = {name for name, group in autoscaled.items() if self._counts[name] <= group.min}
        resting = self._cooldown.resting(now)
        shut = self._blocked_workloads() if resting else set[str]()
        for node in snapshot.nodes:
            if node.shape.name not in autoscaled:
                continue
            if not node.ready:
                why = BOOTING
            elif node.shape.name in smallest:
                why = MINIMUM
            elif node.shape.name in resting:
                self._note_resting(node, snapshot, shut, now)
                continue
            elif node.name in self._verdicts:
                continue
            elif self._little_used(node, snapshot):
                nodes.append(node)
                continue
            else:
                why = IN_USE
            if self.retention.of(node) is not why:
                self.retention.note(node, why, now)
        self.retention.forget_gone(self._state.nodes, now)
        # The real one lists its nodes in random order.
        self._rng.shuffle(nodes)
        return sorted(nodes, key=lambda node: (not snapshot.empty(node), node.name not in self._unneeded))

    def _note_resting(self, node: Node, snapshot: Snapshot, shut: Container[str], now: float) -> None:
        """Prefer a reason that would retain the node without the delay."""
        if not self._little_used(node, snapshot):
            self.retention.note(node, IN_USE, now)
        elif blocking := next((name for name in node.room.by_workload if name in shut), None):
            self.retention.note(node, BUDGET, now, blocking)
        else:
            self.retention.note(node, RESTING, now)

    def _little_used(self, node: Node, snapshot: Snapshot) -> bool:
        shape, room = node.shape, snapshot.room(node)
        if shape.gpu:
            return shape.gpu - room.gpu <= GPU_UTILIZATION_THRESHOLD * shape.gpu
        threshold = shape.utilization_threshold
        threshold = self._flags.utilization_threshold if threshold is None else threshold
        return _most_used(shape, room.cpu_m, room.memory_mib) <= threshold

    def _removable(
        self, node: Node, snapshot: Snapshot, budgets: BudgetsLeft, places: set[str], now: float
    ) -> ScaleDownCandidate | None:
        pods = self._in_no_order(snapshot.pods_on(node))
        blocked = blocker(pods, self._flags, budgets, now)
        if blocked is None and snapshot.put_all(pods, lambda other: other is not node and other.name in places):
            places.discard(node.name)
            risky = not budgets.in_parallel(pods)
            budgets.take(pods)
            earlier = self._unneeded.get(node.name)
            return ScaleDownCandidate(node, earlier.since if earlier else now, pods, risky)
        self._verdicts[node.name] = Unremovable(
            node, now + self._flags.unremovable_recheck_s, blocked, self._state.version
        )
        if blocked:
            self.reasons.add((blocked.why, blocked.pod.workload))
            self.retention.note(node, blocked.why, now, blocked.pod.workload)
        else:
            self.retention.note(node, Retention.NO_OTHER_PLACE, now)
        return None

    def _in_no_order(self, pods: list[Pod]) -> list[Pod]:
        """Shuffle the pods, since the real autoscaler has them in a map: any blocking pod may be reported."""
        if len(pods) > 1 and any(pod.workload != pods[0].workload for pod in pods):
            self._rng.shuffle(pods)
        return pods


def _most_used(shape: GroupModel, free_cpu: int, free_memory: int) -> float:
    return max(1 - free_cpu / shape.cpu_m, 1 - free_memory / shape.memory_mib)
