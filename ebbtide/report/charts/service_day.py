"""A day of requests, and how each strategy meets it: load, floor, replicas and latency over the same hours.

One panel of the load, which is the same for all, then two for each strategy. Pods have one scale and latencies have
one, so that strategies can be compared by eye. Latencies differ by orders of magnitude, so theirs is logarithmic.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import ChartView, Key
from ebbtide.report.charts.gapped import runs, step_path
from ebbtide.report.charts.scales import Box, nice_ticks
from ebbtide.report.charts.served_day import PodsOfDay, ServedDay
from ebbtide.report.words import count, latency, several

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
    drawn = [p95 for its in day.strategies.values() for p95 in its.p95_s if p95]
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
    content = [axes.legend(keys, left=view.left, top=0, width=view.width - view.left), *_load(day, boxes[0])]
    most = max(max(pods) for its in day.strategies.values() for pods in (its.asked, its.floor, its.ready))
    pods = nice_ticks(most, wanted=3)
    scale = latency_scale(day)
    for place, (name, its) in enumerate(day.strategies.items()):
        content += _pods(day, name, its, pods, boxes[1 + 2 * place])
        content += _latency(day, name, its, scale, boxes[2 + 2 * place])
    content.append(axes.time_labels(day.start, outer, day.horizon))
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
    yield axes.shade(day.open_spans, box, day.horizon, ink="open")
    yield axes.shade(day.gaps, box, day.horizon, ink="gap")


def _load(day: ServedDay, box: Box) -> Iterator[str]:
    highest = max((rate for rate in day.rate if rate is not None), default=0.0)
    ticks = nice_ticks(highest, wanted=3, whole=highest >= 3)
    yield from _backdrop(day, box)
    yield axes.value_axis(ticks, box, unit="requests a second")
    yield _steps(day.rate, box, ticks, "f-g1")


def _pods(day: ServedDay, name: str, its: PodsOfDay, ticks: Sequence[float], box: Box) -> Iterator[str]:
    unit = f"{name}: pods"
    yield from _backdrop(day, box)
    yield axes.value_axis(ticks, box, unit=unit)
    yield _steps(its.ready, box, ticks, "f-g5")
    yield _steps(its.asked, box, ticks, "level")
    yield _steps(its.floor, box, ticks, "curve s-g2")
    yield _beside(f"{count(sum(its.pod_hours))} pod-hours", unit, box)


def _latency(day: ServedDay, name: str, its: PodsOfDay, scale: LatencyScale, box: Box) -> Iterator[str]:
    unit = f"{name}: p95 latency"
    yield from _backdrop(day, box)
    yield svg.label(unit, box.left, box.top - 10, class_="strong")
    for place, tick in enumerate(scale.ticks):
        y = scale.y(tick, box)
        yield svg.line(box.left, y, box.right, y, class_="grid" if place else "axis")
        yield svg.label(_short(tick), box.left - 8, y + 4, anchor="end")
    yield _lost(day, its, box)
    yield _curve(its.p95_s, scale, box)
    slo = scale.y(day.slo_s, box)
    yield svg.line(box.left, slo, box.right, slo, class_="level")
    yield svg.label(f"SLO {latency(day.slo_s)}", box.right - 4, slo - 5, class_="strong halo", anchor="end")
    yield _beside(f"{count(sum(its.unanswered)) if any(its.unanswered) else 'none'} lost or turned away", unit, box)


def _short(tick: float) -> str:
    return latency(tick) if tick < 1000 else f"{tick / 1000:g}k s"


def _beside(text: str, unit: str, box: Box) -> str:
    """On the line of the panel's name, if there is room."""
    room = box.width - svg.text_width(unit) - 16
    return svg.label(text, box.right, box.top - 10, anchor="end") if svg.text_width(text) <= room else ""


def _lost(day: ServedDay, its: PodsOfDay, box: Box) -> str:
    """A mark at the upper edge of each step in which a request was lost."""
    wide = box.width / len(day.rate)
    marks = [
        f"M{svg.number(box.left + place * wide)} {svg.number(box.top)}v{svg.number(_MARK)}h{svg.number(wide)}"
        f"v{svg.number(-_MARK)}z"
        for place, lost in enumerate(its.unanswered)
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
            f"{svg.number(box.left + (begin + place + 0.5) * wide)} {svg.number(scale.y(it, box))}"
            for place, it in enumerate(run)
        ]
        parts.append(f"M{'L'.join(points)}" + ("h1" if len(points) == 1 else ""))
    return svg.element("path", d="".join(parts), class_="curve s-g6") if parts else ""
