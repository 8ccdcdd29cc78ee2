"""One pool's part of a reconcile: from a reading and the observed pool to actions and a report."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controllers.doubt import TRUST, Doubt
from controllers.ports import (
    Action,
    Known,
    Mark,
    ObservedPool,
    Outcome,
    PodPhase,
    PoolReport,
    Reading,
    Scale,
    Unknown,
    Untrusted,
)
from controllers.reconciling import Expectation, Expectations, Result
from controllers.scaler.workers.decision import PoolReading, Reason, WorkerDecision, decide_workers
from controllers.scaler.workers.floors import LOOK_AHEAD, FloorNow, floor_at, raised_by_any
from controllers.scaler.workers.history import DemandHistory
from controllers.scaler.workers.pods import PodSummary, count_busy, summarize_pods, with_idle_pods
from controllers.scaler.workers.refusals import Refusals
from controllers.scaler.workers.victims import plan_victims
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.holds import Hold

_REPORTED = {Reason.NO_SAFE_STOP, Reason.UNSETTLED}  # holds that an operator should know
_LOWERS = {Reason.SHRINK, Reason.ZERO}
_LEFT_OVER = {
    "rq": "stale entries or overdue jobs are left that no worker has cleared: do its workers run --with-scheduler?"
}
_LEFT_ALONE = {Reason.CONFLICT, Reason.PAUSED}
_WAITS = {Reason.STABILIZING, Reason.BUSY, Reason.GROWTH, *_LOWERS}  # these may change without an event, as time passes


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """All facts about the pool in one reconcile."""

    now: datetime
    observed: ObservedPool
    reading: Known | Untrusted
    doubt: Doubt
    counts: Known  # the reading's counts, trusted or not
    weight: int  # each job counts as this many jobs
    janitor: int  # number of jobs that requires one worker more than the busy ones
    hold: Hold | None  # the active hold
    written: Expectation[int] | None  # a write of replicas that the caches do not show yet
    pods: PodSummary
    floor: FloorNow

    @property
    def workers(self) -> int:
        """Return the requested replicas, whether or not the caches show them yet."""
        return self.observed.replicas if self.written is None else self.written.value


class PoolReconciler:
    """Decides for one pool, reconcile after reconcile."""

    def __init__(self, policy: PoolPolicy, config: ControllerConfig, expectations: Expectations[int]) -> None:
        self._pool, self._config, self._expectations = policy, config, expectations
        self.subject = f"pool {policy.name}"
        self._marks = f"marks of {policy.name}"
        self._history = DemandHistory(policy.stabilization_window, longest_gap=2 * config.resync)
        self._refusals = Refusals()
        self._late = False
        self._floor: tuple[datetime, FloorNow] | None = None

    def undecided(
        self, reading: Reading, reason: Reason = Reason.UNKNOWN, workers: int | None = None, note: str = ""
    ) -> PoolReport:
        """Return a report without a decision, and end the series of readings."""
        self._history.forget()
        return PoolReport(name=self._pool.name, reading=reading, workers=workers, wanted=None, reason=reason, note=note)

    def reconcile(
        self, now: datetime, observed: ObservedPool | None, reading: Reading, doubt: Doubt = TRUST
    ) -> Result[PoolReport]:
        """Decide for this reconcile. While `doubt` distrusts the clock or the config, nothing is lowered."""
        latest = now + self._config.resync
        if observed is None:
            note = "its Deployment is not in the cluster"
            return Result((), latest, self.undecided(reading, Reason.MISSING, note=note))
        if isinstance(reading, Unknown):
            note = f"demand unknown, holding: {reading.why}"
            return Result((), latest, self.undecided(reading, workers=observed.replicas, note=note))
        view = self._view(now, observed, reading, doubt)
        facts = self._facts(view)
        decision = _left_alone(view) or decide_workers(facts, self._pool)
        edges = [latest, view.floor.until, self._refusals.next_change(now), view.hold.until if view.hold else None]
        if decision.reason in _WAITS or view.counts.stale:
            edges.append(self._history.next_change(now))
        due = min(edge for edge in edges if edge is not None)
        return Result(self._actions(view, decision), due, self._report(view, decision))

    def record_outcome(self, action: Action, outcome: Outcome, now: datetime) -> None:
        """Remember the write until the caches show it."""
        if outcome is not Outcome.DONE:
            return
        if isinstance(action, Mark):
            self._expectations.record(self._marks, action.pod, Expectation(value=int(action.idle), before="", at=now))
        elif isinstance(action, Scale):
            written = Expectation(value=action.replicas, before=action.version or "", at=now)
            self._expectations.record("scale", action.pool, written)

    def _view(self, now: datetime, observed: ObservedPool, reading: Known | Untrusted, doubt: Doubt) -> _View:
        """Add the reading to the history, and collect all facts."""
        shown = observed.version, observed.replicas
        written = self._expectations.outstanding("scale", self._pool.name, shown, now)
        counts = with_idle_pods(reading if isinstance(reading, Known) else reading.seen, observed.pods)
        weight = self._weight(observed, counts, observed.replicas if written is None else written.value)
        busy = count_busy(observed, counts) if counts.stale else 0
        janitor = (busy + 1) * self._pool.jobs_per_worker
        if isinstance(reading, Known) and not doubt:
            self._history.observe(now, counts, staffed=observed.running > busy, weight=weight, janitor=janitor)
        else:
            self._history.forget()
        return _View(
            now=now,
            observed=observed,
            reading=reading,
            doubt=doubt,
            counts=counts,
            weight=weight,
            janitor=janitor,
            hold=observed.hold if observed.hold is not None and observed.hold.holds_at(now) else None,
            written=written,
            pods=summarize_pods(now, observed, counts, self._history, (self._expectations, self._marks)),
            floor=raised_by_any(self._floor_now(now), now, self._pool, self._config, doubt),
        )

    def _facts(self, view: _View) -> PoolReading:
        """Return the input of the decision; record the cluster's refusals and the growth of this minute."""
        now, observed, pods, limit = view.now, view.observed, view.pods, self._pool.growth_per_minute
        hold = Reason.KEPT if view.hold else Reason.REPLACE if pods.unreachable else None
        return PoolReading(
            trusted=isinstance(view.reading, Known),
            jobs=view.counts.in_flight * view.weight,
            chores=self._history.chores(now, view.counts, view.janitor),
            peak_jobs=self._history.peak_jobs,
            watched_for=self._history.watched_for(now),
            busy=pods.count - pods.spare.total,
            workers=view.workers,
            floor=view.floor.workers,
            # The Deployment's count differs while the cached pods are older than the Deployment.
            settled=observed.settled and view.written is None and observed.existing == pods.count,
            unreachable=pods.unreachable,
            failing=pods.failing > 0 and not pods.running,
            short_grace=self._short_grace(observed) is not None,
            missing=observed.replicas - pods.count,
            held=Reason.DOUBT if view.doubt else hold,
            may_add=None if limit is None else max(0, limit - self._history.observe_replicas(now, view.workers)),
            granted=self._refusals.observe(now, observed, max(observed.existing, pods.count)),
        )

    def _report(self, view: _View, decision: WorkerDecision) -> PoolReport:
        return PoolReport(
            name=self._pool.name,
            reading=view.reading,
            workers=view.observed.replicas,
            wanted=decision.workers,
            reason=decision.reason,
            pending=view.pods.pending,
            running=view.pods.running,
            terminating=view.pods.terminating,
            failing=view.pods.failing,
            unreachable=view.pods.unreachable,
            idle=view.pods.idle,
            floor=view.floor.workers,
            note=self._note(view, decision) or (view.hold.why if view.hold else ""),
        )

    def _weight(self, observed: ObservedPool, counts: Known, workers: int) -> int:
        """Return the number of jobs as which each job counts: while jobs take longer than declared, one worker per job.

        This begins when the head of the queue has waited too long and no worker is starting, and lasts until the head
        has waited only briefly: the additional workers take a while to start, and must not be removed meanwhile.
        """
        limit, wait = self._pool.drain_within, counts.oldest_wait
        slow = limit is not None and wait is not None and wait > limit
        if slow and not self._late:
            slow = observed.running >= workers
        self._late = slow
        return self._pool.jobs_per_worker if slow else 1

    def _short_grace(self, observed: ObservedPool) -> int | None:
        """Return the shortest grace period in seconds, if it is shorter than the longest job.

        Ebbtide's own pools need no check: Ebbtide writes their grace period.
        """
        if not self._pool.adopted:
            return None
        pods = [pod.grace for pod in observed.pods if pod.phase is not PodPhase.TERMINATING]
        shortest = min([observed.grace, *pods])
        return shortest if timedelta(seconds=shortest) < self._pool.longest_job else None

    def _actions(self, view: _View, decision: WorkerDecision) -> tuple[Action, ...]:
        name, reason, pods, replicas = self._pool.name, decision.reason, view.pods, view.observed.replicas
        if reason in _LEFT_ALONE:
            return ()
        excess = replicas - decision.workers if reason in _LOWERS else 0
        plan = plan_victims(pods.pods, excess, pods.spare)
        # While replicas are being lowered, as many marks stay as pods must be removed, and at least one until the
        # ReplicaSet has chosen: without a mark it might choose a pod with an older job.
        open_choice = not view.observed.settled or view.workers != replicas
        to_go = max(view.observed.existing, pods.count) - min(view.workers, replicas)
        unmark = plan.unmark[: max(0, sum(pod.marked for pod in pods.pods) - max(to_go, int(open_choice)))]
        actions: list[Action] = [Mark(pool=name, pod=pod, idle=False, reason="no-longer-idle") for pod in unmark]
        if decision.workers > view.workers or (reason is Reason.REFUSED and decision.workers < view.workers):
            change = Scale(pool=name, replicas=decision.workers, version=view.observed.version, reason=reason)
            return (change, *actions)
        actions += [Mark(pool=name, pod=pod, idle=True, reason=reason) for pod in plan.mark]
        if plan.ready:
            lowered = replicas - plan.ready
            actions.append(Scale(pool=name, replicas=lowered, version=view.observed.version, reason=reason))
        return tuple(actions)

    def _floor_now(self, now: datetime) -> FloorNow:
        if self._floor is not None:
            since, floor = self._floor
            if since <= now < (floor.until or since + LOOK_AHEAD):
                return floor
        floor = floor_at(now, self._pool, self._config)
        self._floor = (now, floor)
        return floor

    def _note(self, view: _View, decision: WorkerDecision) -> str:
        """Return the conditions that an operator should know, workers' own warnings last; empty if there are none."""
        warning = view.reading.warning if isinstance(view.reading, Known) else ""
        return "; ".join(filter(None, (self._condition(view, decision), warning)))

    def _condition(self, view: _View, decision: WorkerDecision) -> str:
        observed, pods, reading = view.observed, view.pods, view.reading
        if observed.conflicting_manager:
            rest = "stop it, then scale the Deployment once with kubectl"
            return f"left alone: a conflicting manager writes its replicas: {observed.conflicting_manager}; {rest}"
        if observed.refused or self._refusals.why:
            return f"the cluster creates no more pods: {self._refusals.why or observed.refused}"
        if pods.unreachable:
            return f"workers on silent nodes: {pods.unreachable}; nothing is lowered until they answer or are gone"
        if pods.failing:
            return f"workers that crash in a loop or cannot get their image: {pods.failing}; their pods say why"
        if isinstance(reading, Untrusted):
            return f"demand untrusted, not lowering: {reading.why}"
        if why := view.doubt.why if decision.reason is Reason.DOUBT else view.floor.why:
            return why
        if (grace := self._short_grace(observed)) is not None:
            needed = int(self._pool.longest_job.total_seconds())
            return (
                f"only grows: a pod gets {grace} s to stop, of terminationGracePeriodSeconds; longestJob is {needed} s"
            )
        if view.written is None and decision.reason in _REPORTED:
            return decision.reason
        if self._late:
            return "the head of the queue has waited longer than the drain target: one worker per job"
        if reading.stale and self._history.is_out_of_patience(view.now):
            return _LEFT_OVER.get(self._pool.source, "stale entries are left that no worker has cleared")
        if reading.stale and view.janitor > self._pool.max_workers * self._pool.jobs_per_worker:
            return f"stale entries wait for a free worker: as many are busy as max allows, {self._pool.max_workers}"
        return "" if reading.seen_before else "queue never seen: is its name right?"


def _left_alone(view: _View) -> WorkerDecision | None:
    if view.observed.conflicting_manager:
        return WorkerDecision(view.workers, Reason.CONFLICT)
    return WorkerDecision(view.workers, Reason.PAUSED) if view.hold is not None and view.hold.pause else None
