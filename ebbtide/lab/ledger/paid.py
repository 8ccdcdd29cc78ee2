"""The node costs of a month by day and by hour, with bounds for its gaps. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain, pairwise
from math import inf

from ebbtide.lab.ledger.bounds import Bounding
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
from ebbtide.lab.ledger.month import Amount as Amount
from ebbtide.lab.ledger.month import Gap, Month, NodeHours, add_amount
from ebbtide.lab.ledger.month import Hourly as Hourly
from ebbtide.lab.ledger.pattern import Pattern
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.reading import RecordedNodes
from ebbtide.lab.ledger.sizes import GroupSizes, usual_least
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S
from ebbtide.prices import PricingAssumption
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import count
from ebbtide.text.durations import HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    rows: tuple[NodeHours, ...]
    hourly: Hourly
    plan_usd: float
    gaps: tuple[Gap, ...]
    recorded: Mapping[int, float]  # recorded share of each hour of the month
    peaks: Mapping[str, Sequence[Mapping[NodeType, int]]]  # nodes of the instants with the highest number, by group
    sizes: GroupSizes
    by_type: Mapping[tuple[str, int], float]  # node-hours by `group/type` and hour of the month
    notes: tuple[str, ...]  # what the bounds of the gaps rest on


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The recorded part of a month. `lives` have a price; `untyped` are nodes without one."""

    rows: tuple[NodeHours, ...]
    hourly: Hourly
    by_type: Mapping[tuple[str, int], float]
    lives: Sequence[Life]
    untyped: Sequence[Life]
    gaps: Sequence[Span]


def recorded_of(month: Month, recording: RecordedNodes, rates: Rates, until: datetime) -> Recorded:
    """Return what the recorded hours of a month before `until` cost."""
    first, last = month.begin.timestamp(), until.timestamp()
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
            usd, (least, most) = rates.usd(key, begin), rates.usd_bounds(key, begin)
            cost = Amount(hours, usd * hours, (usd - least) * hours, (most - usd) * hours)
            for amount in (row_of(key, begin), hourly[key.group, hour]):
                add_amount(amount, cost)
        if life.created == life.begin:
            row = row_of(key, life.begin)
            row.boots += 1
            row.boot_usd += rates.usd(key, life.begin) * NODE_BOOT_S / HOUR_S
    return Recorded(
        rows=tuple(rows[place] for place in sorted(rows)),
        hourly=hourly,
        by_type=by_type,
        lives=lives,
        untyped=[life for life in there if not rates.know(life.key)],
        gaps=gaps,
    )


def paid_of(
    settings: StackSettings, month: Month, recording: RecordedNodes, rates: Rates, until: datetime | None = None
) -> Paid:
    """Return what a month cost, or its hours before `until`, a whole hour after its begin."""
    seen = recorded_of(month, recording, rates, until or month.end)
    first, last = month.begin.timestamp(), (until or month.end).timestamp()
    lives, gaps, hourly = seen.lives, seen.gaps, seen.hourly
    hours = [(first + hour * HOUR_S, first + (hour + 1) * HOUR_S) for hour in range(round((last - first) / HOUR_S))]
    recorded = {hour: 1 - sum(overlap(gap, span) for gap in gaps) / HOUR_S for hour, span in enumerate(hours)}
    most = most_at_once(lives)
    sizes = GroupSizes(
        stated={name: group.max for name, group in with_node_sets(settings).node_groups.items()},
        recorded=recording.most_nodes,
        most={group: sum(nodes.values()) for group, (nodes, *_) in most.items()},
        least=usual_least(hourly, recorded),
    )
    bounding = Bounding(
        settings=settings,
        span=(first, last),
        recording=recording,
        rates=rates,
        lives=lives,
        gaps=gaps,
        sizes=sizes,
        pattern=Pattern(month=month, hourly=hourly, recorded=recorded),
    )
    return Paid(
        rows=seen.rows,
        hourly=hourly,
        plan_usd=_plan_usd(settings, hourly, recorded, rates, first),
        gaps=tuple(map(bounding.gap_of, gaps)),
        recorded=recorded,
        peaks=most,
        sizes=sizes,
        by_type=seen.by_type,
        notes=(*bounding.notes(), *_untyped_in(gaps, seen.untyped)),
    )


def _untyped_in(gaps: Sequence[Span], lives: Sequence[Life]) -> Iterator[str]:
    """Say how long nodes without a type surely ran in gaps."""
    hours = sum(overlap((life.begin, life.end), gap) for life in lives for gap in gaps) / HOUR_S
    if hours:
        yield f"In gaps, {count(hours)} node-hours of unknown instance types have no price and are in no bound."


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
