"""Workload traces: one CSV row per job, read completely and checked to the last cell.

Columns (`data/README.md`): submitted_at, duration_s, queue, cpu, memory_gib, gpu; seconds, cores, GiB and GPUs; and the
optional tasks, the number that a driver of Ray requests. A trace is trusted afterwards, so every problem is reported
with its place, the value, the expected value and an example, and all of them together. Some public traces have only
GPUs, or no memory: then a stated rule fills cpu and memory, and an assumption of the trace says so, since a filled
value is no measurement. A file of requests per window becomes synthetic work by the rules of `request_trace`.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import isnan
from pathlib import Path
from sys import intern

from ebbtide.simulator.trace import requests as request_trace
from ebbtide.simulator.trace.requests import Batches, batches_of
from ebbtide.simulator.trace.table import Number, Table, TraceError, TraceRow, header_text, split
from ebbtide.units.durations import DAY_S

__all__ = ["Job", "Trace", "TraceError", "bundled", "find_trace", "read_trace"]

COLUMNS = ("submitted_at", "duration_s", "queue", "cpu", "memory_gib", "gpu")
TASKS = "tasks"
"""An optional column, whose cells may be empty."""
CORES_PER_GPU = 8.0
GIB_PER_GPU = 64.0
GIB_PER_CORE = 4.0
GAP_S = DAY_S
"""A time without submissions that an assumption mentions: quiet times of the bundled traces are shorter."""
MOST_QUIET_S = 31 * DAY_S
"""A time without submissions that is an error: a time in another unit, or counted from another day."""
MOST_JOBS = 500_000
MOST_TASKS = 500_000
"""The limit for all drivers together: each task is an event or two."""
QUIET_END_S = DAY_S / 2
"""A time after the last submission that an assumption mentions, since entire days are replayed."""

_DATA = Path(__file__).parent / "data"
_SUBMITTED = Number(
    "submitted_at", "seconds from time 0 of the trace, 0 to 31622400 (366 days)", "393", most=31_622_400
)
_DURATION = Number("duration_s", "seconds, 0 to 31622400 (366 days)", "1080", most=31_622_400)
_CPU = Number("cpu", "cores, 0 to 1000000", "12", most=1e6)
_MEMORY = Number("memory_gib", "GiB, 0 to 1000000", "16", most=1e6)
_GPU = Number("gpu", "GPUs, 0 to 100000", "0.5", most=1e5)
_TASKS = Number(TASKS, "a whole number of tasks, 1 to 100000, or nothing", "40", above=1, most=1e5)


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a trace: its submission, duration and requests."""

    submitted_at: float
    duration_s: float
    queue: str
    cpu: float
    memory_gib: float
    gpu: float
    tasks: int = 0  # of a driver of Ray, each with the requests of the row; 0: not in the file


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of submission, at least one. `gaps`: spans, in seconds, in which data may be missing."""

    name: str
    jobs: tuple[Job, ...]
    assumptions: tuple[str, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()
    counted: bool = False  # converted from requests per window
    queue_names: Mapping[str, str] = field(default_factory=dict[str, str])  # `--queues`: those that were renamed
    other_queues: frozenset[str] = frozenset()  # of jobs that a part of a trace leaves out

    @property
    def queues(self) -> frozenset[str]:
        """The names of the queues, as the stack has them."""
        return self.other_queues.union(job.queue for job in self.jobs)

    @property
    def days(self) -> int:
        """The number of days with all submissions."""
        return int(self.jobs[-1].submitted_at // DAY_S) + 1


def bundled() -> tuple[str, ...]:
    """The names of the bundled traces."""
    return tuple(sorted(path.name.removesuffix(".csv.gz") for path in _DATA.glob("*.csv.gz")))


def bundled_path(name: str) -> Path:
    """The path of a bundled trace."""
    return _DATA / f"{name}.csv.gz"


def trace_path(path_or_name: str) -> Path:
    """The path of a file, or of a bundled trace by its name."""
    path = Path(path_or_name)
    return bundled_path(path_or_name) if path_or_name in bundled() and not path.is_file() else path


def find_trace(path_or_name: str) -> Trace:
    """Read a file, or a bundled trace by its name. Raises `TraceError`."""
    return read_trace(trace_path(path_or_name))


def read_trace(path: Path) -> Trace:
    """Read a `.csv` or `.csv.gz` file of jobs, or of requests per window. Raises `TraceError`."""
    table = Table(path)
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    try:
        header, lines = split(table.text())
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file (bundled traces: {', '.join(bundled())})") from error
    except csv.Error as error:
        raise TraceError(f"{path}: row 1: wanted CSV: {error}") from error
    if set(request_trace.COLUMNS) <= set(header):
        _once(table, header, request_trace.COLUMNS)
        work = batches_of(table, table.rows(header, lines, request_trace.COLUMNS))
        return _plausible(path, Trace(name, _jobs_of(work), work.assumptions, work.gaps, counted=True))
    _check_header(table, header)
    reader = _Jobs(table)
    columns = (*COLUMNS, TASKS) if TASKS in header else COLUMNS
    _once(table, header, columns)
    jobs = tuple(islice(reader.read(table.rows(header, lines, columns)), MOST_JOBS + 1))
    table.refuse()
    if not jobs:
        raise TraceError(f"{path}: wanted a header and at least one job, found no job at all (columns: {_header()})")
    gaps = _gaps(jobs)
    return _plausible(path, Trace(name, jobs, (*reader.assumptions(), *_gap_assumptions(jobs, gaps)), gaps))


def _plausible(path: Path, trace: Trace) -> Trace:
    """Refuse an implausible trace before a replay spends time on its days and jobs."""
    if len(trace.jobs) > MOST_JOBS:
        raise TraceError(f"{path}: wanted at most {MOST_JOBS} jobs, found more (for example the first weeks of it)")
    tasks = sum(job.tasks for job in trace.jobs)
    if tasks > MOST_TASKS:
        raise TraceError(
            f"{path}: wanted at most {MOST_TASKS} tasks of all jobs together, found {tasks} (for example fewer and "
            "longer ones)"
        )
    times = [0.0, *(job.submitted_at for job in trace.jobs)]
    before, after = max(pairwise(times), key=lambda pair: pair[1] - pair[0])
    if after - before > MOST_QUIET_S:
        raise TraceError(
            f"{path}: wanted a submission at least every {MOST_QUIET_S / DAY_S:g} days, found none from second "
            f"{before:.10g} to {after:.10g} (times are seconds from the start of the trace; for example 393)"
        )
    return trace


def _header() -> str:
    return ",".join(COLUMNS)


def _check_header(table: Table, header: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        columns = header_text(header) if header else "an empty file"
        table.note(
            f"row 1: missing column {', '.join(missing)}: found {columns}, wanted {_header()} (one row per job, sorted "
            f"by submitted_at) or {','.join(request_trace.COLUMNS)} (one row per window and queue)"
        )
    _once(table, header, COLUMNS)


def _once(table: Table, header: Sequence[str], columns: Sequence[str]) -> None:
    twice = [name for name in columns if header.count(name) > 1]
    if twice:
        wanted = ",".join(columns)
        table.note(f"row 1: wanted every column once, found {', '.join(twice)} more often (for example {wanted})")
    table.refuse()


def _jobs_of(work: Batches) -> tuple[Job, ...]:
    return tuple(
        Job(
            batch.at,
            work.duration_s,
            batch.queue,
            request_trace.CORES,
            request_trace.MEMORY_GIB,
            request_trace.GPUS,
        )
        for batch in work.batches
    )


def _gaps(jobs: Sequence[Job]) -> tuple[tuple[float, float], ...]:
    times = [0.0, *(job.submitted_at for job in jobs)]
    return tuple((before, after) for before, after in pairwise(times) if after - before >= GAP_S)


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


class _Jobs:
    """Converts rows into jobs and counts the filled values."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._cpu_filled = 0
        self._memory_filled = 0

    def read(self, rows: Iterator[TraceRow]) -> Iterator[Job]:
        previous = 0.0
        for row in rows:
            job = self._job(row)
            if isnan(job.submitted_at):
                continue
            if job.submitted_at < previous:
                wanted = f"a time not before the row above ({previous:g})"
                self._table.bad_cell(row, Number("submitted_at", wanted, f"{previous:g}"), f"{job.submitted_at:g}")
            previous = job.submitted_at
            yield job

    def assumptions(self) -> tuple[str, ...]:
        assumptions: list[str] = []
        if self._cpu_filled:
            assumptions.append(
                f"{self._cpu_filled} jobs state no cpu: {CORES_PER_GPU:g} cores per GPU were assumed (a rule, not data)"
            )
        if self._memory_filled:
            assumptions.append(
                f"{self._memory_filled} jobs state no memory: {GIB_PER_GPU:g} GiB per GPU, or {GIB_PER_CORE:g} GiB per "
                "core without a GPU, were assumed (a rule, not data)"
            )
        return tuple(assumptions)

    def _job(self, row: TraceRow) -> Job:
        table = self._table
        gpu = table.number(row, _GPU)
        cpu = self._cpu(row, gpu)
        return Job(
            submitted_at=table.number(row, _SUBMITTED),
            duration_s=table.number(row, _DURATION),
            queue=intern(row.cells["queue"]),
            cpu=cpu,
            memory_gib=self._memory(row, cpu=cpu, gpu=gpu),
            gpu=gpu,
            tasks=self._tasks(row),
        )

    def _tasks(self, row: TraceRow) -> int:
        if not row.cells.get(TASKS):
            return 0
        value = self._table.number(row, _TASKS)
        if isnan(value):
            return 0
        if value % 1:
            self._table.bad_cell(row, _TASKS, row.cells[TASKS])
        return int(value)

    def _cpu(self, row: TraceRow, gpu: float) -> float:
        if row.cells["cpu"] or gpu == 0:  # without a GPU an empty cell is bad: cores cannot be derived
            return self._table.number(row, _CPU)
        self._cpu_filled += 1
        return CORES_PER_GPU * gpu

    def _memory(self, row: TraceRow, *, cpu: float, gpu: float) -> float:
        if row.cells["memory_gib"]:
            return self._table.number(row, _MEMORY)
        self._memory_filled += 1
        return GIB_PER_GPU * gpu if gpu else GIB_PER_CORE * cpu
