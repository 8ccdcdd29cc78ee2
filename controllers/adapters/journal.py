"""Tells what happens: one JSON object per line, and Events on the objects that were changed.

Events are core/v1: events.k8s.io has no plain count. Each object and reason has one, so that repeating counts it up.
`kubectl describe` finds them by the object's uid. A thread writes them: the loop never waits, refused ones are dropped.
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
from ebbtide.vocabulary.labels import CONTROLLER

PAUSE = 5.0  # seconds
_MOST_WAITING = 1000
Object: TypeAlias = tuple[str, str, str, str]  # API version, kind, namespace, name
_TYPES = {Outcome.DONE: "Normal", Outcome.REFUSED: "Warning"}  # of an Event; other outcomes make none


class LineJournal:
    """Passes all on to `meter` and `events`. `last_error`: the server's words on the last write, if it was not done."""

    def __init__(self, stream: TextIO, meter: Meter, events: "Events", last_error: Callable[[], str]) -> None:
        self._stream, self._meter, self._events, self._last_error = stream, meter, events, last_error

    def reconciled(self, report: ReconcileReport) -> None:
        self._meter.reconciled(report)

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        changed = {key: value for key, value in encoded(action).items() if key != "version"}
        error = {"error": error} if (error := self._last_error()) else {}
        write_line(self._stream, at, "acted", **changed, outcome=outcome.value, **error)
        self._events.acted(at, action, outcome)

    def noted(self, at: datetime, subject: str, message: str) -> None:
        write_line(self._stream, at, "noted", subject=subject, message=message)
        self._events.noted(at, subject, message)


def write_line(stream: TextIO, at: datetime, event: str, **record: object) -> None:
    line = json.dumps({"at": at.isoformat(timespec="milliseconds"), "event": event, **record})
    print(line, file=stream, flush=True)


def objects_of(config: ControllerConfig) -> dict[str, Object]:
    pools = {f"pool {p.name}": ("apps/v1", "Deployment", p.namespace, p.deployment) for p in config.pools}
    budgets = {f"budget {b.name}": ("policy/v1", "PodDisruptionBudget", b.namespace, b.name) for b in config.budgets}
    return pools | budgets


class Events:
    """On the objects `about`, by the subject that they are told under; `source` tells and writes."""

    def __init__(self, api: KubeApi, about: Mapping[str, Object], source: str = CONTROLLER) -> None:
        self._api, self._about, self._source = api, about, source
        self._waiting: queue.SimpleQueue[tuple[Object, dict[str, Any]] | None] = queue.SimpleQueue()
        self._counts: Counter[str] = Counter()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Mark) or outcome not in _TYPES:
            return
        if isinstance(action, Scale):
            subject, change = f"pool {action.pool}", f"replicas {action.replicas}"
        else:
            subject, change = f"budget {action.budget}", f"maxUnavailable {action.max_unavailable}"
        message = f"{change}: {action.reason}{'' if outcome is Outcome.DONE else ', refused by the cluster'}"
        self.put(at, subject, _TYPES[outcome], action.reason.title().replace("-", ""), message)

    def noted(self, at: datetime, subject: str, message: str) -> None:
        over = message.startswith(NO_LONGER)
        self.put(at, subject, "Normal" if over else "Warning", "ConditionOver" if over else "Condition", message)

    def put(self, at: datetime, subject: str, kind: str, reason: str, message: str) -> None:
        if subject in self._about and self._waiting.qsize() < _MOST_WAITING:
            stamp, source = at.isoformat(timespec="seconds"), {"component": self._source}
            event = {"type": kind, "reason": reason, "message": message, "lastTimestamp": stamp, "source": source}
            self._waiting.put((self._about[subject], event))

    def close(self) -> None:
        """What waits has a moment to be written."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._closing.is_set() or not self._waiting.empty():
            batch: dict[str, tuple[Object, dict[str, Any]]] = {}
            news = self._waiting.get()
            while news is not None:
                key = f"{news[0][-1]}.{news[1]['reason']}.{news[1]['type']}".lower()
                self._counts[key] += 1
                batch[key] = news
                news = None if self._waiting.empty() else self._waiting.get()
            for key, (about, event) in batch.items():
                with suppress(ApiError):  # nobody waits for an Event
                    self._write(key, about, {**event, "count": self._counts[key]})
            self._closing.wait(PAUSE)

    def _write(self, key: str, about: Object, event: dict[str, Any]) -> None:
        api, kind, namespace, name = about
        objects = f"/apis/{api}/namespaces/{namespace}/{kind.lower()}s"
        found = self._api.get(objects, fieldSelector=f"metadata.name={name}")["items"]
        uid = found[0]["metadata"]["uid"] if found else ""
        regarding = {"apiVersion": api, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
        event |= {"apiVersion": "v1", "kind": "Event", "metadata": {"name": key}, "involvedObject": regarding}
        self._api.apply(f"/api/v1/namespaces/{namespace}/events/{key}", event, manager=self._source)
