"""`python -m benchmarks.pool_forecasts`: would a forecast of its workers pay for a pool? On all bundled traces of jobs.

By minute and without a cluster, which is kind to every floor alike: each job is wanted when it is submitted, workers
are there a start later than they were wanted and stay for the stabilization window, and a floor is there on time. What
waits is the sum of workers that were wanted and not there. A floor's price is its worker-hours.

`--page` writes docs/reference/results-of-pool-forecasts.md.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from ebbtide.advice.demand import changes
from ebbtide.files import write_file
from ebbtide.monitoring.closed_days import is_closed
from ebbtide.monitoring.forecast import horizon
from ebbtide.simulator.services.backtest import LEAST_GAIN, sliding_max
from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes
from ebbtide.simulator.services.forecast import Forecast, pods_of
from ebbtide.simulator.trace.alignment import aligned_start
from ebbtide.simulator.trace.traces import Job, find_trace
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval

TRACES = ("itp2021-a", "openb2023-a", "surf2022-july")
HOURS = BusinessHours(timezone="America/New_York", week=tuple(WeeklyInterval(day, 8 * 60, 19 * 60) for day in range(5)))
LONGEST_S = 8 * 3600.0
STARTS = 3  # minutes: a node's two, and a worker's
NODE_STARTUP, STAYS = timedelta(minutes=5), 2  # the defaults of controller.nodeStartup and stabilizationWindow
LEARNT_DAYS = 7
MARGINS = (1.0, 1.5, 2.0, 3.0)
MORNINGS = (1, 2, 4)  # hours
HEADROOMS = tuple(step / 20 for step in range(81))
SPARES = tuple(round(1.2**step) for step in range(34))
STEPS = 25  # numbers of workers that are tried for each kind of floor


@dataclass(frozen=True, slots=True)
class Cost:
    """On the judged days."""

    waited: float  # hours that jobs waited for a worker
    hours: float  # of workers

    def told(self) -> str:
        return f"{self.waited:,.0f}, {self.hours:,.0f}"


Found: TypeAlias = tuple[str, Cost]
Floor: TypeAlias = Callable[[int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All floors on some days."""

    reactive: Cost
    forecasts: dict[float, Cost]
    planned: dict[float, Found | None]  # by the margin: the cheapest with which jobs wait no longer
    spare: dict[float, Found | None]

    @property
    def pays(self) -> list[float]:
        return [
            margin
            for margin, cost in self.forecasts.items()
            if all(
                rival is None or cost.hours < (1 - LEAST_GAIN) * rival[1].hours
                for rival in (self.planned[margin], self.spare[margin])
            )
        ]


def wanted_by_minute(jobs: Sequence[Job]) -> list[float]:
    """Workers wanted at once, on average over each minute."""
    steps = changes((job.submitted_at, job.submitted_at + job.duration_s, 1.0) for job in jobs)
    total = [0.0] * (int(steps[-1][0] // MINUTE_S) + 1)
    for (begin, amount), (end, _) in pairwise(steps):
        while begin < end:
            minute = int(begin // MINUTE_S)
            until = min(end, (minute + 1) * MINUTE_S)
            total[minute] += amount * (until - begin) / MINUTE_S
            begin = until
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    pool: str
    jobs: int
    mean: float
    peak: int
    earlier: Judged
    later: Judged

    @property
    def pays(self) -> list[float]:
        """Margins that would have been chosen, and were right."""
        return [margin for margin in self.later.pays if margin in self.earlier.pays]


def case_of(name: str, queue: str) -> Case:
    every = [job for job in find_trace(name).jobs if job.duration_s <= LONGEST_S]
    jobs = [job for job in every if job.queue == queue]
    days = int(max(job.submitted_at for job in every) // (DAY_MINUTES * MINUTE_S))
    wanted = wanted_by_minute(jobs)[: days * DAY_MINUTES]
    wanted += [0.0] * (days * DAY_MINUTES - len(wanted))
    start = aligned_start(every, HOURS).astimezone(UTC)
    forecasts = dict(_forecasts(wanted, start, int(max(wanted)) + 1))
    planned = list(_planned(wanted, start))
    half = (LEARNT_DAYS + days) // 2
    earlier, later = (
        _judged(wanted, forecasts, planned, range(begin * DAY_MINUTES, end * DAY_MINUTES))
        for begin, end in ((LEARNT_DAYS, half), (half, days))
    )
    mean, peak = sum(wanted) / len(wanted), round(max(wanted))
    return Case(pool=f"{name}, {queue}", jobs=len(jobs), mean=mean, peak=peak, earlier=earlier, later=later)


def _judged(
    wanted: Sequence[float], forecasts: Mapping[float, Floor], planned: Sequence[tuple[str, Floor]], days: range
) -> Judged:
    followed = [0.0] * STARTS + sliding_max(wanted, STAYS + 1)[: len(wanted) - STARTS]

    def cost(floor: Floor) -> Cost:
        pods = [max(followed[minute], floor(minute)) for minute in days]
        waited = sum(max(0.0, wanted[minute] - there) for minute, there in zip(days, pods, strict=True))
        return Cost(waited / 60, sum(pods) / 60)

    spare: list[tuple[str, Floor]] = [
        *((f"{share:.0%} more", lambda at, share=share: followed[at] * (1 + share)) for share in HEADROOMS),
        *((f"{more} more", lambda at, more=more: followed[at] + more) for more in SPARES),
    ]
    foretold = {margin: cost(floor) for margin, floor in forecasts.items()}
    plans, spares = ([(text, cost(floor)) for text, floor in some] for some in (planned, spare))
    return Judged(
        reactive=cost(lambda _minute: 0.0),
        forecasts=foretold,
        planned={margin: _cheapest(plans, it.waited) for margin, it in foretold.items()},
        spare={margin: _cheapest(spares, it.waited) for margin, it in foretold.items()},
    )


def _forecasts(wanted: Sequence[float], start: datetime, most: int) -> Iterator[tuple[float, Floor]]:
    def closed(minute: int) -> bool:
        return is_closed(HOURS, HOURS.local(start + timedelta(minutes=minute)).date())

    known = [closed(minute) for minute in range(len(wanted))]
    forecast = Forecast(Minutes(wanted), 1.0, horizon(NODE_STARTUP), lambda minute: known[max(0, minute)])
    ahead = sliding_max([forecast.at(now) or 0.0 for now in range(len(wanted) - STARTS)], STAYS + 1)
    for margin in MARGINS:
        pods = [0] * STARTS + [pods_of(rate, margin=margin, pod_rate=1.0, most=most) for rate in ahead]
        yield margin, pods.__getitem__


def _planned(wanted: Sequence[float], start: datetime) -> Iterator[tuple[str, Floor]]:
    """Each with the whole course known: what a stack file can say, with the best number."""
    spans = list(HOURS.open_spans(start, start + timedelta(minutes=len(wanted))))
    since = [(it.start - start) // timedelta(minutes=1) for it in spans]
    until = [(it.end - start) // timedelta(minutes=1) for it in spans]
    kinds: dict[str, set[int] | None] = {"min": None}
    kinds["open hours"] = {minute for begin, end in zip(since, until, strict=True) for minute in range(begin, end)}
    for hours in MORNINGS:
        kinds[f"morning of {hours}h"] = {minute for begin in since for minute in range(begin, begin + 60 * hours)}
    peak = max(wanted)
    for kind, minutes in kinds.items():
        for step in range(STEPS + 1):
            workers = round(peak * (step / STEPS) ** 2)
            yield f"{kind}: {workers}", _floor(workers, minutes)


def _floor(workers: int, minutes: set[int] | None) -> Floor:
    return lambda minute: workers if minutes is None or minute in minutes else 0


def _cheapest(floors: Sequence[Found], waited: float) -> Found | None:
    enough = [(text, it) for text, it in floors if it.waited <= waited]
    return min(enough, key=lambda it: it[1].hours, default=None)


def page(cases: Sequence[Case]) -> str:
    return "\n".join(_page(cases)) + "\n"


def _page(cases: Sequence[Case]) -> Iterator[str]:
    yield "# Would a forecast pay for a pool of workers?"
    yield ""
    yield "Written by `python -m benchmarks.pool_forecasts --page docs/reference/results-of-pool-forecasts.md`."
    yield ""
    yield (
        "Each queue of the bundled traces of jobs is a pool of its own. Jobs of up to eight hours are wanted when "
        f"they are submitted. Workers are there {STARTS} minutes after they were wanted. The forecast is that of "
        f"services, of workers instead of requests, with {LEARNT_DAYS} days to learn from. The days after are halved, "
        "and the second half is shown: hours that jobs waited, worker-hours. *Planned*: of `min`, `morning` and "
        "a floor in business hours, each with the best number in hindsight, the cheapest with which jobs wait no "
        "longer. *Spare*: the same of workers that are always kept above those that are wanted, as a number or as a "
        "share. **A forecast pays where it costs at least "
        f"{LEAST_GAIN:.0%} less than both, in both halves**: a margin has to be chosen before."
    )
    yield ""
    yield "| pool | jobs | workers: mean, most | no floor | margin | forecast | planned | spare | pays |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for it in cases:
        for margin, cost in it.later.forecasts.items():
            planned, spare = _rival(it.later.planned[margin]), _rival(it.later.spare[margin])
            pays = "**yes**" if margin in it.pays else "then alone" if margin in it.later.pays else "no"
            yield (
                f"| {it.pool} | {it.jobs:,} | {it.mean:,.1f}, {it.peak:,} | {it.later.reactive.told()} | {margin:g} "
                f"| {cost.told()} | {planned} | {spare} | {pays} |"
            )
    paying = sum(len(it.pays) for it in cases)
    yield ""
    yield f"It pays in {paying} of {sum(len(it.later.forecasts) for it in cases)} cases."


def _rival(found: Found | None) -> str:
    return "none does" if found is None else f"{found[1].told()} ({found[0]})"


def _case(asked: tuple[str, str]) -> Case:
    return case_of(*asked)


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.pool_forecasts")
    options.add_argument("--page", type=Path)
    options.add_argument("--workers", type=int, default=2)
    asked = options.parse_args(arguments)
    todo = [(name, queue) for name in TRACES for queue in sorted({job.queue for job in find_trace(name).jobs})]
    with ProcessPoolExecutor(asked.workers) as pool:
        cases = list(pool.map(_case, todo))
    text = page(cases)
    print(text)
    if asked.page is not None:
        write_file(asked.page, text)


if __name__ == "__main__":
    main(sys.argv[1:])
