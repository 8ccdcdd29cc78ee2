"""One body for the fake and for RQ's real keys on a real Redis."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from redis import Redis

from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.ports import DemandSource, Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import endpoint
from tests.fakes import FakeDemand, FakeQueue


@dataclass(frozen=True)
class Scene:
    """What is true of the pool `mail`."""

    waiting: int = 0
    popped: tuple[str, ...] = ()  # pods that popped a job and have not registered it
    running: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    stale: int = 0
    due_soon: int = 0


DemandBuilder = Callable[[Scene], DemandSource]


def fake_with(scene: Scene) -> DemandSource:
    queue = FakeQueue(waiting=scene.waiting + len(scene.popped) + len(scene.running))
    for pod in (*scene.popped, *scene.running, *scene.idle):
        queue.join(pod)
    for pod in (*scene.popped, *scene.running):
        queue.pop(pod)
    for pod in scene.running:
        queue.start(pod)
    queue.stale, queue.due_soon = scene.stale, scene.due_soon
    return FakeDemand({"mail": queue})


def write_rq_keys(client: Redis, scene: Scene) -> None:
    """The keys that RQ 2.12 leaves behind in each of these states."""
    now = int(client.time()[0])
    for number in range(scene.waiting):
        client.rpush("rq:queue:mail", f"waiting-{number}")
    for pod in scene.popped:
        client.rpush("rq:queue:mail:intermediate", f"popped-{pod}")
    for pod in scene.running:
        client.zadd("rq:wip:mail", {f"job-{pod}:execution": now + 90})
    for number in range(scene.stale):
        client.zadd("rq:wip:mail", {f"stale-{number}:execution": now - 5})
    for number in range(scene.due_soon):
        client.zadd("rq:scheduled:mail", {f"due-{number}": now + 30})
    client.zadd("rq:scheduled:mail", {"tomorrow": now + 86_400})
    for pod in (*scene.popped, *scene.running, *scene.idle):
        state = {"state": "busy", "current_job": f"job-{pod}"} if pod in scene.running else {"state": "idle"}
        client.hset(f"rq:worker:{pod}.1", mapping={"hostname": pod, **state})
        client.sadd("rq:workers:mail", f"rq:worker:{pod}.1")


@pytest.fixture(params=["fake", pytest.param("rq", marks=pytest.mark.redis)])
def demand_with(request: pytest.FixtureRequest) -> Iterator[DemandBuilder]:
    if request.param == "fake":
        yield fake_with
        return
    server: EmbeddedRedis = request.getfixturevalue("server")
    client: Redis = request.getfixturevalue("client")
    with connect(endpoint(server), {}) as reader:

        def rq_with(scene: Scene) -> DemandSource:
            write_rq_keys(client, scene)
            return RedisDemand(reader, RQ, {"mail": ["mail"]})

        yield rq_with


def reading(source: DemandSource) -> Known:
    seen = source.read(["mail"])["mail"]
    assert isinstance(seen, Known)
    return seen


@pytest.mark.process
def test_an_empty_pool_is_known_to_be_empty(demand_with: DemandBuilder) -> None:
    assert reading(demand_with(Scene())) == Known(waiting=0, in_transit=0, running=0)


def test_a_job_between_list_and_registry_still_counts(demand_with: DemandBuilder) -> None:
    seen = reading(demand_with(Scene(popped=("a",))))

    assert (seen.waiting, seen.in_transit, seen.running, seen.in_flight) == (0, 1, 0, 1)


def test_waiting_and_running_jobs_are_told_apart(demand_with: DemandBuilder) -> None:
    seen = reading(demand_with(Scene(waiting=3, running=("a", "b"))))

    assert (seen.waiting, seen.in_transit, seen.running) == (3, 0, 2)


def test_stale_entries_are_no_running_jobs(demand_with: DemandBuilder) -> None:
    seen = reading(demand_with(Scene(stale=2)))

    assert (seen.stale, seen.running, seen.in_flight) == (2, 0, 0)


def test_jobs_due_soon_are_seen_and_later_ones_are_not(demand_with: DemandBuilder) -> None:
    assert reading(demand_with(Scene(due_soon=2))).due_soon == 2


def test_only_workers_without_a_job_are_idle(demand_with: DemandBuilder) -> None:
    assert reading(demand_with(Scene(running=("a",), idle=("b", "c")))).idle == {"b", "c"}


def test_a_worker_that_has_just_popped_still_says_idle(demand_with: DemandBuilder) -> None:
    assert reading(demand_with(Scene(popped=("a",)))).idle == {"a"}
