"""Times of a trace's columns: seconds from 0, epoch seconds or milliseconds, or ISO 8601.

The first time of a column decides its form. An epoch is recognized by its magnitude: no trace is three years long.
"""

from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from math import isnan, nan

from ebbtide.lab.simulator.trace.table import Number, Table, TraceRow
from ebbtide.text.times import parsed_time

LONGEST_S = 31_622_400


@dataclass(frozen=True, slots=True)
class _Form:
    name: str
    wanted: str
    example: str
    per_second: float = 1.0
    least: float = 0.0
    most: float = 0.0  # 0: a text


SECONDS = _Form("seconds from 0", "seconds from time 0 of the trace, 0 to 31622400 (366 days)", "393", most=LONGEST_S)
_EPOCH = _Form("epoch seconds", "epoch seconds, as in the rows above", "1777888800", least=1e8, most=1e11)
_MILLISECONDS = _Form(
    "epoch milliseconds", "epoch milliseconds, as in the rows above", "1777888800000", 1000.0, least=1e11, most=1e14
)
ISO = _Form("ISO 8601", "an ISO 8601 time of 1970 to 2999", "2026-05-04T10:00:00Z")
_UNKNOWN = _Form("", "seconds from time 0, an epoch or an ISO 8601 time of 1970 to 2999", "2026-05-04T10:00:00Z")


@dataclass(slots=True)
class TimeColumns:
    """Reads the times of a table's columns, each in its own form. Times without a zone are in `zone`."""

    table: Table
    zone: tzinfo
    forms: dict[str, _Form] = field(default_factory=dict[str, _Form])
    aware: dict[str, bool] = field(default_factory=dict[str, bool])

    def seconds(self, row: TraceRow, column: str, fold: int = 0) -> float:
        """Return seconds of the trace or of the epoch; NaN, with a note, for a bad time. `fold` is datetime's."""
        text = row.cells[column]
        form = self.forms.get(column) or self._form_of(column, text)
        if form.most:
            value = self.table.read_number(text)
            if form.least <= value <= form.most:
                return value / form.per_second
        else:
            value = self._instant(row, column, text, fold)
            if not isnan(value):
                return value
        self.table.bad_cell(row, Number(column, form.wanted, form.example), text)
        return nan

    def without_zone(self) -> bool:
        """Return True if a column has times without a zone."""
        return not all(self.aware.values())

    def skips(self, row: TraceRow, column: str) -> bool:
        """Return True for a time without a zone that clocks skip, as in the night when summer time begins."""
        time = parsed_time(row.cells[column])
        if time is None or time.tzinfo is not None:
            return False
        return (
            datetime.fromtimestamp(time.replace(tzinfo=self.zone).timestamp(), self.zone).replace(tzinfo=None) != time
        )

    def _form_of(self, column: str, text: str) -> _Form:
        number = self.table.read_number(text)
        form = next((form for form in (SECONDS, _EPOCH, _MILLISECONDS) if form.least <= number <= form.most), _UNKNOWN)
        if parsed_time(text) is not None and form is _UNKNOWN:
            form = ISO
        if form is not _UNKNOWN:
            self.forms[column] = form
        return form

    def _instant(self, row: TraceRow, column: str, text: str, fold: int) -> float:
        time = parsed_time(text)
        if time is None:
            return nan
        aware = time.tzinfo is not None
        if self.aware.setdefault(column, aware) is not aware:
            wanted = f"times {'without' if aware else 'with'} a zone, as in the rows above"
            self.table.bad_cell(row, Number(column, wanted, "all with +00:00, or none and --timezone"), text)
        return (time if aware else time.replace(tzinfo=self.zone, fold=fold)).timestamp()
