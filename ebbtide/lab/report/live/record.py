"""Recorded values of a stack: means of equal steps of time, with gaps where nothing was recorded. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from ebbtide.monitoring.client import UnknownAnswer

Values: TypeAlias = tuple[float | None, ...]
"""One for each step; None where nothing was recorded."""
OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Values by name. In a `recorded` step None is a name whose value is unknown; in other steps nothing is known."""

    values: Mapping[str, Values]
    recorded: tuple[bool, ...]

    @property
    def total(self) -> Values:
        """The sum of the known values; None in a step that has names, but no known value."""
        steps = [numbers_of([values[place] for values in self.values.values()]) for place in range(len(self.recorded))]
        return tuple(
            sum(known) if is_recorded and (known or not self.values) else None
            for known, is_recorded in zip(steps, self.recorded, strict=True)
        )

    def fewer(self, most: int) -> "Band":
        """Return the largest values, and the sum of the others as one."""
        if len(self.values) <= most:
            return self
        ordered = sorted(self.values, key=lambda name: (-(mean(self.values[name]) or 0.0), name))
        largest, smaller = ordered[: most - 1], ordered[most - 1 :]
        others = Band(values={name: self.values[name] for name in smaller}, recorded=self.recorded).total
        return Band(values={**{name: self.values[name] for name in largest}, OTHERS: others}, recorded=self.recorded)


Part: TypeAlias = Band | UnknownAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSeries:
    """Cores, GiB or GPUs. `requested` and `used` are by workload, `paid` by node group."""

    paid: Part
    requested: Part
    used: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    customer: str
    source: str  # which Prometheus
    start: datetime  # aware, in the customer's zone
    step: float  # seconds
    steps: int
    open_spans: tuple[tuple[float, float], ...]  # business hours, seconds from the start
    nodes: Part  # by group
    dollars: Part  # an hour, by group
    cpu: ResourceSeries
    memory: ResourceSeries
    gpus: ResourceSeries | None  # None: the stack has no GPUs
    workers: Part  # running and wanted
    jobs: Part  # by part
    waits: Part  # seconds, by pool: the 95th percentile of the oldest wait in the hour before
    budgets: Part  # open, by reason
    evictions: Part  # in the hour before, by workload
    unremovable: Part  # nodes, by reason

    @property
    def horizon(self) -> float:
        return self.step * self.steps


def missing(record: Record) -> tuple[dict[str, str], bool]:
    """Return the missing parts with reasons, and True if any part is known."""
    parts: dict[str, Part] = {
        name: getattr(record, name)
        for name in ("nodes", "dollars", "workers", "jobs", "waits", "budgets", "evictions", "unremovable")
    }
    for name, resource in (("CPU", record.cpu), ("memory", record.memory), ("GPUs", record.gpus)):
        if resource is not None:
            parts |= {
                f"{name} paid for": resource.paid,
                f"{name} requested": resource.requested,
                f"{name} used": resource.used,
            }
    whys = {name: part.why for name, part in parts.items() if isinstance(part, UnknownAnswer)}
    return whys, len(whys) < len(parts)


def numbers_of(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values; None without any."""
    numbers = numbers_of(values)
    return sum(numbers) / len(numbers) if numbers else None


def gaps_of(recorded: Sequence[bool], step: float) -> tuple[tuple[float, float], ...]:
    """Return the gaps, in seconds from the start."""
    gaps: list[tuple[float, float]] = []
    for place, is_recorded in enumerate(recorded):
        if is_recorded:
            continue
        if gaps and gaps[-1][1] == place * step:
            gaps[-1] = (gaps[-1][0], (place + 1) * step)
        else:
            gaps.append((place * step, (place + 1) * step))
    return tuple(gaps)
