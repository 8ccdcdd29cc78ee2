"""One pool's part of a turn: readings in, actions and a report out. Carries what it must remember between turns."""

from dataclasses import dataclass
from datetime import datetime

from controllers.asked import Ask, Asks
from controllers.pool_shape import Shape, shape_of, with_idle_pods
from controllers.ports import Action, Known, Mark, Outcome, PoolReport, PoolSeen, Reading, Scale, Unknown, Untrusted
from controllers.workers.decision import PoolReading, Reason, WorkerDecision, decide_workers
from controllers.workers.floors import LOOK_AHEAD, FloorNow, floor_at
from controllers.workers.refusals import Refusals
from controllers.workers.victims import plan_victims
from controllers.workers.watch import PoolWatch
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy
from ebbtide.vocabulary.holds import Hold

_TOLD = {Reason.NO_SAFE_STOP, Reason.UNSETTLED}  # holds that an operator should hear about
_LOWERS = {Reason.SHRINK, Reason.ZERO}
_HANDS_OFF = {Reason.RIVAL, Reason.PAUSED}
_WAITS = {Reason.CALMING, Reason.BUSY, Reason.GROWTH, *_LOWERS}  # what time alone may move on


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What to do now, when to look again at the latest, and what to tell."""

    actions: tuple[Action, ...]
    due: datetime
    report: PoolReport


class PoolTurn:
    """Decides for one pool, turn after turn."""

    def __init__(self, policy: PoolPolicy, config: ControllerConfig) -> None:
        self._pool = policy
        self._config = config
        self.subject = f"pool {policy.name}"
        self._marks = f"marks of {policy.name}"
        self._watch = PoolWatch(policy.calm, longest_gap=2 * config.sweep)
        self._refusals = Refusals()
        self._late = False
        self._floor: tuple[datetime, FloorNow] | None = None

    def blind(
        self, reading: Reading, reason: Reason = Reason.UNKNOWN, workers: int | None = None, note: str = ""
    ) -> PoolReport:
        """Nothing is decided, and the run of readings is broken."""
        self._watch.forget()
        return PoolReport(name=self._pool.name, reading=reading, workers=workers, wanted=None, reason=reason, note=note)

    def turn(self, now: datetime, seen: PoolSeen | None, reading: Reading, asks: Asks, doubt: str = "") -> PoolVerdict:
        """`doubt` is why clock or config are distrusted: then nothing is lowered."""
        latest = now + self._config.sweep
        if seen is None:
            note = "its Deployment is not in the cluster"
            return PoolVerdict((), latest, self.blind(reading, Reason.MISSING, note=note))
        if isinstance(reading, Unknown):
            note = f"demand unknown, holding: {reading.why}"
            return PoolVerdict((), latest, self.blind(reading, workers=seen.replicas, note=note))
        hold = seen.hold if seen.hold is not None and seen.hold.holds_at(now) else None
        ask = asks.outstanding("scale", self._pool.name, (seen.version, seen.replicas), now)
        workers = seen.replicas if ask is None else ask.value
        trusted = isinstance(reading, Known) and not doubt
        known = with_idle_pods(reading if isinstance(reading, Known) else reading.seen, seen.pods)
        weight = self._weight(seen, known, workers)
        if trusted:
            self._watch.see(now, known, staffed=known.stale > 0 and seen.running > 0, weight=weight)
        else:
            self._watch.forget()
        shape = shape_of(now, seen, known, self._watch, (asks, self._marks))
        floor = self._floor_now(now)
        limit = self._pool.growth_per_minute
        facts = PoolReading(
            trusted=isinstance(reading, Known),
            jobs=known.in_flight * weight,
            chores=self._watch.has_chores(now, known),
            peak_jobs=self._watch.peak_jobs,
            watched_for=self._watch.watched_for(now),
            busy=shape.count - shape.spare.total,
            workers=workers,
            floor=floor.workers,
            # The cluster's own count tells when the pods in the cache are older than the pool.
            settled=seen.settled and ask is None and seen.existing == shape.count,
            unreachable=shape.unreachable,
            failing=shape.failing > 0 and not shape.running,
            missing=seen.replicas - shape.count,
            held=Reason.DOUBT if doubt else Reason.KEPT if hold else Reason.REPLACE if shape.unreachable else None,
            may_add=None if limit is None else max(0, limit - self._watch.see_workers(now, workers)),
            granted=self._refusals.see(now, seen, max(seen.existing, shape.count)),
        )
        decision = _hands_off(seen, hold, workers) or decide_workers(facts, self._pool)
        edges = [latest, floor.until, self._refusals.next_change(now), hold.until if hold is not None else None]
        if decision.reason in _WAITS or known.stale:
            edges.append(self._watch.next_change(now))
        report = PoolReport(
            name=self._pool.name,
            reading=reading,
            workers=seen.replicas,
            wanted=decision.workers,
            reason=decision.reason,
            pending=shape.pending,
            running=shape.running,
            terminating=shape.terminating,
            failing=shape.failing,
            unreachable=shape.unreachable,
            idle=shape.idle,
            floor=floor.workers,
            note=self._note(now, seen, shape, reading, None if ask else decision) or (hold.why if hold else ""),
        )
        actions = self._actions(seen, decision, shape, workers)
        return PoolVerdict(actions, min(edge for edge in edges if edge is not None), report)

    def took(self, action: Action, outcome: Outcome, now: datetime, asks: Asks) -> None:
        """Remember what was asked until the caches show it."""
        if outcome is not Outcome.DONE:
            return
        if isinstance(action, Mark):
            asks.record(self._marks, action.pod, Ask(value=int(action.idle), before="", at=now))
        elif isinstance(action, Scale):
            asks.record("scale", action.pool, Ask(value=action.replicas, before=action.version or "", at=now))

    def _weight(self, seen: PoolSeen, known: Known, workers: int) -> int:
        """For how many jobs each counts: one worker each while the declared job time proves wrong.

        That begins when the head of the queue has waited too long and no worker is on its way, and lasts until the
        head is young again: the workers that it brings are on their way for a while, and must not be sent back.
        """
        limit, wait = self._pool.drain_within, known.oldest_wait
        slow = limit is not None and wait is not None and wait > limit
        if slow and not self._late:
            slow = seen.running >= workers
        self._late = slow
        return self._pool.jobs_per_worker if slow else 1

    def _actions(self, seen: PoolSeen, decision: WorkerDecision, shape: Shape, workers: int) -> tuple[Action, ...]:
        name, reason = self._pool.name, decision.reason
        if reason in _HANDS_OFF:
            return ()
        excess = seen.replicas - decision.workers if reason in _LOWERS else 0
        plan = plan_victims(shape.pods, excess, shape.spare)
        # Until the ReplicaSet has chosen for a lowering, marks stay: without one a pod with an older job would go.
        chosen = seen.settled and workers == seen.replicas and shape.count <= seen.replicas
        unmark = plan.unmark if chosen else ()
        actions: list[Action] = [Mark(pool=name, pod=pod, idle=False, reason="no-longer-idle") for pod in unmark]
        if decision.workers > workers or (reason is Reason.REFUSED and decision.workers < workers):
            ask = Scale(pool=name, replicas=decision.workers, version=seen.version, reason=reason)
            return (ask, *actions)
        actions += [Mark(pool=name, pod=pod, idle=True, reason=reason) for pod in plan.mark]
        if plan.ready:
            left = seen.replicas - plan.ready
            actions.append(Scale(pool=name, replicas=left, version=seen.version, reason=reason))
        return tuple(actions)

    def _floor_now(self, now: datetime) -> FloorNow:
        if self._floor is not None:
            since, floor = self._floor
            if since <= now < (floor.until or since + LOOK_AHEAD):
                return floor
        floor = floor_at(now, self._pool, self._config)
        self._floor = (now, floor)
        return floor

    def _note(
        self, now: datetime, seen: PoolSeen, shape: Shape, reading: Known | Untrusted, decision: WorkerDecision | None
    ) -> str:
        """What an operator should know; `decision` is None while a write of our own is on its way."""
        if seen.rival:
            return f"left alone, its replicas have another writer: {seen.rival}"
        if seen.refused or self._refusals.why:
            return f"the cluster creates no more pods: {self._refusals.why or seen.refused}"
        if shape.unreachable:
            return f"workers on silent nodes: {shape.unreachable}; nothing is lowered until they answer or are gone"
        if shape.failing:
            return f"workers that crash in a loop or cannot get their image: {shape.failing}; their pods say why"
        if isinstance(reading, Untrusted):
            return f"demand untrusted, not lowering: {reading.why}"
        if decision is not None and decision.reason in _TOLD:
            return decision.reason
        if self._late:
            return "the head of the queue has waited longer than the drain target: one worker per job"
        if reading.stale and self._watch.is_out_of_patience(now):
            return "stale entries are left that no worker has cleared"
        return "" if reading.seen_before else "queue never seen: is its name right?"


def _hands_off(seen: PoolSeen, hold: Hold | None, workers: int) -> WorkerDecision | None:
    if seen.rival:
        return WorkerDecision(workers, Reason.RIVAL)
    return WorkerDecision(workers, Reason.PAUSED) if hold is not None and hold.pause else None
