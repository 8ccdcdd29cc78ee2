"""Which pod a request goes to: by load, by header, by weight, by session."""

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from ebbtide.demo.embedded_envoy import Route, wait_until
from ebbtide.demo.load import Headers, LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import ModelServer
from tests.serving.embedded.stage import QUICK, gateway, load_on, served

pytestmark = [pytest.mark.serving, pytest.mark.long]  # the tier counts the same behind Envoy Gateway

SERVICE = 0.05  # seconds
SLOWER = 3  # times: one replica of four
FULL = (3 + 1 / SLOWER) / SERVICE  # requests a second


async def with_a_slow_one(balance: str) -> LoadAnswers:
    like = ModelServer(port=0, pod="model", service=SERVICE)
    with gateway(balance=balance) as its:
        async with served([its], like, replicas=3) as pods:
            pods.start(service=SERVICE * SLOWER)
            await pods.until_ready()
            return await offer(load_on(its, [LoadStage(seconds=15, rate=0.65 * FULL)]))


def test_least_request_spares_a_slow_replica_and_round_robin_does_not() -> None:
    async def both() -> tuple[LoadAnswers, LoadAnswers]:
        return await asyncio.gather(with_a_slow_one("LEAST_REQUEST"), with_a_slow_one("ROUND_ROBIN"))

    least, in_turns = asyncio.run(both())

    assert least.lost == in_turns.lost == 0
    assert least.quantile(0.95) <= in_turns.quantile(0.95) / 5


def test_each_request_is_answered_by_the_variant_that_its_header_or_its_model_names() -> None:
    routes = [
        Route(to={"large": 1}, headers={"x-model-size": "large"}),
        Route(to={"other": 1}, headers={"x-model": "other-v1"}),
        Route(to={"small": 1}),
    ]
    asked: list[tuple[str, Headers]] = [
        ("small", {}),
        ("small", {"x-model-size": "small"}),
        ("large", {"x-model-size": "large"}),
        ("other", {"x-model": "other-v1"}),
    ]
    right = {tuple(headers.items()): variant for variant, headers in asked}

    async def run() -> LoadAnswers:
        with gateway("small", "large", "other", routes=routes) as its:
            like = [replace(QUICK, pod=name, variant=name) for name in ("small", "large", "other")]
            async with served([its], like[0], replicas=1), served([its], like[1]), served([its], like[2], replicas=1):

                def headers(draw: Random) -> Headers:
                    return draw.choice(asked)[1]

                return await offer(load_on(its, [LoadStage(seconds=8, rate=300)], headers=headers))

    answers = asyncio.run(run())

    assert answers.lost == 0
    assert [answer.variant for answer in answers.all] == [right[tuple(answer.sent.items())] for answer in answers.all]
    assert Counter(answer.variant for answer in answers.all).keys() == {"small", "large", "other"}


def test_when_a_fifth_replica_is_added_about_a_fifth_of_the_sessions_moves_and_nearly_all_of_them_to_it() -> None:
    """Maglev, which Envoy Gateway takes for consistent hashes, is even, and moves a few more than it must."""
    sessions = [f"session-{number}" for number in range(1500)]

    async def run() -> tuple[dict[str, str], dict[str, str], str]:
        route = Route(to={"model": 1}, session="x-session")
        with gateway(balance="MAGLEV", routes=[route]) as its:
            async with served([its]) as pods:

                async def homes() -> dict[str, str]:
                    """The pod of each session, which each ask twice."""
                    turns = itertools.cycle(sessions)

                    def next_one(_: Random) -> Headers:
                        return {"x-session": next(turns)}

                    answers = await offer(load_on(its, [LoadStage(seconds=8, rate=450)], headers=next_one))
                    found = {answer.sent["x-session"]: answer.pod for answer in answers.all}
                    assert answers.lost == 0
                    assert len(found) == len(sessions)
                    assert all(found[answer.sent["x-session"]] == answer.pod for answer in answers.all)
                    return found

                before = await homes()
                fresh = pods.start()
                await pods.until_ready()
                await asyncio.to_thread(wait_until, lambda: len(its.endpoints("model")) == 5, "the new endpoint")
                return before, await homes(), fresh.name

    before, after, fresh = asyncio.run(run())

    moved = {session for session in sessions if before[session] != after[session]}
    to_the_new_one = [session for session in moved if after[session] == fresh]
    assert 0.15 < len(moved) / len(sessions) < 0.3
    assert len(to_the_new_one) > 0.8 * len(moved)
