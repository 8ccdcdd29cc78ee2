"""Jobs of an exported table: sizes, durations and the chosen span of days.

Rows are read one by one. Only the jobs of the span are kept, and at most `MOST_JOBS` of them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from math import inf, isnan, nan
from sys import intern

from ebbtide.lab.simulator.trace.columns import (
    CPU,
    DURATION,
    DURATION_S,
    FINISHED,
    GPU,
    GRES,
    JOB_ID,
    MEMORY,
    MEMORY_GIB,
    NODES,
    QUEUE,
    STARTED,
    STATE,
    SUBMITTED,
    TASKS,
    TRES,
    UNITS_IN_NAMES,
    Columns,
    ColumnUnit,
    Export,
)
from ebbtide.lab.simulator.trace.table import Number, Table, TraceError, TraceRow
from ebbtide.lab.simulator.trace.times import LONGEST_S, SECONDS, TimeColumns
from ebbtide.settings.file.problems import show
from ebbtide.text.counts import several
from ebbtide.text.durations import DAY_S
from ebbtide.text.quantities import EXPORTED_MEMORY_UNITS, SLURM_MEMORY_UNITS, read_quantity
from ebbtide.vocabulary.windows import zone_of

CORES_PER_GPU = 8.0
GIB_PER_GPU = 64.0
GIB_PER_CORE = 4.0
MOST_JOBS = 500_000
MOST_DAYS = 366

_DURATION = Number(DURATION_S, "seconds, 0 to 31622400 (366 days)", "1080", most=LONGEST_S)
_DURATION_MS = Number(DURATION, "milliseconds, 0 to 31622400000 (366 days)", "1080000", most=LONGEST_S * 1000)
_CPU = Number(CPU, "cores, 0 to 1000000", "12", most=1e6)
_MEMORY = Number(MEMORY_GIB, "GiB, 0 to 1000000", "16", most=1e6)
_GPU = Number(GPU, "GPUs, 0 to 100000, or true or false", "0.5", most=1e5)
_COPIES = Number("", "a factor for an amount of the same row, 0 to 100000", "8", most=1e5)
_TASKS = Number(TASKS, "a whole number of tasks, 1 to 100000, or nothing", "40", above=1, most=1e5)
_LEAST_BYTES = 2**20
_GIB = 2**30

_NO_TIME = frozenset({"", "none", "null", "unknown", "none assigned", "nat", "nan", "n/a", "\\n"})
"""Cells of a start or an end that mean: not yet."""
_UNFINISHED = ("pending", "running", "requeued", "resizing", "suspended", "queued", "waiting")
_CANCELLED = ("cancel", "killed", "revoked", "deleted")
"""Prefixes of the states of jobs that a user or a manager ended, perhaps before their start."""
_MOST_NAMES = 12
_MOST_VALUES = 1000  # of a column that chooses rows; more are not kept for a message
_FLAGS: Mapping[str, float] = {
    **dict.fromkeys(("true", "yes", "t", "y", "on"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n", "off"), 0.0),
}
"""Words of a column that states whether a job needs a GPU, which then counts as one."""
_NO_SIZES: Mapping[str, float] = {}
_GRES_GPUS = re.compile(r"(?:gres[:/])?(?:gpu|7696487)(?:[:/][a-z][^:=,()]*)?(?:[:=]([0-9]+))?", re.IGNORECASE)
"""GPUs of sacct's AllocGRES, such as `gpu:2` or `gpu:v100:2`; Slurm writes an unknown plugin as its number."""
_CLOCK = re.compile(r"(?:(?:([0-9]{1,3})-)?([0-9]{1,5}):)?([0-9]{1,2}):([0-9]{2}(?:\.[0-9]{1,9})?)")


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a trace: its submission, duration and requests."""

    submitted_at: float
    duration_s: float
    queue: str
    cpu: float
    memory_gib: float
    gpu: float
    tasks: int = 0  # of a Ray driver, each with the requests of the row; 0: not in the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The options of a reading.

    `where`: the values of columns, of which a row needs one each. `zone`: the stack's, whose midnights begin days;
    `timezone`: for times without one.
    """

    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    where: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    since: datetime | None = None
    days: int | None = None
    timezone: str | None = None
    zone: str = "UTC"
    queue_names: Mapping[str, str] = field(default_factory=dict[str, str])  # `--queues`, which `trace_for` applies


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of submission, at least one. `gaps`: spans, in seconds, in which data may be missing.

    `start` is second 0 of a trace whose times are dates, in UTC, and `zone` the zone of its days; `summary` lists the
    recognized columns, and what was left out or filled, one per line. `recorded_days`: days with data, including days
    after the last job.
    """

    name: str
    jobs: tuple[Job, ...]
    assumptions: tuple[str, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()
    counted: bool = False  # converted from requests per window
    start: datetime | None = None
    zone: str = "UTC"
    summary: str = ""
    recorded_days: int = 0
    queue_names: Mapping[str, str] = field(default_factory=dict[str, str])  # `--queues`: those that were renamed
    other_queues: frozenset[str] = frozenset()  # of jobs that a part of a trace leaves out

    @property
    def queues(self) -> frozenset[str]:
        """The names of the queues, as the stack has them."""
        return self.other_queues.union(job.queue for job in self.jobs)

    @property
    def days(self) -> int:
        """The number of days with all submissions."""
        return max(self.recorded_days, int(self.jobs[-1].submitted_at // DAY_S) + 1)


def read_jobs(table: Table, name: str, columns: Columns, reading: Reading) -> Trace:
    """Read the jobs of the span. Raises `TraceError`."""
    times = TimeColumns(table, zone_of(reading.timezone or reading.zone))
    rows = _Rows(table, columns, times)
    span, chosen = _Span(reading), _Chosen(reading.where)
    for row in table.rows(tuple(dict.fromkeys((*columns.names, *reading.where)))):
        if not chosen.takes(row) or rows.is_left_out(row):
            continue
        at = rows.submitted(row)
        if isnan(at) or span.excludes(at, dated=rows.dated):
            continue
        job = rows.job(row, at)
        if job is not None:
            span.add(job)
    for problem in chosen.problems():
        table.note(problem, problem)
    table.refuse()
    left_out = (*chosen.left_out(), *rows.left_out())
    jobs = span.jobs_of(str(table.path), left_out)
    start = None if span.begin is None else datetime.fromtimestamp(span.begin, UTC)
    summary = f"{several(len(jobs), 'job')}, {_dates(span, jobs)}, times read as {times.forms[rows.submission].name}"
    if times.without_zone():
        summary += f" in {reading.timezone or reading.zone} (--timezone sets another zone)"
    if renamed := ", ".join(columns.renamed()):
        summary += f"; {renamed}"
    notes = (*left_out, *rows.assumptions(jobs, span))
    said = (f"{summary}.",) if start is not None or renamed or reading.where or columns.unused else ()
    return Trace(
        name,
        jobs,
        start=start,
        zone=reading.zone,
        summary="\n  ".join((summary, *notes)) if said else "",  # empty if a plain trace was read in full
        recorded_days=reading.days if reading.days is not None and span.goes_on else 0,
        assumptions=(*said, *notes),
    )


class _Chosen:
    """Rows with the values of `--where`, and the values of the columns that were seen."""

    def __init__(self, where: Mapping[str, Sequence[str]]) -> None:
        self._where = where
        self._seen: dict[str, set[str]] = {column: set() for column in where}
        self._left_out = 0

    def takes(self, row: TraceRow) -> bool:
        for column, seen in self._seen.items():
            if len(seen) < _MOST_VALUES or row.cells[column] in self._where[column]:
                seen.add(row.cells[column])
        takes = all(row.cells[column] in values for column, values in self._where.items())
        self._left_out += not takes
        return takes

    def problems(self) -> Iterator[str]:
        """Yield a problem for each value that no row has."""
        for column, values in self._where.items():
            for value in values:
                if value not in self._seen[column]:
                    seen = sorted(self._seen[column])
                    shown = ", ".join(map(show, seen[:_MOST_NAMES])) + (", …" if len(seen) > _MOST_NAMES else "")
                    yield f"--where {column}={value}: wanted a value of the column, found {shown or 'no row'}"

    def left_out(self) -> Iterator[str]:
        if self._left_out:
            wanted = " and ".join(f"{column} = {' or '.join(values)}" for column, values in self._where.items())
            yield f"Left out: {several(self._left_out, 'row')} without {wanted} (--where)."


def _dates(span: "_Span", jobs: Sequence[Job]) -> str:
    last = jobs[-1].submitted_at
    if span.begin is None:
        return several(int(last // DAY_S) + 1, "day")
    return f"{span.date(span.begin + jobs[0].submitted_at)} to {span.date(span.begin + last)}"


class _Span:
    """The jobs of the chosen days. The first day is the first job's, unless it was chosen."""

    def __init__(self, reading: Reading) -> None:
        self.zone = zone_of(reading.zone)
        self.begin: float | None = None  # of the days, in seconds of the epoch; None: times are seconds from 0
        self._reading = reading
        if reading.since is not None:
            self.begin = reading.since.replace(tzinfo=reading.since.tzinfo or self.zone).timestamp()
        self._length = inf if reading.days is None else reading.days * DAY_S
        self._end = inf if self.begin is None else self.begin + self._length
        self._dated = False
        self._jobs: list[Job] = []
        self._count = 0
        self._first, self._last = inf, -inf
        self._full = self._moved = False
        self._outside = 0
        self.goes_on = False  # the file has later rows

    def excludes(self, at: float, *, dated: bool) -> bool:
        """Count a submission outside the chosen days."""
        self._dated = dated
        outside = at >= self._end or (self.begin is not None and at < self.begin)
        self._outside += outside
        self.goes_on |= at >= self._end
        return outside

    def add(self, job: Job) -> None:
        at = job.submitted_at
        if at < self._first:
            self._first = at
            if self._dated and self._reading.since is None:
                self._end = midnight(at, self.zone) + self._length
                self._moved = self._full
        if len(self._jobs) >= MOST_JOBS and not self._full:
            self._drop_later()
            if at >= self._end:
                self.goes_on = True
                return
        self._count += 1
        self._last = max(self._last, at)
        self._full |= len(self._jobs) >= MOST_JOBS
        if not self._full:
            self._jobs.append(job)

    def _drop_later(self) -> None:
        """Drop jobs after the span. Its end moves when an earlier day comes; undated jobs also serve alignment."""
        if not self._dated:
            self._end = self._length
        kept = [job for job in self._jobs if job.submitted_at < self._end]
        self.goes_on |= len(kept) < len(self._jobs)
        self._jobs, self._count = kept, len(kept)
        self._last = max((job.submitted_at for job in kept), default=-inf)

    def jobs_of(self, file: str, left_out: Sequence[str]) -> tuple[Job, ...]:
        """Return the jobs in their order, from second 0 of the first day. Raises `TraceError`, with the sentences about
        rows that are left out if no job remains.
        """
        reading = self._reading
        if self._dated and self.begin is None and self._count:
            self.begin = midnight(self._first, self.zone)
        if reading.since is not None and not self._dated and self._count + self._outside:
            raise TraceError(f"{file}: wanted dates for --from, found seconds from 0 (for example only --days 7)")
        if self._moved and reading.days is not None:
            raise TraceError(
                f"{file}: wanted --from with --days, since the rows are not in the order of submission (for example "
                f"--from {self.date(self._first)} --days {reading.days})"
            )
        if self._dated and not self._full:
            self._drop_later()
        if self._count > MOST_JOBS or (self._dated and self._last - self._first > MOST_DAYS * DAY_S):
            raise TraceError(f"{file}: {self._too_long()}")
        if not self._count:
            empty = "wanted a header and at least one job, found no job at all"
            others = f"wanted jobs in the days of --from and --days, found {self._outside:,} rows, all of other days"
            reasons = (sentence[0].lower() + sentence[1:].removesuffix(".") for sentence in left_out)
            raise TraceError("; ".join((f"{file}: {others if self._outside else empty}", *reasons)))
        jobs, begin = self._jobs, self.begin or 0.0
        jobs.sort(key=lambda job: job.submitted_at)
        if begin:
            for at, job in enumerate(jobs):
                jobs[at] = replace(job, submitted_at=job.submitted_at - begin)
        return tuple(jobs)

    def date(self, at: float) -> str:
        return datetime.fromtimestamp(at, self.zone).date().isoformat()

    def _too_long(self) -> str:
        days = (self._last - self._first) / DAY_S
        fitting = max(1, int(min(MOST_DAYS, days * min(1, MOST_JOBS / self._count))))
        if not self._dated:
            return f"wanted at most {MOST_JOBS:,} jobs, found {self._count:,} (for example --days {fitting})"
        first = datetime.fromtimestamp(self._last, self.zone).date() - timedelta(days=fitting - 1)
        return (
            f"wanted a span of at most {MOST_JOBS:,} jobs and {MOST_DAYS} days, found {self._count:,} jobs from "
            f"{self.date(self._first)} to {self.date(self._last)} (for example --from {first} --days {fitting})"
        )


def midnight(at: float, zone: tzinfo) -> float:
    """Return the local midnight before an instant, in seconds of the epoch."""
    return datetime.fromtimestamp(at, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp()


class _Rows:
    """Converts rows to jobs, and counts values that a rule filled and rows that it left out."""

    def __init__(self, table: Table, columns: Columns, times: TimeColumns) -> None:
        self._table, self._columns, self._times = table, columns, times
        self._of = {field: names[0] for field, names in columns.of.items()}
        self._counts: Counter[str] = Counter()
        self.submission = self._of[SUBMITTED]
        self.dated = False
        self._slurm = columns.export is Export.SACCT
        duration = self._of.get(DURATION_S) or self._of.get(DURATION)
        self._in_ms = DURATION_S not in self._of and (duration or "").lower().endswith("_ms")
        limits = _DURATION_MS if self._in_ms else _DURATION
        self._duration = None if duration is None else replace(limits, column=duration)
        self._numbers = {
            name: replace(number, column=name)
            for field, number in ((CPU, _CPU), (MEMORY_GIB, _MEMORY), (GPU, _GPU), (TASKS, _TASKS))
            for name in columns.of.get(field, ())
        }
        self._factors = {name: replace(_COPIES, column=scale.times) for name, scale in columns.scales.items()}
        self._state, self._allocated = self._of.get(STATE, ""), self._of.get(TRES, "")
        self._states_allocation = self._allocated.lower() == "alloctres"

    def is_left_out(self, row: TraceRow) -> bool:
        """Count a row to leave out: a Slurm job's step, a task that began before Flower, an RQ job never enqueued."""
        step = self._slurm and "." in row.cells[self._of[JOB_ID]]
        flower = self._columns.export is Export.FLOWER
        unseen = flower and not any(row.cells[name] for name in self._columns.of[SUBMITTED])
        submission = row.cells[self._columns.of[SUBMITTED][0]].lower()
        unsent = self._columns.export is Export.RQ and submission in _NO_TIME
        self._counts["steps"] += step
        self._counts["unseen"] += unseen
        self._counts["unfinished"] += unsent
        return step or unseen or unsent

    def submitted(self, row: TraceRow) -> float:
        """Return the time of submission; NaN for a bad one."""
        names = self._columns.of[SUBMITTED]
        name = next((name for name in names if row.cells[name]), names[0])
        self._counts["received"] += name != names[0]
        seconds = self._times.seconds(row, name)
        form = self._times.forms.get(name)
        self.submission, self.dated = name, form is not None and form is not SECONDS
        return seconds

    def job(self, row: TraceRow, submitted_at: float) -> Job | None:
        """Return the job of a row; None, counted, for one that has not ended."""
        duration = self._duration_of(row)
        state = row.cells[self._state].lower() if self._state else ""
        if not duration and (state.startswith(_CANCELLED) or self._never_allocated(row, duration)):
            self._counts["unstarted"] += 1
            return None
        if duration is None or state.startswith(_UNFINISHED):
            self._counts["unfinished"] += 1
            return None
        if duration == 0 and not state:
            self._counts["zero"] += 1
        cpu, memory, gpu = self._sizes(row)
        return Job(
            submitted_at=submitted_at,
            duration_s=duration,
            queue=intern(row.cells[self._of[QUEUE]]),
            cpu=cpu,
            memory_gib=memory,
            gpu=gpu,
            tasks=self._tasks(row),
        )

    def left_out(self) -> Iterator[str]:
        counts = self._counts
        if counts["steps"]:
            yield f"Left out: {several(counts['steps'], 'row')} of job steps, since a step's resources are its job's."
        if counts["unstarted"]:
            rows = several(counts["unstarted"], "row")
            yield f"Left out: {rows} of jobs that were cancelled before their start, or had no allocation."
        if counts["unfinished"]:
            rows = several(counts["unfinished"], "row")
            yield f"Left out: {rows} of jobs that have not ended, by a missing time or the state."
        if counts["unseen"]:
            yield f"Left out: {several(counts['unseen'], 'task')} whose sending and receipt Flower missed."

    def assumptions(self, jobs: Sequence[Job], span: _Span) -> Iterator[str]:
        counts, export = self._counts, self._columns.export
        if counts["received"]:
            yield (
                f"Without a time of sending: {several(counts['received'], 'task')}, submitted here when a worker "
                "received them, so earlier waits are missing (Celery's task_send_sent_event records the sending, and "
                "the queue)."
            )
        if export is Export.RQ and span.begin is not None:
            oldest = datetime.fromtimestamp(span.begin + jobs[0].submitted_at, span.zone)
            yield (
                f"The jobs reach back to {oldest:%Y-%m-%d %H:%M}: RQ drops a finished job after its result_ttl (500 "
                "seconds by default)."
            )
        if self._in_ms:
            yield f"{self._of[DURATION]} is read as milliseconds, by its name."
        if counts["zero"]:
            yield (
                f"Without a duration: {several(counts['zero'], 'job')} of 0 s; each takes a worker. A column of states "
                "would show which ones were cancelled before their start."
            )
        if names := self._columns.unused:
            shown = ", ".join(names[:_MOST_NAMES])
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            yield f"Columns not used: {shown}{more} (--columns FIELD=NAME reads one as a field)."
        if not {CPU, GPU, TRES, GRES} & self._of.keys():
            unread = self._columns.hints(CPU)
            stated = "No column that was read states CPUs or GPUs" if unread else "The file states no CPUs and no GPUs"
            yield f"{stated}: every job takes one worker of its pool, of whatever size."
        elif counts["unsized"]:
            jobs_without = several(counts["unsized"], "job")
            yield f"Without CPUs and GPUs: {jobs_without}; each takes one worker, of whatever size."
        if counts["cpu"]:
            jobs_without = several(counts["cpu"], "job")
            yield f"Without cpu: {jobs_without}; {CORES_PER_GPU:g} cores per GPU were assumed (a rule, not data)."
        if counts["flags"]:
            yield f"{self._of[GPU]} says only whether a job needs a GPU: one GPU was assumed (a rule, not data)."
        if counts["gpu"]:
            yield f"Without gpu: {several(counts['gpu'], 'job')} with cores only; no GPU was assumed."
        if counts["memory"]:
            unread = ", ".join(self._columns.hints(MEMORY))
            yield (
                f"Without memory: {several(counts['memory'], 'job')}; {GIB_PER_GPU:g} GiB per GPU, or {GIB_PER_CORE:g} "
                f"GiB per core without a GPU, were assumed (a rule, not data{unread and f'; not read: {unread}'})."
            )

    def _duration_of(self, row: TraceRow) -> float | None:
        """Return the end less the start where both are stated, else the stated duration; None for neither."""
        stated = self._duration
        if STARTED in self._of:
            finished = next(
                (name for name in self._columns.of[FINISHED] if row.cells[name].lower() not in _NO_TIME), ""
            )
            if finished and row.cells[self._of[STARTED]].lower() not in _NO_TIME:
                return self._between(row, self._of[STARTED], finished)
            if stated is None or row.cells[stated.column].lower() in _NO_TIME or self._slurm:
                return None
        assert stated is not None
        text = row.cells[stated.column]
        clock = None if stated.column == self._of.get(DURATION_S) else _CLOCK.fullmatch(text)
        if clock is None:
            return self._table.number(row, stated) / (1000 if self._in_ms else 1)
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        duration = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        if duration > LONGEST_S:
            self._table.bad_cell(row, Number(stated.column, "[D-]HH:MM:SS of at most 366 days", "1-00:00:00"), text)
        return duration

    def _between(self, row: TraceRow, started: str, finished: str) -> float:
        begin, end = self._times.seconds(row, started), self._times.seconds(row, finished)
        if end < begin:
            end = self._times.seconds(row, finished, fold=1)  # in an hour that a clock change repeats
        if end < begin or end - begin > LONGEST_S:
            if skipped := next((name for name in (started, finished) if self._times.skips(row, name)), ""):
                wanted = f"a time that exists in {self._times.zone}, whose clocks skip this hour"
                self._table.bad_cell(row, Number(skipped, wanted, "--timezone UTC"), row.cells[skipped])
                return nan
            wanted = "an end after its start, by at most 366 days"
            found = f"{row.cells[finished]} for a start at {row.cells[started]}"
            self._table.bad_cell(row, Number(finished, wanted, ""), found)
            return nan
        return end - begin

    def _tasks(self, row: TraceRow) -> int:
        expected = self._numbers.get(self._of.get(TASKS, ""))
        if expected is None or not row.cells[expected.column]:
            return 0
        value = self._table.number(row, expected)
        if isnan(value):
            return 0
        if value % 1:
            self._table.bad_cell(row, expected, row.cells[expected.column])
        return int(value)

    def _never_allocated(self, row: TraceRow, duration: float | None) -> bool:
        """Return True for a Slurm job that ended without resources; a job that has not ended has no duration."""
        return duration == 0 and self._states_allocation and not row.cells[self._allocated]

    def _sizes(self, row: TraceRow) -> tuple[float, float, float]:
        """Return cores, GiB and GPUs: from Slurm's allocation, else from the columns, else by the rules."""
        stated = self._allocation(row) if self._allocated else _NO_SIZES
        gpu = stated.get(GPU)
        if gpu is None:
            gpu = self._gpus_of_gres(row) if GRES in self._of else self._stated_gpus(row) if GPU in self._of else 0.0
        cpu = stated.get(CPU)
        if cpu is None and CPU in self._of and (self._cell(row, CPU)[1] or (gpu == 0 and not self._allocated)):
            cpu = self._number(row, CPU)  # without a GPU an empty cell is bad: cores cannot be derived
        elif cpu is None:
            cpu = CORES_PER_GPU * gpu
            self._counts["cpu" if gpu > 0 else "unsized"] += 1
        if MEMORY_GIB in stated:
            return cpu, stated[MEMORY_GIB], gpu
        if MEMORY_GIB in self._of and row.cells[self._of[MEMORY_GIB]]:
            return cpu, self._number(row, MEMORY_GIB), gpu
        if MEMORY in self._of and row.cells[self._of[MEMORY]]:
            return cpu, self._memory(row, cpu), gpu
        if MEMORY_GIB in self._of or cpu + gpu > 0:
            self._counts["memory"] += 1
        return cpu, GIB_PER_GPU * gpu if gpu else GIB_PER_CORE * cpu, gpu

    def _cell(self, row: TraceRow, name_of_field: str) -> tuple[str, str]:
        """Return the first column of a field that has a value, and the value; the first column if none has."""
        names = self._columns.of.get(name_of_field, ("",))
        for name in names:
            if cell := row.cells.get(name):
                return name, cell
        return names[0], ""

    def _number(self, row: TraceRow, name_of_field: str) -> float:
        column, _ = self._cell(row, name_of_field)
        value = self._table.number(row, self._numbers[column])
        return self._scaled(row, column, value) if column in self._columns.scales else value

    def _scaled(self, row: TraceRow, column: str, value: float) -> float:
        scale = self._columns.scales.get(column, ColumnUnit())
        return value / scale.parts * (self._table.number(row, self._factors[column]) if scale.times else 1.0)

    def _memory(self, row: TraceRow, cpu: float) -> float:
        column = self._of[MEMORY]
        text = row.cells[column].replace(" ", "")
        if self._slurm:
            gib = _slurm_gib(text.removesuffix("n").removesuffix("c"))
            if text.endswith("n"):
                gib *= self._table.read_number(self._cell(row, NODES)[1] or "1")
            if isnan(gib):
                self._table.bad_cell(row, Number(column, "Slurm's memory", "4000M, 4Gc or 16Gn"), row.cells[column])
            return gib * (cpu if text.endswith("c") else 1.0)
        if text[-1:].isdigit():
            name = column.lower()
            text += UNITS_IN_NAMES.get(name) or UNITS_IN_NAMES.get(name.rpartition("_")[2], "")
        amount = read_quantity(self._table.with_point(text), EXPORTED_MEMORY_UNITS)
        if amount is None or 0 < amount < _LEAST_BYTES or amount > 1_000_000 * _GIB:
            wanted = "bytes, at least a MiB, or an amount with its unit"
            self._table.bad_cell(row, Number(column, wanted, "17179869184, 16Gi or 16 GB"), row.cells[column])
            return nan
        return self._scaled(row, column, float(amount / _GIB))

    def _allocation(self, row: TraceRow) -> dict[str, float]:
        """Return the resources that Slurm allocated, such as `cpu=4,mem=16G,gres/gpu=2`, by field; {} without them."""
        column, text = self._cell(row, TRES)
        parts = {name: count for name, _, count in (part.partition("=") for part in text.split(",")) if name}
        gpus = [count for name, count in parts.items() if name == "gres/gpu"] or [
            count for name, count in parts.items() if name.startswith("gres/gpu:")
        ]
        sizes: dict[str, float] = {}
        if "cpu" in parts:
            sizes[CPU] = self._table.read_number(parts["cpu"])
        if "mem" in parts:
            sizes[MEMORY_GIB] = _slurm_gib(parts["mem"])
        if gpus:
            sizes[GPU] = sum(map(self._table.read_number, gpus))
        if isnan(sum(sizes.values())):
            self._table.bad_cell(row, Number(column, "Slurm's resources", "cpu=4,mem=16G,gres/gpu=2"), text)
        return sizes

    def _stated_gpus(self, row: TraceRow) -> float:
        cell = self._cell(row, GPU)[1]
        if (flag := _FLAGS.get(cell.lower())) is not None:
            self._counts["flags"] += 1
            return flag
        if cell or not self._cell(row, CPU)[1]:
            return self._number(row, GPU)
        self._counts["gpu"] += 1
        return 0.0

    def _gpus_of_gres(self, row: TraceRow) -> float:
        matches = map(_GRES_GPUS.fullmatch, re.sub(r"\(.*?\)", "", self._cell(row, GRES)[1]).split(","))
        return sum(float(match[1] or 1) for match in matches if match)


def _slurm_gib(text: str) -> float:
    if text == "0":
        return 0.0
    amount = read_quantity(text, SLURM_MEMORY_UNITS)
    return nan if amount is None else float(amount / _GIB)
