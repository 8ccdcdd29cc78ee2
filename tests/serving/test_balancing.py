"""Which pod a request goes to, with routes and policies as they are rendered: by load, by name, by session."""

import asyncio
import itertools
import urllib.request
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from ebbtide.demo.load import Headers, LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import PACE, ModelServer
from tests.serving.support.site import Serving
from tests.serving.support.stack import HOST, PORT, load_on, served, service

pytestmark = [pytest.mark.serving, pytest.mark.timeout(240)]

SERVICE = 0.05  # seconds
SLOWER = 3  # times: one replica of four
FULL = (3 + 1 / SLOWER) / SERVICE  # requests a second
ONE_AT_A_TIME = ModelServer(port=0, service=SERVICE)
MANY_AT_A_TIME = ModelServer(port=0, service=0.01, concurrency=64)

SIZED = service(
    "sized",
    f"route: {{ host: {HOST}, path: /sized, model: sized-v3 }}",
    "variants:",
    '  small: { image: "registry.example.com/ml/sized:1" }',
    '  large: { image: "registry.example.com/ml/sized:2", when: { header: "x-model-size: large" } }',
    '  other: { image: "registry.example.com/ml/sized:3", when: { model: other-v1 } }',
)


def test_least_request_spares_a_slow_replica_and_round_robin_does_not(serving: Serving) -> None:
    """At 65 % of what the four can do; the slow one alone gets more than it can in turns."""
    turns = service("turns", "image: registry.example.com/ml/model:1", "balance: roundRobin")

    async def both() -> tuple[LoadAnswers, LoadAnswers]:
        stretches = [LoadStage(seconds=15, rate=0.65 * FULL)]
        return await asyncio.gather(
            offer(load_on(serving, "least", stretches)), offer(load_on(serving, "turns", stretches))
        )

    with served(serving, service("least"), turns, replicas={"least": 4, "turns": 4}, server=ONE_AT_A_TIME):
        for name in ("least", "turns"):
            slow_down(serving.pods(name)[0].address)
        least, in_turns = asyncio.run(both())

    assert least.lost == 0
    assert in_turns.lost == in_turns.reasons["status 504"]  # longer than the longest request
    assert least.quantile(0.95) <= in_turns.quantile(0.95) / 5


def slow_down(address: str) -> None:
    request = urllib.request.Request(f"http://{address}:{PORT}{PACE}", headers={"x-work": str(SLOWER)})
    with urllib.request.urlopen(request, timeout=5):
        return


@pytest.fixture
def sized(serving: Serving) -> Iterator[Serving]:
    replicas = {"sized-small": 1, "sized-large": 1, "sized-other": 1}
    with served(serving, SIZED, replicas=replicas, server=MANY_AT_A_TIME):
        yield serving


def test_each_request_is_answered_by_the_variant_that_its_header_or_its_model_names(sized: Serving) -> None:
    asked: list[tuple[str, str, Headers]] = [
        ("sized-small", "sized", {"x-model": "sized-v3"}),
        ("sized-small", "sized/sized-v3", {}),
        ("sized-large", "sized", {"x-model": "sized-v3", "x-model-size": "large"}),
        ("sized-large", "sized/sized-v3", {"x-model-size": "large"}),
        ("sized-other", "sized", {"x-model": "other-v1"}),
        ("sized-other", "sized/other-v1", {}),
    ]

    async def all_of_them() -> list[LoadAnswers]:
        def load(path: str, headers: Headers) -> "asyncio.Task[LoadAnswers]":
            def own(_: Random) -> Headers:
                return headers

            return asyncio.create_task(offer(load_on(sized, path, [LoadStage(seconds=6, rate=60)], headers=own)))

        return [await each for each in [load(path, headers) for _, path, headers in asked]]

    for (variant, _, _), answers in zip(asked, asyncio.run(all_of_them()), strict=True):
        assert answers.sent > 200
        assert Counter(answer.variant for answer in answers.all) == {variant: answers.sent}


def test_when_a_fifth_replica_is_added_about_a_fifth_of_the_sessions_moves(serving: Serving) -> None:
    sessions = [f"session-{number}" for number in range(1000)]
    kept = service("kept", "image: registry.example.com/ml/model:1", 'balance: { consistentHash: "x-session" }')

    def homes() -> dict[str, str]:
        """The pod of each session, which each ask about twice."""
        turns = itertools.cycle(sessions)

        def next_one(_: Random) -> Headers:
            return {"x-session": next(turns)}

        answers = asyncio.run(offer(load_on(serving, "kept", [LoadStage(seconds=6, rate=400)], headers=next_one)))
        found = {answer.sent["x-session"]: answer.pod for answer in answers.all}
        assert answers.lost == 0
        assert len(found) == len(sessions)
        assert all(found[answer.sent["x-session"]] == answer.pod for answer in answers.all)
        return found

    with served(serving, kept, replicas={"kept": 4}, server=MANY_AT_A_TIME):
        before = homes()
        serving.scale("kept", 5)
        there = {pod.name for pod in serving.pods("kept", 5)}
        asyncio.run(offer(load_on(serving, "kept", [LoadStage(seconds=1, rate=50)])))  # the gateway learns of it
        after = homes()

    moved = {session for session in sessions if before[session] != after[session]}
    (fresh,) = there - set(before.values())
    assert 0.15 < len(moved) / len(sessions) < 0.3
    assert sum(after[session] == fresh for session in moved) > 0.8 * len(moved)


def test_one_request_too_many_is_told_at_once_to_come_back(serving: Serving) -> None:
    """Four may be under way: two for each Envoy."""
    full = service("full", "image: registry.example.com/ml/model:1", "maxInFlight: 4")
    slow = ModelServer(port=0, service=1.0, concurrency=64)

    with served(serving, full, replicas={"full": 2}, server=slow):
        answers = asyncio.run(offer(load_on(serving, "full", [LoadStage(seconds=3, rate=40)])))

    turned_away = [answer for answer in answers.all if answer.failed is not None]
    assert answers.reasons.keys() == {"status 429"}
    assert 8 <= answers.answered <= 20
    assert max(answer.took for answer in turned_away) < 1.0
    assert {answer.received.get("retry-after") for answer in turned_away} == {"5"}
