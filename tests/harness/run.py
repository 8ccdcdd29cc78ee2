"""One seeded run: the real loop in the modelled world, through faults and then through a quiet time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Any
from unittest.mock import patch

from controllers.scaler.loop import Loop
from controllers.scaler.workers import refusals
from tests.harness.bugs import NO_BUG, Bug
from tests.harness.checks import TWO_SWEEPS, WINDOW_LIMIT, Broken
from tests.harness.cluster import Deployment
from tests.harness.edges import Crash, Edges
from tests.harness.scenario import FLEXIBLE, scenario
from tests.harness.words import Fault, Gap, Violation
from tests.harness.world import World

# The production waits of minutes, compressed as the nights are.
PAUSES: dict[str, Any] = {
    "PATIENCE": timedelta(seconds=2),
    "FIRST_PAUSE": timedelta(seconds=5),
    "LONGEST_PAUSE": timedelta(seconds=5),
}
BETWEEN_TURNS = 0.2  # seconds at least: a storm of hints is one reading
LIMIT = 420.0  # seconds after the last fault at which every job must be over


@dataclass(slots=True, kw_only=True)
class RunResult:
    seed: int
    events: int = 0
    turns: int = 0
    violation: Violation | None = None
    hits: Counter[tuple[Fault, Gap]] = field(default_factory=Counter[tuple[Fault, Gap]])
    begun: Counter[Fault] = field(default_factory=Counter[Fault])
    checked: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    stale_waits: list[float] = field(default_factory=list[float])


def run(seed: int, bug: Bug = NO_BUG, trace: Callable[[str], None] | None = None) -> RunResult:
    with bug.patched(), patch.multiple(refusals, **PAUSES):
        return Run(seed, bug, trace).result()


class Run:
    def __init__(self, seed: int, bug: Bug, trace: Callable[[str], None] | None) -> None:
        self._habits = bug.habits()
        self._scenario = scenario(seed)
        self._config = bug.config(self._scenario.config)
        self.world = World(self._scenario, seed, trace=trace)
        self._agenda = self.world.agenda
        self._result = RunResult(seed=seed)
        self._edges: Edges | None = None
        self._loop: Loop | None = None
        self._number = 0
        self._due = 0.0
        self._last_turn = -inf
        self._bad_since: dict[str, float] = {}
        self._quiet_since: dict[str, float] = {}
        self._to_open = [at for at in self._scenario.window_starts() if at > self._scenario.faults_end]
        self._met_demand = False
        self.world.hint = self._hint
        self.world.successor_in = self._successor_in
        self.world.faults.end_controller = self._kill

    def result(self) -> RunResult:
        try:
            self._start()
            self._drive()
        except Broken as broken:
            self._result.violation = broken.violation
        return self._summed_up()

    # --- the controller's lives -----------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._loop is not None:
            return
        self._number += 1
        self.world.say(f"controller {self._number} starts")
        self._edges = Edges(self.world, self._number, self._habits)
        self._loop = Loop(self._config, self._edges.ports())
        self._due = self._agenda.now

    def _gone(self) -> None:
        self._loop = self._edges = None
        self._due = inf

    def _kill(self, back_in: float) -> None:
        """At no gap in particular: it ends where it is."""
        if self._edges is not None:
            self._edges.doomed = True
            self._successor_in(back_in)

    def _successor_in(self, delay: float) -> None:
        delay = min(delay, max(0.0, self._scenario.faults_end - self._agenda.now))
        self._agenda.after(delay, self._start_when_gone)

    def _start_when_gone(self) -> None:
        if self._edges is not None and (self._edges.doomed or self._edges.lost_the_lease):
            self._gone()
        self._start()

    def _hint(self, delay: float) -> None:
        self._due = min(self._due, max(self._agenda.now + delay, self._last_turn + BETWEEN_TURNS))

    def _turn(self) -> None:
        loop, edges = self._loop, self._edges
        if loop is None or edges is None:
            self._due = inf
            return
        self._result.turns += 1
        edges.turn_at = self._last_turn = self._agenda.now
        edges.doubt_then, edges.skew_then = self.world.faults.doubt(), self.world.faults.skew
        self._due = inf  # hints that come while it turns count
        try:
            pause = loop.reconcile(self.world.wall_time()).total_seconds()
        except Crash:
            self.world.say(f"controller {self._number} is gone")
            if self._edges is edges:
                self._gone()
            return
        if self._edges is edges:
            self._due = min(self._due, edges.turn_at + max(pause, 0.001))
            if edges.lost_the_lease:
                self._gone()

    # --- driving --------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        end = self._scenario.faults_end
        for pool in self._scenario.config.pools:
            self._agenda.after(end + 0.001, lambda name=pool.name: self.world.enqueue(name))
        while True:
            at = min(self._agenda.next_at(), self._due)
            if at > end + LIMIT:
                break
            if self._due <= self._agenda.next_at():
                self._agenda.run_until(max(self._due, self._agenda.now))
                self._turn()
            else:
                self._agenda.run_until(at)
            self._watch_budgets()
            if self.world.faults.over and self._quiet_part():
                return
        left = {name: queue.in_flight for name, queue in self.world.redis.queues.items() if not queue.is_quiet()}
        self.world.checks.fail("every job is over in the end", f"left: {left}")

    def _watch_budgets(self) -> None:
        now = self._agenda.now
        excused, doubted = self.world.faults.excused_until(), bool(self.world.faults.doubt())
        up = self._loop is not None
        for name in FLEXIBLE:
            budget = self.world.cluster.budgets[name]
            wrong = budget.value == 1 and (doubted or not self._scenario.in_window(now))
            closer = self._scenario.closer_works and self._scenario.in_hours(now)
            if not wrong or not (up or closer):
                self._bad_since.pop(name, None)
                continue
            since = max(self._bad_since.setdefault(name, now), excused)
            if up:
                self.world.checks.left_open(name, since)

    # --- the quiet time -------------------------------------------------------------------------------------------

    def _quiet_part(self) -> bool:
        """Judge liveness; True when nothing is left to judge."""
        now, checks = self._agenda.now, self.world.checks
        since = self._scenario.faults_end
        if not self._met_demand and now >= since + TWO_SWEEPS:
            self._met_demand = True
            for pool in self.world.cluster.pools.values():
                checks.has_workers(pool)
            checks.hold("the controller is back within two sweeps", self._recovered(since), "it could not read")
        while self._to_open and now >= self._to_open[0] + WINDOW_LIMIT:
            start = self._to_open.pop(0)
            if self._scenario.in_window(now):
                for name in FLEXIBLE:
                    checks.opened_in_time(name, bool(self.world.cluster.budgets[name].value), start)
        done = [self._is_at_rest(pool, now) for pool in self.world.cluster.pools.values()]
        return all(done) and self._met_demand and now > since + 60

    def _recovered(self, since: float) -> bool:
        return self._edges is not None and self._last_turn > since and self._edges.could_read

    def _is_at_rest(self, pool: Deployment, now: float) -> bool:
        policy = self.world.checks.policy_of(pool.name)
        quiet = self._is_quiet(pool)
        if not quiet:
            self._quiet_since.pop(pool.name, None)
            return False
        since = self._quiet_since.setdefault(pool.name, now)
        if not policy.safe_stop:
            return True
        self.world.checks.zero_in_time(pool, now - since)
        return pool.replicas <= policy.min_workers

    def _is_quiet(self, pool: Deployment) -> bool:
        queue = self.world.redis.queues[pool.name]
        trusted = self._edges is not None and self._edges.trusted.get(pool.name, False)
        idle = all(pod.running_at >= 0 and pod.name in queue.workers for pod in pool.live())
        return queue.is_quiet() and trusted and idle and pool.settled

    def _summed_up(self) -> RunResult:
        world, result = self.world, self._result
        result.events = self._agenda.events + result.turns
        result.hits, result.begun, result.checked = world.faults.hits, world.faults.begun, world.checks.checked
        result.counts = world.checks.counts + world.counts + world.redis.counts + world.crew.counts
        result.counts["controllers started"] = self._number
        result.stale_waits = world.crew.stale_waits
        return result
