"""What an operator asks of one object: keep it up until an instant, or leave it alone until told otherwise.

Both are annotations, so that they work without us and are seen by everyone. A value that cannot be read holds too: it
says that somebody wanted a hold, and not for how long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED


@dataclass(frozen=True, slots=True)
class Hold:
    """`until` is None when it does not end by itself; a pause also forbids raising."""

    until: datetime | None
    why: str
    pause: bool = False

    def holds_at(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def hold_of(annotations: Mapping[str, str]) -> Hold | None:
    """The hold that an object's annotations ask for; a pause wins."""
    if PAUSED in annotations:
        return Hold(None, f"paused: {annotations[PAUSED] or 'no reason given'}", pause=True)
    if KEEP_UNTIL not in annotations:
        return None
    text = annotations[KEEP_UNTIL]
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return Hold(None, f"{KEEP_UNTIL} is {text!r}: wanted an instant, for example 2026-11-21T22:00:00Z")
    if until.tzinfo is None:
        return Hold(None, f"{KEEP_UNTIL} is {text!r}: wanted a zone too, for example 2026-11-21T22:00:00Z")
    return Hold(until.astimezone(UTC), f"kept until {until.isoformat()}")
