"""`SqsWorker` on moto's SQS, on queues whose visibility timeout is 2 s."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.backends.frameworks import BACKENDS, POD, QUEUE, Framework
from tests.backends.sqs.conftest import EMPTY, LONG_TIMEOUT, PREFORK, SqsScene, end, kill
from tests.backends.sqs.moto_server import Counts
from tests.backends.sqs.proxy import Proxy
from tests.builders.redis import wait_until

pytestmark = pytest.mark.backends

CONSUMER = Framework(
    name="sqs, SqsWorker",
    backend=PREFORK.backend,
    environment=PREFORK.environment,
    command=("python", str(BACKENDS / "sqs_app.py")),
)
FIFO = "train.fifo"


@pytest.fixture
def framework() -> Framework:
    return CONSUMER


def send(scene: SqsScene, *bodies: str, queue: str = QUEUE, group: str = "") -> None:
    for body in bodies:
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": body} if group else {}
        scene.moto.send(queue, body, **fifo)


def test_a_message_of_several_timeouts_is_handled_once_beside_an_idle_worker(scene: SqsScene) -> None:
    scene.worker()
    scene.worker()
    send(scene, "a 4.5")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    while not scene.ended("a"):
        assert scene.beginnings() == ["a"]
        time.sleep(0.2)

    wait_until(lambda: scene.counts() == EMPTY, "the deletion")
    assert scene.beginnings() == ["a"]


def test_the_worker_reports_whether_it_is_idle(scene: SqsScene) -> None:
    scene.worker()
    assert scene.report()["state"] == "idle"
    assert scene.report()["hostname"] == POD

    send(scene, "a 2")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    wait_until(lambda: scene.report()["state"] == "busy", "the report")
    assert {name: scene.report()[name] for name in ("active", "held", "received")} == dict.fromkeys(
        ("active", "held", "received"), "1"
    )


def test_a_stopping_worker_ends_its_message_and_takes_no_other(scene: SqsScene) -> None:
    scene.moto.set_timeout(QUEUE, LONG_TIMEOUT)
    worker = scene.worker()
    send(scene, "a 2")
    wait_until(lambda: scene.begun("a"), "the message to begin")
    send(scene, "b 0")

    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: scene.report()["state"] == "stopping", "the report")
    assert worker.wait(30) == 0

    assert scene.ended("a")
    assert not scene.begun("b")
    assert scene.counts() == Counts(visible=1, hidden=0, delayed=0)


@pytest.mark.parametrize("when", ["during the poll", "afterwards"])
def test_a_message_that_arrives_while_an_idle_worker_stops_is_not_hidden(scene: SqsScene, when: str) -> None:
    scene.moto.set_timeout(QUEUE, LONG_TIMEOUT)
    worker = scene.worker()
    time.sleep(0.3)

    worker.send_signal(signal.SIGTERM)
    if when == "during the poll":
        time.sleep(0.1)
        send(scene, "a 0")
    assert worker.wait(30) == 0
    if when == "afterwards":
        send(scene, "a 0")

    assert scene.counts() == Counts(visible=1, hidden=0, delayed=0)
    assert not scene.begun("a")


def test_a_killed_worker_gives_its_message_back_after_the_rest_of_the_timeout(scene: SqsScene) -> None:
    first = scene.worker()
    send(scene, "a 1")
    wait_until(lambda: scene.begun("a"), "the message to begin")

    kill(first)

    assert scene.counts() == Counts(visible=0, hidden=1, delayed=0)
    scene.worker()
    wait_until(lambda: scene.ended("a"), "another worker to handle it")
    assert scene.beginnings() == ["a", "a"]


def test_a_message_that_fails_is_delivered_again_until_the_redrive_policy_moves_it(scene: SqsScene) -> None:
    dead = scene.moto.create("dead")
    scene.moto.redrive(QUEUE, dead, receives=2)
    scene.worker()
    send(scene, "fails 0", "b 0")

    wait_until(lambda: scene.moto.counts("dead").visible == 1, "the dead letter")

    wait_until(lambda: scene.counts() == EMPTY, "the deletion of the other")
    assert sorted(scene.beginnings()) == ["b", "fails", "fails"]


def test_a_message_that_fails_stays_hidden_for_a_short_time(scene: SqsScene) -> None:
    """While it is hidden it counts as a running job, for which the pool keeps workers."""
    scene.moto.set_timeout(QUEUE, LONG_TIMEOUT)
    with Proxy(scene.moto.port) as proxy:
        scene.worker(AWS_ENDPOINT_URL_SQS=proxy.url)
        send(scene, "fails 0")

        wait_until(lambda: proxy.hidden_for, "its new timeout")

    assert proxy.hidden_for == [30]


def test_a_fifo_queue_gives_each_group_one_message_at_a_time_in_order(scene: SqsScene) -> None:
    scene.moto.create(FIFO, timeout=2, FifoQueue="true")
    scene.start(TEST_QUEUE=FIFO)
    scene.start(TEST_QUEUE=FIFO)
    send(scene, "a1 3", "a2 0", queue=FIFO, group="a")
    send(scene, "b1 3", "b2 0", queue=FIFO, group="b")

    wait_until(lambda: scene.moto.counts(FIFO) == EMPTY, "all messages")

    begun = scene.beginnings()
    assert sorted(begun) == ["a1", "a2", "b1", "b2"]
    assert begun.index("a1") < begun.index("a2")
    assert begun.index("b1") < begun.index("b2")


@pytest.mark.parametrize(("messages", "stops"), [(20, 4), pytest.param(100, 12, marks=pytest.mark.long)])
def test_each_message_is_handled_once_though_workers_stop_at_random_instants(
    scene: SqsScene, messages: int, stops: int
) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)
    instants = random.Random(seed)
    names = [str(number) for number in range(messages)]
    worker = scene.worker()
    send(scene, *(f"{name} {instants.uniform(0.05, 0.3)}" for name in names))

    for _ in range(stops):
        time.sleep(instants.uniform(0.0, 0.7))
        replacement = scene.worker()
        end(worker)
        worker = replacement
    wait_until(lambda: all(scene.ended(name) for name in names), "all messages", limit=120)

    wait_until(lambda: scene.counts() == EMPTY, "the last deletion")
    assert sorted(scene.beginnings(), key=int) == names


@pytest.mark.parametrize("fault", ["down", "throttled"])
def test_a_handled_message_is_deleted_though_sqs_fails_for_a_moment(scene: SqsScene, fault: str) -> None:
    scene.moto.set_timeout(QUEUE, LONG_TIMEOUT)
    with Proxy(scene.moto.port) as proxy:
        worker = scene.worker(AWS_ENDPOINT_URL_SQS=proxy.url)
        send(scene, "a 0.5", "b 0")
        wait_until(lambda: scene.begun("a"), "the message to begin")
        proxy.fault = fault
        wait_until(lambda: scene.ended("a"), "the message to end")
        before = len(proxy.asked)
        wait_until(lambda: len(proxy.asked) > before + 2, "the third try to delete it")
        assert not scene.begun("b")
        proxy.fault = ""

        wait_until(lambda: scene.counts() == EMPTY, "the deletion of both")
        end(worker)
    assert scene.beginnings() == ["a", "b"]


def test_an_absent_queue_is_said_and_waited_for(scene: SqsScene, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        scene.said = log
        scene.start(TEST_QUEUE="later")
        wait_until(lambda: "queue later is not in eu-central-1" in (tmp_path / "log").read_text(), "the line")

    scene.moto.create("later")
    send(scene, "a 0", queue="later")

    wait_until(lambda: scene.ended("a"), "the message")
