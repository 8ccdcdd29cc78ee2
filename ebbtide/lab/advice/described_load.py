"""Description of a load, and a stack file for it, as `ebbtide simulate --describe` shows them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rich.console import Group

from ebbtide.lab.advice.adapt import adapted_stack
from ebbtide.lab.advice.describe import Arrivals, Description, describe
from ebbtide.lab.advice.describe_requests import RequestDescription, describe_requests, requests_json, requests_parts
from ebbtide.lab.advice.suggest import NoSuggestion, suggested_stack
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.lab.simulator.trace.counted import find_requests
from ebbtide.lab.simulator.trace.traces import Trace, TraceError, find_trace
from ebbtide.settings import load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import name_of, stack_path
from ebbtide.text.counts import percent, several
from ebbtide.text.durations import duration
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import HUNDREDTHS, SHARE, TENTHS, Sheet, left, right
from ebbtide.text.terminal import laid_out


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLoad:
    document: Any  # for JSON
    shown: Group
    stack: str | None  # None if no AWS node runs the load; `refusal` is the reason
    refusal: str


def described_load(
    trace: str,
    longest_s: float | None,
    file: Path | None,
    like: str | None,
    served_by: ServiceModel | None = None,
    read: Callable[[str], Trace] = find_trace,
) -> DescribedLoad:
    """Describe a load and suggest a stack file: `file` is its path, `like` the stack whose other lines it copies.

    A trace of requests per window is described first, with the load that one pod of `served_by` carries. A load that no
    node runs is described too. Raises `TraceError`, and `StackInvalid` and `ReplayError` for a stack that cannot be
    adapted.
    """
    jobs = read(trace)
    requests = _requests_of(trace, jobs, served_by)
    stack, refusal = None, ""
    note = "A stack file made for this trace: --suggest FILE writes it."
    try:
        stack = _stack_for(jobs, longest_s, file, like)
        if file is not None:
            note = f"{file}: a stack file made for this trace; replace its images and queues with your own."
    except NoSuggestion as refused:
        refusal = note = str(refused)
    description = describe(jobs)
    parts: list[str | Sheet] = [*jobs_parts(description), "", note]
    document = as_json(description, stack)
    if requests is not None:
        parts = [*requests_parts(requests), "", "As work for queues:", *parts]
        document = {**document, "requests": requests_json(requests)}
    return DescribedLoad(document=document, shown=laid_out(parts), stack=stack, refusal=refusal)


def _requests_of(trace: str, jobs: Trace, served_by: ServiceModel | None) -> RequestDescription | None:
    if jobs.counted:
        return describe_requests(find_requests(trace), served_by)
    if served_by is not None:
        raise TraceError(
            f"trace {jobs.name}: wanted requests per window with --service, found jobs (for example "
            "requests-servegen-m-small)"
        )
    return None


def _stack_for(jobs: Trace, longest_s: float | None, file: Path | None, like: str | None) -> str:
    if like is None:
        return suggested_stack(jobs, "suggested" if file is None else name_of(file), max_job_s=longest_s)
    load_stack(like)  # raises with the faults of the file, or if it does not exist
    path = stack_path(like)
    return adapted_stack(path.read_text(encoding="utf-8"), str(path), files_in(path.parent), jobs, longest_s)


SCHEMA = 1
_BAR = 24


def as_json(description: Description, stack: str | None) -> dict[str, Any]:
    """Return plain values; `suggested_stack` is the text of a stack file, or null if no node runs the load."""
    return {"schema": SCHEMA, **plain_values(description), "suggested_stack": stack}


def jobs_parts(description: Description) -> Iterator[str | Sheet]:
    """Yield the lines and tables for a terminal."""
    amount = f"{several(description.jobs, 'job')} in {several(description.days, 'day')}"
    yield f"{description.trace}: {amount}; work is counted in {description.work_unit}"
    yield ""
    yield from (f"- {sentence}" for sentence in description.findings)
    yield ""
    yield from _pattern(description.arrivals)
    yield ""
    yield from _lengths(description)
    yield ""
    yield _sizes(description)
    yield ""
    yield _wanted(description)
    if description.assumptions:
        yield ""
        yield "Assumed:"
        yield from (f"- {sentence}" for sentence in description.assumptions)


def _pattern(arrivals: Arrivals) -> Iterator[str | Sheet]:
    first, zone = arrivals.first_day, arrivals.zone
    by_hour = {f"{hour:02d}": jobs for hour, jobs in enumerate(arrivals.by_hour)}
    hours = "the trace's day (its second 0 is hour 0)" if first is None else f"the day in {zone}"
    yield _bars(f"jobs an hour, by hour of {hours}", by_hour)
    yield ""
    if first is None:
        by_day = {f"day {day}": jobs for day, jobs in enumerate(arrivals.by_weekday, start=1)}
        yield _bars("jobs a day, by day of the trace's weeks (its first day is day 1)", by_day)
    else:
        days = {first + timedelta(days=day): jobs for day, jobs in enumerate(arrivals.by_weekday)}
        by_weekday = {f"{day:%a}": days[day] for day in sorted(days, key=date.weekday)}
        yield _bars(f"jobs a day, by weekday in {zone}", by_weekday)
    yield ""
    day_to_night = arrivals.busiest_12h_to_rest
    comparison = "all jobs come then" if day_to_night is None else f"{day_to_night:.2f} times the other 12 hours"
    begin = f"hour {arrivals.busiest_12h_from}" if first is None else f"{arrivals.busiest_12h_from:02d}:00"
    yield f"Busiest 12 hours: from {begin}, {comparison}."
    yield (
        f"Per hour: variance/mean {arrivals.hourly_var_to_mean:.1f}, peak/mean {arrivals.hourly_peak_to_mean:.1f}, "
        f"{percent(arrivals.hours_without)} of hours without a job."
    )


def _bars(caption: str, values: Mapping[str, float]) -> Sheet:
    most = max(values.values())
    return Sheet(
        caption=caption,
        columns=[*left(""), *right("", unit=TENTHS), *left("")],
        rows=[(f"  {name}", value, "#" * round(_BAR * value / most)) for name, value in values.items()],
    )


def _lengths(description: Description) -> Iterator[str]:
    durations = description.durations
    yield "how long jobs run"
    yield "  " + ", ".join(f"{share:.0%} up to {duration(seconds)}" for share, seconds in durations.quantiles)
    yield (
        f"  over 8 h: {percent(durations.jobs_over_8h)} of jobs, {percent(durations.work_over_8h)} of the work; "
        f"over 24 h: {percent(durations.jobs_over_24h)} and {percent(durations.work_over_24h)}"
    )


def _sizes(description: Description) -> Sheet:
    return Sheet(
        columns=[*left("size"), *right("of jobs", "of work", unit=SHARE)],
        rows=[
            (
                f"  {mix.cpu:g} CPU, {mix.memory_gib:g} GiB" + (f", {mix.gpu:g} GPU" if mix.gpu else ""),
                mix.jobs,
                mix.work,
            )
            for mix in description.sizes
        ],
    )


def _wanted(description: Description) -> Sheet:
    return Sheet(
        columns=[
            *left("demand"),
            *right("mean", "p95", "peak", unit=TENTHS),
            *right("12 h/12 h", unit=HUNDREDTHS, unknown="-"),
            *right("max. saving", unit=SHARE),
        ],
        rows=[
            (
                f"  {demand.resource}, {demand.jobs}",
                demand.mean,
                demand.p95,
                demand.peak,
                demand.busiest_12h_to_rest,
                demand.most_saved,
            )
            for demand in description.wanted
        ],
    )
