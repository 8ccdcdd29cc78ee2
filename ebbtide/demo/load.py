"""Requests at a gateway as they come, whether or not the ones before them are answered (an open loop).

Arrivals are a Poisson process, drawn from a seed before the first is sent. What a request took is counted from the
instant at which it should have been sent: a client that falls behind does not hide what its users would have waited.
Connections are kept alive, as many as are in flight at once, unless told otherwise.
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
class Stretch:
    seconds: float
    rate: float  # requests a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request. `failed` says why there was no answer of the model; times in seconds from the start of the load."""

    at: float  # when it should have been sent
    took: float  # until the whole answer was there, or until it failed
    failed: str | None = None
    sent: Headers = field(default_factory=dict[str, str])
    told: Headers = field(default_factory=dict[str, str])  # the headers that came back, names in small letters

    @property
    def pod(self) -> str:
        return self.told.get("x-pod", "")

    @property
    def variant(self) -> str:
        return self.told.get("x-variant", "")


@dataclass(frozen=True, slots=True)
class Answers:
    """What came back, in the order in which the requests should have been sent."""

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
        """Of those that were lost."""
        return Counter(answer.failed for answer in self.all if answer.failed is not None)

    def between(self, begin: float, end: float) -> "Answers":
        """Those that should have been sent in [begin, end), seconds from the start."""
        return Answers(tuple(answer for answer in self.all if begin <= answer.at < end))

    def quantile(self, share: float) -> float:
        """Seconds that this share of the answered requests took at most; nan when none was answered."""
        took = sorted(answer.took for answer in self.all if answer.failed is None)
        return took[math.ceil(share * len(took)) - 1] if took else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`address` is asked for each new connection: what a Service does for its clients."""

    address: Callable[[], Address]
    stretches: Sequence[Stretch]
    seed: int = 0
    headers: Callable[[random.Random], Headers] = lambda _: {}
    path: str = "/"
    timeout: float = 60.0  # seconds from sending to the end of the answer
    keeps: bool = True  # a connection alive for the next request
    heard: Callable[[Answer], None] = lambda _: None  # told of each request as it ends


def arrivals(stretches: Sequence[Stretch], draw: random.Random) -> list[float]:
    """Instants in seconds from the start."""
    at: list[float] = []
    begin = 0.0
    for stretch in stretches:
        now = begin
        begin += stretch.seconds
        while stretch.rate and (now := now + draw.expovariate(stretch.rate)) < begin:
            at.append(now)
    return at


async def offer(load: Load) -> Answers:
    """Send them all, and wait for the last."""
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
        return Answers(tuple([await task for task in sending]))
    finally:
        client.close()


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Client:
    def __init__(self, load: Load) -> None:
        self.began = time.monotonic()
        self._load = load
        self._idle: list[_Connection] = []  # the one that was used longest ago first, so that none grows stale

    async def send(self, at: float, headers: Headers) -> Answer:
        failed: str | None = None
        told: Headers = {}
        try:
            async with asyncio.timeout(self._load.timeout):
                status, told = await self._exchange(headers)
            if status != 200:
                failed = f"status {status}"
        except TimeoutError:
            failed = "timed out"
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            failed = "refused" if isinstance(error, ConnectionRefusedError) else "connection lost"
        took = time.monotonic() - self.began - at
        answer = Answer(at=at, took=took, failed=failed, sent=headers, told=told)
        self._load.heard(answer)
        return answer

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()

    async def _exchange(self, headers: Headers) -> tuple[int, Headers]:
        reader, writer = await self._connection()
        kept = False
        try:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            given = "" if "host" in headers else "host: models\r\n"
            writer.write(f"POST {self._load.path} HTTP/1.1\r\n{given}{lines}content-length: 2\r\n\r\n{{}}".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status, told = _parsed(head)
            await _skip_body(reader, told)
            kept = self._load.keeps and told.get("connection") != "close"
            return status, told
        finally:
            if kept:
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


async def _skip_body(reader: asyncio.StreamReader, told: Headers) -> None:
    if told.get("transfer-encoding") != "chunked":
        await reader.readexactly(int(told.get("content-length", "0")))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readexactly(2)
