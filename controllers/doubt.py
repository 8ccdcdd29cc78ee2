"""Doubt about clock or config, and the instants that count meanwhile. Pure.

While clocks disagree, the controllers cannot tell which one is right. Whatever protects pods applies as soon as *any*
clock asks for it: awake, a floor, a closed budget, an operator's hold. Nothing is lowered or opened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why clock or config are distrusted now. False if they are trusted.

    `leads`: by how much other clocks are ahead of this process's; empty while clocks agree.
    """

    why: str = ""
    leads: tuple[timedelta, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.why)

    def others(self, now: datetime) -> Sequence[datetime]:
        """Return what the other clocks say when this process's says `now`; nothing while clocks agree."""
        return [now + lead for lead in self.leads]

    def instants(self, now: datetime) -> Sequence[datetime]:
        """Return what each clock says, this process's first."""
        return [now, *self.others(now)]


TRUST = Doubt()
