"""When a workload is awake by the calendar, and the decision about its number of pods. Pure.

The decision has no memory: a controller that was killed decides the same again. A workload is awake from its `lead`
before business hours, the time that a node and a pod take to start, until `after` their end. Planned nights count on
holidays, too. Business hours contain clock changes and holidays (`ebbtide.vocabulary.windows`).

Waking requires no knowledge: while clocks disagree, a workload is awake if it is by any of them. Sleep requires a
trusted clock. In business hours only an operator lowers the number.

A workload that sleeps when idle is awake until its use was measured and it is idle. Once asleep it cannot be measured,
so it stays asleep until the calendar or an operator wakes it.

Beside another writer of the number it holds, with one exception: a workload that another manager put to sleep is woken
at the next opening. The time of that manager's last write shows whether an opening has passed since, so each opening
takes the number over once, and a manager that writes it again keeps it until the next one. While clocks disagree, the
opening counts when it has passed by all of them: by one that is ahead it would seem to pass after each write.

`when: never` is the first step of removing `sleep`: it wakes what the controller itself put to sleep, and nothing else.
It takes the number over from a manager that agreed with the controller's, once, since a later write ends the ownership.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from controllers.doubt import Doubt
from controllers.workloads.floors.calendar import nights_around
from controllers.workloads.sleep.idle import Use
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import SleepPolicy

_EDGES = 400  # more than a year of days: a workload whose nights join never sleeps


@dataclass(frozen=True, slots=True)
class SleepNow:
    """`until` is the next instant at which it wakes or falls asleep; None if that never happens."""

    awake: bool
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleState:
    """All facts about one workload that the decision depends on."""

    replicas: int
    paused: bool = False
    kept: bool = False  # an operator wants nothing lowered
    wake_asked: bool = False
    sleep_asked: bool = False
    doubt: str = ""  # why clock or config are distrusted
    ours: bool = True  # the workload controller is among the owners of the number
    other_writer: str = ""  # a manager that writes another number
    opened_since: bool = False  # by every clock the calendar has woken the workload since the number was last written
    changed_recently: bool = False
    use: Use = Use.IDLE  # of a workload that sleeps when idle and is not asleep


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """`replicas` is the number that the workload should have."""

    replicas: int
    reason: str


def decide_replicas(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> ScaleDecision:
    if state.paused:
        return ScaleDecision(state.replicas, "paused-by-an-operator")
    if policy.never and not state.ours:
        return ScaleDecision(state.replicas, calendar.reason)
    awake, reason = _wanted(state, policy, calendar)
    wanted = max(policy.replicas, state.replicas) if awake else policy.asleep
    if wanted == state.replicas:
        more = reason == calendar.reason and wanted > policy.replicas
        return ScaleDecision(wanted, "more-than-declared" if more else reason)
    if state.other_writer and not (policy.never or _opening_wakes(state, policy, calendar)):
        return ScaleDecision(state.replicas, "another-writer-of-replicas")
    if wanted < state.replicas and state.doubt:
        return ScaleDecision(state.replicas, "clock-or-config-in-doubt")
    if state.changed_recently:
        return ScaleDecision(state.replicas, "changed-recently")
    return ScaleDecision(wanted, reason)


def _opening_wakes(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> bool:
    return state.replicas <= policy.asleep and calendar.awake and state.opened_since


def _wanted(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> tuple[bool, str]:
    if policy.never:
        return True, calendar.reason
    if state.kept:
        return True, "kept-awake"
    if state.wake_asked and policy.manual:
        return True, "wake-asked"
    if state.sleep_asked:
        return False, "sleep-asked"
    if calendar.awake or policy.idle_after is None or state.replicas == policy.asleep:
        return calendar.awake, calendar.reason
    return state.use is not Use.IDLE, state.use


def sleep_at(now: datetime, policy: SleepPolicy, hours: BusinessHours) -> SleepNow:
    """Return the state at `now` (aware) by the calendar alone."""
    if policy.never:
        return SleepNow(awake=True, reason="never-sleeps", until=None)
    reason = _awake(now, policy, hours)
    until = _next_edge(now, policy, hours)
    for _ in range(_EDGES):
        if until is None or bool(_awake(until, policy, hours)) != bool(reason):
            return SleepNow(bool(reason), reason or "outside-business-hours", until)
        until = _next_edge(until, policy, hours)
    return SleepNow(bool(reason), reason or "outside-business-hours", None)


def awake_by_any(now: datetime, policy: SleepPolicy, hours: BusinessHours, doubt: Doubt) -> SleepNow:
    """Return the state by the first clock by which it is awake; its end is known only while clocks agree."""
    states = [sleep_at(instant, policy, hours) for instant in doubt.instants(now)]
    state = next((state for state in states if state.awake), states[0])
    return replace(state, until=None) if doubt.leads else state


def opened_between(then: datetime, now: datetime, policy: SleepPolicy, hours: BusinessHours) -> bool:
    """True if the calendar woke the workload after `then`, and no later than `now`."""
    state = sleep_at(then, policy, hours)
    if state.awake and state.until is not None:
        state = sleep_at(state.until, policy, hours)
    return not state.awake and state.until is not None and state.until <= now


def _awake(now: datetime, policy: SleepPolicy, hours: BusinessHours) -> str:
    """Return why it is awake; empty if it is not."""
    if hours.is_open(now):
        return "business-hours"
    spans = hours.open_spans(now - policy.after, now + policy.lead + datetime.resolution)
    if (span := next(spans, None)) is not None:
        return "after-business-hours" if span.end <= now else "before-business-hours"
    for start, night in nights_around(now, policy.overnight, policy.lead, hours):
        if start - policy.lead <= now < start + night.lasting:
            return "overnight" if start <= now else "before-overnight"
    return ""


def _next_edge(now: datetime, policy: SleepPolicy, hours: BusinessHours) -> datetime | None:
    """Return the next instant at which any entry of the calendar may begin or end."""
    return min((edge for edge in _edges(now, policy, hours) if edge > now), default=None)


def _edges(now: datetime, policy: SleepPolicy, hours: BusinessHours) -> Iterator[datetime]:
    for shift in (policy.lead, -policy.after):
        if (change := hours.next_change(now + shift)) is not None:
            yield change - shift
    for start, night in nights_around(now, policy.overnight, policy.lead, hours):
        yield start - policy.lead
        yield start + night.lasting
