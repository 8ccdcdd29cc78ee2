"""Recorded use of one container, as values. CPU in millicores, memory in MiB."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

CLOSE, NEAR = 0.10, 0.25
"""Largest difference between the halves of the evidence for high and for medium confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Days that are read, and the fewest that suffice. `day` is the length of a day."""

    days: int = 14
    least: int = 7
    day: timedelta = timedelta(days=1)
    step: timedelta = timedelta(minutes=5)
    pod_step: timedelta = timedelta(hours=1)

    @property
    def window(self) -> timedelta:
        return self.days * self.day


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class MeasuredAmount:
    """One amount over all the evidence, and over its older and its newer half."""

    total: float
    older: float
    newer: float

    @property
    def apart(self) -> float:
        most = max(self.older, self.newer)
        return abs(self.newer - self.older) / most if most else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """Use of the busiest pod. None means unknown; 0 is a known value."""

    days: int  # on which it ran and was recorded
    cpu: MeasuredAmount | None = None  # enough for 95 % of the time
    memory: MeasuredAmount | None = None  # the most
    growing: bool = False  # its memory's peak was higher each day, and in the end by a tenth at least
    kills: int | None = None  # OOM kills
    killed_at: int | None = None  # the largest memory request at a kill
    throttled: float | None = None  # share of periods throttled by its limit, not exceeded in 95 % of the time
    throttled_at: int | None = None  # the largest CPU request that was throttled
    gpu_busy: MeasuredAmount | None = None  # percent of its busiest GPU, enough for 95 % of the time
    gpu_memory: MeasuredAmount | None = None  # the most of one GPU
    gpus_used: int | None = None  # of one pod, at most


def confidence(figure: MeasuredAmount, days: int, evidence: Evidence) -> Confidence:
    """Compare both halves; HIGH needs twice the least evidence."""
    if figure.apart > NEAR:
        return Confidence.LOW
    enough = days >= 2 * evidence.least
    return Confidence.HIGH if figure.apart <= CLOSE and enough else Confidence.MEDIUM
