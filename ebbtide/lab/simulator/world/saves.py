"""The saves of a job with checkpoints, and the work that survives an interruption. Arithmetic: no events are planned.

An attempt works for `every_s`, saves for `takes_s`, and works again; it does not save at its end. A save counts once it
is complete. So a job that is killed loses at most the work of one interval.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.settings.sections.workers import WorkerSettings

SAVE_S = 10.0
"""The duration of a save, at most the pool's `saveWithin`: a gigabyte at 100 MB/s. An assumption, not measured."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an attempt, in seconds: work done, the saved part of it, and time spent saving."""

    done_s: float
    saved_s: float
    saving_s: float


@dataclass(frozen=True, slots=True)
class Saves:
    every_s: float
    takes_s: float

    def lasts(self, work_s: float) -> float:
        """The duration of an attempt with `work_s` of work."""
        return work_s + self.takes_s * max(0, math.ceil(work_s / self.every_s) - 1)

    def standing(self, ran_s: float) -> Standing:
        """The state of an attempt after `ran_s`, before its end."""
        rounds, into = divmod(ran_s, self.every_s + self.takes_s)
        saved_s = rounds * self.every_s
        return Standing(
            done_s=saved_s + min(into, self.every_s),
            saved_s=saved_s,
            saving_s=rounds * self.takes_s + max(0.0, into - self.every_s),
        )

    def until_saved_s(self, ran_s: float) -> float:
        """The time until all work is saved: the remainder of an active save, or one more."""
        into = ran_s % (self.every_s + self.takes_s)
        if into == 0:
            return 0.0
        return self.takes_s - max(0.0, into - self.every_s)


def saves_of(workers: Mapping[str, WorkerSettings]) -> dict[str, Saves]:
    """The saves of each pool with checkpoints."""
    return {
        name: Saves(
            every_s=pool.checkpoints.every.total_seconds(),
            takes_s=min(SAVE_S, pool.checkpoints.save_within.total_seconds()),
        )
        for name, pool in workers.items()
        if pool.checkpoints is not None
    }
