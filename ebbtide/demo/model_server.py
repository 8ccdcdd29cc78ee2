"""One model server as a process: `python -m ebbtide.demo.model_server '{"port": 8001, "pod": "embedder-1"}'`.

It works on so many requests at a time; the others wait in its queue. A request may ask for several times the work
(header `x-work: 3`), and for its answer in parts (`x-parts: 5`), spread over the time that it takes. The answer says in
headers and as JSON which variant and which pod it is from. `/ready` answers 503 while the model is loaded. A request at
`/pace` makes this one slower from then on: `x-work: 3` by three times. After one at `/refuse` it takes no connection.

`/metrics` tells what runs and what waits, and how busy a GPU would be, by the name that NVIDIA's exporter has for it:
a stand-in, since there is none. It is the share of slots that were busy since the last time that somebody asked.

Standard library alone, so that a process is there quickly.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum

READY = "/ready"
PACE = "/pace"
REFUSE = "/refuse"
METRICS = "/metrics"
RUNNING, WAITING = "model_requests_running", "model_requests_waiting"
GPU_BUSY = "DCGM_FI_DEV_GPU_UTIL"
PARENT_CHECK = 0.5  # seconds
_BACKLOG = 4096  # connections that are not accepted yet
_MIB = 1 << 20
_EXPOSITION = "text/plain; version=0.0.4"  # without it Prometheus reads nothing


class OnSigterm(StrEnum):
    DRAIN = "drain"  # takes no more, answers what it has, ends
    EXIT = "exit"  # ends at once
    IGNORE = "ignore"  # goes on until it is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """What one is started with. Times in seconds."""

    port: int
    host: str = "127.0.0.1"
    pod: str = field(default_factory=lambda: os.environ.get("POD_NAME", "pod"))
    variant: str = "model"
    service: float = 0.1  # what a request of work 1 takes
    concurrency: int = 1  # requests at a time
    loading: float = 0.0  # from its start to ready
    on_sigterm: OnSigterm = OnSigterm.DRAIN
    burns: float = 0.0  # of `service`, on a CPU: while it does, nothing else is done
    holds: int = 0  # MiB for each request that it has, those that wait included
    metrics_port: int | None = None  # besides `port`
    parent: int | None = None  # the process that starts it, which it does not outlive

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ebbtide.demo.model_server", json.dumps(asdict(self))]


@dataclass
class _Load:
    """Requests that there are."""

    has: int = 0
    runs: int = 0
    _asked: float = field(default_factory=time.monotonic)
    _changed: float = field(default_factory=time.monotonic)
    _busy: float = 0.0  # seconds of slots, since it was asked last

    @contextmanager
    def waiting(self) -> Generator[None]:
        self.has += 1
        try:
            yield
        finally:
            self.has -= 1

    @contextmanager
    def running(self) -> Generator[None]:
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        now = time.monotonic()
        self._busy += self.runs * (now - self._changed)
        self._changed = now
        self.runs += more

    def mean_running(self) -> float:
        """Since the last time that somebody asked."""
        self._count(0)
        mean = self._busy / max(self._changed - self._asked, 1e-6)
        self._busy, self._asked = 0.0, self._changed
        return mean


@dataclass
class _Serving:
    its: ModelServer
    slots: asyncio.Semaphore
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    loaded: bool = False
    closed: bool = False
    pace: float = 1.0  # times as long
    load: _Load = field(default_factory=_Load)
    servers: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    idle: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    connections: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._told_to_stop)
        background = [asyncio.create_task(self._load()), asyncio.create_task(self._follow_parent())]
        ports = [self.its.port, *([] if self.its.metrics_port is None else [self.its.metrics_port])]
        self.servers = [
            await asyncio.start_server(self._connected, self.its.host, port, backlog=_BACKLOG) for port in ports
        ]
        await self.stopping.wait()
        if self.connections:
            await asyncio.wait(self.connections)
        for task in background:
            task.cancel()

    def _hang_up(self) -> None:
        """No new connection, and no further request on those that there are."""
        self.closed = True
        for server in self.servers:
            server.close()
        for writer in self.idle:
            writer.close()

    def _told_to_stop(self) -> None:
        if self.its.on_sigterm is OnSigterm.EXIT:
            os._exit(0)
        if self.its.on_sigterm is OnSigterm.DRAIN:
            self._hang_up()
            self.stopping.set()

    async def _load(self) -> None:
        await asyncio.sleep(self.its.loading)
        self.loaded = True

    async def _follow_parent(self) -> None:
        while self.its.parent in (None, os.getppid()):
            await asyncio.sleep(PARENT_CHECK)
        os._exit(1)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self.connections.add(task)
            task.add_done_callback(self.connections.discard)
        try:
            while not self.closed:
                self.idle.add(writer)
                head = await reader.readuntil(b"\r\n\r\n")
                self.idle.discard(writer)
                path, headers = _parsed(head)
                await reader.readexactly(int(headers.get("content-length", "0")))
                await self._answer(path, headers, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the other side has left, or this one drains
        finally:
            self.idle.discard(writer)
            writer.close()

    async def _answer(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        if path == READY:
            await self._send(writer, "200 OK" if self.loaded else "503 Service Unavailable", [b"{}"], 0)
            return
        if path == METRICS:
            await self._send(writer, "200 OK", [self._metrics().encode()], 0, kind=_EXPOSITION)
            return
        work = float(headers.get("x-work", "1"))
        if path in (PACE, REFUSE):
            if path == PACE:
                self.pace = work
            else:
                self._hang_up()
            await self._send(writer, "200 OK", [b"{}"], 0)
            return
        with self.load.waiting():
            await self._work(work, int(headers.get("x-parts", "1")), writer)

    async def _work(self, work: float, parts: int, writer: asyncio.StreamWriter) -> None:
        told = json.dumps({"variant": self.its.variant, "pod": self.its.pod}).encode()
        held = b"." * (self.its.holds * _MIB)
        async with self.slots:
            with self.load.running():
                _burn(self.its.burns * work)
                seconds = max(0.0, self.its.service * self.pace - self.its.burns) * work
                await self._send(writer, "200 OK", [told] * parts, seconds)
        del held

    def _metrics(self) -> str:
        load = self.load
        busy = 100 * load.mean_running() / self.its.concurrency
        gauges = {RUNNING: load.runs, WAITING: load.has - load.runs, GPU_BUSY: round(busy)}
        return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in gauges.items())

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: str,
        parts: Sequence[bytes],
        seconds: float,
        *,
        kind: str = "application/json",
    ) -> None:
        """An answer in one piece comes after its time, one in parts begins with the first of them."""
        in_parts = len(parts) > 1
        length = "transfer-encoding: chunked" if in_parts else f"content-length: {len(parts[0])}"
        connection = "connection: close\r\n" if self.closed else ""
        head = (
            f"HTTP/1.1 {status}\r\n{length}\r\n{connection}content-type: {kind}\r\n"
            f"x-variant: {self.its.variant}\r\nx-pod: {self.its.pod}\r\n\r\n"
        ).encode()
        for part in parts:
            await asyncio.sleep(seconds / len(parts))
            writer.write(head + (b"%x\r\n%b\r\n" % (len(part), part) if in_parts else part))
            head = b""
            await writer.drain()
        if in_parts:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


def _burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    """Path, and headers by their name in small letters."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first.split()[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _serve(its: ModelServer) -> None:
    await _Serving(its, asyncio.Semaphore(its.concurrency)).run()


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    told["on_sigterm"] = OnSigterm(told.get("on_sigterm", OnSigterm.DRAIN))
    asyncio.run(_serve(ModelServer(**told)))
