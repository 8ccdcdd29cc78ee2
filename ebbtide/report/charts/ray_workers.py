"""Workers of Ray's groups over time, those with tasks and those without."""

from collections.abc import Mapping
from dataclasses import replace

from ebbtide.report.charts import axes, svg
from ebbtide.report.charts.axes import ChartView, Key
from ebbtide.report.charts.over_time import shade_keys, shades, stack
from ebbtide.report.charts.scales import Box, nice_ticks, total_nodes
from ebbtide.report.charts.stretch import Stretch, whole
from ebbtide.report.words import several
from ebbtide.simulator.results import RayGroupResult, Replay, StrategyResult

INKS: Mapping[str, str] = {"busy": "g1", "idle": "g2"}
_BETWEEN = 38.0  # from one panel to the next
_PANEL = 130.0


def ray_groups(result: StrategyResult) -> dict[str, RayGroupResult]:
    """By cluster and group."""
    return {f"{name}/{key}": group for name, it in result.ray.items() for key, group in it.groups.items()}


def ray_height(replay: Replay, strategy: str) -> float:
    return 60.0 + _PANEL * len(ray_groups(replay.strategies[strategy]))


def ray_chart(replay: Replay, strategy: str, view: ChartView) -> str:
    """A panel for each group, each on a scale of its own."""
    stretches = _stretches(replay, strategy)
    keys = [*(Key(kind, f"f-{ink}") for kind, ink in INKS.items()), *shade_keys(whole(replay, strategy))]
    outer = view.box(keys)
    pitch = (outer.height + _BETWEEN) / len(stretches)
    content = [axes.legend(keys, left=view.left, top=0, width=view.width - view.left)]
    for place, (name, stretch) in enumerate(stretches.items()):
        box = Box(left=outer.left, top=outer.top + place * pitch, width=outer.width, height=pitch - _BETWEEN)
        ticks = nice_ticks(max(total_nodes(stretch.series), default=0), wanted=2)
        content += [
            shades(stretch, box),
            axes.time_lines(stretch.start, box, stretch.horizon),
            axes.value_axis(ticks, box, unit=f"{name}: workers"),
            *stack(stretch, stretch.series.nodes, INKS, box, top=ticks[-1]),
        ]
    content.append(axes.time_labels(replay.start, outer, whole(replay, strategy).horizon))
    return svg.picture(
        content,
        ident=view.ident,
        title=f"Ray workers by group, {strategy}",
        desc=f"{several(len(stretches), 'panel')}: workers with tasks and idle ones of {', '.join(stretches)} under "
        f"{strategy}, business hours shaded.",
        size=view.size,
        box=outer,
    )


def _stretches(replay: Replay, strategy: str) -> dict[str, Stretch]:
    groups = ray_groups(replay.strategies[strategy])
    return {name: replace(whole(replay, strategy), series=group.series) for name, group in groups.items()}
