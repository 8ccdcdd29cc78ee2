"""The modelled world of one run, without its controller: time, Redis, workers, cluster, closer, autoscaler, faults."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from controllers.ports import SetBudget
from tests.harness.agenda import Agenda
from tests.harness.checks import Checks
from tests.harness.cluster import Cluster, Listeners
from tests.harness.crew import Crew
from tests.harness.faults import Faults
from tests.harness.queues import Redis
from tests.harness.scenario import FIXED, FLEXIBLE, Scenario

JOB_SECONDS = (0.2, 1.0, 3.0, 8.0, 25.0)
CLOSER_RETRY = 10.0


class World:
    def __init__(self, scenario: Scenario, seed: int, *, trace: Callable[[str], None] | None = None) -> None:
        self.scenario = scenario
        self.random = Random(f"world {seed}")
        self.trace = trace
        self.agenda = Agenda()
        self.counts: Counter[str] = Counter()
        self.redis = Redis(self.agenda, self.random, [pool.name for pool in scenario.config.pools])
        self.cluster = Cluster(self.agenda, self.random)
        self.checks = Checks(scenario, self.redis, lambda: self.agenda.now)
        self.crew = Crew(self.agenda, self.random, self.redis, self.cluster)
        self.faults = Faults(scenario, self.agenda, self.random)
        self.hint: Callable[[float], None] = lambda _delay: None
        self.successor_in: Callable[[float], None] = lambda _delay: None
        self._wire()
        self._populate()

    def wall_time(self) -> datetime:
        """What the controller's clock says, with its skew."""
        return self.scenario.start + timedelta(seconds=self.agenda.now + self.faults.skew)

    def say(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.agenda.now:8.3f}  {text}")

    def _wire(self) -> None:
        self.redis.on_news = self._news
        self.cluster.tell = Listeners(
            started=self.crew.started,
            stopping=self.crew.stopping,
            lowering=self.checks.lowering,
            victim=self.checks.victim,
            changed=lambda: self.hint(0.05),
        )
        self.faults.redis = self.redis
        self.faults.cluster = self.cluster
        self.faults.crew = self.crew
        self.faults.checks = self.checks
        self.faults.say = self.say

    def _populate(self) -> None:
        for pool in self.scenario.config.pools:
            self.cluster.add_pool(pool.name, safe_stop=pool.safe_stop)
            self._burst_later(pool.name)
        for name in FLEXIBLE:
            self.cluster.add_budget(name, fixed=False)
        self.cluster.add_budget(FIXED, fixed=True)
        self.cluster.kubelet_lag = self.random.choice([0.0, 0.0, 0.02])
        for closing in self.scenario.closing_times():
            if self.scenario.closer_works and closing > 0:
                self.agenda.after(closing, self._close)
        self.agenda.after(1.0, self._evict)
        self.agenda.after(self.random.uniform(20, 60), self._disturb)

    # --- load -----------------------------------------------------------------------------------------------------

    def _news(self, pool: str) -> None:
        self.crew.news(pool)
        self.hint(0.02)

    def _burst_later(self, pool: str) -> None:
        self.agenda.after(
            self.random.choice([0.5, 3.0, 8.0, 25.0, 45.0]) * self.random.random(), lambda: self._burst(pool)
        )

    def _burst(self, pool: str) -> None:
        if self.faults.over:
            return
        self.enqueue(pool)
        self._burst_later(pool)

    def enqueue(self, pool: str) -> None:
        for _ in range(self.random.choice([1, 1, 2, 5, 9])):
            self.redis.enqueue(pool, self.random.choice(JOB_SECONDS) * self.random.random())

    # --- others at work -------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """The closer: at opening less the guard, whether or not the controller lives."""
        if self.faults.api_since() is not None:
            self.agenda.after(CLOSER_RETRY, self._close)
            return
        if self.scenario.in_window(self.agenda.now):
            return
        for budget in self.cluster.budgets.values():
            if budget.value:
                self.counts["closed by the closer"] += 1
                self.say(f"closer: {budget.name} to 0")
                self.cluster.set_budget(
                    SetBudget(budget=budget.name, max_unavailable=0, version=None, reason="closing time")
                )

    def _evict(self) -> None:
        """The cluster autoscaler drains what open budgets allow."""
        for budget in self.cluster.budgets.values():
            if budget.value and budget.settled:
                self.checks.hold("no fixed pod is evicted", not budget.fixed, budget.name)
                hours = self.scenario.in_hours(self.agenda.now)
                self.counts["evictions in business hours, excused" if hours else "evictions by night"] += 1
        self.agenda.after(self.random.uniform(3, 9), self._evict)

    def _disturb(self) -> None:
        """Rollouts and lost nodes."""
        if self.faults.over:
            return
        pool = self.cluster.pools[self.random.choice(sorted(self.cluster.pools))]
        running = [pod for pod in pool.live() if pod.running_at >= 0]
        if self.random.random() < 0.7:
            self.say(f"rollout of {pool.name}")
            self.cluster.roll_out(pool)
        elif running:
            lost = self.random.choice(running)
            self.say(f"{lost.name} is lost with its node")
            self.counts["pods lost with a node"] += 1
            self.crew.lose(lost)
        self.agenda.after(self.random.uniform(20, 60), self._disturb)
