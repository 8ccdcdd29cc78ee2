"""The scans of the autoscaler.

The real one scans every scan interval, and at once after a scan that changed something or when a pod becomes
unschedulable. Here a scan runs only after a change or when a timer may have ended, at a time at which the real one
would scan. So a quiet month costs nothing.
"""

import math
import random

from ebbtide.lab.simulator.cluster.autoscaler.drains import Drains
from ebbtide.lab.simulator.cluster.autoscaler.pacing import ApiRateLimiter, Cooldown
from ebbtide.lab.simulator.cluster.autoscaler.planner import Planner
from ebbtide.lab.simulator.cluster.autoscaler.provisioning import Provisioning
from ebbtide.lab.simulator.cluster.autoscaler.reach import Reach
from ebbtide.lab.simulator.cluster.autoscaler.retention import RetainedNode
from ebbtide.lab.simulator.cluster.autoscaler.scale_up import Growth, ScaleUp, too_new_until
from ebbtide.lab.simulator.cluster.autoscaler.snapshot import Memory, Snapshot, Templates
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, Eviction
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Handle, Timeline

AFTER_THE_SCHEDULER = 3
# From logs of recorded runs.
SCAN_TAKES_S = 0.008
REMOVAL_TAKES_S = 0.01  # to close the nodes
REQUESTS_TO_CLOSE = 3  # taint and events of a node


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
        """`clock_second`: when the first second of the wall clock begins; random by default."""
        self._timeline = timeline
        self._state = state
        self._placement = reach.placement
        self._flags = flags
        self._rng = rng
        self._memory = Memory(rng, Templates(state.autoscaled.values()))
        self._scale_up = ScaleUp(state, reach.machines, reach.placement, flags, self._memory)
        self._cooldown = Cooldown(flags)
        self._planner = Planner(state, reach.machines.counts, flags, self._cooldown, rng)
        self._drains = Drains(timeline, state, reach, flags, rng)
        self._drains.on_removed = lambda group: self._cooldown.removed(group, timeline.now)
        self._provisioning = Provisioning(state, reach.machines, flags)
        self._scale_up.paused_zones = lambda group: self._provisioning.paused_zones(group, timeline.now)
        self._requests = ApiRateLimiter(flags.scan_interval_s)
        self._free_from = 0.0  # the end of the last scan
        self._second = 1.0 - (
            rng.random() if clock_second is None else clock_second
        )  # the part of a wall-clock second that has passed at the start
        self._next: Handle | None = None

    @property
    def evictions(self) -> list[Eviction]:
        return self._drains.evictions

    def reasons(self) -> tuple[str, ...]:
        return tuple(sorted(why.about(workload) for why, workload in self._planner.reasons))

    def retained_seconds(self) -> dict[RetainedNode, float]:
        """Node-seconds up to now by the reason that retained the node."""
        return self._planner.retention.seconds(self._timeline.now)

    def state_changed(self) -> None:
        """Scan at the next scan interval."""
        self._scan_at(self._scan_time(self._timeline.now))

    def pod_unschedulable(self) -> None:
        """Scan now."""
        self._scan_at(self._timeline.now)

    def _scan_time(self, t: float) -> float:
        """The first scan at or after `t`, counted in scan intervals from the last scan."""
        period = self._flags.scan_interval_s + SCAN_TAKES_S
        periods = max(1, math.ceil((t - self._free_from) / period - 1e-9))
        return max(self._free_from + periods * period, self._timeline.now)  # rounding may give a time just before now

    def _scan_at(self, t: float) -> None:
        t = max(t, self._free_from, self._timeline.now)  # rounding may give a time just before now
        if self._next is not None:
            if self._next.at <= t:
                return
            self._timeline.cancel(self._next)
        self._next = self._timeline.at(t, self._scan, AFTER_THE_SCHEDULER)

    def _scan(self) -> None:
        self._next = None
        now = self._timeline.now
        self._free_from = now + SCAN_TAKES_S + self._requests.status(now)  # before the next scan is planned
        self._provisioning.update(now)
        snapshot = Snapshot(self._state, self._placement, self._memory)
        self._memory.templates.learn(snapshot.nodes, now)
        waiting, free_at = self._unplaced_pods(snapshot), -math.inf
        grown = None
        if waiting:
            free_at = too_new_until(waiting, self._second)
            grown = self._scale_up.help(waiting) if free_at <= now else None
        if grown:
            self._cooldown.added(grown.groups, now)
        self._memory.waiting.forget_unconfirmed()
        self._planner.update(snapshot, now)
        self._memory.moved.forget_unconfirmed()
        free_at = max(free_at, self._cooldown.over_at)
        closed: list[Node] = []
        if free_at <= now:
            closed = self._drains.start(*self._planner.due(now, self._drains.in_progress()))
        if closed:
            self._cooldown.removal_began(now)
            self._planner.note_removal(closed, now)
        self._planner.mark()
        self._account(grown, len(closed))
        if grown or closed:
            self._scan_at(self._free_from)
        elif free_at > now:
            self._scan_at(self._scan_time(free_at))
        timers = (
            self._planner.next_timer(now),
            self._provisioning.next_timer(now),
            self._cooldown.next_end(now),
            self._memory.templates.next_seen,
        )
        for timer in timers:
            if timer is not None:
                self._scan_at(self._scan_time(timer))

    def _account(self, grown: Growth | None, closed: int) -> None:
        now = self._timeline.now
        if grown:
            self._free_from += grown.takes_s
            self._requests.events(now, grown.pods)
        if closed:
            self._free_from += REMOVAL_TAKES_S
            self._requests.events(now, closed * REQUESTS_TO_CLOSE)

    def _unplaced_pods(self, snapshot: Snapshot) -> list[Pod]:
        """Try waiting pods and pods to move on existing and booting nodes; return those without a node."""
        pods = [*self._state.unschedulable.values(), *self._drains.pods_to_move()]
        if not pods:
            return []
        self._rng.shuffle(pods)
        return snapshot.put(pods)
