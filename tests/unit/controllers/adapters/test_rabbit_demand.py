"""RabbitMQ's answers as values, and readings of a broker that does not answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from redis import Redis

from controllers.adapters.broker_reports import ReportReader
from controllers.adapters.broker_rules import Answer, Count, Report, Reports
from controllers.adapters.rabbit_demand import FRESH, POLL, RabbitDemand, Totals, parsed_totals, rabbit_demands
from controllers.adapters.redis_connection import MissingPassword, connect
from controllers.adapters.redis_demand import UnknownSource
from controllers.ports import Known, Unknown
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import BrokerEndpoint, RedisEndpoint
from tests.builders.controllers import config, pool_policy
from tests.builders.redis import client, endpoint, server, shared_server

__all__ = ["client", "server", "shared_server"]

QUEUE = {"name": "train", "messages_ready": 2, "messages_unacknowledged": 1, "state": "running"}
BROKER = BrokerEndpoint(
    name="jobs",
    host="rabbit",
    port=5672,
    vhost="/",
    tls=False,
    management="http://rabbit:15672",
    username="reader",
    password_env="RABBIT",
)
POOL = pool_policy(source="celery", broker="jobs")


def test_totals_are_read_by_name() -> None:
    assert parsed_totals(200, json.dumps([QUEUE]).encode()) == {"train": Totals(2, 1, "running")}


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, b""), (403, b""), (405, b""), (500, b"[]"), (200, b"{"), (200, b"{}"), (200, b"\xff"), (200, b"[" * 99_999)],
)
def test_bad_answers_of_the_management_api_are_unknown(status: int, body: bytes) -> None:
    assert isinstance(parsed_totals(status, body), Unknown)


@pytest.mark.parametrize("value", [None, -1, "2", True, 1.5])
def test_a_missing_or_impossible_count_leaves_the_queue_out(value: object) -> None:
    """KEDA read a missing field as 0."""
    assert parsed_totals(200, json.dumps([QUEUE | {"messages_unacknowledged": value}]).encode()) == {}
    assert parsed_totals(200, b"[]") == {}


class FakeBroker:
    queues_in_vhost = 1

    def __init__(self) -> None:
        self.answer: Answer = Count(ready=1, consumers=0, listed=1, unacked=0)

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        return "rabbit 1", dict.fromkeys(queues, self.answer)

    def close(self) -> None:
        pass


class FakeReports:
    pools: Mapping[str, object] = {"train": POOL}
    calls = 0

    def read(self) -> Mapping[str, Reports]:
        return {"train": Reports()}


class Scene:
    def __init__(self) -> None:
        self.now, self.woken, self.broker = 0.0, 0, FakeBroker()
        self.demand = RabbitDemand(self.broker, FakeReports(), self._wake, lambda: self.now)  # pyright: ignore[reportArgumentType]

    def _wake(self) -> None:
        self.woken += 1


def test_a_changed_answer_wakes_the_loop_and_an_equal_one_does_not() -> None:
    scene = Scene()
    scene.demand.poll()
    scene.demand.poll()
    assert scene.woken == 1

    scene.broker.answer = Count(ready=2, consumers=0, listed=2, unacked=0)
    scene.demand.poll()

    assert scene.woken == 2


def test_a_round_that_is_too_old_is_unknown() -> None:
    scene = Scene()
    assert isinstance(scene.demand.read(["train"])["train"], Unknown)
    scene.demand.poll()
    assert isinstance(scene.demand.read(["train"])["train"], Known)

    scene.now += POLL + FRESH + 1

    seen = scene.demand.read(["train"])["train"]
    assert seen == Unknown("the broker has not answered for 5 s")


def test_a_missing_password_and_a_kind_that_no_broker_holds_are_refused() -> None:
    def sources(**changes: str) -> Sequence[RabbitDemand]:
        pool = pool_policy(**{"source": "celery", "broker": "jobs", **changes})
        return rabbit_demands(config(pool, brokers=(BROKER,)), {"RABBIT": "r"} if not changes else {}, _redis)

    assert len(sources()) == 1
    with pytest.raises(MissingPassword, match="RABBIT"):
        sources(name="train")
    with pytest.raises(UnknownSource, match="demand source rq"):
        sources(source="rq")


def _redis() -> Redis:
    return connect(RedisEndpoint(host="redis"), {})


@pytest.mark.redis
def test_reports_are_read_once_for_a_worker_of_several_queues(server: EmbeddedRedis) -> None:
    pools = {
        "train": pool_policy(queues=("train", "embed"), source="celery"),
        "mail": pool_policy(name="mail", queues=("mail",), source="celery"),
    }
    with server.client() as redis, connect(endpoint(server), {}) as reading:
        for queue in ("train", "embed"):
            redis.sadd("ebbtide:queues", queue)
            redis.sadd(f"ebbtide:workers:{queue}", "a.1", "dead.1")
            fields: dict[Any, Any] = {
                "hostname": "a",
                "state": "busy",
                "beat": "7.5",
                "active": 1,
                "held": 3,
                "received": 9,
            }
            redis.hset(f"ebbtide:worker:{queue}:a.1", mapping=fields)
        found = ReportReader(reading, pools, lambda: 0.0, lambda: 1.0).read()

    assert not isinstance(found, Unknown)
    assert [*found["train"].workers] == [
        Report(
            worker="a.1",
            host="a",
            queues=frozenset({"train", "embed"}),
            idle=False,
            active=1,
            held=3,
            received=9,
            beat="7.5",
        )
    ]
    assert found["train"].served == {"train", "embed"}
    assert (found["mail"].workers, found["mail"].served) == ([], frozenset())


@pytest.mark.redis
def test_reports_of_a_silent_redis_are_unknown_and_are_not_asked_for_again_at_once(server: EmbeddedRedis) -> None:
    now = 0.0
    with connect(RedisEndpoint(host=server.host, port=1), {}) as nobody:
        reader = ReportReader(nobody, {"train": POOL}, lambda: now, lambda: 2.0)
        first = reader.read()
    with connect(endpoint(server), {}) as reader.connection:
        assert (reader.read(), isinstance(first, Unknown)) == (first, True)
        now = 3.0
        assert not isinstance(reader.read(), Unknown)
