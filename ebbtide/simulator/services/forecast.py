"""How many pods a forecast asks for: the usual times today's level, when a pod asked for now could be ready. Pure.

What `ebbtide.monitoring.forecast` has Prometheus work out, on minutes that were counted, with its own constants:

    usual     the median of the last seven days in the ten minutes that begin its horizon from now: of those like
              today, which are open or closed as it is, or of all where too few are
    level     (last hour + one pod's worth) / (its usual + one pod's worth), at most MOST
    trend     where the line through the last 20 minutes leads at the horizon, at most MOST times what is there
    pods      margin times the larger of usual * level and trend, for each pod's worth; none where there is no usual

A minute that is not known is left out, and a day of which nothing is known then; fewer than DAYS_NEEDED are no history.
Requests under way are taken to be those that are worked on: Prometheus counts those that wait too, and asks for more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from ebbtide.monitoring.forecast import AHEAD, CLOSED_NEEDED, DAYS, DAYS_NEEDED, LEVEL_OVER, MOST, TREND_OVER
from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes

_AHEAD, _HOUR, _TREND = (round(it.total_seconds() / MINUTE_S) for it in (AHEAD, LEVEL_OVER, TREND_OVER))


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one series of minutes, which may grow while it is asked."""

    minutes: Minutes
    pod_rate: float  # requests a second that one pod is to have, by the target that the forecast counts by
    horizon: timedelta
    closed: Callable[[int], bool] = lambda _minute: False  # whether a minute lies in a day without business hours

    def at(self, now: int) -> float | None:
        """Requests a second, from the minutes before minute `now`; None: too little is known."""
        begin = now + round(self.horizon.total_seconds() / MINUTE_S)
        usual = self._usual(begin, begin + _AHEAD, now)
        if usual is None:
            return None
        trend = self._trend(now)
        today = usual * self._level(now)
        return today if trend is None else max(today, trend)

    def pods(self, now: int, margin: float, most: int) -> int:
        """0 where nothing is forecast: a trigger that is silent asks for nothing."""
        return pods_of(self.at(now), margin=margin, pod_rate=self.pod_rate, most=most)

    def _level(self, now: int) -> float:
        recent, usual = self.minutes.mean(now - _HOUR, now), self._usual(now - _HOUR, now, now)
        if recent is None or usual is None:
            return 1.0
        return min(MOST, (recent + self.pod_rate) / max(1e-9, usual + self.pod_rate))

    def _usual(self, begin: int, until: int, now: int) -> float | None:
        """Of minutes at most a day ahead, on the days before: nothing from `now` on is looked at."""
        days = [day * DAY_MINUTES for day in range(1, DAYS + 1)]
        known = {day: self.minutes.mean(begin - day, min(now, until - day)) for day in days}
        some = {day: rate for day, rate in known.items() if rate is not None}
        today = self.closed(now)
        like = [rate for day, rate in some.items() if self.closed(now - day) == today]
        if len(like) >= (CLOSED_NEEDED if today else DAYS_NEEDED):
            return median(like)
        return median(some.values()) if len(some) >= DAYS_NEEDED else None

    def _trend(self, now: int) -> float | None:
        """By least squares, as `predict_linear` does: a minute is read in its middle."""
        rates = self.minutes.rates[max(0, now - _TREND) : now]
        points = [(place - len(rates) + 0.5, rate) for place, rate in enumerate(rates) if rate is not None]
        if len(points) < 2:
            return None
        middle = sum(at for at, _ in points) / len(points)
        mean = sum(rate for _, rate in points) / len(points)
        slope = sum((at - middle) * rate for at, rate in points) / sum((at - middle) ** 2 for at, _ in points)
        return min(MOST * mean, mean + slope * (self.horizon.total_seconds() / MINUTE_S - middle))


def pods_of(rate: float | None, *, margin: float, pod_rate: float, most: int) -> int:
    """From 0 to `most`, whatever was counted."""
    if rate is None or not math.isfinite(rate):
        return 0
    return min(most, max(0, math.ceil(margin * rate / pod_rate - 1e-9)))
