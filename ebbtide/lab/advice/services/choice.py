"""Choose the advised setting, the alternatives shown with it, and the reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.lab.advice.services.place import VariantScale
from ebbtide.lab.advice.services.search import Goal, Tried
from ebbtide.lab.advice.services.trial import SettingOutcome
from ebbtide.text.money import dollars

LEAST_GAIN = 0.03
"""Share of the cost: a smaller gain is no reason to change a service that keeps its SLO."""
METRICS_GAIN = 0.1
"""Share of the cost that another metric has to gain: its behaviour is assumed, while the file's metric is proven."""
VISIBLE = 0.03
"""Share of the cost or of missed requests: of settings that differ by less, only one is shown."""


class ScaleVerdict(StrEnum):
    RIGHT = "nothing-to-do"
    CHANGE = "change"
    NONE_KEEPS = "none-keeps"  # no tried setting keeps enough
    NOT_HELD = "not-held"  # the cheapest on the earlier days fails on the last week


class Role(StrEnum):
    NOW = "now"
    ADVISED = "advised"
    CHEAPER = "cheaper"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    role: Role
    scale: VariantScale
    outcome: SettingOutcome
    keeps: bool


def chosen(tried: Sequence[Tried]) -> Tried | None:
    """Return the cheapest setting that keeps enough; among equally cheap ones, the one that changes least in the file.

    The file's own setting is the first of `tried`. Other metrics than the file's have to gain METRICS_GAIN.
    """
    now = tried[0].scale
    keeping = [setting for setting in tried if setting.keeps]
    same_metrics = [setting for setting in keeping if setting.scale.metrics.keys() == now.metrics.keys()]
    least = min((setting.pod_hours for setting in keeping), default=0.0)
    if same_metrics and least > min(setting.pod_hours for setting in same_metrics) * (1 - METRICS_GAIN):
        keeping = same_metrics
    least = min((setting.pod_hours for setting in keeping), default=0.0)
    return min(
        (setting for setting in keeping if setting.pod_hours * (1 - LEAST_GAIN) <= least),
        key=lambda setting: (_differences(now, setting.scale), setting.pod_hours),
        default=None,
    )


def _differences(now: VariantScale, other: VariantScale) -> int:
    return (now.metrics != other.metrics) + (now.min != other.min) + (now.max != other.max)


def alternatives(tried: Sequence[Tried], best: Tried) -> Iterator[tuple[Role, Tried]]:
    """Yield the nearest cheaper and better settings on the Pareto front of cost and missed requests.

    If none keeps enough, the one that misses least is among them.
    """
    front: list[Tried] = []
    for setting in sorted(tried, key=lambda setting: (setting.pod_hours, setting.missed)):
        if not front or setting.missed < front[-1].missed:
            front.append(setting)
    cheaper = [setting for setting in front if setting.pod_hours < best.pod_hours * (1 - VISIBLE)]
    fewer_missed = [setting for setting in front if setting.missed < best.missed * (1 - VISIBLE)]
    better = [setting for setting in fewer_missed if setting.pod_hours > best.pod_hours]
    yield from ((Role.CHEAPER, setting) for setting in cheaper[-2:])
    yield from ((Role.BETTER, setting) for setting in ([better[0], better[-1]] if len(better) > 1 else better))


def verdict(
    rows: Sequence[ShownSetting], best: Tried | None, goal: Goal, *, held_out: bool
) -> tuple[ScaleVerdict, str]:
    now = rows[0]
    if best is None:
        nearest = min(rows, key=lambda row: row.outcome.result.beyond_slo)
        return ScaleVerdict.NONE_KEEPS, (
            f"Nothing is advised: no tried setting keeps {goal.within:.2%} with {goal.lost_text} lost. The nearest is "
            f"{nearest.scale.text}: {_missed(nearest.outcome)}."
        )
    advised = next((row for row in rows if row.role is Role.ADVISED), None)
    if advised is None:
        return ScaleVerdict.RIGHT, (
            f"Nothing to do: the stack file keeps the SLO, and nothing that was tried keeps it for {LEAST_GAIN:.0%} "
            "less."
        )
    if held_out and not advised.keeps and advised.outcome.result.beyond_slo >= now.outcome.result.beyond_slo:
        return ScaleVerdict.NOT_HELD, (
            f"Nothing is advised: {advised.scale.text} was the cheapest on the earlier days and does not hold on "
            f"the last week: {_missed(advised.outcome)}."
        )
    short = "" if advised.keeps else f", where {goal.within:.2%} and {goal.lost_text} are wanted"
    return ScaleVerdict.CHANGE, (
        f"{_cost(now.outcome, advised.outcome)}; {_missed(now.outcome)} before, {_missed(advised.outcome)} after"
        f"{short}."
    )


def _cost(now: SettingOutcome, then: SettingOutcome) -> str:
    before, after = now.month_usd, then.month_usd
    if before is None or after is None:
        return f"{now.month_pod_hours:,.0f} pod-hours a month before, {then.month_pod_hours:,.0f} after"
    return f"{dollars(before)} a month before, {dollars(after)} after"


def _missed(outcome: SettingOutcome) -> str:
    lost = outcome.result.lost
    return f"{outcome.within:.2%} within the SLO and {f'{lost:,}' if lost else 'none'} lost"
