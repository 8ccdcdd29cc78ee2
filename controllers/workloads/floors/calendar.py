"""The floor of a service from its calendar: business hours, work that is planned for each night, dated events. Pure.

Reacting is too late where a pod takes minutes to be there. So a floor stands `lead` before it is needed, which is the
time that a node and a pod on it take, and ends on the clock. Of several the highest counts. A holiday is closed: its
own floor is an event, and nights count on it as on any day.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, wall_to_instant
from ebbtide.vocabulary.workloads import FloorPolicy

_DAY = timedelta(days=1)
_IN_SIGHT = timedelta(days=14)  # a night that lasts a day comes again and again, and changes nothing


@dataclass(frozen=True, slots=True)
class FloorNow:
    """The pods that there are at least now, why, and until when; `until` is None if no change is in sight."""

    pods: int
    reason: str  # in kebab case: "at-min", "business-hours", "overnight", "event", or "before-" one of the last three
    until: datetime | None


class _Stretch(NamedTuple):
    name: str
    start: datetime
    end: datetime
    pods: int


def floor_at(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> FloorNow:
    """The floor that holds at `now` (aware), within `least` and `most`; `until` is when number or reason change."""
    pods, reason = _stands(now, policy, hours)
    edge = _next_edge(now, policy, hours)
    while edge is not None and _stands(edge, policy, hours) == (pods, reason):
        edge = _next_edge(edge, policy, hours) if edge - now < _IN_SIGHT else None
    return FloorNow(pods, reason, edge)


def _stands(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> tuple[int, str]:
    pods, reason = policy.least, "at-min"
    if (at_open := _above_least(policy)) and not _closed(policy, hours).is_open(now):
        pods, reason = at_open, "business-hours" if hours.is_open(now) else "before-business-hours"
    for it in _stretches(now, policy, hours):
        if it.pods > pods and it.start - policy.lead <= now < it.end:
            pods, reason = it.pods, it.name if it.start <= now else f"before-{it.name}"
    return max(policy.least, min(pods, policy.most)), reason


def _next_edge(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> datetime | None:
    """The next instant at which anything of the calendar begins or ends."""
    each = _stretches(now, policy, hours)
    edges = [edge for it in each for edge in (it.start - policy.lead, it.start, it.end)]
    if _above_least(policy):
        changes = _closed(policy, hours).next_change(now), hours.next_change(now)
        edges += [change for change in changes if change is not None]
    return min((edge for edge in edges if edge > now), default=None)


def _above_least(policy: FloorPolicy) -> int:
    """The pods of business hours; 0 where they change nothing."""
    return policy.open if policy.open is not None and policy.open > policy.least else 0


def _closed(policy: FloorPolicy, hours: BusinessHours) -> DisruptionWindow:
    """The closed time without its last `lead`, as budgets have it with their guard."""
    return DisruptionWindow(hours=hours, closing_guard=policy.lead)


def _stretches(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> Iterator[_Stretch]:
    """All events, and the nights around now: one stands from its lead before its start to a day after it at most."""
    for event in policy.events:
        start = wall_to_instant(hours.timezone, event.day, event.at, last=False)
        yield _Stretch("event", start, start + event.lasting, event.pods)
    today = hours.local(now).date()
    for offset in range(-1, 2 + -(-policy.lead // _DAY)):
        for night in policy.overnight:
            start = wall_to_instant(hours.timezone, today + offset * _DAY, night.at, last=False)
            yield _Stretch("overnight", start, start + night.lasting, night.pods)
