"""A description of a load for a terminal of 80 columns, and as a JSON document."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ebbtide.advice.describe import Arrivals, Description
from ebbtide.report.words import duration, percent, several

SCHEMA = 1
_BAR = 24


def as_json(description: Description, stack: str | None) -> dict[str, Any]:
    """Plain values; `suggested_stack` is the text of a stack file, or null where no node runs the load."""
    return {"schema": SCHEMA, **asdict(description), "suggested_stack": stack}


def as_text(found: Description) -> str:
    amount = f"{several(found.jobs, 'job')} in {several(found.days, 'day')}"
    lines = [
        f"{found.trace}: {amount}; work is counted in {found.work_unit}",
        "",
        *(f"- {sentence}" for sentence in found.findings),
        "",
        *_pattern(found.arrivals),
        "",
        *_lengths(found),
        "",
        *_sizes(found),
        "",
        *_wanted(found),
    ]
    if found.assumptions:
        lines += ["", "Assumed:", *(f"- {sentence}" for sentence in found.assumptions)]
    return "\n".join(lines)


def _pattern(arrivals: Arrivals) -> Iterator[str]:
    yield "jobs an hour, by hour of the trace's day (its second 0 is hour 0)"
    yield from _bars([f"{hour:02d}" for hour in range(24)], arrivals.by_hour)
    yield ""
    yield "jobs a day, by day of the trace's weeks (its first day is day 1)"
    yield from _bars([f"day {day}" for day in range(1, len(arrivals.by_weekday) + 1)], arrivals.by_weekday)
    yield ""
    rest = arrivals.busiest_12h_to_rest
    times = "all jobs come then" if rest is None else f"{rest:.2f} times the other 12 hours"
    yield f"Busiest 12 hours: from hour {arrivals.busiest_12h_from}, {times}."
    yield (
        f"Per hour: variance/mean {arrivals.hourly_var_to_mean:.1f}, peak/mean {arrivals.hourly_peak_to_mean:.1f}, "
        f"{percent(arrivals.hours_without)} of hours without a job."
    )


def _bars(names: Sequence[str], values: Sequence[float]) -> Iterator[str]:
    most = max(values)
    for name, value in zip(names, values, strict=True):
        bar = "#" * round(_BAR * value / most)
        yield f"  {name:<6}{value:>9,.1f}  {bar}".rstrip()


def _lengths(found: Description) -> Iterator[str]:
    some = found.durations
    yield "how long jobs run"
    yield "  " + ", ".join(f"{share:.0%} up to {duration(seconds)}" for share, seconds in some.quantiles)
    yield (
        f"  over 8 h: {percent(some.jobs_over_8h)} of jobs, {percent(some.work_over_8h)} of the work; "
        f"over 24 h: {percent(some.jobs_over_24h)} and {percent(some.work_over_24h)}"
    )


def _sizes(found: Description) -> Iterator[str]:
    yield f"{'size':<34}{'of jobs':>9}{'of work':>9}"
    for mix in found.sizes:
        size = f"{mix.cpu:g} CPU, {mix.memory_gib:g} GiB" + (f", {mix.gpu:g} GPU" if mix.gpu else "")
        yield f"  {size:<32}{percent(mix.jobs):>9}{percent(mix.work):>9}"


def _wanted(found: Description) -> Iterator[str]:
    yield f"{'demand':<20}{'mean':>9}{'p95':>9}{'peak':>9}{'12 h/12 h':>11}{'max. saving':>15}"
    for some in found.wanted:
        night = "-" if some.busiest_12h_to_rest is None else f"{some.busiest_12h_to_rest:.2f}"
        yield (
            f"  {f'{some.resource}, {some.jobs}':<18}{some.mean:>9,.1f}{some.p95:>9,.1f}{some.peak:>9,.1f}"
            f"{night:>11}{percent(some.most_saved):>15}"
        )
