"""Observation and writes of autoscalers: a watch per namespace and kind, and a server-side apply of one field.

An apply owns the fields that it contains, so it contains only the object's name and one field. It is bound to the
version on which it was decided: a change since then wins, and the floor is decided again. When the process stops, the
field stays.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controllers.adapters.journal import ObjectReference
from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.doubt import Doubt
from controllers.ports import Outcome
from controllers.reconciling import Expectation, Expectations
from controllers.workloads.floors.calendar import (
    AutoscalerState,
    FloorDecision,
    PodFloorNow,
    decide_floor,
    floor_at,
    highest_floor,
)
from controllers.workloads.floors.fields import MIN_REPLICA_COUNT, MIN_REPLICAS, FloorField, ObservedAutoscaler
from controllers.workloads.loop import Kind, Notify, ReconcileResult, Write, verdict_by_calendar
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import FloorPolicy, WorkloadsConfig

POLL = timedelta(seconds=10)  # between two reconciles of an autoscaler without events


def floors(api: KubeApi, config: WorkloadsConfig, notify: Notify) -> Kind:
    places = {(policy.namespace, field_of(policy)) for policy in config.floors}
    caches = {
        (namespace, field): KubeCache(api, field.path(namespace), field.observed, notify) for namespace, field in places
    }
    workloads = [
        ManagedFloor(policy, config.hours, caches[policy.namespace, field_of(policy)]) for policy in config.floors
    ]
    return Kind(workloads, [*caches.values()])


class ManagedFloor:
    """A `ManagedWorkload`. Its memory, the last write and why it was refused, may be lost without harm."""

    def __init__(self, policy: FloorPolicy, hours: BusinessHours, cache: KubeCache[ObservedAutoscaler]) -> None:
        self._policy, self._hours, self._cache, self._field = policy, hours, cache, field_of(policy)
        self.subject = f"{self._field.kind.lower()} {policy.namespace}/{policy.name}"
        self.target: ObjectReference = (self._field.api, self._field.kind, policy.namespace, policy.name)
        self._expectations, self._refusal = Expectations[int](), ""
        self._now = datetime.min.replace(tzinfo=UTC)

    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult:
        self._now = now
        observed = self._cache.snapshot().get(self._policy.name)
        if why := self._cache.trouble():
            return self._verdict("unknown", "autoscaler-unknown", note=f"holding: {why}")
        if observed is None:
            return self._verdict("absent", "no-such-autoscaler", note="it does not exist")
        if observed.min_pods is None or observed.max_pods is None:
            return self._verdict("unknown", "unreadable", note=f"holding: {self._field.min_key} cannot be read")
        floor, hold = highest_floor(now, self._policy, self._hours, doubt), hold_of(observed.annotations)
        facts = AutoscalerState(
            min_pods=observed.min_pods,
            max_pods=observed.max_pods,
            paused=hold is not None and hold.pause,
            kept=hold is not None and not hold.pause and hold.holds_at(now),
            doubt=doubt.why,
        )
        decision = decide_floor(facts, floor)
        shown = observed.version, observed.min_pods
        unseen = self._expectations.outstanding("floor", self.subject, shown, now)
        changes = decision.pods != observed.min_pods and unseen is None
        write = self._write(observed, decision) if changes else None
        state = "raised" if decision.pods > self._policy.least else "at-min"
        alone = decide_floor(replace(facts, doubt=""), floor_at(now, self._policy, self._hours)) if doubt else decision
        note = doubt.why if decision != alone else ""
        if floor.pods > observed.max_pods:
            note = f"its own maximum is {observed.max_pods}, and {floor.pods} are wanted"
        if write is not None and self._refusal:
            note = f"the write of {decision.pods} was refused: {self._refusal}"
        return self._verdict(state, decision.reason, note=note, write=write, floor=floor)

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        self._refusal = error if outcome is Outcome.REFUSED else ""
        if outcome is Outcome.DONE:
            pods: int = write.body["spec"][self._field.min_key]
            written = Expectation(value=pods, before=write.version, at=self._now)
            self._expectations.record("floor", self.subject, written)
        elif outcome is Outcome.STALE:
            self._cache.reconnect()

    def _write(self, observed: ObservedAutoscaler, decision: FloorDecision) -> Write:
        field, policy = self._field, self._policy
        metadata = {"name": policy.name, "namespace": policy.namespace, "resourceVersion": observed.version}
        spec = {field.min_key: decision.pods}
        return Write(
            path=f"{field.path(policy.namespace)}/{policy.name}",
            body={"apiVersion": field.api, "kind": field.kind, "metadata": metadata, "spec": spec},
            change=f"spec.{field.min_key} {decision.pods}",
            reason=decision.reason,
            applied=True,
        )

    def _verdict(
        self, state: str, why: str, *, note: str, write: Write | None = None, floor: PodFloorNow | None = None
    ) -> ReconcileResult:
        known = {} if floor is None else {"floor": floor.pods, "until": floor.until}
        return verdict_by_calendar(self.target, self._now + POLL, state, why, note=note, write=write, **known)


def field_of(policy: FloorPolicy) -> FloorField:
    return MIN_REPLICA_COUNT if policy.keda else MIN_REPLICAS
