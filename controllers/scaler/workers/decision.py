"""How many workers a pool gets. Pure: no clock, no client, no logging.

Growth follows the newest reading. Shrinking follows the *highest* demand of the whole stabilization window, so a dip
that ends soon costs nobody a restart, and zero means that nothing at all was seen for that long.

Without a declared safe stop nothing is lowered, not even to zero after an empty stabilization window: a stock worker
that is told to stop in the instant between taking a job and registering it loses the job, and a job may come to an
empty queue at that very instant.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ebbtide.vocabulary.controller_config import PoolPolicy


class Reason(StrEnum):
    GROW = "demand-above-capacity"
    FLOOR = "below-the-planned-floor"
    MINIMUM = "below-the-minimum"
    CHORES = "one-worker-for-stale-or-due-jobs"
    REPLACE = "a-worker-is-out-of-reach"
    FAILING = "workers-fail-to-start"
    STEADY = "at-target"
    STABILIZING = "demand-low-but-recent"
    BUSY = "every-spare-worker-may-be-busy"
    SHRINK = "demand-stayed-low"
    ZERO = "empty-for-the-stabilization-window"
    UNKNOWN = "demand-unknown"
    UNTRUSTED = "demand-untrusted"
    UNSETTLED = "cluster-not-settled"
    NO_SAFE_STOP = "no-safe-stop-declared"
    GROWTH = "growth-limit-of-this-minute"
    REFUSED = "cluster-creates-no-more-pods"
    KEPT = "kept-up-by-an-operator"
    PAUSED = "paused-by-an-operator"
    CONFLICT = "another-writer-of-replicas"
    DOUBT = "clock-or-config-in-doubt"
    MISSING = "not-in-the-cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReading:
    trusted: bool = True  # False: it may raise and not lower
    jobs: int  # waiting, in transit and running
    chores: int = 0  # jobs that stale entries and soon-due jobs count for, which only a worker can move
    peak_jobs: int  # the most jobs, or chores, at one moment of the stabilization window
    watched_for: timedelta  # the unbroken run of trusted readings up to now
    busy: int  # workers with a job, or not proven idle
    workers: int  # replicas asked for, ready or not
    floor: int = 0  # planned work, from the clock
    settled: bool = True  # no rollout, and nothing asked that is not seen yet
    unreachable: int = 0  # workers on silent nodes: no capacity, and perhaps busy
    failing: bool = False  # some of its pods fail to start, and none is ready
    missing: int = 0  # pods asked for that do not exist; below zero: pods that are to go and still exist
    held: Reason | None = None  # why nothing may be lowered now: an operator's wish, a doubt
    may_add: int | None = None  # what the growth limit leaves; None: no limit
    granted: int | None = None  # as many as the cluster lets exist, never below those that do; None: no limit is known


@dataclass(frozen=True, slots=True)
class WorkerDecision:
    workers: int
    reason: Reason


def decide_workers(seen: PoolReading, policy: PoolPolicy) -> WorkerDecision:
    """Grow at once; shrink only after the stabilization window, and never below the workers that may be busy."""
    target = _clamped(max(seen.jobs, seen.chores), seen.floor, policy)
    if target:
        target = min(target + seen.unreachable, policy.max_workers)
    plain = seen.settled and seen.held is None and seen.trusted
    if plain and seen.granted is not None and seen.granted < seen.workers:
        return WorkerDecision(seen.granted, Reason.REFUSED)  # as many as exist: asking for no more touches none
    if target > seen.workers:
        return _growth(seen, target, policy)
    if target == seen.workers:
        return WorkerDecision(target, Reason.FAILING if seen.failing else Reason.STEADY)
    obstacle = _obstacle(seen, policy)
    if obstacle is not None:
        return WorkerDecision(seen.workers, obstacle)
    lowest = max(target, _clamped(seen.peak_jobs, seen.floor, policy))
    if lowest >= seen.workers:
        return WorkerDecision(seen.workers, Reason.STABILIZING)
    if seen.busy >= seen.workers:
        return WorkerDecision(seen.workers, Reason.BUSY)
    workers = max(lowest, seen.busy)
    return WorkerDecision(workers, Reason.SHRINK if workers else Reason.ZERO)


def _clamped(jobs: int, floor: int, policy: PoolPolicy) -> int:
    ideal = -(-jobs // policy.jobs_per_worker)  # ceiling, exact for integers
    return min(max(ideal, policy.min_workers, floor), policy.max_workers)


def _growth(seen: PoolReading, target: int, policy: PoolPolicy) -> WorkerDecision:
    """As much of it as the cluster grants and the growth limit leaves; the first worker is never delayed.

    Where no pod gets as far as to start, more of the same would only fill nodes with them.
    """
    if seen.failing and seen.workers:
        return WorkerDecision(seen.workers, Reason.FAILING)
    if seen.granted is not None and target > seen.granted:
        target = max(seen.granted, seen.workers)
        if target == seen.workers:
            return WorkerDecision(target, Reason.REFUSED)
    if seen.may_add is not None:
        target = min(target, max(seen.workers + seen.may_add, 1))
    return WorkerDecision(target, _why_more(seen, policy) if target > seen.workers else Reason.GROWTH)


def _why_more(seen: PoolReading, policy: PoolPolicy) -> Reason:
    if -(-seen.jobs // policy.jobs_per_worker) > seen.workers:
        return Reason.GROW
    if seen.floor > seen.workers:
        return Reason.FLOOR
    if policy.min_workers > seen.workers:
        return Reason.MINIMUM
    return Reason.REPLACE if seen.unreachable else Reason.CHORES


def _obstacle(seen: PoolReading, policy: PoolPolicy) -> Reason | None:
    """Why the pool may not shrink now, whatever the demand was."""
    if not seen.trusted:
        return Reason.UNTRUSTED
    if seen.held is not None:
        return seen.held
    if not policy.safe_stop:
        return Reason.NO_SAFE_STOP
    if not seen.settled or seen.missing:
        return Reason.UNSETTLED
    return Reason.STABILIZING if seen.watched_for < policy.stabilization_window else None
