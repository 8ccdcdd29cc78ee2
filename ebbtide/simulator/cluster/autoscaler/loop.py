"""When the autoscaler looks, and what one look does.

The real one looks every scan interval, at once after a look that changed something, and at once when a pod becomes
unschedulable. Here a look takes place only when something changed since the last one or a timer may have run out; it
falls on the beat that the real one would have, so a quiet month costs nothing.
"""

import math
import random

from ebbtide.simulator.cluster.autoscaler.drains import Drains
from ebbtide.simulator.cluster.autoscaler.pacing import Cooldown, Requests
from ebbtide.simulator.cluster.autoscaler.planner import Planner
from ebbtide.simulator.cluster.autoscaler.provisioning import Provisioning
from ebbtide.simulator.cluster.autoscaler.reach import Reach
from ebbtide.simulator.cluster.autoscaler.retention import RetainedNode
from ebbtide.simulator.cluster.autoscaler.scale_up import Growth, ScaleUp, too_new_until
from ebbtide.simulator.cluster.autoscaler.snapshot import Memory, Snapshot, Templates
from ebbtide.simulator.cluster.model import AutoscalerFlags, Eviction
from ebbtide.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.simulator.timeline import Handle, Timeline

AFTER_THE_SCHEDULER = 3
# As in logs of recorded runs.
A_LOOK_TAKES_S = 0.008
A_REMOVAL_TAKES_S = 0.01  # to close the nodes
REQUESTS_TO_CLOSE = 3  # to mark a node and to say so


class ModelledAutoscaler:
    def __init__(
        self,
        timeline: Timeline,
        state: ClusterState,
        reach: Reach,
        flags: AutoscalerFlags,
        rng: random.Random,
        *,
        clock_second: float | None = None,
    ) -> None:
        """`clock_second`: when the first second of the wall clock begins; by default at some random instant."""
        self._timeline = timeline
        self._state = state
        self._placement = reach.placement
        self._flags = flags
        self._rng = rng
        self._memory = Memory(rng, Templates(state.groups.values()))
        self._scale_up = ScaleUp(state, reach.machines, reach.placement, flags, self._memory)
        self._cooldown = Cooldown(flags)
        self._planner = Planner(state, reach.machines.counts, flags, self._cooldown, rng)
        self._drains = Drains(timeline, state, reach, flags, rng)
        self._drains.on_removed = lambda group: self._cooldown.removed(group, timeline.now)
        self._provisioning = Provisioning(state, reach.machines, flags)
        self._scale_up.paused = lambda group: self._provisioning.paused(group, timeline.now)
        self._requests = Requests(flags.scan_interval_s)
        self._free_from = 0.0  # the end of the last look
        self._second = 1.0 - (rng.random() if clock_second is None else clock_second)  # into one, at the start
        self._next: Handle | None = None

    @property
    def evictions(self) -> list[Eviction]:
        return self._drains.evictions

    def reasons(self) -> tuple[str, ...]:
        return tuple(sorted(why.about(workload) for why, workload in self._planner.reasons))

    def retained_seconds(self) -> dict[RetainedNode, float]:
        """Why nodes were kept so far, in node-seconds."""
        return self._planner.retention.seconds(self._timeline.now)

    def state_changed(self) -> None:
        """Look on the next beat."""
        self._look_at(self._beat(self._timeline.now))

    def pod_unschedulable(self) -> None:
        """Look now."""
        self._look_at(self._timeline.now)

    def _beat(self, t: float) -> float:
        """The first scan at `t` or after, counted from the last look."""
        period = self._flags.scan_interval_s + A_LOOK_TAKES_S
        beats = max(1, math.ceil((t - self._free_from) / period - 1e-9))
        return max(self._free_from + beats * period, self._timeline.now)  # rounding may fall short of now

    def _look_at(self, t: float) -> None:
        t = max(t, self._free_from, self._timeline.now)  # a beat of now may round to just before it
        if self._next is not None:
            if self._next.at <= t:
                return
            self._timeline.cancel(self._next)
        self._next = self._timeline.at(t, self._look, AFTER_THE_SCHEDULER)

    def _look(self) -> None:
        self._next = None
        now = self._timeline.now
        self._free_from = now + A_LOOK_TAKES_S + self._requests.status(now)  # before anything asks for the next look
        self._provisioning.look(now)
        snapshot = Snapshot(self._state, self._placement, self._memory)
        self._memory.templates.learn(snapshot.nodes, now)
        waiting, free_at = self._pods_without_place(snapshot), -math.inf
        grown = None
        if waiting:
            free_at = too_new_until(waiting, self._second)
            grown = self._scale_up.help(waiting) if free_at <= now else None
        if grown:
            self._cooldown.added(grown.groups, now)
        self._memory.waiting.forget_unconfirmed()
        self._planner.look(snapshot, now)
        self._memory.moved.forget_unconfirmed()
        free_at = max(free_at, self._cooldown.over_at)
        closed: list[Node] = []
        if free_at <= now:
            closed = self._drains.start(*self._planner.due(now, self._drains.in_progress()))
        if closed:
            self._cooldown.removal_began(now)
            self._planner.let_go(closed, now)
        self._planner.mark()
        self._act_for(grown, len(closed))
        if grown or closed:
            self._look_at(self._free_from)
        elif free_at > now:
            self._look_at(self._beat(free_at))
        timers = (
            self._planner.next_look(now),
            self._provisioning.next_look(now),
            self._cooldown.next_end(now),
            self._memory.templates.next_seen,
        )
        for timer in timers:
            if timer is not None:
                self._look_at(self._beat(timer))

    def _act_for(self, grown: Growth | None, closed: int) -> None:
        now = self._timeline.now
        if grown:
            self._free_from += grown.takes_s
            self._requests.events(now, grown.pods)
        if closed:
            self._free_from += A_REMOVAL_TAKES_S
            self._requests.events(now, closed * REQUESTS_TO_CLOSE)

    def _pods_without_place(self, snapshot: Snapshot) -> list[Pod]:
        """Try all that wait, and those about to be moved, on nodes that exist or boot, in no particular order."""
        pods = [*self._state.unschedulable.values(), *self._drains.pods_to_come()]
        if not pods:
            return []
        self._rng.shuffle(pods)
        return snapshot.put(pods)
