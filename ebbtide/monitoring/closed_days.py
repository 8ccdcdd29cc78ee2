"""PromQL that is 1 on a day without business hours, by weekday or as a holiday, and 0 otherwise. Pure.

Prometheus knows neither zones nor holidays, so the expression lists both: the zone's offset from UTC with its changes,
and the known holidays and working weekends. A change of the offset counts from noon on, so it changes no date.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.vocabulary.windows import BusinessHours, wall_to_instant, zone_of

_DAY = timedelta(days=1)
_CHANGES_FOR = timedelta(days=3 * 366)
"""Period for which changes of the offset are listed: no longer than for holidays."""


def is_closed(hours: BusinessHours, day: date) -> bool:
    """True if no business hours start on this local date."""
    return not hours.intervals_on(day)


def closed_day(hours: BusinessHours, since: date) -> str:
    """Return one series, to which the caller adds labels. `since` is the first day that is queried."""
    local = f"vector({' + '.join(_local_seconds(hours.timezone, since))})"
    free = sorted({(day + 1) % 7 for day in range(7)} - {(opening.weekday + 1) % 7 for opening in hours.week})
    weekdays = [f"(day_of_week({local}) == bool {day})" for day in free]
    listed = [*_stretches(hours.timezone, (day for day in hours.closed_dates if day >= since))]
    holidays = [f"vector({' + '.join(listed)})"] if listed else []
    closed = f"clamp_max({' + '.join(['vector(0)', *weekdays, *holidays])}, 1)"
    worked = {opening.day for opening in hours.open_dates if opening.day >= since and not is_closed(hours, opening.day)}
    opened = [*_stretches(hours.timezone, worked)]
    unless = f" * vector({' - '.join(['1', *opened])})" if opened else ""
    return f"max by ({CUSTOMER}) ({closed}{unless})"


def _local_seconds(zone: str, since: date) -> Iterator[str]:
    """Yield terms whose sum is the wall time, as seconds since 1970."""
    days = [since + days * _DAY for days in range(_CHANGES_FOR // _DAY)]
    noons = [datetime(day.year, day.month, day.day, 12, tzinfo=zone_of(zone)) for day in days]
    ahead = [noon.utcoffset() or timedelta() for noon in noons]
    yield "time()"
    yield f"{_seconds(ahead[0])}"
    for (before, after), noon in zip(pairwise(ahead), noons[1:], strict=True):
        if before != after:
            yield f"{_seconds(after - before)} * (time() >= bool {int(noon.timestamp())})"


def _stretches(zone: str, days: Iterable[date]) -> Iterator[str]:
    """Yield, for each run of consecutive dates, an expression that is 1 within it."""
    begin = last = None
    for day in sorted(days):
        if begin is None or last is None or day > last + _DAY:
            if begin is not None and last is not None:
                yield _within(zone, begin, last)
            begin = day
        last = day
    if begin is not None and last is not None:
        yield _within(zone, begin, last)


def _within(zone: str, first: date, last: date) -> str:
    begin, end = (
        int(wall_to_instant(zone, day, 0, last=False).astimezone(UTC).timestamp()) for day in (first, last + _DAY)
    )
    return f"(time() >= bool {begin}) * (time() < bool {end})"


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())
