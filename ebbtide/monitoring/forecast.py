"""PromQL for the number of pods that a service will need when a new pod could be ready. Pure.

**The usual**, times **the level** of today: the median of the last seven days in the ten minutes from then on, times
what the last hour was against the usual of that hour. At least **the trend**: what the last 20 minutes lead to.

- Of the seven days those that are *like today*: with business hours, or without them, as weekends and holidays are. So
  a holiday has the shape of the closed days before it, and the week after it is not misled by it. Where fewer than
  three are like an open day, and none like a closed one, all seven count.
- One pod's worth is added to both sides of the level. So at night, when there is next to nothing, a request more or
  less neither halves nor doubles the morning.
- *Capped*: the level is at most 2, and the trend leads to at most twice what is there. So what is counted twice makes
  twice the pods at most. What comes out is taken times the file's `margin`, and is never above `max`.
- *Silent* where, besides, fewer than three of all seven days have these ten minutes: of three, one that was counted
  wrongly does not move the median. A day that is missing is left out.
- A day is 24 hours: for some days after a clock change the usual is an hour off.

Three rules that follow each other, since each asks for the one before: their names and labels are the caller's.
`ebbtide.simulator.services.forecast` works out the same from counts, and a test holds the two together.
"""

from collections.abc import Mapping
from datetime import timedelta

from ebbtide.monitoring.rules import CUSTOMER

DAYS, DAYS_NEEDED, CLOSED_NEEDED = 7, 3, 1
AHEAD, LEVEL_OVER, TREND_OVER = timedelta(minutes=10), timedelta(hours=1), timedelta(minutes=20)
MOST = 2
"""Factor on the usual, and on the current load."""

ARRIVES = timedelta(minutes=1)
"""From the load to the HPA's desired number: an evaluation of the rules, a poll of KEDA and one of the HPA."""

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def horizon(lead: timedelta) -> timedelta:
    """Return how far to look ahead: the time for a node and its pod, in whole minutes like the simulated history."""
    return -(-(lead + ARRIVES) // _MINUTE) * _MINUTE


def usual(series: str, closed: str, ahead: timedelta) -> str:
    """Return the usual `series` of the ten minutes that begin in `ahead`. `closed` is 1 on closed days, otherwise 0."""
    return _usually(series, closed, AHEAD, ahead + AHEAD)


def level(series: str, closed: str, target: float) -> str:
    """Return today's level relative to the usual."""
    usually = _usually(series, closed, LEVEL_OVER, timedelta())
    return _whole(f"clamp_max(({_mean(series, LEVEL_OVER)} + {target:g}) / ({usually} + {target:g}), {MOST})")


def pods(series: str, target: float, ahead: timedelta, *, usual: str, level: str, margin: float, most: int) -> str:
    """Return a whole number up to `most` if there is a usual; `usual` and `level` are the series of the rules above."""
    then = _whole(usual)
    today = f"({then} * on ({CUSTOMER}) {_whole(level)} or {then})"
    trend = _trend(series, ahead)
    higher = f"{today} >= {trend} or {trend} and on ({CUSTOMER}) {then} or {today}"
    return _whole(f"clamp_max(ceil({margin:g} * ({higher}) / {target:g}), {most})")


def _trend(series: str, ahead: timedelta) -> str:
    leads_to = _whole(f"predict_linear({series}[{_seconds(TREND_OVER)}], {ahead.total_seconds():g})")
    most = f"{MOST} * {_mean(series, TREND_OVER)}"
    return f"({leads_to} <= {most} or {most} and {leads_to})"


def _usually(series: str, closed: str, over: timedelta, ahead: timedelta) -> str:
    """Return the median of days like today, else of all days, for the time that ends `ahead` from now."""
    now = _whole(closed)
    of_all = {day: _mean(series, over, day * _DAY - ahead) for day in range(1, DAYS + 1)}
    like = {
        day: f"({mean} and on ({CUSTOMER}) ({now} == {_whole(f'{closed} offset {day}d')}))"
        for day, mean in of_all.items()
    }
    enough = f"{DAYS_NEEDED} - {DAYS_NEEDED - CLOSED_NEEDED} * {now}"
    return _whole(f"{_median(like, enough)} or {_median(of_all, str(DAYS_NEEDED))}")


def _median(days: Mapping[int, str], enough: str) -> str:
    means = " or ".join(f'label_replace({mean}, "day", "{day}", "", "")' for day, mean in days.items())
    return (
        f"(quantile by ({CUSTOMER}) (0.5, {means}) and on ({CUSTOMER}) (count by ({CUSTOMER}) ({means}) >= {enough}))"
    )


def _mean(series: str, over: timedelta, ago: timedelta = timedelta()) -> str:
    offset = f" offset {_seconds(ago)}" if ago else ""
    return _whole(f"avg_over_time({series}[{_seconds(over)}]{offset})")


def _whole(expression: str) -> str:
    return f"max by ({CUSTOMER}) ({expression})"


def _seconds(span: timedelta) -> str:
    return f"{int(span.total_seconds())}s"
