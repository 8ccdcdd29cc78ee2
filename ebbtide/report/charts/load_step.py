"""A step of load, as what answers it follows: requests, replicas and latency over the same seconds.

Three panels, one above the other, since they share nothing but time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import ChartView, Key
from ebbtide.report.charts.scales import Box, nice_ticks

_BETWEEN = 40.0  # from one panel to the next
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


def load_step_chart(its: LoadStep, view: ChartView) -> str:
    keys = [Key("requests", "f-g1"), Key("replicas ready", "f-g5"), Key("replicas wanted", "level")]
    keys += [Key("p95", "f-g3")]
    outer = view.box(keys)
    pitch = (outer.height + _BETWEEN) / 3
    boxes = [
        Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN)
        for place in range(3)
    ]
    latency = [None if p95 is None else p95 * 1000 for p95 in its.p95]
    content = [
        axes.legend(keys, left=view.left, top=0, width=view.width - view.left),
        _panel([(its.rate, "f-g1")], boxes[0], "requests a second"),
        _panel([(its.ready, "f-g5"), (its.wanted, "level")], boxes[1], "replicas"),
        _panel([(latency, "curve s-g3")], boxes[2], "milliseconds, p95"),
        *(_seconds(its.horizon, box, labels=box is boxes[-1]) for box in boxes),
    ]
    return svg.picture(
        content,
        ident=view.ident,
        title="A step of load",
        desc=f"Requests a second, replicas wanted and ready, and the 95th percentile of latency over {its.horizon:.0f} "
        "seconds.",
        size=view.size,
    )


def _panel(curves: Sequence[tuple[Sequence[float | None], str]], box: Box, unit: str) -> str:
    highest = max((value for values, _ in curves for value in values if value is not None), default=0.0)
    ticks = nice_ticks(highest, wanted=4)
    drawn = [
        svg.element("path", d=path, class_=ink)
        for values, ink in curves
        if (path := _path(values, box, top=ticks[-1], closed=ink.startswith("f-")))
    ]
    return axes.value_axis(ticks, box, unit=unit) + "".join(drawn)


def _path(values: Sequence[float | None], box: Box, *, top: float, closed: bool) -> str:
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
    ticks = [tick for tick in nice_ticks(horizon, wanted=_TIMES) if tick <= horizon]
    parts: list[str] = []
    for tick in ticks:
        x = box.left + box.width * tick / horizon
        parts.append(svg.line(x, box.bottom, x, box.bottom + 4, class_="axis"))
        if labels:
            parts.append(svg.label(f"{tick:g} s", x, box.bottom + 19, anchor="middle"))
    return "".join(parts)
