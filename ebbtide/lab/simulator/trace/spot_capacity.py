"""Files of hours without spot capacity, and of interruptions at given instants, by instance type and zone.

A row has `from`, `until`, `zone`, `type`, `event` and `source`. An empty zone or type means all of the stack. `event`
is `no-capacity`, from `from` up to `until`, or `interruption`, at `from`, of all spot nodes of the type in the zone.
Times are seconds from the start of the replay, an epoch or ISO 8601 with a zone. `source` says where the row comes
from; a row that was not measured says `synthetic`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum
from math import isnan, nan
from pathlib import Path

from ebbtide.lab.simulator.trace.table import Number, Table, TraceError, TraceRow, header_text, open_table
from ebbtide.lab.simulator.trace.times import SECONDS, TimeColumns
from ebbtide.prices import instance_type_names

COLUMNS = ("from", "until", "zone", "type", "event", "source")
_EXAMPLE = "0,7200,us-east-1a,g6.2xlarge,no-capacity,synthetic"


class CapacityEvent(StrEnum):
    NO_CAPACITY = "no-capacity"
    INTERRUPTION = "interruption"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """Seconds from the start of the replay, or of the epoch if `dated`. An empty zone or type is any."""

    begin: float
    until: float  # equal to `begin` for an interruption
    dated: bool
    zone: str  # as AWS names it, or its id
    instance_type: str
    event: CapacityEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFile:
    name: str  # as typed
    rows: tuple[CapacityRow, ...]
    sources: tuple[str, ...]


def read_spot_capacity(path: Path) -> CapacityFile:
    """Raises `TraceError` with all problems of the file."""
    if not path.is_file():
        raise TraceError(f"{path}: no such file; wanted a table with the columns {','.join(COLUMNS)}, or synthetic")
    with open_table(path) as table:
        if missing := [column for column in COLUMNS if column not in table.header]:
            raise TraceError(
                f"{path}: row 1: wanted {','.join(COLUMNS)}, found {header_text(table.header) or 'nothing'}, without "
                f"{', '.join(missing)} (for example a row {_EXAMPLE})"
            )
        table.once(COLUMNS)
        sources: dict[str, None] = {}
        rows = tuple(_rows(table, sources))
        table.refuse()
    if not rows:
        raise TraceError(f"{path}: wanted at least one row, found none (for example {_EXAMPLE})")
    return CapacityFile(name=str(path), rows=rows, sources=tuple(sources))


def _rows(table: Table, sources: dict[str, None]) -> Iterator[CapacityRow]:
    """Yield the good rows, and note the problems of the others. A source is noted once."""
    times = TimeColumns(table, UTC)
    known = frozenset(instance_type_names())
    events = [event.value for event in CapacityEvent]
    for row in table.rows(COLUMNS):
        instance, event, source = (row.cells[column] for column in ("type", "event", "source"))
        begin = _seconds(times, row, "from")
        if instance and instance not in known:
            table.bad_cell(row, Number("type", "a known instance type, or nothing for all", "g6.2xlarge"), instance)
        if event not in events:
            table.bad_cell(row, Number("event", f"one of {', '.join(events)}", CapacityEvent.NO_CAPACITY), event)
            continue
        until = _end(times, table, row, begin) if event == CapacityEvent.NO_CAPACITY else begin
        if not source:
            table.bad_cell(row, Number("source", "where the row comes from", "synthetic"), source)
        sources[source] = None
        if not isnan(begin + until):
            yield CapacityRow(
                begin=begin,
                until=until,
                dated=times.forms["from"] is not SECONDS,
                zone=row.cells["zone"],
                instance_type=instance,
                event=CapacityEvent(event),
            )


def _end(times: TimeColumns, table: Table, row: TraceRow, begin: float) -> float:
    until = _seconds(times, row, "until")
    if isnan(begin + until):
        return nan
    if until <= begin or (times.forms["until"] is SECONDS) != (times.forms["from"] is SECONDS):
        table.bad_cell(row, Number("until", "a time after `from`, in the same form", "7200"), row.cells["until"])
        return nan
    return until


def _seconds(times: TimeColumns, row: TraceRow, column: str) -> float:
    """Return the time of a cell. A time without a zone is refused: the stack's zone says nothing about a data set."""
    value = times.seconds(row, column)
    if not isnan(value) and not times.aware.get(column, True):
        times.table.bad_cell(row, Number(column, "a time with a zone", "2026-05-04T10:00:00Z"), row.cells[column])
        return nan
    return value
