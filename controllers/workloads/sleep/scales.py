"""Observation and writes of workloads that sleep: a watch per namespace and kind, and the `scale` subresource.

`scale` contains only the number of pods, so no right to change a Deployment is needed. A write is bound to the version
on which it was decided: a change since then wins. When the process stops, the number stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from controllers.adapters.journal import ObjectReference
from controllers.adapters.kube_api import Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.replica_writers import Writer, conflicting_manager, scaling_manager, writers_of
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.workloads.loop import Kind, Notify, ReconcileResult, Write, verdict_by_calendar
from controllers.workloads.sleep.calendar import (
    ScaleDecision,
    ScaleState,
    SleepNow,
    awake_by_any,
    decide_replicas,
    opened_between,
    sleep_at,
    turned_between,
)
from controllers.workloads.sleep.idle import Use
from controllers.workloads.sleep.use import Prometheus, UseMeter
from ebbtide.vocabulary.holds import hold_of, hold_until
from ebbtide.vocabulary.labels import KEEP_UNTIL, PREFIX, SLEEP_UNTIL, WAKE_UNTIL, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import SleepPolicy, WorkloadsConfig

POLL = timedelta(seconds=10)  # between two reconciles of a workload without events
_ASKED = {"kept-awake": KEEP_UNTIL, "wake-asked": WAKE_UNTIL, "sleep-asked": SLEEP_UNTIL}
BETWEEN_CHANGES = timedelta(minutes=1)  # longer than a cache may lag behind a write


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedScale:
    annotations: dict[str, str]
    replicas: int
    writers: tuple[Writer, ...]
    ours: bool
    operator: str  # the object that owns this one, such as "Cluster main"; empty if there is none
    agreed: bool  # True if the other owners only applied our number
    written: datetime | None  # last write by another owner; None if unknown
    version: str


def observed(item: Json) -> ObservedScale:
    metadata = item["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    writers = writers_of(metadata)
    ours, times = any(writer.name == WORKLOADS for writer in writers), _times_of_others(writers)
    return ObservedScale(
        annotations={key: value for key, value in annotations.items() if key.startswith(PREFIX)},
        replicas=item["spec"].get("replicas", 0),
        writers=writers,
        ours=ours,
        operator=next((f"{owner['kind']} {owner['name']}" for owner in metadata.get("ownerReferences") or ()), ""),
        agreed=ours and not any(times),
        written=max(filter(None, times), default=None) if ours or None not in times else None,
        version=metadata["resourceVersion"],
    )


def _times_of_others(writers: Sequence[Writer]) -> list[datetime | None]:
    """Return the times at which the other owners last changed the object.

    The API server records no time for an apply that changes nothing (kubernetes#127938): if we own the field too, such
    an owner only agreed with our number. Nor does it record a time for our own writes, which go through `scale`.
    """
    return [writer.at for writer in writers if writer.name != WORKLOADS]


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The object that an autoscaler scales."""

    kind: str
    name: str


class Suitability(NamedTuple):
    """Why an object must not sleep. `reason` is empty if no reason is known."""

    reason: str = ""  # for reports
    why: str = ""  # the same for operators
    blind: str = ""  # why its autoscalers are unknown


def scale_target(item: Mapping[str, Any]) -> ScaleTarget:
    target = item["spec"]["scaleTargetRef"]
    return ScaleTarget(target["kind"], target["name"])


def sleepers(api: KubeApi, config: WorkloadsConfig, notify: Notify) -> Kind:
    """Return the workloads. A cache of adopted objects alone, whose namespace a team may delete, does not count as the
    process's own trouble.
    """
    of_teams = {policy.namespace for policy in config.adopted_sleepers}
    caches = {
        path: KubeCache(api, path, observed, notify) for path in {_folder(policy) for policy in config.all_sleepers}
    }
    autoscalers = {space: KubeCache(api, _autoscalers(space), scale_target, notify) for space in of_teams}
    prometheus = Prometheus(config.prometheus)
    workloads = [
        Sleeper(
            policy,
            config.hours,
            caches[_folder(policy)],
            UseMeter(api, policy, prometheus),
            autoscalers[policy.namespace] if policy.adopted else None,
        )
        for policy in config.all_sleepers
    ]
    own_folders = {_folder(policy) for policy in config.sleepers}
    own = [cache for path, cache in caches.items() if path in own_folders]
    teams = [cache for path, cache in caches.items() if path not in own_folders]
    return Kind(workloads, own, [*teams, *autoscalers.values()])


def _autoscalers(namespace: str) -> str:
    return f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"


class Sleeper:
    """A `ManagedWorkload`. Its memory (time of the last write, and why it was refused) may be lost without harm."""

    def __init__(
        self,
        policy: SleepPolicy,
        hours: BusinessHours,
        cache: KubeCache[ObservedScale],
        meter: UseMeter,
        autoscalers: KubeCache[ScaleTarget] | None = None,  # of an adopted object's namespace
    ) -> None:
        self._policy, self._hours, self._cache, self._meter = policy, hours, cache, meter
        self._autoscalers = autoscalers
        self.subject = policy.subject
        self.target: ObjectReference = ("apps/v1", policy.kind, policy.namespace, policy.object)
        self._refusal = ""
        self._now = self._changed = datetime.min.replace(tzinfo=UTC)

    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult:
        self._now = now
        workload = self._cache.snapshot().get(self._policy.object)
        if why := self._cache.trouble():
            return self._verdict("unknown", "workload-unknown", note=f"holding: {why}")
        if workload is None:
            return self._verdict("absent", "no-such-workload", note="it does not exist")
        notes: list[str] = []
        calendar = awake_by_any(now, self._policy, self._hours, doubt)
        known: dict[str, Any] = {"replicas": workload.replicas}
        suitability = self._suitability(workload)
        state = self._state(workload, suitability, doubt, notes)
        decision, write = decide_replicas(state, self._policy, calendar), None
        if doubt and decision != self._alone(workload, suitability):
            notes.append(doubt.why)
        if decision.reason == Use.IDLE and decision.replicas < workload.replicas:
            use, known["activity"] = self._meter.read(workload.replicas, now)
            decision = decide_replicas(replace(state, use=use), self._policy, calendar)
            notes += [known["activity"]] if use is Use.UNKNOWN else []
        if self._policy.never:
            wakes = state.ours and workload.replicas < self._policy.replicas  # its write makes it an owner
            first = f"ebbtide release {self._policy.name}, then " if workload.ours or wakes else ""
            known["activity"] = f"{first}remove its key sleep"
        if decision.replicas != workload.replicas:
            write = self._write(workload, decision.replicas, decision.reason)
            notes += [f"the write of {decision.replicas} was refused: {self._refusal}"] if self._refusal else []
        if decision.reason == "another-writer-of-replicas":
            remedy = "; sleep.scale.replicas: kept keeps them" if self._policy.adopted and not self._policy.kept else ""
            notes.append(f"holding at {workload.replicas}: {state.other_writer} writes its replicas, too{remedy}")
        if decision.reason == "more-than-declared":
            notes.append(f"it has {workload.replicas} pods, and the stack file {self._policy.replicas}")
        if decision.reason == "autoscalers-unknown":
            notes.append(f"holding: autoscalers are not known: {state.blind}")
        if decision.reason == state.unsuitable:
            notes.append(f"it does not sleep: {suitability.why}")
        known["until"] = _until(decision.reason, calendar, workload.annotations)
        name = "asleep" if decision.replicas <= self._policy.asleep else "awake"
        return self._verdict(name, decision.reason, note="; ".join(notes), write=write, **known)

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:  # noqa: ARG002 - the protocol's form
        self._refusal = error if outcome is Outcome.REFUSED else ""
        if outcome in (Outcome.DONE, Outcome.REFUSED):
            self._changed = self._now
        if outcome is Outcome.STALE:
            self._cache.reconnect()

    def _alone(self, workload: ObservedScale, suitability: Suitability) -> ScaleDecision:
        """Return the decision by this process's clock, as if that were trusted."""
        calendar = sleep_at(self._now, self._policy, self._hours)
        return decide_replicas(self._state(workload, suitability, TRUST, []), self._policy, calendar)

    def _state(self, workload: ObservedScale, suitability: Suitability, doubt: Doubt, notes: list[str]) -> ScaleState:
        now, hold = self._now, hold_of(workload.annotations)
        clocks = doubt.instants(now)
        earliest, latest = min(clocks), max(clocks)
        wake, sleep = hold_until(workload.annotations, WAKE_UNTIL), hold_until(workload.annotations, SLEEP_UNTIL)
        other_writer = self._other_writer(workload)
        if sleep is not None and sleep.until is None:
            notes.append(f"{SLEEP_UNTIL} does not count: {sleep.why}")
        return ScaleState(
            replicas=workload.replicas,
            paused=hold is not None and hold.pause,
            kept=hold is not None and not hold.pause and hold.holds_at(earliest),
            wake_asked=wake is not None and wake.holds_at(earliest),
            sleep_asked=sleep is not None and sleep.until is not None and sleep.holds_at(latest),
            doubt=doubt.why,
            ours=workload.ours or (self._policy.kept and not other_writer and not workload.operator),
            other_writer=other_writer,
            unsuitable=suitability.reason,
            blind=suitability.blind,
            turned_since=self._turned_since(workload, clocks),
            changed_recently=timedelta() <= now - self._changed < BETWEEN_CHANGES,
        )

    def _other_writer(self, workload: ObservedScale) -> str:
        if self._policy.kept:
            return scaling_manager(workload.writers)
        return conflicting_manager(workload.writers, adopted=self._policy.adopted, differs=True)

    def _suitability(self, workload: ObservedScale) -> Suitability:
        if self._autoscalers is None:
            return Suitability()
        # The trouble is read first: if the list arrives between the two, the snapshot has it.
        blind, targets = self._autoscalers.trouble(), self._autoscalers.snapshot()
        if workload.operator:
            why = f"{workload.operator} owns it, whose operator writes its replicas"
            return Suitability("owned-by-an-operator", why, blind)
        own_target = ScaleTarget(self._policy.kind, self._policy.object)
        if names := sorted(name for name, target in targets.items() if target == own_target):
            return Suitability("scaled-by-an-autoscaler", f"HorizontalPodAutoscaler {names[0]} scales it", blind)
        return Suitability(blind=blind)

    def _turned_since(self, workload: ObservedScale, clocks: Sequence[datetime]) -> bool:
        """Return True if, by all clocks, the calendar's turn has passed since another manager's last write."""
        written, between = workload.written, turned_between if self._policy.adopted else opened_between
        return workload.agreed or (
            written is not None and all(between(written, now, self._policy, self._hours) for now in clocks)
        )

    def _write(self, workload: ObservedScale, replicas: int, reason: str) -> Write:
        policy = self._policy
        metadata = {"name": policy.object, "namespace": policy.namespace, "resourceVersion": workload.version}
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}
        change = f"spec.replicas {replicas}"
        return Write(path=f"{policy.path}/scale", body=body, change=change, reason=reason, applied=True)

    def _verdict(self, state: str, why: str, *, note: str, write: Write | None = None, **known: Any) -> ReconcileResult:
        return verdict_by_calendar(self.target, self._now + POLL, state, why, note=note, write=write, **known)


def _until(reason: str, calendar: SleepNow, annotations: Mapping[str, str]) -> datetime | None:
    """Return when `reason` ends; None if unknown: use, another writer or a doubt may end at any time."""
    if (key := _ASKED.get(reason)) is not None:
        hold = hold_until(annotations, key)
        return None if hold is None else hold.until
    return calendar.until if reason in (calendar.reason, "more-than-declared", Use.IDLE) else None


def _folder(policy: SleepPolicy) -> str:
    return policy.path.rpartition("/")[0]
