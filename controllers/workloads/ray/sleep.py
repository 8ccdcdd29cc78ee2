"""Whether `spec.suspend` of a Ray cluster is to be true. Pure.

Suspending deletes all pods. So it takes the knowledge that nothing has been attached for long enough; waking takes
none. Of the rules the first that applies decides.
"""

from dataclasses import dataclass
from datetime import timedelta

from ebbtide.vocabulary.workloads import Purpose, Sleep, Wake, When

SPEC_AFTER = timedelta(minutes=1)
"""How long a cluster must be idle before a pending spec may suspend it: between two jobs it is idle, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one cluster now."""

    suspended: bool  # spec.suspend as it is
    purpose: Purpose | None = None  # what it was suspended for; None: by somebody else, or it is awake
    hours_open: bool = False
    idle_for: timedelta | None = None  # None: not known to be idle
    drivers: bool | None = False  # a pool of drivers asks for workers; None: unknown
    wake_asked: bool = False
    pending: bool = False  # a wanted spec that only a sleeping cluster can take over
    headless: bool = False  # no head was ever ready under this spec, or none for so long that nothing can run
    spare: bool = False  # a group has more workers than its minimum
    may_interrupt: bool = False  # an operator lets the pending spec interrupt what runs
    paused: bool = False
    kept: bool = False  # an operator wants nothing lowered
    doubt: str = ""  # why clock or config are not believed


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepDecision:
    suspend: bool
    reason: str
    purpose: Purpose | None = None  # of a suspension that begins now


def _up(reason: str) -> SleepDecision:
    return SleepDecision(suspend=False, reason=reason)


def _down(reason: str, purpose: Purpose | None = None) -> SleepDecision:
    return SleepDecision(suspend=True, reason=reason, purpose=purpose)


def decide_sleep(seen: Seen, sleep: Sleep) -> SleepDecision:
    if seen.paused:
        return SleepDecision(suspend=seen.suspended, reason="paused")
    return _asleep(seen, sleep) if seen.suspended else _awake(seen, sleep)


def _asleep(seen: Seen, sleep: Sleep) -> SleepDecision:
    """Why to wake it. A doubtful clock is no reason against it: being awake interrupts nobody."""
    if seen.purpose is Purpose.SPEC:
        return _down("spec-pending") if seen.pending else _up("spec-done")
    if seen.kept:
        return _up("kept-awake")
    needed = _needed(seen, sleep)
    return _up(needed) if needed else _down("asleep")


def _awake(seen: Seen, sleep: Sleep) -> SleepDecision:
    """Why to leave it awake, or that nothing is left against sleep."""
    if seen.doubt:
        return _up("in-doubt")
    if seen.kept:
        return _up("kept-awake")
    if seen.pending and seen.may_interrupt:
        return _down("spec-pending-in-maintenance", Purpose.SPEC)
    if seen.pending and seen.headless:  # drivers that are wanted wait for the new head
        return _down("spec-pending-without-a-head", Purpose.SPEC)
    stays_up = _needed(seen, sleep)
    if stays_up and not seen.pending:
        return _up(stays_up)
    if seen.idle_for is None:
        return _up("not-known-idle")
    if seen.drivers is not False:
        return _up("drivers-wanted" if seen.drivers else "drivers-unknown")
    if seen.pending and seen.idle_for >= SPEC_AFTER:
        return _down("spec-pending-and-idle", Purpose.SPEC)
    if stays_up:
        return _up(stays_up)
    if seen.idle_for < sleep.after:
        return _up("idle-but-recent")
    return _down("idle-for-long", Purpose.REST)


def reads_head(seen: Seen, sleep: Sleep) -> bool:
    """Whether it matters at all what the head says."""
    return not seen.suspended and not seen.paused and (seen.pending or seen.spare or sleep.when is not When.NEVER)


def _needed(seen: Seen, sleep: Sleep) -> str:
    """Why it may not rest, whether it is idle or not; empty: nothing speaks against it."""
    if sleep.when is When.NEVER:
        return "never-sleeps"
    if sleep.when is When.OUTSIDE_BUSINESS_HOURS and seen.hours_open:
        return "business-hours"
    if Wake.BUSINESS_HOURS in sleep.wake and seen.hours_open:
        return "business-hours"
    if Wake.QUEUE in sleep.wake and seen.drivers:
        return "drivers-wanted"
    return "wake-asked" if Wake.MANUAL in sleep.wake and seen.wake_asked else ""
