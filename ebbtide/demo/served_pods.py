"""Replicas of a model server as processes, which start and end as pods do.

This stands in for a ReplicaSet, a kubelet and the endpoints of a Service: a pod is an endpoint from the first success
of its readiness probe. When it ends, it first stops being an endpoint, waits for its preStop, gets SIGTERM, and is
killed if its grace period is over.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.demo.embedded import free_port
from ebbtide.demo.model_server import READY, ModelServer

PROBE_S = 0.1  # seconds from one readiness probe to the next
_POLL_S = 0.02  # seconds
LEAST_GRACE_S = 2.0  # seconds that a kubelet grants after a preStop that took the entire grace period

Address = tuple[str, int]
Publish = Callable[[Sequence[Address]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A pod's `lifecycle.preStop.sleep`, and `terminationGracePeriodSeconds`, which includes it. Seconds."""

    pre_stop: float = 5.0
    grace: float = 65.0


@dataclass(eq=False)
class Pod:
    server: ModelServer
    process: "subprocess.Popen[bytes]"
    ready: bool = False
    leaving: bool = False
    life: "asyncio.Task[None] | None" = None

    @property
    def name(self) -> str:
        return self.server.pod

    @property
    def address(self) -> Address:
        return self.server.host, self.server.port


@dataclass
class ServedPods:
    """Asynchronous context manager; at its end no process is left. `publish` receives the endpoints."""

    like: ModelServer  # `pod` is the prefix of all names
    publish: Publish
    ending: Ending = field(default_factory=Ending)
    pods: list[Pod] = field(default_factory=list[Pod])
    killed: int = 0  # pods that did not end within their grace period
    _born: int = 0
    _endpoints: list[Address] = field(default_factory=list[Address])

    async def __aenter__(self) -> "ServedPods":
        return self

    async def __aexit__(self, *_: object) -> None:
        for pod in self.pods:
            pod.process.kill()
        for pod in self.pods:
            pod.process.wait()
            if pod.life is not None:
                pod.life.cancel()

    @property
    def replicas(self) -> int:
        """Number of pods that should exist."""
        return sum(not pod.leaving for pod in self.pods)

    @property
    def ready(self) -> int:
        return len(self._endpoints)

    def scale(self, replicas: int) -> None:
        """Start or end pods to reach the number: unready ones end first, then the newest."""
        for _ in range(replicas - self.replicas):
            self.start()
        staying = [pod for pod in self.pods if not pod.leaving]
        for pod in sorted(staying, key=lambda pod: pod.ready)[: max(0, len(staying) - replicas)]:
            self.end(pod)

    def start(self, **other: object) -> Pod:
        """Start one more pod; `other` replaces fields of its server."""
        self._born += 1
        server = replace(self.like, pod=f"{self.like.pod}-{self._born}", port=free_port(), parent=os.getpid())
        server = replace(server, **other)  # pyright: ignore[reportArgumentType] - fields by name
        process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, start_new_session=True)
        pod = Pod(server, process)
        self.pods.append(pod)
        pod.life = asyncio.create_task(self._begin(pod))
        return pod

    def end(self, pod: Pod) -> None:
        """End a pod as an eviction or a deletion does."""
        if not pod.leaving:
            pod.leaving, pod.ready = True, False
            self._publish()
            if pod.life is not None:
                pod.life.cancel()
            pod.life = asyncio.create_task(self._finish(pod))

    async def replace(self, pod: Pod, **other: object) -> Pod:
        """Replace a pod as a rollout with one surplus pod does, or a drain that waits for the replacement."""
        successor = self.start(**other)
        await self.until_ready([successor])
        self.end(pod)
        return successor

    async def until_ready(self, pods: Iterable[Pod] | None = None) -> None:
        awaited = list(self.pods if pods is None else pods)
        while not all(pod.ready or pod.leaving for pod in awaited):
            await asyncio.sleep(_POLL_S)

    async def until_ended(self) -> None:
        """Wait until all leaving pods have ended."""
        while any(pod.leaving for pod in self.pods):
            await asyncio.sleep(_POLL_S)

    async def _begin(self, pod: Pod) -> None:
        while not await _answers(pod.address):
            await asyncio.sleep(PROBE_S)
        pod.ready = True
        self._publish()

    async def _finish(self, pod: Pod) -> None:
        await asyncio.sleep(self.ending.pre_stop)
        pod.process.terminate()
        grace = max(self.ending.grace - self.ending.pre_stop, LEAST_GRACE_S)
        end = asyncio.get_running_loop().time() + grace
        while pod.process.poll() is None and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_POLL_S)
        if pod.process.poll() is None:
            self.killed += 1
            pod.process.kill()
            pod.process.wait()
        self.pods.remove(pod)

    def _publish(self) -> None:
        self._endpoints = [pod.address for pod in self.pods if pod.ready]
        self.publish(self._endpoints)


async def _answers(address: Address) -> bool:
    """Return True if a readiness probe is answered with 200."""
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET {READY} HTTP/1.1\r\nhost: probe\r\n\r\n".encode())
                return (await reader.readline()).startswith(b"HTTP/1.1 200")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
