"""Autoscalers as they are seen and written: a watch per namespace and kind, one field by server-side apply.

An apply owns what it names, so this one names the object and the field alone. It carries the version that it was
decided on: whoever changed the object since wins, and it is decided anew. On the way out the field stays as it is.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from controllers.adapters.journal import Object
from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.ports import Outcome
from controllers.workloads.floors.calendar import FloorNow, floor_at
from controllers.workloads.floors.decision import FloorDecision, Seen, decide_floor
from controllers.workloads.floors.field import Field, Observed
from controllers.workloads.floors.hpa import MIN_REPLICAS
from controllers.workloads.floors.scaled_object import MIN_REPLICA_COUNT
from controllers.workloads.words import Notify, Verdict, Write
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.windows import BusinessHours
from ebbtide.vocabulary.workloads import FloorPolicy, WorkloadsConfig

POLL = timedelta(seconds=10)  # between two looks at an autoscaler of which no news come


class Floors:
    """A `Kind`."""

    def __init__(self, api: KubeApi, config: WorkloadsConfig, notify: Notify) -> None:
        places = {(policy.namespace, field_of(policy)) for policy in config.floors}
        self._caches = {
            (space, field): KubeCache(api, field.path(space), field.observed, notify) for space, field in places
        }
        self.workloads: Sequence[Floor] = [
            Floor(policy, config.hours, self._caches[policy.namespace, field_of(policy)]) for policy in config.floors
        ]

    def start(self) -> None:
        for cache in self._caches.values():
            cache.start()

    def close(self) -> None:
        for cache in self._caches.values():
            cache.close()

    def trouble(self) -> str:
        return next(filter(None, (cache.trouble() for cache in self._caches.values())), "")


class Floor:
    """A `Workload`. It remembers which version its last write replaced, and whether it was refused; both may go."""

    def __init__(self, policy: FloorPolicy, hours: BusinessHours, cache: KubeCache[Observed]) -> None:
        self._policy, self._hours, self._cache, self._field = policy, hours, cache, field_of(policy)
        self.subject = f"{self._field.kind.lower()} {policy.namespace}/{policy.name}"
        self.about: Object = (self._field.api, self._field.kind, policy.namespace, policy.name)
        self._replaced = self._refusal = ""

    def reconcile(self, now: datetime, doubt: str) -> Verdict:
        seen = self._cache.snapshot().get(self._policy.name)
        if why := self._cache.trouble():
            return self._verdict(now, "unknown", "autoscaler-unknown", note=f"holding: {why}")
        if seen is None:
            return self._verdict(now, "absent", "no-such-autoscaler", note="it does not exist")
        if seen.pods is None or seen.most is None:
            return self._verdict(now, "unknown", "unreadable", note=f"holding: {self._field.least} cannot be read")
        floor, hold = floor_at(now, self._policy, self._hours), hold_of(seen.annotations)
        known = Seen(
            pods=seen.pods,
            most=seen.most,
            paused=hold is not None and hold.pause,
            kept=hold is not None and not hold.pause and hold.holds_at(now),
            doubt=doubt,
        )
        decided = decide_floor(known, floor)
        unseen = seen.version == self._replaced
        write = self._write(seen, decided) if decided.pods != seen.pods and not unseen else None
        state = "raised" if decided.pods > self._policy.least else "at-min"
        note = f"its own maximum is {seen.most}, and {floor.pods} are wanted" if floor.pods > seen.most else ""
        if write is not None and self._refusal:
            note = f"the write of {decided.pods} was refused: {self._refusal}"
        return self._verdict(now, state, decided.reason, note=note, write=write, floor=floor)

    def wrote(self, write: Write, outcome: Outcome, error: str) -> None:
        self._refusal = error if outcome is Outcome.REFUSED else ""
        if outcome is Outcome.DONE:
            self._replaced = write.version
        elif outcome is Outcome.STALE:
            self._cache.reconnect()

    def _write(self, seen: Observed, decided: FloorDecision) -> Write:
        field, policy = self._field, self._policy
        metadata = {"name": policy.name, "namespace": policy.namespace, "resourceVersion": seen.version}
        return Write(
            path=f"{field.path(policy.namespace)}/{policy.name}",
            body={
                "apiVersion": field.api,
                "kind": field.kind,
                "metadata": metadata,
                "spec": {field.least: decided.pods},
            },
            change=f"spec.{field.least} {decided.pods}",
            reason=decided.reason,
            applied=True,
        )

    def _verdict(
        self,
        now: datetime,
        state: str,
        why: str,
        *,
        note: str,
        write: Write | None = None,
        floor: FloorNow | None = None,
    ) -> Verdict:
        names = {"kind": self._field.kind, "namespace": self._policy.namespace, "name": self._policy.name}
        known: dict[str, Any] = {} if floor is None else {"floor": floor.pods, "until": floor.until}
        due = now + POLL if floor is None or floor.until is None else min(now + POLL, floor.until)
        return Verdict(
            report={**names, "state": state, "why": why, "note": note, **known}, due=due, write=write, note=note
        )


def field_of(policy: FloorPolicy) -> Field:
    return MIN_REPLICA_COUNT if policy.keda else MIN_REPLICAS
