"""The ports of one incarnation of the controller, with the modelled world and its faults behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from controllers.adapters.trust import Trust
from controllers.doubt import TRUST, Doubt
from controllers.ports import (
    Action,
    Mark,
    ObservedCluster,
    ObservedPool,
    Outcome,
    PoolName,
    Ports,
    Reading,
    ReconcileReport,
    Scale,
    SetBudget,
    Unknown,
    Untrusted,
)
from tests.harness.faults import Faults
from tests.harness.habits import Habits
from tests.harness.words import Fault, Gap, When, Write, WriteKind
from tests.harness.world import World

DISTRUST = timedelta(seconds=40)  # the production limit, compressed as the nights are
SILENCE = 2.0  # seconds without a word from the API until the caches are not believed
TIMEOUT = 2.0  # seconds until a request is given up
REDIS_TIMEOUT = 0.5


class Crash(BaseException):
    """The controller's process ends here."""


class Edges:
    """Demand, cluster, clock, waker and journal of incarnation `number`."""

    def __init__(self, world: World, number: int, habits: Habits) -> None:
        self._world = world
        self._faults: Faults = world.faults
        self._number = number
        self._habits = habits
        self._trust = Trust(DISTRUST)
        self._objects_at = self._pods_at = world.agenda.now
        self._combined: dict[PoolName, tuple[object, object, ObservedPool]] = {}
        self._seen = ObservedCluster()
        self._fenced = False
        self.read_at = -1.0
        self.turn_at = 0.0
        self.doubt_then, self.skew_then = "", 0.0  # when the turn began
        self.doomed = False  # to crash at the next chance
        self.trusted: dict[PoolName, bool] = {}
        self.could_read = False

    def ports(self) -> Ports:
        return Ports(demand=self, cluster=self, clock=self, waker=self, journal=self, doubt=self._doubt)

    def _doubt(self) -> Doubt:
        why = self._faults.doubt() if self._habits.doubts else ""
        return Doubt(why, (timedelta(seconds=-self._faults.skew),)) if why else TRUST

    @property
    def lost_the_lease(self) -> bool:
        return self._fenced

    # --- clock, waker, journal ------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self._world.wall_time()

    def wait(self, timeout: timedelta) -> bool:  # noqa: ARG002 - the port's signature
        raise AssertionError("the harness turns the loop itself")

    def reconciled(self, report: ReconcileReport) -> None:
        """The harness looks at the cluster, and not at what the controller says of it."""

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:  # noqa: ARG002 - the port's signature
        self._world.counts[f"writes {outcome}"] += 1

    def noted(self, at: datetime, subject: str, message: str) -> None:  # noqa: ARG002 - the port's signature
        if self._world.trace is not None:
            self._world.say(f"note: {subject}: {message}")

    # --- demand ---------------------------------------------------------------------------------------------------

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        world = self._world
        world.agenda.pass_time(world.random.uniform(0.0005, 0.004))
        self._live()
        world.checks.looks.append(world.agenda.now)
        if not world.redis.readable:
            if world.redis.state == "frozen":
                world.agenda.pass_time(REDIS_TIMEOUT)
                self._live()
            readings: dict[PoolName, Reading] = dict.fromkeys(pools, Unknown(f"redis is {world.redis.state}"))
        else:
            self.read_at = world.agenda.now
            self._trust.observe_server(world.redis.identity, world.redis.queues_known, world.agenda.now)
            readings = {pool: self._reading(pool) for pool in pools}
        self.could_read = world.redis.readable
        self.trusted = {pool: not isinstance(reading, Unknown | Untrusted) for pool, reading in readings.items()}
        return {pool: self._habits.reading(pool, reading) for pool, reading in readings.items()}

    def _reading(self, pool: PoolName) -> Reading:
        queue = self._world.redis.queues[pool]
        known = queue.snapshot()
        doubt = self._trust.doubts(pool, queue.hosts(known), self._world.agenda.now)
        return known if doubt is None else Untrusted(doubt, known)

    # --- cluster --------------------------------------------------------------------------------------------------

    def observe(self) -> ObservedCluster | Unknown:
        self._live()
        now = self._world.agenda.now
        dropped = self._faults.standing.get(Fault.API_DROPPED)
        if dropped is not None and now - dropped >= SILENCE:
            return Unknown("no word from the API")
        frozen = min(
            (
                self._faults.standing[fault]
                for fault in (Fault.API_GONE, Fault.API_DROPPED)
                if fault in self._faults.standing
            ),
            default=now,
        )
        objects_lag, pods_lag = self._world.scenario.lags
        late = self._faults.lag
        self._objects_at = max(self._objects_at, min(frozen, now - objects_lag - late))
        silent = min(frozen, self._faults.standing.get(Fault.PODS_SILENT, now))
        self._pods_at = max(self._pods_at, min(silent, now - pods_lag - late))
        cluster = self._world.cluster
        pools = {name: seen for name in cluster.pools if (seen := self._pool(name)) is not None}
        budgets = {name: budget.seen.at(self._objects_at) for name, budget in cluster.budgets.items()}
        self._seen = ObservedCluster(pools, budgets)
        return self._seen

    def _pool(self, name: PoolName) -> ObservedPool | None:
        pool = self._world.cluster.pools[name]
        base, pods = pool.objects.at(self._objects_at), pool.pod_lists.at(self._pods_at)
        if base is None:
            return None
        last = self._combined.get(name)
        if last is None or last[0] is not base or last[1] is not pods:
            self._combined[name] = last = (base, pods, self._habits.pool(replace(base, pods=pods)))
        return last[2]

    def act(self, action: Action) -> Outcome:
        self._live()
        world = self._world
        if self._habits.replays and self._replay():
            return Outcome.FAILED
        kind = self._kind(action)
        write = Write(
            action=self._habits.action(action),
            read_at=self.read_at,
            seen_version=self._version_of(action),
            author=self._number,
            lowers=kind is WriteKind.LOWER,
        )
        if not self._fenced:
            world.checks.asks(write, self.turn_at, self.doubt_then, self.skew_then)
        answer: Fault | None = None
        if kind is not None:
            answer = self._at_gap(Gap(When.BEFORE, kind), write)
        outcome = self._send(write, answer)
        world.say(f"controller {self._number}: {_told(action)} -> {outcome}")
        if kind is not None and self._at_gap(Gap(When.AFTER, kind), None) in {Fault.API_ERROR, Fault.API_DROPPED}:
            outcome = Outcome.FAILED  # it was done, and the answer was lost
        return outcome

    def _send(self, write: Write, answer: Fault | None) -> Outcome:
        world, faults = self._world, self._faults
        if self._fenced:
            return Outcome.FENCED
        if self._habits.forgets(write.action):
            return Outcome.DONE
        world.agenda.pass_time(world.random.uniform(0.002, 0.03))
        self._live()
        if Fault.API_DROPPED in faults.standing:
            world.agenda.pass_time(TIMEOUT if world.random.random() < 0.3 else 0.001)
            return Outcome.FAILED
        for fault in faults.standing:
            # A standing fault hits every write at first, and then many of them.
            if fault in _ANSWERS and (fault is answer or world.random.random() < 0.7):
                return _ANSWERS[fault]
        if Fault.API_SLOW in faults.standing:
            self._land_late(write, world.random.uniform(0.5, 12.0))
            world.agenda.pass_time(TIMEOUT)
            return Outcome.FAILED
        if write.lowers and self._habits.lists_again and not self._shows_its_pods(write.action):
            return Outcome.STALE
        return world.cluster.carry_out(write)

    def _shows_its_pods(self, action: Action) -> bool:
        """As the adapter does: what the cache of pods shows is compared with a list, and a silent watch is replaced."""
        assert isinstance(action, Scale)
        pool = self._world.cluster.pools[action.pool]
        agrees = set(self._seen.pools[action.pool].pods) == set(pool.pod_lists.at(self._world.agenda.now))
        if not agrees:
            self._faults.end(Fault.PODS_SILENT)
        return agrees

    def _land_late(self, write: Write, delay: float) -> None:
        world = self._world

        def land() -> None:
            outcome = world.cluster.carry_out(replace(write, late=True))
            world.checks.counts[f"late writes {outcome}"] += 1
            world.say(f"late write of controller {write.author}: {_told(write.action)} -> {outcome}")

        world.agenda.after(delay, land)

    def _at_gap(self, gap: Gap, write: Write | None) -> Fault | None:
        fault = self._faults.at_gap(gap)
        if fault is Fault.CRASH:
            self._world.successor_in(self._world.random.uniform(0.5, 20.0))
            raise Crash
        if fault is Fault.LEASE_LOST:
            self._world.successor_in(self._world.random.uniform(15.0, 20.0))
            if write is not None:
                # Frozen between the check of the Lease and the request: it wakes up when another has taken over.
                self._land_late(write, self._world.random.uniform(1.0, 40.0))
                raise Crash
            self._fenced = True
        return fault

    def _replay(self) -> bool:
        """The seeded bug: what an earlier incarnation wanted is sent again."""
        last, self._habits.last_lowering = self._habits.last_lowering, None
        if last is None or last.pool not in self._seen.pools or self._seen.pools[last.pool].replicas <= last.replicas:
            return False
        version = self._seen.pools[last.pool].version
        again = replace(last, version=version)
        self._send(Write(action=again, read_at=self.read_at, seen_version=version, author=self._number), None)
        return True

    def _kind(self, action: Action) -> WriteKind | None:
        match action:
            case Mark(idle=idle):
                return WriteKind.MARK if idle else None
            case SetBudget(max_unavailable=value):
                return WriteKind.OPEN if value else WriteKind.CLOSE
            case Scale(pool=pool, replicas=replicas):
                seen = self._seen.pools.get(pool)
                lowers = seen is not None and replicas < seen.replicas
                if lowers:
                    self._habits.last_lowering = action
                return WriteKind.LOWER if lowers else WriteKind.RAISE

    def _version_of(self, action: Action) -> str:
        if isinstance(action, SetBudget):
            budget = self._seen.budgets.get(action.budget)
            return budget.version if budget else ""
        pool = self._seen.pools.get(action.pool)
        return pool.version if pool else ""

    def _live(self) -> None:
        if self.doomed:
            raise Crash


_ANSWERS = {
    Fault.API_CONFLICT: Outcome.STALE,
    Fault.API_BUSY: Outcome.FAILED,
    Fault.API_ERROR: Outcome.FAILED,
    Fault.API_DENIED: Outcome.REFUSED,
}


def _told(action: Action) -> str:
    match action:
        case Scale():
            return f"scale {action.pool} to {action.replicas} ({action.reason})"
        case Mark():
            return f"{'mark' if action.idle else 'unmark'} {action.pod}"
        case SetBudget():
            return f"set {action.budget} to {action.max_unavailable} ({action.reason})"
