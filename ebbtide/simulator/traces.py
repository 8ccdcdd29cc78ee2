"""Workload traces: one CSV row per job, read whole and checked to the last cell.

Columns (`ebbtide/simulator/data/README.md`): submitted_at, duration_s, queue, cpu, memory_gib, gpu; seconds, cores, GiB
and GPUs. A trace is trusted afterwards, so every doubt ends the reading with the place, what was found, what is
wanted and an example. Some public traces record GPUs only: then a stated rule fills cpu and memory, and the trace
says so among its assumptions, because a filled value is no measurement.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

COLUMNS = ("submitted_at", "duration_s", "queue", "cpu", "memory_gib", "gpu")
CORES_PER_GPU = 8.0
GIB_PER_GPU = 64.0
GIB_PER_CORE = 4.0

_DATA = Path(__file__).parent / "data"
_NO_HEADER: list[str] = []
_EXAMPLES = {"submitted_at": "393", "duration_s": "1080", "cpu": "12", "memory_gib": "16", "gpu": "0.5"}


class TraceError(ValueError):
    """A trace that cannot be replayed; the message is for the user, in one line."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a trace: when it was submitted, how long it ran, what it asked for."""

    submitted_at: float
    duration_s: float
    queue: str
    cpu: float
    memory_gib: float
    gpu: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the order of submission; never empty."""

    name: str
    jobs: tuple[Job, ...]
    assumptions: tuple[str, ...] = ()

    @property
    def days(self) -> int:
        """Whole days that hold every submission."""
        return int(self.jobs[-1].submitted_at // 86400) + 1


def bundled() -> tuple[str, ...]:
    """The names of the traces that come with Ebbtide."""
    return tuple(sorted(path.name.removesuffix(".csv.gz") for path in _DATA.glob("*.csv.gz")))


def find_trace(path_or_name: str) -> Trace:
    """Read a file, or a bundled trace by its name. Raises `TraceError`."""
    if path_or_name in bundled() and not Path(path_or_name).is_file():
        return read_trace(_DATA / f"{path_or_name}.csv.gz")
    return read_trace(Path(path_or_name))


def read_trace(path: Path) -> Trace:
    """Read a `.csv` or `.csv.gz` file. Raises `TraceError`."""
    reader = _Rows(path)
    jobs = tuple(reader.jobs(_lines(path)))
    if not jobs:
        raise TraceError(f"{path}: wanted a header and at least one job, found no job at all (columns: {_header()})")
    return Trace(path.name.removesuffix(".gz").removesuffix(".csv"), jobs, reader.assumptions())


def _lines(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return io.StringIO(data.decode("utf-8-sig"), newline="")
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such file (bundled traces: {', '.join(bundled())})") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: wanted UTF-8 text, found something else at byte {error.start}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: wanted a whole gzip file: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error


def _header() -> str:
    return ",".join(COLUMNS)


class _Rows:
    """Turns rows into jobs and remembers where the stated rules were needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cpu_filled = 0
        self._memory_filled = 0

    def jobs(self, lines: Iterable[str]) -> Iterator[Job]:
        rows = csv.reader(lines, strict=True)
        try:
            header = [name.strip() for name in next(rows, _NO_HEADER)]
            place = self._places(header)
            previous = 0.0
            for number, cells in enumerate(rows, start=2):  # the header is row 1
                if not cells:
                    continue  # a blank line, usually the last one
                if len(cells) != len(header):
                    raise TraceError(f"{self._path}: row {number}: wanted {len(header)} columns, found {len(cells)}")
                job = self._job(number, {name: cells[i].strip() for name, i in place.items()})
                if job.submitted_at < previous:
                    raise self._error(
                        number,
                        "submitted_at",
                        f"a time not before the row above ({previous:g})",
                        f"{job.submitted_at:g}",
                    )
                previous = job.submitted_at
                yield job
        except csv.Error as error:
            raise TraceError(f"{self._path}: row {rows.line_num}: wanted CSV: {error}") from error

    def assumptions(self) -> tuple[str, ...]:
        said: list[str] = []
        if self._cpu_filled:
            said.append(
                f"{self._cpu_filled} jobs state no cpu: {CORES_PER_GPU:g} cores per GPU were assumed (a rule, not data)"
            )
        if self._memory_filled:
            said.append(
                f"{self._memory_filled} jobs state no memory: {GIB_PER_GPU:g} GiB per GPU, or {GIB_PER_CORE:g} GiB per "
                "core without a GPU, were assumed (a rule, not data)"
            )
        return tuple(said)

    def _places(self, header: list[str]) -> dict[str, int]:
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            found = ",".join(header) if header else "an empty file"
            raise TraceError(
                f"{self._path}: row 1: missing column {', '.join(missing)}: found {found}, wanted {_header()} "
                "(one row per job, sorted by submitted_at)"
            )
        return {name: header.index(name) for name in COLUMNS}

    def _job(self, number: int, cells: Mapping[str, str]) -> Job:
        gpu = self._amount(number, "gpu", cells["gpu"])
        cpu = self._cpu(number, cells["cpu"], gpu)
        return Job(
            submitted_at=self._amount(number, "submitted_at", cells["submitted_at"]),
            duration_s=self._amount(number, "duration_s", cells["duration_s"]),
            queue=cells["queue"],
            cpu=cpu,
            memory_gib=self._memory(number, cells["memory_gib"], cpu=cpu, gpu=gpu),
            gpu=gpu,
        )

    def _cpu(self, number: int, text: str, gpu: float) -> float:
        if text or gpu == 0:  # without a GPU there is nothing to derive cores from: an empty cell is then an error
            return self._amount(number, "cpu", text)
        self._cpu_filled += 1
        return CORES_PER_GPU * gpu

    def _memory(self, number: int, text: str, *, cpu: float, gpu: float) -> float:
        if text:
            return self._amount(number, "memory_gib", text)
        self._memory_filled += 1
        return GIB_PER_GPU * gpu if gpu else GIB_PER_CORE * cpu

    def _amount(self, number: int, column: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise self._error(number, column, "a number, 0 or more", text)
        return value

    def _error(self, number: int, column: str, wanted: str, found: str) -> TraceError:
        return TraceError(
            f"{self._path}: row {number}, column {column}: wanted {wanted}, found {found!r} "
            f"(for example {_EXAMPLES[column]})"
        )
