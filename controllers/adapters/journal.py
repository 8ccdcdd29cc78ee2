"""The log and the Events: one JSON object per line, and Events on the objects concerned.

Events are core/v1: events.k8s.io has no plain count. Each object and reason has one Event, which counts repetitions.
`kubectl describe` finds the Event by the object's uid. A thread writes Events, so that the loop never waits; refused
Events are dropped.
"""

import json
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TextIO, TypeAlias

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.metrics import Meter
from controllers.ports import NO_LONGER, Action, Mark, Outcome, ReconcileReport, Scale
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.labels import CONTROLLER, EVENTS_OF_CLUSTER

PAUSE = 5.0  # seconds between two batches of Events
_QUEUE_LIMIT = 1000  # Events
ObjectReference: TypeAlias = tuple[str, str, str, str]  # API version, kind, namespace (or ""), name
_EVENT_TYPES = {Outcome.DONE: "Normal", Outcome.REFUSED: "Warning"}  # other outcomes create no Event


class LineJournal:
    """The scaler's journal. `last_error` returns the server's message on the last write; empty if it succeeded."""

    def __init__(self, stream: TextIO, meter: Meter, events: "Events", last_error: Callable[[], str]) -> None:
        self._stream, self._meter, self._events, self._last_error = stream, meter, events, last_error

    def reconciled(self, report: ReconcileReport) -> None:
        self._meter.reconciled(report)

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        fields = {key: value for key, value in encoded(action).items() if key != "version"}
        error = self._last_error()
        write_line(self._stream, at, "acted", **fields, outcome=outcome.value, **({"error": error} if error else {}))
        if isinstance(action, Scale):
            subject, change = f"pool {action.pool}", f"replicas {action.replicas}"
        elif isinstance(action, Mark):
            return
        else:
            subject, change = f"budget {action.budget}", "opened" if action.max_unavailable else "closed"
        self._events.wrote(at, subject, change, action.reason, outcome, error)

    def noted(self, at: datetime, subject: str, message: str) -> None:
        write_line(self._stream, at, "noted", subject=subject, message=message)
        self._events.noted(at, subject, message)


def write_line(stream: TextIO, at: datetime, event: str, **record: object) -> None:
    line = json.dumps({"at": at.isoformat(timespec="milliseconds"), "event": event, **record})
    print(line, file=stream, flush=True)


def objects_of(config: ControllerConfig) -> dict[str, ObjectReference]:
    """Return the Kubernetes object of each of the scaler's subjects."""
    pools = {f"pool {p.name}": ("apps/v1", "Deployment", p.namespace, p.deployment) for p in config.pools}
    budgets = {f"budget {b.name}": ("policy/v1", "PodDisruptionBudget", b.namespace, b.pdb) for b in config.budgets}
    return pools | budgets


class Events:
    """Writes Events on `objects`, which are given by subject. `source` is the Events' component and field manager."""

    def __init__(self, api: KubeApi, objects: Mapping[str, ObjectReference], source: str = CONTROLLER) -> None:
        self._api, self._objects, self._source = api, objects, source
        self._waiting: queue.SimpleQueue[tuple[ObjectReference, dict[str, Any]] | None] = queue.SimpleQueue()
        self._counts: Counter[tuple[ObjectReference, str]] = Counter()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def wrote(self, at: datetime, subject: str, change: str, reason: str, outcome: Outcome, error: str) -> None:
        """Report a write that succeeded or was refused."""
        if outcome in _EVENT_TYPES:
            refusal = "" if outcome is Outcome.DONE else f", refused by the cluster: {error}"
            message = f"{change}: {reason}{refusal}"
            self._put(at, subject, _EVENT_TYPES[outcome], reason.title().replace("-", ""), message)

    def noted(self, at: datetime, subject: str, message: str) -> None:
        over = message.startswith(NO_LONGER)
        self._put(at, subject, "Normal" if over else "Warning", "ConditionOver" if over else "Condition", message)

    def close(self) -> None:
        """Wait a moment for the remaining Events to be written."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(timeout=1.0)

    def _put(self, at: datetime, subject: str, type_: str, reason: str, message: str) -> None:
        if subject in self._objects and self._waiting.qsize() < _QUEUE_LIMIT:
            stamp, source = at.isoformat(timespec="seconds"), {"component": self._source}
            event = {"type": type_, "reason": reason, "message": message, "lastTimestamp": stamp, "source": source}
            self._waiting.put((self._objects[subject], event))

    def _run(self) -> None:
        while not self._closing.is_set() or not self._waiting.empty():
            batch: dict[tuple[ObjectReference, str], dict[str, Any]] = {}
            entry = self._waiting.get()
            while entry is not None:
                key = f"{entry[0][-1]}.{entry[1]['reason']}.{entry[1]['type']}".lower()
                batch[entry[0], key] = entry[1]
                self._counts[entry[0], key] += 1
                entry = None if self._waiting.empty() else self._waiting.get()
            for (target, key), event in batch.items():
                with suppress(ApiError):  # nothing depends on an Event
                    self._write(key, target, {**event, "count": self._counts[target, key]})
            self._closing.wait(PAUSE)

    def _write(self, key: str, target: ObjectReference, event: dict[str, Any]) -> None:
        api, kind, namespace, name = target
        objects = f"/apis/{api}/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}s"
        matches = self._api.get(objects, fieldSelector=f"metadata.name={name}")["items"]
        uid = matches[0]["metadata"]["uid"] if matches else ""
        involved = {"apiVersion": api, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
        event |= {"apiVersion": "v1", "kind": "Event", "metadata": {"name": key}, "involvedObject": involved}
        self._api.apply(
            f"/api/v1/namespaces/{namespace or EVENTS_OF_CLUSTER}/events/{key}", event, manager=self._source
        )
