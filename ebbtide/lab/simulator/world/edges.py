"""The scaler's ports in virtual time, in place of Redis and Kubernetes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controllers.ports import (
    Action,
    Mark,
    ObservedCluster,
    Outcome,
    PoolName,
    Ports,
    Reading,
    ReconcileReport,
    Scale,
    SetBudget,
    Unknown,
)
from ebbtide.lab.simulator.world.world import World

_IDLE_COST = -100


@dataclass(slots=True)
class ActionCounts:
    """Actions of the controller that the results count."""

    budget_openings: int = 0
    scale_downs_to_zero: int = 0


class SimulatedDemand:
    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        missing = Unknown("no such queue in the replay")
        readings = self._world.readings()
        return {pool: readings.get(pool, missing) for pool in pools}


class SimulatedCluster:
    """Shows the published caches. A write takes effect at once, unless it is bound to an outdated version."""

    def __init__(self, world: World, tally: ActionCounts) -> None:
        self._world = world
        self._tally = tally

    def observe(self) -> ObservedCluster:
        return ObservedCluster(pools=dict(self._world.views.pools), budgets=dict(self._world.views.budgets))

    def act(self, action: Action) -> Outcome:
        if isinstance(action, Scale):
            return self._scale(action)
        if isinstance(action, Mark):
            return self._mark(action)
        return self._set_budget(action)

    def _scale(self, action: Scale) -> Outcome:
        if action.pool not in self._world.views.pools:
            return Outcome.REFUSED
        if action.version not in (None, self._world.version(action.pool)):
            return Outcome.STALE
        if action.replicas == 0 < self._world.cluster.replicas(action.pool):
            self._tally.scale_downs_to_zero += 1
        self._world.scale(action.pool, action.replicas)
        return Outcome.DONE

    def _mark(self, action: Mark) -> Outcome:
        if self._world.cluster.pod(action.pool, action.pod) is None:
            return Outcome.REFUSED
        self._world.annotate(action.pool, action.pod, _IDLE_COST if action.idle else 0)
        return Outcome.DONE

    def _set_budget(self, action: SetBudget) -> Outcome:
        if action.budget not in self._world.views.budgets:
            return Outcome.REFUSED
        if action.version not in (None, self._world.budget_version(action.budget)):
            return Outcome.STALE
        if action.max_unavailable > self._world.budget(action.budget):
            self._tally.budget_openings += 1
        self._world.set_budget(action.budget, action.max_unavailable)
        return Outcome.DONE


class SimulatedClock:
    def __init__(self, world: World) -> None:
        self._world = world
        self._start = world.setup.start.astimezone(UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._world.timeline.now)


class SimulatedWaker:
    """Waiting advances virtual time. Ends at the end of the replay."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wait(self, timeout: timedelta) -> bool:
        world, timeline = self._world, self._world.timeline
        end, read_s = world.setup.end_s, world.setup.read_s
        deadline = min(timeline.now + timeout.total_seconds(), end)
        read_at = max(deadline - read_s, timeline.now)
        while (upcoming := timeline.next_time()) is not None and upcoming <= min(read_at, world.notify_at - read_s):
            timeline.run_until(upcoming)
        timeline.run_until(max(min(read_at, world.notify_at - read_s), timeline.now))
        world.notify_at = math.inf
        timeline.run_until(min(world.read_queues(), end))
        return timeline.now < end


class SilentJournal:
    """Writes nothing: a replay of weeks would write a line for each turn."""

    def reconciled(self, report: ReconcileReport) -> None:
        pass

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        pass

    def noted(self, at: datetime, subject: str, message: str) -> None:
        pass


def ports_of(world: World, tally: ActionCounts) -> Ports:
    """The ports of one world."""
    return Ports(
        demand=SimulatedDemand(world),
        cluster=SimulatedCluster(world, tally),
        clock=SimulatedClock(world),
        waker=SimulatedWaker(world),
        journal=SilentJournal(),
    )
