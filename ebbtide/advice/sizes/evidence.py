"""What was seen of one container, as values. CPU in millicores, memory in MiB."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

CLOSE, NEAR = 0.10, 0.25
"""How far the two halves of the evidence may differ for a high and for a medium confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How much is looked at, and how much has to be there. A `day` is what days are counted in."""

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
class Figure:
    """One amount of the whole evidence, and of its older and its newer half."""

    whole: float
    older: float
    newer: float

    @property
    def apart(self) -> float:
        most = max(self.older, self.newer)
        return abs(self.newer - self.older) / most if most else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Of the busiest pod. None: nobody knows; `0` kills and a share of 0 are known."""

    days: int  # on which it ran and was seen
    cpu: Figure | None = None  # enough for 95 % of the time
    memory: Figure | None = None  # the most
    growing: bool = False  # its memory's peak was higher each day, and in the end by a tenth at least
    kills: int | None = None  # for lack of memory
    killed_at: int | None = None  # what it asked for then, at most
    throttled: float | None = None  # the share of periods in which its limit held it back, as for CPU
    throttled_at: int | None = None  # what it asked for then, at most
    gpu_busy: Figure | None = None  # percent of its busiest GPU, enough for 95 % of the time
    gpu_memory: Figure | None = None  # the most of one GPU
    gpus_used: int | None = None  # of one pod, at most


def confidence(figure: Figure, days: int, evidence: Evidence) -> Confidence:
    """By whether both halves say the same, and high from twice the least evidence on."""
    if figure.apart > NEAR:
        return Confidence.LOW
    enough = days >= 2 * evidence.least
    return Confidence.HIGH if figure.apart <= CLOSE and enough else Confidence.MEDIUM
