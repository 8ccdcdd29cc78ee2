"""One local day of a replayed service: what its picture, its table and its crosshair show.

Pods are told by the minute, since they come and go in minutes; requests and latency by five, since one minute has too
few of them to speak of a 95th percentile.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ebbtide.report.charts.scales import Day, local_days
from ebbtide.simulator.services.results import STEP_MINUTES, Played, ServiceReplay
from ebbtide.simulator.services.strategies import ServiceStrategy
from ebbtide.units.durations import HOUR_S

MINUTE_S = 60.0
STEP_S = STEP_MINUTES * MINUTE_S
_SHORTEST_DAY_S = 23 * HOUR_S  # of a clock change
_PICTURED = (ServiceStrategy.HPA_ONLY, ServiceStrategy.CALENDAR_FLOOR, ServiceStrategy.FORECAST_FLOOR)


class NoSuchDay(ValueError):
    """The message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOfDay:
    """Of one strategy. `p95_s` and `unanswered` by step, the others by minute."""

    floor: Sequence[int]
    asked: Sequence[int]
    ready: Sequence[int]
    pod_hours: Sequence[float]  # paid for in each minute; a pod that is told to stop counts to its end
    p95_s: Sequence[float | None]  # None: nothing was answered
    unanswered: Sequence[int]  # lost or turned away


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDay:
    """The steps that begin in the day; seconds count from `start`, where the first of them does."""

    day: Day
    start: datetime
    slo_s: float
    open_spans: tuple[tuple[float, float], ...]
    gaps: tuple[tuple[float, float], ...]
    rate: Sequence[float | None]  # requests a second, by step; None: the trace does not say
    strategies: Mapping[str, PodsOfDay]

    @property
    def horizon(self) -> float:
        return len(self.rate) * STEP_S


def pictured(replay: ServiceReplay) -> list[str]:
    """Three strategies at most, those with a floor after the one without."""
    return [it for it in _PICTURED if it in replay.strategies] or list(replay.strategies)[: len(_PICTURED)]


def days_of(start: datetime, begin_s: float, end_s: float) -> list[Day]:
    """The local days of what is played, cut to it: seconds of the trace, whose second 0 is `start`."""
    return [
        Day(max(day.begin, begin_s), day.end, day.weekday, day.date)
        for day in local_days(start, end_s)
        if day.end > begin_s
    ]


def require_day(days: Sequence[Day], number: int) -> Day:
    """The first is 1. Raises `NoSuchDay`."""
    if not 1 <= number <= len(days):
        raise NoSuchDay(f"--day: wanted 1 to {len(days)}, the days that are replayed, found {number} (for example 1)")
    return days[number - 1]


def served_day(replay: ServiceReplay, number: int | None = None) -> ServedDay:
    """The day of this number, the first being 1; None: the busiest whole one. Raises `NoSuchDay`."""
    days = days_of(replay.start, replay.begin_s, replay.end_s)
    day = _busiest(replay, days) if number is None else require_day(days, number)
    played = next(iter(replay.strategies.values()))
    first, last = (math.ceil((at - replay.begin_s) / STEP_S) for at in (day.begin, day.end))
    last = min(last, len(played.series.sent) // STEP_MINUTES)
    begin_s = replay.begin_s + first * STEP_S
    end_s = replay.begin_s + last * STEP_S
    start = (replay.start.astimezone(UTC) + timedelta(seconds=begin_s)).astimezone(replay.start.tzinfo)
    gaps = _cut(replay.gaps, begin_s, end_s)
    return ServedDay(
        day=day,
        start=start,
        slo_s=replay.slo_s,
        open_spans=_cut(replay.open_spans, begin_s, end_s),
        gaps=gaps,
        rate=_rates(played, first, last, gaps),
        strategies={name: _pods_of(replay.strategies[name], first, last) for name in pictured(replay)},
    )


def _busiest(replay: ServiceReplay, days: Sequence[Day]) -> Day:
    """Of the days that were played from midnight to midnight, else of all, the one with the most requests."""
    sent = next(iter(replay.strategies.values())).series.sent

    def requests(day: Day) -> int:
        begin, end = (round((at - replay.begin_s) / MINUTE_S) for at in (day.begin, day.end))
        return sum(sent[begin:end])

    whole = [day for day in days if day.end - day.begin >= _SHORTEST_DAY_S]
    return max(whole or days, key=requests)


def _rates(played: Played, first: int, last: int, gaps: Sequence[tuple[float, float]]) -> tuple[float | None, ...]:
    sent = played.series.sent
    steps = [sum(sent[step * STEP_MINUTES : (step + 1) * STEP_MINUTES]) / STEP_S for step in range(first, last)]
    return tuple(
        None if any(begin <= place * STEP_S < end for begin, end in gaps) else rate for place, rate in enumerate(steps)
    )


def _pods_of(played: Played, first: int, last: int) -> PodsOfDay:
    series = played.series
    minutes = slice(first * STEP_MINUTES, last * STEP_MINUTES)
    unanswered = [0, *series.unanswered[STEP_MINUTES - 1 :: STEP_MINUTES]]
    hours = [0.0, *series.pod_hours]
    each = [after - before for before, after in pairwise(hours)]
    return PodsOfDay(
        floor=series.floor[minutes],
        asked=series.replicas[minutes],
        ready=series.ready[minutes],
        pod_hours=each[minutes],
        p95_s=played.p95_s[first:last],
        unanswered=[after - before for before, after in pairwise(unanswered)][first:last],
    )


def _cut(spans: Sequence[tuple[float, float]], begin: float, end: float) -> tuple[tuple[float, float], ...]:
    inside = [(max(begin, one), min(end, other)) for one, other in spans]
    return tuple((one - begin, other - begin) for one, other in inside if one < other)
