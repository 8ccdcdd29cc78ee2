"""The Celery and plain-list scripts on a real Redis, for states that real workers only reach with patience."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from redis import Redis

from controllers.adapters.backend import Backend
from controllers.adapters.celery_backend import CELERY
from controllers.adapters.list_backend import LIST
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.ports import Known, Reading, Unknown
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.redis import endpoint

pytestmark = pytest.mark.redis


@pytest.fixture
def reader(server: EmbeddedRedis) -> Iterator[Redis]:
    with connect(endpoint(server), {}) as connection:
        yield connection


def read(reader: Redis, backend: Backend, queue: str = "train") -> Reading:
    return RedisDemand(reader, backend, {"pool": [queue]}).read(["pool"])["pool"]


def known(reader: Redis, backend: Backend, queue: str = "train") -> Known:
    seen = read(reader, backend, queue)
    assert isinstance(seen, Known), seen
    return seen


def hand_out(client: Redis, exchange: str, key: str, *, ago: float = 0, tag: str = "tag") -> None:
    now = int(client.time()[0])
    client.hset("unacked", tag, json.dumps([{"body": 'tricky "train", "train"]', "headers": {}}, exchange, key]))
    client.zadd("unacked_index", {tag: now - ago})


def bind(client: Redis, exchange: str, key: str, pattern: str, queue: str) -> None:
    client.sadd(f"_kombu.binding.{exchange}", "\x06\x16".join((key, pattern, queue)))


def report(client: Redis, host: str, state: str, patience: float = 3600) -> None:
    client.sadd("ebbtide:workers:train", host)
    client.hset(f"ebbtide:worker:train:{host}", mapping={"hostname": host, "state": state, "patience": patience})


def test_celery_jobs_of_every_priority_wait(client: Redis, reader: Redis) -> None:
    for step in ("", "\x06\x163", "\x06\x166", "\x06\x169"):
        client.lpush(f"train{step}", "{}")

    assert known(reader, CELERY).waiting == 4


def test_celery_tasks_handed_out_count_for_their_own_queue(client: Redis, reader: Redis) -> None:
    hand_out(client, "", "train", tag="a")
    hand_out(client, "", "embed", tag="b")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed", "mail")] == [1, 1, 0]


def test_celery_exchanges_are_followed_to_their_queues(client: Redis, reader: Redis) -> None:
    bind(client, "ml", "gpu.big", "", "train")
    bind(client, "ml", "cpu", "", "embed")
    hand_out(client, "ml", "gpu.big")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed")] == [1, 0]


def test_celery_task_of_an_exchange_that_nobody_knows_counts_for_every_queue(client: Redis, reader: Redis) -> None:
    hand_out(client, "gone", "some.key")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed")] == [1, 1]


def test_celery_names_that_json_escapes_are_read(client: Redis, reader: Redis) -> None:
    hand_out(client, "", "züge")

    assert known(reader, CELERY, "züge").running == 1


def test_celery_tasks_too_many_to_look_at_are_unknown(client: Redis, reader: Redis) -> None:
    for number in range(1001):
        hand_out(client, "", "train", tag=str(number))

    seen = read(reader, CELERY)

    assert isinstance(seen, Unknown)
    assert "1001 messages are unacknowledged" in seen.why


def test_celery_task_past_its_workers_patience_is_stale_and_others_run(client: Redis, reader: Redis) -> None:
    report(client, "a", "idle", patience=60)
    hand_out(client, "", "train", tag="old", ago=90)
    hand_out(client, "", "train", tag="new", ago=30)

    assert (known(reader, CELERY).running, known(reader, CELERY).stale) == (1, 1)


def test_celery_worker_that_says_busy_holds_a_task_whatever_the_broker_shows(client: Redis, reader: Redis) -> None:
    report(client, "a", "busy")
    report(client, "b", "idle")

    seen = known(reader, CELERY)

    assert (seen.running, seen.idle, seen.names_idle) == (1, {"b"}, True)


def test_celery_message_without_our_stamp_has_no_age(client: Redis, reader: Redis) -> None:
    client.lpush("train", json.dumps({"headers": {"id": "x"}}))
    assert known(reader, CELERY).oldest_wait is None

    client.rpush("train", json.dumps({"headers": {"ebbtide_sent": int(client.time()[0]) - 30}}))
    age = known(reader, CELERY).oldest_wait
    assert age is not None
    assert timedelta(seconds=30) <= age < timedelta(seconds=45)


def test_list_entries_of_a_consumer_without_heartbeat_are_stale(client: Redis, reader: Redis) -> None:
    client.sadd("train:consumers", "a", "b", "c")
    client.set("train:consumer:a", "pod-a")
    client.set("train:consumer:b", "pod-b")
    for consumer in ("a", "c"):
        client.rpush(f"train:processing:{consumer}", "job")

    seen = known(reader, LIST)

    assert (seen.running, seen.stale, seen.idle, seen.names_idle) == (1, 1, {"pod-b"}, True)


def test_list_with_a_shared_processing_list_names_nobody(client: Redis, reader: Redis) -> None:
    client.sadd("train:consumers", "a")
    client.set("train:consumer:a", "pod-a")
    client.rpush("train:processing", "job")

    assert (known(reader, LIST).running, known(reader, LIST).names_idle) == (1, False)


@pytest.mark.parametrize("backend", [CELERY, LIST], ids=lambda backend: backend.kind)
def test_key_of_another_kind_makes_that_queue_unknown(client: Redis, reader: Redis, backend: Backend) -> None:
    client.set("train", "not a list")

    seen = read(reader, backend)

    assert isinstance(seen, Unknown)
    assert "train" in seen.why
