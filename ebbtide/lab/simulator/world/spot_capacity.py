"""The spot capacity of a replay: of a file, or synthetic from the seed, for the groups of a stack.

The synthetic one alternates between hours with and without capacity, of exponential length, for each instance type: in
all zones together, and in each zone alone. Types are drawn separately, so a shortage of one says nothing about another.
The lengths are those of us-east-2 in a public measurement of one p3.2xlarge in two zones over 45 days from 2023-02-15:
both zones had none at once for 19 % of the time, 1.9 hours on average, and each one alone for 11 % of the rest. The
nine zones of that measurement range from 10 to 83 %. It has no newer type.

Source: github.com/skypilot-org/spot-traces, the data of "Can't Be Late: Optimizing Spot Instance Savings under
Deadlines" (NSDI 2024). It has no licence, so only these figures are used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Protocol

from ebbtide.lab.simulator.cluster.capacity import Span, SpotCapacity, joined
from ebbtide.lab.simulator.trace.spot_capacity import CapacityEvent, CapacityFile, CapacityRow
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.zones import is_id

SYNTHETIC = "synthetic"
TOGETHER_WITHOUT_H, TOGETHER_WITH_H = 1.9, 8.0
ALONE_WITHOUT_H, ALONE_WITH_H = 1.0, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The replayed time. `start` is second 0, with a zone."""

    start: datetime
    end_s: float
    seed: int


class CapacitySource(Protocol):
    """The capacity of an instance type in a zone of a region; times in seconds from the start of the period."""

    @property
    def name(self) -> str:
        """The value of `--spot-capacity`."""
        ...

    @property
    def origin(self) -> str:
        """The source of the data, for people."""
        ...

    def without(self, instance_type: str, zone: str, period: Period) -> tuple[Span, ...]: ...

    def interrupted(self, instance_type: str, zone: str, period: Period) -> tuple[float, ...]: ...

    def sentences(self) -> Iterator[str]:
        """The assumptions."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedCapacity:
    file: CapacityFile

    @property
    def name(self) -> str:
        return self.file.name

    def without(self, instance_type: str, zone: str, period: Period) -> tuple[Span, ...]:
        rows = self._rows(CapacityEvent.NO_CAPACITY, instance_type, zone)
        spans = [(_second(row, row.begin, period), _second(row, row.until, period)) for row in rows]
        return joined([(max(0.0, begin), until) for begin, until in spans if until > 0 and begin < period.end_s])

    def interrupted(self, instance_type: str, zone: str, period: Period) -> tuple[float, ...]:
        rows = self._rows(CapacityEvent.INTERRUPTION, instance_type, zone)
        instants = {_second(row, row.begin, period) for row in rows}
        return tuple(sorted(at for at in instants if 0 <= at < period.end_s))

    @property
    def origin(self) -> str:
        more = f"; {len(self.file.sources) - 3} more" if len(self.file.sources) > 3 else ""
        return "; ".join(self.file.sources[:3]) + more

    def _rows(self, event: CapacityEvent, instance_type: str, zone: str) -> Iterator[CapacityRow]:
        for row in self.file.rows:
            if row.event is event and row.zone in ("", zone) and row.instance_type in ("", instance_type):
                yield row

    def sentences(self) -> Iterator[str]:
        yield f"Spot capacity is that of {self.name} (source: {self.origin})."


@dataclass(frozen=True, slots=True)
class SyntheticCapacity:
    name: str = SYNTHETIC
    origin: str = SYNTHETIC

    def without(self, instance_type: str, zone: str, period: Period) -> tuple[Span, ...]:
        together = _spells(Random(f"{period.seed} {instance_type}"), TOGETHER_WITHOUT_H, TOGETHER_WITH_H, period.end_s)
        alone = _spells(Random(f"{period.seed} {instance_type} {zone}"), ALONE_WITHOUT_H, ALONE_WITH_H, period.end_s)
        return joined([*together, *alone])

    def interrupted(self, instance_type: str, zone: str, period: Period) -> tuple[float, ...]:  # noqa: ARG002 - a source's signature
        return ()

    def sentences(self) -> Iterator[str]:
        yield (
            "Spot capacity is synthetic, drawn from the seed, separately for each type: "
            f"{TOGETHER_WITHOUT_H:g} hours without capacity in all zones after {TOGETHER_WITH_H:g} hours with it on "
            f"average, and in each zone alone {ALONE_WITHOUT_H:g} hour after {ALONE_WITH_H:g}. The lengths are those "
            "of one older GPU type in one region in 2023; your types and region differ."
        )


def _spells(rng: Random, without_h: float, with_h: float, end_s: float) -> Iterator[Span]:
    """Yield alternating spells from a random instant of the process on."""
    lacking = rng.random() < without_h / (without_h + with_h)
    at = 0.0
    while at < end_s:
        until = at + rng.expovariate(1 / (3600 * (without_h if lacking else with_h)))
        if lacking:
            yield at, until
        at, lacking = until, not lacking


def _second(row: CapacityRow, time: float, period: Period) -> float:
    return time - period.start.timestamp() if row.dated else time


def spot_capacity_of(
    source: CapacitySource | None, spot_types: Mapping[str, str], settings: StackSettings, period: Period
) -> SpotCapacity | None:
    """Return the capacity of spot groups; None if capacity is always there. `spot_types`: types by group."""
    if source is None:
        return None
    names = {zone: zone if is_id(zone) else f"{settings.region}{zone}" for zone in settings.cluster.zones}
    return SpotCapacity(
        without={
            group: {zone: source.without(kind, name, period) for zone, name in names.items()}
            for group, kind in spot_types.items()
        },
        interrupted={
            group: {zone: source.interrupted(kind, name, period) for zone, name in names.items()}
            for group, kind in spot_types.items()
        },
    )


def capacity_assumptions(
    source: CapacitySource, capacity: SpotCapacity, spot_types: Mapping[str, str], end_s: float
) -> Iterator[str]:
    """The assumptions of a replay with this capacity: its source, and what it means for each group."""
    yield from source.sentences()
    if not spot_types:
        yield "Spot capacity was requested, but no node group of the stack is of kind spot: it changes nothing."
        return
    yield (
        "A launch without capacity makes no node and costs nothing. The cluster autoscaler notices it within a minute, "
        "tries other groups and leaves the zone of the group alone for 5 to 30 minutes; Karpenter takes the next type "
        "or NodePool, and tries this one again after 3 minutes. Running nodes stay."
    )
    for group, kind in spot_types.items():
        zones = capacity.without[group]
        instants = sum(map(len, capacity.interrupted[group].values()))
        if not instants and not any(zones.values()):
            yield f"{group} ({kind}): the source has no row for its zones {', '.join(zones)}: it always has capacity."
            continue
        shares = ", ".join(f"in zone {zone} {_share(spans, end_s):.0%}" for zone, spans in zones.items())
        at_once = _share(_common(tuple(zones.values())), end_s)
        ends = f". Interruptions of all its nodes in a zone: {instants}" if instants else ""
        yield f"{group} ({kind}) has no capacity, of the time: {shares}, in all zones at once {at_once:.0%}{ends}."


def _common(zones: Sequence[Sequence[Span]]) -> list[Span]:
    """Return the spans that all zones share."""
    shared: list[Span] = list(zones[0]) if zones else []
    for spans in zones[1:]:
        shared = [
            (max(begin, other), min(until, end))
            for begin, until in shared
            for other, end in spans
            if max(begin, other) < min(until, end)
        ]
    return shared


def _share(spans: Sequence[Span], end_s: float) -> float:
    return sum(min(until, end_s) - begin for begin, until in spans if begin < end_s) / end_s
