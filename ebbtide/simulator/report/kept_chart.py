"""Why nodes outlived the night: node-hours in the disruption window by the reason that kept the node."""

from collections.abc import Mapping

from ebbtide.simulator.report import svg
from ebbtide.simulator.report.scales import Box
from ebbtide.simulator.report.sentences import reason_text
from ebbtide.simulator.report.view import View
from ebbtide.simulator.report.words import count, percent
from ebbtide.simulator.results import Replay, StrategyResult

_MOST = 8  # reasons with a bar of their own
_LEAST = 0.05  # node-hours: less is told as 0.0
_ROW = 46.0
OTHERS = "other reasons"


def kept_reasons(result: StrategyResult) -> dict[str, float]:
    """Node-hours by reason in a reader's words, the most first."""
    ordered = sorted(result.survivors.items(), key=lambda entry: (-entry[1], entry[0]))
    return {reason_text(reason): hours for reason, hours in ordered if hours > 0}


def kept_height(replay: Replay, strategy: str) -> float:
    return 8 + _ROW * max(1, len(_shown(replay, strategy)))


def kept_chart(replay: Replay, strategy: str, view: View) -> str:
    """A bar for each reason, its words above it: reasons are sentences and would not fit beside."""
    shown = _shown(replay, strategy)
    box = Box(left=0, top=4, width=view.width, height=view.height - 8)
    longest, total = max(shown.values(), default=1.0), sum(shown.values()) or 1.0
    beside = max((svg.text_width(_said(hours, total)) for hours in shown.values()), default=0.0) + 12
    content: list[str] = []
    for place, (reason, hours) in enumerate(shown.items()):
        top = box.top + place * _ROW
        said = _said(hours, total)
        content += [
            svg.label(svg.shortened(reason, box.width), 0, top + 14, class_="strong"),
            _bar(f"{reason}: {said}", top + 22, wide=(box.width - beside) * hours / longest, room=box.width - beside),
            svg.label(said, box.right, top + 32, anchor="end"),
        ]
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Why nodes survived the night, {strategy}",
        desc="Bars: node-hours in the disruption window by the reason that kept the node.",
        size=view.size,
    )


def _shown(replay: Replay, strategy: str) -> Mapping[str, float]:
    """The reasons with the most node-hours, and the sum of the rest where it can be seen."""
    reasons = kept_reasons(replay.strategies[strategy])
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


def _said(hours: float, total: float) -> str:
    return f"{_hours(hours)} node-h · {percent(hours / total)}"


def _hours(hours: float) -> str:
    return count(hours) if hours >= 10 else f"{hours:.1f}"
