"""The week of the stack file: day ranges and intervals of local wall time, read into `WeeklyInterval`s.

`{mon-thu: "08:00-19:00", fri: "22:00-06:00+1"}`: a key is a day, a range of days, or several of them with commas; a
value is an interval, several with commas, or a list of intervals. A day that is not named is closed.

The trap: an interval whose end lies before its start could mean "past midnight" or be two times swapped. Read as the
first it would protect the night and drain the day, so it is refused unless the end says `+1`, the next day.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import cast

from pydantic_core import PydanticCustomError

from ebbtide.settings.wanted import together, wanted
from ebbtide.vocabulary.windows import MINUTES_PER_DAY, WeeklyInterval

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_PER_WEEK = 7 * MINUTES_PER_DAY

_EXAMPLE = '{ mon-thu: "08:00-19:00", fri: "08:00-17:00" }'
_INTERVAL = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)(\+1)?")


def parse_week(value: object) -> tuple[WeeklyInterval, ...]:
    """The intervals of a week in order; a tuple of intervals passes as it is."""
    if isinstance(value, tuple):
        return cast("tuple[WeeklyInterval, ...]", value)
    if not isinstance(value, Mapping) or not value:
        raise wanted(
            "days with their intervals", example=_EXAMPLE, hint="with no day at all, nothing is ever protected"
        )
    week, faults = _read_days({str(key): text for key, text in cast("Mapping[object, object]", value).items()})
    week.sort()
    if not faults:
        faults = _overlaps(week)
    if faults:
        raise together(faults)
    return tuple(week)


def _read_days(given: Mapping[str, object]) -> tuple[list[WeeklyInterval], list[PydanticCustomError]]:
    named: dict[int, str] = {}
    week: list[WeeklyInterval] = []
    faults: list[PydanticCustomError] = []
    for key, text in given.items():
        try:
            for day in _days(key):
                if day in named:
                    twice = f"{DAYS[day]} in {named[day]!r} and in {key!r}"
                    raise wanted("each day once", found=twice, example=_EXAMPLE)
                named[day] = key
                week.extend(_interval(day, key, part) for part in _parts(key, text))
        except PydanticCustomError as fault:
            faults.append(fault)
    return week, faults


def format_week(week: Sequence[WeeklyInterval]) -> str:
    """One line: neighbouring days with the same intervals share a range. `mon-thu 08:00-19:00, fri 08:00-17:00`."""
    texts = [", ".join(format_interval(i) for i in sorted(week) if i.weekday == day) for day in range(7)]
    runs: list[tuple[int, int]] = []
    for day, text in enumerate(texts):
        if text and runs and runs[-1][1] == day - 1 and texts[runs[-1][0]] == text:
            runs[-1] = (runs[-1][0], day)
        elif text:
            runs.append((day, day))
    return ", ".join(f"{_range_name(first, last)} {texts[first]}" for first, last in runs)


def format_interval(interval: WeeklyInterval) -> str:
    """The text that was read; midnight at the end of a day is `24:00`."""
    end, next_day = interval.end, interval.end > MINUTES_PER_DAY
    end -= MINUTES_PER_DAY if next_day else 0
    return f"{_clock(interval.start)}-{_clock(end)}{'+1' if next_day else ''}"


def _range_name(first: int, last: int) -> str:
    return DAYS[first] if first == last else f"{DAYS[first]}-{DAYS[last]}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _days(key: str) -> Iterator[int]:
    for part in key.split(","):
        first, dash, last = part.strip().partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise wanted(
                f"days out of {', '.join(DAYS)}, or a range of them", found=repr(key), example=_EXAMPLE, at=key
            )
        start, end = DAYS.index(first), DAYS.index(last) if dash else DAYS.index(first)
        if end < start:
            raise wanted(
                "a range of days from the earlier to the later",
                found=f"{part.strip()!r}, which runs past Sunday",
                example=f"{_range_name(start, 6)} and {_range_name(0, end)}",
                at=key,
            )
        yield from range(start, end + 1)


def _parts(key: str, text: object) -> list[str]:
    texts = cast("Sequence[object]", text) if isinstance(text, list | tuple) else [text]
    parts = [part.strip() for item in texts if isinstance(item, str) for part in item.split(",")]
    if not parts or not all(isinstance(item, str) for item in texts):
        raise wanted("intervals as text", example='"08:00-19:00"', hint="leave a day out to keep it closed", at=key)
    return parts


def _interval(day: int, key: str, text: str) -> WeeklyInterval:
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise wanted("intervals of two times with a hyphen", example='"08:00-19:00"', at=key)
    start, end = _minutes(key, match[1], match[2]), _minutes(key, match[3], match[4])
    if start == MINUTES_PER_DAY:
        raise wanted("an interval that starts within the day", example='"00:00-06:00"', at=key)
    if match[5]:
        if end > start:
            raise wanted("an interval of at most 24 hours", example='"22:00-06:00+1"', at=key)
        end += MINUTES_PER_DAY
    elif end <= start:
        raise wanted(
            "an interval that ends after it starts",
            example='"08:00-19:00"',
            hint=f'if it ends on the next day write "{text}+1"; if the times are swapped, swap them back',
            at=key,
        )
    return WeeklyInterval(day, start, end)


def _minutes(key: str, hours: str, minutes: str) -> int:
    total = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or total > MINUTES_PER_DAY:
        raise wanted("times from 00:00 to 24:00", example='"08:00-19:00"', at=key)
    return total


def _overlaps(week: Sequence[WeeklyInterval]) -> list[PydanticCustomError]:
    """Overlapping intervals contradict each other: one of the ends is not what was meant. Touching ones do not."""
    around = [(i.weekday * MINUTES_PER_DAY + i.start, i.weekday * MINUTES_PER_DAY + i.end, i) for i in week]
    first = around[0]
    around.append((first[0] + MINUTES_PER_WEEK, first[1] + MINUTES_PER_WEEK, first[2]))  # Sunday night meets Monday
    return [
        wanted(
            "intervals that do not overlap",
            found=f"{_named(one)} and {_named(other)}",
            example='"08:00-12:00, 13:00-19:00"',
        )
        for (_, end, one), (start, _, other) in pairwise(around)
        if start < end
    ]


def _named(interval: WeeklyInterval) -> str:
    return f"{DAYS[interval.weekday]} {format_interval(interval)}"
