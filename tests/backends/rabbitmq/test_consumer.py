"""`AmqpWorker` on a real RabbitMQ: its messages when workers stop, die or fail, and when the broker does."""

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import amqp
import pytest
from redis import Redis

from controllers.ports import Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import AMQP_WORKER, BEGUN, ENDED, QUEUE
from tests.backends.rabbitmq.conftest import POD, RabbitScene
from tests.backends.rabbitmq.server import Rabbit
from tests.builders.redis import wait_until

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]


class ConsumerScene(RabbitScene):
    def __init__(self, rabbit: Rabbit, server: EmbeddedRedis, client: Redis, log: Path) -> None:
        super().__init__(rabbit, server, client, AMQP_WORKER)
        self._log = log
        self.said = self._undo.enter_context(log.open("ab", buffering=0))

    def log(self) -> str:
        return self._log.read_text()

    def publish(self, *payloads: str) -> None:
        with self._channel() as channel:
            for payload in payloads:
                message = cast("Any", amqp.Message)(payload, delivery_mode=2, content_encoding="utf-8")
                channel.basic_publish(message, routing_key=QUEUE)

    @contextmanager
    def _channel(self) -> Generator[Any]:
        with cast("Any", amqp.Connection)(f"{self.rabbit.host}:{self.rabbit.port}") as connection:
            yield connection.channel()

    def times(self, key: str = ENDED) -> Counter[str]:
        return Counter([name.decode() for name in self._names(key)])

    def waiting(self, queue: str = QUEUE) -> int:
        return self._declared(queue).message_count

    def worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker that consumes; AMQP shows it at once, the management API seconds later."""
        before = self.serving()
        process = self.start(**variables)
        wait_until(lambda: self.serving() > before, "the worker to consume")
        return process

    def waits_undelivered(self) -> bool:
        """The next message was never delivered to a worker."""
        with self._channel() as channel:
            return not channel.basic_get(QUEUE).delivery_info["redelivered"]

    def serving(self) -> int:
        return self._declared(QUEUE).consumer_count

    def _declared(self, queue: str) -> Any:
        with self._channel() as channel:
            return channel.queue_declare(queue, passive=True)

    def warnings(self) -> list[str]:
        return [line for line in self.log().splitlines() if line.startswith("WARNING:ebbtide")]


@pytest.fixture
def scene(rabbit: Rabbit, server: EmbeddedRedis, client: Redis, tmp_path: Path) -> Iterator[ConsumerScene]:
    rabbit.reset()
    try:
        built = ConsumerScene(rabbit, server, client, tmp_path / "log")
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()


def stop(worker: "subprocess.Popen[bytes]") -> int:
    worker.send_signal(signal.SIGTERM)
    return worker.wait(60)


@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_over_stops_at_random_instants_each_message_is_handled_once(scene: ConsumerScene, quorum: bool) -> None:
    scene.rabbit.declare(QUEUE, quorum=quorum)
    names = [str(number) for number in range(120)]
    scene.publish(*(f"{name} 0.01" for name in names))
    chance = random.Random(quorum)

    ends = list[int]()
    while len(scene.times()) < len(names):
        begun = scene.times(BEGUN).total()
        worker = scene.start()
        wait_until(lambda: scene.times(BEGUN).total() > begun, "a message to begin")  # noqa: B023 - waited for here
        time.sleep(chance.uniform(0, 0.3))
        ends.append(stop(worker))

    assert set(ends) == {0}
    assert len(ends) > 5
    assert scene.times() == Counter(names)
    assert scene.waiting() == 0


def test_a_stopping_worker_ends_its_message_and_leaves_the_next(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    worker = scene.worker()
    scene.publish("a 3", "b 0")
    wait_until(lambda: scene.begun("a"), "the first to begin")

    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert (scene.times(), scene.times(BEGUN)) == (Counter("a"), Counter("a"))
    assert scene.waits_undelivered()


def test_the_controller_sees_a_worker_busy_and_then_idle(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    scene.worker()
    scene.publish("a 8")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    running = scene.watch(6)

    assert not scene.ended("a")
    assert all(isinstance(seen, Known) and seen.in_flight == 1 and not seen.idle for seen in running), running
    assert scene.read().running == 1
    wait_until(lambda: POD in scene.read().idle, "the pod to be idle")
    assert scene.read().warning == ""


def test_the_message_of_a_killed_worker_waits_again(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    worker = scene.worker()
    scene.publish("a 60")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    worker.kill()

    wait_until(lambda: scene.waiting() == 1, "the message to be ready again")


def test_heartbeats_go_on_while_a_message_runs(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    scene.worker(TEST_HEARTBEAT="2")
    scene.publish("a 8", "b 0")  # RabbitMQ closes a silent connection after two or three heartbeats

    wait_until(lambda: scene.ended("b"), "both")

    assert scene.times(BEGUN) == Counter("ab")
    assert scene.warnings() == []


def test_a_message_that_outlives_a_restart_of_the_broker_runs_twice_and_the_worker_says_so(
    scene: ConsumerScene,
) -> None:
    scene.rabbit.declare(QUEUE, quorum=True)
    scene.worker()
    scene.publish("a 6")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    scene.rabbit.restart()

    wait_until(lambda: scene.times() == Counter("aa"), "the second end")
    wait_until(lambda: scene.serving() == 1, "the worker to consume again")
    assert next(line.split("train ", 1)[1] for line in scene.warnings() if "twice" in line).startswith(
        "runs on and will run twice, the broker delivers it again: "
    )
    assert "Traceback" not in scene.log()


def test_a_message_that_outlives_a_frozen_broker_runs_once(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    worker = scene.worker()
    scene.publish("a 2")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    scene.rabbit.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: scene.ended("a"), "its end")
        worker.send_signal(signal.SIGTERM)
        time.sleep(1)
    finally:
        scene.rabbit.signal(signal.SIGCONT)

    assert worker.wait(60) == 0
    wait_until(lambda: scene.serving() == 0, "the broker to notice")
    assert (scene.times(), scene.waiting()) == (Counter("a"), 0)


def test_a_message_whose_handler_raises_is_dead_lettered_and_the_next_is_handled(scene: ConsumerScene) -> None:
    scene.rabbit.declare("dead")
    dead_letters: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    scene.rabbit.declare(QUEUE, **dead_letters)
    scene.rabbit.call("PUT", "/api/users/worker", password="w", tags="")  # whose only right is to read the queue
    scene.rabbit.call("PUT", "/api/permissions/%2F/worker", configure="", write="", read=f"^{QUEUE}$")
    scene.worker(EBBTIDE_BROKER_URL=f"amqp://worker:w@{scene.rabbit.host}:{scene.rabbit.port}/")

    scene.publish("a soon", "b 0")

    wait_until(lambda: scene.ended("b"), "the other")
    wait_until(lambda: scene.waiting("dead") == 1, "the dead letter")
    assert scene.waiting() == 0
    assert "a message of train failed: it is rejected, so RabbitMQ moves it to" in scene.log()
    assert "ValueError: could not convert string to float: b'soon'" in scene.log()


def test_a_worker_waits_for_its_queue_on_one_connection_and_declares_none(scene: ConsumerScene) -> None:
    scene.start()
    wait_until(lambda: "queue train is not in virtual host /" in scene.log(), "the line in the log")
    time.sleep(3)  # it has tried again
    assert QUEUE not in scene.rabbit.queues()

    scene.rabbit.declare(QUEUE, quorum=True)
    scene.publish("a 0")

    wait_until(lambda: scene.ended("a"), "the message")
    assert len(scene.warnings()) == 1
    assert scene.log().count("Start from server") == 1


def test_a_message_whose_queue_is_deleted_ends_and_the_worker_waits_for_the_queue(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    scene.worker()
    scene.publish("a 3")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    scene.rabbit.delete(QUEUE)

    wait_until(lambda: "waiting until it is created" in scene.log(), "the line in the log")
    assert scene.ended("a")
    assert "twice" not in scene.log()
    scene.rabbit.declare(QUEUE)
    scene.publish("b 0")
    wait_until(lambda: scene.ended("b"), "the next")


def test_a_wrong_password_is_one_line_without_the_password(scene: ConsumerScene) -> None:
    worker = scene.start(EBBTIDE_BROKER_URL=f"amqp://guest:hush@{scene.rabbit.host}:{scene.rabbit.port}/")

    wait_until(lambda: "ACCESS_REFUSED" in scene.log(), "the line in the log")

    time.sleep(2)
    assert stop(worker) == 0
    assert len(scene.warnings()) == 1
    assert "hush" not in scene.log()
    assert "Traceback" not in scene.log()


def test_the_timeout_is_an_argument_of_the_consumer_and_compared_with_the_longest_job(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    scene.worker(EBBTIDE_CONSUMER_TIMEOUT="60", EBBTIDE_LONGEST_JOB="3600")

    wait_until(scene.consumers, "the management API to list the consumer")
    assert [consumer["arguments"] for consumer in scene.consumers()] == [{"x-consumer-timeout": 60_000}]
    assert "longestJob is 3600 s, and consumerTimeout is 60 s" in scene.log()
    wait_until(lambda: "request a consumer timeout of 1 min" in scene.read().warning, "the report")


def test_a_message_waits_for_a_free_worker_and_not_in_a_busy_one(scene: ConsumerScene) -> None:
    scene.rabbit.declare(QUEUE)
    scene.worker()
    scene.publish("a 30", "b 0")
    wait_until(lambda: scene.begun("a"), "the first to begin")

    scene.worker()

    wait_until(lambda: scene.ended("b"), "the other to end in the second worker")
    assert not scene.ended("a")
