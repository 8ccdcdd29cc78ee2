"""Description of a load, and a stack file for it, as `ebbtide simulate --describe` shows them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebbtide.advice.adapt import adapted_stack
from ebbtide.advice.describe import Arrivals, Description, describe
from ebbtide.advice.describe_requests import RequestDescription, describe_requests, requests_json, requests_text
from ebbtide.advice.suggest import NoSuggestion, suggested_stack
from ebbtide.report.words import duration, percent, several
from ebbtide.settings import load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import name_of, stack_path
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.trace.counted import find_requests
from ebbtide.simulator.trace.traces import Trace, TraceError, find_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLoad:
    document: Any  # for JSON
    text: str
    stack: str | None  # None if no node of AWS runs the load; `refusal` says why
    refusal: str


def described_load(
    trace: str,
    longest_s: float | None,
    file: Path | None,
    like: str | None,
    served_by: SimulatedService | None = None,
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
    text = "\n".join([as_text(description), "", note])
    document = as_json(description, stack)
    if requests is not None:
        text = "\n".join([requests_text(requests), "", "As work for queues:", text])
        document = {**document, "requests": requests_json(requests)}
    return DescribedLoad(document=document, text=text, stack=stack, refusal=refusal)


def _requests_of(trace: str, jobs: Trace, served_by: SimulatedService | None) -> RequestDescription | None:
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
    return {"schema": SCHEMA, **asdict(description), "suggested_stack": stack}


def as_text(description: Description) -> str:
    amount = f"{several(description.jobs, 'job')} in {several(description.days, 'day')}"
    lines = [
        f"{description.trace}: {amount}; work is counted in {description.work_unit}",
        "",
        *(f"- {sentence}" for sentence in description.findings),
        "",
        *_pattern(description.arrivals),
        "",
        *_lengths(description),
        "",
        *_sizes(description),
        "",
        *_wanted(description),
    ]
    if description.assumptions:
        lines += ["", "Assumed:", *(f"- {sentence}" for sentence in description.assumptions)]
    return "\n".join(lines)


def _pattern(arrivals: Arrivals) -> Iterator[str]:
    yield "jobs an hour, by hour of the trace's day (its second 0 is hour 0)"
    yield from _bars([f"{hour:02d}" for hour in range(24)], arrivals.by_hour)
    yield ""
    yield "jobs a day, by day of the trace's weeks (its first day is day 1)"
    yield from _bars([f"day {day}" for day in range(1, len(arrivals.by_weekday) + 1)], arrivals.by_weekday)
    yield ""
    day_to_night = arrivals.busiest_12h_to_rest
    comparison = "all jobs come then" if day_to_night is None else f"{day_to_night:.2f} times the other 12 hours"
    yield f"Busiest 12 hours: from hour {arrivals.busiest_12h_from}, {comparison}."
    yield (
        f"Per hour: variance/mean {arrivals.hourly_var_to_mean:.1f}, peak/mean {arrivals.hourly_peak_to_mean:.1f}, "
        f"{percent(arrivals.hours_without)} of hours without a job."
    )


def _bars(names: Sequence[str], values: Sequence[float]) -> Iterator[str]:
    most = max(values)
    for name, value in zip(names, values, strict=True):
        bar = "#" * round(_BAR * value / most)
        yield f"  {name:<6}{value:>9,.1f}  {bar}".rstrip()


def _lengths(description: Description) -> Iterator[str]:
    durations = description.durations
    yield "how long jobs run"
    yield "  " + ", ".join(f"{share:.0%} up to {duration(seconds)}" for share, seconds in durations.quantiles)
    yield (
        f"  over 8 h: {percent(durations.jobs_over_8h)} of jobs, {percent(durations.work_over_8h)} of the work; "
        f"over 24 h: {percent(durations.jobs_over_24h)} and {percent(durations.work_over_24h)}"
    )


def _sizes(description: Description) -> Iterator[str]:
    yield f"{'size':<34}{'of jobs':>9}{'of work':>9}"
    for mix in description.sizes:
        size = f"{mix.cpu:g} CPU, {mix.memory_gib:g} GiB" + (f", {mix.gpu:g} GPU" if mix.gpu else "")
        yield f"  {size:<32}{percent(mix.jobs):>9}{percent(mix.work):>9}"


def _wanted(description: Description) -> Iterator[str]:
    yield f"{'demand':<20}{'mean':>9}{'p95':>9}{'peak':>9}{'12 h/12 h':>11}{'max. saving':>15}"
    for demand in description.wanted:
        night = "-" if demand.busiest_12h_to_rest is None else f"{demand.busiest_12h_to_rest:.2f}"
        yield (
            f"  {f'{demand.resource}, {demand.jobs}':<18}{demand.mean:>9,.1f}{demand.p95:>9,.1f}{demand.peak:>9,.1f}"
            f"{night:>11}{percent(demand.most_saved):>15}"
        )
