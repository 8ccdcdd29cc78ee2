"""Holds that an operator sets on one object: keep it up until an instant, or leave it alone until further notice.

Both are annotations, so that they work without Ebbtide's commands and everyone sees them. An unreadable value also
counts as a hold: an operator wanted one, for an unknown time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ebbtide.vocabulary.labels import KEEP_UNTIL, PAUSED


@dataclass(frozen=True, slots=True)
class Hold:
    """`until` is None for a hold without an end; a pause also forbids scaling up."""

    until: datetime | None
    why: str
    pause: bool = False

    def holds_at(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def hold_of(annotations: Mapping[str, str]) -> Hold | None:
    """Return the hold of an object's annotations. A pause takes precedence."""
    if PAUSED in annotations:
        return Hold(None, f"paused: {annotations[PAUSED] or 'no reason given'}", pause=True)
    return hold_until(annotations, KEEP_UNTIL)


def hold_until(annotations: Mapping[str, str], key: str) -> Hold | None:
    """Return the hold of one annotation; a hold with an unreadable instant does not end."""
    if key not in annotations:
        return None
    text = annotations[key]
    try:
        until = datetime.fromisoformat(text)
        utc = until.astimezone(UTC)
    except (ValueError, OverflowError):  # 9999-12-31T23:59:59-05:00 is later than any instant in UTC
        return Hold(None, f"{key} is {text!r}: wanted an instant, for example 2026-11-21T22:00:00Z")
    if until.tzinfo is None:
        return Hold(None, f"{key} is {text!r}: wanted a zone too, for example 2026-11-21T22:00:00Z")
    return Hold(utc, f"kept until {until.isoformat()}")
