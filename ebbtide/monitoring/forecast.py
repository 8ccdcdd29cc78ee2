"""PromQL for the number of pods that a service will need when a new pod could be ready. Pure.

The load is **the usual** times today's **level**, and at least **the trend**. The usual is the median load of the last
seven days, in the ten minutes that begin when a new pod could be ready. The level is the load of the last hour relative
to the usual of that hour. The trend extrapolates the last 20 minutes.

- Only days *like today* count: days with business hours, or days without, such as weekends and holidays. So a holiday
  has the shape of the closed days before it, and does not distort the week after it. If fewer than three of the seven
  are like an open day, or none like a closed one, all seven count.
- One pod's worth is added to both sides of the level. So at night, when there is next to no load, a request more or
  less neither halves nor doubles the morning.
- *Capped*: the level is at most 2, and the trend at most twice the current load. So a load that is counted twice at
  most doubles the pods. The result is multiplied by the file's `margin`, and never exceeds `max`.
- *Silent* if fewer than three of all seven days have these ten minutes either: among three days, one that was counted
  wrongly does not move the median. A day that is missing is left out.
- A day is 24 hours: for some days after a clock change the usual is an hour off.

The three rules are evaluated in order, since each needs the one before; the caller names and labels them.
`ebbtide.lab.simulator.services.forecast` computes the same from counts, and a test compares the two.
"""

from collections.abc import Mapping
from datetime import timedelta

from ebbtide.monitoring.rules import CUSTOMER

DAYS, DAYS_NEEDED, CLOSED_NEEDED = 7, 3, 1
AHEAD, LEVEL_OVER, TREND_OVER = timedelta(minutes=10), timedelta(hours=1), timedelta(minutes=20)
MOST = 2
"""Maximum factor on the usual, and on the current load."""

ARRIVES = timedelta(minutes=1)
"""Time from the load to the HPA's desired number: one evaluation of the rules, one poll of KEDA and one of the HPA."""

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def horizon(lead: timedelta) -> timedelta:
    """Return how far to look ahead: the time for a node and its pod, in whole minutes like the simulated history."""
    return -(-(lead + ARRIVES) // _MINUTE) * _MINUTE


def usual(series: str, closed: str, ahead: timedelta) -> str:
    """Return the usual `series` of the ten minutes that begin `ahead` from now. `closed` is 1 on closed days, or 0."""
    return _usually(series, closed, AHEAD, ahead + AHEAD)


def level(series: str, closed: str, target: float) -> str:
    """Return today's level relative to the usual."""
    usually = _usually(series, closed, LEVEL_OVER, timedelta())
    return _whole(f"clamp_max(({_mean(series, LEVEL_OVER)} + {target:g}) / ({usually} + {target:g}), {MOST})")


def pods(series: str, target: float, ahead: timedelta, *, usual: str, level: str, margin: float, most: int) -> str:
    """Return the number of pods, at most `most`, if there is a usual; `usual` and `level` are the recorded series."""
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
