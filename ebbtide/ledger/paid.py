"""What a month's nodes cost, by day and by hour, and the bounds of its gaps. Pure.

In a gap the least is paid by the nodes that surely ran: those of the same name and creation time on both sides, and
those that were created in it and were seen after it. The most is every group at its `max`, at its dearest type.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import pairwise

from ebbtide.ledger.lives import Life, Sightings, Span, clipped, gaps_between, lives_of, most_at_once, overlap, without
from ebbtide.ledger.month import SPOT, Gap, Month, NodeHours
from ebbtide.ledger.rates import Rates, plan_share
from ebbtide.prices import PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_sets import with_node_sets
from ebbtide.simulator.strategies.plans import NODE_BOOT_S

_HOUR_S = 3600.0


@dataclass(slots=True)
class Amount:
    hours: float = 0.0
    usd: float = 0.0
    boots: int = 0
    boot_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    rows: tuple[NodeHours, ...]
    hourly: Mapping[tuple[str, int], Amount]  # by group and hour of the month, list or spot prices
    plan_usd: float
    gaps: tuple[Gap, ...]
    recorded: Mapping[int, float]  # share of each hour of the month
    peaks: Mapping[str, int]  # nodes at once, by group

    @property
    def recorded_share(self) -> float:
        return sum(self.recorded.values()) / len(self.recorded)


@dataclass(slots=True)
class _Sums:
    rows: dict[tuple[date, str, str, str, str], Amount] = field(
        default_factory=dict[tuple[date, str, str, str, str], Amount]
    )
    hourly: dict[tuple[str, int], Amount] = field(default_factory=dict[tuple[str, int], Amount])


def paid_of(settings: StackSettings, month: Month, sightings: Sightings, rates: Rates, forgotten: str = "") -> Paid:
    span = (month.begin.timestamp(), month.end.timestamp())
    lives = clipped(lives_of(sightings), span)
    gaps = gaps_between(sightings.looks, *span)
    sums = _Sums()
    for life in lives:
        _add(life, gaps, month, rates, sums)
    hours = round(month.hours)
    recorded = {
        hour: 1 - sum(overlap(gap, (begin, begin + _HOUR_S)) for gap in gaps) / _HOUR_S
        for hour in range(hours)
        for begin in (span[0] + hour * _HOUR_S,)
    }
    peaks = most_at_once(lives)
    return Paid(
        rows=tuple(
            NodeHours(
                day=day,
                group=group,
                category=category,
                instance_type=instance_type,
                capacity_type=capacity_type,
                hours=amount.hours,
                usd=amount.usd,
                boots=amount.boots,
                boot_usd=amount.boot_usd,
            )
            for (day, group, category, instance_type, capacity_type), amount in sorted(sums.rows.items())
        ),
        hourly=sums.hourly,
        plan_usd=_plan_usd(settings, sums.hourly, recorded, rates, span[0]),
        gaps=tuple(_bounded(settings, gap, lives, rates, peaks, forgotten) for gap in gaps),
        recorded=recorded,
        peaks=peaks,
    )


def _add(life: Life, gaps: Sequence[Span], month: Month, rates: Rates, sums: _Sums) -> None:
    key, first = life.key, month.begin.timestamp()

    def row_of(at: float) -> Amount:
        day = month.day_of(datetime.fromtimestamp(at, UTC))
        place = (day, key.group, key.category, key.instance_type, key.capacity_type)
        return sums.rows.setdefault(place, Amount())

    for span in without((life.begin, life.end), gaps):
        for begin, end in _cut(span, first, rates.changes(key.instance_type)):
            usd = rates.usd(key, begin) * (end - begin) / _HOUR_S
            for amount in (
                row_of(begin),
                sums.hourly.setdefault((key.group, int((begin - first) // _HOUR_S)), Amount()),
            ):
                amount.hours += (end - begin) / _HOUR_S
                amount.usd += usd
    if life.created is not None and life.created == life.begin:
        row = row_of(life.created)
        row.boots += 1
        row.boot_usd += rates.usd(key, life.created) * NODE_BOOT_S / _HOUR_S


def _cut(span: Span, first: float, changes: Sequence[float]) -> Iterator[Span]:
    """Cut at whole hours of the month, where local days begin, and at changes of the price."""
    begin, end = span
    inside = changes[bisect_right(changes, begin) : bisect_left(changes, end)]
    hour = int((begin - first) // _HOUR_S) + 1
    hours = [first + place * _HOUR_S for place in range(hour, int((end - first) // _HOUR_S) + 1)]
    edges = sorted({begin, end, *inside, *(at for at in hours if begin < at < end)})
    yield from pairwise(edges)


def _plan_usd(
    settings: StackSettings,
    hourly: Mapping[tuple[str, int], Amount],
    recorded: Mapping[int, float],
    rates: Rates,
    first: float,
) -> float:
    """Return the plan of each group's `min` nodes, which is paid in every hour, less the list price of those there."""
    if settings.costs.pricing_assumption is PricingAssumption.ON_DEMAND:
        return 0.0
    usd = 0.0
    for name, group in settings.node_groups.items():
        if group.kind is NodeKind.SPOT or not group.min or group.types[0].name not in rates.listed:
            continue
        share = plan_share(settings, name)
        for hour, part in recorded.items():
            there = hourly.get((name, hour), Amount())
            committed = group.min * part
            at = first + hour * _HOUR_S
            listed = there.usd / there.hours if there.hours else rates.listed_usd(group.types[0].name, at)
            usd += listed * (committed * share - min(there.hours, committed))
    return usd


def _bounded(
    settings: StackSettings, gap: Span, lives: Sequence[Life], rates: Rates, peaks: Mapping[str, int], forgotten: str
) -> Gap:
    shapes = with_node_sets(settings).node_groups
    low = high = 0.0
    sure: dict[str, float] = {}
    dearest: dict[str, float] = {}
    planned = settings.costs.pricing_assumption is not PricingAssumption.ON_DEMAND
    for life in lives:
        key = life.key
        hours = overlap((life.begin, life.end), gap) / _HOUR_S
        prices = [rates.usd(key, at) for at in gap]  # when it changed in between is not known
        on_plan = planned and key.group in shapes and key.capacity_type != SPOT
        low += hours * min(prices) * (plan_share(settings, key.group) if on_plan else 1.0)
        high += hours * max(prices)
        sure[key.group] = sure.get(key.group, 0.0) + hours
        dearest[key.group] = max(dearest.get(key.group, 0.0), *prices)
    length = (gap[1] - gap[0]) / _HOUR_S
    for name in {*shapes, *peaks}:
        most = shapes[name].max if name in shapes else peaks[name]
        kinds = [kind.name for kind in (shapes[name].types if name in shapes else ()) if kind.name in rates.listed]
        usd = [rates.listed_usd(kind, at) for kind in kinds for at in gap]
        high += max(0.0, most * length - sure.get(name, 0.0)) * max([*usd, dearest.get(name, 0.0)])
    begin, end = (datetime.fromtimestamp(at, UTC) for at in gap)
    first_kept = bool(forgotten) and not any(life.begin < gap[0] for life in lives)
    why = forgotten if first_kept else "no sample of ebbtide_exporter_sees"
    return Gap(begin=begin, end=end, low_usd=low, high_usd=high, why=why)
