"""One pool's part of a turn: readings in, actions out. Carries the pool's watch and its floor from turn to turn."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controllers.asked import Ask, Asks
from controllers.ports import Action, Known, Mark, Outcome, PodPhase, PoolSeen, Reading, Scale, Unknown, Untrusted
from controllers.workers.decision import PoolReading, Reason, Trust, WorkerDecision, WorkerPolicy, decide_workers
from controllers.workers.floors import FloorNow, floor_at
from controllers.workers.victims import Spare, WorkerPod, plan_victims, spare_pods
from controllers.workers.watch import PoolWatch
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy

_TOLD = {Reason.NO_SAFE_STOP, Reason.UNSETTLED}  # holds that an operator should hear about
_LOWERS = {Reason.SHRINK, Reason.ZERO}
_NO_FLOOR = FloorNow(0, None)
_WAITS = {Reason.CALMING, Reason.BUSY, *_LOWERS}  # what time alone may move on


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What to do now, when to look again at the latest, and what an operator should know (empty: nothing)."""

    actions: tuple[Action, ...]
    due: datetime
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The pool's pods as they are believed to be, counting what was asked and is not seen yet."""

    pods: list[WorkerPod]
    spare: Spare
    workers: int


class PoolTurn:
    """Decides for one pool, turn after turn."""

    def __init__(self, policy: PoolPolicy, config: ControllerConfig) -> None:
        self._pool = policy
        self._marks = f"marks of {policy.name}"
        self._sweep = config.sweep
        self._timezone = config.hours.timezone
        self._node_startup = config.node_startup
        self._policy = WorkerPolicy(
            jobs_per_worker=policy.jobs_per_worker,
            min_workers=policy.min_workers,
            max_workers=policy.max_workers,
            calm=policy.calm,
            safe_stop=policy.safe_stop,
        )
        self._watch = PoolWatch(policy.calm, longest_gap=2 * config.sweep)
        self._floor: tuple[datetime, FloorNow] | None = None

    def forget(self) -> None:
        self._watch.forget()

    def turn(self, now: datetime, seen: PoolSeen | None, reading: Reading, asks: Asks) -> PoolVerdict:
        latest = now + self._sweep
        if isinstance(reading, Unknown) or seen is None:
            self._watch.forget()
            why = f"demand unknown, holding: {reading.why}" if isinstance(reading, Unknown) else ""
            return PoolVerdict((), latest, why or "its Deployment is not in the cluster")
        known = self._take_in(now, seen, reading)
        ask = asks.outstanding("scale", self._pool.name, (seen.version, seen.replicas), now)
        pods, active = self._pods(now, seen, known, asks)
        spare = spare_pods(pods, active)
        workers = seen.replicas if ask is None else ask.value
        floor = self._floor_now(now)
        decision = decide_workers(
            PoolReading(
                trust=Trust.UNTRUSTED if isinstance(reading, Untrusted) else Trust.KNOWN,
                jobs=known.in_flight,
                chores=self._watch.has_chores(now, known),
                peak_jobs=self._watch.peak_jobs,
                watched_for=self._watch.watched_for(now),
                busy=max(0, seen.replicas - spare.total),
                workers=workers,
                floor=floor.workers,
                settled=seen.settled and ask is None and len(pods) == seen.replicas,
            ),
            self._policy,
        )
        actions = self._actions(seen, decision, _Shape(pods=pods, spare=spare, workers=workers))
        due = min(latest, floor.until or latest)
        if decision.reason in _WAITS or known.stale:
            due = min(due, self._watch.next_change(now) or latest)
        return PoolVerdict(actions, due, self._note(now, reading, decision, own_write=ask is not None))

    def took(self, action: Action, outcome: Outcome, now: datetime, asks: Asks) -> None:
        """Remember what was asked until the caches show it."""
        if outcome is not Outcome.DONE:
            return
        if isinstance(action, Mark):
            asks.record(self._marks, action.pod, Ask(value=int(action.idle), before="", at=now))
        elif isinstance(action, Scale):
            asks.record("scale", action.pool, Ask(value=action.replicas, before=action.version or "", at=now))

    def _take_in(self, now: datetime, seen: PoolSeen, reading: Known | Untrusted) -> Known:
        if isinstance(reading, Untrusted):
            self._watch.forget()
            return reading.seen
        staffed = reading.stale > 0 and any(pod.phase is PodPhase.RUNNING for pod in seen.pods)
        self._watch.see(now, reading, staffed=staffed)
        return reading

    def _pods(self, now: datetime, seen: PoolSeen, known: Known, asks: Asks) -> tuple[list[WorkerPod], int]:
        """The pods that count as capacity, and the jobs that they hold between them."""
        pods: list[WorkerPod] = []
        active = known.in_transit + known.running
        kind = self._marks
        if asks:
            asks.drop_gone(kind, {pod.name for pod in seen.pods})
        for pod in seen.pods:
            idle = pod.name in known.idle
            if pod.phase is PodPhase.TERMINATING:
                active -= not idle  # it ends its job by itself
                continue
            ask = asks.outstanding(kind, pod.name, ("", int(pod.marked)), now) if asks else None
            pods.append(
                WorkerPod(
                    name=pod.name,
                    pending=pod.phase is PodPhase.PENDING and not idle,  # its worker has reported: it runs by now
                    marked=pod.marked if ask is None else bool(ask.value),
                    mark_seen=ask is None,
                    idle_for=(self._watch.idle_for(pod.name, now) or timedelta()) if idle else None,
                )
            )
        return pods, max(0, active)

    def _actions(self, seen: PoolSeen, decision: WorkerDecision, shape: _Shape) -> tuple[Action, ...]:
        name, reason = self._pool.name, decision.reason
        excess = seen.replicas - decision.workers if reason in _LOWERS else 0
        plan = plan_victims(shape.pods, excess, shape.spare)
        actions: list[Action] = [Mark(pool=name, pod=pod, idle=False, reason="no-longer-idle") for pod in plan.unmark]
        if decision.workers > shape.workers:
            # Bound to the version too: decided on a lagging cache, a raise from 2 to 4 may cut 7 workers to 4.
            more = Scale(pool=name, replicas=decision.workers, version=seen.version, reason=reason)
            return (more, *actions)
        actions += [Mark(pool=name, pod=pod, idle=True, reason=reason) for pod in plan.mark]
        if plan.ready:
            left = seen.replicas - plan.ready
            actions.append(Scale(pool=name, replicas=left, version=seen.version, reason=reason))
        return tuple(actions)

    def _floor_now(self, now: datetime) -> FloorNow:
        if not self._pool.floors:
            return _NO_FLOOR
        if self._floor is not None:
            since, floor = self._floor
            if floor.until is not None and since <= now < floor.until:
                return floor
        floor = floor_at(now, self._pool.floors, self._timezone, self._node_startup)
        self._floor = (now, floor)
        return floor

    def _note(self, now: datetime, reading: Known | Untrusted, decision: WorkerDecision, *, own_write: bool) -> str:
        if isinstance(reading, Untrusted):
            return f"demand untrusted, not lowering: {reading.why}"
        if decision.reason in _TOLD and not own_write:
            return decision.reason
        if reading.stale and self._watch.is_out_of_patience(now):
            return "stale entries are left that no worker has cleared"
        return ""
