"""Business hours and disruption windows: local wall time, turned into instants once.

Rules, in the order they are applied:

1. An interval belongs to the local date on which it starts. A closed date drops the intervals that start on it. A date
   with its own intervals has these in place of its weekday's.
2. A wall time that a clock change skips means the moment of the change. A wall time that occurs twice means the first
   occurrence at the start of an interval, and the last occurrence at the end. So an interval never has a hole, and
   ambiguity widens the protected time.
3. Touching and overlapping intervals are merged. The hours are open from the start, inclusive, to the end, exclusive.
4. After the last date that the holiday list covers, every day counts as an ordinary weekday.

The disruption window is the closed time minus its last `closing_guard`: when the day begins, evictions that were
accepted in the last minutes of the night must have ended, and the pods must have restarted.

Zones come from the pinned `tzdata` package and never from the host: a host's older database had other clock changes
for Casablanca and Chisinau, and the same hours must mean the same instants in a preview and in the cluster.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzdata

MINUTES_PER_DAY = 24 * 60
_HORIZON_DAYS = 400  # a change is searched within this time, which is longer than a year of holidays


@lru_cache(maxsize=512)
def zone_of(name: str) -> ZoneInfo:
    """Return the zone with this IANA name. Raises `ZoneInfoNotFoundError` for an unknown name."""
    if name not in zone_names():
        raise ZoneInfoNotFoundError(f"no time zone is called {name!r}")
    with (files("tzdata") / "zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return every IANA name of the pinned database."""
    return frozenset((files("tzdata") / "zones").read_text(encoding="utf-8").split())


def tzdata_version() -> str:
    """Return the release of the time zone database, for example `2026b`."""
    return tzdata.IANA_VERSION


@dataclass(frozen=True, slots=True, order=True)
class WeeklyInterval:
    """Minutes of local wall time from midnight of `weekday` (0 is Monday); an `end` above 1440 is on the next day."""

    weekday: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.weekday <= 6:
            raise ValueError(f"weekday {self.weekday}: wanted 0 (Monday) to 6 (Sunday)")
        if not (0 <= self.start < MINUTES_PER_DAY and self.start < self.end <= self.start + MINUTES_PER_DAY):
            raise ValueError(f"minutes {self.start} to {self.end}: wanted a start in the day and up to 24 hours")


@dataclass(frozen=True, slots=True, order=True)
class DatedInterval:
    """Minutes of local wall time from midnight of `day`, for example a working Saturday.

    The interval may be longer than 24 hours: from the earliest opening of a week to the end of its latest night.
    """

    day: date
    start: int
    end: int

    def __post_init__(self) -> None:
        if not (0 <= self.start < MINUTES_PER_DAY and self.start < self.end <= 2 * MINUTES_PER_DAY):
            raise ValueError(f"minutes {self.start} to {self.end}: wanted a start in the day and an end by the next")


@dataclass(frozen=True, slots=True)
class Span:
    """A period of open time: `start` inclusive, `end` exclusive, both UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, kw_only=True)
class BusinessHours:
    """The customer's working time. `closed_dates` override `open_dates`, and both override the week."""

    timezone: str
    week: tuple[WeeklyInterval, ...]
    closed_dates: frozenset[date] = frozenset()
    open_dates: frozenset[DatedInterval] = frozenset()
    holidays_known_until: date | None = None
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _spans: dict[date, tuple[Span, ...]] = field(init=False, repr=False, compare=False)  # a cache by local date

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", zone_of(self.timezone))
        object.__setattr__(self, "_spans", {})

    def is_open(self, instant: datetime) -> bool:
        """Return True if `instant` (aware) is within business hours."""
        at = instant.astimezone(UTC)
        span = self._span_around(at)
        return span is not None and span.start <= at

    def next_change(self, instant: datetime) -> datetime | None:
        """Return the first instant (UTC) after `instant` at which the hours open or close, or None if they never do."""
        at = instant.astimezone(UTC)
        span = self._span_around(at)
        if span is None:
            return None
        change = span.end if span.start <= at else span.start
        return change if change < at + timedelta(days=_HORIZON_DAYS) else None

    def next_opening(self, instant: datetime) -> datetime | None:
        """Return the start of the first open span after `instant`, or None."""
        at = instant.astimezone(UTC)
        spans = self.open_spans(at, at + timedelta(days=_HORIZON_DAYS))
        return next((span.start for span in spans if span.start > at), None)

    def open_spans(self, start: datetime, end: datetime) -> Iterator[Span]:
        """Yield the merged open spans that end after `start` and begin before `end`, in order, not clipped."""
        begin, stop = start.astimezone(UTC), end.astimezone(UTC)
        day = self.local(begin).date() - timedelta(days=2)
        last = self.local(stop).date() + timedelta(days=2)
        current: Span | None = None
        while day <= last:
            for span in self._spans_of_day(day):
                if current is not None and span.start <= current.end:
                    current = Span(current.start, max(current.end, span.end))
                    continue
                if current is not None and current.end > begin:
                    yield current
                if span.start >= stop:
                    return
                current = span
            day += timedelta(days=1)
        if current is not None and current.end > begin:
            yield current

    def intervals_on(self, day: date) -> list[tuple[int, int]]:
        """Return the intervals that start on `day`, in minutes from its local midnight."""
        if day in self.closed_dates:
            return []
        dated = sorted((interval.start, interval.end) for interval in self.open_dates if interval.day == day)
        return dated or sorted(
            (interval.start, interval.end) for interval in self.week if interval.weekday == day.weekday()
        )

    def knows_holidays_at(self, instant: datetime) -> bool:
        """Return False after the end of the resolved holiday list; the controller then warns."""
        return self.holidays_known_until is None or self.local(instant).date() <= self.holidays_known_until

    def local(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone)

    def _spans_of_day(self, day: date) -> tuple[Span, ...]:
        spans = self._spans.get(day)
        if spans is None:
            spans = self._spans[day] = tuple(_spans_of_day(self, day))
        return spans

    def _span_around(self, at: datetime) -> Span | None:
        """Return the span that contains `at`, or the next one."""
        return next(self.open_spans(at, at + timedelta(days=_HORIZON_DAYS)), None)


@dataclass(frozen=True, kw_only=True)
class DisruptionWindow:
    """Time in which flexible pods may be moved: closed time, ending `closing_guard` before the next opening."""

    hours: BusinessHours
    closing_guard: timedelta

    def is_open(self, instant: datetime) -> bool:
        ahead = instant + self.closing_guard + timedelta.resolution  # the span also covers hours shorter than the guard
        return next(self.hours.open_spans(instant, ahead), None) is None

    def next_change(self, instant: datetime) -> datetime | None:
        """Return the first instant after `instant` at which the window opens or closes, in UTC, or None if it never
        does.
        """
        at = instant.astimezone(UTC)
        now = self.is_open(at)
        for _ in range(_HORIZON_DAYS):
            edge = self._next_edge(at)
            if edge is None or self.is_open(edge) != now:
                return edge
            at = edge
        return None

    def _next_edge(self, at: datetime) -> datetime | None:
        guarded = self.hours.next_change(at + self.closing_guard)
        edges = [self.hours.next_change(at), None if guarded is None else guarded - self.closing_guard]
        return min((edge for edge in edges if edge is not None), default=None)


def _spans_of_day(hours: BusinessHours, day: date) -> Iterator[Span]:
    for first, last in hours.intervals_on(day):
        start = wall_to_instant(hours.timezone, day, first, last=False)
        end = wall_to_instant(hours.timezone, day, last, last=True)
        if start < end:  # a clock change can skip an entire interval
            yield Span(start, end)


@lru_cache(maxsize=4096)
def wall_to_instant(timezone: str, day: date, minutes: int, *, last: bool) -> datetime:
    """Return the UTC instant of a wall time, `minutes` after midnight of `day`; `last` picks the later of two
    occurrences.

    A wall time that a clock change skips becomes the moment of the change.
    """
    zone = zone_of(timezone)
    naive = datetime.combine(day, datetime.min.time()) + timedelta(minutes=minutes)
    instant = naive.replace(tzinfo=zone, fold=int(last)).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == naive:
        return instant
    early = naive.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = naive.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = early.astimezone(zone).utcoffset()

    def has_changed(second: int) -> bool:
        return (early + timedelta(seconds=second)).astimezone(zone).utcoffset() != before

    seconds = range((late - early) // timedelta(seconds=1))
    return early + timedelta(seconds=bisect_left(seconds, 1, key=has_changed))
