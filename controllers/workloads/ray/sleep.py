"""The decision about `spec.suspend` of a Ray cluster. Pure.

A suspension deletes all pods. So it requires evidence that nothing has been attached for long enough; waking requires
none. The first rule that applies decides.
"""

from dataclasses import dataclass
from datetime import timedelta

from ebbtide.vocabulary.workloads import Purpose, Sleep, SleepWhen, Wake

SPEC_AFTER = timedelta(minutes=1)
"""Idle time before a pending spec may suspend the cluster. It must be longer than the pause between two jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterState:
    """All facts about one cluster on which the decision depends."""

    suspended: bool
    purpose: Purpose | None = None  # of the suspension; None: awake, or suspended by another writer
    hours_open: bool = False  # by any clock
    idle_for: timedelta | None = None  # None: not known to be idle
    drivers: bool | None = False  # a pool of drivers requests workers; None: unknown
    wake_asked: bool = False
    pending: bool = False  # a declared spec that only a sleeping cluster can take over
    headless: bool = False  # nothing can run: no head was ever ready under this spec, or none for long enough
    may_interrupt: bool = False  # an operator lets the pending spec interrupt running work
    paused: bool = False
    kept: bool = False  # an operator's hold keeps the cluster awake
    doubt: str = ""  # why the clock or the config is distrusted


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepDecision:
    suspend: bool
    reason: str
    purpose: Purpose | None = None  # of a suspension that begins now


def _up(reason: str) -> SleepDecision:
    return SleepDecision(suspend=False, reason=reason)


def _down(reason: str, purpose: Purpose | None = None) -> SleepDecision:
    return SleepDecision(suspend=True, reason=reason, purpose=purpose)


def decide_sleep(state: RayClusterState, sleep: Sleep) -> SleepDecision:
    if state.paused:
        return SleepDecision(suspend=state.suspended, reason="paused")
    return _if_asleep(state, sleep) if state.suspended else _if_awake(state, sleep)


def _if_asleep(state: RayClusterState, sleep: Sleep) -> SleepDecision:
    """Wake the cluster if it is needed, even if the clock is distrusted: being awake interrupts nothing."""
    if state.purpose is Purpose.SPEC:
        return _down("spec-pending") if state.pending else _up("spec-done")
    if state.kept:
        return _up("kept-awake")
    need = _need(state, sleep)
    return _up(need) if need else _down("asleep")


def _if_awake(state: RayClusterState, sleep: Sleep) -> SleepDecision:
    """Suspend the cluster only if no rule keeps it awake."""
    if state.doubt:
        return _up("in-doubt")
    if state.kept:
        return _up("kept-awake")
    if state.pending and state.may_interrupt:
        return _down("spec-pending-in-maintenance", Purpose.SPEC)
    if state.pending and state.headless:  # requested drivers wait for the new head
        return _down("spec-pending-without-a-head", Purpose.SPEC)
    need = _need(state, sleep)
    if need and not state.pending:
        return _up(need)
    if state.idle_for is None:
        return _up("not-known-idle")
    if state.drivers is not False:
        return _up("drivers-wanted" if state.drivers else "drivers-unknown")
    if state.pending and state.idle_for >= SPEC_AFTER:
        return _down("spec-pending-and-idle", Purpose.SPEC)
    if need:
        return _up(need)
    if state.idle_for < sleep.after:
        return _up("idle-but-recent")
    return _down("idle-for-long", Purpose.REST)


def _need(state: RayClusterState, sleep: Sleep) -> str:
    """Return why the cluster must be awake even if it is idle; empty if it need not be."""
    if sleep.when is SleepWhen.NEVER:
        return "never-sleeps"
    if sleep.when is SleepWhen.OUTSIDE_HOURS and state.hours_open:
        return "business-hours"
    if Wake.BUSINESS_HOURS in sleep.wake and state.hours_open:
        return "business-hours"
    if Wake.QUEUE in sleep.wake and state.drivers:
        return "drivers-wanted"
    return "wake-asked" if Wake.MANUAL in sleep.wake and state.wake_asked else ""
