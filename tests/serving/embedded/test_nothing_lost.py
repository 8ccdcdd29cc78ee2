"""Requests that are lost when pods and gateways go: none with the rule, some without it.

The rule: a pod stops being an endpoint, goes on for `preStop.sleep`, then is told to stop, answers what it has, and
ends within a grace period of the sleep and the longest request.
"""

import asyncio
import itertools
from dataclasses import replace

import pytest

from ebbtide.demo.embedded_envoy import EmbeddedEnvoy, Route
from ebbtide.demo.load import Load, LoadStage
from ebbtide.demo.model_server import OnSigterm
from ebbtide.demo.served_pods import Ending, ServedPods
from tests.serving.embedded.stage import ENDING, QUICK, STEADY, gateway, load_on, served, under

pytestmark = [pytest.mark.serving, pytest.mark.long]  # the tier counts the same behind Envoy Gateway

LONG = (LoadStage(seconds=6, rate=40),)


async def to_one(pods: ServedPods) -> None:
    pods.scale(1)
    await pods.until_ended()


def test_from_eight_replicas_to_one() -> None:
    async def run() -> None:
        with gateway() as its:
            async with served([its], replicas=8) as pods:
                answers = await under(load_on(its), lambda: to_one(pods))

                assert (len(pods.pods), pods.killed) == (1, 0)
        assert answers.sent >= 10_000
        assert (answers.lost, answers.reasons) == (0, {})
        assert len({answer.pod for answer in answers.all}) == 8

    asyncio.run(run())


@pytest.mark.parametrize(
    ("on_sigterm", "ending"),
    [
        (OnSigterm.EXIT, Ending(pre_stop=0, grace=20)),
        (OnSigterm.IGNORE, Ending(pre_stop=0, grace=2)),  # killed at its end, with requests that take longer
        (OnSigterm.DRAIN, Ending(pre_stop=0, grace=2)),
    ],
    ids=["exits at once", "ignores the signal", "drains, grace too short"],
)
def test_without_the_rule_some_are_lost(on_sigterm: OnSigterm, ending: Ending) -> None:
    slow = replace(QUICK, service=3.0, on_sigterm=on_sigterm)

    async def run() -> None:
        with gateway() as its:
            async with served([its], slow, replicas=8, ending=ending) as pods:
                answers = await under(load_on(its, LONG), lambda: to_one(pods))

                assert pods.killed == (0 if on_sigterm is OnSigterm.EXIT else 7)
        assert 0 < answers.lost < answers.sent
        assert answers.reasons == {"status 503": answers.lost}

    asyncio.run(run())


def test_with_the_rule_the_same_long_requests_are_all_answered() -> None:
    slow = replace(QUICK, service=3.0)

    async def run() -> None:
        with gateway() as its:
            async with served([its], slow, replicas=8, ending=ENDING) as pods:
                answers = await under(load_on(its, LONG), lambda: to_one(pods))

                assert pods.killed == 0
        assert (answers.lost, answers.reasons) == (0, {})

    asyncio.run(run())


def test_a_rollout_and_a_drain_that_waits_for_the_replacement() -> None:
    """Both start a pod, wait until it is ready, and end another."""

    async def run() -> None:
        with gateway() as its:
            async with served([its]) as pods:
                old = list(pods.pods)

                async def replaced() -> None:
                    for pod in old:
                        await pods.replace(pod, variant="next")
                    await pods.until_ended()

                answers = await under(load_on(its), replaced)

                assert not set(pods.pods) & set(old)
        assert answers.sent >= 10_000
        assert (answers.lost, answers.reasons) == (0, {})
        assert answers.all[-1].variant == "next"

    asyncio.run(run())


def test_a_canary_that_grows_to_all_of_it() -> None:
    """While the new variant has a tenth, one in ten requests is its."""
    canary = replace(QUICK, pod="canary", variant="canary")

    async def run() -> None:
        begin = Route(to={"model": 90, "canary": 10})
        with gateway("model", "canary", routes=[begin]) as its:
            async with served([its]) as stable, served([its], canary) as fresh:

                async def shifted() -> None:
                    for weight in (50, 100):
                        its.set_routes([Route(to={"model": 100 - weight, "canary": weight})])
                        await asyncio.sleep(0.5)
                    await to_one(stable)

                # The first 16 s are all at 90 to 10.
                answers = await under(load_on(its, (LoadStage(seconds=18, rate=720),)), shifted, after=16)

                assert len(fresh.pods) == 4
        counted = answers.between(0, 15.5)
        assert counted.sent >= 10_000
        assert (answers.lost, answers.reasons) == (0, {})
        canaries = sum(answer.variant == "canary" for answer in counted.all)
        assert abs(canaries / counted.sent - 0.10) < 0.01
        assert answers.all[-1].variant == "canary"

    asyncio.run(run())


async def drained(its: EmbeddedEnvoy) -> None:
    """As the gateway's pods are ended: clients are told at their next answers, and new connections go elsewhere."""
    its.drain()
    while its.connections():
        await asyncio.sleep(0.05)
    its.stop()


@pytest.mark.parametrize("told", [True, False], ids=["drained", "killed"])
def test_one_of_two_gateways_goes(told: bool) -> None:
    async def run() -> None:
        with gateway() as leaving, gateway() as staying:
            async with served([leaving, staying]):
                places = {its: (its.host, its.port) for its in (leaving, staying)}
                turns = itertools.count()

                def address() -> tuple[str, int]:
                    """What a load balancer does: one after the other, of those that are there."""
                    left = list(places.values())
                    return left[next(turns) % len(left)]

                async def goes() -> None:
                    del places[leaving]
                    if told:
                        await drained(leaving)
                    else:
                        leaving.kill()

                answers = await under(Load(address=address, stretches=STEADY, seed=1), goes)

        assert answers.sent >= 10_000
        assert (answers.lost > 0) is not told

    asyncio.run(run())
