"""The figures of one strategy, measured in its world: waits, evictions, lost work, and why nodes survived the night.

A node survives the disruption window for a reason, which the cluster accounts for in node-seconds. `Survivors` reads
that account at each edge of the window and adds up the differences.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.lab.simulator.billing import NodeBill, total
from ebbtide.lab.simulator.cluster import DrainBlock, Eviction, RetainedNode
from ebbtide.lab.simulator.results import ClusterSeries, PoolResult, StrategyResult
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.waits import percentile, rank
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import AFTER_THE_MODEL, World
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import DisruptionWindow


@dataclass(frozen=True, slots=True)
class EvictionCounts:
    """Evictions by time. Neither counts the closing guard, when budgets are closed but business hours are over."""

    in_window: int = 0
    in_business_hours: int = 0


def count_evictions(evictions: Sequence[Eviction], window: DisruptionWindow, start: datetime) -> EvictionCounts:
    """Count evictions, at seconds from `start`, by the customer's calendar."""
    begin = start.astimezone(UTC)
    instants = [begin + timedelta(seconds=eviction.at) for eviction in evictions]
    return EvictionCounts(
        in_window=sum(window.is_open(instant) for instant in instants),
        in_business_hours=sum(window.hours.is_open(instant) for instant in instants),
    )


def waits_of(jobs: Sequence[JobRun], end_s: float) -> list[float]:
    """Seconds from submission to the first start, or to the end of the replay for a job that never started."""
    return [(end_s if job.started_at is None else job.started_at) - job.submitted_at for job in jobs]


def completions_of(jobs: Sequence[JobRun], end_s: float) -> list[float]:
    """Seconds from submission to the job's end, or to the end of the replay for an unfinished job."""
    return [(end_s if job.done_at is None else min(job.done_at, end_s)) - job.submitted_at for job in jobs]


def pool_result(waits: Sequence[float], unfinished: int) -> PoolResult:
    """Return the figures of one pool. `waits`: of all its jobs, in seconds."""
    return PoolResult(
        jobs=len(waits),
        wait_p95_s=percentile(waits, 0.95),
        wait_p99_s=percentile(waits, 0.99),
        jobs_unfinished=unfinished,
    )


def pool_results(jobs: Sequence[JobRun], end_s: float) -> dict[str, PoolResult]:
    """Return the figures of each pool that has jobs."""
    by_pool: dict[str, list[JobRun]] = {}
    for job in jobs:
        by_pool.setdefault(job.pool, []).append(job)
    return {
        pool: pool_result(waits_of(runs, end_s), sum(not _is_done(run, end_s) for run in runs))
        for pool, runs in sorted(by_pool.items())
    }


def _is_done(job: JobRun, end_s: float) -> bool:
    return job.done_at is not None and job.done_at <= end_s


def busy_s(series: ClusterSeries, end_s: float) -> float:
    """Worker-seconds in which workers held a job."""
    ends = (*series.at[1:], end_s)
    return sum(running * (end - at) for running, at, end in zip(series.running, series.at, ends, strict=True))


def strategy_result(
    jobs: Sequence[JobRun],
    bill: NodeBill,
    series: ClusterSeries,
    counts: tuple[EvictionCounts, ActionCounts],
    end_s: float,
) -> StrategyResult:
    """The figures of one strategy, without the saving, which needs the fixed fleet."""
    waits = waits_of(jobs, end_s)
    evictions, tally = counts
    lost = sum(job.lost_s for job in jobs)
    done = sum(_is_done(job, end_s) for job in jobs)
    return StrategyResult(
        node_hours=sum(bill.node_hours.values()),
        node_hours_by_group=bill.node_hours,
        usd=total(bill.usd_per_day),
        usd_per_day=bill.usd_per_day,
        usd_on_demand=bill.usd_on_demand,
        usd_with_spot=bill.usd_with_spot,
        saving_vs_fixed_fleet=None,
        jobs_done=done,
        jobs_interrupted=sum(job.interruptions for job in jobs),
        lost_work_s=lost,
        lost_work_share=lost / busy_s(series, end_s) if lost else 0.0,
        saving_s=sum(job.saving_s for job in jobs),
        resumes=sum(job.resumes for job in jobs),
        completion_p95_s=percentile(completions_of(jobs, end_s), 0.95),
        jobs_unfinished=len(jobs) - done,
        wait_p50_s=percentile(waits, 0.5),
        wait_p95_s=percentile(waits, 0.95),
        wait_p99_s=percentile(waits, 0.99),
        wait_quantiles_s=_quantiles(waits),
        evictions_in_window=evictions.in_window,
        evictions_in_business_hours=evictions.in_business_hours,
        budget_openings=tally.budget_openings,
        scale_downs_to_zero=tally.scale_downs_to_zero,
        pools=pool_results(jobs, end_s),
        series=series,
    )


def _quantiles(waits: Sequence[float]) -> tuple[float, ...]:
    """Nearest-rank quantiles at 0, 1, … 100 %: enough to draw the distribution of any number of jobs."""
    ordered = sorted(waits)
    return tuple(ordered[rank(len(ordered), share / 100) - 1] for share in range(101)) if ordered else ()


class EmptyNodes:
    """Counts nodes that have no pod outside business hours: their owner could switch them off."""

    def __init__(self, world: World, groups: Collection[str]) -> None:
        self._cluster = world.cluster
        self._empty = dict.fromkeys(groups, 0)
        self._samples = 0
        spans, end_s = world.setup.open_spans, math.floor(world.setup.end_s)
        for at in range(0, end_s, _SAMPLE_S) if groups else ():
            if not any(begin <= at < end for begin, end in spans):
                world.timeline.at(float(at), self._sample, AFTER_THE_MODEL)

    def mean(self) -> dict[str, float]:
        return {group: empty / max(1, self._samples) for group, empty in self._empty.items()}

    def _sample(self) -> None:
        self._samples += 1
        for node in self._cluster.nodes():
            if node.group in self._empty and not node.pods:
                self._empty[node.group] += 1


_SAMPLE_S = 600
_BUDGETS: Mapping[str, str] = {
    Category.WORKER.value: "a worker is there, and workers are never moved",
    Category.FIXED.value: "a fixed pod is there, and fixed pods are never moved",
}


class Survivors:
    """Watches a world from its first second. Read the result after the replay.

    `categories`: by workload. `adopted`: adoption rules, each named in its reason, since its pods' owners are not in
    the stack.
    """

    def __init__(
        self, world: World, window: DisruptionWindow, categories: Mapping[str, str], adopted: Collection[str] = ()
    ) -> None:
        self._cluster = world.cluster
        self._categories = categories
        self._adopted = adopted
        begin = world.setup.start.astimezone(UTC)
        self._open = window.is_open(begin)
        self._opened_with: Mapping[RetainedNode, float] = {}
        self._seconds: dict[RetainedNode, float] = {}
        edge = window.next_change(begin)
        while edge is not None and (at := (edge - begin) / timedelta(seconds=1)) < world.setup.end_s:
            world.timeline.at(at, self._turn, AFTER_THE_MODEL)
            edge = window.next_change(edge)

    def node_hours(self) -> dict[str, float]:
        """Node-hours by reason, the largest first."""
        if self._open:
            self._turn()
        hours: dict[str, float] = {}
        for node, seconds in self._seconds.items():
            reason = self._reason(node)
            hours[reason] = hours.get(reason, 0.0) + seconds / 3600
        longest_first = sorted(hours.items(), key=lambda spent: (-spent[1], spent[0]))
        return {reason: spent for reason, spent in longest_first if spent > 0}

    def _turn(self) -> None:
        now = self._cluster.retained_seconds()
        if self._open:
            for node, seconds in now.items():
                spent = seconds - self._opened_with.get(node, 0.0)
                self._seconds[node] = self._seconds.get(node, 0.0) + spent
        self._opened_with = now
        self._open = not self._open

    def _reason(self, node: RetainedNode) -> str:
        if node.workload is None:
            return str(node.why)
        if node.why is DrainBlock.BUDGET:
            category = self._categories.get(node.workload, "")
            if category in _BUDGETS and node.workload in self._adopted:
                return f"adopted {category} pods of {node.workload} are there, and they are never moved"
            return _BUDGETS.get(category, f"the budget of {node.workload} is closed or used up")
        return f"{node.why}: {node.workload}"
