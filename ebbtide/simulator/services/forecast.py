"""How many requests will come by the time that a pod asked for now is ready: shape * level, or today's trend. Pure.

    shape(m)  the median of the last seven days at minute m of the day, as far as they are known
    level     the last hour's mean / the shape's mean over that hour, within a factor of LEVELS
    trend     the mean of the last ten minutes, and on by the slope from the ten before: today's 20 minutes carried over
              the lead; at most doubled
    forecast  the larger of shape * level and trend at now + lead

The shape is smoothed over ten minutes, since few requests a minute make a ragged median. A minute that is not known is
left out, so a day that is missing makes a median of six. With less than FEWEST_DAYS of history there is no forecast:
the calendar's floor holds. Whatever was counted wrongly, the floor stays between the calendar's and `max`.
"""

import math
from dataclasses import dataclass, field
from statistics import median

from ebbtide.simulator.services.counts import DAY_MINUTES, MINUTE_S, Minutes

DAYS = 7
FEWEST_DAYS = 2
LEVELS = 3.0
"""A level above this, or below one in this, is no day like the others: capped in change."""
TREND_HALF = 10  # minutes
HOUR = 60
_STEEPEST = 2.0
_SMOOTHED = 5  # minutes to either side


@dataclass(slots=True)
class Forecast:
    """Of one series of minutes, which may grow while it is asked. What a minute's shape was found to be stays."""

    minutes: Minutes
    _shapes: dict[int, float | None] = field(default_factory=dict[int, "float | None"])

    def at(self, now: int, lead_s: float) -> float | None:
        """Requests a second, from the minutes before minute `now`; None: too little is known."""
        lead = max(1, math.ceil(lead_s / MINUTE_S))
        shaped, trend = self._shaped(now, lead), self._trend(now, lead_s)
        known = [rate for rate in (shaped, trend) if rate is not None]
        return max(known) if shaped is not None else None

    def _shaped(self, now: int, lead: int) -> float | None:
        shape = self._shape(now + lead, now)
        if shape is None:
            return None
        recent = self.minutes.mean(now - HOUR, now)
        if recent is None:
            return shape
        usual = [it for minute in range(now - HOUR, now, 5) if (it := self._shape(minute, now)) is not None]
        if not usual or not sum(usual):
            return shape
        level = recent / (sum(usual) / len(usual))
        return shape * min(LEVELS, max(1 / LEVELS, level))

    def _trend(self, now: int, lead_s: float) -> float | None:
        recent = self.minutes.mean(now - TREND_HALF, now)
        before = self.minutes.mean(now - 2 * TREND_HALF, now - TREND_HALF)
        if recent is None or before is None:
            return None
        ahead = TREND_HALF / 2 + lead_s / MINUTE_S  # from the middle of the last ten minutes
        return min(_STEEPEST * recent, max(0.0, recent + (recent - before) / TREND_HALF * ahead))

    def _shape(self, minute: int, now: int) -> float | None:
        """Of a minute at most a day ahead: only what was before `now` is looked at."""
        if minute in self._shapes:
            return self._shapes[minute]
        days = [minute - day * DAY_MINUTES for day in range(1, DAYS + 1)]
        some = [
            rate for it in days if (rate := self.minutes.mean(it - _SMOOTHED, min(now, it + _SMOOTHED + 1))) is not None
        ]
        found = median(some) if len(some) >= FEWEST_DAYS else None
        self._shapes[minute] = found
        return found


def floor_of(rate: float | None, *, margin: float, pod_rate: float, calendar: int, most: int) -> int:
    """Pods that a forecast asks for: never below the calendar's, never above `most`."""
    pods = 0 if rate is None or not math.isfinite(rate) else math.ceil(rate * margin / pod_rate - 1e-9)
    return min(most, max(calendar, pods))
