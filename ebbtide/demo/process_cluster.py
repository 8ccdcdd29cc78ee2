"""A cluster on one machine: a pool's replicas are real RQ worker processes, removed as a ReplicaSet removes pods.

It implements `controllers.ports.Cluster`, so the real loop scales real workers. Each process reports its pod name as
its host name, as a pod does.

With `blind` the marks are ignored, the oldest pods (busy ones among them) are removed first, and the grace period is
short: this shows the effect of careless scaling on jobs.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from controllers.ports import (
    Action,
    Mark,
    ObservedCluster,
    ObservedPod,
    ObservedPool,
    Outcome,
    PodName,
    PodPhase,
    PoolName,
    Scale,
    SetBudget,
    Unknown,
)

BLIND_GRACE = 1.0  # seconds
KILL_LIMIT = 5.0  # seconds to wait for a killed process

CommandOf = Callable[[PoolName, PodName], Sequence[str]]


@dataclass
class _Pod:
    name: PodName
    process: "subprocess.Popen[bytes]"
    marked: bool = False
    terminated_at: float | None = None  # monotonic

    @property
    def phase(self) -> PodPhase:
        return PodPhase.RUNNING if self.terminated_at is None else PodPhase.TERMINATING


@dataclass
class _Pool:
    replicas: int = 0
    version: int = 1
    pods: dict[PodName, _Pod] = field(default_factory=dict[PodName, _Pod])

    def live(self) -> list[_Pod]:
        return [pod for pod in self.pods.values() if pod.terminated_at is None]


class ProcessCluster:
    """Context manager; at its end every process that it started has ended, whatever happened inside."""

    def __init__(
        self, pools: Iterable[PoolName], command_of: CommandOf, *, grace: float = 60.0, blind: bool = False
    ) -> None:
        self._pools = {name: _Pool() for name in pools}
        self._command_of = command_of
        self._grace = BLIND_GRACE if blind else grace
        self._blind = blind
        self._born = 0
        self._lock = threading.RLock()  # the loop's thread acts while the demo's thread reads
        self._closed = False
        self.peak = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def live_workers(self) -> int:
        with self._lock:
            return sum(len(pool.live()) for pool in self._pools.values())

    def pids(self) -> list[int]:
        """Return all processes, terminating ones included."""
        with self._lock:
            self._tend()
            return [pod.process.pid for pool in self._pools.values() for pod in pool.pods.values()]

    def close(self) -> None:
        """Kill the remaining processes, each by its process group, and wait for them."""
        with self._lock:
            self._closed = True
            for pool in self._pools.values():
                for pod in pool.pods.values():
                    _kill(pod)
                pool.pods.clear()

    # --- the port -------------------------------------------------------------------------------------------------

    def observe(self) -> ObservedCluster | Unknown:
        with self._lock:
            self._tend()
            return ObservedCluster({name: _observed(pool) for name, pool in self._pools.items()})

    def act(self, action: Action) -> Outcome:
        with self._lock:
            if self._closed or isinstance(action, SetBudget):
                return Outcome.REFUSED
            pool = self._pools.get(action.pool)
            if pool is None:
                return Outcome.REFUSED
            self._tend()
            return self._mark(pool, action) if isinstance(action, Mark) else self._scale(pool, action)

    def _mark(self, pool: _Pool, action: Mark) -> Outcome:
        if action.pod not in pool.pods:
            return Outcome.REFUSED
        pool.pods[action.pod].marked = action.idle
        return Outcome.DONE

    def _scale(self, pool: _Pool, action: Scale) -> Outcome:
        if action.version is not None and action.version != str(pool.version):
            return Outcome.STALE
        pool.replicas = action.replicas
        pool.version += 1
        self._match(action.pool, pool)
        return Outcome.DONE

    # --- the ReplicaSet and the kubelet ---------------------------------------------------------------------------

    def _tend(self) -> None:
        """Reap ended processes, kill those that outlived their grace period, and replace missing ones."""
        for name, pool in self._pools.items():
            for pod in list(pool.pods.values()):
                overdue = pod.terminated_at is not None and time.monotonic() > pod.terminated_at + self._grace
                if overdue:
                    _kill(pod)
                if pod.process.poll() is not None:
                    _kill_group(pod.process.pid)  # a job that outlived its worker
                    del pool.pods[pod.name]
                    pool.version += 1
            if not self._closed:
                self._match(name, pool)

    def _match(self, name: PoolName, pool: _Pool) -> None:
        live = pool.live()
        for _ in range(pool.replicas - len(live)):
            self._born += 1
            pod = f"{name}-{self._born}"
            pool.pods[pod] = _Pod(pod, _launch(self._command_of(name, pod)))
        for pod in sorted(live, key=self._rank)[: max(0, len(live) - pool.replicas)]:
            pod.terminated_at = time.monotonic()
            pod.process.send_signal(signal.SIGTERM)
        self.peak = max(self.peak, sum(len(other.live()) for other in self._pools.values()))

    def _rank(self, pod: _Pod) -> tuple[bool, int]:
        """Rank marked pods first, then the newest; if blind, the oldest, which got the first job."""
        number = int(pod.name.rsplit("-", 1)[1])
        return (False, number) if self._blind else (not pod.marked, -number)


def _observed(pool: _Pool) -> ObservedPool:
    pods = tuple(ObservedPod(name=pod.name, phase=pod.phase, marked=pod.marked) for pod in pool.pods.values())
    return ObservedPool(replicas=pool.replicas, existing=len(pool.live()), pods=pods, version=str(pool.version))


def _launch(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    # A separate session: the terminal's Ctrl-C reaches only the demo, and a kill reaches the worker's job too.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(pod: _Pod) -> None:
    _kill_group(pod.process.pid)
    pod.process.kill()
    pod.process.wait(KILL_LIMIT)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def rq_worker_command(url: str, pod: PodName, queues: Sequence[str], worker_class: str) -> list[str]:
    """Return the command of a worker process that reports `pod` as its host name."""
    return [sys.executable, "-m", "ebbtide.demo.worker", str(os.getpid()), pod, url, worker_class, *queues]
