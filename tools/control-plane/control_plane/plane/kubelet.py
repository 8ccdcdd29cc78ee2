"""A simulated kubelet for the pods of one namespace: each bound pod is a process of this machine.

For pods that KWOK leaves alone (`ControlPlane(hands_off=…)`). Level-based: each round compares the API server's pods
with the running processes, so a broken watch or a lost answer changes nothing.

Like a real kubelet:

- A pod that is being deleted gets one SIGTERM, and SIGKILL when its grace is over, counted from the SIGTERM. The API
  server keeps the first request's time and accepts a later grace only if it is shorter, so each round reads it again.
- The pod object stays until the process has ended; then it is deleted without grace, by uid.
- A process that exits by itself is restarted, later each time.
- A process ends when its object disappears (deleted by force, or with its node).

All processes have the machine's host name: one that reports it must get the pod's (`POD_NAME`), as
`ebbtide.demo.worker` does.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from control_plane.plane.containers import Container, Containers, Happening, What
from control_plane.plane.pod_status import STRATEGIC_MERGE, PodState, status_patch
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.adapters.kube_cache import KubeCache

__all__ = ["Happening", "Kubelet", "What"]

_ROUND = 0.05  # seconds between two checks of the processes; a change of a pod is checked at once
_LONGEST_WAIT = 10.0  # seconds before a process is restarted
_HANG = 15.0  # seconds to wait at the end for an API server that does not answer
_OVER = ("Succeeded", "Failed")
_GONE = (404, 409)  # missing, or another one of the same name


@dataclass(slots=True)
class _Pod:
    name: str
    container: Container
    state: PodState
    command: Sequence[str] | None
    starts: int = 0
    start_at: float = 0.0  # monotonic; not before
    terminated_at: float | None = None  # monotonic
    written: PodState | None = None  # accepted by the API server
    deleted: bool = False

    @property
    def lives(self) -> bool:
        return self.container.pid is not None


class Kubelet:
    """Context manager. `command_of` returns a pod's command; None: no process, reported as running, ends at once.

    `speed` shortens the grace of pods, as time runs faster. With `log_folder` each pod's output is in `<pod>.log`.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        command_of: Callable[[Json], Sequence[str] | None],
        *,
        environment: Mapping[str, str] | None = None,
        speed: float = 1.0,
        log_folder: Path | None = None,
    ) -> None:
        self._api, self._command_of, self._speed = api, command_of, speed
        self._namespace, self._path = namespace, f"/api/v1/namespaces/{namespace}/pods"
        self._environment, self._logs = dict(environment or {}), log_folder
        self._pods: dict[str, _Pod] = {}  # by uid; only the thread writes
        self.start_after = 0.0  # seconds from a pod's binding to its process, as for a large image
        self._addresses = count()
        self._news, self._closed = Event(), Event()

    def __enter__(self) -> Self:
        self._containers = Containers(self._logs)
        self._cache: KubeCache[Json] = KubeCache(self._api, self._path, lambda pod: pod, self._news.set)
        self._thread = Thread(target=self._run, name=f"kubelet of {self._namespace}", daemon=True)
        self._cache.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process; the pods' objects stay unchanged."""
        self._closed.set()
        self._news.set()
        self._cache.close()
        self._containers.close()
        self._thread.join(_HANG)

    def processes(self) -> Mapping[str, int]:
        """Return the ids of running processes by pod name."""
        pods = self._pods.copy().values()
        return {pod.name: pid for pod in pods if (pid := pod.container.pid) is not None}

    def kill(self, pod: str) -> None:
        """Kill a pod's process as the kernel does without memory. Raises `LookupError` if it has no process."""
        for candidate in self._pods.copy().values():
            if candidate.name == pod and candidate.lives:
                candidate.container.kill(What.STRUCK)
                return
        raise LookupError(f"{pod} has no process")

    def history(self, pod: str | None = None) -> tuple[Happening, ...]:
        """Return the events in order, of all pods or of those with that name."""
        return tuple(entry for entry in self._containers.history() if pod in (None, entry.pod))

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed.is_set():
            self._news.wait(_ROUND)
            self._news.clear()
            bound = {
                pod["metadata"]["uid"]: pod for pod in self._cache.snapshot().values() if pod["spec"].get("nodeName")
            }
            for uid in self._pods.keys() - bound.keys():
                self._forget(uid)
            for uid, item in bound.items():
                try:
                    self._tend(uid, item)
                except ApiError as error:
                    if error.status not in _GONE:  # the watch reports its end
                        self._closed.wait(_ROUND)

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        pod.container.kill(What.WITHOUT_POD)
        self._containers.drop(pod.container)

    def _tend(self, uid: str, item: Json) -> None:
        metadata = item["metadata"]
        if item.get("status", {}).get("phase") in _OVER:  # set by another: its node is gone
            if uid in self._pods:
                self._forget(uid)
            return
        pod = self._pods.get(uid) or self._pods.setdefault(uid, self._new(item))
        if pod.container.reap():
            self._note_exit(pod)
        if "deletionTimestamp" in metadata:
            self._end(pod, item)
        elif pod.command is not None and not pod.lives and time.monotonic() >= pod.start_at:
            self._start(pod)
        if pod.state != pod.written and not pod.deleted and not self._closed.is_set():
            self._api.patch(f"{self._path}/{pod.name}/status", status_patch(item, pod.state), STRATEGIC_MERGE)
            pod.written = pod.state

    def _new(self, item: Json) -> _Pod:
        name, number, now = item["metadata"]["name"], next(self._addresses), _now()
        command = self._command_of(item)
        address = f"10.244.{number // 250 % 250}.{number % 250 + 1}"
        state = PodState(
            running=command is None, since=now, started=now, ip=address, waiting={"reason": "ContainerCreating"}
        )
        start_at = time.monotonic() + self.start_after
        return _Pod(name=name, container=self._containers.new(name), state=state, command=command, start_at=start_at)

    def _start(self, pod: _Pod) -> None:
        identity = {"POD_NAME": pod.name, "POD_NAMESPACE": self._namespace, "HOSTNAME": pod.name}
        assert pod.command is not None
        pod.container.start(pod.command, {**os.environ, **self._environment, **identity})
        pod.starts += 1
        if pod.lives:
            self._say(pod, running=True, restarts=pod.starts - 1)
        elif pod.container.trouble:
            pod.start_at = time.monotonic() + _wait_after(pod.starts)
            why = {"reason": "CreateContainerError", "message": pod.container.trouble}
            self._say(pod, running=False, waiting=why)

    def _note_exit(self, pod: _Pod) -> None:
        code = pod.container.code or 0
        ended = {"exitCode": code if code >= 0 else 128 - code, "startedAt": pod.state.since, "finishedAt": _now()}
        pod.start_at = time.monotonic() + _wait_after(pod.starts)
        self._say(pod, running=False, waiting={"reason": "CrashLoopBackOff"}, ended=ended)

    def _say(self, pod: _Pod, *, running: bool, **changes: Any) -> None:
        since = pod.state.since if running == pod.state.running else _now()
        pod.state = replace(pod.state, running=running, since=since, **changes)

    def _end(self, pod: _Pod, item: Json) -> None:
        metadata = item["metadata"]
        if pod.lives and pod.terminated_at is None:
            pod.terminated_at = time.monotonic()
            pod.container.stop()
        elif pod.lives and pod.terminated_at is not None:
            grace = metadata.get("deletionGracePeriodSeconds", 0) / self._speed
            if time.monotonic() >= pod.terminated_at + grace:
                pod.container.kill(What.OUT_OF_GRACE)
        if not pod.lives and not pod.deleted:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            # The controller deletes nothing, so its client has no method for a deletion with options.
            self._api._answer("DELETE", f"{self._path}/{pod.name}", {}, options)  # noqa: SLF001
            pod.deleted = True


def _wait_after(starts: int) -> float:
    return min(2.0 ** (starts - 1), _LONGEST_WAIT)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
