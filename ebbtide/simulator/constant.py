"""The fixed fleet of a stack as a strategy: its plan becomes a fleet search, and the fleet an outcome."""

from collections.abc import Mapping, Sequence

from ebbtide.prices import Capacity, GroupRate, PricingAssumption, hourly
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import PodSize, home_kind
from ebbtide.simulator.billing import Bill, Rates, billed
from ebbtide.simulator.fleet import Fleet, FleetGroup, FleetPool
from ebbtide.simulator.pools import PooledJob
from ebbtide.simulator.recorder import SeriesRecorder
from ebbtide.simulator.results import Series
from ebbtide.simulator.strategies import ClusterPlan, on_spot, steady_usd
from ebbtide.simulator.waits import fifo_starts
from ebbtide.simulator.workers import JobRun


def fleet_groups(settings: StackSettings, plan: ClusterPlan) -> list[FleetGroup]:
    """The stack's own groups, with the workloads that live there; a kind's workloads go to its cheapest group."""
    residents: dict[str, list[tuple[PodSize, int]]] = {group.name: [] for group in plan.groups}
    for spec in settings.workloads.values():
        kind = home_kind(spec.category, spec.gpu)
        homes = [name for name, group in settings.node_groups.items() if group.kind is kind]
        if homes:
            home = min(homes, key=lambda name: (steady_usd(settings, name), name))
            residents[home].append((PodSize(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu), spec.replicas))
    return [
        FleetGroup(
            name=group.name,
            shape=Capacity(cpu=group.cpu_m, memory=group.memory_mib, gpu=group.gpu, pods=group.max_pods),
            usd_per_hour=steady_usd(settings, group.name),
            min_nodes=group.min,
            residents=tuple(residents[group.name]),
        )
        for group in plan.groups
    ]


def fleet_pools(settings: StackSettings, jobs: Sequence[PooledJob]) -> list[FleetPool]:
    of_pool: dict[str, list[PooledJob]] = {name: [] for name in settings.workers}
    for job in jobs:
        of_pool[job.pool].append(job)
    return [
        FleetPool(
            name=name,
            group=spec.node_group,
            worker=PodSize(cpu=spec.cpu, memory=spec.memory, gpu=spec.gpu),
            max_workers=spec.max,
            jobs=tuple(of_pool[name]),
        )
        for name, spec in sorted(settings.workers.items())
    ]


def fleet_runs(pools: Sequence[FleetPool], workers: Mapping[str, int], end_s: float) -> list[JobRun]:
    """What becomes of every job that starts before the end."""
    runs: list[JobRun] = []
    for pool in pools:
        for job, start in zip(pool.jobs, fifo_starts(pool.jobs, workers[pool.name]), strict=True):
            run = JobRun(job.submitted_at, job.duration_s, pool.name, members=job.members)
            if start < end_s:
                run.started_at, run.done_at = start, start + job.duration_s
            runs.append(run)
    return runs


def fleet_bill(fleet: Fleet, settings: StackSettings, series: Series, day_ends: Sequence[float]) -> Bill:
    """Every node is steady, so a sensible owner has all of them under the plan."""
    planned = {group: _steady(settings, group, settings.costs.pricing_assumption) for group in fleet.nodes}
    money = Rates(
        assumed=planned,
        on_demand={group: _steady(settings, group, PricingAssumption.ON_DEMAND) for group in fleet.nodes},
        with_spot=on_spot(settings, planned, {group: group for group in fleet.nodes}),
    )
    node_hours = {group: nodes * day_ends[-1] / 3600 for group, nodes in fleet.nodes.items()}
    return billed(node_hours, series, money, day_ends)


def _steady(settings: StackSettings, group: str, assumption: PricingAssumption) -> GroupRate:
    usd = hourly(settings.region, settings.node_groups[group].instance_types[0], assumption)
    return GroupRate(floor=settings.node_groups[group].min, floor_usd=usd, above_usd=usd)


def fleet_series(fleet: Fleet, runs: Sequence[JobRun], end_s: float) -> Series:
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
