"""How each fault begins and how it ends. The gaps between the controller's writes are where they are aimed at."""

from collections import Counter
from collections.abc import Callable
from random import Random

from tests.harness.agenda import Agenda
from tests.harness.checks import Checks
from tests.harness.cluster import Cluster, Pod
from tests.harness.crew import Crew
from tests.harness.queues import FAILOVER, Redis
from tests.harness.scenario import Scenario, Target
from tests.harness.words import Fault, Gap

API_ANSWERS = {Fault.API_CONFLICT, Fault.API_BUSY, Fault.API_ERROR, Fault.API_SLOW, Fault.API_DENIED}
API_FAULTS = {*API_ANSWERS, Fault.API_DROPPED, Fault.API_GONE, Fault.API_LAG}
_OF_ONE_POD = {Fault.NODE_DEAD, Fault.NODE_CUT, Fault.WORKER_FROZEN}
SUCCESSION = (15.0, 20.0)  # seconds until another replica holds the Lease
_REDIS_STATES = {
    Fault.REDIS_DEAD: "dead",
    Fault.REDIS_FROZEN: "frozen",
    Fault.REDIS_EMPTY: "dead",
    Fault.REDIS_RESTARTED: "dead",
    Fault.REDIS_FAILOVER: "dead",
    Fault.REDIS_FULL: "full",
    Fault.REDIS_AUTH: "auth",
}


class Faults:
    """The faults that stand now, and those still to come."""

    def __init__(self, scenario: Scenario, agenda: Agenda, random: Random) -> None:
        self._scenario = scenario
        self._agenda = agenda
        self._random = random
        self._to_come: list[Target] = list(scenario.targets)
        self.standing: dict[Fault, float] = {}  # since when
        self.over = False  # no more faults
        self.hits: Counter[tuple[Fault, Gap]] = Counter()
        self.begun: Counter[Fault] = Counter()
        self.lag = 0.0
        self.skew = 0.0
        self._excused_until = 0.0
        self._struck: dict[Fault, Pod] = {}
        self.redis: Redis
        self.cluster: Cluster
        self.crew: Crew
        self.checks: Checks
        self.end_controller: Callable[[float], None]  # with the seconds until another one starts
        self.say: Callable[[str], None] = lambda _text: None
        for at, fault in scenario.stray:
            agenda.after(at, lambda fault=fault: self._stray(fault))
        agenda.after(scenario.faults_end, self.end_all)

    def at_gap(self, gap: Gap) -> Fault | None:
        """Begin what was aimed at this gap, if anything; the crash and the loss of the Lease are the caller's part."""
        for target in self._to_come:
            if target.gap == gap and self._agenda.now >= target.armed_at and not self.over:
                self._to_come.remove(target)
                self.hits[target.fault, gap] += 1
                self.say(f"{target.fault}, {gap}")
                self.begin(target.fault)
                return target.fault
        return None

    def begin(self, fault: Fault) -> None:
        """It stands for a while; a second of its kind in that time changes nothing."""
        self.begun[fault] += 1
        if fault in self.standing or fault in {Fault.CRASH, Fault.LEASE_LOST}:
            return
        if fault in _REDIS_STATES and self.redis.state != "up":
            return
        self.standing[fault] = self._agenda.now
        lasting = self._random.uniform(0.5, 25.0)
        if fault in _REDIS_STATES:
            self.redis.trouble(_REDIS_STATES[fault])
            lasting = FAILOVER if fault is Fault.REDIS_FAILOVER else lasting
            lasting = self._random.uniform(0.1, 5.0) if "restarted" in fault else lasting
        elif fault is Fault.API_LAG:
            self.lag = self._random.uniform(0.5, 8.0)
        elif fault is Fault.API_GONE:
            lasting = self._random.uniform(0.5, 8.0)
        elif fault is Fault.CLOCK_SKEW:
            size = self._random.uniform(2, 50) if self._random.random() < 0.5 else self._random.uniform(65, 400)
            self._set_skew(size * self._random.choice([-1, 1]))
        elif fault in {Fault.DEPLOYMENT_DELETED, Fault.DEPLOYMENT_RENAMED}:
            pool = self.cluster.pools[self._random.choice(sorted(self.cluster.pools))]
            self.cluster.delete(pool, orphan=fault is Fault.DEPLOYMENT_RENAMED)
        elif fault is Fault.QUOTA:
            pool = self.cluster.pools[self._random.choice(sorted(self.cluster.pools))]
            self.cluster.set_quota(pool, len(pool.live()) + self._random.choice([0, 1, 1, 2]))
            lasting = self._random.uniform(10.0, 40.0)
            if self._random.random() < 0.6:
                self.begin(Fault.PODS_SILENT)
        elif fault is Fault.SLOW_START:
            self.cluster.slow_start = self._random.uniform(5.0, 30.0)
        elif fault in _OF_ONE_POD:
            self._strike(fault)
        self._agenda.after(lasting, lambda: self.end(fault))

    def end(self, fault: Fault) -> None:
        if fault not in self.standing:
            return
        self.excused_until()  # up to this very moment
        del self.standing[fault]
        self.say(f"no longer: {fault}")
        if fault in {Fault.REDIS_EMPTY, Fault.REDIS_RESTARTED}:
            self.redis.restart(empty=fault is Fault.REDIS_EMPTY)
        elif fault is Fault.REDIS_FAILOVER:
            self.redis.fail_over()
        elif fault in _REDIS_STATES:
            self.redis.recover()
        elif fault is Fault.API_LAG:
            self.lag = 0.0
        elif fault is Fault.CLOCK_SKEW:
            self._set_skew(0.0)
        elif fault in {Fault.DEPLOYMENT_DELETED, Fault.DEPLOYMENT_RENAMED}:
            for pool in self.cluster.pools.values():
                self.cluster.recreate(pool)
        elif fault is Fault.QUOTA:
            for pool in self.cluster.pools.values():
                self.cluster.set_quota(pool, None)
        elif fault is Fault.SLOW_START:
            self.cluster.slow_start = 0.0
        elif fault in _OF_ONE_POD:
            self._relieve(fault)

    def end_all(self) -> None:
        self.over = True
        for fault in list(self.standing):
            self.end(fault)

    def api_since(self) -> float | None:
        """Since when some fault of the API stands."""
        return min((since for fault, since in self.standing.items() if fault in API_FAULTS), default=None)

    def excused_until(self) -> float:
        """When the API last answered badly, or the clock was wrong by less than anybody can tell."""
        if self.api_since() is not None or (self.skew and not self.doubt()):
            self._excused_until = self._agenda.now
        return self._excused_until

    def doubt(self) -> str:
        return "the clocks are more than 60 s apart" if abs(self.skew) > 60 else ""

    def _strike(self, fault: Fault) -> None:
        """A pod that runs, one with a job if there is any."""
        running = [pod for pool in self.cluster.pools.values() for pod in pool.live() if pod.running_at >= 0]
        busy = [pod for pod in running if pod.job is not None]
        if not running:
            return
        pod = self._struck[fault] = self._random.choice(busy or running)
        self.say(f"{fault}: {pod.name}")
        if fault is Fault.WORKER_FROZEN:
            self.crew.freeze(pod)
            return
        if fault is Fault.NODE_DEAD:
            self.crew.power_cut(pod)
        # The node controller waits for a while before it believes in the silence.
        self._agenda.after(self._random.uniform(0.5, 6.0), lambda: self._fall_silent(fault, pod))

    def _fall_silent(self, fault: Fault, pod: Pod) -> None:
        if self._struck.get(fault) is pod:
            self.cluster.set_unreachable(pod, unreachable=True)

    def _relieve(self, fault: Fault) -> None:
        pod = self._struck.pop(fault, None)
        if pod is None:
            return
        if fault is Fault.WORKER_FROZEN:
            self.crew.thaw(pod)
        elif fault is Fault.NODE_CUT:
            self.cluster.set_unreachable(pod, unreachable=False)
        else:
            self.cluster.remove(pod)  # its node is taken out of the cluster, and the pod with it

    def _set_skew(self, skew: float) -> None:
        # What the wall clock gains at once, the controller's calm windows lose.
        self.checks.clock_jumped += max(0.0, skew - self.skew)
        self.skew = skew

    def _stray(self, fault: Fault) -> None:
        if self.over:
            return
        self.say(f"{fault}, at no gap")
        self.begin(fault)
        if fault is Fault.CRASH:
            self.end_controller(self._random.uniform(0.5, 20.0))
        elif fault is Fault.LEASE_LOST:
            self.end_controller(self._random.uniform(*SUCCESSION))
