"""Which of the settings that were tried is advised, which are shown beside it, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.advice.services.place import Scale
from ebbtide.advice.services.search import Goal, Tried
from ebbtide.advice.services.trial import Outcome
from ebbtide.report.words import dollars

LEAST_GAIN = 0.03
"""Of the cost: for less nobody changes a service that keeps its SLO."""
METRICS_GAIN = 0.1
"""Of the cost: how another metric follows the load is assumed, and the file's has shown it."""
TELLING = 0.03
"""Of cost or of requests missed: settings that differ by less are not shown beside each other."""


class Verdict(StrEnum):
    RIGHT = "nothing-to-do"
    CHANGE = "change"
    NONE_KEEPS = "none-keeps"  # nothing that was tried keeps enough
    NOT_HELD = "not-held"  # what was cheapest on the earlier days does not hold on the last week


class Role(StrEnum):
    NOW = "now"
    ADVISED = "advised"
    CHEAPER = "cheaper"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    role: Role
    scale: Scale
    outcome: Outcome
    keeps: bool


def chosen(tried: Sequence[Tried]) -> Tried | None:
    """The cheapest that keeps enough; of those as cheap the one that changes least in the file, whose own is first.

    With other metrics than the file's only for METRICS_GAIN.
    """
    now = tried[0].scale
    keeping = [it for it in tried if it.keeps]
    own = [it for it in keeping if it.scale.metrics.keys() == now.metrics.keys()]
    least = min((it.pod_hours for it in keeping), default=0.0)
    if own and least > min(it.pod_hours for it in own) * (1 - METRICS_GAIN):
        keeping = own
    least = min((it.pod_hours for it in keeping), default=0.0)
    return min(
        (it for it in keeping if it.pod_hours * (1 - LEAST_GAIN) <= least),
        key=lambda it: (_differences(now, it.scale), it.pod_hours),
        default=None,
    )


def _differences(now: Scale, other: Scale) -> int:
    return (now.metrics != other.metrics) + (now.min != other.min) + (now.max != other.max)


def around(tried: Sequence[Tried], middle: Tried) -> Iterator[tuple[Role, Tried]]:
    """Of those that no other beats in both cost and requests missed: the next that differ by something in one of them.

    Where nothing keeps enough, the one that misses least is among them.
    """
    front: list[Tried] = []
    for it in sorted(tried, key=lambda it: (it.pod_hours, it.missed)):
        if not front or it.missed < front[-1].missed:
            front.append(it)
    cheaper = [it for it in front if it.pod_hours < middle.pod_hours * (1 - TELLING)]
    better = [it for it in front if it.missed < middle.missed * (1 - TELLING) and it.pod_hours > middle.pod_hours]
    yield from ((Role.CHEAPER, it) for it in cheaper[-2:])
    yield from ((Role.BETTER, it) for it in ([better[0], better[-1]] if len(better) > 1 else better))


def verdict(rows: Sequence[Shown], best: Tried | None, goal: Goal, *, held_out: bool) -> tuple[Verdict, str]:
    now = rows[0]
    if best is None:
        nearest = min(rows, key=lambda row: row.outcome.result.beyond_slo)
        return Verdict.NONE_KEEPS, (
            f"Nothing is advised: none of what was tried keeps {goal.within:.2%} with {goal.lost_text} lost. Nearest "
            f"comes {nearest.scale.text}: {_missed(nearest.outcome)}."
        )
    advised = next((row for row in rows if row.role is Role.ADVISED), None)
    if advised is None:
        return Verdict.RIGHT, (
            f"Nothing to do: the stack file keeps the SLO, and nothing that was tried keeps it for {LEAST_GAIN:.0%} "
            "less."
        )
    if held_out and not advised.keeps and advised.outcome.result.beyond_slo >= now.outcome.result.beyond_slo:
        return Verdict.NOT_HELD, (
            f"Nothing is advised: {advised.scale.text} was the cheapest on the earlier days and does not hold on "
            f"the last week: {_missed(advised.outcome)}."
        )
    short = "" if advised.keeps else f", where {goal.within:.2%} and {goal.lost_text} are wanted"
    return Verdict.CHANGE, (
        f"{_cost(now.outcome, advised.outcome)}; {_missed(now.outcome)} before, {_missed(advised.outcome)} after"
        f"{short}."
    )


def _cost(now: Outcome, then: Outcome) -> str:
    before, after = now.month_usd, then.month_usd
    if before is None or after is None:
        return f"{now.month_pod_hours:,.0f} pod-hours a month before, {then.month_pod_hours:,.0f} after"
    return f"{dollars(before)} a month before, {dollars(after)} after"


def _missed(outcome: Outcome) -> str:
    lost = outcome.result.lost
    return f"{outcome.within:.2%} within the SLO and {f'{lost:,}' if lost else 'none'} lost"
