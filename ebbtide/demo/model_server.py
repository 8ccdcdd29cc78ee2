"""A model server as a process: `python -m ebbtide.demo.model_server '{"port": 8001, "pod": "embedder-1"}'`.

It works on `concurrency` requests at a time; the others wait in its queue. A request may have several times the work
(header `x-work: 3`), and get its answer in parts (`x-parts: 5`), spread over its time. The answer names its variant and
pod in headers and as JSON. `/ready` answers 503 while the model is loading. A request to `/pace` slows the server down
from then on: `x-work: 3` makes it three times slower. After one to `/refuse` it accepts no connection.

`/metrics` reports running and waiting requests, and how busy a GPU would be, under NVIDIA's name of that metric. The
value is the share of slots that were busy since the last scrape, since there is no GPU.

Uses only the standard library, so that a process starts quickly.
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
_BACKLOG = 4096  # connections not accepted yet
_MIB = 1 << 20
_EXPOSITION = "text/plain; version=0.0.4"  # without it Prometheus reads nothing


class OnSigterm(StrEnum):
    DRAIN = "drain"  # takes no more, answers open requests, ends
    EXIT = "exit"  # ends at once
    IGNORE = "ignore"  # continues until it is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """Settings of a server. Times in seconds."""

    port: int
    host: str = "127.0.0.1"
    pod: str = field(default_factory=lambda: os.environ.get("POD_NAME", "pod"))
    variant: str = "model"
    service: float = 0.1  # for a request of work 1
    concurrency: int = 1  # requests at a time
    loading: float = 0.0  # from its start to ready
    on_sigterm: OnSigterm = OnSigterm.DRAIN
    burns: float = 0.0  # part of `service` that blocks the CPU
    holds: int = 0  # MiB for each open request, waiting ones included
    metrics_port: int | None = None  # in addition to `port`
    parent: int | None = None  # the starting process, which it does not outlive

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ebbtide.demo.model_server", json.dumps(asdict(self))]


@dataclass
class _Load:
    """Open requests."""

    total: int = 0
    running_now: int = 0
    _scraped: float = field(default_factory=time.monotonic)
    _changed: float = field(default_factory=time.monotonic)
    _busy: float = 0.0  # slot-seconds since the last scrape

    @contextmanager
    def waiting(self) -> Generator[None]:
        self.total += 1
        try:
            yield
        finally:
            self.total -= 1

    @contextmanager
    def running(self) -> Generator[None]:
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        now = time.monotonic()
        self._busy += self.running_now * (now - self._changed)
        self._changed = now
        self.running_now += more

    def mean_running(self) -> float:
        """Return the mean since the last call."""
        self._count(0)
        mean = self._busy / max(self._changed - self._scraped, 1e-6)
        self._busy, self._scraped = 0.0, self._changed
        return mean


@dataclass
class _Serving:
    settings: ModelServer
    slots: asyncio.Semaphore
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    loaded: bool = False
    closed: bool = False
    pace: float = 1.0  # factor on the duration of requests
    load: _Load = field(default_factory=_Load)
    servers: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    idle: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    connections: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)
        background = [asyncio.create_task(self._load()), asyncio.create_task(self._follow_parent())]
        ports = [self.settings.port, *([] if self.settings.metrics_port is None else [self.settings.metrics_port])]
        self.servers = [
            await asyncio.start_server(self._connected, self.settings.host, port, backlog=_BACKLOG) for port in ports
        ]
        await self.stopping.wait()
        if self.connections:
            await asyncio.wait(self.connections)
        for task in background:
            task.cancel()

    def _hang_up(self) -> None:
        """Accept no new connection, and no further request on open ones."""
        self.closed = True
        for server in self.servers:
            server.close()
        for writer in self.idle:
            writer.close()

    def _on_sigterm(self) -> None:
        if self.settings.on_sigterm is OnSigterm.EXIT:
            os._exit(0)
        if self.settings.on_sigterm is OnSigterm.DRAIN:
            self._hang_up()
            self.stopping.set()

    async def _load(self) -> None:
        await asyncio.sleep(self.settings.loading)
        self.loaded = True

    async def _follow_parent(self) -> None:
        while self.settings.parent in (None, os.getppid()):
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
            return  # the client has left, or this server drains
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
        body = json.dumps({"variant": self.settings.variant, "pod": self.settings.pod}).encode()
        memory = b"." * (self.settings.holds * _MIB)
        async with self.slots:
            with self.load.running():
                _burn(self.settings.burns * work)
                seconds = max(0.0, self.settings.service * self.pace - self.settings.burns) * work
                await self._send(writer, "200 OK", [body] * parts, seconds)
        del memory

    def _metrics(self) -> str:
        load = self.load
        busy = 100 * load.mean_running() / self.settings.concurrency
        gauges = {RUNNING: load.running_now, WAITING: load.total - load.running_now, GPU_BUSY: round(busy)}
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
        """Send an answer in one piece after its time, or in parts spread over it."""
        in_parts = len(parts) > 1
        length = "transfer-encoding: chunked" if in_parts else f"content-length: {len(parts[0])}"
        connection = "connection: close\r\n" if self.closed else ""
        head = (
            f"HTTP/1.1 {status}\r\n{length}\r\n{connection}content-type: {kind}\r\n"
            f"x-variant: {self.settings.variant}\r\nx-pod: {self.settings.pod}\r\n\r\n"
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
    """Return the path, and headers by name in lower case."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first.split()[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _serve(settings: ModelServer) -> None:
    await _Serving(settings, asyncio.Semaphore(settings.concurrency)).run()


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    arguments["on_sigterm"] = OnSigterm(arguments.get("on_sigterm", OnSigterm.DRAIN))
    asyncio.run(_serve(ModelServer(**arguments)))
