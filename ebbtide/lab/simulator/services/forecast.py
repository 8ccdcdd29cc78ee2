"""The pods of a forecast for the time at which a pod requested now could be ready. Pure.

The arithmetic of the Prometheus rules of `ebbtide.monitoring.forecast`, with their constants, on counted minutes:

    usual     the median of the last seven days in the ten minutes that begin one horizon from now: of the days that
              are open or closed like today, or of all if these are too few
    level     (last hour + one pod's worth) / (its usual + one pod's worth), at most MOST
    trend     the line through the last 20 minutes at the horizon, at most MOST times their mean
    pods      margin times the larger of usual * level and trend, for each pod's worth; none without usual

Unknown minutes, and days without a known minute, are skipped. Fewer than DAYS_NEEDED days are no history. Here requests
in flight are only those in work; Prometheus also counts waiting ones, and requests more pods.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes
from ebbtide.monitoring.forecast import AHEAD, CLOSED_NEEDED, DAYS, DAYS_NEEDED, LEVEL_OVER, MOST, TREND_OVER

_AHEAD, _HOUR, _TREND = (round(span.total_seconds() / MINUTE_S) for span in (AHEAD, LEVEL_OVER, TREND_OVER))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of one series of minutes, which may grow."""

    minutes: Minutes
    pod_rate: float  # requests a second per pod, from the target of the forecast's metric
    horizon: timedelta
    closed: Callable[[int], bool] = lambda _minute: False  # true for a minute in a day without business hours

    def at(self, now: int) -> float | None:
        """Requests a second, from the minutes before minute `now`; None: too few are known."""
        begin = now + round(self.horizon.total_seconds() / MINUTE_S)
        usual = self._usual(begin, begin + _AHEAD, now)
        if usual is None:
            return None
        trend = self._trend(now)
        today = usual * self._level(now)
        return today if trend is None else max(today, trend)

    def pods(self, now: int, margin: float, most: int) -> int:
        """The pods to request; 0 without a forecast."""
        return pods_of(self.at(now), margin=margin, pod_rate=self.pod_rate, most=most)

    def _level(self, now: int) -> float:
        recent, usual = self.minutes.mean(now - _HOUR, now), self._usual(now - _HOUR, now, now)
        if recent is None or usual is None:
            return 1.0
        return min(MOST, (recent + self.pod_rate) / max(1e-9, usual + self.pod_rate))

    def _usual(self, begin: int, until: int, now: int) -> float | None:
        """The usual rate of minutes at most a day ahead, from earlier days; minutes from `now` on are not read."""
        days = [day * DAY_MINUTES for day in range(1, DAYS + 1)]
        means = {day: self.minutes.mean(begin - day, min(now, until - day)) for day in days}
        rates = {day: rate for day, rate in means.items() if rate is not None}
        is_closed = self.closed(now)
        similar = [rate for day, rate in rates.items() if self.closed(now - day) == is_closed]
        if len(similar) >= (CLOSED_NEEDED if is_closed else DAYS_NEEDED):
            return median(similar)
        return median(rates.values()) if len(rates) >= DAYS_NEEDED else None

    def _trend(self, now: int) -> float | None:
        """Least squares, as in `predict_linear`; the rate of a minute counts at its middle."""
        rates = self.minutes.rates[max(0, now - _TREND) : now]
        points = [(place - len(rates) + 0.5, rate) for place, rate in enumerate(rates) if rate is not None]
        if len(points) < 2:
            return None
        middle = sum(at for at, _ in points) / len(points)
        mean = sum(rate for _, rate in points) / len(points)
        slope = sum((at - middle) * rate for at, rate in points) / sum((at - middle) ** 2 for at, _ in points)
        return min(MOST * mean, mean + slope * (self.horizon.total_seconds() / MINUTE_S - middle))


def pods_of(rate: float | None, *, margin: float, pod_rate: float, most: int) -> int:
    """The pods for a rate, from 0 to `most`."""
    if rate is None or not math.isfinite(rate):
        return 0
    return min(most, max(0, math.ceil(margin * rate / pod_rate - 1e-9)))
