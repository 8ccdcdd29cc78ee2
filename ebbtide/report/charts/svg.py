"""SVG as text: elements, axes, legends, and the size of one rendering of a chart.

A chart is drawn for several widths, never scaled to them: letters keep their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from ebbtide.report.charts.scales import DAY, Box, Day, Hour, Step, labelled, local_days, local_hours

_SLIM, _NARROW, _WIDE = frozenset("fijlrt.,:;'|! -()"), 4.6, 7.7  # pixels at 12.5 px, of a rather wide sans-serif


def number(value: float) -> str:
    """At most one decimal: a tenth of a pixel is finer than any screen."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """One element. `content` is markup; attribute values are escaped. `class_` is `class`, `_` in a name is `-`."""
    parts = [name]
    for key, value in attributes.items():
        text = number(value) if isinstance(value, int | float) else escape(value, quote=True)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    opening = " ".join(parts)
    return f"<{opening}>{content}</{name}>" if content else f"<{opening}/>"


def words(name: str, text: str, /, **attributes: str | float) -> str:
    """One element that holds text: names come from stack files and are escaped here, and nowhere else."""
    return element(name, escape(text), **attributes)


def label(text: str, x: float, y: float, *, class_: str = "", anchor: str = "start") -> str:
    extra = {"class_": class_} if class_ else {}
    return words("text", text, x=x, y=y, text_anchor=anchor, **extra)


def line(x1: float, y1: float, x2: float, y2: float, *, class_: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text_width(text: str) -> float:
    """An estimate on the safe side: which font the reader has is not known."""
    return sum(_NARROW if character in _SLIM else _WIDE for character in text)


def shortened(text: str, room: float) -> str:
    """`text`, cut with an ellipsis where it is wider than `room` pixels."""
    if text_width(text) <= room:
        return text
    end = next((length for length in range(len(text), 0, -1) if text_width(text[:length]) + _WIDE <= room), 0)
    return f"{text[:end].rstrip()}…"


def picture(
    content: Sequence[str], *, ident: str, title: str, desc: str, size: tuple[float, float], box: Box | None = None
) -> str:
    """Return the outer element with its text for screen readers; `box` is the area of a crosshair."""
    width, height = size
    named = words("title", title, id=f"{ident}-title") + words("desc", desc, id=f"{ident}-desc")
    crosshair, edges = "", dict[str, float]()
    if box is not None:
        crosshair = line(box.left, box.top, box.left, box.bottom, class_="crosshair")
        edges = {"data_left": box.left, "data_right": box.right}
    return element(
        "svg",
        named + "".join(content) + crosshair,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        **edges,
    )


def step_area(steps: Sequence[Step], box: Box, *, columns: int, top: float) -> str:
    """The closed path under a step function; `top` is the value at the upper edge of the box."""
    wide, high = box.width / columns, box.height / top
    corners = (f"H{number(box.left + step.column * wide)}V{number(box.bottom - step.value * high)}" for step in steps)
    return f"M{number(box.left)} {number(box.bottom)}{''.join(corners)}H{number(box.right)}V{number(box.bottom)}Z"


_ROW = 20.0  # height of one row of a legend
_SWATCH = 12.0
RIGHT_MARGIN = 14.0  # free space of every picture on the right of its box
MARKS = {
    "p50": "m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0",
    "p95": "m0 -7l7 7l-7 7l-7 -7",
    "p99": "m-6.5 5.5h13l-6.5 -11.5",
}
"""Paths around a point: a dot, a diamond, a triangle."""
_A_DAY_OR_SO = 1.3 * DAY


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend."""

    text: str
    ink: str  # class of the swatch: "f-g1", "open", "level" for a dashed line, or one of MARKS


def shade(spans: Sequence[tuple[float, float]], box: Box, horizon: float, *, ink: str) -> str:
    """Spans of time as upright bands behind the data: business hours, or where nothing was recorded."""
    scale = box.width / horizon
    return "".join(
        element(
            "rect", x=box.left + begin * scale, y=box.top, width=(end - begin) * scale, height=box.height, class_=ink
        )
        for begin, end in spans
    )


def value_axis(ticks: Sequence[float], box: Box, *, unit: str, money: bool = False) -> str:
    """Grid lines with their values, and the unit above them; the last tick is the upper edge of the box."""
    top = ticks[-1]
    parts = [label(unit, box.left, box.top - 10, class_="strong")]
    for tick in ticks:
        y = box.bottom - box.height * tick / top
        parts.append(line(box.left, y, box.right, y, class_="axis" if tick == 0 else "grid"))
        parts.append(label(f"{'$' if money else ''}{_tick_text(tick)}", box.left - 8, y + 4, anchor="end"))
    return "".join(parts)


def _tick_text(tick: float) -> str:
    for threshold, size, letters in ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if tick >= threshold:
            return f"{tick / size:.4g}{letters}"
    return f"{tick:,.0f}" if tick == round(tick) else f"{tick:,.2f}".rstrip("0")


def time_lines(start: datetime, box: Box, horizon: float) -> str:
    """A grid line at each local midnight inside the box."""
    scale = box.width / horizon
    return "".join(
        line(box.left + day.begin * scale, box.top, box.left + day.begin * scale, box.bottom, class_="grid")
        for day in local_days(start, horizon)[1:]
    )


def time_labels(start: datetime, box: Box, horizon: float) -> str:
    """Label a time axis: hours for a day, else days."""
    if horizon <= _A_DAY_OR_SO:
        scale = box.width / horizon
        hours = local_hours(start, horizon, box.width)
        return "".join(_hour_label(hour, scale, box) for hour in hours)
    return _day_labels(local_days(start, horizon), box, horizon)


def _hour_label(hour: Hour, scale: float, box: Box) -> str:
    x = _inside(box.left + hour.at * scale, text_width(hour.text), box)
    return label(hour.text, x, box.bottom + 19, anchor="middle")


def _day_labels(days: tuple[Day, ...], box: Box, horizon: float) -> str:
    """Weekday and date under each local day that has room for them."""
    scale = box.width / horizon
    parts: list[str] = []
    shown = labelled(days, box.width)
    for day in shown:
        alone = len(shown) < len(days)  # a day among unlabelled ones may use its neighbours' room
        room = max((day.end - day.begin) * scale, text_width(day.date) if alone else 0)
        if room < text_width(day.date):
            continue
        middle = box.left + (day.begin + day.end) / 2 * scale
        parts.append(_day_label(day.weekday, day.date, _inside(middle, text_width(day.date), box), box.bottom))
    return "".join(parts)


def _inside(middle: float, width: float, box: Box) -> float:
    """The middle of a label that must not leave the picture on the right."""
    return min(middle, box.right + RIGHT_MARGIN - width / 2)


def _day_label(weekday: str, date: str, x: float, bottom: float) -> str:
    return label(weekday, x, bottom + 19, class_="strong", anchor="middle") + label(
        date, x, bottom + 35, anchor="middle"
    )


def band_labels(days: Sequence[Day], box: Box) -> str:
    """The same labels for days drawn equally wide, whatever their length."""
    wide = box.width / max(1, len(days))
    shown = set(labelled(tuple(days), box.width))
    return "".join(
        _day_label(
            day.weekday, day.date, _inside(box.left + (place + 0.5) * wide, text_width(day.date), box), box.bottom
        )
        for place, day in enumerate(days)
        if day in shown
    )


def legend_height(keys: Sequence[Key], width: float) -> float:
    return _ROW * len(_rows(keys, width))


def legend(keys: Sequence[Key], *, left: float, top: float, width: float) -> str:
    """Swatches and words in rows no wider than `width`."""
    parts: list[str] = []
    for row_number, row in enumerate(_rows(keys, width)):
        x, y = left, top + row_number * _ROW
        for key in row:
            parts.append(_swatch(key.ink, x, y))
            parts.append(label(key.text, x + _SWATCH + 7, y + 10.5))
            x += _key_width(key)
    return "".join(parts)


def _swatch(ink: str, x: float, y: float) -> str:
    if ink in MARKS:
        return mark(ink, x + _SWATCH / 2, y + _SWATCH / 2, ink="mark")
    if ink == "level":
        return f'<path d="M{number(x - 2)} {number(y + 6)}h{number(_SWATCH + 4)}" class="level"/>'
    return element("rect", x=x, y=y, width=_SWATCH, height=_SWATCH, rx=2, class_=escape(ink))


def mark(which: str, x: float, y: float, *, ink: str) -> str:
    """Draw a point: its shape names the percentile, its ink the strategy."""
    dx, dy = number(x), number(y)
    return f'<path d="M{dx} {dy}{MARKS[which]}z" class="f-{ink} point"/>'


def _key_width(key: Key) -> float:
    return _SWATCH + 7 + text_width(key.text) + 16


def _rows(keys: Sequence[Key], width: float) -> list[list[Key]]:
    rows: list[list[Key]] = [[]]
    used = 0.0
    for key in keys:
        if rows[-1] and used + _key_width(key) > width:
            rows.append([])
            used = 0.0
        rows[-1].append(key)
        used += _key_width(key)
    return rows


OVER = 30.0  # room for the unit above an axis
_SMALL = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartView:
    """`ident` starts the ids that must be unique on a page."""

    ident: str
    width: float
    height: float
    under: float = 44.0  # room for the labels of days
    reach: float = 0.0  # what the axis of nodes goes up to at least, where charts are compared

    @property
    def small(self) -> bool:
        """A telephone's width."""
        return self.width < _SMALL

    @property
    def left(self) -> float:
        """Room for the values of an axis."""
        return 54.0 if self.small else 58.0

    @property
    def plot_width(self) -> float:
        return self.width - self.left - RIGHT_MARGIN

    @property
    def size(self) -> tuple[float, float]:
        return self.width, self.height

    def box(self, keys: Sequence[Key]) -> Box:
        """The plot area left over by legend, axis title and labels."""
        top = legend_height(keys, self.width - self.left) + OVER
        return Box(left=self.left, top=top, width=self.plot_width, height=self.height - top - self.under)

    def panels(self, keys: Sequence[Key], *, share: float) -> tuple[Box, Box]:
        """Two plot areas, one above the other; the upper one has `share` of their height."""
        both = self.box(keys)
        between = OVER + 6
        upper = Box(left=both.left, top=both.top, width=both.width, height=(both.height - between) * share)
        top = upper.bottom + between
        return upper, Box(left=both.left, top=top, width=both.width, height=both.bottom - top)


def runs(values: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    """Stretches of steps that have a value, each with the step that it begins at."""
    stretches: list[tuple[int, list[float]]] = []
    for place, value in enumerate(values):
        if value is None:
            continue
        if stretches and stretches[-1][0] + len(stretches[-1][1]) == place:
            stretches[-1][1].append(value)
        else:
            stretches.append((place, [value]))
    return stretches


def step_path(values: Sequence[float | None], box: Box, *, top: float, closed: bool) -> str:
    """Over the whole width of the box, a value holding for its step; `closed`: down to the box's bottom."""
    wide, high = box.width / max(1, len(values)), box.height / top
    parts: list[str] = []
    for begin, run in runs(values):
        heights = [number(box.bottom - value * high) for value in run]
        corners = "".join(
            f"V{height}H{number(box.left + (begin + place + 1) * wide)}"
            for place, height in enumerate(heights)
            if place + 1 == len(heights) or heights[place + 1] != height
        )
        left = number(box.left + begin * wide)
        if closed:
            parts.append(f"M{left} {number(box.bottom)}{corners}V{number(box.bottom)}Z")
        else:
            parts.append(f"M{left} {heights[0]}{corners}")
    return "".join(parts)
