"""Choose a Savings Plan and its commitment for a stack's nodes, by layers of usage.

Three layers: the nodes that ran in every hour (the fixed floor), the further nodes that ran in every business hour, and
the rest. A plan with saving d pays for a node that runs in more than 1 - d of all hours; business hours are a third of
the week, so their floor rarely pays, and the rest never does. By default a commitment stays at or below the proven
floor: the least usage of any hour, at plan rates. A commitment binds for one or three years, and the figures prove only
the nodes that ran even at 3 in the morning.

The commitment itself is exact (`ebbtide.lab.advice.savings.commitment`). Plans never cover spot. Disks, NAT, the EKS
fee and transfer are not covered either, and are not in these figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ebbtide.lab.advice.savings.commitment import (
    CommitmentOutcome,
    NodeUsage,
    best_commitment,
    break_even_load,
    floor_commitment,
    outcome,
    regret,
)
from ebbtide.lab.advice.savings.usage import Usage
from ebbtide.lab.simulator.results import UnpricedGroup
from ebbtide.lab.simulator.strategies.plans import listed_usd, unpriced_groups
from ebbtide.prices import (
    InstanceType,
    PricingAssumption,
    estimates_text,
    hourly,
    on_demand,
    plans_are_derived,
    price_date,
    steady,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.shapes_of_group import with_parts
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import HOURS_PER_MONTH as HOURS_PER_MONTH

LOADS = (0.5, 1.0, 2.0)
FEWEST_HOURS = 14 * 24
PLANS = tuple(plan for plan in PricingAssumption if plan is not PricingAssumption.ON_DEMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLayer:
    """A part of the usage, summed over all groups."""

    name: str
    node_hours: float
    share_of_hours: float  # in which the layer runs; for the rest: mean / peak
    on_demand_usd: float | None  # a month; None if a node has no price


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderLoad:
    """Cost of a commitment if the load is multiplied by `load`."""

    load: float
    usd: float  # a month
    regret_usd: float  # a month more than with the best commitment for that load


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One plan with its commitment. An EC2 Instance plan is bound to a family, and has a commitment for each."""

    plan: str
    years: int
    commitments: Mapping[str, float]  # dollars an hour at plan rates, by family, or for all
    floor: float  # the proven floor, dollars an hour at plan rates
    best: float  # the cheapest on this usage, without the limit of the floor
    usd: float  # a month, including usage that stays on demand
    saving: float  # of the on-demand dollars
    coverage: float
    utilisation: float
    break_even_load: float
    loads: tuple[UnderLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsAdvice:
    stack: str
    region: str
    source: str
    hours: int
    on_demand_usd: float | None  # a month; None if a node that ran has no price, and then no plan is compared
    layers: tuple[UsageLayer, ...]
    offers: tuple[Offer, ...]
    beyond_floor: bool
    approximate: bool
    prices_of: date
    plans_of: date
    assumptions: tuple[str, ...]
    unpriced: tuple[UnpricedGroup, ...] = ()
    overload: str = ""  # demand exceeds the stack, so that the usage says little, and no plan is compared

    @property
    def chosen(self) -> Offer | None:
        """Cheapest plan of one year: usage of some weeks says little about a third year. None if none pays."""
        paying = [offer for offer in self.offers if offer.saving > 0 and offer.years == 1]
        return min(paying, key=lambda offer: (offer.usd, offer.plan), default=None)


def savings_advice(settings: StackSettings, usage: Usage, *, beyond_floor: bool = False) -> SavingsAdvice:
    """Compare all plans; none if demand exceeds the stack, or if a node that ran has no on-demand price, since it may
    need a part of the commitment.
    """
    sized = [*_of_several_sizes(settings, usage)]
    settings = _of_first_types(with_parts(settings).by_type)
    ran = {group for group, nodes in usage.nodes.items() if any(nodes)}
    types = {name: group.types[0] for name, group in settings.node_groups.items() if name in ran}
    unpriced = unpriced_groups(settings, types)
    prices = {group: usd for group in usage.nodes if group in ran and (usd := listed_usd(settings, group)) is not None}
    eligible = {g: p for g, p in prices.items() if settings.node_groups[g].kind is not NodeKind.SPOT}
    offers = [
        _offer(settings, usage, eligible, plan, beyond_floor=beyond_floor)
        for plan in (() if unpriced or usage.overload else PLANS)
    ]
    return SavingsAdvice(
        stack=settings.stack,
        region=settings.region,
        source=usage.source,
        hours=usage.hours,
        on_demand_usd=None
        if unpriced
        else _monthly(sum(prices[group] * _mean(usage.nodes[group]) for group in prices)),
        layers=_layers(usage, eligible | {group.name: None for group in unpriced}),
        offers=tuple(offer for offer in offers if offer is not None),
        beyond_floor=beyond_floor,
        approximate=plans_are_derived(settings.region),
        prices_of=price_date(settings.region).on_demand,
        plans_of=price_date(settings.region).plans,
        assumptions=(*_assumptions(settings, usage, eligible), *sized),
        unpriced=unpriced,
        overload=usage.overload,
    )


def _of_first_types(settings: StackSettings) -> StackSettings:
    """Return the stack with the first type that the file names for each group. Karpenter's come largest first."""
    groups = settings.node_groups.items()
    first = {name: group.model_copy(update={"instance_types": group.instance_types[:1]}) for name, group in groups}
    return settings.model_copy(update={"node_groups": first})


def _of_several_sizes(settings: StackSettings, usage: Usage) -> Iterable[str]:
    for name, group in settings.karpenter_groups.items():
        if any(usage.nodes.get(name, ())) and len(group.types_to_fit) < len(group.types):
            first, other = group.instance_types[0], group.types[0].name
            yield (
                f"{name} has types of several sizes, and the usage states none: its nodes count as {first}. A "
                f"recorded file states the type as {name}/{other}."
            )


def _offer(
    settings: StackSettings, usage: Usage, prices: Mapping[str, float], plan: PricingAssumption, *, beyond_floor: bool
) -> Offer | None:
    """Return None if the tables hold no discount of this plan for any group."""
    scopes = _scopes(settings, usage, prices, plan)
    if not scopes:
        return None
    floors = {scope: floor_commitment(lines) for scope, lines in scopes.items()}
    bests = {scope: best_commitment(lines) for scope, lines in scopes.items()}
    commitments = {scope: best if beyond_floor else min(best, floors[scope]) for scope, best in bests.items()}
    covered = {group for lines in _groups_of(settings, prices, plan).values() for group in lines}
    outside = sum(prices[group] * _mean(usage.nodes[group]) for group in prices if group not in covered)
    total = _total([outcome(lines, commitments[scope]) for scope, lines in scopes.items()])
    return Offer(
        plan=plan.value,
        years=3 if "3y" in plan.value else 1,
        commitments=commitments,
        floor=sum(floors.values()),
        best=sum(bests.values()),
        usd=_monthly(total.usd + outside),
        saving=1 - (total.usd + outside) / (total.on_demand + outside),
        coverage=total.covered / (total.on_demand + outside),
        utilisation=total.utilisation,
        break_even_load=max(break_even_load(lines, commitments[scope]) for scope, lines in scopes.items()),
        loads=tuple(_under(scopes, commitments, load, outside) for load in LOADS),
    )


def _under(
    scopes: Mapping[str, Sequence[NodeUsage]], commitments: Mapping[str, float], load: float, outside: float
) -> UnderLoad:
    usd = sum(outcome(lines, commitments[scope], load).usd for scope, lines in scopes.items())
    lost = sum(regret(lines, commitments[scope], load) for scope, lines in scopes.items())
    return UnderLoad(load=load, usd=_monthly(usd + load * outside), regret_usd=_monthly(lost))


def _scopes(
    settings: StackSettings, usage: Usage, prices: Mapping[str, float], plan: PricingAssumption
) -> dict[str, list[NodeUsage]]:
    """Return the usage that one commitment covers: everything, or each family for an EC2 Instance plan."""
    return {
        scope: [
            NodeUsage(
                price=prices[group],
                rate=hourly(settings.region, settings.node_groups[group].types[0], plan),
                nodes=usage.nodes[group],
            )
            for group in groups
        ]
        for scope, groups in _groups_of(settings, prices, plan).items()
    }


def _groups_of(settings: StackSettings, prices: Mapping[str, float], plan: PricingAssumption) -> dict[str, list[str]]:
    by_family = plan in (PricingAssumption.EC2_1Y, PricingAssumption.EC2_3Y)
    groups: dict[str, list[str]] = {}
    for group in sorted(prices):
        kind = settings.node_groups[group].types[0]
        if _has_discount(settings.region, kind, plan):
            groups.setdefault(kind.family if by_family else "all", []).append(group)
    return groups


def _has_discount(region: str, kind: InstanceType, plan: PricingAssumption) -> bool:
    return steady(region, kind, plan) < on_demand(region, kind)


def _total(parts: Sequence[CommitmentOutcome]) -> CommitmentOutcome:
    return CommitmentOutcome(
        commitment=sum(part.commitment for part in parts),
        usd=sum(part.usd for part in parts),
        used=sum(part.used for part in parts),
        covered=sum(part.covered for part in parts),
        on_demand=sum(part.on_demand for part in parts),
    )


def _layers(usage: Usage, prices: Mapping[str, float | None]) -> tuple[UsageLayer, ...]:
    floors = {group: min(usage.nodes[group]) for group in prices}
    busy_hours = sum(usage.open)
    above = {
        group: min((n for n, is_open in zip(usage.nodes[group], usage.open, strict=True) if is_open), default=0.0)
        - floors[group]
        if busy_hours
        else 0.0
        for group in prices
    }
    rest = {
        group: sum(usage.nodes[group]) - floors[group] * usage.hours - above[group] * busy_hours for group in prices
    }
    peak_hours = sum(max(usage.nodes[group]) - floors[group] for group in prices) * usage.hours
    return (
        _layer("fixed floor", {g: n * usage.hours for g, n in floors.items()}, prices, usage.hours, 1.0),
        _layer(
            "business-hours floor",
            {g: n * busy_hours for g, n in above.items()},
            prices,
            usage.hours,
            busy_hours / usage.hours,
        ),
        _layer("the rest", rest, prices, usage.hours, sum(rest.values()) / peak_hours if peak_hours else 0.0),
    )


def _layer(
    name: str, hours: Mapping[str, float], prices: Mapping[str, float | None], total_hours: int, share: float
) -> UsageLayer:
    usd = {group: price * hours[group] for group, price in prices.items() if price is not None}
    return UsageLayer(
        name=name,
        node_hours=sum(hours.values()),
        share_of_hours=share,
        on_demand_usd=_monthly(sum(usd.values()) / total_hours) if len(usd) == len(prices) else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _monthly(usd_per_hour: float) -> float:
    return usd_per_hour * HOURS_PER_MONTH


def _assumptions(settings: StackSettings, usage: Usage, eligible: Mapping[str, float]) -> Iterable[str]:
    """Yield the assumptions of the figures, in sentences."""
    region = settings.region
    derived = "are proxies (Reserved Instance rates): run this again with real ones (ebbtide prices update)"
    yield (
        f"Plan rates of {region} as of {price_date(region).plans} "
        + (derived if plans_are_derived(region) else "use one discount per family, where AWS's differ by size")
        + "; every figure under a plan is approximate. No upfront payment."
    )
    if estimates := estimates_text(region, (settings.node_groups[name].types[0] for name in usage.nodes)):
        yield f"Prices that are not list prices: {estimates}."
    yield (
        f"The usage of {usage.hours} hours is assumed for the entire term; a month has {HOURS_PER_MONTH:.0f} hours. "
        "Other plans, Reserved Instances and other stacks of the account are not known here."
    )
    yield "Each group's nodes are of its first instance type; AWS may give another one, at another price."
    yield "If the load halves or doubles, so does every group in every hour, even a group with a min."
    if usage.provisioner:
        yield usage.provisioner
    if usage.hours < FEWEST_HOURS:
        yield f"{usage.hours} hours are less than two weeks: a floor over so few nights proves little."
    if usage.missing_hours:
        yield f"{usage.missing_hours} hours between the first and the last are missing: excluded, not counted as idle."
    spot = [name for name in usage.nodes if settings.node_groups[name].kind is NodeKind.SPOT]
    if spot:
        yield f"Plans never cover spot: {', '.join(spot)} is in the bill here at on-demand prices, and in no plan."
    for plan in PLANS:
        bare = [
            group for group in sorted(eligible) if not _has_discount(region, settings.node_groups[group].types[0], plan)
        ]
        if bare:
            kinds = ", ".join(f"{settings.node_groups[group].instance_types[0]} ({group})" for group in bare)
            yield f"No {plan.value} rate is known for {kinds}: it stays on demand under that plan."
