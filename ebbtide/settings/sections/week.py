"""The week of the stack file: day ranges and intervals of local wall time, parsed into `WeeklyInterval`s.

`{mon-thu: "08:00-19:00", fri: "22:00-06:00+1"}`: a key is a day, a range of days, or several with commas; a value is an
interval, several with commas, or a list of intervals. Other days are closed.

Trap: an interval whose end is before its start could mean "past midnight" or be two swapped times. The first reading
would protect the night and drain the day, so it is refused unless the end has `+1`, the next day.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

from pydantic_core import PydanticCustomError

from ebbtide.settings.file.problems import all_of, show, wanted
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, WeeklyInterval

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_PER_WEEK = 7 * MINUTES_PER_DAY

_T = TypeVar("_T")

_EXAMPLE = '{ mon-thu: "08:00-19:00", fri: "08:00-17:00" }'
_INTERVAL = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)(\+1)?", re.ASCII)


def parse_week(value: object) -> tuple[WeeklyInterval, ...]:
    """Return the intervals of a week in order; a tuple of intervals passes unchanged."""
    if isinstance(value, tuple):
        return cast("tuple[WeeklyInterval, ...]", value)
    if not isinstance(value, Mapping) or not value:
        raise wanted(
            "week.empty",
            "days with their intervals",
            example=_EXAMPLE,
            hint="with no day at all, nothing is ever protected",
        )
    reader = _WeekReader()
    for key, text in cast("Mapping[object, object]", value).items():
        reader.read(str(key), text)
    faults = [*reader.faults, *reader.overlaps()]
    if faults:
        raise all_of(faults)
    return tuple(sorted(reader.week))


def parse_intervals(value: object) -> tuple[tuple[int, int], ...]:
    """Return starts and ends of the intervals of one date, in minutes from midnight, in order."""
    if isinstance(value, tuple):
        return cast("tuple[tuple[int, int], ...]", value)
    reader = _WeekReader()
    intervals = sorted(reader.intervals("", value))
    faults = [
        *reader.faults,
        *(
            _overlap(format_minutes(*first), format_minutes(*second))
            for first, second in pairwise(intervals)
            if second[0] < first[1]
        ),
    ]
    if faults:
        raise all_of(faults)
    return tuple(intervals)


@dataclass
class _WeekReader:
    """Parses a day's key and its intervals separately, so that a fault of one does not hide a fault of the other."""

    week: list[WeeklyInterval] = field(default_factory=list[WeeklyInterval])
    faults: list[PydanticCustomError] = field(default_factory=list[PydanticCustomError])
    _key_of: dict[int, str] = field(default_factory=dict[int, str])

    def read(self, key: str, text: object) -> None:
        days = [
            day for part_days in self._each(key.split(","), lambda part: _days(key, part.strip())) for day in part_days
        ]
        new_days = self._not_named_before(key, days)
        for start, end in self.intervals(key, text):
            self.week += [WeeklyInterval(day, start, end) for day in new_days]

    def intervals(self, key: str, text: object) -> list[tuple[int, int]]:
        items = cast("Sequence[object]", text) if isinstance(text, list | tuple) else [text]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len(items) or not items:
            hint = "leave a day out to keep it closed"
            self.faults.append(
                wanted("week.intervals-type", "intervals as text", example='"08:00-19:00"', hint=hint, at=key)
            )
        parts = [part.strip() for item in texts for part in item.split(",")]
        return self._each(parts, lambda part: _interval(key, part))

    def _each(self, parts: Sequence[str], parse: Callable[[str], _T]) -> list[_T]:
        """Parse each part. Parts that `parse` refuses become faults."""
        parsed: list[_T] = []
        for part in parts:
            try:
                parsed.append(parse(part))
            except PydanticCustomError as fault:
                self.faults.append(fault)
        return parsed

    def _not_named_before(self, key: str, days: Sequence[int]) -> list[int]:
        """Report each earlier key that shares a day with this one; shared days stay with the earlier key."""
        new_days: list[int] = []
        blamed: set[str] = set()
        for day in days:
            earlier = self._key_of.setdefault(day, key)
            if earlier == key and day not in new_days:
                new_days.append(day)
            elif earlier not in blamed:
                blamed.add(earlier)
                twice = f"{DAYS[day]} in {earlier!r} and in {key!r}"
                self.faults.append(wanted("week.day-twice", "each day once", found=twice, example=_EXAMPLE))
        return new_days

    def overlaps(self) -> Iterator[PydanticCustomError]:
        """Return overlapping intervals, which contradict each other. Touching ones do not overlap.

        The week is walked twice, since Sunday night meets Monday. An overlap that a range of days repeats is reported
        once.
        """
        reported: set[tuple[object, ...]] = set()
        furthest: tuple[int, WeeklyInterval] | None = None
        for offset in (0, MINUTES_PER_WEEK):
            for interval in sorted(self.week):
                midnight = offset + interval.weekday * MINUTES_PER_DAY
                if furthest and midnight + interval.start < furthest[0]:
                    pair = tuple((self._key_of[i.weekday], i.start, i.end) for i in (furthest[1], interval))
                    if pair not in reported:
                        reported.add(pair)
                        yield _overlap(_interval_text(furthest[1]), _interval_text(interval))
                furthest = max(furthest or (0, interval), (midnight + interval.end, interval))


def format_week(week: Sequence[WeeklyInterval]) -> str:
    """Return one line; neighbouring days with equal intervals share a range: `mon-thu 08:00-19:00, fri 08:00-17:00`."""
    texts = [", ".join(format_interval(i) for i in sorted(week) if i.weekday == day) for day in range(7)]
    runs: list[tuple[int, int]] = []
    for day, text in enumerate(texts):
        if text and runs and runs[-1][1] == day - 1 and texts[runs[-1][0]] == text:
            runs[-1] = (runs[-1][0], day)
        elif text:
            runs.append((day, day))
    return ", ".join(f"{_range_name(first, last)} {texts[first]}" for first, last in runs)


def format_interval(interval: WeeklyInterval) -> str:
    """Return the interval as in the file; midnight at the end of a day is `24:00`."""
    return format_minutes(interval.start, interval.end)


def format_minutes(start: int, end: int) -> str:
    """Return minutes from midnight as an interval of the file."""
    next_day = end > MINUTES_PER_DAY
    return f"{_clock(start)}-{_clock(end - MINUTES_PER_DAY if next_day else end)}{'+1' if next_day else ''}"


def _range_name(first: int, last: int) -> str:
    return DAYS[first] if first == last else f"{DAYS[first]}-{DAYS[last]}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _days(key: str, part: str) -> range:
    first, dash, last = part.partition("-")
    if first not in DAYS or (dash and last not in DAYS):
        raise wanted(
            "week.day", f"days out of {', '.join(DAYS)}, or a range of them", found=repr(key), example=_EXAMPLE, at=key
        )
    start, end = DAYS.index(first), DAYS.index(last) if dash else DAYS.index(first)
    if end < start:
        raise wanted(
            "week.day-range",
            "a range of days from the earlier to the later",
            found=f"{part!r}, which runs past Sunday",
            example=f"{_range_name(start, 6)} and {_range_name(0, end)}",
            at=key,
        )
    return range(start, end + 1)


def _interval(key: str, text: str) -> tuple[int, int]:
    """Return start and end in minutes from midnight of the day."""
    refused = partial(wanted, found=show(text), at=key)
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise refused("interval.form", "intervals of two times with a hyphen", example='"08:00-19:00"')
    start, end = _minutes(match[1], match[2]), _minutes(match[3], match[4])
    if start is None or end is None:
        raise refused("interval.time", "times from 00:00 to 24:00", example='"08:00-19:00"')
    if start == MINUTES_PER_DAY:
        raise refused("interval.start", "an interval that starts within the day", example='"00:00-06:00"')
    if match[5]:
        if end > start:
            raise refused("interval.too-long", "an interval of at most 24 hours", example='"22:00-06:00+1"')
        end += MINUTES_PER_DAY
    elif end <= start:
        hint = f'if it ends on the next day write "{text}+1"; if the times are swapped, swap them back'
        raise refused("interval.end", "an interval that ends after it starts", example='"08:00-19:00"', hint=hint)
    return start, end


def _minutes(hours: str, minutes: str) -> int | None:
    total = int(hours) * 60 + int(minutes)
    return total if int(minutes) <= 59 and total <= MINUTES_PER_DAY else None


def _overlap(first: str, second: str) -> PydanticCustomError:
    example = '"08:00-12:00, 13:00-19:00"'
    return wanted("week.overlap", "intervals that do not overlap", found=f"{first} and {second}", example=example)


def _interval_text(interval: WeeklyInterval) -> str:
    return f"{DAYS[interval.weekday]} {format_interval(interval)}"
