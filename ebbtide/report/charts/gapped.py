"""Values of equal steps, some of which are not there: a gap is left free, never bridged."""

from collections.abc import Sequence

from ebbtide.report.charts import svg
from ebbtide.report.charts.scales import Box


def runs(values: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    """Stretches of steps that have a value, each with the step that it begins at."""
    found: list[tuple[int, list[float]]] = []
    for place, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][0] + len(found[-1][1]) == place:
            found[-1][1].append(value)
        else:
            found.append((place, [value]))
    return found


def step_path(values: Sequence[float | None], box: Box, *, top: float, closed: bool) -> str:
    """Over the whole width of the box, a value holding for its step; `closed`: down to the box's bottom."""
    wide, high = box.width / max(1, len(values)), box.height / top
    parts: list[str] = []
    for begin, run in runs(values):
        heights = [svg.number(box.bottom - value * high) for value in run]
        corners = "".join(
            f"V{height}H{svg.number(box.left + (begin + place + 1) * wide)}"
            for place, height in enumerate(heights)
            if place + 1 == len(heights) or heights[place + 1] != height
        )
        left = svg.number(box.left + begin * wide)
        if closed:
            parts.append(f"M{left} {svg.number(box.bottom)}{corners}V{svg.number(box.bottom)}Z")
        else:
            parts.append(f"M{left} {heights[0]}{corners}")
    return "".join(parts)
