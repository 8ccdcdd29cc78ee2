"""What the same month would have cost with other fleets. Pure; a replay takes seconds.

The replay of an alternative is compared with a replay of the month as it was, in recorded hours only: once without
rollouts, and once with those that `ebbtide simulate` assumes, since a month's rollouts are not recorded. Each
difference, in the model's dollars and as a share of the paid dollars, is added to the paid dollars. So errors of the
model and dollars of gaps cancel out, and no saving is claimed for a gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

from ebbtide.lab.ledger.compared import Comparison
from ebbtide.lab.ledger.fleets import constant, fleet_before, fleets_at_the_peak, fleets_for_workers, unknown
from ebbtide.lab.ledger.mix import Mix, mix_text, mixes_of
from ebbtide.lab.ledger.month import BEFORE, LEAST_RECORDED, Alternative, Ledger
from ebbtide.lab.ledger.paid import Paid
from ebbtide.lab.ledger.rates import Rates
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.lab.ledger.replayed import MonthReplay
from ebbtide.lab.simulator.setup import ReplayError, with_known_nodes
from ebbtide.lab.simulator.strategies.steady import fleet_places
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.settings.capacity.process_documents import sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import percent
from ebbtide.text.durations import HOUR_S

PEAK, NEVER_OPEN, PEAK_WORKERS = "peak fleet", "budgets never open", "workers at the peak"
NOTHING_SLEEPS = "nothing sleeps"  # only for stacks with workloads that sleep


def alternatives_of(
    settings: StackSettings,
    ledger: Ledger,
    paid: Paid,
    rates: Rates,
    recording: RecordedMonth,
) -> tuple[Alternative, ...]:
    replays = (NEVER_OPEN, PEAK_WORKERS, *((NOTHING_SLEEPS,) if any(sleepers_of(settings)) else ()))
    if ledger.recorded_share < LEAST_RECORDED:
        recorded = f"{percent(ledger.recorded_share)} of the month was recorded"
        why = f"not enough data: {recorded}, wanted {percent(LEAST_RECORDED)}"
        return tuple(unknown(name, why) for name in (*([BEFORE] if settings.costs.before else []), PEAK, *replays))
    fleet, mixes = partial(constant, settings, ledger.month, rates), mixes_of(ledger.paid)
    try:
        replayed = tuple(_replayed(settings, ledger, recording, rates, paid))
    except ReplayError as error:
        replayed = tuple(unknown(name, str(error)) for name in replays)
    nodes_before = [[*fleet_before(settings, mixes)]]
    before = fleet(BEFORE, nodes_before, "the nodes of costs.before ran all month")
    return (
        *([before] if settings.costs.before else []),
        fleet(
            PEAK,
            fleets_at_the_peak(paid.peaks, rates, ledger.month),
            "the highest recorded number of nodes of each group ran all month",
        ),
        *replayed,
    )


def _replayed(
    settings: StackSettings,
    ledger: Ledger,
    recording: RecordedMonth,
    rates: Rates,
    paid: Paid,
) -> Iterator[Alternative]:
    """Yield the alternatives that need a replay. Raises `ReplayError` if no replay is possible."""
    month = ledger.month
    span = month.begin.timestamp(), month.end.timestamp()
    known, resized = paid.sizes.of_month(with_known_nodes(settings), span)
    pools = {name: steps for name, steps in recording.wanted.items() if name in known.workers}
    if not pools:
        why = f"{settings.customer} has no ebbtide_pool_wanted for its pools in {month.name}"
        raise ReplayError(f"not enough data: {why}")
    naps = tuple(_naps(settings, ledger, recording.asleep))
    seconds: Counter[str] = Counter()
    for nap in naps:
        seconds[nap.workload] += round(nap.end - nap.begin)
    slept = ", ".join(f"{name} {count / HOUR_S:.0f} hours" for name, count in seconds.items())
    mixes = mixes_of(ledger.paid)
    model = MonthReplay(
        settings=known,
        ledger=ledger,
        pools=pools,
        rates=rates,
        mixes=mixes,
        planned={name: group.min for name, group in settings.node_groups.items()},
    )
    comparison = Comparison(
        ledger=ledger,
        as_it_was=model.usd(naps, opens=True),
        text="with budgets that open" + (f" and the recorded sleep ({slept})" if slept else ""),
        assumptions=(*_same_stack(known, mixes), *resized),
    )
    yield comparison.of(NEVER_OPEN, "with budgets that never open", model.usd(naps, opens=False))
    most = {name: round(max(value for _, value in steps)) for name, steps in pools.items()}
    text = ", ".join(f"{name} {count}" for name, count in most.items())
    services = "services have the replicas of the stack file; jobs and Ray clusters are not included"
    stays, fleets = fleets_for_workers(
        known, most, {group: first for group, (first, *_) in paid.peaks.items()}, month.begin
    )
    yield constant(
        stays,
        month,
        rates,
        PEAK_WORKERS,
        fleets,
        f"workers at the month's peak all month: {text}",
        services,
        *resized,
        *fleet_places(known),
    )
    if naps:
        slept_usd, awake_usd = (model.usd(sleep, opens=True, daemons=True) for sleep in (naps, ()))
        with_daemons = zip(slept_usd, awake_usd, strict=True) if slept_usd and awake_usd else ()
        awake = "with all workloads awake"
        yield comparison.of(NOTHING_SLEEPS, awake, model.usd((), opens=True), with_daemons)
    elif any(sleepers_of(settings)):
        yield unknown(NOTHING_SLEEPS, f"not enough data: ebbtide_workload_state shows no sleep in {month.name}")


def _same_stack(settings: StackSettings, mixes: Mapping[str, Mix]) -> Iterator[str]:
    """Yield what the replays have of the month and of the stack."""
    types = "; ".join(f"{group} {mix_text(mix)}" for group, mix in mixes.items() if group in settings.node_groups)
    yield f"node types as they ran: {types}"
    if settings.karpenter_groups:
        yield f"Karpenter provides {', '.join(settings.karpenter_groups)}"
    if settings.autoscaled_groups and settings.cluster.context is not None:
        yield "the cluster autoscaler has its default flags, as assumed for existing clusters"


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
