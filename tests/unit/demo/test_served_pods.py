"""Replicas that start and end as pods do: endpoints while ready, killed after the grace period."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ebbtide.demo.model_server import ModelServer, OnSigterm
from ebbtide.demo.served_pods import Address, Ending, ServedPods
from tests.processes import lives

pytestmark = pytest.mark.process

LIKE = ModelServer(port=0, pod="model", service=0.0)


@dataclass
class EndpointLog:
    """The endpoints, each time that they changed."""

    told: list[set[Address]] = field(default_factory=list[set[Address]])

    def __call__(self, endpoints: Sequence[Address]) -> None:
        self.told.append(set(endpoints))


def test_a_pod_is_an_endpoint_from_ready_until_it_has_to_go_and_ends_after_that() -> None:
    seen = EndpointLog()

    async def run() -> None:
        async with ServedPods(LIKE, seen, Ending(pre_stop=1, grace=10)) as pods:
            pods.scale(2)
            assert (pods.replicas, pods.ready, seen.told) == (2, 0, [])
            await pods.until_ready()
            old, new = pods.pods
            assert seen.told[-1] == {old.address, new.address}

            pods.scale(1)

            assert seen.told[-1] == {old.address} or seen.told[-1] == {new.address}
            assert (pods.replicas, pods.ready) == (1, 1)
            assert lives(old.process.pid)
            assert lives(new.process.pid)  # in its preStop
            await pods.until_ended()
            assert len(pods.pods) == 1
            assert pods.killed == 0

    asyncio.run(run())


def test_one_that_is_not_ready_goes_first() -> None:
    async def run() -> None:
        async with ServedPods(LIKE, EndpointLog(), Ending(pre_stop=0, grace=10)) as pods:
            pods.start(loading=60.0)
            ready = pods.start()
            await pods.until_ready([ready])

            pods.scale(1)

            assert [pod for pod in pods.pods if not pod.leaving] == [ready]

    asyncio.run(run())


def test_one_that_does_not_end_is_killed_after_its_grace_period() -> None:
    ignoring = ModelServer(port=0, pod="model", on_sigterm=OnSigterm.IGNORE)

    async def run() -> None:
        async with ServedPods(ignoring, EndpointLog(), Ending(pre_stop=0.1, grace=0.2)) as pods:
            pods.scale(1)
            await pods.until_ready()
            pid = pods.pods[0].process.pid
            pods.scale(0)
            await pods.until_ended()
            assert pods.killed == 1
            assert not lives(pid)

    asyncio.run(run())


def test_a_replacement_is_ready_before_the_other_goes() -> None:
    seen = EndpointLog()

    async def run() -> None:
        async with ServedPods(LIKE, seen, Ending(pre_stop=0, grace=10)) as pods:
            pods.scale(1)
            await pods.until_ready()
            await pods.replace(pods.pods[0], variant="next")
            await pods.until_ended()
            assert [pod.server.variant for pod in pods.pods] == ["next"]

    asyncio.run(run())

    assert [len(endpoints) for endpoints in seen.told] == [1, 2, 1]


def test_nothing_is_left_when_it_ends_in_the_middle() -> None:
    async def run() -> list[int]:
        async with ServedPods(LIKE, EndpointLog(), Ending(pre_stop=60, grace=100)) as pods:
            pods.scale(2)
            await pods.until_ready()
            pods.scale(1)
            return [pod.process.pid for pod in pods.pods]

    left = asyncio.run(run())

    assert len(left) == 2
    assert not any(map(lives, left))
