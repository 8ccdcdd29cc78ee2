"""Shrinking, the decision: which nodes nobody needs, since when, and which of them may go now.

A node found unremovable is not looked at again for a while, whatever changes in between: that is why a budget opened
at closing time frees nothing for minutes. A node found removable takes its pods' share of the budgets and their new
places, so a budget of one makes one candidate at a time; earlier candidates are asked first and keep their timers.

To sleep while nothing can change, a verdict is repeated without looking as long as its cause is plainly still there;
the time of the next look is kept on the beat it would have in the real autoscaler.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.simulator.cluster.autoscaler.removal import Blocked, BudgetsLeft, Why, blocker
from ebbtide.simulator.cluster.autoscaler.snapshot import Snapshot
from ebbtide.simulator.cluster.model import AutoscalerFlags, GroupModel
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod

GPU_UTILIZATION_THRESHOLD = 0.5
"""A flag of its own in the real autoscaler, whose default hardly anyone changes."""


@dataclass(slots=True)
class Candidate:
    node: Node
    since: float
    to_move: list[Pod]
    risky: bool  # its pods share a budget that lets them go only one by one


@dataclass(slots=True)
class Verdict:
    """Why a node stays, and when it is looked at again. `blocked` None: its pods had no other place."""

    node: Node
    until: float
    blocked: Blocked | None
    version: int  # of the state it was found in


class Planner:
    def __init__(
        self, state: ClusterState, counts: Mapping[str, int], flags: AutoscalerFlags, rng: random.Random
    ) -> None:
        self._state = state
        self._counts = counts
        self._flags = flags
        self._rng = rng
        self._unneeded: dict[str, Candidate] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._cut_short = False
        self.reasons: set[tuple[Why, str]] = set()

    def look(self, snapshot: Snapshot, now: float) -> None:
        """Find anew which nodes are not needed. Keeps the timers of those that still are not."""
        budgets = BudgetsLeft(self._state.deployments)
        self._refresh_verdicts(now)
        asked = self._in_order(snapshot)
        places = {node.name for node in snapshot.nodes if node.ready} if asked else set[str]()
        found: dict[str, Candidate] = {}
        most = len(self._unneeded) + 2 * self._flags.max_scale_down_parallelism
        self._cut_short = False
        for node in asked:
            if len(found) >= most:
                self._cut_short = True
                break
            if candidate := self._removable(node, snapshot, budgets, places, now):
                found[node.name] = candidate
        for name in self._unneeded.keys() - found.keys():
            if node := self._state.nodes.get(name):
                node.unwanted = False
        self._unneeded = found

    def due(self, now: float, in_progress: Mapping[str, int]) -> tuple[list[Candidate], list[Candidate]]:
        """Empty nodes and nodes to drain that have been unneeded for long enough; groups keep their minimum."""
        sizes = {name: self._counts[name] - in_progress.get(name, 0) for name in self._counts}
        empty: list[Candidate] = []
        drain: list[Candidate] = []
        for candidate in sorted(self._unneeded.values(), key=lambda found: bool(found.to_move)):
            group = candidate.node.shape
            if now < candidate.since + self._flags.scale_down_unneeded_s or sizes[group.name] <= group.min:
                continue
            sizes[group.name] -= 1
            (drain if candidate.to_move else empty).append(candidate)
        return empty, sorted(drain, key=lambda candidate: candidate.risky)

    def mark(self) -> None:
        """Let the scheduler prefer nodes that are needed."""
        for candidate in self._unneeded.values():
            candidate.node.unwanted = True

    def next_look(self, now: float) -> float | None:
        """When a timer of this plan runs out; None when only a change can matter."""
        times = [
            end
            for candidate in self._unneeded.values()
            if (end := candidate.since + self._flags.scale_down_unneeded_s) > now
        ]
        times += [verdict.until for verdict in self._verdicts.values() if not self._stands(verdict)]
        if self._cut_short:
            times.append(now)
        return min(times, default=None)

    def _refresh_verdicts(self, now: float) -> None:
        """Drop the verdicts whose time is over, and repeat those that stood when it was.

        What changed did so since the last beat; before that beat nothing had, and the real one found the same.
        """
        period = self._flags.unremovable_recheck_s
        for name, verdict in list(self._verdicts.items()):
            if name not in self._state.nodes:
                del self._verdicts[name]
                continue
            stood = now if self._stands(verdict) else now - self._flags.scan_interval_s
            if verdict.until <= stood:
                verdict.until += period * ((stood - verdict.until) // period + 1)
            if verdict.until <= now:
                del self._verdicts[name]

    def _stands(self, verdict: Verdict) -> bool:
        """Whether another look would plainly find the same. False when in doubt."""
        if verdict.version == self._state.version:
            return True
        blocked = verdict.blocked
        if blocked is None or blocked.why is Why.SYSTEM or blocked.pod.name not in verdict.node.pods:
            return False
        return blocked.why is not Why.BUDGET or self._state.deployments[blocked.pod.workload].disruptions_allowed == 0

    def _in_order(self, snapshot: Snapshot) -> list[Node]:
        """Those that may be asked: empty ones first, then the candidates of the last look."""
        nodes = [
            node
            for node in snapshot.nodes
            if node.ready
            and node.name not in self._verdicts
            and self._counts[node.group] > node.shape.min
            and self._little_used(node, snapshot)
        ]
        # The real one lists its nodes in no order of its own.
        self._rng.shuffle(nodes)
        return sorted(nodes, key=lambda node: (not snapshot.empty(node), node.name not in self._unneeded))

    def _little_used(self, node: Node, snapshot: Snapshot) -> bool:
        shape, room = node.shape, snapshot.room(node)
        if shape.gpu:
            return shape.gpu - room.gpu <= GPU_UTILIZATION_THRESHOLD * shape.gpu
        return _most_used(shape, room.cpu_m, room.memory_mib) <= self._flags.utilization_threshold

    def _removable(
        self, node: Node, snapshot: Snapshot, budgets: BudgetsLeft, places: set[str], now: float
    ) -> Candidate | None:
        pods = snapshot.pods_on(node)
        blocked = blocker(pods, self._flags, budgets, now)
        if blocked is None and snapshot.put_all(pods, lambda other: other is not node and other.name in places):
            places.discard(node.name)
            risky = not budgets.in_parallel(pods)
            budgets.take(pods)
            earlier = self._unneeded.get(node.name)
            return Candidate(node, earlier.since if earlier else now, pods, risky)
        self._verdicts[node.name] = Verdict(node, now + self._flags.unremovable_recheck_s, blocked, self._state.version)
        if blocked:
            self.reasons.add((blocked.why, blocked.pod.workload))
        return None


def _most_used(shape: GroupModel, free_cpu: int, free_memory: int) -> float:
    return max(1 - free_cpu / shape.cpu_m, 1 - free_memory / shape.memory_mib)
