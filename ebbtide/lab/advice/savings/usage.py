"""Nodes by hour and group, replayed or recorded: the input for calculating a commitment.

A recorded file is a table in the format of traces, with the columns hour, group, nodes: an ISO time with a zone, a node
group of the stack, or one of its types as `group/type`, and the mean number of nodes in that hour (1.5: a second one
for half of it). A group without a row for an hour had no nodes. An hour without any row is missing data, not an idle
hour: it is left out and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ebbtide.lab.report.pages.sentences import provisioner_line
from ebbtide.lab.simulator.results import ClusterSeries, Replay, Strategy
from ebbtide.lab.simulator.trace.table import Number, TraceError, header_text, open_table
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S
from ebbtide.vocabulary.windows import BusinessHours

COLUMNS = ("hour", "group", "nodes")
_EXAMPLE = "2026-06-01T08:00:00+00:00,flexible,3.5"
_HOUR = timedelta(hours=1)
_HOUR_CELL = Number("hour", "the start of a clock hour of UTC from 2000 on, with a zone", _EXAMPLE.partition(",")[0])
_NODES = Number("nodes", "a number, 0 or more", "3.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Mean nodes by group in each clock hour; `open` is True for hours that lie entirely in business hours."""

    nodes: Mapping[str, tuple[float, ...]]
    open: tuple[bool, ...]
    missing_hours: int = 0
    source: str
    overload: str = ""  # of a replay whose demand exceeds the stack
    provisioner: str = ""  # a sentence on the cost with the other provisioner in that replay

    @property
    def hours(self) -> int:
        return len(self.open)


def replayed_usage(series: ClusterSeries, start: datetime, end_s: float, hours: BusinessHours, source: str) -> Usage:
    """Return the complete clock hours of a replay: AWS bills a commitment by clock hours."""
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
    """Check both ends of the hour: no gap in business hours starts and ends within one clock hour."""
    return hours.is_open(start) and hours.is_open(start + _HOUR - timedelta(seconds=1))


def read_usage(path: Path, settings: StackSettings) -> Usage:
    """Read a recorded file. Raises `TraceError` with all faults."""
    if not path.is_file():
        raise TraceError(f"{path}: no such file; wanted a table with the columns {','.join(COLUMNS)}")
    settings = settings.by_type
    counts: dict[tuple[datetime, str], float] = {}
    with open_table(path) as table:
        if missing := [name for name in COLUMNS if name not in table.header]:
            header = header_text(table.header) or "an empty file"
            table.note("header", f"row 1: no column {', '.join(missing)}: found {header}, wanted {','.join(COLUMNS)}")
        table.once(COLUMNS)
        for row in table.rows(COLUMNS):
            hour, group, nodes = _hour(row.cells["hour"]), row.cells["group"], table.number(row, _NODES)
            if hour is None:
                table.bad_cell(row, _HOUR_CELL, row.cells["hour"])
                continue
            if group not in settings.node_groups:
                table.bad_cell(row, Number("group", f"one of the stack: {', '.join(settings.node_groups)}", ""), group)
            if (hour, group) in counts:
                table.bad_cell(row, Number("group", "each hour and group once", ""), f"{group} a second time")
            counts[hour, group] = nodes
        table.refuse()
    if not counts:
        raise TraceError(f"{path}: found no hour at all, wanted rows below the header {','.join(COLUMNS)} ({_EXAMPLE})")
    return usage_of_counts(counts, settings, str(path))


def usage_of_counts(counts: Mapping[tuple[datetime, str], float], settings: StackSettings, source: str) -> Usage:
    """Return the usage from mean nodes by hour and group; `counts` is not empty."""
    recorded = sorted({hour for hour, _ in counts})
    groups = [name for name in settings.node_groups if any(group == name for _, group in counts)]
    hours = settings.business_hours.hours(range(recorded[0].year - 1, recorded[-1].year + 2))
    return Usage(
        nodes={group: tuple(counts.get((hour, group), 0.0) for hour in recorded) for group in groups},
        open=tuple(_wholly_open(hours, hour) for hour in recorded),
        missing_hours=round((recorded[-1] - recorded[0]) / _HOUR) + 1 - len(recorded),
        source=source,
    )


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


def usage_of(found: Replay, settings: StackSettings) -> Usage:
    """Return the usage of the product's own strategy in a replay."""
    hours = settings.business_hours.hours(range(found.start.year - 1, found.start.year + 2))
    series = found.strategies[Strategy.FIXED_FLEXIBLE.value].series
    usage = replayed_usage(series, found.start, found.days * DAY_S, hours, f"a replay of {found.trace}")
    return replace(usage, overload="; ".join(map(str, found.overloads)), provisioner=provisioner_line(found))
