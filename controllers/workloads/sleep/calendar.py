"""The times at which a workload is awake by the calendar, and the decision about its number of pods. Pure.

The decision has no memory: after a restart the controller decides the same again. A workload is awake from `lead`
before business hours, the time in which a node and a pod start, until `after` the end of business hours. Planned nights
also apply on holidays. Business hours include clock changes and holidays (`ebbtide.vocabulary.windows`).

While clocks disagree, a workload is awake if any clock requires it. Sleep requires a trusted clock. In business hours
only an operator lowers the number.

A workload that sleeps when idle stays awake until its use has been measured as idle. While asleep it has no use to
measure, so it stays asleep until the calendar or an operator wakes it.

If another manager writes the number, the controller holds, with one exception: at the next opening it wakes a workload
that another manager put to sleep. The time of that manager's last write shows whether an opening has passed since, so
each opening takes over the number once, and a manager that writes again keeps it until the next opening. While clocks
disagree, an opening counts only when it has passed by all clocks: by a clock that is ahead it would seem to pass after
each write.

An adopted object belongs to a chart or a tool of a team, which is an owner of the number from its creation on. The
controller takes the number over once after each opening and each closing, if that owner's last write is older: a
workload sleeps at the closing, and a lower number rises at the opening. An owner that writes again keeps its number
until the calendar's next change. If an admission policy keeps the number, only writes through `scale` count, since no
other write can change it, and the number is the controller's, whatever managedFields say.

An object that an autoscaler scales, or that an operator owns, is never lowered. The controller raises it if it slept.

`when: never` is the first step of removing `sleep`: it wakes only workloads that the controller itself put to sleep. It
takes over the number, once, from a manager that agreed with the controller's number, since a later write ends the
controller's ownership.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from controllers.doubt import Doubt
from controllers.workloads.floors.calendar import nights_around
from controllers.workloads.sleep.idle import Use
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import SleepPolicy

_EDGES = 400  # more than a year of days; a workload whose nights follow each other without a gap never sleeps


@dataclass(frozen=True, slots=True)
class SleepNow:
    """`until` is the next instant at which the workload wakes or falls asleep; None if there is none."""

    awake: bool
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleState:
    """All facts about one workload on which the decision depends."""

    replicas: int
    paused: bool = False
    kept: bool = False  # an operator's hold forbids lowering
    wake_asked: bool = False
    sleep_asked: bool = False
    doubt: str = ""  # why the clock or the config is distrusted
    ours: bool = True  # the workload controller is an owner of the number, or a policy keeps the number for it
    other_writer: str = ""  # a manager that writes another number
    unsuitable: str = ""  # why the object must not sleep
    blind: str = ""  # why its autoscalers are unknown, so that it may be unsuitable
    turned_since: bool = False  # by every clock, an opening (or, if adopted, a closing) has passed since the last write
    changed_recently: bool = False
    use: Use = Use.IDLE  # measured only if the workload sleeps when idle and is awake


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """`replicas` is the number that the workload should have."""

    replicas: int
    reason: str


def decide_replicas(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> ScaleDecision:
    if state.paused:
        return ScaleDecision(state.replicas, "paused-by-an-operator")
    if (policy.never or state.unsuitable) and not state.ours:
        return ScaleDecision(state.replicas, state.unsuitable or calendar.reason)
    awake, reason = _wanted(state, policy, calendar)
    wanted = max(policy.replicas, state.replicas) if awake else policy.asleep
    if wanted == state.replicas:
        more = reason == calendar.reason and wanted > policy.replicas
        return ScaleDecision(wanted, "more-than-declared" if more else reason)
    if state.other_writer and not (policy.never or state.unsuitable or _takes_over(state, policy, calendar)):
        return ScaleDecision(state.replicas, "another-writer-of-replicas")
    if wanted < state.replicas and state.doubt:
        return ScaleDecision(state.replicas, "clock-or-config-in-doubt")
    if wanted < state.replicas and state.blind:
        return ScaleDecision(state.replicas, "autoscalers-unknown")
    if state.changed_recently:
        return ScaleDecision(state.replicas, "changed-recently")
    return ScaleDecision(wanted, reason)


def _takes_over(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> bool:
    """Return True if the controller may write although another manager did."""
    return state.turned_since and (policy.adopted or (state.replicas <= policy.asleep and calendar.awake))


def _wanted(state: ScaleState, policy: SleepPolicy, calendar: SleepNow) -> tuple[bool, str]:
    if state.unsuitable:
        return True, state.unsuitable
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
    """Return the state at `now` (aware) by the calendar, without operators, other writers and use."""
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
    """Return the state by the first clock by which the workload is awake; its end is known only if clocks agree."""
    states = [sleep_at(instant, policy, hours) for instant in doubt.instants(now)]
    state = next((state for state in states if state.awake), states[0])
    return replace(state, until=None) if doubt.leads else state


def opened_between(then: datetime, now: datetime, policy: SleepPolicy, hours: BusinessHours) -> bool:
    """Return True if the calendar woke the workload after `then` and no later than `now`."""
    state = sleep_at(then, policy, hours)
    if state.awake and state.until is not None:
        state = sleep_at(state.until, policy, hours)
    return not state.awake and state.until is not None and state.until <= now


def turned_between(then: datetime, now: datetime, policy: SleepPolicy, hours: BusinessHours) -> bool:
    """Return True if the calendar woke the workload, or sent it to sleep, after `then` and no later than `now`."""
    until = sleep_at(then, policy, hours).until
    return until is not None and until <= now


def _awake(now: datetime, policy: SleepPolicy, hours: BusinessHours) -> str:
    """Return why the workload is awake by the calendar; empty if it is asleep."""
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
