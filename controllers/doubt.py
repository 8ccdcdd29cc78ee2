"""Doubt about the clock or the config, and the instants that count meanwhile. Pure.

While clocks disagree, the controllers cannot know which one is right. A protection of pods applies if the time of *any*
clock requires it: awake, a floor, a closed budget, an operator's hold. Nothing is lowered or opened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason for which the clock or the config is distrusted. False if both are trusted.

    `leads`: how far other clocks are ahead of this process's clock; empty while clocks agree.
    """

    why: str = ""
    leads: tuple[timedelta, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.why)

    def others(self, now: datetime) -> Sequence[datetime]:
        """Return the times of the other clocks when this process's clock reads `now`; nothing while clocks agree."""
        return [now + lead for lead in self.leads]

    def instants(self, now: datetime) -> Sequence[datetime]:
        """Return the time of each clock, this process's first."""
        return [now, *self.others(now)]


TRUST = Doubt()
