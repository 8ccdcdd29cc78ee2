"""The maintenance window of a cache: a closed hour of the week in UTC, in ElastiCache's format. Pure.

The window of maintenance and that of the daily snapshot may not overlap, so the snapshot has the hour after. A snapshot
is taken every day, at night too when people work then: it comes from a standby, and only a cache without one feels it.

AWS knows no clock changes: a window chosen in winter lies an hour later on the local clock in summer. So a closed hour
before and after is asked for too. Sunday night comes first, because a customer who is closed at all is closed then.
Holidays are left aside: they change every year, and a changed window is a change of the stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.vocabulary.windows import zone_of

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PREFERRED_DAYS = (6, 5, 0, 1, 2, 3, 4)
_PREFERRED_HOURS = (2, 3, 1, 4, 0, 23, 22, 5, 21, 20, 6, 19, *range(7, 19))
_WINTER, _SUMMER = datetime(2026, 1, 15), datetime(2026, 7, 15)  # noqa: DTZ001 - a zone is asked for its offset then
_HOUR, _WEEK = 60, 7 * 24 * 60  # minutes
_MARGIN = 60


@dataclass(frozen=True, slots=True)
class CacheWindows:
    maintenance: str  # sun:01:00-sun:02:00
    snapshot: str  # 02:00-03:00


def cache_windows(hours: BusinessHoursSettings) -> CacheWindows | None:
    """None where no hour of the week is closed with an hour around it: then AWS chooses."""
    local = next((start for start in _candidates() if _closed(start - _MARGIN, start + _HOUR + _MARGIN, hours)), None)
    if local is None:
        return None
    start = (local - _offset(hours.timezone)) % _WEEK
    return CacheWindows(
        maintenance=f"{_weekly(start)}-{_weekly(start + _HOUR)}",
        snapshot=f"{_daily(start + _HOUR)}-{_daily(start + 2 * _HOUR)}",
    )


def _candidates() -> Iterator[int]:
    """Starts in minutes of the local week, Monday's midnight first."""
    return ((day * 24 + hour) * _HOUR for day in _PREFERRED_DAYS for hour in _PREFERRED_HOURS)


def _closed(start: int, end: int, hours: BusinessHoursSettings) -> bool:
    """Around the turn of the week too: an interval of Sunday night ends on Monday."""
    for interval in hours.week:
        opens = interval.weekday * 24 * _HOUR + interval.start
        closes = opens + interval.end - interval.start
        if any(start < closes + shift and opens + shift < end for shift in (-_WEEK, 0, _WEEK)):
            return False
    return True


def _offset(timezone: str) -> int:
    """Minutes ahead of UTC without summer time."""
    zone = zone_of(timezone)
    offsets = [zone.utcoffset(when) or timedelta() for when in (_WINTER, _SUMMER)]
    return int(min(offsets).total_seconds()) // 60


def _weekly(minutes: int) -> str:
    return f"{_DAYS[minutes % _WEEK // (24 * _HOUR)]}:{_daily(minutes)}"


def _daily(minutes: int) -> str:
    hours, rest = divmod(minutes % (24 * _HOUR), _HOUR)
    return f"{hours:02}:{rest:02}"
