"""What the same month would have cost with other fleets. Pure; a replay takes seconds.

A constant fleet costs between the plan rate and the list price of every node. The replay of an alternative is compared
with a replay of the product, in recorded hours only. The difference, once in the model's dollars and once as a share of
the paid dollars, is added to the paid dollars. So errors of the model and dollars of gaps cancel out, and no saving is
claimed for a gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise

from ebbtide.lab.ledger.month import BEFORE, Alternative, Ledger, Month
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.lab.simulator.billing import open_spans, usd_per_day
from ebbtide.lab.simulator.setup import ReplayError, replay_config, with_known_nodes
from ebbtide.lab.simulator.strategies.constant import fleet_groups
from ebbtide.lab.simulator.strategies.fleet import nodes_of
from ebbtide.lab.simulator.strategies.plans import EBBTIDE, plan_of, separate_groups
from ebbtide.lab.simulator.strategies.steady import fleet_places, steady_nodes
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.lab.simulator.world.world import BEFORE_THE_MODEL, World, WorldSetup
from ebbtide.prices import PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.placement import pod_size
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.windows import zone_of

PEAK, NEVER_OPEN, PEAK_WORKERS = "peak fleet", "budgets never open", "workers at the peak"
NOTHING_SLEEPS = "nothing sleeps"  # only for stacks with workloads that sleep
LEAST_RECORDED = 0.5
"""Share of the month that must be recorded; below it no alternative is calculated."""
_MODEL_OFF = 0.35
"""Relative difference between the modelled and the paid dollars from which on a replay proves nothing."""


def alternatives_of(
    settings: StackSettings, ledger: Ledger, peaks: Mapping[str, int], rates: Rates, recording: RecordedMonth
) -> tuple[Alternative, ...]:
    replays = (NEVER_OPEN, PEAK_WORKERS, *((NOTHING_SLEEPS,) if any(sleepers_of(settings)) else ()))
    if ledger.recorded_share < LEAST_RECORDED:
        why = f"not enough data: {ledger.recorded_share:.0%} of the month was recorded, wanted {LEAST_RECORDED:.0%}"
        return tuple(_unknown(name, why) for name in (BEFORE, PEAK, *replays))
    constant = partial(_constant, settings, ledger.month, rates)
    before = settings.costs.before
    try:
        replayed = tuple(_replayed(settings, ledger, recording, rates))
    except ReplayError as error:
        replayed = tuple(_unknown(name, str(error)) for name in replays)
    return (
        constant(BEFORE, before, "the nodes of costs.before ran all month")
        if before
        else _unknown(BEFORE, "costs.before is not set"),
        constant(PEAK, peaks, "the highest recorded number of nodes of each group ran all month"),
        *replayed,
    )


def _unknown(name: str, why: str) -> Alternative:
    return Alternative(name=name, low_usd=None, high_usd=None, assumptions=(), why=why)


def _constant(
    settings: StackSettings,
    month: Month,
    rates: Rates,
    name: str,
    nodes: Mapping[str, int],
    *assumptions: str,
    spot: bool = True,
) -> Alternative:
    """Price nodes of the group's first type that run all month, with each price change. Of a spot group with GPUs no
    type is the usual one: the bounds are those of its cheapest and its most expensive type. `spot` False: the nodes of
    spot groups are paid on demand.
    """
    groups = with_node_sets(settings).node_groups
    plan = settings.costs.pricing_assumption
    plan = PricingAssumption.COMPUTE_1Y if plan is PricingAssumption.ON_DEMAND else plan
    low = high = 0.0
    for group, count in nodes.items():
        if not count:
            continue
        types = [kind.name for kind in groups[group].types] if group in groups else []
        used = types if group in groups and groups[group].gpus_on_spot else types[:1]
        if not used or not {*used} <= rates.listed.keys():
            return _unknown(name, f"no price for the nodes of {group or 'no group'}")
        usd = [count * _usd_of_month(kind, month, rates) for kind in used]
        if spot and groups[group].kind is NodeKind.SPOT:
            usd = [listed * rates.spot_share.get(kind, 1.0) for kind, listed in zip(used, usd, strict=True)]
            if bare := [kind for kind in used if kind not in rates.spot_share]:
                assumptions = (*assumptions, f"no typical spot saving is known for {', '.join(bare)}: on demand")
            low += min(usd)
        else:
            low += usd[0] * plan_share(settings, group, plan)
        high += max(usd)
    text = ", ".join(f"{count} {group or 'without a group'}" for group, count in nodes.items() if count)
    return Alternative(
        name=name,
        low_usd=low,
        high_usd=high,
        assumptions=(*assumptions, f"nodes: {text}", f"from {plan} to on-demand list prices for every node"),
    )


def _usd_of_month(kind: str, month: Month, rates: Rates) -> float:
    """Return the list price of a node that runs all month."""
    begin, end = month.begin.timestamp(), month.end.timestamp()
    edges = [begin, *(at for at in rates.changes(kind) if begin < at < end), end]
    return sum(rates.listed_usd(kind, first) * (last - first) / HOUR_S for first, last in pairwise(edges))


def _replayed(settings: StackSettings, ledger: Ledger, recording: RecordedMonth, rates: Rates) -> Iterator[Alternative]:
    """Yield the alternatives that need a replay. Raises `ReplayError` if no replay is possible."""
    month, known = ledger.month, with_known_nodes(settings)
    pools = {name: steps for name, steps in recording.wanted.items() if name in known.workers}
    if not pools:
        why = f"{settings.customer} has no ebbtide_pool_wanted for its pools in {month.name}"
        raise ReplayError(f"not enough data: {why}")
    naps = tuple(_naps(settings, ledger, recording.asleep))
    seconds: Counter[str] = Counter()
    for nap in naps:
        seconds[nap.workload] += round(nap.end - nap.begin)
    slept = ", ".join(f"{name} {count / HOUR_S:.0f} hours" for name, count in seconds.items())
    product = "with budgets that open" + (f" and the recorded sleep ({slept})" if slept else "")
    modelled = partial(_modelled, known, ledger, pools)
    compared = partial(_compared, ledger, product, modelled(naps, opens=True))
    yield compared(NEVER_OPEN, "with budgets that never open", modelled(naps, opens=False))
    peaks = {name: round(max(value for _, value in steps)) for name, steps in pools.items()}
    nodes_that_stay = steady_nodes(known)
    plan, stays = plan_of(nodes_that_stay, EBBTIDE), nodes_that_stay.settings
    pods = [(stays.workers[name].node_group, pod_size(stays.workers[name]), count) for name, count in peaks.items()]
    nodes = {
        group.name: nodes_of(group, [(size, count) for home, size, count in pods if home == group.name])
        for group in fleet_groups(stays, plan)
    }
    text = ", ".join(f"{name} {count}" for name, count in peaks.items())
    services = "services have the replicas of the stack file; jobs and Ray clusters are not included"
    said = [f"workers at the month's peak all month: {text}", services, *fleet_places(known)]
    yield _constant(stays, month, rates, PEAK_WORKERS, nodes, *said, spot=False)
    if naps:
        yield compared(NOTHING_SLEEPS, "with all workloads awake", modelled((), opens=True))
    elif any(sleepers_of(settings)):
        yield _unknown(NOTHING_SLEEPS, f"not enough data: ebbtide_workload_state shows no sleep in {month.name}")


def _naps(settings: StackSettings, ledger: Ledger, asleep: Mapping[str, Steps]) -> Iterator[Asleep]:
    """Yield each workload's recorded sleep, which includes sleep that operators commanded. Gaps have no known sleep."""
    month_begin, month_end = ledger.month.begin.timestamp(), ledger.month.end.timestamp()
    gaps = [(gap.begin.timestamp(), gap.end.timestamp()) for gap in ledger.gaps]
    for policy in sleepers_of(settings):
        steps = asleep.get(policy.subject, ())
        for (at, value), (until, _) in pairwise((*steps, (month_end, 0.0))):
            edges = sorted({at, until, *(edge for gap in gaps for edge in gap if at < edge < until)})
            for begin, end in pairwise(edges):
                if value and not any(first <= begin < last for first, last in gaps):
                    yield Asleep(
                        workload=policy.name,
                        begin=begin - month_begin,
                        end=end - month_begin,
                        pods=policy.asleep,
                        awake=policy.replicas,
                    )


def _compared(
    ledger: Ledger, product: str, product_usd: float | None, name: str, change: str, changed_usd: float | None
) -> Alternative:
    """Compare a replay that has the change with one of the product."""
    paid = ledger.recorded_usd
    if product_usd is None or changed_usd is None:
        return _unknown(name, "no price for a group of the stack")
    if abs(product_usd - paid) >= _MODEL_OFF * paid:
        model = f"the model of {ledger.month.name} costs ${product_usd:,.0f}"
        return _unknown(name, f"not enough data: {model}, and ${paid:,.0f} were paid")
    low, high = sorted((changed_usd - product_usd, paid * (changed_usd / product_usd - 1)))
    gaps = ["in gaps the saving is between zero and the difference of their bounds"] if ledger.gaps else []
    return Alternative(
        name=name,
        low_usd=ledger.low_usd + low,
        high_usd=ledger.high_usd + high,
        assumptions=(
            "each pool's recorded wanted workers, replayed on the simulated cluster in recorded hours",
            "awake services have the replicas of the stack file; rollouts, jobs and Ray clusters are not included",
            f"the model costs ${changed_usd:,.0f} {change}, and ${product_usd:,.0f} {product}",
            "the bounds add this difference to the paid dollars: once in dollars, once as a share",
            *gaps,
        ),
        paired=True,
    )


def _modelled(
    settings: StackSettings, ledger: Ledger, pools: Mapping[str, Steps], naps: tuple[Asleep, ...], *, opens: bool
) -> float | None:
    """Replay recorded workers and sleep; return the dollars of recorded hours, or None without a price."""
    month = ledger.month
    start = month.begin.astimezone(zone_of(month.zone))
    end_s = month.hours * HOUR_S
    config = replay_config(settings, start)
    plan = replace(plan_of(separate_groups(settings), EBBTIDE), jobs=(), ray=())
    spans = open_spans(config.hours, start, end_s)
    setup = WorldSetup(start=start, end_s=end_s, flags=EBBTIDE.autoscaler, open_spans=spans, asleep=naps)
    world = World(plan, (), setup)
    for pool, steps in pools.items():
        for at, value in steps:
            scaling = partial(world.scale, pool, round(value))
            world.timeline.at(at - month.begin.timestamp(), scaling, BEFORE_THE_MODEL)
    change = month.begin if opens else None
    while change is not None and change < month.end:
        is_open = config.window.is_open(change)
        for budget in config.budgets:
            opening = partial(world.set_budget, budget.name, int(is_open or budget.always))
            world.timeline.at((change - month.begin) / timedelta(seconds=1), opening, BEFORE_THE_MODEL)
        change = config.window.next_change(change)
    world.timeline.run_until(end_s)
    edges = [(at - month.begin) / timedelta(seconds=1) for gap in ledger.gaps for at in (gap.begin, gap.end)]
    usd = usd_per_day(world.recorder.series(), plan.rates, [*edges, end_s])
    return sum(usd[::2]) if usd else None  # every second part is a gap
