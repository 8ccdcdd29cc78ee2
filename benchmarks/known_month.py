"""A month whose alternatives are known, since they ran too, in a cluster that differs from the ledger's model.

The cluster runs the jobs, the production loop and the calendar. `Known.recording` is what Prometheus would have of it:
nodes from their registration on, wanted workers and sleep every five minutes. `Known.truths` are the dollars of the
same cluster with the change that an alternative describes, from the launch of each node to its end, at list prices.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from itertools import pairwise
from operator import itemgetter
from random import Random

from benchmarks.plain_fleet import PlainFleet
from ebbtide.lab.ledger.alternatives import BEFORE, NEVER_OPEN, NOTHING_SLEEPS, PEAK, PEAK_WORKERS
from ebbtide.lab.ledger.lives import NodeKey, Sightings
from ebbtide.lab.ledger.month import ON_DEMAND, SPOT, Month
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.lab.simulator.cluster import Node
from ebbtide.lab.simulator.cluster.karpenter import NodePoolModel
from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, ReplaySetup, replay_setup_of
from ebbtide.lab.simulator.strategies.karpenter import controlled_with_windows
from ebbtide.lab.simulator.strategies.plans import Topology, list_price, plan_of, spot_or_none
from ebbtide.lab.simulator.strategies.run import StrategyRun, controlled
from ebbtide.lab.simulator.strategies.steady import with_steady_nodes
from ebbtide.lab.simulator.strategies.table import STRATEGIES, StrategyResults, closed
from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.workers import JobRun, runs_of
from ebbtide.lab.simulator.world.world import AFTER_THE_MODEL, BEFORE_THE_MODEL, ClusterPlan, World, WorldSetup
from ebbtide.prices import InstanceType, PricingAssumption, hourly, instance_type
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S, HOUR_S

LOOK_S, SLOW_S, PRICE_S = 60.0, 300.0, 600.0
"""Seconds between two samples of nodes, of workers and sleep, and of prices, as the ledger reads them."""
LOOK_PHASE_S = 17.0
_SETTLES_S = 6 * HOUR_S
"""Time in which a fleet with constant workers has all its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How a cluster differs from the ledger's model. Factors are of the model's value."""

    boot: float = 1.0
    boot_spread: float = 0.0  # the largest random deviation, as a share of the boot time
    daemons_cpu_m: int = 0  # requests of DaemonSets that the stack file does not mention, on each node
    daemons_mib: int = 0
    pod_start: float = 1.0
    scan: float = 1.0  # of the autoscaler's interval
    rollouts: float = 0.0  # the share of working days on which each flexible workload is rolled out
    second_type: float = 0.0  # the share of nodes of a managed group that have its second type
    spot_price: float = 1.0  # factor of the typical spot price
    is_plain: bool = False  # another model: `benchmarks.plain_fleet`
    failures: Failures = field(default_factory=Failures)
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A node, in seconds from the month's begin."""

    name: str
    shape: str
    launched: float
    registered: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A replay: its nodes, and every change of the workers that the controller requested."""

    lives: Sequence[Life]
    wanted: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    month: Month
    settings: StackSettings
    recording: RecordedMonth
    truths: Mapping[str, float]  # dollars by alternative
    paid_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The input of a known month. `rises`: hour of the month and factor of a price change, by instance type; `holes`
    are hours in which nothing was recorded.
    """

    settings: StackSettings
    month: Month
    jobs: Sequence[Job]
    cluster: Cluster = field(default_factory=Cluster)
    rises: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    holes: Sequence[tuple[float, float]] = ()
    before: Mapping[str, tuple[int, str]] = field(
        default_factory=dict[str, tuple[int, str]]
    )  # the fleet before, by group


class _RecordedWorld(World):
    """A world that keeps the life of each node and the requested workers."""

    def __init__(self, plan: ClusterPlan, jobs: Sequence[JobRun], setup: WorldSetup) -> None:
        self.seen: dict[str, Node] = {}
        self.ends: dict[str, float] = {}
        self.wanted: dict[str, list[tuple[float, float]]] = {name: [(0.0, 0.0)] for name in plan.workers}
        super().__init__(plan, jobs, setup)

    def scale(self, pool: str, replicas: int) -> None:
        self.wanted[pool].append((self.timeline.now, float(replicas)))
        super().scale(pool, replicas)

    def nodes_changed(self) -> None:
        self.timeline.after(0.0, self.look, AFTER_THE_MODEL)
        super().nodes_changed()

    def look(self) -> None:
        nodes = {node.name: node for node in self.cluster.nodes()}
        self.seen |= nodes
        for name in self.seen.keys() - nodes.keys() - self.ends.keys():
            self.ends[name] = self.timeline.now

    def ran(self) -> Ran:
        self.look()
        lives = [
            Life(
                name=name,
                shape=node.group,
                launched=node.launched_at,
                registered=max(node.launched_at, node.registered_at),
                end=self.ends.get(name, self.timeline.now),
            )
            for name, node in self.seen.items()
        ]
        return Ran(lives=lives, wanted=self.wanted)


def known(course: Course) -> Known:
    """Run the month and each alternative. Raises `ReplayError`."""
    settings, month = course.settings, course.month
    setup = setup_of(course)
    run = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE)
    topology = STRATEGIES[Strategy.FIXED_FLEXIBLE].topology(setup.settings)
    money = Money(course, topology)
    month_ran = _played(course, run)
    truths = {NEVER_OPEN: money.usd(_played(course, run, opens=False).lives)}
    if any(sleepers_of(settings)):
        awake = replace(run, world=replace(run.world, asleep=()))
        truths[NOTHING_SLEEPS] = money.usd(_played(course, awake).lives)
    if course.before:
        truths[BEFORE] = sum(count * money.usd_of_type(kind) for count, kind in course.before.values())
    truths[PEAK] = money.usd_of_month(peak_of(month_ran.lives, money))
    workers = {
        name: max(_sampled(course, steps), key=lambda step: step[1])[1] for name, steps in month_ran.wanted.items()
    }
    truths[PEAK_WORKERS] = _with_workers(course, setup, {name: round(count) for name, count in workers.items()})
    return Known(
        month=month,
        settings=settings,
        recording=recording_of(course, month_ran, setup, money),
        truths=truths,
        paid_usd=money.usd(month_ran.lives),
    )


def setup_of(course: Course) -> ReplaySetup:
    end_s = course.month.hours * HOUR_S
    jobs = tuple(sorted(course.jobs, key=lambda job: job.submitted_at))
    trace = Trace("known month", jobs, recorded_days=math.ceil(end_s / DAY_S))
    options = ReplayOptions(
        days=trace.days,
        start=course.month.begin,
        seed=course.cluster.seed,
        rollouts=course.cluster.rollouts > 0,
        failures=course.cluster.failures,
    )
    setup = replay_setup_of(course.settings, trace, options)
    chance = Random(f"{course.cluster.seed} rollouts")
    rollouts = tuple(rollout for rollout in setup.rollouts if chance.random() < course.cluster.rollouts)
    return replace(setup, end_s=end_s, rollouts=rollouts)


def _played(course: Course, run: StrategyRun, *, opens: bool = True) -> Ran:
    if course.cluster.is_plain:
        return _played_plainly(course, run, opens=opens)
    world = _RecordedWorld(_plan(run.plan, course.cluster), runs_of(run.setup.jobs), _world(run.world, course.cluster))
    if opens:
        controlled_with_windows(run.config, world, ActionCounts(), run.plan, run.setup.settings)
    else:
        controlled(closed(run.config), world, ActionCounts())
    return world.ran()


def _played_plainly(course: Course, run: StrategyRun, *, opens: bool) -> Ran:
    setup = run.setup
    fleet = PlainFleet(
        plan=_plan(run.plan, course.cluster),
        jobs=setup.jobs,
        most={pool.name: pool.max_workers for pool in setup.config.pools},
        asleep=run.world.asleep,
        rollouts=setup.rollouts,
        open_spans=_window(setup) if opens else (),
        end_s=setup.end_s,
    )
    nodes = fleet.run()
    lives = [
        Life(name=it.name, shape=it.shape, launched=it.launched, registered=min(it.ready, it.end), end=it.end)
        for it in nodes
    ]
    return Ran(lives=lives, wanted=fleet.wanted)


def _window(setup: ReplaySetup) -> list[tuple[float, float]]:
    """Return the seconds in which budgets are open."""
    begin, window = setup.start.astimezone(UTC), setup.config.window
    edges, at = [0.0], window.next_change(begin)
    while at is not None and (second := (at - begin) / timedelta(seconds=1)) < setup.end_s:
        edges.append(second)
        at = window.next_change(at)
    return [
        (first, last)
        for first, last in pairwise((*edges, setup.end_s))
        if window.is_open(begin + timedelta(seconds=(first + last) / 2))
    ]


def _plan(plan: ClusterPlan, cluster: Cluster) -> ClusterPlan:
    """The plan with the cluster's nodes and pods."""

    def shape(group: GroupModel) -> GroupModel:
        boot_s = group.boot_s * cluster.boot
        return replace(
            group,
            boot_s=boot_s,
            boot_spread_s=boot_s * cluster.boot_spread,
            cpu_m=group.cpu_m - cluster.daemons_cpu_m,
            memory_mib=group.memory_mib - cluster.daemons_mib,
        )

    def pool(nodes: NodePoolModel) -> NodePoolModel:
        return replace(nodes, types=tuple(replace(kind, shape=shape(kind.shape)) for kind in nodes.types))

    def pod(workload: WorkloadModel) -> WorkloadModel:
        return replace(workload, startup_s=workload.startup_s * cluster.pod_start)

    return replace(
        plan,
        groups=tuple(map(shape, plan.groups)),
        node_pools=tuple(map(pool, plan.node_pools)),
        workloads=tuple((pod(workload), replicas) for workload, replicas in plan.workloads),
        workers={name: pod(worker) for name, worker in plan.workers.items()},
    )


def _world(setup: WorldSetup, cluster: Cluster) -> WorldSetup:
    flags = replace(setup.flags, scan_interval_s=setup.flags.scan_interval_s * cluster.scan)
    return replace(setup, seed=cluster.seed, flags=flags)


def _with_workers(course: Course, setup: ReplaySetup, workers: Mapping[str, int]) -> float:
    """Dollars of a month in which each pool always has these workers, on nodes that stay: none is a spot node."""
    settings = with_steady_nodes(setup.settings)
    groups = {name: group.model_copy(update={"max": 500}) for name, group in settings.node_groups.items()}
    settings = settings.model_copy(update={"node_groups": groups})
    definition = STRATEGIES[Strategy.FIXED_FLEXIBLE]
    topology = definition.topology(settings)
    plan = replace(_plan(plan_of(topology, definition.flags), course.cluster), jobs=(), ray=())
    flags = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE).world.flags
    world = _RecordedWorld(plan, (), WorldSetup(start=setup.start, end_s=_SETTLES_S, flags=flags))
    for pool, count in workers.items():
        world.timeline.at(0.0, _scaling(world, pool, count), BEFORE_THE_MODEL)
    world.timeline.run_until(_SETTLES_S)
    money = Money(replace(course, settings=settings), topology, steady=True)
    return money.usd_of_month(life for life in world.ran().lives if life.end >= _SETTLES_S)


def _scaling(world: World, pool: str, count: int) -> Callable[[], None]:
    return lambda: world.scale(pool, count)


class Money:
    """Dollars of nodes at list prices, spot nodes at the typical saving."""

    def __init__(self, course: Course, topology: Topology, *, steady: bool = False) -> None:
        self._settings, self._course, self._steady = topology.settings, course, steady
        self.topology = topology
        self.end_s = course.month.hours * HOUR_S

    def key_of(self, life: Life) -> NodeKey:
        source = self.topology.source_of[life.shape]
        group = self._settings.node_groups[source]
        capacity = SPOT if group.kind is NodeKind.SPOT else ON_DEMAND
        return NodeKey(life.name, source, group.kind.value, self.type_of(life).name, capacity)

    def type_of(self, life: Life) -> InstanceType:
        """Return the type of a node: of a managed group with several types, one drawn by the node's name."""
        others = self._settings.node_groups[self.topology.source_of[life.shape]].types[1:]
        if life.shape not in self.topology.groups or not others:
            return self.topology.type_of(life.shape)
        chance = Random(f"{self._course.cluster.seed} {life.name}")
        return others[0] if chance.random() < self._course.cluster.second_type else self.topology.type_of(life.shape)

    def prices(self, kind: str) -> Steps:
        """Return the list price with its change, in seconds from the month's begin."""
        usd = self._listed(kind)
        rise = self._course.rises.get(kind)
        return ((0.0, usd),) if rise is None else ((0.0, usd), (rise[0] * HOUR_S, usd * rise[1]))

    def _listed(self, kind: str) -> float:
        types = {it.name: it for group in self._settings.node_groups.values() for it in group.types}
        usd = list_price(self._settings.region, types.get(kind) or instance_type(kind))
        if usd is None:
            raise ValueError(f"{kind}: no price")
        return usd

    def usd(self, lives: Iterable[Life]) -> float:
        """Return the dollars of the nodes. Those of groups with a `min` are the committed ones of the assumed plan."""
        return sum(self._usd(life, life.launched, life.end) * self._committed(life) for life in lives)

    def _committed(self, life: Life) -> float:
        is_minimum = self._settings.node_groups[self.topology.source_of[life.shape]].min > 0
        return self._plan_share(self.type_of(life).name) if is_minimum and not self._is_spot(life) else 1.0

    def usd_of_type(self, kind: str) -> float:
        """Return the dollars of a node of this type that stays all month, at the assumed plan."""
        return self._usd_at(kind, 0.0, self.end_s) * self._plan_share(kind)

    def _plan_share(self, kind: str) -> float:
        assumption = self._settings.costs.pricing_assumption
        if assumption is PricingAssumption.ON_DEMAND:
            return 1.0
        return hourly(self._settings.region, kind, assumption) / self._listed(kind)

    def usd_of_month(self, lives: Iterable[Life]) -> float:
        """Return the dollars of these nodes if each ran all month, at the assumed plan."""
        return sum(
            self._usd(life, 0.0, self.end_s)
            * (1.0 if self._is_spot(life) else self._plan_share(self.type_of(life).name))
            for life in lives
        )

    def _is_spot(self, life: Life) -> bool:
        group = self._settings.node_groups[self.topology.source_of[life.shape]]
        return group.kind is NodeKind.SPOT and not self._steady

    def _usd(self, life: Life, begin: float, end: float) -> float:
        kind = self.type_of(life)
        usd = self._usd_at(kind.name, begin, end)
        spot = spot_or_none(self._settings.region, kind) if self._is_spot(life) else None
        return usd if spot is None else usd * self._course.cluster.spot_price * spot / self._listed(kind.name)

    def _usd_at(self, kind: str, begin: float, end: float) -> float:
        steps = (*self.prices(kind), (math.inf, 0.0))
        return sum(
            max(0.0, min(end, until) - max(begin, since)) * usd / HOUR_S for (since, usd), (until, _) in pairwise(steps)
        )


def peak_of(lives: Iterable[Life], money: Money) -> list[Life]:
    """Return the nodes of each group's sample with most of them; of several samples the dearest."""
    changes: dict[str, list[tuple[float, int, Life]]] = {}
    for life in (life for life in lives if life.registered < life.end):
        steps = changes.setdefault(money.topology.source_of[life.shape], [])
        steps += [(life.registered, 1, life), (life.end, -1, life)]
    peak: list[Life] = []
    for steps in changes.values():
        there: dict[str, Life] = {}
        most: tuple[int, float, list[Life]] = (0, 0.0, [])
        ordered = sorted(steps, key=itemgetter(0, 1))
        for (at, step, life), (until, _, _) in pairwise((*ordered, (money.end_s, 0, ordered[-1][2]))):
            if step < 0:
                del there[life.name]
            else:
                there[life.name] = life
            if len(there) >= most[0] and _next_look(at) < until:
                most = max(
                    most, (len(there), money.usd_of_month(there.values()), [*there.values()]), key=itemgetter(0, 1)
                )
        peak += most[2]
    return peak


def _next_look(at: float) -> float:
    return LOOK_PHASE_S + math.ceil((at - LOOK_PHASE_S) / LOOK_S) * LOOK_S


def recording_of(course: Course, ran: Ran, setup: ReplaySetup, money: Money) -> RecordedMonth:
    begin = course.month.begin.timestamp()
    looks = list(_times(course, LOOK_S, phase=LOOK_PHASE_S))
    seen: dict[NodeKey, list[float]] = {}
    created: dict[str, list[float]] = {}
    for life in ran.lives:
        there = looks[bisect_left(looks, life.registered) : bisect_left(looks, life.end)]
        if there:
            seen[money.key_of(life)] = [begin + at for at in there]
            born = begin + life.registered if life.registered else begin - DAY_S
            created[life.name] = [float(round(born))]
    prices = {
        kind: tuple((begin + math.ceil(at / PRICE_S) * PRICE_S, usd) for at, usd in money.prices(kind))
        for kind in {key.instance_type for key in seen}
    }
    return RecordedMonth(
        source="a known month",
        sightings=Sightings(looks=[begin + at for at in looks], seen=seen, created=created),
        prices=prices,
        wanted={name: _since(begin, _sampled(course, steps)) for name, steps in ran.wanted.items()},
        asleep={name: _since(begin, _sampled(course, steps)) for name, steps in _sleep(course, setup).items()},
        requests={},
        forgotten="",
    )


def _since(begin: float, steps: Sequence[tuple[float, float]]) -> Steps:
    return tuple((begin + at, value) for at, value in steps)


def _sleep(course: Course, setup: ReplaySetup) -> Mapping[str, Sequence[tuple[float, float]]]:
    subjects = {policy.name: policy.subject for policy in sleepers_of(course.settings)}
    steps: dict[str, list[tuple[float, float]]] = {subject: [(0.0, 0.0)] for subject in subjects.values()}
    for nap in setup.asleep:
        steps[subjects[nap.workload]] += [(nap.begin, 1.0), (nap.end, 0.0)]
    return steps


def _times(course: Course, every_s: float, phase: float = 0.0) -> Iterator[float]:
    """Yield the times of samples outside of holes."""
    for number in range(math.ceil((course.month.hours * HOUR_S - phase) / every_s)):
        at = phase + number * every_s
        if not any(first * HOUR_S <= at < last * HOUR_S for first, last in course.holes):
            yield at


def _sampled(course: Course, steps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the changes that samples every five minutes show."""
    changes: list[tuple[float, float]] = []
    place = 0
    for at in _times(course, SLOW_S):
        while place + 1 < len(steps) and steps[place + 1][0] <= at:
            place += 1
        if not changes or changes[-1][1] != steps[place][1]:
            changes.append((at, steps[place][1]))
    return changes
