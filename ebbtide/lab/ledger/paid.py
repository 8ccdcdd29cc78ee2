"""What a month's nodes cost, by day and by hour, and the bounds of its gaps. Pure.

Lower bound of a gap: the nodes that certainly ran, which were seen on both sides with the same name and creation time,
or were created in the gap and seen after it. Upper bound: every group at its `max`, all nodes of its most expensive
type.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain, pairwise
from math import inf
from typing import TypeAlias

from ebbtide.lab.ledger.lives import (
    Life,
    NodeKey,
    NodeType,
    Span,
    clipped,
    gaps_between,
    lives_of,
    most_at_once,
    overlap,
)
from ebbtide.lab.ledger.month import SPOT, Gap, Month, NodeHours
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.reading import PRICE_STEP, RecordedMonth
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S
from ebbtide.prices import PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import HOUR_S


@dataclass(slots=True)
class Amount:
    hours: float = 0.0
    usd: float = 0.0


Hourly: TypeAlias = Mapping[tuple[str, int], Amount]
"""Node-hours and dollars for each group and hour of the month, at list or spot prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    rows: tuple[NodeHours, ...]
    hourly: Hourly
    plan_usd: float
    gaps: tuple[Gap, ...]
    recorded: Mapping[int, float]  # recorded share of each hour of the month
    peaks: Mapping[str, Sequence[Mapping[NodeType, int]]]  # nodes of the instants with the highest number, by group
    by_type: Mapping[tuple[str, int], float]  # node-hours by `group/type` and hour of the month


def paid_of(settings: StackSettings, month: Month, recording: RecordedMonth, rates: Rates) -> Paid:
    first, last = month.begin.timestamp(), month.end.timestamp()
    there = clipped(lives_of(recording.sightings), (first, last))
    lives = [life for life in there if rates.know(life.key)]
    gaps = gaps_between(recording.sightings.looks, first, last)
    rows: dict[tuple[date, str, str, str, str], NodeHours] = {}
    hourly: defaultdict[tuple[str, int], Amount] = defaultdict(Amount)
    by_type: defaultdict[tuple[str, int], float] = defaultdict(float)

    def row_of(key: NodeKey, at: float) -> NodeHours:
        day = month.day_of(datetime.fromtimestamp(at, UTC))
        place = (day, key.group, key.category, key.instance_type, key.capacity_type)
        return rows.setdefault(place, NodeHours(*place))

    for life in there:
        if not rates.know(life.key):
            for begin, end in _cut(life, gaps, first, ()):
                row_of(life.key, begin).hours += (end - begin) / HOUR_S
    for life in lives:
        key = life.key
        for begin, end in _cut(life, gaps, first, rates.changes(key.instance_type)):
            hours, hour = (end - begin) / HOUR_S, int((begin - first) // HOUR_S)
            by_type[f"{key.group}/{key.instance_type}", hour] += hours
            row, usd = row_of(key, begin), rates.usd(key, begin)
            least, most = rates.usd_bounds(key, begin)
            row.less_usd += (usd - least) * hours
            row.more_usd += (most - usd) * hours
            for amount in (row, hourly[key.group, hour]):
                amount.hours += hours
                amount.usd += usd * hours
        if life.created == life.begin:
            row = row_of(key, life.begin)
            row.boots += 1
            row.boot_usd += rates.usd(key, life.begin) * NODE_BOOT_S / HOUR_S
    hours = [(first + hour * HOUR_S, first + (hour + 1) * HOUR_S) for hour in range(round(month.hours))]
    recorded = {hour: 1 - sum(overlap(gap, span) for gap in gaps) / HOUR_S for hour, span in enumerate(hours)}
    most = most_at_once(lives)
    peaks = {group: sum(nodes.values()) for group, (nodes, *_) in most.items()}
    return Paid(
        rows=tuple(rows[place] for place in sorted(rows)),
        hourly=hourly,
        plan_usd=_plan_usd(settings, hourly, recorded, rates, first),
        gaps=tuple(_bounded(settings, gap, lives, rates, peaks, recording.forgotten) for gap in gaps),
        recorded=recorded,
        peaks=most,
        by_type=by_type,
    )


def _cut(life: Life, gaps: Sequence[Span], first: float, changes: Sequence[float]) -> Iterator[Span]:
    """Cut at whole hours of the month, where local days begin, and at changes of the price; leave out the gaps."""
    hours = range(int((life.begin - first) // HOUR_S) + 1, int((life.end - first) // HOUR_S) + 1)
    edges = {life.begin, life.end, *changes, *(first + hour * HOUR_S for hour in hours), *chain.from_iterable(gaps)}
    for begin, end in pairwise(sorted(at for at in edges if life.begin <= at <= life.end)):
        place = bisect_right(gaps, (begin, inf))
        if not place or gaps[place - 1][1] <= begin:
            yield begin, end


def _plan_usd(
    settings: StackSettings, hourly: Hourly, recorded: Mapping[int, float], rates: Rates, first: float
) -> float:
    """Return the plan's cost of each group's `min` nodes, paid in every hour, less the list price of those that ran."""
    plan = settings.costs.pricing_assumption
    if plan is PricingAssumption.ON_DEMAND:
        return 0.0
    usd = 0.0
    for name, group in settings.node_groups.items():
        if group.kind is NodeKind.SPOT or not group.min or group.types[0].name not in rates.listed:
            continue
        share = plan_share(settings, name, plan)
        for hour, part in recorded.items():
            there = hourly.get((name, hour), Amount())
            committed = group.min * part
            at = first + hour * HOUR_S
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
    priced = (gap[0], gap[1] + PRICE_STEP.total_seconds())  # the next price sample may be one step later
    plan = settings.costs.pricing_assumption
    for life in lives:
        key = life.key
        hours = overlap((life.begin, life.end), gap) / HOUR_S
        prices = [usd for at in priced for usd in rates.usd_bounds(key, at)]  # a price may change in between
        on_plan = key.group in shapes and key.capacity_type != SPOT
        low += hours * min(prices) * (plan_share(settings, key.group, plan) if on_plan else 1.0)
        high += hours * max(prices)
        sure[key.group] = sure.get(key.group, 0.0) + hours
        dearest[key.group] = max(dearest.get(key.group, 0.0), *prices)
    length = (gap[1] - gap[0]) / HOUR_S
    for name in {*shapes, *peaks}:
        most, types = (shapes[name].max, shapes[name].types) if name in shapes else (0, ())
        usd = [rates.listed_usd(kind.name, at) for kind in types if kind.name in rates.listed for at in priced]
        unsure = max(most, peaks.get(name, 0)) * length - sure.get(name, 0.0)
        high += max(0.0, unsure) * max([*usd, dearest.get(name, 0.0)])
    begin, end = (datetime.fromtimestamp(at, UTC) for at in gap)
    first_kept = bool(forgotten) and not any(life.begin < gap[0] for life in lives)
    why = forgotten if first_kept else "no sample of ebbtide_exporter_sees"
    return Gap(begin=begin, end=end, low_usd=low, high_usd=high, why=why)
