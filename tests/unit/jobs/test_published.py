"""Producers on a message broker notify the controller, and are never delayed."""

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from controllers.adapters.redis_connection import connect
from controllers.adapters.wakers import PUBLISHED, TrackingListener
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs import published
from ebbtide.jobs.published import Published
from tests.builders.redis import endpoint, wait_until

pytestmark = pytest.mark.redis


class Writes:
    """A client that counts its writes, and fails or hangs on demand."""

    def __init__(self, write: Callable[[], object] = lambda: None) -> None:
        self.keys: list[str] = []
        self._write = write

    def set(self, key: str, _value: str, **_: object) -> None:
        self.keys.append(key)
        self._write()


def notification(client: object) -> Published:
    return Published(lambda: client)  # pyright: ignore[reportReturnType, reportArgumentType]


@pytest.fixture
def heard(server: EmbeddedRedis) -> Iterator[threading.Event]:
    """An event that is set when the controller is notified."""
    event = threading.Event()
    listener = TrackingListener(lambda: connect(endpoint(server), {}), [PUBLISHED], event.set)
    listener.start()
    wait_until(lambda: listener.mode() == "tracking" and event.is_set(), "the first notification")
    event.clear()
    yield event
    listener.close()


def test_the_controller_hears_of_a_published_message(client: Redis, heard: threading.Event) -> None:
    notification(client).publish()

    assert heard.wait(10)


def test_a_message_that_was_published_while_the_key_existed_is_notified_when_it_expires(
    client: Redis, heard: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "PAUSE", 1.0)
    notification(client).publish()
    assert heard.wait(10)

    heard.clear()
    notification(client).publish()

    assert heard.wait(10)


def test_many_messages_are_few_writes_and_the_last_one_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "PAUSE", 0.5)
    redis = Writes()
    producer = notification(redis)
    producer.publish()
    wait_until(lambda: len(redis.keys) == 1, "the first write")

    for _ in range(1000):
        producer.publish()

    wait_until(lambda: len(redis.keys) == 2, "the write after the pause")


def test_a_redis_that_hangs_does_not_delay_a_publish() -> None:
    answer = threading.Event()
    redis = Writes(answer.wait)
    producer = notification(redis)

    for _ in range(1000):
        producer.publish()

    wait_until(lambda: len(redis.keys) == 1, "the write that hangs")
    producer.publish()
    assert producer._news.qsize() == 1
    answer.set()


def test_an_absent_redis_fails_no_publish_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "RETRY", 0.01)
    present = Writes()
    answers: list[object] = [Redis(port=1, retry=Retry(NoBackoff(), 0)), present]
    producer = Published(lambda: answers.pop(0))  # pyright: ignore[reportReturnType, reportArgumentType]

    producer.publish()
    wait_until(lambda: len(answers) == 1, "the failed write")
    producer.publish()

    wait_until(lambda: present.keys, "the write")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_producer_notifies_too(
    server: EmbeddedRedis, client: Redis, heard: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of web applications fork after they have imported the application."""
    monkeypatch.setattr(published, "PAUSE", 1.0)
    producer = Published(server.client)
    producer.publish()
    for _ in ("the write", "the key expires"):
        assert heard.wait(10)
        heard.clear()
    assert not client.exists(PUBLISHED)
    over = multiprocessing.get_context("fork").Event()

    child = multiprocessing.get_context("fork").Process(target=_publish_until, args=(producer, over))
    child.start()

    assert heard.wait(10)
    over.set()
    child.join()


def _publish_until(producer: Published, over: Event) -> None:
    producer.publish()
    over.wait(60)
