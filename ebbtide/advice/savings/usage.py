"""Nodes by hour and group: what a commitment is calculated from, replayed or recorded.

A recorded file is CSV with the columns hour, group, nodes: an ISO time with a zone, the name of a node group of the
stack, and the mean number of nodes in that hour (1.5: a second one for half of it). A group that an hour does not name
had none in it. An hour that nobody names at all is missing data and no idle hour: it is left out, and said.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ebbtide.files import MOST_OF_A_DOCUMENT, read_file
from ebbtide.settings.file.problems import one_line, show
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.results import Replay, Series, Strategy
from ebbtide.simulator.trace.table import header_text
from ebbtide.units.durations import DAY_S
from ebbtide.vocabulary.windows import BusinessHours

COLUMNS = ("hour", "group", "nodes")
MOST_PROBLEMS = 20
_EXAMPLE = "2026-06-01T08:00:00+00:00,flexible,3.5"
_HOUR = timedelta(hours=1)


class UsageError(ValueError):
    """A file that is no usage of this stack; a line for each fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Mean nodes by group in each clock hour; `open` says which hours lie in business hours from end to end."""

    nodes: Mapping[str, tuple[float, ...]]
    open: tuple[bool, ...]
    missing_hours: int = 0
    source: str
    overload: str = ""  # of a replay whose demand exceeds the stack

    @property
    def hours(self) -> int:
        return len(self.open)


def replayed_usage(series: Series, start: datetime, end_s: float, hours: BusinessHours, source: str) -> Usage:
    """The whole clock hours of a replay. Clock hours, because that is what AWS bills a commitment by."""
    begin = start.astimezone(UTC)
    first = begin.replace(minute=0, second=0, microsecond=0)
    first += _HOUR if first < begin else timedelta()
    offset = (first - begin).total_seconds()
    count = int((end_s - offset) // 3600)
    return Usage(
        nodes={group: _means(series.at, nodes, offset, count) for group, nodes in series.nodes.items()},
        open=tuple(_wholly_open(hours, first + i * _HOUR) for i in range(count)),
        source=source,
    )


def _means(at: Sequence[float], nodes: Sequence[int], offset: float, count: int) -> tuple[float, ...]:
    seconds = [0.0] * count
    end = offset + count * 3600
    for start, until, amount in zip(at, (*at[1:], end), nodes, strict=True):
        now = max(start, offset)
        while now < min(until, end):
            hour = int((now - offset) // 3600)
            stop = min(until, offset + (hour + 1) * 3600)
            seconds[hour] += amount * (stop - now)
            now = stop
    return tuple(total / 3600 for total in seconds)


def _wholly_open(hours: BusinessHours, start: datetime) -> bool:
    """Business hours have no holes of less than an hour that start and end inside one, so both ends tell."""
    return hours.is_open(start) and hours.is_open(start + _HOUR - timedelta(seconds=1))


def read_usage(path: Path, settings: StackSettings) -> Usage:
    """Read a recorded file. Raises `UsageError` with all that is wrong."""
    found = _rows(path, _text(path), settings)
    counts, problems = found.counts, found.problems
    if not counts and not problems:
        problems = [f"{path}: found no hour at all, wanted rows below the header {','.join(COLUMNS)} ({_EXAMPLE})"]
    if problems:
        more = len(problems) - MOST_PROBLEMS
        shown = [one_line(problem) for problem in problems[:MOST_PROBLEMS]]
        raise UsageError("\n".join([*shown, *([f"{path}: and {more} more"] if more > 0 else [])]))
    named = sorted({hour for hour, _ in counts})
    groups = [name for name in settings.node_groups if any(group == name for _, group in counts)]
    hours = settings.business_hours.hours(range(named[0].year - 1, named[-1].year + 2))
    return Usage(
        nodes={group: tuple(counts.get((hour, group), 0.0) for hour in named) for group in groups},
        open=tuple(_wholly_open(hours, hour) for hour in named),
        missing_hours=round((named[-1] - named[0]) / _HOUR) + 1 - len(named),
        source=str(path),
    )


def _text(path: Path) -> str:
    try:
        return read_file(path, MOST_OF_A_DOCUMENT).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; wanted CSV with the columns {','.join(COLUMNS)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: wanted UTF-8 text, found something else at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


@dataclass(slots=True)
class _Found:
    """What could be read of a file, and what is wrong with the rest."""

    counts: dict[tuple[datetime, str], float] = field(default_factory=dict[tuple[datetime, str], float])
    problems: list[str] = field(default_factory=list[str])


def _rows(path: Path, text: str, settings: StackSettings) -> _Found:
    found = _Found()
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(rows, list[str]())]
        if missing := [name for name in COLUMNS if name not in header]:
            given = header_text(header) or "an empty file"
            what = f"no column {', '.join(missing)}: found {given}, wanted {','.join(COLUMNS)}"
            return _Found(problems=[f"{path}: line 1: {what}"])
        for cells in filter(None, rows):
            where = f"{path}: line {rows.line_num}"
            if len(cells) != len(header):
                found.problems.append(f"{where}: wanted {len(header)} columns, found {len(cells)}")
                continue
            row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            found.problems += [f"{where}: found {what}" for what in _taken_in(row, found, settings)]
    except csv.Error as error:
        found.problems.append(f"{path}: line {rows.line_num}: wanted CSV: {error}")
    return found


def _taken_in(row: Mapping[str, str], found: _Found, settings: StackSettings) -> Sequence[str]:
    """Add the row to what was found, or say what is wrong with it."""
    hour, nodes = _hour(row["hour"]), _amount(row["nodes"])
    wrong = _wrong(row, hour, nodes, settings)
    if hour is not None and (hour, row["group"]) in found.counts:
        wrong.append(f"{row['group']} at {row['hour']} a second time, wanted each hour and group once")
    if hour is not None and nodes is not None and not wrong:
        found.counts[hour, row["group"]] = nodes
    return wrong


def _wrong(row: Mapping[str, str], hour: datetime | None, nodes: float | None, settings: StackSettings) -> list[str]:
    wrong: list[str] = []
    if hour is None:
        example = _EXAMPLE.partition(",")[0]
        wrong.append(
            f"hour {show(row['hour'])}, wanted the start of a clock hour of UTC from 2000 on, with a zone "
            f"(for example {example})"
        )
    if row["group"] not in settings.node_groups:
        wrong.append(f"group {show(row['group'])}, wanted one of the stack: {', '.join(settings.node_groups)}")
    if nodes is None:
        wrong.append(f"nodes {show(row['nodes'])}, wanted a number, 0 or more (for example 3.5)")
    return wrong


def _hour(text: str) -> datetime | None:
    """AWS bills by the clock hours of UTC, so in a zone that is half an hour off an hour starts at half past."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None or not 2000 <= moment.year < 2100:  # else a calendar would be made for every year between
        return None
    hour = moment.astimezone(UTC)
    return hour if hour == hour.replace(minute=0, second=0, microsecond=0) else None


def _amount(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def usage_of(found: Replay, settings: StackSettings) -> Usage:
    """What the product's own strategy used in a replay."""
    hours = settings.business_hours.hours(range(found.start.year - 1, found.start.year + 2))
    series = found.strategies[Strategy.FIXED_FLEXIBLE.value].series
    usage = replayed_usage(series, found.start, found.days * DAY_S, hours, f"a replay of {found.trace}")
    return replace(usage, overload="; ".join(map(str, found.overloads)))
