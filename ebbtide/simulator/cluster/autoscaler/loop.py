"""When the autoscaler looks, and what one look does.

The real one looks every scan interval, at once after a look that changed something, and at once when a pod becomes
unschedulable. Here a look takes place only when something changed since the last one or a timer may have run out; it
falls on the beat that the real one would have, so a quiet month costs nothing.
"""

import math
import random

from ebbtide.simulator.cluster.autoscaler.drains import Drains
from ebbtide.simulator.cluster.autoscaler.planner import Planner
from ebbtide.simulator.cluster.autoscaler.reach import Reach
from ebbtide.simulator.cluster.autoscaler.scale_up import ScaleUp, too_new_until
from ebbtide.simulator.cluster.autoscaler.snapshot import Memory, Snapshot
from ebbtide.simulator.cluster.model import AutoscalerFlags, Eviction
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.simulator.timeline import Handle, Timeline

AFTER_THE_SCHEDULER = 3
A_LOOK_THAT_ACTS_TAKES_S = (0.1, 0.6)


def _anywhere(_: Node) -> bool:
    return True


class Autoscaler:
    def __init__(
        self, timeline: Timeline, state: ClusterState, reach: Reach, flags: AutoscalerFlags, rng: random.Random
    ) -> None:
        self._timeline = timeline
        self._state = state
        self._placement = reach.placement
        self._flags = flags
        self._rng = rng
        self._memory = Memory(rng)
        self._scale_up = ScaleUp(state, reach.machines, reach.placement, flags, rng)
        self._planner = Planner(state, reach.machines.counts, flags, rng)
        self._drains = Drains(timeline, state, reach, flags)
        self._last_look = 0.0
        self._second = rng.random()  # how far into a second of the wall clock the run starts
        self._last_grown = -math.inf
        self._last_shrunk = -math.inf
        self._next: Handle | None = None

    @property
    def evictions(self) -> list[Eviction]:
        return self._drains.evictions

    def reasons(self) -> tuple[str, ...]:
        return tuple(sorted(why.about(workload) for why, workload in self._planner.reasons))

    def state_changed(self) -> None:
        """Look on the next beat."""
        self._look_at(self._beat(self._timeline.now))

    def pod_unschedulable(self) -> None:
        """Look now."""
        self._look_at(self._timeline.now)

    def _beat(self, t: float) -> float:
        """The first scan at `t` or after, counted from the last look."""
        scan = self._flags.scan_interval_s
        beats = max(1, math.ceil((t - self._last_look) / scan - 1e-9))
        return max(self._last_look + beats * scan, self._timeline.now)

    def _look_at(self, t: float) -> None:
        if self._next is not None:
            if self._next.at <= t:
                return
            self._timeline.cancel(self._next)
        self._next = self._timeline.at(t, self._look, AFTER_THE_SCHEDULER)

    def _look(self) -> None:
        self._next = None
        now = self._last_look = self._timeline.now
        snapshot = Snapshot(self._state, self._placement, self._memory)
        waiting, free_at = self._pods_without_place(snapshot), -math.inf
        grown = False
        if waiting:
            free_at = too_new_until(waiting, self._second)
            grown = free_at <= now and self._scale_up.help(waiting)
        if grown:
            self._last_grown = now
        self._planner.look(snapshot, now)
        self._memory.forget_unconfirmed()
        free_at = max(
            free_at,
            self._last_grown + self._flags.scale_down_delay_after_add_s,
            self._last_shrunk + self._flags.scale_down_delay_after_delete_s,
        )
        shrunk = False
        if free_at <= now:
            shrunk = self._drains.start(*self._planner.due(now, self._drains.in_progress()))
        if shrunk:
            self._last_shrunk = now
        self._planner.mark()
        if grown or shrunk:
            self._look_at(now + self._rng.uniform(*A_LOOK_THAT_ACTS_TAKES_S))
        elif free_at > now:
            self._look_at(self._beat(free_at))
        if (timer := self._planner.next_look(now)) is not None:
            self._look_at(self._beat(timer))

    def _pods_without_place(self, snapshot: Snapshot) -> list[Pod]:
        """Try all that wait, and those about to be moved, on nodes that exist or boot, in no particular order."""
        pods = [*self._state.unschedulable.values(), *self._drains.pods_to_come()]
        if not pods:
            return []
        self._rng.shuffle(pods)
        return snapshot.put(pods, _anywhere)
