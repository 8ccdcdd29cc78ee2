"""A reading's cost grows with what there is, not with its square: counted in commands, never in time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis

from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.ports import Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import client, endpoint, server, shared_server

__all__ = ["client", "server", "shared_server"]  # fixtures

pytestmark = pytest.mark.redis

QUEUES = tuple(f"mail-{number}" for number in range(150))


@pytest.fixture
def demand(server: EmbeddedRedis) -> Iterator[RedisDemand]:
    with connect(endpoint(server), {}) as reader:
        yield RedisDemand(reader, RQ, {"mail": QUEUES})


def add_worker(client: Redis, host: str, state: str) -> None:
    """At all queues, as one worker of a pool with a queue list is."""
    client.hset(f"rq:worker:{host}", mapping={"hostname": host, "state": state})
    for queue in QUEUES:
        client.sadd(f"rq:workers:{queue}", f"rq:worker:{host}")


def asked(client: Redis, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def test_each_worker_of_many_queues_is_asked_about_once(client: Redis, demand: RedisDemand) -> None:
    add_worker(client, "mail-a", "idle")
    add_worker(client, "mail-b", "busy")
    before = asked(client, "hmget")

    reading = demand.read(["mail"])["mail"]

    assert isinstance(reading, Known)
    assert (reading.idle, asked(client, "hmget") - before) == ({"mail-a"}, 2)


def test_what_hundreds_of_queues_hold_is_added_up(client: Redis, demand: RedisDemand) -> None:
    """The job at the head of each queue is a minute older than that of the queue before."""
    newest = datetime.now(UTC)
    for number, queue in enumerate(QUEUES):
        client.rpush(f"rq:queue:{queue}", f"{queue}-head", "next")
        enqueued = newest - timedelta(minutes=number)
        client.hset(f"rq:job:{queue}-head", "enqueued_at", enqueued.isoformat())
        client.zadd(f"rq:wip:{queue}", {"running": newest.timestamp() + 3600})

    reading = demand.read(["mail"])["mail"]

    assert isinstance(reading, Known)
    assert (reading.waiting, reading.running) == (2 * len(QUEUES), len(QUEUES))
    assert reading.oldest_wait is not None
    assert reading.oldest_wait >= timedelta(minutes=len(QUEUES) - 1)
