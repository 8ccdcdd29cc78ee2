"""Why nodes were retained: node-hours in the disruption window by reason."""

from collections.abc import Mapping

from ebbtide.report.charts import svg
from ebbtide.report.charts.axes import ChartView
from ebbtide.report.charts.scales import Box
from ebbtide.report.words import count, percent
from ebbtide.simulator.results import Replay, StrategyResult

_MOST = 8  # reasons with a bar of their own
_LEAST = 0.05  # node-hours: less is told as 0.0
_ROW = 46.0
OTHERS = "other reasons"


_PLAIN = {
    "it is booting": "booting",
    "more of it is in use than the threshold allows": "utilization above the scale-down threshold",
    "its group is at its minimum": "node group at its minimum size",
    "its group grew or shrank a moment ago": "scale-down delay after the group changed size",
    "its pods have no other place": "pods fit on no other node",
    "not needed, but not for long enough, or waiting for its turn": "unneeded time not over, or removal queued",
    "it is being removed": "being removed",
    "a worker is there, and workers are never moved": "runs a worker; workers are never moved",
    "a fixed pod is there, and fixed pods are never moved": "runs a fixed pod; fixed pods are never moved",
}
"""The JSON document's reasons are its keys, which stay as they are."""


def reason_text(reason: str) -> str:
    """A reason of the JSON document in a reader's words: `too-much-gpu` is "too much GPU"."""
    if plain := _PLAIN.get(reason):
        return plain
    if " " in reason:
        return reason
    return reason.replace("-", " ").replace("gpu", "GPU").replace("cpu", "CPU")


def retained_reasons(result: StrategyResult) -> dict[str, float]:
    """Node-hours by reason in a reader's words, the most first."""
    ordered = sorted(result.survivors.items(), key=lambda entry: (-entry[1], entry[0]))
    return {reason_text(reason): hours for reason, hours in ordered if hours > 0}


def retained_height(replay: Replay, strategy: str) -> float:
    return 8 + _ROW * max(1, len(_shown(replay, strategy)))


def retained_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """A bar for each reason, its words above it: reasons are sentences and would not fit beside."""
    shown = _shown(replay, strategy)
    box = Box(left=0, top=4, width=view.width, height=view.height - 8)
    longest, total = max(shown.values(), default=1.0), sum(shown.values()) or 1.0
    beside = max((svg.text_width(_label(hours, total)) for hours in shown.values()), default=0.0) + 12
    content: list[str] = []
    for place, (reason, hours) in enumerate(shown.items()):
        top = box.top + place * _ROW
        said = _label(hours, total)
        content += [
            svg.label(svg.shortened(reason, box.width), 0, top + 14, class_="strong"),
            _bar(f"{reason}: {said}", top + 22, wide=(box.width - beside) * hours / longest, room=box.width - beside),
            svg.label(said, box.right, top + 32, anchor="end"),
        ]
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Why nodes were retained, {strategy}",
        desc="Bars: node-hours in the disruption window by the reason the node was retained.",
        size=view.size,
    )


def _shown(replay: Replay, strategy: str) -> Mapping[str, float]:
    """The reasons with the most node-hours, and the sum of the rest where it can be seen."""
    reasons = retained_reasons(replay.strategies[strategy])
    telling = [reason for reason, hours in reasons.items() if hours >= _LEAST]
    if len(telling) > _MOST:
        telling = telling[: _MOST - 1]
    shown = {reason: reasons[reason] for reason in telling}
    rest = sum(reasons.values()) - sum(shown.values())
    return shown | ({OTHERS: rest} if rest >= _LEAST else {})


def _bar(said: str, top: float, *, wide: float, room: float) -> str:
    track = svg.element("rect", x=0, y=top, width=room, height=12, rx=2, class_="track")
    return track + svg.element(
        "rect", svg.words("title", said), x=0, y=top, width=max(1.5, wide), height=12, rx=2, class_="f-g1"
    )


def _label(hours: float, total: float) -> str:
    return f"{_hours(hours)} node-h · {percent(hours / total)}"


def _hours(hours: float) -> str:
    return count(hours) if hours >= 10 else f"{hours:.1f}"
