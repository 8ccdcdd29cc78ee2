"""Observation and writes of Ray clusters: a watch per namespace, the head's answers, and one merge patch at a time.

A merge patch contains only the changes and resets nothing else. A server-side apply would have to repeat the entire
spec each time, since it removes fields that its manager leaves out; then `suspend` and the other fields could not be
written separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.adapters.journal import ObjectReference
from controllers.adapters.kube_api import MERGE_PATCH, ApiError, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.kube_cluster import outcome_of
from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome
from controllers.reconciling import Expectation, Expectations
from controllers.workloads.loop import Kind, Notify, ReconcileResult, Write
from controllers.workloads.ray.documents import Json, declared_spec, merge_patch, without_suspend
from controllers.workloads.ray.head import Head
from controllers.workloads.ray.idle import Activity, Busy, IdleTime, Unreadable, idle_workers
from controllers.workloads.ray.sleep import RayClusterState, SleepDecision, decide_sleep
from controllers.workloads.ray.spec import Phase, SpecDecision, decide_spec
from ebbtide.vocabulary.holds import hold_of, hold_until
from ebbtide.vocabulary.labels import APPLY_UNTIL, ASLEEP_FOR, PREFIX, SPEC, WAKE_UNTIL, WORKLOADS
from ebbtide.vocabulary.workloads import Purpose, RayPolicy, Sleep, WorkloadsConfig, sleep_of

POLL = timedelta(seconds=10)  # between two reconciles of a cluster without events
_HEAD_INTERVAL = timedelta(
    seconds=5
)  # the head's last answer is valid for this time, unless the cluster is about to be suspended
_RETRY = timedelta(seconds=1)
_UNSEEN, _REFUSED, _SUSPEND = "write-not-seen-yet", "the wanted spec was refused", "spec.suspend"
_OUTLIVES_HEAD = timedelta(minutes=30)
"""After this time without a head, everything under that head has ended. The kubelet restarts an unhealthy head after
ten minutes, and Ray's workers give up an unreachable head after ten more (KubeRay's defaults)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRayCluster:
    """State of a RayCluster. `gone`: KubeRay reports that the cluster is suspended and no pod is left. `headless_from`:
    the instant from which nothing can run, because no head is ready; None if a head is ready or its state is unknown.
    """

    annotations: dict[str, str]
    spec: Json
    gone: bool
    version: str
    headless_from: datetime | None = None

    @property
    def suspended(self) -> bool:
        return self.spec.get("suspend") is True

    @property
    def phase(self) -> Phase:
        if "headGroupSpec" not in self.spec:
            return Phase.EMPTY
        return Phase.ASLEEP if self.suspended and self.gone else Phase.AWAKE

    @property
    def going(self) -> bool:
        """Return True if the cluster is suspended and some of its pods may still exist."""
        return self.suspended and not self.gone

    @property
    def state(self) -> str:
        return "suspending" if self.going else self.phase.value


def observed(item: dict[str, Any]) -> ObservedRayCluster:
    conditions: Sequence[Json] = item.get("status", {}).get("conditions") or ()
    by_type = {condition.get("type"): condition for condition in conditions}
    suspended = by_type.get("RayClusterSuspended", {})
    annotations: dict[str, str] = item["metadata"].get("annotations") or {}
    return ObservedRayCluster(
        annotations={key: value for key, value in annotations.items() if key.startswith(PREFIX)},
        spec=item.get("spec") or {},
        gone=suspended.get("status") == "True",
        version=item["metadata"]["resourceVersion"],
        headless_from=_headless_from(by_type.get("HeadPodReady", {}), suspended),
    )


def _headless_from(head: Json, suspended: Json) -> datetime | None:
    """Return the instant from which nothing can run without a head.

    If a head has not been ready since the cluster was created or resumed, it never ran anything under the present spec.
    KubeRay then writes both conditions at once, or the head's condition is the older one.
    """
    if (head.get("status"), suspended.get("status")) != ("False", "False"):
        return None
    try:
        lost, awake = (datetime.fromisoformat(condition["lastTransitionTime"]) for condition in (head, suspended))
    except (KeyError, ValueError):
        return None
    return lost if lost <= awake else lost + _OUTLIVES_HEAD


def _replicas(item: dict[str, Any]) -> int:
    return item["spec"].get("replicas", 0)


def ray_clusters(api: KubeApi, config: WorkloadsConfig, notify: Notify) -> Kind:
    namespaces = {policy.namespace for policy in config.ray}
    clusters = {namespace: KubeCache(api, _path(namespace), observed, notify) for namespace in namespaces}
    pools = KubeCache(api, _pools_path(config), _replicas, notify)
    workloads = [ManagedRayCluster(api, config, policy, clusters[policy.namespace], pools) for policy in config.ray]
    needs_pools = any(policy.pools for policy in config.ray)
    return Kind(workloads, [*clusters.values(), *([pools] if needs_pools else [])])


class ManagedRayCluster:
    """A `ManagedWorkload`. Its memory (idle time, last write, the API's reply to a spec) may be lost without harm."""

    def __init__(
        self,
        api: KubeApi,
        config: WorkloadsConfig,
        policy: RayPolicy,
        cache: KubeCache[ObservedRayCluster],
        pools: KubeCache[int],
    ) -> None:
        self.subject = f"raycluster {policy.namespace}/{policy.name}"
        self.target: ObjectReference = ("ray.io/v1", "RayCluster", policy.namespace, policy.name)
        self._api, self._hours, self._policy, self._cache, self._pools = api, config.hours, policy, cache, pools
        self._path, self._pool_path = f"{_path(policy.namespace)}/{policy.name}", _pools_path(config)
        self._head, self._idle = Head(policy.head, policy.token_file), IdleTime()
        self._head_read_at: datetime | None = None
        self._idle_for: timedelta | None = None
        self._activity: Activity | None = None  # None: the head was not read
        self._stored: tuple[str, Json | None, str] = ("", None, "")  # a declared text, the stored spec, why none
        self._expectations = Expectations[str]()
        self._now = datetime.min.replace(tzinfo=UTC)

    def reconcile(self, now: datetime, doubt: Doubt) -> ReconcileResult:
        self._now = now
        cluster = self._cache.snapshot().get(self._policy.name)
        if why := self._cache.trouble():
            self._forget()
            return self._verdict("unknown", "cluster-unknown", note=f"holding: {why}")
        if cluster is None:
            self._forget()
            return self._verdict("absent", "no-such-raycluster", note="it does not exist")
        if self._expectations.outstanding("raycluster", self.subject, (cluster.version, None), now) is not None:
            return self._verdict(cluster.state, _UNSEEN)
        notes: list[str] = []
        sleep, state = _sleep(cluster, notes), self._state(cluster, now, doubt, notes)
        declared, why = (None, "paused") if state.paused else self._declared(cluster)
        if declared is None:
            decision = SpecDecision(reason="not-decided")
            notes += [] if state.paused else [why]
        else:
            decision = decide_spec(cluster.spec, declared, cluster.phase)
        write, sleep_decision = None, SleepDecision(suspend=cluster.suspended, reason=decision.reason)
        if decision.spec is not None and not cluster.going:
            write = self._spec_write(cluster, decision.spec, decision.reason)
        elif cluster.phase is not Phase.EMPTY:
            state = replace(state, pending=bool(decision.pending))
            sleep_decision = self._decide_sleep(state, sleep)
            notes += [doubt.why] if doubt and sleep_decision.suspend != self._alone(cluster, state, sleep) else []
            if sleep_decision.suspend != cluster.suspended:
                write = self._sleep_write(cluster, sleep_decision)
        workers = idle_workers(cluster.spec, self._idle_for)
        notes += filter(None, (group.note for group in workers))
        return self._verdict(
            cluster.state,
            sleep_decision.reason,
            note="; ".join(notes),
            write=write,
            spec=decision.reason,
            pending=decision.pending,
            later=decision.later,
            idleFor=self._idle_for,
            workers=workers,
            **_described(self._activity),
            drivers=state.drivers,
        )

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        if outcome is Outcome.DONE:
            written = Expectation(value=write.change, before=write.version, at=self._now)
            self._expectations.record("raycluster", self.subject, written)
        elif outcome is Outcome.STALE:
            self._cache.reconnect()
        elif outcome is Outcome.REFUSED and not write.change.startswith(_SUSPEND):
            self._stored = (self._stored[0], None, f"{_REFUSED}: {error}")  # retries would prevent waking

    # --- facts --------------------------------------------------------------------------------------------------------

    def _declared(self, cluster: ObservedRayCluster) -> tuple[Json | None, str]:
        """Return the declared spec as the API server would store it, with defaults and without unknown fields.

        This needs a dry run of the complete write, which is sent once for each text.
        """
        text = cluster.annotations.get(SPEC)
        if text is None:
            return None, f"the annotation {SPEC} is missing"
        if text == self._stored[0]:
            return self._stored[1:]
        try:
            spec = merge_patch(without_suspend(cluster.spec), declared_spec(text))
            patch = {"metadata": {"resourceVersion": cluster.version}, "spec": spec}
            stored = self._api.patch(self._path, patch, MERGE_PATCH, fieldManager=WORKLOADS, dryRun="All")
            self._stored = (text, without_suspend(stored["spec"]), "")
        except ValueError as error:
            self._stored = (text, None, f"{SPEC}: {error}")
        except ApiError as error:
            why = f"{_REFUSED}: {error}"
            if outcome_of(error) is not Outcome.REFUSED:
                return None, why
            self._stored = (text, None, why)
        return self._stored[1:]

    def _alone(self, cluster: ObservedRayCluster, state: RayClusterState, sleep: Sleep) -> bool:
        """Return True if the cluster would be suspended according to this process's clock, if that were trusted."""
        trusted = replace(self._state(cluster, self._now, TRUST, []), pending=state.pending)
        return decide_sleep(self._with_activity(trusted), sleep).suspend

    def _state(self, cluster: ObservedRayCluster, now: datetime, doubt: Doubt, notes: list[str]) -> RayClusterState:
        """Return all facts except the head's answers and the pending spec."""
        clocks = doubt.instants(now)
        earliest = min(clocks)
        hold, wake, apply = (
            hold_of(cluster.annotations),
            hold_until(cluster.annotations, WAKE_UNTIL),
            hold_until(cluster.annotations, APPLY_UNTIL),
        )
        if apply is not None and apply.until is None:
            notes.append(f"{APPLY_UNTIL} does not count: {apply.why}")
        purpose = cluster.annotations.get(ASLEEP_FOR)
        return RayClusterState(
            suspended=cluster.suspended,
            purpose=Purpose(purpose) if purpose in [*Purpose] else None,
            hours_open=any(map(self._hours.is_open, clocks)),
            drivers=self._drivers(notes),
            wake_asked=wake is not None and wake.holds_at(earliest),
            may_interrupt=apply is not None and apply.until is not None and apply.holds_at(now),
            paused=hold is not None and hold.pause,
            kept=hold is not None and not hold.pause and hold.holds_at(earliest),
            headless=cluster.headless_from is not None and cluster.headless_from <= now,
            doubt=doubt.why,
        )

    def _drivers(self, notes: list[str]) -> bool | None:
        """Return True if a pool of drivers requests workers; None if this is unknown."""
        if not self._policy.pools:
            return False
        if why := self._pools.trouble():
            notes.append(f"its drivers are not seen: {why}")
            return None
        replicas = self._pools.snapshot()
        if missing := [pool for pool in self._policy.pools if pool not in replicas]:
            notes.append(f"no such Deployment: {', '.join(missing)}")
        if any(replicas.get(pool) for pool in self._policy.pools):
            return True
        return None if missing else False

    def _drivers_now(self) -> bool | None:
        """Read from the API, not from the cache: a watch may be connected but silent."""
        try:
            return any(_replicas(self._api.get(f"{self._pool_path}/{pool}")) for pool in self._policy.pools)
        except ApiError:
            return None

    def _decide_sleep(self, state: RayClusterState, sleep: Sleep) -> SleepDecision:
        if state.suspended or state.paused:
            self._forget()
            return decide_sleep(state, sleep)
        if self._head_read_at is None or not timedelta() <= self._now - self._head_read_at < _HEAD_INTERVAL:
            self._read_head()
        decision = decide_sleep(self._with_activity(state), sleep)
        if decision.suspend and self._head_read_at != self._now:  # suspend only on an answer from this instant
            self._read_head()
        if decision.suspend:
            state = replace(state, drivers=self._drivers_now())
            decision = decide_sleep(self._with_activity(state), sleep)
        return decision

    def _with_activity(self, state: RayClusterState) -> RayClusterState:
        """Add the head's activity. A head that accepts a connection is alive, whatever it or KubeRay reports."""
        headless = state.headless and isinstance(self._activity, Unreadable) and self._activity.silent
        return replace(state, idle_for=self._idle_for, headless=headless)

    def _read_head(self) -> None:
        self._activity = self._head.activity()
        self._head_read_at, self._idle_for = self._now, self._idle.observe(self._now, self._activity)

    def _forget(self) -> None:
        self._idle.forget()
        self._head_read_at, self._idle_for, self._activity = None, None, None

    # --- reports and writes -------------------------------------------------------------------------------------------

    def _verdict(
        self, state: str, why: str, *, note: str = "", write: Write | None = None, **details: Any
    ) -> ReconcileResult:
        names = {"kind": "RayCluster", "namespace": self._policy.namespace, "name": self._policy.name}
        pause = _RETRY if write is not None or why == _UNSEEN else POLL
        report = {**names, "state": state, "why": why, "note": note, **details}
        return ReconcileResult(report=report, due=self._now + pause, write=write, note=note)

    def _spec_write(self, cluster: ObservedRayCluster, spec: Json, reason: str) -> Write:
        patch = merge_patch(without_suspend(cluster.spec), spec)
        body = {"metadata": {"resourceVersion": cluster.version}, "spec": patch}
        return Write(path=self._path, body=body, change=f"spec ({', '.join(sorted(patch))})", reason=reason)

    def _sleep_write(self, cluster: ObservedRayCluster, decision: SleepDecision) -> Write:
        annotations = {ASLEEP_FOR: decision.purpose}  # null when it wakes
        metadata = {"resourceVersion": cluster.version, "annotations": annotations}
        change = f"{_SUSPEND} {'true' if decision.suspend else 'false'}"
        body = {"metadata": metadata, "spec": {"suspend": decision.suspend}}
        return Write(path=self._path, body=body, change=change, reason=decision.reason)


def _described(activity: Activity | None) -> dict[str, str]:
    """Return the head's answer as text for operators, and the kind of reading."""
    if activity is None:
        return {"activity": "not read", "reading": "none"}
    text = activity.why if isinstance(activity, Busy | Unreadable) else "idle"
    return {"activity": text, "reading": type(activity).__name__.lower()}


def _sleep(cluster: ObservedRayCluster, notes: list[str]) -> Sleep:
    """Return the cluster's sleep settings. If they are unreadable, the cluster never sleeps."""
    try:
        return sleep_of(cluster.annotations)
    except ValueError as error:
        notes.append(str(error))
        return Sleep()


def _path(namespace: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"


def _pools_path(config: WorkloadsConfig) -> str:
    return f"/apis/apps/v1/namespaces/{config.pool_namespace}/deployments"
