"""A chart as SVG. Inks are classes; `palette.CHART_CSS` gives them their colours on light and on dark paper.

Of a panel the shades are painted first, then the grid, the y axis, the marks in their order, and the text at the right
end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.lab.report.charts import svg
from ebbtide.lab.report.charts.axes import Axis
from ebbtide.lab.report.charts.panel import (
    RIGHT,
    ROW,
    SHAPES,
    SWATCH,
    Bar,
    Chart,
    ChartView,
    Curve,
    Level,
    Line,
    Mark,
    Panel,
    Points,
    Run,
    Text,
    key_width,
    legend_rows,
)
from ebbtide.lab.report.charts.scales import Box
from ebbtide.lab.report.charts.svg import number


def draw(chart: Chart, view: ChartView) -> str:
    """Return the `svg` element. Its title and its description are for screen readers."""
    area = chart.area(view)
    content = [
        svg.words("title", chart.title, id=f"{view.ident}-title"),
        svg.words("desc", chart.desc, id=f"{view.ident}-desc"),
        *_legend(chart, view),
    ]
    for panel, box in zip(chart.panels, chart.boxes(area), strict=True):
        content += _panel(chart, panel, _Plot(chart.x, panel.y, box))
    content += _x_labels(chart.x, area)
    edges = dict[str, float]()
    if chart.has_crosshair:
        content.append(svg.line(area.left, area.top, area.left, area.bottom, class_="crosshair"))
        edges = {"data_left": area.left, "data_right": area.right}
    return svg.element(
        "svg",
        "".join(content),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(view.width)} {number(chart.height)}",
        width=view.width,
        height=chart.height,
        role="img",
        aria_labelledby=f"{view.ident}-title {view.ident}-desc",
        **edges,
    )


@dataclass(frozen=True, slots=True)
class _Plot:
    """From values to pixels, in one panel."""

    x_axis: Axis
    y_axis: Axis
    box: Box

    def x(self, value: float) -> float:
        return self.x_axis.x(value, self.box)

    def y(self, value: float) -> float:
        return self.y_axis.y(value, self.box)

    def point(self, x: float, y: float) -> str:
        return f"{number(self.x(x))} {number(self.y(y))}"


def _panel(chart: Chart, panel: Panel, plot: _Plot) -> Iterator[str]:
    box = plot.box
    for shade in chart.shades:
        left, right = plot.x(shade.begin), plot.x(shade.end)
        yield svg.element("rect", x=left, y=box.top, width=right - left, height=box.height, class_=shade.ink)
    for x in map(plot.x, chart.x.lines):
        if chart.x.notched:
            yield svg.line(x, box.bottom, x, box.bottom + 4, class_="axis")
        else:
            yield svg.line(x, box.top, x, box.bottom, class_="grid")
    if panel.y.unit:
        yield svg.label(panel.y.unit, box.left, box.top - 10, class_="strong")
    for place, tick in enumerate(panel.y.ticks):
        y = plot.y(tick.at)
        yield svg.line(box.left, y, box.right, y, class_="grid" if place else "axis")
        yield svg.label(tick.text, box.left - 8, y + 4, anchor="end")
    for mark in panel.marks:
        yield _mark(mark, plot)
    if panel.aside:
        yield svg.label(panel.aside, box.right, box.top - 10, anchor="end")


def _x_labels(axis: Axis, box: Box) -> Iterator[str]:
    if axis.unit:
        yield svg.label(axis.unit, box.right, box.bottom + 37, class_="strong", anchor="end")
    for tick in axis.ticks:
        x = axis.x(tick.at, box)
        if tick.anchor == "middle":  # it must not leave the picture on the right
            x = min(x, box.right + RIGHT - svg.text_width(tick.below or tick.text) / 2)
        yield svg.label(tick.text, x, box.bottom + 19, class_="strong" if tick.below else "", anchor=tick.anchor)
        if tick.below:
            yield svg.label(tick.below, x, box.bottom + 35, anchor=tick.anchor)


def _mark(mark: Mark, plot: _Plot) -> str:
    match mark:
        case Curve():
            path = "".join(_joined(run, plot) if mark.joined else _steps(run, mark, plot) for run in mark.runs)
            return svg.element("path", _title(mark), d=path, class_=mark.ink, **_dashes(mark)) if path else ""
        case Points():
            path = "".join(f"M{plot.point(*at)}{mark.shape}z" for at in mark.at)
            opacity = {"fill_opacity": str(mark.opacity)} if mark.opacity < 1 else {}
            return svg.element("path", _title(mark), d=path, class_=mark.ink, **opacity) if path else ""
        case Line():
            (x1, x2), (y1, y2) = map(plot.x, mark.x), map(plot.y, mark.y)
            return svg.element("line", _title(mark), x1=x1, y1=y1, x2=x2, y2=y2, class_=mark.ink, **_dashes(mark))
        case Bar():
            (left, right), (bottom, top) = map(plot.x, mark.x), map(plot.y, mark.y)
            sides = {"x": left, "y": top, "width": right - left, "height": bottom - top}
            corners = {"rx": mark.corners} if mark.corners else {}
            return svg.element("rect", _title(mark), **sides, **corners, class_=mark.ink)
        case Level():
            box, y = plot.box, plot.y(mark.y)
            text = svg.label(mark.text, box.right - 4, y - mark.over, class_="strong halo", anchor="end")
            return svg.line(box.left, y, box.right, y, class_="level") + text
        case Text():
            x, y = plot.x(mark.at[0]) + mark.off[0], plot.y(mark.at[1]) + mark.off[1]
            return svg.label(mark.text, x, y, class_=mark.ink, anchor=mark.anchor)


def _title(mark: Curve | Points | Line | Bar) -> str:
    """Return the mark's tooltip."""
    return svg.words("title", mark.title) if mark.title else ""


def _dashes(mark: Curve | Line) -> dict[str, str]:
    return {"stroke_dasharray": mark.dashes} if mark.dashes else {}


def _steps(run: Run, curve: Curve, plot: _Plot) -> str:
    """Equal neighbours are one step. An area begins and ends at the bottom."""
    heights = [number(plot.y(value)) for value in run.y]
    corners = "".join(
        f"V{height}H{number(plot.x(run.x[place + 1]))}"
        for place, height in enumerate(heights)
        if place + 1 == len(heights) or heights[place + 1] != height
    )
    left, bottom = number(plot.x(run.x[0])), number(plot.box.bottom)
    return f"M{left} {bottom}{corners}V{bottom}Z" if curve.is_area else f"M{left} {heights[0]}{corners}"


def _joined(run: Run, plot: _Plot) -> str:
    points = [plot.point(x, y) for x, y in zip(run.x, run.y, strict=True)]
    return f"M{'L'.join(points)}" + ("h1" if len(points) == 1 else "")


def _legend(chart: Chart, view: ChartView) -> Iterator[str]:
    """Swatches and words."""
    for place, row in enumerate(legend_rows(chart.keys or (), view.width - view.left)):
        x, y = view.left, place * ROW
        for key in row:
            yield _swatch(key.ink, x, y)
            yield svg.label(key.text, x + SWATCH + 7, y + 10.5)
            x += key_width(key)


def _swatch(ink: str, x: float, y: float) -> str:
    if ink in SHAPES:
        middle = f"{number(x + SWATCH / 2)} {number(y + SWATCH / 2)}"
        return svg.element("path", d=f"M{middle}{SHAPES[ink]}z", class_="f-mark point")
    if ink == "level":
        return svg.element("path", d=f"M{number(x - 2)} {number(y + 6)}h{number(SWATCH + 4)}", class_="level")
    return svg.element("rect", x=x, y=y, width=SWATCH, height=SWATCH, rx=2, class_=ink)
