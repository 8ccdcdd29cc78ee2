"""Constant fleets as strategies: the stack becomes a search for a fleet, and the fleet becomes figures."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.lab.simulator.billing import GroupRates, NodeBill, billed
from ebbtide.lab.simulator.outcome import EvictionCounts, strategy_result
from ebbtide.lab.simulator.results import ClusterSeries, SeriesRecorder, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplaySetup
from ebbtide.lab.simulator.strategies.fleet import (
    FleetGroup,
    FleetPool,
    FleetSize,
    most_at_once,
    peak_fleet,
    smallest_fleet,
)
from ebbtide.lab.simulator.strategies.plans import listed_usd, node_weights, on_spot, steady_usd, vcpus
from ebbtide.lab.simulator.strategies.ray_fleet import RayFleet, peak, smallest
from ebbtide.lab.simulator.strategies.run import StrategyRun
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.ray.work import RayPlan, workload_of_group
from ebbtide.lab.simulator.world.schedules import Busy, every_job, workload_of
from ebbtide.lab.simulator.world.waits import fifo_starts
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.prices import Capacity, GroupRate
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import PodSize, head_size, pod_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import RayGroup
from ebbtide.settings.sections.workers import WorkerSettings


def keep_smallest_fleet(run: StrategyRun) -> StrategyResult:
    """The smallest constant fleet that is as good as `fixed-flexible` for the jobs of each pool."""
    setup = run.setup
    targets = run.result_of(Strategy.FIXED_FLEXIBLE).pools
    pools = fleet_pools(setup.settings, setup.jobs)
    most = {name: spec.max for name, spec in setup.settings.workers.items()}
    ray = [smallest(cluster, most, _driven(setup, cluster), targets, setup.end_s) for cluster in run.plan.ray]
    groups = fleet_groups(setup.settings, run.plan, setup.busy, ray)
    return _result(setup, pools, smallest_fleet(pools, groups, targets, setup.end_s), ray)


def keep_peak_fleet(run: StrategyRun) -> StrategyResult:
    """A constant fleet in which no job ever waits."""
    setup = run.setup
    pools = fleet_pools(setup.settings, setup.jobs)
    ray = [peak(cluster, _driven(setup, cluster), most_at_once, setup.end_s) for cluster in run.plan.ray]
    groups = fleet_groups(setup.settings, run.plan, setup.busy, ray)
    return _result(setup, pools, peak_fleet(pools, groups), ray)


def _driven(setup: ReplaySetup, cluster: RayPlan) -> list[PooledJob]:
    return [job for job in setup.jobs if job.pool in cluster.drivers]


def _result(
    setup: ReplaySetup, pools: Sequence[FleetPool], fleet: FleetSize, ray: Sequence[RayFleet]
) -> StrategyResult:
    runs = [*fleet_runs(pools, fleet.workers, setup.end_s), *(run for cluster in ray for run in cluster.runs)]
    series = fleet_series(fleet, runs, setup.end_s)
    bill = fleet_bill(fleet, setup.settings, series, setup.day_ends)
    result = strategy_result(runs, bill, series, (EvictionCounts(), ActionCounts()), setup.end_s)
    return replace(result, ray={cluster.plan.name: cluster.result for cluster in ray})


def fleet_groups(
    settings: StackSettings, plan: ClusterPlan, busy: Sequence[Busy] = (), ray: Sequence[RayFleet] = ()
) -> list[FleetGroup]:
    """The stack's groups with their residents; each pod goes to the cheapest group that takes it.

    `busy`: pods of the stack file's jobs, for which the fleet has capacity, too. `ray`: clusters with their drivers.
    """
    residents: dict[str, list[tuple[PodSize, int]]] = {group.name: [] for group in plan.groups}
    for pod in resident_pods(settings):
        if groups := pod.groups(settings.node_groups):
            residents[_cheapest(settings, groups)].append((pod.size, pod.initial))
    for fleet in ray:
        for group, size, count in _ray_pods(settings, fleet):
            residents[group].append((size, count))
    jobs = {workload_of(name): (job.node_group, pod_size(job)) for name, job in every_job(settings).items()}
    return [
        FleetGroup(
            name=group.name,
            shape=Capacity(cpu=group.cpu_m, memory=group.memory_mib, gpu=group.gpu, pods=group.max_pods),
            min_nodes=group.min,
            residents=tuple(residents[group.name]),
            guests=tuple(
                _at_once(busy, {name: size for name, (node_group, size) in jobs.items() if node_group == group.name})
            ),
        )
        for group in plan.groups
    ]


def _cheapest(settings: StackSettings, groups: Collection[str]) -> str:
    weights = node_weights(settings)
    return min(groups, key=lambda name: (weights[name], name))


def _ray_pods(settings: StackSettings, fleet: RayFleet) -> Iterator[tuple[str, PodSize, int]]:
    """Node group, size and number of a cluster's head, drivers and workers."""
    spec = settings.ray[fleet.plan.name]
    fixed = [name for name, group in settings.node_groups.items() if group.kind is NodeKind.FIXED]
    yield _cheapest(settings, fixed), head_size(spec.head), 1
    pods: dict[str, WorkerSettings | RayGroup] = {pool: settings.workers[pool] for pool in fleet.plan.drivers}
    pods |= {workload_of_group(fleet.plan.name, key): group for key, group in spec.groups.items()}
    for name, pod in pods.items():
        yield pod.node_group, pod_size(pod), fleet.counts[name]


def _at_once(busy: Sequence[Busy], sizes: Mapping[str, PodSize]) -> Iterator[tuple[tuple[PodSize, int], ...]]:
    """Sets of these jobs' pods that run at the same time; a set that another one includes is left out."""
    steps: list[tuple[float, int, str]] = []
    for part in busy:
        if part.workload in sizes:
            steps += [(part.begin, part.pods, part.workload), (part.end, -part.pods, part.workload)]
    running: Counter[str] = Counter()
    sets: dict[frozenset[tuple[str, int]], Counter[str]] = {}
    for _, more, workload in sorted(steps):  # at one instant ends come before begins
        running[workload] += more
        sets.setdefault(frozenset((+running).items()), +running)
    for pods_at_once in sets.values():
        if pods_at_once and not any(pods_at_once < other for other in sets.values()):
            yield tuple((sizes[name], pods) for name, pods in sorted(pods_at_once.items()))


def fleet_pools(settings: StackSettings, jobs: Sequence[PooledJob]) -> list[FleetPool]:
    """The pools without drivers; `ray_fleet` has pools of drivers."""
    jobs_of: dict[str, list[PooledJob]] = {name: [] for name in settings.workers}
    for job in jobs:
        jobs_of[job.pool].append(job)
    return [
        FleetPool(
            name=name,
            group=spec.node_group,
            worker=pod_size(spec),
            max_workers=spec.max,
            jobs=tuple(jobs_of[name]),
        )
        for name, spec in sorted(settings.workers.items())
        if spec.ray not in settings.ray
    ]


def fleet_runs(pools: Sequence[FleetPool], workers: Mapping[str, int], end_s: float) -> list[JobRun]:
    """The run of every job; a job that would start after the end never starts."""
    runs: list[JobRun] = []
    for pool in pools:
        for job, start in zip(pool.jobs, fifo_starts(pool.jobs, workers[pool.name]), strict=True):
            run = JobRun(job.submitted_at, job.duration_s, pool.name, members=job.members)
            if start < end_s:
                run.started_at, run.done_at = start, start + job.duration_s
            runs.append(run)
    return runs


def fleet_bill(fleet: FleetSize, settings: StackSettings, series: ClusterSeries, day_ends: Sequence[float]) -> NodeBill:
    """Every node is steady, so the commitment covers all of them."""
    committed = _rates(settings, {group: steady_usd(settings, group) for group in fleet.nodes})
    money = GroupRates(
        assumed=committed,
        on_demand=_rates(settings, {group: listed_usd(settings, group) for group in fleet.nodes}),
        with_spot=on_spot(settings, committed, {group: group for group in fleet.nodes}),
        vcpus={group: vcpus(settings, group) for group in fleet.nodes},
    )
    node_hours = {group: nodes * day_ends[-1] / 3600 for group, nodes in fleet.nodes.items()}
    return billed(node_hours, series, money, day_ends)


def _rates(settings: StackSettings, prices: Mapping[str, float | None]) -> dict[str, GroupRate]:
    """The rates of the groups that have a price."""
    return {
        group: GroupRate(floor=settings.node_groups[group].min, floor_usd=usd, above_usd=usd)
        for group, usd in prices.items()
        if usd is not None
    }


def fleet_series(fleet: FleetSize, runs: Sequence[JobRun], end_s: float) -> ClusterSeries:
    recorder = SeriesRecorder(tuple(fleet.nodes))
    steps: list[tuple[float, int, int]] = []  # instant, change of waiting, change of running
    for run in runs:
        steps.append((run.submitted_at, 1, 0))
        if run.started_at is not None:
            steps.append((run.started_at, -1, 1))
        if run.done_at is not None:
            steps.append((run.done_at, 0, -1))
    waiting = running = 0
    recorder.sample(0.0, fleet.nodes, 0, 0)
    for at, more_waiting, more_running in sorted(step for step in steps if step[0] < end_s):
        waiting += more_waiting
        running += more_running
        recorder.sample(at, fleet.nodes, waiting, running)
    return recorder.series()
