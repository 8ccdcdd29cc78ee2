"""The least that a zero-wait strategy must pay for a stack, `zero-wait-bound`. Proof: docs/explanation/bound.md.

Every job holds its workers from its submission. Nodes are fractions of the cheapest mix of shapes that its pods may run
on, billed by the second, with no boot time. The bound also pays for the stack's services, each group's minimum (so the
fixed nodes) and the DaemonSets of every node.

Pods run on the groups that the cluster plan lets them use and whose nodes hold one: work for GPUs with 40 GiB pays for
none with 24. The bound of a plan with the stack's groups holds for strategies with these groups; the bound of a plan
with a mixed group holds for strategies with a mixed group.

The commitment is chosen in hindsight: the level of steady dollars with the smallest bill, at the largest discount of
any of the stack's shapes. No purchase is better.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from ebbtide.lab.simulator.billing import total
from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scheduler import group_takes
from ebbtide.lab.simulator.results import ClusterSeries, SeriesRecorder, StrategyResult
from ebbtide.lab.simulator.strategies.covering import Covering
from ebbtide.lab.simulator.strategies.plans import listed_usd, spot_or_none, steady_usd
from ebbtide.lab.simulator.strategies.ray_fleet import share_of_worker
from ebbtide.lab.simulator.strategies.run import StrategyRun
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.schedules import Busy
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.lab.simulator.world.waits import percentile
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.workloads import SleepWhen

_Need = tuple[float, ...]  # cores, GiB, GPUs, pods


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSteps:
    """Dollars an hour from each instant to the next; the last ones to `end_s`."""

    at: tuple[float, ...]
    usd_per_hour: tuple[float, ...]
    end_s: float

    def spans(self) -> Iterable[tuple[float, float, float]]:
        """Begin, end, dollars an hour."""
        return zip(self.at, (*self.at[1:], self.end_s), self.usd_per_hour, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroWait:
    """Fractional nodes; the series rounds them up, for drawing."""

    node_hours: Mapping[str, float]
    usd_per_day: tuple[float, ...]  # empty: a node has no price
    usd_on_demand: float | None
    usd_with_spot: float | None
    series: ClusterSeries


def zero_wait_bound(run: StrategyRun) -> StrategyResult:
    """Every job has its workers at once: nothing scales."""
    setup = run.setup
    bound = zero_wait(
        run.plan,
        setup.jobs,
        busy=setup.busy,
        asleep=setup.asleep,
        discounts=discounts_of(setup.settings),
        end_s=setup.end_s,
        day_ends=setup.day_ends,
    )
    return _result(bound, setup.jobs, setup.end_s)


def _result(bound: ZeroWait, jobs: Sequence[PooledJob], end_s: float) -> StrategyResult:
    """Every job starts when it is submitted, and nothing is ever moved."""
    done = sum(job.submitted_at + job.duration_s <= end_s for job in jobs)
    return StrategyResult(
        node_hours=sum(bound.node_hours.values()),
        node_hours_by_group=bound.node_hours,
        usd=total(bound.usd_per_day),
        usd_per_day=bound.usd_per_day,
        usd_on_demand=bound.usd_on_demand,
        usd_with_spot=bound.usd_with_spot,
        saving_vs_fixed_fleet=None,
        jobs_done=done,
        jobs_interrupted=0,
        jobs_unfinished=len(jobs) - done,
        wait_p50_s=0.0,
        wait_p95_s=0.0,
        completion_p95_s=percentile([min(job.duration_s, end_s - job.submitted_at) for job in jobs], 0.95),
        evictions_in_window=0,
        evictions_in_business_hours=0,
        budget_openings=0,
        scale_downs_to_zero=0,
        series=bound.series,
    )


def zero_wait(
    plan: ClusterPlan,
    jobs: Sequence[PooledJob],
    *,
    discounts: "Discounts",
    end_s: float,
    day_ends: Sequence[float],
    busy: Sequence[Busy] = (),
    asleep: Sequence[Asleep] = (),
) -> ZeroWait:
    """The bound for these jobs from second 0 to `end_s`. `busy`: pods of the stack file's jobs and cron jobs."""
    parts = [_Part(plan, groups) for groups in _tied_groups(plan)]
    part_of = {pool: part for part in parts for pool in part.pools}
    meter = _Meter(plan, parts)
    running = 0
    spans: list[_Span] = [(job.submitted_at, job.submitted_at + job.duration_s, job.pool, job.members) for job in jobs]
    spans += [(part.begin, part.end, part.workload, part.pods) for part in busy]
    spans += [(nap.begin, nap.end, nap.workload, nap.pods - nap.awake) for nap in asleep]
    for at, changes in groupby(_changes([*spans, *_ray_spans(plan, jobs)], end_s), key=lambda change: change[0]):
        for _, pool, workers, more in changes:
            running += more if pool in plan.workers else 0
            if pool:
                part_of[pool].change(pool, workers * more)
        meter.record(at, running)
    return meter.total(discounts, end_s, day_ends)


_Span: TypeAlias = tuple[float, float, str, float]  # begin, end, pool, job or service, its pods


def _ray_spans(plan: ClusterPlan, jobs: Sequence[PooledJob]) -> Iterator[_Span]:
    """The work of drivers on Ray, in shares of workers, if each task starts at once and every worker is full."""
    groups = {group.worker.name: group for cluster in plan.ray for group in cluster.groups}
    for job in jobs:
        if job.ray is not None:
            share = share_of_worker(job.ray, groups[job.ray.group])
            pods = job.ray.at_once * job.ray.members * share
            yield job.submitted_at, job.submitted_at + job.duration_s, job.ray.group, pods


def _changes(spans: Iterable[_Span], end_s: float) -> list[tuple[float, str, float, int]]:
    """Instant, pool or job, its pods, and 1 for a begin or -1 for an end. The first one is empty."""
    changes: list[tuple[float, str, float, int]] = [(0.0, "", 0, 0)]
    for begin, end, pool, pods in spans:
        changes.append((begin, pool, pods, 1))
        if end < end_s:
            changes.append((end, pool, pods, -1))
    return sorted(changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discounts:
    """The largest discount of a commitment for any shape, relative to list prices and to prices with spot."""

    on_demand: float
    with_spot: float


def discounts_of(settings: StackSettings) -> Discounts:
    """Groups without a price have no discount, and no commitment covers spot nodes."""
    off: list[float] = [0.0]
    off_spot: list[float] = [0.0]
    settings = settings.by_type
    for name, group in settings.node_groups.items():
        usd, listed = steady_usd(settings, name), listed_usd(settings, name)
        if usd is None or listed is None or group.kind is NodeKind.SPOT:
            continue
        spot = spot_or_none(settings.region, group.types[0]) if group.kind is NodeKind.FLEXIBLE else None
        off.append(1 - usd / listed)
        off_spot.append(1 - usd / (listed if spot is None else spot))
    return Discounts(on_demand=max(off), with_spot=max(off_spot))


def _tied_groups(plan: ClusterPlan) -> list[list[GroupModel]]:
    """Join groups that share a workload; all others stay separate."""
    parts = [[group] for group in plan.groups]
    for pod in plan.pods:
        tied = [part for part in parts if any(group_takes(group, pod) for group in part)]
        if len(tied) > 1:
            parts = [part for part in parts if part not in tied] + [[group for part in tied for group in part]]
    return parts


class _Part:
    """Tied groups, the current need of their pods, and its cost."""

    def __init__(self, plan: ClusterPlan, groups: Sequence[GroupModel]) -> None:
        self.groups = [group.name for group in groups]
        ray_workers = [group.worker for cluster in plan.ray for group in cluster.groups]
        others = (*plan.jobs, *ray_workers, *(service for service, _ in plan.workloads))  # services may sleep
        pods = (*plan.workers.items(), *((pod.name, pod) for pod in others))
        self.pools = {name: _Demand(_need(pod), homes) for name, pod in pods if (homes := _homes(pod, groups))}
        self._workers: dict[str, float] = dict.fromkeys(self.pools, 0)
        self._services = [
            (_Demand(_need(service), homes), replicas)
            for service, replicas in (*plan.workloads, *_waking_heads(plan))
            if (homes := _homes(service, groups))
        ]
        demands = (*self.pools.values(), *(demand for demand, _ in self._services))
        self._sets = tuple(dict.fromkeys((frozenset(self.groups), *(demand.homes for demand in demands))))
        """The sets of groups that pods are limited to; the first one is all groups of the part."""
        self._least = [float(group.min) for group in groups if group.min]
        offers = [
            (
                *(amount if group.name in homes else 0.0 for homes in self._sets for amount in _offer(group)),
                *(1.0 if group is other else 0.0 for other in groups if other.min),
            )  # the group's minimum is a need, too
            for group in groups
        ]
        listed, spot = plan.money.on_demand, plan.money.with_spot
        self.priced = all(name in listed for name in self.groups)
        """False: the mix minimizes vCPUs, and its dollars are unknown."""
        self._usd = [listed[name].above_usd if self.priced else plan.money.vcpus[name] for name in self.groups]
        self._covering = Covering(offers, self._usd)
        self._spot_usd = [spot[name].above_usd for name in self.groups] if spot and self.priced else self._usd
        self._spot_covering = Covering(offers, self._spot_usd)
        self._cached: tuple[tuple[float, ...], float, float] | None = None

    def change(self, pool: str, workers: float) -> None:
        self._workers[pool] = round(self._workers[pool] + workers, 9)  # no rounding residue of ended shares
        self._cached = None

    def cheapest(self) -> tuple[tuple[float, ...], float, float]:
        """Nodes of each group at on-demand prices, their dollars an hour, and the dollars an hour with spot prices."""
        if self._cached is None:
            demands = [*self._services, *((self.pools[name], count) for name, count in self._workers.items() if count)]
            limited = (_sum((of.need, count) for of, count in demands if of.homes <= homes) for homes in self._sets)
            need = (*(amount for needs in limited for amount in needs), *self._least)
            nodes, on_spot = self._covering.cheapest(need), self._spot_covering.cheapest(need)
            self._cached = (nodes, _cost(nodes, self._usd), _cost(on_spot, self._spot_usd))
        return self._cached


@dataclass(frozen=True, slots=True)
class _Demand:
    """The requests of a pod, and the groups of its part that can run it."""

    need: _Need
    homes: frozenset[str]


def _homes(pod: WorkloadModel, groups: Sequence[GroupModel]) -> frozenset[str]:
    """The groups that take the pod and whose nodes hold it; if none holds it, those that take it."""
    taking = [group for group in groups if group_takes(group, pod)]
    holding = [g for g in taking if pod.cpu_m <= g.cpu_m and pod.memory_mib <= g.memory_mib and pod.gpu <= g.gpu]
    return frozenset(group.name for group in holding or taking)


def _waking_heads(plan: ClusterPlan) -> Iterator[tuple[WorkloadModel, int]]:
    """The heads of Ray clusters that never sleep; the bound pays for no others."""
    return ((cluster.head, 1) for cluster in plan.ray if cluster.sleep.when is SleepWhen.NEVER)


def _cost(nodes: Sequence[float], usd: Sequence[float]) -> float:
    return sum(count * price for count, price in zip(nodes, usd, strict=True))


def _need(pod: WorkloadModel) -> _Need:
    return (pod.cpu_m / 1000, pod.memory_mib / 1024, float(pod.gpu), 1.0)


def _offer(group: GroupModel) -> _Need:
    return (group.cpu_m / 1000, group.memory_mib / 1024, float(group.gpu), float(group.max_pods))


def _sum(parts: Iterable[tuple[_Need, float]]) -> _Need:
    totals = [0.0] * 4
    for need, count in parts:
        if count:
            for row, amount in enumerate(need):
                totals[row] += count * amount
    return tuple(totals)


class _Meter:
    """Adds up the cost of the instants."""

    def __init__(self, plan: ClusterPlan, parts: Sequence[_Part]) -> None:
        self._parts = parts
        self._names = [name for part in parts for name in part.groups]
        self._priced_spot = plan.money.with_spot is not None
        self._recorder = SeriesRecorder(tuple(self._names))
        self._at: list[float] = []
        self._nodes: list[tuple[float, ...]] = []
        self._usd: list[float] = []
        self._spot_usd: list[float] = []
        self._priced = True

    def record(self, at: float, running: int) -> None:
        answers = [part.cheapest() for part in self._parts]
        self._priced &= all(
            part.priced or not any(nodes) for part, (nodes, _, _) in zip(self._parts, answers, strict=True)
        )
        nodes = tuple(count for counts, _, _ in answers for count in counts)
        self._at.append(at)
        self._nodes.append(nodes)
        self._usd.append(sum(usd for _, usd, _ in answers))
        self._spot_usd.append(sum(usd for _, _, usd in answers))
        rounded_up = {name: math.ceil(round(count, 6)) for name, count in zip(self._names, nodes, strict=True)}
        self._recorder.sample(at, rounded_up, 0, running)

    def total(self, discounts: Discounts, end_s: float, day_ends: Sequence[float]) -> ZeroWait:
        steps, spot_steps = (
            CostSteps(at=tuple(self._at), usd_per_hour=tuple(usd), end_s=end_s) for usd in (self._usd, self._spot_usd)
        )
        durations = [end - begin for begin, end, _ in steps.spans()]
        hours = {
            name: sum(nodes[i] * seconds for nodes, seconds in zip(self._nodes, durations, strict=True)) / 3600
            for i, name in enumerate(self._names)
        }
        with_spot = covered_usd_per_day(spot_steps, discounts.with_spot, day_ends) if self._priced_spot else ()
        on_demand = sum(usd * (end - begin) for begin, end, usd in steps.spans()) / 3600
        return ZeroWait(
            node_hours=hours,
            usd_per_day=covered_usd_per_day(steps, discounts.on_demand, day_ends) if self._priced else (),
            usd_on_demand=on_demand if self._priced else None,
            usd_with_spot=total(with_spot) if self._priced else None,
            series=self._recorder.series(),
        )


def covered_usd_per_day(steps: CostSteps, discount: float, day_ends: Sequence[float]) -> tuple[float, ...]:
    """Dollars of each day with the cheapest commitment, a constant number of dollars an hour.

    The committed dollars are paid in every second, less the discount; the excess has its full price. One more dollar
    an hour pays off if it is used for more than the share 1 - discount of the time. So the best level is a quantile of
    the steps, and one of them.
    """
    level = _best_level(steps, discount)
    days = [0.0] * len(day_ends)
    day = 0
    for begin, end, usd in steps.spans():
        at = begin
        while at < end:
            until = min(end, day_ends[day])
            days[day] += (level * (1 - discount) + max(0.0, usd - level)) * (until - at) / 3600
            day += until == day_ends[day]
            at = until
    return tuple(days)


def _best_level(steps: CostSteps, discount: float) -> float:
    used = 0.0
    for usd, seconds in sorted(((usd, end - begin) for begin, end, usd in steps.spans()), reverse=True):
        used += seconds
        if used >= (1 - discount) * steps.end_s:
            return usd
    return 0.0
