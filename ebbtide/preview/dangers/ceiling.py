"""A cost above `costs.ceiling`: blocking if the stack always costs more or is expected to, a note if it may.

All lines of the estimate count. A line without a price counts as 0, so an unknown price never blocks; the text then
says "at least". Amounts are compared as the page shows them, in whole dollars. A replay of jobs knows the dollars of
nodes only, so the other lines count as they always are. A replay of requests knows the share of single services, and no
total.
"""

from collections.abc import Iterator

from ebbtide.findings import Severity
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import CostComparison, Danger, Simulated
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import HOURS_PER_MONTH, whole_dollars

CEILING_EXCEEDED = danger_kind(
    "ceiling-exceeded",
    "the stack costs more than costs.ceiling: always or as expected (blocking), or at max (note)",
    Severity.BLOCKING,
    Severity.NOTE,
)

_LESS_ALWAYS = "lower the minimum of pods or node groups, let workloads sleep"
_OTHER_USAGE = "use fewer node-hours and correct costs.expectedNodeHours"
_LESS_WORK = "lower the max of pools, so that jobs wait, or choose cheaper node groups for them"


def ceiling_dangers(settings: StackSettings, cost: CostComparison, replay: Simulated | None) -> Iterator[Danger]:
    ceiling, amounts = settings.costs.ceiling, cost.after
    if ceiling is None or amounts is None:
        return
    expected = [
        (amounts.always, "always", _LESS_ALWAYS),
        (amounts.at_usage if settings.costs.expected_node_hours else None, "at the stated usage", _OTHER_USAGE),
    ]
    if replay is not None:
        expected.append((_by_replay(settings, cost, replay), f"by the replay of {replay.trace}", _LESS_WORK))
    least = "at least " if cost.without[1] else ""
    exceeding = [
        (f"{least}{whole_dollars(usd)} {how}", lower) for usd, how, lower in expected if _exceeds(usd, ceiling)
    ]
    limit = f"costs.ceiling, {whole_dollars(ceiling)} US dollars a month"
    if exceeding:
        yield CEILING_EXCEEDED.danger(
            subjects=_costly_groups(settings, cost),
            text=f"costs more than {limit}: {', '.join(amount for amount, _ in exceeding)}",
            remedy=", ".join((*(lower for _, lower in exceeding), "or agree on a higher costs.ceiling")),
        )
    elif _exceeds(amounts.at_max, ceiling):
        yield CEILING_EXCEEDED.danger(
            severity=Severity.NOTE,
            text=f"may cost more than {limit}: {least}{whole_dollars(amounts.at_max)} at max",
            remedy="if it must not, lower the max of pools, services and node groups",
        )


def _exceeds(usd: float | None, ceiling: float) -> bool:
    return usd is not None and usd > ceiling and whole_dollars(usd) != whole_dollars(ceiling)


def _by_replay(settings: StackSettings, cost: CostComparison, replay: Simulated) -> float | None:
    """Return US dollars a month with the replay's nodes; None if a node of the replay has no price."""
    nodes = replay.usd[1]
    if nodes is None or not replay.days:
        return None
    others = [line.after for line in cost.lines if line.name not in settings.node_groups and line.after is not None]
    return nodes / (24 * replay.days) * HOURS_PER_MONTH + sum(amounts.always or 0 for amounts in others)


def _costly_groups(settings: StackSettings, cost: CostComparison) -> tuple[str, ...]:
    """Return the node groups that always cost something, the most expensive first."""
    lines = [(line.name, line.after.always) for line in cost.lines if line.after is not None]
    groups = {name: usd for name, usd in lines if usd and name in settings.node_groups}
    return tuple(sorted(groups, key=lambda name: -groups[name]))
