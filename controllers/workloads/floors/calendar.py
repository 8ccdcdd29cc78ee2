"""The floor of a service from its calendar: business hours, and dated events. Pure.

Reacting is too late where a pod takes minutes to be there. So a floor stands `lead` before it is needed, which is the
time that a node and a pod on it take, and ends on the clock. Of several the highest counts. A holiday is closed.
"""

from dataclasses import dataclass
from datetime import datetime

from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, wall_to_instant
from ebbtide.vocabulary.workloads import FloorPolicy, PlannedEvent


@dataclass(frozen=True, slots=True)
class FloorNow:
    """The pods that there are at least now, why, and until when; `until` is None if no change is in sight."""

    pods: int
    reason: str  # in kebab case: "at-min", "business-hours", "event", or "before-" one of the last two
    until: datetime | None


def floor_at(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> FloorNow:
    """The floor that holds at `now` (aware), within `least` and `most`; `until` is when number or reason change."""
    pods, reason = _stands(now, policy, hours)
    edge = _next_edge(now, policy, hours)
    while edge is not None and _stands(edge, policy, hours) == (pods, reason):
        edge = _next_edge(edge, policy, hours)
    return FloorNow(pods, reason, edge)


def _stands(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> tuple[int, str]:
    pods, reason = policy.least, "at-min"
    if (at_open := _above_least(policy)) and not _closed(policy, hours).is_open(now):
        pods, reason = at_open, "business-hours" if hours.is_open(now) else "before-business-hours"
    for event in policy.events:
        start = _start(event, hours)
        if event.pods > pods and start - policy.lead <= now < start + event.lasting:
            pods, reason = event.pods, "event" if start <= now else "before-event"
    return max(policy.least, min(pods, policy.most)), reason


def _next_edge(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> datetime | None:
    """The next instant at which anything of the calendar begins or ends."""
    starts = [(_start(event, hours), event.lasting) for event in policy.events]
    edges = [edge for start, lasting in starts for edge in (start - policy.lead, start, start + lasting)]
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


def _start(event: PlannedEvent, hours: BusinessHours) -> datetime:
    return wall_to_instant(hours.timezone, event.day, event.at, last=False)
