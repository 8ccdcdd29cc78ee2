"""Charts of services: one local day of a replay, and a measured step of load.

Of a day, pods are counted by the minute, since they come and go in minutes; requests and latency by five minutes, since
one minute has too few of them for a 95th percentile. Pods have one scale and latencies have one, so that strategies can
be compared by eye. Latencies differ by orders of magnitude, so theirs is logarithmic.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ebbtide.report.charts import svg
from ebbtide.report.charts.scales import Box, Day, local_days, nice_ticks
from ebbtide.report.charts.svg import ChartView, Key, runs, step_path
from ebbtide.report.words import count, latency, several
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
    """Pods of one strategy. `p95_s` and `unanswered` are by step, the others by minute."""

    floor: Sequence[int]
    asked: Sequence[int]
    ready: Sequence[int]
    pod_hours: Sequence[float]  # paid for in each minute; a terminating pod counts to its end
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
    return [name for name in _PICTURED if name in replay.strategies] or list(replay.strategies)[: len(_PICTURED)]


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
    """Return the day with the most requests: of the days replayed from midnight to midnight, else of all."""
    sent = next(iter(replay.strategies.values())).series.sent

    def requests(day: Day) -> int:
        begin, end = (round((at - replay.begin_s) / MINUTE_S) for at in (day.begin, day.end))
        return sum(sent[begin:end])

    full = [day for day in days if day.end - day.begin >= _SHORTEST_DAY_S]
    return max(full or days, key=requests)


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


_BETWEEN = 38.0  # from one panel to the next
_PANEL = 122.0  # with what is between
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
_OVER_SLO = 1.2  # so much of the axis at least, for the word beside the line
_MARK = 6.0  # pixels: how high the mark of a lost request is


@dataclass(frozen=True, slots=True)
class LatencyScale:
    """Logarithmic, between two of its ticks."""

    ticks: Sequence[float]

    def y(self, value: float, box: Box) -> float:
        bottom, top = (math.log(end) for end in (self.ticks[0], self.ticks[-1]))
        at = min(max(value, self.ticks[0]), self.ticks[-1])
        return box.bottom - box.height * (math.log(at) - bottom) / (top - bottom)


def latency_scale(day: ServedDay) -> LatencyScale:
    """Ticks at 1 and 3 of each power of ten around all that is drawn, the SLO among it; of many only at powers."""
    drawn = [p95 for strategy in day.strategies.values() for p95 in strategy.p95_s if p95]
    low, high = min([*drawn, day.slo_s]), max([*drawn, _OVER_SLO * day.slo_s])
    first = max((place for place, tick in enumerate(_TICKS_S) if tick <= low * 1.001), default=0)
    last = min((place for place, tick in enumerate(_TICKS_S) if tick >= high * 0.999), default=len(_TICKS_S) - 1)
    apart = 1 if last - first < _MANY else 2 * math.ceil((last - first) / 2 / _MANY)
    if apart > 1:
        first -= first % 2
    steps = math.ceil((last - first) / apart)
    return LatencyScale(_TICKS_S[first : first + steps * apart + 1 : apart])


def service_day_height(day: ServedDay) -> float:
    return 100.0 + _PANEL * (1 + 2 * len(day.strategies))


def service_day_chart(day: ServedDay, view: ChartView) -> str:
    keys = [*_KEYS, Key("business hours", "open"), *([Key("nothing recorded", "gap")] if day.gaps else [])]
    outer = view.box(keys)
    panels = 1 + 2 * len(day.strategies)
    pitch = (outer.height + _BETWEEN) / panels
    boxes = [
        Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN)
        for place in range(panels)
    ]
    content = [svg.legend(keys, left=view.left, top=0, width=view.width - view.left), *_load(day, boxes[0])]
    most = max(
        max(pods) for strategy in day.strategies.values() for pods in (strategy.asked, strategy.floor, strategy.ready)
    )
    pods = nice_ticks(most, count=3)
    scale = latency_scale(day)
    for place, (name, strategy) in enumerate(day.strategies.items()):
        content += _pods(day, name, strategy, pods, boxes[1 + 2 * place])
        content += _latency(day, name, strategy, scale, boxes[2 + 2 * place])
    content.append(svg.time_labels(day.start, outer, day.horizon))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"{day.day.weekday} {day.day.date}: requests, pods and latency",
        desc=f"{several(panels, 'panel')} over the same hours: requests a second, then for each of "
        f"{', '.join(day.strategies)} its floor, its pods asked for and ready, and the 95th percentile of latency. "
        "Business hours are shaded.",
        size=view.size,
        box=outer,
    )


def _backdrop(day: ServedDay, box: Box) -> Iterator[str]:
    yield svg.shade(day.open_spans, box, day.horizon, ink="open")
    yield svg.shade(day.gaps, box, day.horizon, ink="gap")


def _load(day: ServedDay, box: Box) -> Iterator[str]:
    highest = max((rate for rate in day.rate if rate is not None), default=0.0)
    ticks = nice_ticks(highest, count=3, integers=highest >= 3)
    yield from _backdrop(day, box)
    yield svg.value_axis(ticks, box, unit="requests a second")
    yield _steps(day.rate, box, ticks, "f-g1")


def _pods(day: ServedDay, name: str, strategy: PodsOfDay, ticks: Sequence[float], box: Box) -> Iterator[str]:
    unit = f"{name}: pods"
    yield from _backdrop(day, box)
    yield svg.value_axis(ticks, box, unit=unit)
    yield _steps(strategy.ready, box, ticks, "f-g5")
    yield _steps(strategy.asked, box, ticks, "level")
    yield _steps(strategy.floor, box, ticks, "curve s-g2")
    yield _beside(f"{count(sum(strategy.pod_hours))} pod-hours", unit, box)


def _latency(day: ServedDay, name: str, pods: PodsOfDay, scale: LatencyScale, box: Box) -> Iterator[str]:
    unit = f"{name}: p95 latency"
    yield from _backdrop(day, box)
    yield svg.label(unit, box.left, box.top - 10, class_="strong")
    for place, tick in enumerate(scale.ticks):
        y = scale.y(tick, box)
        yield svg.line(box.left, y, box.right, y, class_="grid" if place else "axis")
        yield svg.label(_short(tick), box.left - 8, y + 4, anchor="end")
    yield _lost(day, pods, box)
    yield _curve(pods.p95_s, scale, box)
    slo = scale.y(day.slo_s, box)
    yield svg.line(box.left, slo, box.right, slo, class_="level")
    yield svg.label(f"SLO {latency(day.slo_s)}", box.right - 4, slo - 5, class_="strong halo", anchor="end")
    yield _beside(f"{count(sum(pods.unanswered)) if any(pods.unanswered) else 'none'} lost or turned away", unit, box)


def _short(tick: float) -> str:
    return latency(tick) if tick < 1000 else f"{tick / 1000:g}k s"


def _beside(text: str, unit: str, box: Box) -> str:
    """On the line of the panel's name, if there is room."""
    room = box.width - svg.text_width(unit) - 16
    return svg.label(text, box.right, box.top - 10, anchor="end") if svg.text_width(text) <= room else ""


def _lost(day: ServedDay, pods: PodsOfDay, box: Box) -> str:
    """A mark at the upper edge of each step in which a request was lost."""
    wide = box.width / len(day.rate)
    marks = [
        f"M{svg.number(box.left + place * wide)} {svg.number(box.top)}v{svg.number(_MARK)}h{svg.number(wide)}"
        f"v{svg.number(-_MARK)}z"
        for place, lost in enumerate(pods.unanswered)
        if lost
    ]
    return svg.element("path", d="".join(marks), class_="f-g3") if marks else ""


def _steps(values: Sequence[float | None], box: Box, ticks: Sequence[float], ink: str) -> str:
    return svg.element("path", d=step_path(values, box, top=ticks[-1], closed=ink.startswith("f-")), class_=ink)


def _curve(values: Sequence[float | None], scale: LatencyScale, box: Box) -> str:
    """From the middle of one step to that of the next, each where it is on the scale."""
    wide = box.width / max(1, len(values))
    parts: list[str] = []
    for begin, run in runs(values):
        points = [
            f"{svg.number(box.left + (begin + place + 0.5) * wide)} {svg.number(scale.y(value, box))}"
            for place, value in enumerate(run)
        ]
        parts.append(f"M{'L'.join(points)}" + ("h1" if len(points) == 1 else ""))
    return svg.element("path", d="".join(parts), class_="curve s-g6") if parts else ""


_BETWEEN_STEPS = 40.0  # from one panel to the next
_TIMES = 8  # labels under the time axis, about


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """One value for each stretch of `step` seconds."""

    step: float
    rate: Sequence[float]  # requests a second that came
    wanted: Sequence[int]  # replicas
    ready: Sequence[int]  # of them
    p95: Sequence[float | None]  # seconds, of the requests that came in it; None: none was answered

    @property
    def horizon(self) -> float:
        return self.step * len(self.rate)


def load_step_chart(load: LoadStep, view: ChartView) -> str:
    keys = [Key("requests", "f-g1"), Key("replicas ready", "f-g5"), Key("replicas wanted", "level")]
    keys += [Key("p95", "f-g3")]
    outer = view.box(keys)
    pitch = (outer.height + _BETWEEN_STEPS) / 3
    boxes = [
        Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN_STEPS)
        for place in range(3)
    ]
    latency = [None if p95 is None else p95 * 1000 for p95 in load.p95]
    content = [
        svg.legend(keys, left=view.left, top=0, width=view.width - view.left),
        _step_panel([(load.rate, "f-g1")], boxes[0], "requests a second"),
        _step_panel([(load.ready, "f-g5"), (load.wanted, "level")], boxes[1], "replicas"),
        _step_panel([(latency, "curve s-g3")], boxes[2], "milliseconds, p95"),
        *(_seconds(load.horizon, box, labels=box is boxes[-1]) for box in boxes),
    ]
    return svg.picture(
        content,
        ident=view.ident,
        title="A step of load",
        desc="Requests a second, replicas wanted and ready, and the 95th percentile of latency over "
        f"{load.horizon:.0f} seconds.",
        size=view.size,
    )


def _step_panel(curves: Sequence[tuple[Sequence[float | None], str]], box: Box, unit: str) -> str:
    highest = max((value for values, _ in curves for value in values if value is not None), default=0.0)
    ticks = nice_ticks(highest, count=4)
    drawn = [
        svg.element("path", d=path, class_=ink)
        for values, ink in curves
        if (path := _gapped_path(values, box, top=ticks[-1], closed=ink.startswith("f-")))
    ]
    return svg.value_axis(ticks, box, unit=unit) + "".join(drawn)


def _gapped_path(values: Sequence[float | None], box: Box, *, top: float, closed: bool) -> str:
    """Steps, each as wide as its stretch; a value that is not there leaves a gap."""
    wide, high = box.width / max(1, len(values)), box.height / top
    parts: list[str] = []
    pen_down = False
    for place, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        left, right = svg.number(box.left + place * wide), svg.number(box.left + (place + 1) * wide)
        y = svg.number(box.bottom - value * high)
        if closed:
            parts.append(f"M{left} {svg.number(box.bottom)}V{y}H{right}V{svg.number(box.bottom)}Z")
        else:
            parts.append(f"{'V' if pen_down else f'M{left} '}{y}H{right}")
        pen_down = True
    return "".join(parts)


def _seconds(horizon: float, box: Box, *, labels: bool) -> str:
    ticks = [tick for tick in nice_ticks(horizon, count=_TIMES) if tick <= horizon]
    parts: list[str] = []
    for tick in ticks:
        x = box.left + box.width * tick / horizon
        parts.append(svg.line(x, box.bottom, x, box.bottom + 4, class_="axis"))
        if labels:
            parts.append(svg.label(f"{tick:g} s", x, box.bottom + 19, anchor="middle"))
    return "".join(parts)
