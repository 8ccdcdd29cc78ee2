"""A cron expression of five fields, as Kubernetes reads it.

Read here as the API server would (robfig/cron, `ParseStandard`), so that a slip has one clear message with file and
line. The traps are where it differs from the cron of a host: Sunday is 0 and never 7, and no field may name a zone. A
day of the month that no month has is taken by Kubernetes, and such a CronJob never runs; here it is refused.
"""

import re
from datetime import date
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.file.wanted import wanted

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(\*|\?|[0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?(?:/([0-9]{1,2}))?")
_EXAMPLE = '"30 2 * * 1-5"'


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)


def parse_cron(value: object) -> str:
    """The expression with one blank between two fields."""
    parts = value.split() if isinstance(value, str) else []
    if len(parts) != len(_FIELDS):
        what = "a cron expression of five fields: minute, hour, day of the month, month, day of the week"
        hint = "write it in five fields" if isinstance(value, str) and value.startswith("@") else ""
        raise wanted("cron.form", what, example=_EXAMPLE, hint=hint)
    read = [_numbers(text, field) for text, field in zip(parts, _FIELDS, strict=True)]
    for text, field, numbers in zip(parts, _FIELDS, read, strict=True):
        if not numbers:
            hint = "Sunday is 0" if field.name == "day of the week" and "7" in text else ""
            what = f"a {field.name} from {field.least} to {field.most}: *, numbers, ranges, lists and steps"
            raise wanted("cron.field", what, found=repr(text), example=_EXAMPLE, hint=hint)
    _, _, days, months, _ = read
    # With a weekday named, a day of either kind will do.
    if _any(parts[4]) and not any(day <= _LONGEST[month - 1] for day in days for month in months):
        raise wanted("cron.never", "a day that one of its months has, or it never runs", example=_EXAMPLE)
    return " ".join(parts)


class CronTimes(NamedTuple):
    """What an expression stands for, each field in ascending order. Sunday is 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool
    """Both a day of the month and a weekday are named: then one of them will do. Otherwise both have to hold."""

    def on(self, day: date) -> bool:
        """Whether it has times on this day."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either_day else of_month and of_week)


def cron_times(expression: str) -> CronTimes:
    """Of an expression that `parse_cron` took."""
    parts = expression.split()
    read = [tuple(sorted(_numbers(text, field))) for text, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = read
    return CronTimes(minutes, hours, days, months, weekdays, not _any(parts[2]) and not _any(parts[4]))


def _any(text: str) -> bool:
    """A field that is left open: a step above 1 names something, as in robfig/cron."""
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _numbers(text: str, field: _Field) -> set[int]:
    """The numbers that a field stands for; none where a part of it is not understood."""
    found: set[int] = set()
    for part in text.split(","):
        numbers = _of_part(part, field)
        if not numbers:
            return set()
        found.update(numbers)
    return found


def _of_part(part: str, field: _Field) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        return range(0)
    first, last, step = match.groups()
    if first in "*?":
        start, end = (field.least, field.most) if last is None else (None, None)
    else:
        start = _number(first, field)
        end = _number(last, field) if last is not None else (field.most if step is not None else start)
    every = int(step) if step is not None else 1
    if start is None or end is None or every == 0:
        return range(0)
    return range(start, end + 1, every)


def _number(text: str, field: _Field) -> int | None:
    if text.isdecimal():
        return int(text) if field.least <= int(text) <= field.most else None
    return field.least + field.words.index(text.lower()) if text.lower() in field.words else None


Cron: TypeAlias = Annotated[
    str, BeforeValidator(parse_cron), WithJsonSchema({"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"})
]
