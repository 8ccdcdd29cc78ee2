"""From seconds and amounts to pixels; local days, weekday names and round ticks.

Trap: subtracting two aware instants of one zone subtracts their wall clocks. Everything here goes through UTC, so that
a day of 23 or 25 hours is drawn as wide as it was.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.simulator.results import Replay, Series
from ebbtide.units.durations import DAY_S as DAY

_NOTHING = 1e-6  # jobs, nodes or dollars: no axis needs finer ticks
_LABEL = 50.0  # pixels: `30 Nov` and a space
_FORTNIGHT = 14  # days: in more of them, weeks are what a reader looks for
_QUARTER = 900.0  # every zone's offset is a whole number of quarter hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The plot area of one panel, in pixels of its picture."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class Day:
    """One local calendar day, cut to the replay: seconds from the start."""

    begin: float
    end: float
    weekday: str
    date: str


def local_days(start: datetime, horizon: float) -> tuple[Day, ...]:
    """The local days that [0, `horizon`) touches, in order and without a gap."""
    days: list[Day] = []
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begin = 0.0
    while begin < horizon:
        following = midnight + timedelta(days=1)  # wall time: the next local midnight, however long the day is
        end = min(horizon, _seconds_between(start, following))
        days.append(Day(begin, end, f"{midnight:%a}", f"{midnight.day} {midnight:%b}"))
        begin, midnight = end, following
    return tuple(days)


def labelled(days: tuple[Day, ...], width: float) -> tuple[Day, ...]:
    """The days with a label on an axis of `width` pixels: all if there is room, else Mondays, else every so many."""
    room = max(1, int(width / _LABEL))
    if len(days) <= room:
        return days
    longest = max(day.end - day.begin for day in days)
    entire = tuple(day for day in days if day.end - day.begin > longest / 2)  # not a replay's last minutes
    mondays = tuple(day for day in entire if day.weekday == "Mon")
    chosen = mondays if len(days) > _FORTNIGHT else entire
    return chosen[:: math.ceil(len(chosen) / room)]


@dataclass(frozen=True, slots=True)
class Hour:
    """A full hour on the customer's clock."""

    at: float
    text: str


def local_hours(start: datetime, horizon: float, width: float) -> tuple[Hour, ...]:
    """Full hours in [0, `horizon`] as far apart as labels need; an hour that a clock change repeats comes twice."""
    step = next(step for step in (1, 2, 3, 4, 6, 12, 24) if step == 24 or width * step * 3600 / horizon >= _LABEL)
    begin = start.astimezone(UTC)
    hours: list[Hour] = []
    for quarter in range(int(horizon // _QUARTER) + 2):
        local = (begin + timedelta(seconds=quarter * _QUARTER - begin.timestamp() % _QUARTER)).astimezone(start.tzinfo)
        at = _seconds_between(start, local)
        if 0 <= at <= horizon and local.minute == 0 and local.hour % step == 0:
            hours.append(Hour(at, f"{local:%H:%M}"))
    return tuple(hours)


def local_label(start: datetime, seconds: float) -> str:
    """`Tue 3 Mar 14:20`, on the customer's clock."""
    local = (start.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(start.tzinfo)
    return f"{local:%a} {local.day} {local:%b} {local:%H:%M}"


def horizon_of(replay: Replay) -> float:
    """Where the time axis ends: the replay's days, or longer if a strategy's last change came later."""
    last = max((result.series.at[-1] for result in replay.strategies.values() if result.series.at), default=0.0)
    return max(replay.days * DAY, last, 1.0)


def nice_ticks(top: float, *, wanted: int = 5, whole: bool = True) -> list[float]:
    """Round values from 0 to at least `top`, about `wanted` of them; `whole` for things that come in ones.

    Of a few spacings the one that leaves the least empty space above `top` is taken.
    """
    if top < _NOTHING:
        return [0.0, 1.0]
    choices = [_ticks(top, intervals, whole=whole) for intervals in range(wanted - 1, wanted + 3)]
    return min(choices, key=lambda ticks: (ticks[-1], len(ticks)))


def _ticks(top: float, intervals: int, *, whole: bool) -> list[float]:
    step = _round_step(top / intervals)
    if whole:
        step = max(1.0, math.ceil(step))
    return [index * step for index in range(math.ceil(top / step - 1e-9) + 1)]


def _round_step(rough: float) -> float:
    """The next round number."""
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * (1 - 1e-9))


def ranged_ticks(values: Sequence[float], *, wanted: int = 5) -> list[float]:
    """Round values that span these, about `wanted` of them: for what is far from zero and differs little.

    What differs by less than a hundredth is not made to look as if it differed much.
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    lacking = max(abs(high) * 0.01, _NOTHING) - (high - low)
    if lacking > 0:
        low, high = low - lacking / 2, high + lacking / 2
    step = _round_step((high - low) / max(1, wanted - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def total_nodes(series: Series) -> tuple[int, ...]:
    return stacked(series.nodes, len(series.at))


def stacked(nodes: Mapping[str, tuple[int, ...]], length: int) -> tuple[int, ...]:
    """The sum over the groups at each change."""
    return tuple(map(sum, zip(*nodes.values(), strict=True))) if nodes else (0,) * length


def _seconds_between(earlier: datetime, later: datetime) -> float:
    return (later.astimezone(UTC) - earlier.astimezone(UTC)).total_seconds()
