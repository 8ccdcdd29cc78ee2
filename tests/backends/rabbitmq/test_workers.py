"""Celery's real workers on a real RabbitMQ, read as the controller reads them."""

import json
import signal
import threading

import pytest

from controllers.adapters.redis_connection import connect
from controllers.adapters.wakers import PUBLISHED, TrackingListener
from controllers.ports import Known, Untrusted
from tests.backends.frameworks import QUEUE
from tests.backends.rabbitmq.conftest import POD, RabbitScene
from tests.builders.redis import endpoint, wait_until

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]


@pytest.fixture(params=["classic", "quorum"])
def quorum(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The kind of the application's queues."""
    monkeypatch.setenv("TEST_CONF", json.dumps({"task_default_queue_type": request.param}))
    return request.param == "quorum"


def idle(scene: RabbitScene) -> bool:
    seen = scene.read_any()
    return isinstance(seen, Known) and POD in seen.idle


def counts(scene: RabbitScene) -> tuple[int, int, int]:
    seen = scene.read()
    return seen.waiting, seen.in_transit, seen.running


def test_a_task_waits_then_runs_then_its_pod_is_idle(scene: RabbitScene, quorum: bool) -> None:
    scene.rabbit.declare(QUEUE, quorum=quorum)
    scene.enqueue(("a", 12))
    wait_until(lambda: isinstance(seen := scene.read_any(), Known) and seen.waiting == 1, "the message")

    scene.start()
    wait_until(lambda: scene.begun("a"), "the task to begin")
    running = scene.watch(8)

    assert all(isinstance(seen, Known) and seen.in_flight >= 1 and not seen.idle for seen in running), running
    wait_until(lambda: idle(scene), "the pod to be idle")
    assert counts(scene) == (0, 0, 0)


def test_delayed_tasks_keep_their_worker_and_add_none(scene: RabbitScene) -> None:
    scene.worker()
    scene.enqueue(*[(str(number), 0) for number in range(5)], countdown=300)

    wait_until(lambda: sum(counts(scene)) == 0, "the tasks to be held, and need no further worker")

    assert all(isinstance(seen, Known) and not seen.idle for seen in scene.watch(13))


def test_a_stopping_worker_ends_its_task_and_takes_no_other(scene: RabbitScene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 3), ("b", 0))
    wait_until(lambda: scene.begun("a"), "the first to begin")

    worker.send_signal(signal.SIGTERM)
    worker.wait(60)

    assert scene.ended("a")
    assert not scene.begun("b")
    wait_until(lambda: scene.read().waiting == 1, "the other to wait")


@pytest.mark.usefixtures("quorum")
def test_the_task_of_a_killed_worker_waits_again_and_the_pod_is_not_idle(scene: RabbitScene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 60))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    worker.send_signal(signal.SIGKILL)

    wait_until(lambda: scene.read().waiting == 1, "the message to be ready again")
    assert not any(isinstance(seen, Known) and seen.idle for seen in scene.watch(5))


@pytest.mark.parametrize("quorum", ["classic", pytest.param("quorum", marks=pytest.mark.long)], indirect=True)
@pytest.mark.usefixtures("quorum")
def test_while_a_task_outlives_a_restart_of_the_broker_no_reading_frees_its_pod(scene: RabbitScene) -> None:
    scene.worker()
    scene.enqueue(("a", 40))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    wait_until(lambda: scene.read().running == 1, "the report")

    scene.rabbit.restart()
    after = scene.watch(12)

    assert not scene.ended("a")
    assert any(isinstance(seen, Untrusted) for seen in after)
    assert not any(seen.idle for seen in after if isinstance(seen, Known)), after


def test_a_worker_without_an_address_for_reports_runs_its_tasks(scene: RabbitScene) -> None:
    scene.worker(EBBTIDE_REDIS_URL="")
    scene.enqueue(("a", 0))

    wait_until(lambda: scene.ended("a"), "the task")
    assert scene.client.keys("ebbtide:worker*") == []


def test_the_timeout_is_an_argument_of_the_consumer_and_not_of_the_queue(scene: RabbitScene, quorum: bool) -> None:
    scene.rabbit.declare(QUEUE, quorum=quorum)  # a queue with another argument could not be declared again
    scene.worker(EBBTIDE_CONSUMER_TIMEOUT="46800")

    arguments = [consumer["arguments"] for consumer in scene.consumers()]

    assert arguments == [{"x-consumer-timeout": 46_800_000}]


def test_settings_that_stop_or_repeat_work_are_a_condition(scene: RabbitScene) -> None:
    conf = {"worker_prefetch_multiplier": 4, "worker_disable_prefetch": True}
    scene.worker(TEST_CONF=json.dumps(conf), EBBTIDE_CONSUMER_TIMEOUT="60")

    wait_until(lambda: "worker_prefetch_multiplier is 4" in scene.read().warning, "the report")
    assert "workers request a consumer timeout of 1 min" in scene.read().warning


def test_a_producer_creates_the_queue_of_its_first_task(scene: RabbitScene) -> None:
    scene.enqueue(("a", 0))

    assert scene.read().waiting == 1


def test_a_producer_notifies_the_controller(scene: RabbitScene) -> None:
    scene.rabbit.declare(QUEUE)
    heard = threading.Event()
    listener = TrackingListener(lambda: connect(endpoint(scene.server), {}), [PUBLISHED], heard.set)
    listener.start()
    wait_until(lambda: listener.mode() == "tracking" and heard.is_set(), "the first notification")
    heard.clear()

    scene.enqueue(("a", 0))

    assert heard.wait(60)
    assert scene.read().waiting == 1
    listener.close()
