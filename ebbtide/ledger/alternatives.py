"""What the same month would have cost with other fleets. Pure; a replay takes seconds.

A constant fleet costs between the plan rate of every node and the list price. Replays have two estimates: the model's
dollars, and the paid dollars times the model's ratio to a model of the product itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise

from ebbtide.ledger.month import Alternative, Month
from ebbtide.ledger.paid import Paid
from ebbtide.ledger.rates import Rates, plan_share
from ebbtide.ledger.reading import Steps
from ebbtide.prices import PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import pod_size
from ebbtide.simulator.billing import day_ends, open_spans, total, usd_per_day
from ebbtide.simulator.setup import ReplayError, replay_config, with_known_nodes
from ebbtide.simulator.strategies.constant import fleet_groups
from ebbtide.simulator.strategies.fleet import nodes_of
from ebbtide.simulator.strategies.plans import EBBTIDE, plan_of, separate_groups
from ebbtide.simulator.world.world import BEFORE_THE_MODEL, World, WorldSetup
from ebbtide.vocabulary.windows import zone_of

BEFORE, PEAK, NEVER_OPEN, PEAK_WORKERS = "fixed fleet before", "peak fleet", "budgets never open", "workers at the peak"
LEAST_RECORDED = 0.5
"""Share of the month: below it no alternative is calculated."""
_MODEL_OFF = 0.35
"""A replay whose model of the month differs by more from the paid dollars says nothing."""
_PLAN_OF_A_FLEET = PricingAssumption.COMPUTE_1Y


def alternatives_of(
    settings: StackSettings, month: Month, paid: Paid, rates: Rates, wanted: Mapping[str, Steps]
) -> tuple[Alternative, ...]:
    if paid.recorded_share < LEAST_RECORDED:
        why = f"not enough data: {paid.recorded_share:.0%} of the month was recorded, wanted {LEAST_RECORDED:.0%}"
        return tuple(_unknown(name, why) for name in (BEFORE, PEAK, NEVER_OPEN, PEAK_WORKERS))
    fleets = _Fleets(settings, month, rates)
    before = settings.costs.before
    peak = "the most nodes of each group at one time ran all month"
    return (
        fleets.constant(BEFORE, before, "the nodes of costs.before ran all month")
        if before
        else _unknown(BEFORE, "costs.before is not set"),
        fleets.constant(PEAK, paid.peaks, f"{peak}, as far as recorded" if paid.gaps else peak),
        *_replayed(settings, month, paid, wanted, fleets),
    )


def _unknown(name: str, why: str) -> Alternative:
    return Alternative(name=name, low_usd=None, high_usd=None, assumptions=(), why=why)


class _Fleets:
    def __init__(self, settings: StackSettings, month: Month, rates: Rates) -> None:
        self._month, self._rates = month, rates
        costs = settings.costs
        if costs.pricing_assumption is PricingAssumption.ON_DEMAND:
            costs = costs.model_copy(update={"pricing_assumption": _PLAN_OF_A_FLEET})
        self._settings = settings.model_copy(update={"costs": costs})

    def constant(self, name: str, nodes: Mapping[str, int], *assumptions: str) -> Alternative:
        """Price nodes that run all month at the group's first type, with each change of the price."""
        groups = with_known_nodes(self._settings).node_groups
        low = high = 0.0
        for group, count in nodes.items():
            kind = groups[group].types[0].name if group in groups else ""
            if not count:
                continue
            if kind not in self._rates.listed:
                return _unknown(name, f"no price for the nodes of {group or 'no group'}")
            usd = count * self._listed(kind)
            spot = groups[group].kind is NodeKind.SPOT
            high += usd * (self._rates.spot_share.get(kind, 1.0) if spot else 1.0)
            low += usd * (self._rates.spot_share.get(kind, 1.0) if spot else plan_share(self._settings, group))
        plan = self._settings.costs.pricing_assumption
        text = ", ".join(f"{count} {group or 'without a group'}" for group, count in nodes.items() if count)
        return Alternative(
            name=name,
            low_usd=low,
            high_usd=high,
            assumptions=(*assumptions, f"nodes: {text}", f"from {plan} for every node to list prices on demand"),
        )

    def _listed(self, kind: str) -> float:
        """Dollars of one node for the month."""
        begin, end = self._month.begin.timestamp(), self._month.end.timestamp()
        edges = [begin, *(at for at in self._rates.changes(kind) if begin < at < end), end]
        return sum(self._rates.listed_usd(kind, first) * (last - first) / 3600 for first, last in pairwise(edges))


def _replayed(
    settings: StackSettings, month: Month, paid: Paid, wanted: Mapping[str, Steps], fleets: _Fleets
) -> Iterator[Alternative]:
    pools = {name: steps for name, steps in wanted.items() if name in settings.workers}
    try:
        known = with_known_nodes(settings)
    except ReplayError as error:
        pools, known, why = {}, settings, str(error)
    else:
        why = f"not enough data: {settings.customer} has no ebbtide_pool_wanted of its pools in {month.name}"
    if not pools:
        yield _unknown(NEVER_OPEN, why)
        yield _unknown(PEAK_WORKERS, why)
        return
    yield _never_open(known, month, paid, pools)
    peaks = {name: round(max(value for _, value in steps)) for name, steps in pools.items()}
    plan = plan_of(separate_groups(known), EBBTIDE)
    nodes = {
        group.name: nodes_of(
            group,
            [
                (pod_size(spec), peaks.get(name, 0))
                for name, spec in known.workers.items()
                if spec.node_group == group.name
            ],
        )
        for group in fleet_groups(known, plan)
    }
    text = ", ".join(f"{name} {count}" for name, count in peaks.items())
    services = "services have the replicas of the stack file; jobs and Ray clusters are not in it"
    yield fleets.constant(PEAK_WORKERS, nodes, f"workers at the month's peak all month: {text}", services)


def _never_open(settings: StackSettings, month: Month, paid: Paid, pools: Mapping[str, Steps]) -> Alternative:
    product = _modelled(settings, month, pools, opens=True)
    closed = _modelled(settings, month, pools, opens=False)
    known = sum(row.usd for row in paid.rows) + paid.plan_usd
    scaled = known + sum(gap.low_usd + gap.high_usd for gap in paid.gaps) / 2
    if product is None or closed is None or not product:
        return _unknown(NEVER_OPEN, "no price for a group of the stack")
    if abs(product / scaled - 1) > _MODEL_OFF:
        why = f"not enough data: the model of this month costs ${product:,.0f}, and ${scaled:,.0f} were paid"
        return _unknown(NEVER_OPEN, why)
    low, high = sorted((closed, scaled * closed / product))
    return Alternative(
        name=NEVER_OPEN,
        low_usd=low,
        high_usd=high,
        assumptions=(
            "the recorded wanted workers of each pool on the simulator's cluster, with budgets that never open",
            "services have the replicas of the stack file; rollouts, jobs and Ray clusters are not in it",
            f"the same model with budgets that open costs ${product:,.0f}",
            "the range is the model's dollars, and the paid dollars times the ratio of both models",
        ),
    )


def _modelled(settings: StackSettings, month: Month, pools: Mapping[str, Steps], *, opens: bool) -> float | None:
    """Replay recorded workers; return dollars, or None without a price."""
    start = month.begin.astimezone(zone_of(month.zone))
    end_s = (month.end - month.begin) / timedelta(seconds=1)
    config = replay_config(settings, start)
    plan = replace(plan_of(separate_groups(settings), EBBTIDE), jobs=(), ray=())
    spans = open_spans(config.hours, start, end_s)
    setup = WorldSetup(start=start, end_s=end_s, flags=EBBTIDE.autoscaler, open_spans=spans)
    world = World(plan, (), setup)
    for pool, steps in pools.items():
        for at, value in steps:
            seconds = min(max(0.0, at - month.begin.timestamp()), end_s)
            world.timeline.at(seconds, partial(world.scale, pool, round(value)), BEFORE_THE_MODEL)
    budgets = config.budgets if opens else ()
    is_open, at = config.window.is_open(month.begin), month.begin
    for budget in budgets:
        world.set_budget(budget.name, int(is_open or budget.always))
    while budgets and (edge := config.window.next_change(at)) is not None and edge < month.end:
        is_open, at = not is_open, edge
        for budget in budgets:
            opening = partial(world.set_budget, budget.name, int(is_open or budget.always))
            world.timeline.at((at - month.begin) / timedelta(seconds=1), opening, BEFORE_THE_MODEL)
    world.timeline.run_until(end_s)
    return total(usd_per_day(world.recorder.series(), plan.rates, day_ends(start, month.zone, end_s)))
