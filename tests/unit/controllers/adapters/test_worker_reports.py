"""What RQ's workers register about themselves, read from a real Redis and compared with their pool."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.ports import Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.controllers import pool_policy
from tests.builders.redis import endpoint

pytestmark = pytest.mark.redis

GOOD = {
    "burst": False,
    "max_jobs": None,
    "max_idle_time": None,
    "with_scheduler": True,
    "results_ttl": 500,
    "signals": {"SIGTERM": "warm", "SIGQUIT": "default", "SIGINT": "warm"},
}


@pytest.fixture
def reader(server: EmbeddedRedis) -> Iterator[Redis]:
    with connect(endpoint(server), {}) as connection:
        yield connection


def register(client: Redis, host: str, *, queues: str = "train", report: object = None) -> None:
    text = report if isinstance(report, str) else json.dumps(report)
    told = {"hostname": host, "state": "idle", "queues": queues, **({} if report is None else {"ebbtide": text})}
    client.hset(f"rq:worker:{host}", mapping=told)  # pyright: ignore[reportArgumentType]
    for queue in queues.split(","):
        client.sadd(f"rq:workers:{queue}", f"rq:worker:{host}")


def warning(reader: Redis, *queues: str, **changes: Any) -> str:
    policy = pool_policy(queues=queues or ("train",), **changes)
    seen = RedisDemand(reader, RQ, {"train": policy.queues}, {"train": policy}).read(["train"])["train"]
    assert isinstance(seen, Known)
    return seen.warning


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"burst": True}, "workers have --burst and end by themselves"),
        ({"max_jobs": 10}, "workers have --max-jobs"),
        ({"max_idle_time": 60}, "workers have --max-idle-time"),
        ({"with_scheduler": False}, "no worker has --with-scheduler"),
        ({"results_ttl": -1}, "keep results forever"),
        ({"signals": {"SIGTERM": "default"}}, "the SIGTERM of a stopping worker kills it with its job"),
        ({"signals": {"SIGTERM": "ignored"}}, "is ignored, so it is killed when its grace period ends"),
        ({"signals": {"SIGTERM": "app.tasks.bye"}}, "goes to app.tasks.bye, not to the worker's own handler"),
        ({"stop_signal": "SIGQUIT"}, "the SIGQUIT that dumb-init makes of SIGTERM of a stopping worker kills it"),
        ({"shell": "sh"}, "sh gets the SIGTERM and passes it on to no worker"),
    ],
)
def test_an_option_or_a_handler_that_breaks_a_promise_is_a_condition(
    client: Redis, reader: Redis, told: dict[str, object], said: str
) -> None:
    register(client, "a", report=GOOD)
    assert warning(reader) == ""

    register(client, "a", report=GOOD | told)

    assert said in warning(reader)


@pytest.mark.parametrize(
    "told",
    [
        {"stop_signal": "SIGINT"},  # which the worker handles, too
        {"maintenance_interval": 600, "worker_ttl": 615},
        {"burst": False, "max_jobs": 0},
    ],
)
def test_other_options_are_none(client: Redis, reader: Redis, told: dict[str, object]) -> None:
    register(client, "a", report=GOOD | told)

    assert warning(reader) == ""


def test_how_a_worker_stops_is_its_pools_business_only_with_a_safe_stop(client: Redis, reader: Redis) -> None:
    register(client, "a", report=GOOD | {"signals": {"SIGTERM": "default"}, "shell": "sh"})

    assert warning(reader, safe_stop=False) == ""


def test_the_queues_of_a_worker_of_any_class_are_compared(client: Redis, reader: Redis) -> None:
    register(client, "a", queues="high,train")

    assert "serves high, train, and the pool counts train" in warning(reader)
    assert "serves high, train, and the pool counts other, train" in warning(reader, "other", "train")
    assert warning(reader, "train", "high") == ""

    client.flushdb()
    register(client, "a", queues="train")
    assert "serves one queue, and the pool counts train, mail" in warning(reader, "train", "mail")
    assert warning(reader) == ""


def test_one_worker_with_a_scheduler_moves_the_jobs_of_all(client: Redis, reader: Redis) -> None:
    register(client, "a", report=GOOD | {"with_scheduler": False})
    register(client, "b", report=GOOD)

    assert warning(reader) == ""


def test_a_worker_of_another_class_may_have_a_scheduler(client: Redis, reader: Redis) -> None:
    register(client, "a", report=GOOD | {"with_scheduler": False})
    register(client, "b")

    assert warning(reader) == ""


@pytest.mark.parametrize("text", ["", "not JSON", "[]", "x" * 5000, '{"signals": 1, "results_ttl": "60"}', "[" * 4000])
def test_a_report_that_no_worker_writes_says_nothing(client: Redis, reader: Redis, text: str) -> None:
    register(client, "a", report=text)

    assert warning(reader) == ""


def test_each_fault_is_told_once_whatever_the_number_of_workers_and_queues(client: Redis, reader: Redis) -> None:
    for host in ("a", "b", "c"):
        register(client, host, queues="train,mail", report=GOOD | {"burst": True})

    assert warning(reader, "train", "mail").count("--burst") == 1
