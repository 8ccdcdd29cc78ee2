"""Line items that the given files have more than once: copies of a file, or two deliveries of the same days. Pure.

AWS makes `identity_line_item_id` unique in a partition, in CUR 2.0 a billing period. The next delivery may give a
charge another id and other costs. So equal rows with one id are one row; one id with other amounts in two files,
and more than one hour of a resource in an hour, prove two deliveries.
Source: AWS Data Exports User Guide, "Identity columns" and "Understanding export delivery".
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from operator import attrgetter

from ebbtide.lab.ledger.bill.lines import lasts_an_hour
from ebbtide.lab.ledger.bill.report import A_NUMBER, LineItem
from ebbtide.text.counts import first_names, number_of

_NO_ID = {"", "null", "none", "nan", "\\n"}
"""Texts that tools write in place of a missing id."""
_FILE_BITS = 16
_MOST_FILES = 2**_FILE_BITS - 1
_MS = timedelta(milliseconds=1)
_HOUR_MS, _MINUTE_MS = timedelta(hours=1) // _MS, timedelta(minutes=1) // _MS
"""The minimum charge of a start: an instance that starts again within an hour can be charged for more than the hour."""


class PackedTable:
    """A table of 64-bit keys and values in two arrays, since a bill may have millions of rows. Zero: no value.

    Size: 21 to 43 bytes for each key, depending on the last growth; a set of digests takes four times as much.
    """

    def __init__(self) -> None:
        self._keys, self._values = _zeros(1024), _zeros(1024)
        self._used = 0

    def value(self, slot: int) -> int:
        return self._values[slot]

    def store(self, slot: int, value: int) -> None:
        self._values[slot] = value

    def slot(self, key: int) -> int:
        """Return where the key's value is until the next call; a new key has the value 0."""
        if 4 * self._used > 3 * len(self._keys):
            self._grow()
        key = (key & 0xFFFF_FFFF_FFFF_FFFF) or 1
        slot = self._find(key)
        if not self._keys[slot]:
            self._keys[slot] = key
            self._used += 1
        return slot

    def _find(self, key: int) -> int:
        keys, last = self._keys, len(self._keys) - 1
        slot = key & last
        while keys[slot] and keys[slot] != key:
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = _zeros(2 * len(keys)), _zeros(2 * len(keys))
        for key, value in zip(keys, values, strict=True):
            if key:
                slot = self._find(key)
                self._keys[slot], self._values[slot] = key, value


def _zeros(number: int) -> "array[int]":
    return array("Q", (0,)) * number


class Sighting(Enum):
    NEW = auto()
    EQUAL = auto()  # another copy of the row
    CHANGED = auto()  # the same line item with other amounts, in another file


@dataclass(slots=True)
class Deliveries:
    """Remembers the rows that count, as digests of 64 bits: ten million rows collide with a chance of 0.0003 %."""

    _rows: PackedTable = field(default_factory=PackedTable)
    _hours: PackedTable = field(default_factory=PackedTable)
    equal: int = 0

    def sighting(self, row: LineItem, file: int, labels: Sequence[str] = ()) -> tuple[Sighting, int]:
        """Return what is known of the row, and the file that had it first. `labels`: the tags that Ebbtide reads."""
        number = row.identity_line_item_id
        if number.lower() in _NO_ID:
            return Sighting.NEW, file
        item = hash((number, *_charged(row), row.line_item_line_item_type, row.line_item_operation))
        amounts = repr(_amounts(row))  # as text: the numbers -1.0 and -2.0 have one hash
        version = hash((amounts, *labels)) << _FILE_BITS & 0xFFFF_FFFF_FFFF_FFFF
        slot = self._rows.slot(item)
        seen = self._rows.value(slot)
        if not seen:
            self._rows.store(slot, version | min(file + 1, _MOST_FILES))
            return Sighting.NEW, file
        first = (seen & _MOST_FILES) - 1
        if seen >> _FILE_BITS == version >> _FILE_BITS:
            self.equal += 1
            return Sighting.EQUAL, first
        return (Sighting.NEW if first == file else Sighting.CHANGED), first

    def overfull(self, row: LineItem, file: int) -> int | None:
        """Add a row's hours to its resource; return the file of its first row if the interval is too short."""
        if not (lasts_an_hour(row) and row.line_item_resource_id):
            return None
        slot = self._hours.slot(hash(_charged(row)))
        seen = self._hours.value(slot)
        total = (seen >> _FILE_BITS) + round((row.line_item_usage_amount or 0.0) * _HOUR_MS)
        first = (seen & _MOST_FILES) or min(file + 1, _MOST_FILES)
        self._hours.store(slot, max(0, total) << _FILE_BITS | first)
        length = (row.line_item_usage_end_date - row.line_item_usage_start_date) // _MS
        return first - 1 if total > max(length, _HOUR_MS) + _MINUTE_MS else None


_amounts = attrgetter(*(name for name, info in LineItem.model_fields.items() if info.description == A_NUMBER))
"""All amounts of a row: a later delivery may change only the effective cost, or the hours."""


def _charged(row: LineItem) -> tuple[object, ...]:
    interval = row.line_item_usage_start_date.timestamp(), row.line_item_usage_end_date.timestamp()
    return *interval, row.line_item_resource_id, row.line_item_usage_type


@dataclass(slots=True)
class Repeated:
    """Rows that prove two deliveries, and the files that have them."""

    changed: int = 0
    overfull: int = 0
    files: set[int] = field(default_factory=set[int])

    def include(self, other: "Repeated") -> None:
        self.changed += other.changed
        self.overfull += other.overfull
        self.files |= other.files

    def fault(self, names: Mapping[int, str]) -> str:
        """Return one message; "" without such rows."""
        faults = {
            "more than one hour of a resource in one hour": self.overfull,
            "other amounts or tags under the same line item id": self.changed,
        }
        found = [f"{fault} ({number_of(rows, 'row')})" for fault, rows in faults.items() if rows]
        files = first_names([*dict.fromkeys(names[file] for file in sorted(self.files))])
        return f"{files}: wanted one delivery, each row once, found {' and '.join(found)}" if found else ""
