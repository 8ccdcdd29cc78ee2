"""Readings of a broker that does not answer, and of its workers' reports."""

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from redis import Redis

from controllers.adapters.broker_demand import FRESH, BrokerDemand, broker_demands
from controllers.adapters.broker_reports import ReportReader
from controllers.adapters.broker_rules import RABBITMQ, SQS, Answer, Count, Report, Reports, Timings
from controllers.adapters.metrics import broker_families
from controllers.adapters.rabbit_broker import POLL, POLL_MANY
from controllers.adapters.redis_connection import MissingPassword, connect
from controllers.adapters.redis_demand import UnknownSource
from controllers.ports import Known, Unknown
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint, SqsEndpoint
from ebbtide.vocabulary.documents import dump
from tests.builders.brokers import report
from tests.builders.components import BROKER
from tests.builders.controllers import config, pool_policy
from tests.builders.redis import client, endpoint, server, shared_server, wait_until

__all__ = ["client", "server", "shared_server"]

POOL = pool_policy(source="celery", broker="jobs")


class FakeBroker:
    timings, pause = RABBITMQ, 1.0

    def __init__(self) -> None:
        self.asked = 0
        self.now, self.takes = 0.0, 0.0  # the clock; seconds of a round
        self.answer: Answer = Count(ready=1, consumers=0, listed=1, unacked=0)
        self.fault: Exception | None = None
        self.closed_by = ""

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        self.now += self.takes
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return "rabbit 1", dict.fromkeys(queues, self.answer)

    def close(self) -> None:
        self.closed_by = threading.current_thread().name


class FakeReports:
    pools: Mapping[str, object] = {"train": POOL}
    calls = 0

    def __init__(self) -> None:
        self.seen: Mapping[str, Reports] | Unknown = {"train": Reports()}

    def read(self) -> Mapping[str, Reports] | Unknown:
        return self.seen


class Scene:
    def __init__(self) -> None:
        self.woken, self.broker, self.reports = 0, FakeBroker(), FakeReports()
        reports = cast("ReportReader", self.reports)
        self.demand = BrokerDemand(self.broker, reports, self._wake, lambda: self.broker.now, name="jobs")

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

    scene.broker.now += scene.broker.pause + FRESH + 1

    seen = scene.demand.read(["train"])["train"]
    assert seen == Unknown("the broker has not answered for 5 s")


def pause_after(scene: Scene, quiet: float) -> float:
    """Return the pause after this time without messages, changes and workers."""
    scene.broker.timings = SQS
    scene.broker.answer = Count(ready=0, consumers=None, listed=0, unacked=0)
    for scene.broker.now in (0.0, quiet):
        scene.demand.read(["train"])
        scene.demand.poll()
    return scene.demand.pause


@pytest.mark.parametrize(("quiet", "pause"), [(1.0, 1.0), (179.0, 1.0), (180.0, 5.0), (899.0, 5.0), (900.0, 15.0)])
def test_a_quiet_sqs_is_asked_less_often(quiet: float, pause: float) -> None:
    assert pause_after(Scene(), quiet) == pause


@pytest.mark.parametrize("count", [(1, 0), (0, 1)], ids=["waiting", "running"])
def test_a_message_brings_the_short_pause_back(count: tuple[int, int]) -> None:
    scene = Scene()
    pause_after(scene, 900.0)
    scene.broker.answer = Count(ready=count[0], consumers=None, listed=count[0], unacked=count[1])
    for scene.broker.now in (901.0, 1200.0):
        scene.demand.poll()

    assert scene.demand.pause == 1.0


def test_a_producer_brings_the_short_pause_back_since_counts_may_be_late() -> None:
    scene = Scene()
    pause_after(scene, 900.0)
    scene.demand.published()
    scene.demand.poll()

    assert scene.demand.pause == 1.0


def test_a_worker_or_unread_reports_bring_the_short_pause_back() -> None:
    for seen in ({"train": Reports(workers=(report(),))}, Unknown("Redis cannot be reached")):
        scene = Scene()
        pause_after(scene, 900.0)
        scene.reports.seen = seen
        scene.demand.read(["train"])

        assert scene.demand.pause == 1.0


def test_a_round_stays_fresh_for_the_pause_that_followed_it() -> None:
    scene = Scene()
    pause_after(scene, 900.0)
    scene.broker.now += 15.0 + FRESH

    assert scene.demand.read(["train"])["train"] != Unknown("the broker has not answered for 18 s")


def test_sqs_takes_no_password() -> None:
    stack = config(pool_policy(source="consumer", broker="aws"), sqs=(SqsEndpoint(name="aws", region="eu-central-1"),))

    [demand] = broker_demands(stack, {}, _redis)

    assert demand.queues_of == {"train": ("train",)}


def test_the_metrics_show_how_old_the_answers_of_a_broker_are() -> None:
    """No age before the first answer: an unknown value is left out."""
    scene = Scene()
    assert "broker_answer_age" not in "".join(broker_families([scene.demand]))

    scene.demand.poll()
    scene.broker.now, scene.broker.answer = 5.0, Unknown("the broker did not answer")
    scene.demand.poll()
    scene.demand.poll()

    text = "".join(broker_families([scene.demand]))
    assert 'ebbtide_broker_answer_age_seconds{broker="jobs"} 5.0\n' in text


def test_a_published_message_begins_a_round_before_its_time() -> None:
    scene = Scene()
    scene.broker.pause, scene.broker.takes = 1000.0, 500.0
    scene.demand.start()
    wait_until(lambda: scene.broker.asked == 1, "the first round")

    scene.demand.published()

    wait_until(lambda: scene.broker.asked == 3, "the round of the published message, and another if it shows nothing")
    scene.demand.close()
    assert scene.broker.closed_by == "broker-poll"  # another thread could close connections that are in use


def test_a_reader_that_never_started_closes_its_broker_too() -> None:
    scene = Scene()

    scene.demand.close()

    assert scene.broker.closed_by


@pytest.mark.parametrize(
    ("timings", "pause", "shortest"), [(RABBITMQ, POLL, 0.1), (RABBITMQ, POLL_MANY, 0.3), (SQS, 1.0, 1.0)]
)
def test_producers_cause_more_rounds_only_where_they_are_cheap(timings: Timings, pause: float, shortest: float) -> None:
    scene = Scene()
    scene.broker.timings, scene.broker.pause = timings, pause

    assert scene.demand.shortest_pause == pytest.approx(shortest)


def test_a_missing_password_and_a_kind_that_no_broker_holds_are_refused() -> None:
    def sources(**changes: str) -> Sequence[BrokerDemand]:
        pool = pool_policy(**{"source": "celery", "broker": "jobs", **changes})
        return broker_demands(
            config(pool, brokers=(BROKER,)), {BROKER.password_env: "r"} if not changes else {}, _redis
        )

    assert [source.name for source in sources()] == ["jobs"]
    with pytest.raises(MissingPassword, match=BROKER.password_env):
        sources(name="train")
    with pytest.raises(UnknownSource, match="demand source rq"):
        sources(source="rq")


@pytest.mark.process
def test_a_controller_without_a_broker_loads_no_reader_of_brokers() -> None:
    """It needs the memory only with one."""
    reads = "import sys; from controllers.scaler.main import read; read(sys.argv[1])"
    code = f"{reads}; print(*{{'amqp', 'controllers.adapters.broker_demand'}}.intersection(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code, dump(config())], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


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


@pytest.mark.redis
def test_names_that_are_no_text_end_no_reading(server: EmbeddedRedis) -> None:
    """Any client may write them, and an error would end the controller for all pools."""
    with server.client() as redis, connect(endpoint(server), {}) as reading:
        redis.sadd("ebbtide:workers:train", b"\xff", "a.1")
        redis.hset("ebbtide:worker:train:a.1", mapping={"hostname": b"a\xff", "state": "idle"})
        found = ReportReader(reading, {"train": POOL}, lambda: 0.0, lambda: 1.0).read()

    assert not isinstance(found, Unknown)
    assert [(worker.worker, worker.host) for worker in found["train"].workers] == [("a.1", "a\ufffd")]


def test_an_error_that_the_adapter_does_not_know_makes_one_round_unknown() -> None:
    """It must not end the thread, and with it every later round."""
    scene = Scene()
    scene.broker.fault = UnicodeError("label empty or too long")
    scene.demand.poll()
    assert scene.demand.read(["train"])["train"] == Unknown(
        "broker jobs could not be asked: UnicodeError: label empty or too long"
    )

    scene.broker.fault = None
    scene.demand.poll()

    assert isinstance(scene.demand.read(["train"])["train"], Known)


@pytest.mark.parametrize("takes", [2.5, 4.5, 9.0])
def test_a_broker_that_answers_slowly_is_known_until_its_next_answer(takes: float) -> None:
    scene = Scene()
    scene.broker.takes = takes
    scene.demand.poll()

    scene.broker.now += takes  # of the next round

    assert isinstance(scene.demand.read(["train"])["train"], Known)


def test_a_round_of_minutes_is_too_old() -> None:
    scene = Scene()
    scene.broker.takes = 60.0
    scene.demand.poll()
    scene.broker.now += 20.0

    assert isinstance(scene.demand.read(["train"])["train"], Unknown)
