"""A chart as values: panels one above the other over one x axis, and a legend above them.

Positions are values of the axes; sizes of letters and of marks are in pixels. A chart is made for one width, and never
scaled to another: letters keep their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import add
from typing import TypeAlias

from ebbtide.lab.report.charts.axes import Axis
from ebbtide.lab.report.charts.scales import Box
from ebbtide.lab.report.charts.svg import text_width

OVER = 30.0  # space for the unit above an axis
UNDER = 44.0  # space for the labels of days
BETWEEN = 38.0  # from one panel to the next
_SMALL = 500.0
RIGHT = 14.0  # free space on the right of the panels
ROW = 20.0  # height of one row of a legend
SWATCH = 12.0
SHAPES = {
    "p50": "m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0",
    "p95": "m0 -7l7 7l-7 7l-7 -7",
    "p99": "m-6.5 5.5h13l-6.5 -11.5",
}
"""Paths around a point: a dot, a diamond, a triangle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartView:
    """One rendering of a chart. `ident` is a prefix for ids that must be unique on a page."""

    ident: str
    width: float

    @property
    def small(self) -> bool:
        """A telephone's width."""
        return self.width < _SMALL

    def high(self, height: float) -> float:
        """A chart on a telephone is narrower, so it needs less height as well."""
        return height * 0.85 if self.small else height

    @property
    def left(self) -> float:
        """Space for the values of an axis."""
        return 54.0 if self.small else 58.0

    @property
    def plot_width(self) -> float:
        return self.width - self.left - RIGHT


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend."""

    text: str
    ink: str  # class of the swatch: "f-g1", "open", "level" for a dashed line, or one of SHAPES


@dataclass(frozen=True, slots=True)
class Shade:
    """An upright band behind the data: business hours ("open"), or where nothing was recorded ("gap")."""

    begin: float
    end: float
    ink: str


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch without a gap. Of a step function, each value holds from its x to the next one: `x` has one more."""

    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A step function, or the line that joins points. A class "f-…" fills the area down to the bottom."""

    runs: Sequence[Run]
    ink: str
    joined: bool = False
    title: str = ""
    dashes: str = ""

    @property
    def is_area(self) -> bool:
        return self.ink.startswith("f-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A straight line from one point to another."""

    x: tuple[float, float]
    y: tuple[float, float]
    ink: str
    title: str = ""
    dashes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A dashed line from edge to edge, with its text over the right end."""

    y: float
    text: str
    over: float = 5.0  # pixels from the line to the text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: tuple[float, float]
    y: tuple[float, float]  # the lower one first
    ink: str
    title: str = ""
    corners: float = 0.0  # radius in pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points of one shape, which is a path around each of them."""

    at: Sequence[tuple[float, float]]
    shape: str
    ink: str
    title: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    at: tuple[float, float]
    text: str
    ink: str = ""
    anchor: str = "start"
    off: tuple[float, float] = (0.0, 0.0)  # pixels to the right and down


Mark: TypeAlias = Curve | Line | Level | Bar | Points | Text


def runs_of(values: Sequence[float | None], step: float) -> list[Run]:
    """One value for each `step` of the x axis; None is a gap."""
    runs: list[Run] = []
    for is_known, group in groupby(range(len(values)), lambda place: values[place] is not None):
        if is_known:
            places = [*group]
            edges = [place * step for place in (*places, places[-1] + 1)]
            runs.append(Run(edges, [value for place in places if (value := values[place]) is not None]))
    return runs


def sums_from_below(layers: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """The sum of each layer and those below it, the highest first: areas are painted each over the one before.

    So no hairline of paper shows between two bands.
    """
    sums = accumulate(map(tuple, layers), lambda below, layer: tuple(map(add, below, layer)))
    return [*sums][::-1]


def shades_of(open_spans: Sequence[tuple[float, float]], gaps: Sequence[tuple[float, float]]) -> list[Shade]:
    """Business hours, and where nothing was recorded."""
    return [*(Shade(*span, "open") for span in open_spans), *(Shade(*span, "gap") for span in gaps)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    y: Axis
    marks: Sequence[Mark]
    aside: str = ""  # at the right end of the line above the panel
    share: float = 1.0  # of the height of all panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`title` and `desc` are for screen readers. Without `keys` there is no legend."""

    title: str
    desc: str
    height: float
    x: Axis
    panels: Sequence[Panel]
    keys: Sequence[Key] | None = None
    shades: Sequence[Shade] = ()
    has_crosshair: bool = True
    left: float | None = None  # None: space for the values of an axis
    right: float = RIGHT
    over: float = OVER
    between: float = BETWEEN
    under: float = UNDER

    def area(self, view: ChartView) -> Box:
        """The area of all panels: what legend, axis title and labels leave."""
        left = view.left if self.left is None else self.left
        legend = 0.0 if self.keys is None else legend_height(self.keys, view.width - view.left)
        top = legend + self.over
        return Box(left=left, top=top, width=view.width - left - self.right, height=self.height - top - self.under)

    def boxes(self, area: Box) -> list[Box]:
        """The area of each panel."""
        room = area.height - self.between * (len(self.panels) - 1)
        whole = sum(panel.share for panel in self.panels)
        boxes: list[Box] = []
        top = area.top
        for panel in self.panels:
            boxes.append(Box(left=area.left, top=top, width=area.width, height=room * panel.share / whole))
            top = boxes[-1].bottom + self.between
        return boxes


def legend_height(keys: Sequence[Key], width: float) -> float:
    return ROW * len(legend_rows(keys, width))


def key_width(key: Key) -> float:
    return SWATCH + 7 + text_width(key.text) + 16


def legend_rows(keys: Sequence[Key], width: float) -> list[list[Key]]:
    rows: list[list[Key]] = [[]]
    used = 0.0
    for key in keys:
        if rows[-1] and used + key_width(key) > width:
            rows.append([])
            used = 0.0
        rows[-1].append(key)
        used += key_width(key)
    return rows
