"""The dollars of a span without recorded nodes: two bounds, and a model's figure between them. Pure.

Lower bound: the nodes that certainly ran, which were seen on both sides with the same name and creation time, or were
created in the gap and seen after it. Upper bound: these; the nodes that were seen at its begin and not at its end, to
its end; and nodes that were seen on neither side, each of the group's most expensive type. Their number is limited by

- the group's `max`, as `ebbtide_group_max_nodes` recorded it, and never less than the nodes that ran. Before the series
  existed, by the `max` of the stack file and the most nodes of the month, whichever is higher;
- the group's pace: they joined after the gap's begin and left before its end. Within any time no more join or leave
  than `PACE_MARGIN` times the most that did within such a time in the recorded part of the month, or than one a
  minute. This is an assumption, which a burst can break: EC2 launches up to 1,000 instances at once and 2 a second
  after that, so no documented limit is below a group's `max`.

The recorded demand is no limit. Nodes join for pods that replace others, of which no series has the number: while
workers drain, in a rollout, and after an eviction.

Source of EC2's limits: the resource token bucket of RunInstances,
https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from math import inf

from ebbtide.lab.ledger.lives import Life, NodeKey, Span, overlap
from ebbtide.lab.ledger.month import LEAST_RECORDED, ON_DEMAND, SPOT, Gap
from ebbtide.lab.ledger.pattern import Pattern
from ebbtide.lab.ledger.rates import Rates, plan_share
from ebbtide.lab.ledger.reading import PRICE_STEP, RecordedNodes
from ebbtide.lab.ledger.sizes import GroupSizes
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.text.durations import HOUR_S

PACE_MARGIN, LEAST_A_MINUTE = 2, 1
LINEAR_WITHIN_S = 6 * HOUR_S
"""In shorter gaps the model interpolates between both sides; in longer ones it takes the same hours of other days.
Chosen on the known month: docs/evidence/ledger.md."""
_MINUTE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Bounding:
    """Everything that limits the gaps of a month or of its part. `lives` have a price."""

    settings: StackSettings
    span: Span
    recording: RecordedNodes
    rates: Rates
    lives: Sequence[Life]
    gaps: Sequence[Span]
    sizes: GroupSizes
    pattern: Pattern

    @cached_property
    def shapes(self) -> Mapping[str, NodeGroupSettings]:
        return with_node_sets(self.settings).node_groups

    @cached_property
    def paces(self) -> Mapping[str, "Pace"]:
        """The joins and departures of each group; empty if too little of the month was recorded."""
        missing = sum(end - begin for begin, end in self.gaps)
        if missing > (1 - LEAST_RECORDED) * (self.span[1] - self.span[0]):
            return {}
        cut = {edge for gap in self.gaps for edge in gap} | {self.span[1]}
        groups = {life.key.group for life in self.lives} | self.shapes.keys()
        return {
            group: Pace(
                joins=sorted(life.created for life in self.lives if life.key.group == group and life.created),
                departures=sorted(life.end for life in self.lives if life.key.group == group and life.end not in cut),
            )
            for group in groups
        }

    def gap_of(self, gap: Span) -> Gap:
        sides = [_Side(self, gap, group) for group in sorted({*self.shapes, *self.sizes.most})]
        low, high = (sum(usd) for usd in zip(*(side.bounds() for side in sides), strict=True))
        begin, end = (datetime.fromtimestamp(at, UTC) for at in gap)
        first_kept = bool(self.recording.forgotten) and not any(life.begin < gap[0] for life in self.lives)
        return Gap(
            begin=begin,
            end=end,
            low_usd=low,
            high_usd=high,
            model_usd=min(high, max(low, self._modelled(gap, sides))),
            why=self.recording.forgotten if first_kept else "no sample of ebbtide_exporter_sees",
        )

    def _modelled(self, gap: Span, sides: Sequence["_Side"]) -> float:
        if gap[1] - gap[0] <= LINEAR_WITHIN_S and any(side.seen_before for side in sides):
            return sum(side.interpolated() for side in sides)
        return self.pattern.usd(gap)

    def notes(self) -> Iterator[str]:
        """Say what the bounds rest on. Nothing is said of a month without gaps."""
        if not self.gaps:
            return
        by_file = sorted(
            name for name in self.shapes if any(not self.sizes.was_recorded(name, gap[0]) for gap in self.gaps)
        )
        if by_file:
            series = "ebbtide_group_max_nodes was not recorded before every gap"
            yield f"The upper bound of gaps rests on today's max of {', '.join(by_file)}: {series}."
        if self.paces:
            yield (
                f"The upper bound of gaps assumes that a group's nodes join and leave at most {PACE_MARGIN} times as "
                f"fast as in the recorded part of the month, or {LEAST_A_MINUTE} a minute. A larger burst that came "
                "and left within one gap is not in it."
            )
        for name, group in self.shapes.items():
            if bare := sorted({kind.name for kind in group.types} - self.rates.listed.keys()):
                yield f"No price is known for {', '.join(bare)} of {name}: the upper bound of gaps leaves them out."


class Pace:
    """The most nodes that joined or left a group within a time."""

    def __init__(self, *, joins: Sequence[float], departures: Sequence[float]) -> None:
        self._times = {"joins": joins, "departures": departures}
        self._most: dict[tuple[str, int], int] = {}

    def most(self, what: str, seconds: float) -> int:
        """Return the most `joins` or `departures` in `seconds`, rounded up to minutes, with the margin."""
        minutes = -int(-seconds // _MINUTE_S)
        if (what, minutes) not in self._most:
            times, first, most = self._times[what], 0, 0
            for last, at in enumerate(times):
                while at - times[first] > minutes * _MINUTE_S:
                    first += 1
                most = max(most, last - first + 1)
            self._most[what, minutes] = max(minutes * LEAST_A_MINUTE, PACE_MARGIN * most)
        return self._most[what, minutes]


class _Side:
    """The nodes of one group on both sides of a gap."""

    def __init__(self, of: Bounding, gap: Span, group: str) -> None:
        self.of, self.gap, self.group = of, gap, group
        self.lives = [life for life in of.lives if life.key.group == group]
        self.sure = [life for life in self.lives if overlap((life.begin, life.end), gap)]
        self.departed = [life for life in self.lives if abs(life.end - gap[0]) < 1]
        self.seen_before = any(life.begin < gap[0] for life in of.lives)
        self.seen_after = any(life.end > gap[1] for life in of.lives)
        self.priced = (gap[0], gap[1] + PRICE_STEP.total_seconds())  # the next price sample may be one step later
        self.plan = of.settings.costs.pricing_assumption

    def bounds(self) -> tuple[float, float]:
        low = high = 0.0
        for life in self.sure:
            hours = overlap((life.begin, life.end), self.gap) / HOUR_S
            on_plan = self.group in self.of.shapes and life.key.capacity_type != SPOT
            share = plan_share(self.of.settings, self.group, self.plan) if on_plan else 1.0
            low += hours * min(low for low, _ in self._prices(life.key)) * share
            high += hours * self._most_usd(life.key)
        dearest = self._dearest()
        stayed = sorted((self._most_usd(life.key) for life in self.departed), reverse=True)
        for (begin, end), joined in self._cells():
            surely = sum(life.begin < end and life.end > begin for life in self.sure)
            room = max(self._ceiling - surely, 0)
            new = min(joined, room)
            high += (new * dearest + sum(stayed[: max(0, round(room - new))])) * (end - begin) / HOUR_S
        return low, high

    def interpolated(self) -> float:
        """Return the dollars if the nodes that left did so halfway through, and none came and left."""
        length = (self.gap[1] - self.gap[0]) / HOUR_S
        sure = sum(
            overlap((life.begin, life.end), self.gap) / HOUR_S * self.of.rates.usd(life.key, self.gap[0])
            for life in self.sure
        )
        return sure + sum(self.of.rates.usd(life.key, self.gap[0]) for life in self.departed) * length / 2

    @cached_property
    def _ceiling(self) -> int:
        """The group's `max`; more if more ran at once: a lower `max` removes no node."""
        at_begin = len(self.departed) + sum(life.begin <= self.gap[0] for life in self.sure)
        edges = {self.gap[0], *(life.begin for life in self.sure)}
        at_once = max((sum(life.begin <= at < life.end for life in self.sure) for at in edges), default=0)
        return max(self.of.sizes.max_within(self.group, self.gap), at_begin, at_once)

    def _cells(self) -> Iterator[tuple[Span, float]]:
        """Yield parts of the gap with the highest number of nodes there that were seen on neither side."""
        begin, end = self.gap
        pace = self.of.paces.get(self.group)
        near = [minute * _MINUTE_S for minute in (*range(60), *range(60, 1440, 60))]
        edges = {begin, end, *(begin + after for after in near), *(end - before for before in near)}
        edges |= {edge for life in self.sure for edge in (life.begin, life.end)}
        for first, last in pairwise(sorted(at for at in edges if begin <= at <= end)):
            limits = [inf]
            if pace is not None and self.seen_before:
                limits.append(pace.most("joins", last - begin))
            if pace is not None and self.seen_after:
                limits.append(pace.most("departures", end - first))
            yield (first, last), min(limits)

    def _prices(self, key: NodeKey) -> list[tuple[float, float]]:
        """Return the bounds of the price on both sides: the time of a change in between is unknown."""
        return [self.of.rates.usd_bounds(key, at) for at in self.priced]

    def _most_usd(self, key: NodeKey) -> float:
        return max(high for _, high in self._prices(key))

    def _dearest(self) -> float:
        """Return the highest price of a node of the group, of the types that it may have and of those that it had."""
        keys = {replace(life.key, node="", category="") for life in self.lives}
        if (shape := self.of.shapes.get(self.group)) is not None:
            capacity = SPOT if shape.kind is NodeKind.SPOT else ON_DEMAND
            bare = NodeKey(node="", group=self.group, category="", instance_type="", capacity_type=capacity)
            types = {kind.name for kind in shape.types} & self.of.rates.listed.keys()
            keys |= {replace(bare, instance_type=kind) for kind in types}
        return max(map(self._most_usd, keys), default=0.0)
