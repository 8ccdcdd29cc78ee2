"""What a real broker does to workers that run, and what the controller reads meanwhile."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import QUEUE
from tests.backends.rabbitmq.conftest import POD, RabbitScene
from tests.backends.rabbitmq.server import Rabbit
from tests.builders.redis import wait_until

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]

ALARMS = {
    "disk": (("set_disk_free_limit", "1000GB"), ("set_disk_free_limit", "1MB")),
    "memory": (("set_vm_memory_high_watermark", "absolute", "1"), ("set_vm_memory_high_watermark", "0.8")),
}


def freeing(readings: list[Reading]) -> list[Reading]:
    """Readings by which the controller may remove the pod: it is idle, or nothing runs."""
    return [
        seen
        for seen in readings
        if isinstance(seen, Known) and (POD in seen.idle or not seen.in_transit + seen.running)
    ]


@pytest.mark.parametrize("alarm", ["disk", pytest.param("memory", marks=pytest.mark.long)])
def test_an_alarm_stops_producers_and_neither_workers_nor_the_controller(scene: RabbitScene, alarm: str) -> None:
    raise_alarm, clear = ALARMS[alarm]
    scene.busy(seconds=3)

    scene.rabbit.control(*raise_alarm)
    try:
        scene.enqueue(("late", 0))
        during = scene.watch_until(lambda: idle(scene.read_any()))
        assert scene.ended("a")
        assert not scene.begun("late")
    finally:
        scene.rabbit.control(*clear)

    assert all(isinstance(seen, Known) and seen.waiting == 0 for seen in during), during
    wait_until(lambda: scene.ended("late"), "the message that was blocked")


def test_a_frozen_broker_gives_no_reading_and_its_worker_goes_on(scene: RabbitScene) -> None:
    scene.busy(seconds=8)

    scene.rabbit.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: isinstance(scene.read_any(), Unknown), "the signal to arrive")
        frozen = scene.watch(3)
    finally:
        scene.rabbit.signal(signal.SIGCONT)
    after = scene.watch_until(lambda: scene.ended("a"))

    assert all(isinstance(seen, Unknown) for seen in frozen), frozen
    assert freeing(after) == []
    wait_until(lambda: idle(scene.read_any()), "the pod to be idle")
    assert scene.client.lrange("test:begun", 0, -1) == [b"a"]


@pytest.fixture
def impatient(server: EmbeddedRedis, client: Redis) -> Iterator[RabbitScene]:
    """On a broker that waits 5 s for an acknowledgement, and looks each second."""
    try:
        with Rabbit("{consumer_timeout, 5000}, {channel_tick_interval, 1000}") as broker:
            broker.add_reader()
            with closing(RabbitScene(broker, server, client)) as scene:
                yield scene
    except NoEnvironment as error:
        pytest.skip(str(error))


def test_a_task_beyond_the_consumer_timeout_waits_again_while_it_runs_and_keeps_its_pod(
    impatient: RabbitScene,
) -> None:
    scene = impatient
    # Brokers before 3.11.15 accept the consumer's argument and ignore it.
    requested = {"EBBTIDE_CONSUMER_TIMEOUT": "46800"} if scene.rabbit.version() < (3, 11, 15) else {}
    worker = scene.busy(seconds=14, **requested)

    readings = scene.watch_until(lambda: scene.ended("a"))

    assert freeing(readings) == []
    assert any(isinstance(seen, Known | Untrusted) and waiting(seen) == 1 for seen in readings), readings
    assert worker.wait(60) == 1
    assert waiting(scene.read_any()) == 1
    assert freeing([scene.read_any()]) == []


@pytest.mark.parametrize("quorum", [False, pytest.param(True, marks=pytest.mark.long)], ids=["classic", "quorum"])
def test_a_queue_that_is_deleted_under_its_worker_keeps_the_pod_until_the_task_has_ended(
    scene: RabbitScene, monkeypatch: pytest.MonkeyPatch, quorum: bool
) -> None:
    monkeypatch.setenv("TEST_CONF", json.dumps({"task_default_queue_type": "quorum" if quorum else "classic"}))
    scene.busy(seconds=6)

    scene.rabbit.delete(QUEUE)
    readings = scene.watch_until(lambda: scene.ended("a"))

    assert freeing(readings) == []
    assert all(isinstance(seen, Unknown | Untrusted) for seen in readings), readings
    wait_until(lambda: QUEUE in scene.rabbit.queues(), "the worker to make the queue again")
    scene.enqueue(("b", 0))
    wait_until(lambda: scene.ended("b"), "the queue to be served")
    wait_until(lambda: idle(scene.read_any()), "the pod to be idle")


def test_tasks_of_all_priorities_are_one_count(scene: RabbitScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CONF", json.dumps({"task_queue_max_priority": 10}))
    monkeypatch.setenv("TEST_ROUTE", json.dumps({"priority": 9}))
    scene.enqueue(("a", 0), ("b", 0))
    scene.rabbit.publish(QUEUE)  # without a priority

    wait_until(lambda: waiting(scene.read_any()) == 3, "all three")


def test_a_delayed_task_on_a_quorum_queue_with_topics_is_in_no_count_until_it_is_due(
    scene: RabbitScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool may be at zero meanwhile; the task waits in the broker, and starts it when it is due."""
    settings = {"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"}
    monkeypatch.setenv("TEST_CONF", json.dumps(settings))
    worker = scene.worker()  # which makes the queues of delayed tasks
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)
    scene.enqueue(("a", 0), countdown=8)

    before = scene.watch_until(lambda: waiting(scene.read_any()) == 1)

    assert before
    assert all(isinstance(seen, Known) and seen.waiting + seen.in_flight == 0 for seen in before), before
    assert not scene.begun("a")
    scene.worker()
    wait_until(lambda: scene.ended("a"), "the task")


def test_a_delayed_task_on_a_quorum_queue_without_topics_keeps_its_worker_and_those_behind_it_wait(
    scene: RabbitScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_CONF", json.dumps({"task_default_queue_type": "quorum"}))
    scene.worker()
    scene.enqueue(("later", 0), countdown=300)
    wait_until(lambda: reported(scene, "held") == [b"1"], "the worker to hold it")
    scene.enqueue(("b", 0))
    wait_until(lambda: waiting(scene.read_any()) == 1, "the other to wait")

    assert all(isinstance(seen, Known) and not seen.idle for seen in scene.watch(13))
    assert not scene.begun("b")


def idle(seen: Reading) -> bool:
    return isinstance(seen, Known) and POD in seen.idle


def waiting(seen: Reading) -> int | None:
    known = seen.seen if isinstance(seen, Untrusted) else seen
    return known.waiting if isinstance(known, Known) else None


def reported(scene: RabbitScene, field: str) -> list[bytes | None]:
    keys: list[bytes] = scene.client.keys(f"ebbtide:worker:{QUEUE}:*")  # pyright: ignore[reportAssignmentType]
    return [scene.client.hget(key, field) for key in keys]  # pyright: ignore[reportReturnType] - bytes client


@pytest.fixture
def undeliverable(scene: RabbitScene) -> Iterator[None]:
    """The broker deletes a message that it would deliver again."""
    scene.rabbit.call(
        "PUT", "/api/policies/%2F/once", pattern=f"^{QUEUE}$", definition={"message-ttl": 0}, **{"apply-to": "queues"}
    )
    yield
    scene.rabbit.control("clear_policy", "once")


@pytest.mark.usefixtures("undeliverable")
def test_a_task_that_its_process_accepts_after_a_lost_connection_keeps_its_worker_busy(scene: RabbitScene) -> None:
    worker = scene.worker()
    processes = [int(pid) for pid in Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    scene.enqueue(("a", 4))
    wait_until(lambda: report(scene)[b"received"] == b"1", "the task")
    (before,) = scene.consumers()

    scene.rabbit.control("close_all_connections", "test")
    wait_until(
        lambda: (
            [found["channel_details"]["name"] for found in scene.consumers()]
            not in ([], [before["channel_details"]["name"]])
        ),
        "another connection",
    )
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    states = set[tuple[bytes, bytes]]()
    wait_until(
        lambda: scene.ended("a") or states.add((report(scene)[b"state"], report(scene)[b"active"])), "the task to end"
    )

    assert states == {(b"busy", b"1")}
    wait_until(lambda: report(scene)[b"state"] == b"idle", "the worker to be idle")


def report(scene: RabbitScene) -> dict[bytes, bytes]:
    (key,) = scene.client.keys(f"ebbtide:worker:{QUEUE}:*")  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
    return scene.client.hgetall(key)  # pyright: ignore[reportReturnType, reportUnknownArgumentType]
