"""From what happened in a world to the figures of one strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.simulator.billing import Bill
from ebbtide.simulator.cluster import Eviction
from ebbtide.simulator.results import Series, StrategyResult
from ebbtide.simulator.strategies.bound import ZeroWait
from ebbtide.simulator.world.edges import Tally
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.waits import percentile, rank
from ebbtide.simulator.world.workers import JobRun
from ebbtide.vocabulary.windows import DisruptionWindow


@dataclass(frozen=True, slots=True)
class EvictionCounts:
    """Evictions by when they happened. One in the closing guard is in neither: budgets are closed, business is not."""

    in_window: int = 0
    in_business_hours: int = 0


def count_evictions(evictions: Sequence[Eviction], window: DisruptionWindow, start: datetime) -> EvictionCounts:
    """Sort evictions, at seconds from `start`, by the customer's calendar."""
    begin = start.astimezone(UTC)
    instants = [begin + timedelta(seconds=eviction.at) for eviction in evictions]
    return EvictionCounts(
        in_window=sum(window.is_open(instant) for instant in instants),
        in_business_hours=sum(window.hours.is_open(instant) for instant in instants),
    )


def waits_of(jobs: Sequence[JobRun], end_s: float) -> list[float]:
    """Seconds from submission to the first start; of a job that never started, to the end of the replay."""
    return [(end_s if job.started_at is None else job.started_at) - job.submitted_at for job in jobs]


def completions_of(jobs: Sequence[JobRun], end_s: float) -> list[float]:
    """Seconds from submission to the end; of a job that has not ended, to the end of the replay."""
    return [(end_s if job.done_at is None else min(job.done_at, end_s)) - job.submitted_at for job in jobs]


def busy_s(series: Series, end_s: float) -> float:
    """Worker-seconds in which workers held a job."""
    ends = (*series.at[1:], end_s)
    return sum(running * (end - at) for running, at, end in zip(series.running, series.at, ends, strict=True))


def strategy_result(
    jobs: Sequence[JobRun], bill: Bill, series: Series, counts: tuple[EvictionCounts, Tally], end_s: float
) -> StrategyResult:
    """The figures of one strategy; the saving is filled in once the fixed fleet is known."""
    waits = waits_of(jobs, end_s)
    evictions, tally = counts
    lost = sum(job.lost_s for job in jobs)
    done = sum(job.done_at is not None and job.done_at <= end_s for job in jobs)
    return StrategyResult(
        node_hours=sum(bill.node_hours.values()),
        node_hours_by_group=bill.node_hours,
        usd=sum(bill.usd_per_day),
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
        series=series,
    )


def bound_result(bound: ZeroWait, jobs: Sequence[PooledJob], end_s: float) -> StrategyResult:
    """The bound's figures: every job starts when it is submitted, and nothing is ever moved."""
    done = sum(job.submitted_at + job.duration_s <= end_s for job in jobs)
    return StrategyResult(
        node_hours=sum(bound.node_hours.values()),
        node_hours_by_group=bound.node_hours,
        usd=sum(bound.usd_per_day),
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


def _quantiles(waits: Sequence[float]) -> tuple[float, ...]:
    """Nearest-rank quantiles at 0, 1, … 100 %: enough to draw the distribution, whatever the number of jobs."""
    ordered = sorted(waits)
    return tuple(ordered[rank(len(ordered), share / 100) - 1] for share in range(101)) if ordered else ()
