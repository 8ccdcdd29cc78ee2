"""Plays the pods of all scenarios: each runs at once, and is ready when its scenario says so."""

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from controllers.adapters.kube_api import ApiError, Json, KubeApi

LABEL = "recorded"
_ROUND_S = 0.05


@dataclass(slots=True)
class _Pod:
    name: str
    seen_at: float  # monotonic
    changes: bool  # of a rollout that never gets ready
    runs: bool
    ready: bool


@dataclass(frozen=True, slots=True)
class Count:
    at: datetime
    there: int
    ready: int


@dataclass
class PlayedPods:
    """`starts_s`: from a pod's birth until it is ready, by scenario."""

    api: KubeApi
    starts_s: Mapping[str, float]
    counts: dict[str, list[Count]] = field(default_factory=lambda: defaultdict[str, list[Count]](list))
    quick: bool = True  # all are ready at once
    _pods: dict[tuple[str, str], _Pod] = field(default_factory=dict[tuple[str, str], _Pod])
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> Self:
        self._threads = [Thread(target=run, daemon=True) for run in (self._look, self._play)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def ready(self, scenario: str) -> dict[str, bool]:
        return {name: pod.ready for (space, name), pod in self._pods.copy().items() if space == scenario}

    def _look(self) -> None:
        query = {"labelSelector": LABEL}
        version = self.api.get("/api/v1/pods", **query)["metadata"]["resourceVersion"]
        while not self._over.is_set():
            with suppress(ApiError):
                for event in self.api.watch("/api/v1/pods", 30.0, resourceVersion=version, **query):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(event["type"], event["object"])
                    if self._over.is_set():
                        return

    def _take(self, kind: str, pod: Json) -> None:
        space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        before = self._pods.get((space, name))
        if kind == "DELETED":
            self._pods.pop((space, name), None)
        else:
            self._pods[space, name] = _Pod(
                name=name,
                seen_at=time.monotonic() if before is None else before.seen_at,
                changes="held" in pod["metadata"]["labels"],
                runs=pod.get("status", {}).get("phase") == "Running",
                ready=_is_ready(pod),
            )
        own = [one for (where, _), one in self._pods.items() if where == space]
        self.counts[space].append(Count(datetime.now(UTC), len(own), sum(one.ready for one in own)))

    def _play(self) -> None:
        while not self._over.wait(_ROUND_S):
            for (space, name), pod in self._pods.copy().items():
                due = self.quick or time.monotonic() - pod.seen_at >= self.starts_s[space]
                ready = due and not pod.changes
                if not pod.runs or (ready and not pod.ready):
                    with suppress(ApiError):  # it has gone meanwhile
                        path = f"/api/v1/namespaces/{space}/pods/{name}/status"
                        self.api.patch(path, _status(ready, first=not pod.runs))
                        pod.runs, pod.ready = True, ready


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _status(ready: bool, *, first: bool) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"status": "True" if ready else "False", "lastTransitionTime": now}
    conditions = [{"type": kind, **condition} for kind in ("Ready", "ContainersReady")]
    status: dict[str, Any] = {"phase": "Running", "conditions": conditions}
    return {"status": {**status, "startTime": now} if first else status}
