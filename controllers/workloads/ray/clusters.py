"""Ray clusters as they are seen and written: a watch per namespace, the head's own word, one merge patch at a time.

A merge patch names what changes and resets nothing else. A server-side apply would have to repeat the whole spec each
time, for what its manager leaves out is removed; so neither field could be written without the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.adapters.journal import Object
from controllers.adapters.kube_api import MERGE_PATCH, ApiError, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.kube_cluster import outcome_of
from controllers.ports import Outcome
from controllers.workloads.ray.documents import Json, merge_patch, wanted_of
from controllers.workloads.ray.head import Head
from controllers.workloads.ray.idle import Activity, Busy, IdleTime, Unreadable
from controllers.workloads.ray.sleep import Seen, SleepDecision, decide_sleep, reads_head
from controllers.workloads.ray.spec import Phase, SpecDecision, decide_spec
from controllers.workloads.ray.workers import idle_workers, spare
from controllers.workloads.words import Notify, Verdict, Write
from ebbtide.vocabulary.holds import Hold, hold_of
from ebbtide.vocabulary.labels import APPLY_UNTIL, ASLEEP_FOR, KEEP_UNTIL, PREFIX, SPEC, WAKE_UNTIL, WORKLOADS
from ebbtide.vocabulary.workloads import Purpose, RayPolicy, Sleep, WorkloadsConfig, sleep_of

POLL = timedelta(seconds=10)  # between two looks at a cluster of which no news come
_LOOK = timedelta(seconds=5)  # how long what a head said is taken for what it says, unless it is to be suspended
_RETRY = timedelta(seconds=1)
_UNSEEN, _REFUSED, _SUSPEND = "write-not-seen-yet", "the wanted spec was refused", "spec.suspend"
_OUTLIVES_HEAD = timedelta(minutes=30)
"""Time after which everything under a lost head has ended. The kubelet restarts an unhealthy head after ten minutes,
and Ray's workers give up a head that they cannot reach after ten more (KubeRay's defaults)."""
_LAG = timedelta(seconds=30)  # a write that no watch shows by then was overwritten by somebody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """State of a RayCluster. `gone`: KubeRay says that it is suspended and no pod is left. `headless_from`: the
    instant from which nothing can run there, because no head is ready; None if a head is ready or nothing is known.
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
        """Suspended, and pods of it may still be there."""
        return self.suspended and not self.gone

    @property
    def state(self) -> str:
        return "suspending" if self.going else self.phase.value

    def until(self, key: str) -> Hold | None:
        """An instant among its annotations; one that cannot be read does not end."""
        return hold_of({KEEP_UNTIL: self.annotations[key]}) if key in self.annotations else None


def observed(item: dict[str, Any]) -> Observed:
    conditions: Sequence[Json] = item.get("status", {}).get("conditions") or ()
    by_type = {it.get("type"): it for it in conditions}
    suspended = by_type.get("RayClusterSuspended", {})
    annotations: dict[str, str] = item["metadata"].get("annotations") or {}
    return Observed(
        annotations={key: value for key, value in annotations.items() if key.startswith(PREFIX)},
        spec=item.get("spec") or {},
        gone=suspended.get("status") == "True",
        version=item["metadata"]["resourceVersion"],
        headless_from=_headless_from(by_type.get("HeadPodReady", {}), suspended),
    )


def _headless_from(head: Json, suspended: Json) -> datetime | None:
    """A head that has not been ready since the cluster was created or resumed never ran anything under its spec.

    KubeRay then writes both conditions at once, or the condition of the head is the older one.
    """
    if (head.get("status"), suspended.get("status")) != ("False", "False"):
        return None
    try:
        lost, awake = (datetime.fromisoformat(it["lastTransitionTime"]) for it in (head, suspended))
    except (KeyError, ValueError):
        return None
    return lost if lost <= awake else lost + _OUTLIVES_HEAD


def _replicas(item: dict[str, Any]) -> int:
    return item["spec"].get("replicas", 0)


class RayClusters:
    """A `Kind`."""

    def __init__(self, api: KubeApi, config: WorkloadsConfig, notify: Notify) -> None:
        spaces = {policy.namespace for policy in config.ray}
        clusters = {it: KubeCache(api, _path(it), observed, notify) for it in spaces}
        pools = KubeCache(api, _pools_path(config), _replicas, notify)
        self._caches: list[KubeCache[Any]] = [*clusters.values()]
        self._caches += [pools] if any(policy.pools for policy in config.ray) else []
        self.workloads: Sequence[RayCluster] = [
            RayCluster(api, config, policy, clusters[policy.namespace], pools) for policy in config.ray
        ]

    def start(self) -> None:
        for cache in self._caches:
            cache.start()

    def close(self) -> None:
        for cache in self._caches:
            cache.close()

    def trouble(self) -> str:
        return next(filter(None, (cache.trouble() for cache in self._caches)), "")


class RayCluster:
    """A `Workload`. It remembers since when it is idle, its last write and what the API made of a spec; all may go."""

    def __init__(
        self,
        api: KubeApi,
        config: WorkloadsConfig,
        policy: RayPolicy,
        cache: KubeCache[Observed],
        pools: KubeCache[int],
    ) -> None:
        self.subject = f"raycluster {policy.namespace}/{policy.name}"
        self.about: Object = ("ray.io/v1", "RayCluster", policy.namespace, policy.name)
        self._api, self._hours, self._policy, self._cache, self._pools = api, config.hours, policy, cache, pools
        self._path, self._pool_path = f"{_path(policy.namespace)}/{policy.name}", _pools_path(config)
        self._head, self._idle = Head(policy.head, policy.token_file), IdleTime()
        self._looked: datetime | None = None
        self._idle_for: timedelta | None = None
        self._activity: Activity | None = None  # None: not asked for
        self._stored: tuple[str, Json | None, str] = ("", None, "")  # a wanted text, what the API makes of it, why not
        self._expected: tuple[str, datetime] | None = None  # the version that our last write replaced, and when
        self._now = datetime.min.replace(tzinfo=UTC)

    def reconcile(self, now: datetime, doubt: str) -> Verdict:
        self._now = now
        seen = self._cache.snapshot().get(self._policy.name)
        if why := self._cache.trouble():
            self._forget()
            return self._verdict("unknown", "cluster-unknown", note=f"holding: {why}")
        if seen is None:
            self._forget()
            return self._verdict("absent", "no-such-raycluster", note="it does not exist")
        if self._unseen(seen, now):
            return self._verdict(seen.state, _UNSEEN)
        notes: list[str] = []
        sleep, known = _sleep(seen, notes), self._known(seen, now, doubt, notes)
        wanted, why = (None, "paused") if known.paused else self._wanted(seen)
        if wanted is None:
            decision = SpecDecision(reason="not-decided")
            notes += [] if known.paused else [why]
        else:
            decision = decide_spec(seen.spec, wanted, seen.phase)
        write, slept = None, SleepDecision(suspend=seen.suspended, reason=decision.reason)
        if decision.spec is not None and not seen.going:
            write = self._spec_write(seen, decision.spec, decision.reason)
        elif seen.phase is not Phase.EMPTY:
            slept = self._decide_sleep(replace(known, pending=bool(decision.pending)), sleep)
            write = self._sleep_write(seen, slept) if slept.suspend != seen.suspended else None
        workers = idle_workers(seen.spec, self._idle_for)
        notes += filter(None, (it.note for it in workers))
        spec = {"spec": decision.reason, "pending": decision.pending, "later": decision.later}
        idle = {"idleFor": self._idle_for, "workers": workers, **_told(self._activity), "drivers": known.drivers}
        return self._verdict(seen.state, slept.reason, note="; ".join(notes), write=write, **spec, **idle)

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        if outcome is Outcome.DONE:
            self._expected = (write.version, self._now)
        elif outcome is Outcome.STALE:
            self._cache.reconnect()
        elif outcome is Outcome.REFUSED and not write.change.startswith(_SUSPEND):
            self._stored = (self._stored[0], None, f"{_REFUSED}: {error}")  # trying on would keep it from waking

    # --- what is known ------------------------------------------------------------------------------------------------

    def _unseen(self, seen: Observed, now: datetime) -> bool:
        if self._expected is None:
            return False
        version, at = self._expected
        if seen.version == version and timedelta() <= now - at < _LAG:
            return True
        self._expected = None
        return False

    def _wanted(self, seen: Observed) -> tuple[Json | None, str]:
        """The wanted spec as the API server would store it: with its defaults, without what it does not know.

        A dry run of the write that would make it whole. Asked for once for each text.
        """
        text = seen.annotations.get(SPEC)
        if text is None:
            return None, f"the annotation {SPEC} is missing"
        if text == self._stored[0]:
            return self._stored[1:]
        try:
            wanted = wanted_of(text)
            patch = {"metadata": {"resourceVersion": seen.version}, "spec": merge_patch(_own(seen.spec), wanted)}
            whole = self._api.patch(self._path, patch, MERGE_PATCH, fieldManager=WORKLOADS, dryRun="All")
            self._stored = (text, _own(whole["spec"]), "")
        except ValueError as error:
            self._stored = (text, None, f"{SPEC}: {error}")
        except ApiError as error:
            why = f"{_REFUSED}: {error}"
            if outcome_of(error) is not Outcome.REFUSED:
                return None, why
            self._stored = (text, None, why)
        return self._stored[1:]

    def _known(self, seen: Observed, now: datetime, doubt: str, notes: list[str]) -> Seen:
        """All but what the head says and the spec needs."""
        hold, wake, apply = hold_of(seen.annotations), seen.until(WAKE_UNTIL), seen.until(APPLY_UNTIL)
        if apply is not None and apply.until is None:
            notes.append(f"{APPLY_UNTIL} does not count: {apply.why}")
        purpose = seen.annotations.get(ASLEEP_FOR)
        return Seen(
            suspended=seen.suspended,
            purpose=Purpose(purpose) if purpose in [*Purpose] else None,
            hours_open=self._hours.is_open(now),
            drivers=self._drivers(notes),
            wake_asked=wake is not None and wake.holds_at(now),
            may_interrupt=apply is not None and apply.until is not None and apply.holds_at(now),
            paused=hold is not None and hold.pause,
            kept=hold is not None and not hold.pause and hold.holds_at(now),
            spare=spare(seen.spec),
            headless=seen.headless_from is not None and seen.headless_from <= now,
            doubt=doubt,
        )

    def _drivers(self, notes: list[str]) -> bool | None:
        """Whether a pool of drivers asks for workers."""
        if not self._policy.pools:
            return False
        if why := self._pools.trouble():
            notes.append(f"its drivers are not seen: {why}")
            return None
        asked = self._pools.snapshot()
        if missing := [pool for pool in self._policy.pools if pool not in asked]:
            notes.append(f"no such Deployment: {', '.join(missing)}")
        return True if any(asked.get(pool) for pool in self._policy.pools) else None if missing else False

    def _drivers_now(self) -> bool | None:
        """The same without the cache: a watch may be connected and silent."""
        try:
            return any(_replicas(self._api.get(f"{self._pool_path}/{pool}")) for pool in self._policy.pools)
        except ApiError:
            return None

    def _decide_sleep(self, known: Seen, sleep: Sleep) -> SleepDecision:
        if not reads_head(known, sleep):
            self._forget()
            return decide_sleep(known, sleep)
        if self._looked is None or not timedelta() <= self._now - self._looked < _LOOK:
            self._look()
        decision = decide_sleep(self._with_activity(known), sleep)
        if decision.suspend and self._looked != self._now:  # on the head's word of this very moment
            self._look()
        if decision.suspend:
            known = replace(known, drivers=self._drivers_now())
            decision = decide_sleep(self._with_activity(known), sleep)
        return decision

    def _with_activity(self, known: Seen) -> Seen:
        """A head that takes a connection is alive, whatever it answers and whatever KubeRay says of it."""
        headless = known.headless and isinstance(self._activity, Unreadable) and self._activity.silent
        return replace(known, idle_for=self._idle_for, headless=headless)

    def _look(self) -> None:
        activity = self._head.look()
        self._looked, self._idle_for = self._now, self._idle.observe(self._now, activity)
        self._activity = activity

    def _forget(self) -> None:
        self._idle.forget()
        self._looked, self._idle_for, self._activity = None, None, None

    # --- what is said and written -------------------------------------------------------------------------------------

    def _verdict(self, state: str, why: str, *, note: str = "", write: Write | None = None, **more: Any) -> Verdict:
        names = {"kind": "RayCluster", "namespace": self._policy.namespace, "name": self._policy.name}
        after = _RETRY if write is not None or why == _UNSEEN else POLL
        report = {**names, "state": state, "why": why, "note": note, **more}
        return Verdict(report=report, due=self._now + after, write=write, note=note)

    def _spec_write(self, seen: Observed, spec: Json, reason: str) -> Write:
        patch = merge_patch(_own(seen.spec), spec)
        body = {"metadata": {"resourceVersion": seen.version}, "spec": patch}
        return Write(path=self._path, body=body, change=f"spec ({', '.join(sorted(patch))})", reason=reason)

    def _sleep_write(self, seen: Observed, slept: SleepDecision) -> Write:
        annotations = {ASLEEP_FOR: slept.purpose}  # null when it wakes
        metadata = {"resourceVersion": seen.version, "annotations": annotations}
        change = f"{_SUSPEND} {'true' if slept.suspend else 'false'}"
        body = {"metadata": metadata, "spec": {"suspend": slept.suspend}}
        return Write(path=self._path, body=body, change=change, reason=slept.reason)


def _told(activity: Activity | None) -> dict[str, str]:
    """What the head said, for people, and how it is meant."""
    if activity is None:
        return {"activity": "not read", "reading": "none"}
    said = activity.why if isinstance(activity, Busy | Unreadable) else "idle"
    return {"activity": said, "reading": type(activity).__name__.lower()}


def _own(spec: Json) -> Json:
    """Of a spec what one of our two fields covers: all but `suspend`."""
    return {key: value for key, value in spec.items() if key != "suspend"}


def _sleep(seen: Observed, notes: list[str]) -> Sleep:
    """What cannot be read never sleeps."""
    try:
        return sleep_of(seen.annotations)
    except ValueError as error:
        notes.append(str(error))
        return Sleep()


def _path(namespace: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"


def _pools_path(config: WorkloadsConfig) -> str:
    return f"/apis/apps/v1/namespaces/{config.pool_namespace}/deployments"
