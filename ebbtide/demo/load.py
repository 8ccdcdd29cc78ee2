"""An open loop of requests at a gateway: each is sent at its time, whether or not earlier ones are answered.

Arrivals are a Poisson process, drawn from a seed before the first is sent. A request's time counts from the instant at
which it should have been sent, so that a slow client does not hide the users' waits. By default connections are kept
alive, as many as requests are in flight.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Address = tuple[str, int]  # host and port
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStage:
    seconds: float
    rate: float  # requests a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request. `failed` says why the model did not answer; times are seconds from the start of the load."""

    at: float  # when it should have been sent
    took: float  # until the answer was complete, or until it failed
    failed: str | None = None
    sent: Headers = field(default_factory=dict[str, str])
    received: Headers = field(default_factory=dict[str, str])  # response headers, names in lower case

    @property
    def pod(self) -> str:
        return self.received.get("x-pod", "")

    @property
    def variant(self) -> str:
        return self.received.get("x-variant", "")


@dataclass(frozen=True, slots=True)
class LoadAnswers:
    """All requests, in the order in which they should have been sent."""

    all: tuple[Answer, ...]

    @property
    def sent(self) -> int:
        return len(self.all)

    @property
    def answered(self) -> int:
        return sum(answer.failed is None for answer in self.all)

    @property
    def lost(self) -> int:
        return self.sent - self.answered

    @property
    def reasons(self) -> Counter[str]:
        """Reasons of the lost requests."""
        return Counter(answer.failed for answer in self.all if answer.failed is not None)

    def between(self, begin: float, end: float) -> "LoadAnswers":
        """Return the requests that should have been sent in [begin, end), seconds from the start."""
        return LoadAnswers(tuple(answer for answer in self.all if begin <= answer.at < end))

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share of the answered requests ended; nan when none was answered."""
        took = sorted(answer.took for answer in self.all if answer.failed is None)
        return took[math.ceil(share * len(took)) - 1] if took else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load to send. `address` is called for each new connection, as a Service is resolved for its clients."""

    address: Callable[[], Address]
    stretches: Sequence[LoadStage]
    seed: int = 0
    headers: Callable[[random.Random], Headers] = lambda _: {}
    path: str = "/"
    timeout: float = 60.0  # seconds from sending to the end of the answer
    keeps: bool = True  # connections alive for the next request
    heard: Callable[[Answer], None] = lambda _: None  # called with each request as it ends


def arrivals(stretches: Sequence[LoadStage], draw: random.Random) -> list[float]:
    """Return the instants in seconds from the start."""
    at: list[float] = []
    begin = 0.0
    for stretch in stretches:
        now = begin
        begin += stretch.seconds
        while stretch.rate and (now := now + draw.expovariate(stretch.rate)) < begin:
            at.append(now)
    return at


async def offer(load: Load) -> LoadAnswers:
    """Send all requests, and wait for the last answer."""
    draw = random.Random(load.seed)
    plan = [(at, load.headers(draw)) for at in arrivals(load.stretches, draw)]
    client = _Client(load)
    try:
        sending: list[asyncio.Task[Answer]] = []
        for at, headers in plan:
            early = client.began + at - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
            sending.append(asyncio.create_task(client.send(at, headers)))
        return LoadAnswers(tuple([await task for task in sending]))
    finally:
        client.close()


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Client:
    def __init__(self, load: Load) -> None:
        self.began = time.monotonic()
        self._load = load
        self._idle: list[_Connection] = []  # least recently used first, so that none grows stale

    async def send(self, at: float, headers: Headers) -> Answer:
        failed: str | None = None
        received: Headers = {}
        try:
            async with asyncio.timeout(self._load.timeout):
                status, received = await self._exchange(headers)
            if status != 200:
                failed = f"status {status}"
        except TimeoutError:
            failed = "timed out"
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            failed = "refused" if isinstance(error, ConnectionRefusedError) else "connection lost"
        took = time.monotonic() - self.began - at
        answer = Answer(at=at, took=took, failed=failed, sent=headers, received=received)
        self._load.heard(answer)
        return answer

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()

    async def _exchange(self, headers: Headers) -> tuple[int, Headers]:
        reader, writer = await self._connection()
        reusable = False
        try:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            host = "" if "host" in headers else "host: models\r\n"
            writer.write(f"POST {self._load.path} HTTP/1.1\r\n{host}{lines}content-length: 2\r\n\r\n{{}}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status, received = _parsed(head)
            await _skip_body(reader, received)
            reusable = self._load.keeps and received.get("connection") != "close"
            return status, received
        finally:
            if reusable:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def _connection(self) -> _Connection:
        while self._idle:
            reader, writer = self._idle.pop(0)
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self._load.address())


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _skip_body(reader: asyncio.StreamReader, headers: Headers) -> None:
    if headers.get("transfer-encoding") != "chunked":
        await reader.readexactly(int(headers.get("content-length", "0")))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readexactly(2)
