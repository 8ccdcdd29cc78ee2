"""The offered load: a Poisson process that does not depend on answers; requests count from when they were due."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import pytest

from ebbtide.demo.embedded import free_port
from ebbtide.demo.load import Answer, Load, LoadAnswers, LoadStage, arrivals, offer

pytestmark = pytest.mark.process

QUIET, BUSY = LoadStage(seconds=100, rate=2), LoadStage(seconds=100, rate=20)
SHORT = (LoadStage(seconds=0.3, rate=100),)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_arrivals_are_those_of_their_rates_and_the_same_for_the_same_seed() -> None:
    found = arrivals([QUIET, BUSY, LoadStage(seconds=100, rate=0), QUIET], Random(7))

    assert found == sorted(found) == arrivals([QUIET, BUSY, LoadStage(seconds=100, rate=0), QUIET], Random(7))
    counts = [sum(begin <= at < begin + 100 for at in found) for begin in (0, 100, 200, 300)]
    assert 150 < counts[0] < 250
    assert 1800 < counts[1] < 2200
    assert counts[2] == 0
    gaps = [later - earlier for earlier, later in pairwise(found) if 100 <= earlier < later < 200]
    mean = sum(gaps) / len(gaps)
    assert math.isclose(sum((gap - mean) ** 2 for gap in gaps) / len(gaps), mean**2, rel_tol=0.2)  # exponential


async def offered(handler: Handler, *, keeps: bool = True) -> tuple[LoadAnswers, int]:
    """Return the answers to a short load on this server, and the number of connections."""
    connections = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await handler(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client has left
        finally:
            writer.close()

    async with await asyncio.start_server(counted, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        load = Load(address=lambda: ("127.0.0.1", port), stretches=SHORT, seed=3, timeout=0.5, keeps=keeps)
        answers = await offer(load)
        await asyncio.sleep(0)
    return answers, connections


def answering(head: bytes, *, once: bool = False, after: float = 0.0) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            await asyncio.sleep(after)
            writer.write(head)
            if once:
                return

    return handler


def test_connections_are_kept_and_answers_counted() -> None:
    answers, connections = asyncio.run(offered(answering(b"HTTP/1.1 200 OK\r\nX-Pod: a\r\ncontent-length: 0\r\n\r\n")))

    assert answers.sent == answers.answered > 10
    assert connections < answers.sent
    assert {answer.pod for answer in answers.all} == {"a"}


def test_a_connection_marked_to_close_is_not_used_again() -> None:
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

    answers, connections = asyncio.run(offered(answering(head, once=True)))

    assert connections == answers.sent == answers.answered


def test_a_client_that_keeps_no_connection_opens_one_for_each_request() -> None:
    handler = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    answers, connections = asyncio.run(offered(handler, keeps=False))

    assert connections == answers.sent == answers.answered


def test_each_way_to_fail_has_its_reason() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")

    busy = answering(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    slow = answering(b"", after=2)

    assert reasons(busy) == {"status 429"}
    assert reasons(silent) == {"connection lost"}
    assert reasons(slow) == {"timed out"}
    refused = asyncio.run(offer(Load(address=lambda: ("127.0.0.1", free_port()), stretches=SHORT)))
    assert refused.reasons == {"refused": refused.sent}


def reasons(handler: Handler) -> set[str]:
    answers, _ = asyncio.run(offered(handler))
    assert answers.lost == answers.sent
    assert math.isnan(answers.quantile(0.5))
    return set(answers.reasons)


def test_a_client_that_falls_behind_does_not_hide_it() -> None:
    """While the client cannot send, requests are due; they count from then, not from when they were sent."""

    async def run() -> LoadAnswers:
        handler = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        asyncio.get_running_loop().call_later(0.1, time.sleep, 1.0)
        return (await offered(handler))[0]

    answers = asyncio.run(run())

    late = answers.between(0.1, 0.3)
    assert late.sent > 5
    assert min(answer.took for answer in late.all) > 0.75


def test_quantiles_are_of_the_answered_ones() -> None:
    done = [Answer(at=0, took=float(seconds)) for seconds in range(1, 101)]

    answers = LoadAnswers((*done, Answer(at=0, took=1000, failed="refused")))

    assert (answers.quantile(0.5), answers.quantile(0.95), answers.quantile(1)) == (50, 95, 100)
