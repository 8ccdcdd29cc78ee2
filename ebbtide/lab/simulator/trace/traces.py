"""Workload traces: the jobs of a file, checked to the last cell.

`files` reads the formats, `columns` finds the columns, `times` reads times, and `jobs` makes jobs of the rows. A trace
whose times are dates keeps its calendar: it begins at a local midnight of the stack. Some exports have only GPUs, or no
memory: then a rule fills cpu and memory, and an assumption of the trace states it, since a filled value is no
measurement. A file of requests per window becomes synthetic work by the rules of `requests`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from ebbtide.lab.simulator.trace import requests as request_trace
from ebbtide.lab.simulator.trace.columns import Columns, columns_of, missing_fields
from ebbtide.lab.simulator.trace.jobs import Job, Reading, Trace, read_jobs
from ebbtide.lab.simulator.trace.table import (
    Progress,
    Table,
    TraceError,
    bundled,
    header_text,
    open_table,
    trace_name,
    trace_path,
)
from ebbtide.text.durations import DAY_S

__all__ = ["Job", "Reading", "Trace", "TraceError", "bundled", "find_trace", "trace_path"]

GAP_S = DAY_S
"""A time without submissions that an assumption mentions: quiet times of the bundled traces are shorter."""
MOST_QUIET_S = 31 * DAY_S
"""A time without submissions that is an error: a time in another unit, or counted from another day."""
MOST_TASKS = 500_000
"""The limit for all drivers together: each task is an event or two."""
QUIET_END_S = DAY_S / 2
"""A time after the last submission that an assumption mentions, since entire days are replayed."""


def find_trace(path_or_name: Path | str, reading: Reading | None = None, progress: Progress | None = None) -> Trace:
    """Read a file of jobs or of requests per window, or a bundled trace by its name. Raises `TraceError`."""
    path, reading = trace_path(path_or_name), reading or Reading()
    name = trace_name(path)
    with open_table(path, progress) as table:
        if set(request_trace.COLUMNS) <= set(table.header):
            if reading.columns or reading.where or reading.since is not None:
                raise TraceError(
                    f"{path}: wanted a trace of jobs with --columns, --where and --from, found requests per window"
                )
            table.once(request_trace.COLUMNS)
            return _plausible(path, request_trace.batches_of(table, name, table.rows(request_trace.COLUMNS)))
        trace = read_jobs(table, name, _columns(table, reading), reading)
    times = [0.0, *(job.submitted_at for job in trace.jobs)]
    gaps = tuple((before, after) for before, after in pairwise(times) if after - before >= GAP_S)
    assumptions = (*trace.assumptions, *_gap_assumptions(trace.jobs, gaps))
    return _plausible(path, replace(trace, assumptions=assumptions, gaps=gaps))


def _columns(table: Table, reading: Reading) -> Columns:
    """Return the columns of the fields. Raises `TraceError` if a required column is missing or occurs twice."""
    header = table.header
    columns = columns_of(header, reading.columns, tuple(reading.where))
    for name in (name for name in reading.where if name not in header):
        table.note(name, f"row 1: --where {name}: wanted a column of the file, found {header_text(header)}")
    missing = [*missing_fields(columns), *(name for name in columns.names if name not in header)]
    if missing:
        shown = header_text(header) if header else "an empty file"
        table.note(
            "header",
            f"row 1: missing column {', '.join(missing)}: found {shown}, wanted submitted_at,duration_s,queue (one row "
            f"per job; for example --columns submitted_at=created) or {','.join(request_trace.COLUMNS)} (one row per "
            "window and queue)",
        )
    for field, names in columns.unread_amounts():
        amount = f"{field.upper()}s"
        table.note(
            field,
            f"row 1: wanted the {amount} of a job in a column whose name is known, found {', '.join(names)} (for "
            f"example --columns {field}={names[0]}, if it has the {amount} of the entire job; else leave that column "
            "out)",
        )
    table.once(tuple(dict.fromkeys((*columns.names, *reading.where))))
    return columns


def _plausible(path: Path, trace: Trace) -> Trace:
    """Refuse an implausible trace before a replay spends time on its days and jobs."""
    tasks = sum(job.tasks for job in trace.jobs)
    if tasks > MOST_TASKS:
        raise TraceError(
            f"{path}: wanted at most {MOST_TASKS} tasks of all jobs together, found {tasks} (for example fewer, "
            "longer tasks)"
        )
    times = [0.0, *(job.submitted_at for job in trace.jobs)]
    before, after = max(pairwise(times), key=lambda pair: pair[1] - pair[0])
    if after - before > MOST_QUIET_S:
        raise TraceError(
            f"{path}: wanted a submission at least every {MOST_QUIET_S / DAY_S:g} days, found none from "
            f"{_moment(trace, before)} to {_moment(trace, after)} (for example --from and --days without that gap)"
        )
    return trace


def _moment(trace: Trace, second: float) -> str:
    if trace.start is None:
        return f"second {second:.10g}"
    return f"{trace.start + timedelta(seconds=second):%Y-%m-%dT%H:%MZ}"


def _gap_assumptions(jobs: Sequence[Job], gaps: Sequence[tuple[float, float]]) -> Iterator[str]:
    if gaps:
        begin, until = max(gaps, key=lambda gap: gap[1] - gap[0])
        yield (
            f"Nothing is submitted for {GAP_S / 3600:g} hours or more {len(gaps)} times, the longest from hour "
            f"{begin / 3600:.4g} to hour {until / 3600:.4g}: played as idle, although the file does not say whether "
            "data are missing there."
        )
    last = jobs[-1].submitted_at
    if DAY_S - last % DAY_S >= QUIET_END_S:
        yield (
            f"The last job is submitted at hour {last / 3600:.4g}, and a replay of all days goes on to the end of that "
            "day: played as idle, although the file does not say whether data are missing there."
        )
