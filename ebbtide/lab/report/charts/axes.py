"""The axes of a chart: which values lie where, and what is written beside them.

A chart is drawn for several widths; labels that depend on the room for them are chosen for the width of the plot area.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.lab.report.charts.scales import DAY, Box, Day, labelled, local_days, local_hours, nice_ticks
from ebbtide.lab.report.charts.svg import text_width

_A_DAY_OR_SO = 1.3 * DAY


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str
    below: str = ""  # a second line; the first one is then strong
    anchor: str = "middle"  # of an x axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from `low`, at the left or at the bottom, to `high`. A y axis has a grid line at each tick."""

    high: float
    low: float = 0.0
    unit: str = ""
    ticks: Sequence[Tick] = ()
    lines: Sequence[float] = ()  # grid lines of an x axis
    notched: bool = False  # those lines are only notches below the panel
    bend: Callable[[float], float] = float  # the picture is linear in it, for example in the logarithm

    def x(self, value: float, box: Box) -> float:
        return box.left + self._from_low(value) * (box.width / self._from_low(self.high))

    def y(self, value: float, box: Box) -> float:
        return box.bottom - self._from_low(value) * (box.height / self._from_low(self.high))

    def _from_low(self, value: float) -> float:
        return self.bend(value) - self.bend(self.low)


def tick_text(tick: float) -> str:
    for threshold, size, letters in ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if tick >= threshold:
            return f"{tick / size:.4g}{letters}"
    return f"{tick:,.0f}" if tick == round(tick) else f"{tick:,.2f}".rstrip("0")


def dollar_text(tick: float) -> str:
    return f"${tick_text(tick)}"


def value_axis(
    highest: float, unit: str, *, count: int = 5, integers: bool = True, text: Callable[[float], str] = tick_text
) -> Axis:
    """From 0 to a round value that is at least `highest`, with about `count` ticks; `integers` for countable things."""
    return axis_with(nice_ticks(highest, count=count, integers=integers), unit, text)


def axis_with(ticks: Sequence[float], unit: str, text: Callable[[float], str] = tick_text) -> Axis:
    """From the first to the last tick."""
    return Axis(low=ticks[0], high=ticks[-1], unit=unit, ticks=[Tick(tick, text(tick)) for tick in ticks])


def time_axis(start: datetime, horizon: float, width: float) -> Axis:
    """Seconds from `start`: a grid line at each local midnight, labels of hours for a day, else of days."""
    days = local_days(start, horizon)
    if horizon <= _A_DAY_OR_SO:
        ticks = [Tick(hour.at, hour.text) for hour in local_hours(start, horizon, width)]
    else:
        ticks = _day_labels(days, width, horizon)
    return Axis(high=horizon, ticks=ticks, lines=[day.begin for day in days[1:]])


def _day_labels(days: tuple[Day, ...], width: float, horizon: float) -> list[Tick]:
    """Weekday and date of each local day that has room for them."""
    scale = width / horizon
    ticks: list[Tick] = []
    shown = labelled(days, width)
    for day in shown:
        alone = len(shown) < len(days)  # a day among unlabelled ones may use its neighbours' room
        room = max((day.end - day.begin) * scale, text_width(day.date) if alone else 0)
        if room >= text_width(day.date):
            ticks.append(Tick((day.begin + day.end) / 2, day.weekday, day.date))
    return ticks


def day_axis(days: Sequence[Day], width: float) -> Axis:
    """Days drawn equally wide, whatever their length: a day's number is where it begins."""
    shown = set(labelled(tuple(days), width))
    ticks = [Tick(place + 0.5, day.weekday, day.date) for place, day in enumerate(days) if day in shown]
    return Axis(high=max(1, len(days)), ticks=ticks)
