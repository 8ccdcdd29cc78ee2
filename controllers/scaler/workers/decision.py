"""The number of workers of a pool. Pure: no clock, no client, no logging.

Growth follows the newest reading. Shrinking follows the *highest* demand of the entire stabilization window, so a short
dip stops no worker, and zero workers means that there was no demand during the entire window.

Without a declared safe stop nothing is lowered, not even to zero after an empty stabilization window: a stock worker
that is stopped between taking a job and registering it loses the job, and a job may arrive at an empty queue at any
instant.
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
    SHORT_GRACE = "grace-period-below-the-longest-job"
    GROWTH = "growth-limit-of-this-minute"
    REFUSED = "cluster-creates-no-more-pods"
    KEPT = "kept-up-by-an-operator"
    PAUSED = "paused-by-an-operator"
    CONFLICT = "another-writer-of-replicas"
    DOUBT = "clock-or-config-in-doubt"
    MISSING = "not-in-the-cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReading:
    trusted: bool = True  # False: it may scale up but not down
    jobs: int  # waiting, in transit and running
    chores: int = 0  # stale entries and soon-due jobs, counted as jobs; only a worker can clear them
    peak_jobs: int  # maximum of jobs and chores in the stabilization window
    watched_for: timedelta  # duration of the unbroken series of trusted readings
    busy: int  # workers with a job, or not proven idle
    workers: int  # requested replicas, ready or not
    floor: int = 0  # minimum for planned work at this time
    settled: bool = True  # no rollout, and no write that the caches do not show yet
    unreachable: int = 0  # workers on silent nodes: no capacity, and perhaps busy
    failing: bool = False  # some of the pool's pods fail to start, and none is ready
    short_grace: bool = False  # a pod's grace period is shorter than the longest job
    missing: int = 0  # requested pods that do not exist; negative: pods that still exist but are no longer requested
    held: Reason | None = None  # why nothing may be lowered: an operator's hold, or a doubt
    may_add: int | None = None  # workers that the growth limit still allows; None: no limit
    granted: int | None = None  # pods that the cluster allows, at least the existing ones; None: no known limit


@dataclass(frozen=True, slots=True)
class WorkerDecision:
    workers: int
    reason: Reason


def decide_workers(reading: PoolReading, policy: PoolPolicy) -> WorkerDecision:
    """Grow at once; shrink only after the stabilization window, and never below the workers that may be busy."""
    target = _clamped(max(reading.jobs, reading.chores), reading.floor, policy)
    if target:
        target = min(target + reading.unreachable, policy.max_workers)
    may_follow = reading.settled and reading.held is None and reading.trusted
    if may_follow and reading.granted is not None and reading.granted < reading.workers:
        return WorkerDecision(reading.granted, Reason.REFUSED)  # the existing pods: this removes none
    if target > reading.workers:
        return _growth(reading, target, policy)
    if target == reading.workers:
        return WorkerDecision(target, Reason.FAILING if reading.failing else Reason.STEADY)
    obstacle = _obstacle(reading, policy)
    if obstacle is not None:
        return WorkerDecision(reading.workers, obstacle)
    lowest = max(target, _clamped(reading.peak_jobs, reading.floor, policy))
    if lowest >= reading.workers:
        return WorkerDecision(reading.workers, Reason.STABILIZING)
    if reading.busy >= reading.workers:
        return WorkerDecision(reading.workers, Reason.BUSY)
    workers = max(lowest, reading.busy)
    return WorkerDecision(workers, Reason.SHRINK if workers else Reason.ZERO)


def _clamped(jobs: int, floor: int, policy: PoolPolicy) -> int:
    ideal = -(-jobs // policy.jobs_per_worker)  # ceiling, exact for integers
    return min(max(ideal, policy.min_workers, floor), policy.max_workers)


def _growth(reading: PoolReading, target: int, policy: PoolPolicy) -> WorkerDecision:
    """Grow as far as the cluster and the growth limit allow; the first worker is never delayed.

    If no pod can start, more pods would only fill nodes.
    """
    if reading.failing and reading.workers:
        return WorkerDecision(reading.workers, Reason.FAILING)
    if reading.granted is not None and target > reading.granted:
        target = max(reading.granted, reading.workers)
        if target == reading.workers:
            return WorkerDecision(target, Reason.REFUSED)
    if reading.may_add is not None:
        target = min(target, max(reading.workers + reading.may_add, 1))
    return WorkerDecision(target, _growth_reason(reading, policy) if target > reading.workers else Reason.GROWTH)


def _growth_reason(reading: PoolReading, policy: PoolPolicy) -> Reason:
    if -(-reading.jobs // policy.jobs_per_worker) > reading.workers:
        return Reason.GROW
    if reading.floor > reading.workers:
        return Reason.FLOOR
    if policy.min_workers > reading.workers:
        return Reason.MINIMUM
    return Reason.REPLACE if reading.unreachable else Reason.CHORES


def _obstacle(reading: PoolReading, policy: PoolPolicy) -> Reason | None:
    """Return why the pool may not shrink now, independent of demand."""
    if not reading.trusted:
        return Reason.UNTRUSTED
    if reading.held is not None:
        return reading.held
    if not policy.safe_stop:
        return Reason.NO_SAFE_STOP
    if reading.short_grace:
        return Reason.SHORT_GRACE
    if not reading.settled or reading.missing:
        return Reason.UNSETTLED
    return Reason.STABILIZING if reading.watched_for < policy.stabilization_window else None
