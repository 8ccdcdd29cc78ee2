"""What the same month would have cost with other fleets. Pure; a replay takes seconds.

A constant fleet costs between the plan rate of every node and the list price. Replays have two estimates: the model's
dollars, and the paid dollars times the model's ratio to a model of the product itself.
"""

from collections import Counter
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
from ebbtide.settings.process_documents import sleepers_of
from ebbtide.simulator.billing import day_ends, open_spans, total, usd_per_day
from ebbtide.simulator.setup import ReplayError, replay_config, with_known_nodes
from ebbtide.simulator.strategies.constant import fleet_groups
from ebbtide.simulator.strategies.fleet import nodes_of
from ebbtide.simulator.strategies.plans import EBBTIDE, plan_of, separate_groups
from ebbtide.simulator.world.sleep import Asleep
from ebbtide.simulator.world.world import BEFORE_THE_MODEL, World, WorldSetup
from ebbtide.vocabulary.windows import zone_of

BEFORE, PEAK, NEVER_OPEN, PEAK_WORKERS = "fixed fleet before", "peak fleet", "budgets never open", "workers at the peak"
NOTHING_SLEEPS = "nothing sleeps"  # only of stacks with workloads that sleep
LEAST_RECORDED = 0.5
"""Share of the month: below it no alternative is calculated."""
_MODEL_OFF = 0.35
"""A replay whose model of the month differs by more from the paid dollars says nothing."""
_PLAN_OF_A_FLEET = PricingAssumption.COMPUTE_1Y


def alternatives_of(
    settings: StackSettings,
    month: Month,
    paid: Paid,
    rates: Rates,
    wanted: Mapping[str, Steps],
    asleep: Mapping[str, Steps],
) -> tuple[Alternative, ...]:
    if paid.recorded_share < LEAST_RECORDED:
        why = f"not enough data: {paid.recorded_share:.0%} of the month was recorded, wanted {LEAST_RECORDED:.0%}"
        return tuple(_unknown(name, why) for name in (BEFORE, PEAK, *_names(settings)))
    fleets = _Fleets(settings, month, rates)
    before = settings.costs.before
    peak = "the most nodes of each group at one time ran all month"
    return (
        fleets.constant(BEFORE, before, "the nodes of costs.before ran all month")
        if before
        else _unknown(BEFORE, "costs.before is not set"),
        fleets.constant(PEAK, paid.peaks, f"{peak}, as far as recorded" if paid.gaps else peak),
        *_replayed(settings, month, paid, wanted, asleep, fleets),
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


def _names(settings: StackSettings) -> tuple[str, ...]:
    """Return the alternatives that take a replay."""
    return (NEVER_OPEN, PEAK_WORKERS, *((NOTHING_SLEEPS,) if any(sleepers_of(settings)) else ()))


def _replayed(
    settings: StackSettings,
    month: Month,
    paid: Paid,
    wanted: Mapping[str, Steps],
    asleep: Mapping[str, Steps],
    fleets: _Fleets,
) -> Iterator[Alternative]:
    pools = {name: steps for name, steps in wanted.items() if name in settings.workers}
    try:
        known = with_known_nodes(settings)
    except ReplayError as error:
        pools, known, why = {}, settings, str(error)
    else:
        why = f"not enough data: {settings.customer} has no ebbtide_pool_wanted of its pools in {month.name}"
    if not pools:
        yield from (_unknown(name, why) for name in _names(settings))
        return
    naps = tuple(_naps(settings, month, asleep))
    product = _modelled(known, month, pools, naps, opens=True)
    compared = partial(_compared, month, paid, product)
    closed = _modelled(known, month, pools, naps, opens=False)
    yield compared(NEVER_OPEN, closed, "with budgets that never open", "with budgets that open")
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
    if naps:
        seconds: Counter[str] = Counter()
        for nap in naps:
            seconds[nap.workload] += round(nap.end - nap.begin)
        slept = ", ".join(f"{name} {count / 3600:.0f} hours" for name, count in seconds.items())
        awake = _modelled(known, month, pools, (), opens=True)
        yield compared(NOTHING_SLEEPS, awake, "with all workloads awake", f"with the recorded sleep ({slept})")
    elif NOTHING_SLEEPS in _names(settings):
        yield _unknown(NOTHING_SLEEPS, f"not enough data: ebbtide_workload_state has no sleep in {month.name}")


def _naps(settings: StackSettings, month: Month, asleep: Mapping[str, Steps]) -> Iterator[Asleep]:
    """Yield the recorded sleep of each workload, so that an operator's commands count."""
    begin, end = month.begin.timestamp(), month.end.timestamp()
    for policy in sleepers_of(settings):
        steps = asleep.get(f"{policy.kind.lower()} {policy.namespace}/{policy.name}", ())
        for (at, value), (until, _) in pairwise((*steps, (end, 0.0))):
            if value:
                pods = {"pods": policy.asleep, "awake": policy.replicas}
                yield Asleep(workload=policy.name, begin=max(0.0, at - begin), end=until - begin, **pods)


def _compared(
    month: Month, paid: Paid, product: float | None, name: str, other: float | None, change: str, unchanged: str
) -> Alternative:
    """Compare a replay that has the change with one of the product."""
    known = sum(row.usd for row in paid.rows) + paid.plan_usd
    scaled = known + sum(gap.low_usd + gap.high_usd for gap in paid.gaps) / 2
    if product is None or other is None or not product:
        return _unknown(name, "no price for a group of the stack")
    if abs(product / scaled - 1) > _MODEL_OFF:
        why = f"not enough data: the model of {month.name} costs ${product:,.0f}, and ${scaled:,.0f} were paid"
        return _unknown(name, why)
    low, high = sorted((other, scaled * other / product))
    return Alternative(
        name=name,
        low_usd=low,
        high_usd=high,
        assumptions=(
            f"the recorded wanted workers of each pool on the simulator's cluster, {change}",
            "awake services have the replicas of the stack file; rollouts, jobs and Ray clusters are not in it",
            f"the same model {unchanged} costs ${product:,.0f}",
            "the range is the model's dollars, and the paid dollars times the ratio of both models",
        ),
    )


def _modelled(
    settings: StackSettings, month: Month, pools: Mapping[str, Steps], naps: tuple[Asleep, ...], *, opens: bool
) -> float | None:
    """Replay recorded workers and sleep; return dollars, or None without a price."""
    start = month.begin.astimezone(zone_of(month.zone))
    end_s = (month.end - month.begin) / timedelta(seconds=1)
    config = replay_config(settings, start)
    plan = replace(plan_of(separate_groups(settings), EBBTIDE), jobs=(), ray=())
    spans = open_spans(config.hours, start, end_s)
    setup = WorldSetup(start=start, end_s=end_s, flags=EBBTIDE.autoscaler, open_spans=spans, asleep=naps)
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
