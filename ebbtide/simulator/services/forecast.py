"""How many requests will come by the time that a pod asked for now is ready: the usual times today's level. Pure.

What `ebbtide.monitoring.forecast` has Prometheus work out, on minutes that were counted, with its own constants:

    usual     the median of the last seven days in the ten minutes that begin a lead from now
    level     (last hour + one pod's worth) / (its usual + one pod's worth), at most MOST
    trend     where the line through the last 20 minutes leads in a lead, at most MOST times what is there
    forecast  the larger of usual * level and trend; nothing where there is no usual

A minute that is not known is left out, so a day that is missing makes a median of six. Here FEWEST_DAYS of history are
enough, so that a trace of two weeks has days to tune on; the rules in a cluster wait for a week. Whatever was counted
wrongly, a floor stays between the calendar's and `max`.
"""

import math
from dataclasses import dataclass
from statistics import median

from ebbtide.monitoring.forecast import AHEAD, DAYS, LEVEL_OVER, MOST, TREND_OVER
from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes

FEWEST_DAYS = 2
_AHEAD, _HOUR, _TREND = (round(it.total_seconds() / MINUTE_S) for it in (AHEAD, LEVEL_OVER, TREND_OVER))


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one series of minutes, which may grow while it is asked."""

    minutes: Minutes
    pod_rate: float  # requests a second that one pod is meant for

    def at(self, now: int, lead_s: float) -> float | None:
        """Requests a second, from the minutes before minute `now`; None: too little is known."""
        begin = now + math.ceil(lead_s / MINUTE_S)
        usual = self._usual(begin, begin + _AHEAD, now)
        if usual is None:
            return None
        trend = self._trend(now, lead_s)
        today = usual * self._level(now)
        return today if trend is None else max(today, trend)

    def _level(self, now: int) -> float:
        recent, usual = self.minutes.mean(now - _HOUR, now), self._usual(now - _HOUR, now, now)
        if recent is None or usual is None:
            return 1.0
        return min(MOST, (recent + self.pod_rate) / max(1e-9, usual + self.pod_rate))

    def _usual(self, begin: int, until: int, now: int) -> float | None:
        """Of minutes at most a day ahead, on the days before: nothing from `now` on is looked at."""
        days = [day * DAY_MINUTES for day in range(1, DAYS + 1)]
        known = [self.minutes.mean(begin - day, min(now, until - day)) for day in days]
        some = [rate for rate in known if rate is not None]
        return median(some) if len(some) >= FEWEST_DAYS else None

    def _trend(self, now: int, lead_s: float) -> float | None:
        """By least squares, as `predict_linear` does."""
        rates = self.minutes.rates[max(0, now - _TREND) : now]
        points = [(place - len(rates) + 0.5, rate) for place, rate in enumerate(rates) if rate is not None]
        if 2 * len(points) < _TREND:
            return None
        middle = sum(at for at, _ in points) / len(points)
        mean = sum(rate for _, rate in points) / len(points)
        slope = sum((at - middle) * rate for at, rate in points) / sum((at - middle) ** 2 for at, _ in points)
        return min(MOST * mean, mean + slope * (lead_s / MINUTE_S - middle))


def floor_of(rate: float | None, *, margin: float, pod_rate: float, calendar: int, most: int) -> int:
    """Pods that a forecast asks for: never below the calendar's, never above `most`."""
    pods = 0 if rate is None or not math.isfinite(rate) else math.ceil(rate * margin / pod_rate - 1e-9)
    return min(most, max(calendar, pods))
