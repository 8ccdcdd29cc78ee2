"""A service's floor by its calendar (business hours, planned nights, dated events), and the decision. Pure.

If a pod takes minutes to start, reacting to load is too late. So a floor begins `lead` before it is needed, the time in
which a node and a pod start, and ends as scheduled. The highest of several floors counts. Holidays are closed: a floor
on a holiday needs an event, and planned nights apply as on any day.

While clocks disagree, the highest floor by any clock counts. Lowering a floor needs a trusted clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from controllers.doubt import Doubt
from ebbtide.vocabulary.windows import BusinessHours, DisruptionWindow, wall_to_instant
from ebbtide.vocabulary.workloads import FloorPolicy, PlannedNight

_DAY = timedelta(days=1)
_HORIZON = timedelta(days=14)  # a night that lasts a day repeats without end, and changes nothing


@dataclass(frozen=True, slots=True)
class PodFloorNow:
    """The present minimum of pods, its reason and its end; `until` is None if no change is known."""

    pods: int
    reason: str  # in kebab case: "at-min", "business-hours", "overnight", "event", or "before-" one of the last three
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerState:
    """The present state of one autoscaler."""

    min_pods: int
    max_pods: int  # the object's maximum, not the policy's: an update may be in progress
    paused: bool = False
    kept: bool = False  # an operator's hold forbids lowering
    doubt: str = ""  # why the clock or the config is distrusted


@dataclass(frozen=True, slots=True)
class FloorDecision:
    """`pods` is the intended value of the field."""

    pods: int
    reason: str


class _Stretch(NamedTuple):
    name: str
    start: datetime
    end: datetime
    pods: int


def decide_floor(state: AutoscalerState, floor: PodFloorNow) -> FloorDecision:
    if state.paused:
        return FloorDecision(state.min_pods, "paused")
    pods = min(floor.pods, state.max_pods)
    if pods < state.min_pods and (state.doubt or state.kept):
        return FloorDecision(state.min_pods, "in-doubt" if state.doubt else "kept")
    return FloorDecision(pods, floor.reason)


def floor_at(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> PodFloorNow:
    """Return the floor at `now` (aware), between `least` and `most`; at `until` the number or the reason changes."""
    pods, reason = _pods_and_reason(now, policy, hours)
    edge = _next_edge(now, policy, hours)
    while edge is not None and _pods_and_reason(edge, policy, hours) == (pods, reason):
        edge = _next_edge(edge, policy, hours) if edge - now < _HORIZON else None
    return PodFloorNow(pods, reason, edge)


def highest_floor(now: datetime, policy: FloorPolicy, hours: BusinessHours, doubt: Doubt) -> PodFloorNow:
    """Return the highest floor by any clock; its end is known only while clocks agree."""
    floor = max((floor_at(instant, policy, hours) for instant in doubt.instants(now)), key=attrgetter("pods"))
    return replace(floor, until=None) if doubt.leads else floor


def _pods_and_reason(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> tuple[int, str]:
    pods, reason = policy.least, "at-min"
    if (open_pods := _open_pods(policy)) and not _closed(policy, hours).is_open(now):
        pods, reason = open_pods, "business-hours" if hours.is_open(now) else "before-business-hours"
    for stretch in _stretches(now, policy, hours):
        if stretch.pods > pods and stretch.start - policy.lead <= now < stretch.end:
            pods, reason = stretch.pods, stretch.name if stretch.start <= now else f"before-{stretch.name}"
    return max(policy.least, min(pods, policy.most)), reason


def _next_edge(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> datetime | None:
    """Return the next instant at which any entry of the calendar begins or ends."""
    stretches = _stretches(now, policy, hours)
    edges = [edge for stretch in stretches for edge in (stretch.start - policy.lead, stretch.start, stretch.end)]
    if _open_pods(policy):
        changes = _closed(policy, hours).next_change(now), hours.next_change(now)
        edges += [change for change in changes if change is not None]
    return min((edge for edge in edges if edge > now), default=None)


def _open_pods(policy: FloorPolicy) -> int:
    """Return the minimum in business hours; 0 if it does not exceed `least`."""
    return policy.open if policy.open is not None and policy.open > policy.least else 0


def _closed(policy: FloorPolicy, hours: BusinessHours) -> DisruptionWindow:
    """Return the closed time minus its last `lead`, as the guard does for budgets."""
    return DisruptionWindow(hours=hours, closing_guard=policy.lead)


def _stretches(now: datetime, policy: FloorPolicy, hours: BusinessHours) -> Iterator[_Stretch]:
    """Yield all events, and the nights around now. A night lasts from `lead` before its start for at most a day."""
    for event in policy.events:
        start = wall_to_instant(hours.timezone, event.day, event.at, last=False)
        yield _Stretch("event", start, start + event.lasting, event.pods)
    for start, night in nights_around(now, policy.overnight, policy.lead, hours):
        yield _Stretch("overnight", start, start + night.lasting, night.pods)


def nights_around(
    now: datetime, overnight: Sequence[PlannedNight], lead: timedelta, hours: BusinessHours
) -> Iterator[tuple[datetime, PlannedNight]]:
    """Yield the starts of the planned nights from yesterday to the first one whose lead has not begun."""
    today = hours.local(now).date()
    for offset in range(-1, 2 + -(-lead // _DAY)):
        for night in overnight:
            yield wall_to_instant(hours.timezone, today + offset * _DAY, night.at, last=False), night
