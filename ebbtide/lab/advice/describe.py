"""Describe a load of jobs, and the limits of what scaling can save on it.

Every figure describes only the trace, not a stack. Hours and weekdays are those of the trace's zone if its times are
dates; otherwise they count from its second 0. "Wanted at
once" starts each job when it is submitted; its mean and its peak are exact, over time, from second 0 to the end of the
last day. 1 - mean / peak bounds what scaling can save against a fleet that is sized for the peak: no fleet pays for
less than the mean.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ebbtide.lab.advice.demand import changes
from ebbtide.lab.simulator.trace.alignment import busiest_hours
from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.text.durations import DAY_S
from ebbtide.text.durations import HOUR_S as _HOUR_S
from ebbtide.vocabulary.windows import zone_of

SHORT_S = 8 * 3600.0
LONG_S = 24 * 3600.0
BATCH_S = 60.0
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
MIXES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Submissions: the pattern of the day and of the week, and how uneven they are."""

    zone: str | None  # of the hours and days; None: the trace has no dates
    first_day: date | None
    by_hour: tuple[float, ...]  # mean jobs in each hour of the day
    by_weekday: tuple[float, ...]  # mean jobs on each day of the trace's weeks; the first is the trace's first day
    hourly_var_to_mean: float  # 1 for independent arrivals
    hourly_peak_to_mean: float
    hours_without: float  # share
    in_batches: float  # share of jobs within a minute of an earlier one with the same queue and size
    busiest_12h_from: int
    busiest_12h_to_rest: float | None  # None: nothing arrives in the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Run times of jobs, and the share of the work in long ones."""

    quantiles: tuple[tuple[float, float], ...]  # fraction, seconds
    jobs_over_8h: float  # shares
    jobs_over_24h: float
    work_over_8h: float
    work_over_24h: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One size, and the part of the load that requests it."""

    cpu: float
    memory_gib: float
    gpu: float
    jobs: float  # shares
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Demand of one resource if every job starts when it is submitted."""

    resource: str  # cpu or gpu
    jobs: str  # all, or up to 8 h
    mean: float
    p95: float
    peak: float
    busiest_12h_to_rest: float | None
    most_saved: float  # 1 - mean / peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    trace: str
    jobs: int
    days: int
    work_unit: str  # GPU-hours if any job requests GPUs, else core-hours
    arrivals: Arrivals
    durations: Durations
    sizes: tuple[Mix, ...]
    wanted: tuple[Wanted, ...]
    findings: tuple[str, ...]
    assumptions: tuple[str, ...]


def describe(trace: Trace) -> Description:
    """Return all figures of one trace; a trace is never empty."""
    end_s = trace.days * DAY_S
    durations = _durations(trace.jobs)
    arrivals = _arrivals(trace)
    demands = tuple(_wanted(trace.jobs, end_s))
    return Description(
        trace=trace.name,
        jobs=len(trace.jobs),
        days=trace.days,
        work_unit="GPU-hours" if any(job.gpu for job in trace.jobs) else "core-hours",
        arrivals=arrivals,
        durations=durations,
        sizes=_sizes(trace.jobs),
        wanted=demands,
        findings=tuple(_findings(arrivals, durations, demands)),
        assumptions=trace.assumptions,
    )


def _arrivals(trace: Trace) -> Arrivals:
    """Count by hour and by day over all hours; measure unevenness over the hours that hold data."""
    jobs = trace.jobs
    per_hour = Counter(int(job.submitted_at // _HOUR_S) for job in jobs)
    counts = [per_hour[hour] for hour in range(trace.days * 24)]
    recorded = [count for hour, count in enumerate(counts) if count or not _missing(hour, trace)]
    mean = len(jobs) / len(recorded)
    variance = sum((count - mean) ** 2 for count in recorded) / len(recorded)
    days, hours = zip(*_clock(trace), strict=True)
    by_hour = _means(hours, counts)
    busiest = busiest_hours(by_hour)
    busy = sum(by_hour.get((busiest + i) % 24, 0.0) for i in range(12))
    return Arrivals(
        zone=None if trace.start is None else trace.zone,
        first_day=None if trace.start is None else trace.start.astimezone(zone_of(trace.zone)).date(),
        by_hour=tuple(by_hour.get(hour, 0.0) for hour in range(24)),
        by_weekday=tuple(24 * mean for _, mean in sorted(_means([day % 7 for day in days], counts).items())),
        hourly_var_to_mean=variance / mean,
        hourly_peak_to_mean=max(recorded) / mean,
        hours_without=recorded.count(0) / len(recorded),
        in_batches=_in_batches(jobs),
        busiest_12h_from=busiest,
        busiest_12h_to_rest=_ratio(busy, sum(by_hour.values()) - busy),
    )


def _clock(trace: Trace) -> Iterable[tuple[int, int]]:
    """Yield the day, from 0, and the hour of the day at the start of each hour of the trace.

    A trace has days of 24 hours, so its last hour is after midnight if clocks go forward; it counts with its last day.
    """
    if trace.start is None:
        yield from (divmod(hour, 24) for hour in range(trace.days * 24))
        return
    zone = zone_of(trace.zone)
    first, *_ = times = [(trace.start + timedelta(hours=hour)).astimezone(zone) for hour in range(trace.days * 24)]
    last = times[-2].date()
    for time in times:
        yield (min(time.date(), last) - first.date()).days, time.hour


def _means(keys: Sequence[int], counts: Sequence[int]) -> dict[int, float]:
    """The mean count of the hours with each key. Clock changes give some keys an hour more or less."""
    totals: Counter[int] = Counter()
    for key, count in zip(keys, counts, strict=True):
        totals[key] += count
    return {key: totals[key] / hours for key, hours in Counter(keys).items()}


def _missing(hour: int, trace: Trace) -> bool:
    """Return True if the entire hour lies in a gap of the trace."""
    return any(begin <= hour * _HOUR_S and (hour + 1) * _HOUR_S <= until for begin, until in trace.gaps)


def _in_batches(jobs: Sequence[Job]) -> float:
    last: dict[tuple[str, float, float, float], float] = {}
    repeats = 0
    for job in jobs:
        kind = (job.queue, job.cpu, job.memory_gib, job.gpu)
        repeats += job.submitted_at - last.get(kind, -math.inf) <= BATCH_S
        last[kind] = job.submitted_at
    return repeats / len(jobs)


def _durations(jobs: Sequence[Job]) -> Durations:
    ordered = sorted(job.duration_s for job in jobs)
    return Durations(
        quantiles=tuple((share, ordered[max(0, math.ceil(share * len(ordered)) - 1)]) for share in QUANTILES),
        jobs_over_8h=_share(jobs, lambda _job: 1.0, lambda job: job.duration_s > SHORT_S),
        jobs_over_24h=_share(jobs, lambda _job: 1.0, lambda job: job.duration_s > LONG_S),
        work_over_8h=_share(jobs, work_of(jobs), lambda job: job.duration_s > SHORT_S),
        work_over_24h=_share(jobs, work_of(jobs), lambda job: job.duration_s > LONG_S),
    )


def work_of(jobs: Sequence[Job]) -> Callable[[Job], float]:
    """Return the measure of a job's work: GPU-seconds if any job requests GPUs, else core-seconds."""
    if any(job.gpu for job in jobs):
        return lambda job: job.gpu * job.duration_s
    return lambda job: job.cpu * job.duration_s


def _share(jobs: Iterable[Job], weight: Callable[[Job], float], counts: Callable[[Job], bool]) -> float:
    total = part = 0.0
    for job in jobs:
        total += weight(job)
        part += weight(job) if counts(job) else 0.0
    return part / total if total else 0.0


def _sizes(jobs: Sequence[Job]) -> tuple[Mix, ...]:
    counts: Counter[tuple[float, float, float]] = Counter()
    works: Counter[tuple[float, float, float]] = Counter()
    weight = work_of(jobs)
    for job in jobs:
        size = (job.cpu, job.memory_gib, job.gpu)
        counts[size] += 1
        works[size] += weight(job)  # pyright: ignore[reportArgumentType] - a Counter adds any numbers
    total = sum(works.values())
    return tuple(
        Mix(cpu=size[0], memory_gib=size[1], gpu=size[2], jobs=n / len(jobs), work=works[size] / total if total else 0)
        for size, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MIXES]
    )


def _wanted(jobs: Sequence[Job], end_s: float) -> Iterable[Wanted]:
    amounts: dict[str, Callable[[Job], float]] = {"gpu": lambda job: job.gpu, "cpu": lambda job: job.cpu}
    for resource, amount in amounts.items():
        for which_jobs, longest in (("all", math.inf), ("up to 8 h", SHORT_S)):
            spans = [
                (job.submitted_at, min(end_s, job.submitted_at + job.duration_s), amount(job))
                for job in jobs
                if 0 < job.duration_s <= longest and amount(job) and job.submitted_at < end_s
            ]
            if spans:
                yield _at_once(resource, which_jobs, changes(spans), end_s)


def _at_once(resource: str, which_jobs: str, steps: Sequence[tuple[float, float]], end_s: float) -> Wanted:
    lasting: list[tuple[float, float]] = [(0.0, steps[0][0])]  # amount, seconds
    by_hour = [0.0] * 24
    for (at, amount), (until, _) in zip(steps, [*steps[1:], (end_s, 0.0)], strict=True):
        lasting.append((amount, until - at))
        for hour, seconds in _hours_of(at, until):
            by_hour[hour] += amount * seconds
    mean = sum(amount * seconds for amount, seconds in lasting) / end_s
    peak = max(amount for amount, _ in lasting)
    busy = max(sum(by_hour[(first + i) % 24] for i in range(12)) for first in range(24))
    return Wanted(
        resource=resource,
        jobs=which_jobs,
        mean=mean,
        p95=_over_time(lasting, 0.95),
        peak=peak,
        busiest_12h_to_rest=_ratio(busy, sum(by_hour) - busy),
        most_saved=1 - mean / peak,
    )


def _hours_of(start: float, end: float) -> Iterable[tuple[int, float]]:
    """Yield the seconds of a span in each hour of the trace's day."""
    at = start
    while at < end:
        until = min(end, (at // _HOUR_S + 1) * _HOUR_S)
        yield int(at // _HOUR_S) % 24, until - at
        at = until


def _over_time(lasting: Sequence[tuple[float, float]], share: float) -> float:
    """Return the least amount that is not exceeded for this share of the time."""
    remaining = share * sum(seconds for _, seconds in lasting)
    for amount, seconds in sorted(lasting):
        remaining -= seconds
        if remaining <= 0:
            return amount
    return max(amount for amount, _ in lasting)


def _ratio(part: float, rest: float) -> float | None:
    return part / rest if rest > 1e-9 * part else None


def _findings(arrivals: Arrivals, durations: Durations, demands: Sequence[Wanted]) -> Iterable[str]:
    """Yield conclusions about scaling, each sentence with its figure."""
    resource = demands[0].resource if demands else ""  # GPUs if there are any: the CPU usually follows from them
    for demand in (demand for demand in demands if demand.resource == resource):
        yield (
            f"{demand.resource} of {'all jobs' if demand.jobs == 'all' else 'jobs up to 8 h'}: demand is "
            f"{demand.mean:,.1f} on average and {demand.peak:,.1f} at peak, so no scaling saves more than "
            f"{demand.most_saved:.0%} relative to a fleet sized for the peak."
        )
    if durations.work_over_24h > 1 / 3:
        yield (
            f"{durations.work_over_24h:.0%} of the work is in jobs over 24 h ({durations.jobs_over_24h:.1%} of the "
            "jobs): their nodes stay busy overnight and cannot be removed."
        )
    all_jobs = next((demand for demand in demands if demand.jobs == "all"), None)
    day_to_night = all_jobs.busiest_12h_to_rest if all_jobs else None
    if day_to_night is not None and day_to_night < 4 / 3:
        yield (
            f"Demand hardly drops overnight: in the busiest 12 hours it is {day_to_night:.2f} times the other "
            "12. Savings come from the time between bursts, by day too, more than from the time outside business hours."
        )
    if arrivals.hourly_var_to_mean > 2:
        yield (
            f"Jobs come in bursts: the variance of hourly arrivals is {arrivals.hourly_var_to_mean:.0f} times their "
            f"mean (1 for independent arrivals), and {arrivals.in_batches:.0%} of jobs follow a similar one within a "
            "minute. Nodes have to start fast, and averages say little about waits."
        )
