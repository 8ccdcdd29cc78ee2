"""An independent oracle for business hours: the C library's clock, second by second, and the rules as inequalities.

It shares nothing with `ebbtide.vocabulary.windows` but the zone files: local time comes from `localtime()`, clock
changes are found by bisection, and no span is ever built. An instant is open when the wall clock has already shown
the start and will still show the end.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.resources import files
from itertools import pairwise

from ebbtide.vocabulary.windows import WeeklyInterval

DAY = 86_400
NEAR = 30 * 3600  # no clock change reaches further than a day


@dataclass(frozen=True)
class WallClock:
    """Local time of the zone that `in_zone` made current; instants are Unix seconds."""

    changes: tuple[int, ...]

    def shows(self, instant: int) -> datetime:
        return datetime(*time.localtime(instant)[:6])  # noqa: DTZ001 - a wall time has no zone

    def is_open(
        self,
        week: Sequence[WeeklyInterval],
        instant: int,
        dates: Mapping[date, Sequence[tuple[int, int]]] | None = None,
    ) -> bool:
        """`dates` are those that differ from their weekday: closed where they have no minutes."""
        return self.at(instant).is_open(week, dates)

    def at(self, instant: int) -> "Shown":
        """`instant` as the wall clock shows it, with the clock changes near it."""
        first, next_one, last = (bisect_right(self.changes, at) for at in (instant - NEAR, instant, instant + NEAR))
        now = self.shows(instant)
        return Shown(
            now=now,
            latest=max([now, *(self.shows(change - 1) for change in self.changes[first:next_one])]),
            earliest=min([self.shows(instant + 1), *(self.shows(change) for change in self.changes[next_one:last])]),
        )


@dataclass(frozen=True)
class Shown:
    """Wall times around an instant: the latest that was shown by then, and the earliest still to be shown."""

    now: datetime
    latest: datetime
    earliest: datetime

    def is_open(
        self, week: Sequence[WeeklyInterval], dates: Mapping[date, Sequence[tuple[int, int]]] | None = None
    ) -> bool:
        midnight = self.now.replace(hour=0, minute=0, second=0)
        for day in (midnight + timedelta(days=offset) for offset in (-2, -1, 0, 1)):
            weekday = day.weekday()
            usual = [(interval.start, interval.end) for interval in week if interval.weekday == weekday]
            for begin, stop in (dates or {}).get(day.date(), usual):
                start, end = day + timedelta(minutes=begin), day + timedelta(minutes=stop)
                if self.latest >= start and (self.now < end or self.earliest <= end):
                    return True
        return False


@contextmanager
def in_zone(zone: str, first_year: int, last_year: int) -> Generator[WallClock]:
    """Make `zone` the process's local time; its clock changes in the years given are looked up at once."""
    before = {key: os.environ.get(key) for key in ("TZ", "TZDIR")}
    os.environ["TZDIR"] = str(files("tzdata") / "zoneinfo")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield WallClock(tuple(_changes(_year(first_year), _year(last_year + 1))))
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
        time.tzset()


def distinct_zones() -> list[str]:
    """One name for each different set of rules among the zones of the IANA database."""
    root = files("tzdata") / "zoneinfo"
    by_rules: dict[bytes, str] = {}
    for name in (files("tzdata") / "zones").read_text().split():
        by_rules.setdefault(root.joinpath(name).read_bytes(), name)
    return sorted(by_rules.values())


def _year(year: int) -> int:
    return int((datetime(year, 1, 1) - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001


def _offset(instant: int) -> int:
    return time.localtime(instant).tm_gmtoff


def _changes(start: int, stop: int) -> Iterator[int]:
    for early, late in pairwise(range(start, stop + DAY, 5 * DAY)):
        if _offset(early) != _offset(late):
            before, after = early, late
            while after - before > 1:
                middle = (before + after) // 2
                if _offset(middle) == _offset(early):
                    before = middle
                else:
                    after = middle
            yield after
