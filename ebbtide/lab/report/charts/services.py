"""Charts of services: one local day of a replay, and a measured step of load.

Pods of a day are counted by the minute, since they come and go in minutes; requests and latency by five minutes, since
one minute has too few requests for a 95th percentile. All pods share one scale and all latencies another, so that
strategies can be compared by eye. The latter is logarithmic, since latencies differ by orders of magnitude.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from ebbtide.lab.report.charts.axes import Axis, Tick, axis_with, time_axis, value_axis
from ebbtide.lab.report.charts.panel import Chart, ChartView, Curve, Key, Level, Panel, Points, Run, runs_of, shades_of
from ebbtide.lab.report.charts.scales import Day, local_days, nice_ticks
from ebbtide.lab.report.charts.svg import number, text_width
from ebbtide.lab.simulator.services.results import STEP_MINUTES, ReplayedStrategy, ServiceReplay
from ebbtide.lab.simulator.services.strategies import ServiceStrategy
from ebbtide.text.counts import count, several
from ebbtide.text.durations import HOUR_S, latency

MINUTE_S = 60.0
STEP_S = STEP_MINUTES * MINUTE_S
_SHORTEST_DAY_S = 23 * HOUR_S  # of a clock change
_PICTURED = (ServiceStrategy.HPA_ONLY, ServiceStrategy.CALENDAR_FLOOR, ServiceStrategy.FORECAST_FLOOR)


class NoSuchDay(ValueError):
    """The message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOfDay:
    """Pods of one strategy. `p95_s` and `unanswered` are by step, the others by minute."""

    floor: Sequence[int]
    asked: Sequence[int]
    ready: Sequence[int]
    pod_hours: Sequence[float]  # paid for in each minute; a terminating pod counts to its end
    p95_s: Sequence[float | None]  # None: nothing was answered
    unanswered: Sequence[int]  # lost or turned away


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDay:
    """The steps that begin in the day; seconds count from `start`, the beginning of the first step."""

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
    return [name for name in _PICTURED if name in replay.strategies] or list(replay.strategies)[: len(_PICTURED)]


def days_of(start: datetime, begin_s: float, end_s: float) -> list[Day]:
    """The local days of the replayed time, cut to it: seconds of the trace, whose second 0 is `start`."""
    return [
        Day(max(day.begin, begin_s), day.end, day.weekday, day.date)
        for day in local_days(start, end_s)
        if day.end > begin_s
    ]


def require_day(days: Sequence[Day], number: int) -> Day:
    """Return the day of this number, the first being 1. Raises `NoSuchDay`."""
    if not 1 <= number <= len(days):
        raise NoSuchDay(f"--day: wanted 1 to {len(days)}, the days that are replayed, found {number} (for example 1)")
    return days[number - 1]


def served_day(replay: ServiceReplay, number: int | None = None) -> ServedDay:
    """The day of this number, the first being 1; None: the busiest full day. Raises `NoSuchDay`."""
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
    """Return the day with the most requests: of the days replayed from midnight to midnight, else of all."""
    sent = next(iter(replay.strategies.values())).series.sent

    def requests(day: Day) -> int:
        begin, end = (round((at - replay.begin_s) / MINUTE_S) for at in (day.begin, day.end))
        return sum(sent[begin:end])

    full = [day for day in days if day.end - day.begin >= _SHORTEST_DAY_S]
    return max(full or days, key=requests)


def _rates(
    played: ReplayedStrategy, first: int, last: int, gaps: Sequence[tuple[float, float]]
) -> tuple[float | None, ...]:
    sent = played.series.sent
    steps = [sum(sent[step * STEP_MINUTES : (step + 1) * STEP_MINUTES]) / STEP_S for step in range(first, last)]
    return tuple(
        None if any(begin <= place * STEP_S < end for begin, end in gaps) else rate for place, rate in enumerate(steps)
    )


def _pods_of(played: ReplayedStrategy, first: int, last: int) -> PodsOfDay:
    series = played.series
    minutes = slice(first * STEP_MINUTES, last * STEP_MINUTES)
    unanswered = [0, *series.unanswered[STEP_MINUTES - 1 :: STEP_MINUTES]]
    hours = [0.0, *series.pod_hours]
    pod_hours = [after - before for before, after in pairwise(hours)]
    return PodsOfDay(
        floor=series.floor[minutes],
        asked=series.replicas[minutes],
        ready=series.ready[minutes],
        pod_hours=pod_hours[minutes],
        p95_s=played.p95_s[first:last],
        unanswered=[after - before for before, after in pairwise(unanswered)][first:last],
    )


def _cut(spans: Sequence[tuple[float, float]], begin: float, end: float) -> tuple[tuple[float, float], ...]:
    inside = [(max(begin, first), min(end, last)) for first, last in spans]
    return tuple((first - begin, last - begin) for first, last in inside if first < last)


_PANEL = 122.0  # including the gap to the next
_KEYS = (
    Key("requests", "f-g1"),
    Key("pods ready", "f-g5"),
    Key("pods asked for", "level"),
    Key("floor", "f-g2"),
    Key("p95 latency", "f-g6"),
    Key("requests lost or turned away", "f-g3"),
)
_TICKS_S = tuple(digit * 10.0**power for power in range(-3, 10) for digit in (1, 3))  # from 1 ms on
_MANY = 4  # steps of an axis of latency
_OVER_SLO = 1.2  # multiple of the SLO that the axis reaches at least, for the label of the SLO's line
_MARK = 6.0  # pixels: how high the mark of a lost request is


def latency_axis(day: ServedDay, name: str) -> Axis:
    """Logarithmic, around all drawn values and the SLO: ticks at 1 and 3 of each power of ten, or only at powers."""
    drawn = [p95 for strategy in day.strategies.values() for p95 in strategy.p95_s if p95]
    low, high = min([*drawn, day.slo_s]), max([*drawn, _OVER_SLO * day.slo_s])
    first = max((place for place, tick in enumerate(_TICKS_S) if tick <= low * 1.001), default=0)
    last = min((place for place, tick in enumerate(_TICKS_S) if tick >= high * 0.999), default=len(_TICKS_S) - 1)
    apart = 1 if last - first < _MANY else 2 * math.ceil((last - first) / 2 / _MANY)
    if apart > 1:
        first -= first % 2
    steps = math.ceil((last - first) / apart)
    ticks = _TICKS_S[first : first + steps * apart + 1 : apart]
    return replace(axis_with(ticks, f"{name}: p95 latency", _short), bend=partial(_log_between, ticks[0], ticks[-1]))


def service_day_chart(day: ServedDay, view: ChartView) -> Chart:
    most = max(
        max(pods) for strategy in day.strategies.values() for pods in (strategy.asked, strategy.floor, strategy.ready)
    )
    ticks = nice_ticks(most, count=3)
    panels = [_load(day)]
    for name, pods in day.strategies.items():
        panels += [_pods(name, pods, ticks, view), _latency(day, name, pods, view)]
    return Chart(
        title=f"{day.day.weekday} {day.day.date}: requests, pods and latency",
        desc=f"{several(len(panels), 'panel')} over the same hours: requests a second, then for each of "
        f"{', '.join(day.strategies)} its floor, its pods asked for and ready, and the 95th percentile of latency. "
        "Business hours are shaded.",
        height=100.0 + _PANEL * len(panels),
        keys=[*_KEYS, Key("business hours", "open"), *([Key("nothing recorded", "gap")] if day.gaps else [])],
        x=replace(time_axis(day.start, day.horizon, view.plot_width), lines=()),
        shades=shades_of(day.open_spans, day.gaps),
        panels=panels,
    )


def _load(day: ServedDay) -> Panel:
    highest = max((rate for rate in day.rate if rate is not None), default=0.0)
    return Panel(
        y=value_axis(highest, "requests a second", count=3, integers=highest >= 3),
        marks=[Curve(runs=runs_of(day.rate, STEP_S), ink="f-g1")],
    )


def _pods(name: str, pods: PodsOfDay, ticks: Sequence[float], view: ChartView) -> Panel:
    y = axis_with(ticks, f"{name}: pods")
    return Panel(
        y=y,
        marks=[
            Curve(runs=runs_of(values, MINUTE_S), ink=ink)
            for values, ink in ((pods.ready, "f-g5"), (pods.asked, "level"), (pods.floor, "curve s-g2"))
        ],
        aside=_fitting(f"{count(sum(pods.pod_hours))} pod-hours", y, view),
    )


def _latency(day: ServedDay, name: str, pods: PodsOfDay, view: ChartView) -> Panel:
    y = latency_axis(day, name)
    lost = [(place * STEP_S, y.high) for place, lost in enumerate(pods.unanswered) if lost]
    wide = view.plot_width / len(day.rate)
    return Panel(
        y=y,
        marks=[
            Points(at=lost, shape=f"v{number(_MARK)}h{number(wide)}v{number(-_MARK)}", ink="f-g3"),
            Curve(runs=[_middles(run) for run in runs_of(pods.p95_s, STEP_S)], joined=True, ink="curve s-g6"),
            Level(y=day.slo_s, text=f"SLO {latency(day.slo_s)}"),
        ],
        aside=_fitting(
            f"{count(sum(pods.unanswered)) if any(pods.unanswered) else 'none'} lost or turned away", y, view
        ),
    )


def _log_between(low: float, high: float, value: float) -> float:
    return math.log(min(max(value, low), high))


def _short(tick: float) -> str:
    return latency(tick) if tick < 1000 else f"{tick / 1000:g}k s"


def _fitting(text: str, y: Axis, view: ChartView) -> str:
    """The text, if there is room for it on the line of the panel's name."""
    return text if text_width(text) <= view.plot_width - text_width(y.unit) - 16 else ""


def _middles(run: Run) -> Run:
    return Run([at + STEP_S / 2 for at in run.x[:-1]], run.y)


_BETWEEN_STEPS = 40.0  # from one panel to the next
_TIMES = 8  # labels under the time axis, about


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """One value for each stretch of `step` seconds."""

    step: float
    rate: Sequence[float]  # incoming requests a second
    wanted: Sequence[int]  # replicas
    ready: Sequence[int]  # replicas
    p95: Sequence[float | None]  # seconds, of the requests that came in the stretch; None: none was answered

    @property
    def horizon(self) -> float:
        return self.step * len(self.rate)


def load_step_chart(load: LoadStep, view: ChartView) -> Chart:
    latencies = [None if p95 is None else p95 * 1000 for p95 in load.p95]
    times = [tick for tick in nice_ticks(load.horizon, count=_TIMES) if tick <= load.horizon]
    return Chart(
        title="A step of load",
        desc="Requests a second, replicas wanted and ready, and the 95th percentile of latency over "
        f"{load.horizon:.0f} seconds.",
        height=view.high(560.0),
        keys=[
            Key("requests", "f-g1"),
            Key("replicas ready", "f-g5"),
            Key("replicas wanted", "level"),
            Key("p95", "f-g3"),
        ],
        x=Axis(high=load.horizon, ticks=[Tick(at, f"{at:g} s") for at in times], lines=times, notched=True),
        between=_BETWEEN_STEPS,
        has_crosshair=False,
        panels=[
            _step_panel(load, [(load.rate, "f-g1")], "requests a second"),
            _step_panel(load, [(load.ready, "f-g5"), (load.wanted, "level")], "replicas"),
            _step_panel(load, [(latencies, "curve s-g3")], "milliseconds, p95"),
        ],
    )


def _step_panel(load: LoadStep, curves: Sequence[tuple[Sequence[float | None], str]], unit: str) -> Panel:
    highest = max((value for values, _ in curves for value in values if value is not None), default=0.0)
    return Panel(
        y=value_axis(highest, unit, count=4),
        marks=[Curve(runs=runs_of(values, load.step), ink=ink) for values, ink in curves],
    )
