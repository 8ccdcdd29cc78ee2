"""When a job with checkpoints saves, and what an interruption leaves of it: arithmetic, so a long job plans no events.

A job that began, or went on, works for `every_s`, saves for `takes_s`, works again; nothing is saved at its end. A save
counts once it is whole. So whatever ends a job hard takes at most the work of one interval from it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.settings.sections.workers import WorkerSettings

SAVE_S = 10.0
"""How long a save takes, and no longer than the pool's `saveWithin`: a gigabyte at 100 MB/s. An assumption, no figure
of anybody's jobs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one attempt, in seconds: the work done, the part of it that is saved, and the time that saving took."""

    done_s: float
    kept_s: float
    saving_s: float


@dataclass(frozen=True, slots=True)
class Saves:
    every_s: float
    takes_s: float

    def lasts(self, work_s: float) -> float:
        """How long an attempt takes that does so much work."""
        return work_s + self.takes_s * max(0, math.ceil(work_s / self.every_s) - 1)

    def standing(self, ran_s: float) -> Standing:
        """After so many seconds of an attempt that is not at its end."""
        rounds, into = divmod(ran_s, self.every_s + self.takes_s)
        kept = rounds * self.every_s
        return Standing(
            done_s=kept + min(into, self.every_s),
            kept_s=kept,
            saving_s=rounds * self.takes_s + max(0.0, into - self.every_s),
        )

    def rest_s(self, ran_s: float) -> float:
        """How long it takes until all that was done is saved: the rest of a save under way, or one more."""
        into = ran_s % (self.every_s + self.takes_s)
        if into == 0:
            return 0.0
        return self.takes_s - max(0.0, into - self.every_s)


def saves_of(workers: Mapping[str, WorkerSettings]) -> dict[str, Saves]:
    """By pool, of those with checkpoints."""
    return {
        name: Saves(
            every_s=pool.checkpoints.every.total_seconds(),
            takes_s=min(SAVE_S, pool.checkpoints.save_within.total_seconds()),
        )
        for name, pool in workers.items()
        if pool.checkpoints is not None
    }
