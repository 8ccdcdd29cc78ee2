"""What a plain consumer does with messages, signals and a lost broker, with a broker made of lists."""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs import consumer
from ebbtide.jobs.consumer import Consumer, Message, Outcome, Unavailable, Waker
from tests.builders.redis import wait_until


class Broker:
    """Delivers these payloads, then stops the worker."""

    failed = "it is rejected"

    def __init__(self, *payloads: bytes | Exception) -> None:
        self.coming = list(payloads)
        self.settled: list[tuple[bytes, Outcome, bool]] = []
        self.lost: Exception | None = None  # raised while a message runs
        self.stop_at_delivery = self.closed = False
        self.waker = Waker()

    def take(self, waker: Waker) -> Message | None:
        self.waker = waker
        if not self.coming:
            stop()
            waker.wait(60)
            return None
        coming = self.coming.pop(0)
        if isinstance(coming, Exception):
            waker.wake()  # no wait before the next try
            raise coming
        if self.stop_at_delivery:
            stop()
            waker.wait(60)
        return Message(coming, None)

    def keep(self, _message: Message, waker: Waker) -> None:
        if self.lost:
            raise self.lost
        waker.wait(60)

    def settle(self, message: Message, outcome: Outcome, *, last: bool) -> None:
        self.settled.append((message.payload, outcome, last))

    def close(self) -> None:
        self.closed = True


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_each_message_is_settled_before_the_next_is_taken() -> None:
    broker, seen = Broker(b"a", b"b"), list[tuple[bytes, int]]()

    Consumer(broker, "etl", lambda payload: seen.append((payload, len(broker.settled))), {}).run()

    assert seen == [(b"a", 0), (b"b", 1)]
    assert broker.settled == [(b"a", Outcome.DONE, False), (b"b", Outcome.DONE, False)]
    assert broker.closed


def test_a_stop_ends_the_running_message_and_takes_no_other() -> None:
    broker, ended = Broker(b"a", b"b"), list[bytes]()

    def handle(payload: bytes) -> None:
        stop()
        stop()  # a second one changes nothing
        ended.append(payload)

    Consumer(broker, "etl", handle, {}).run()

    assert ended == [b"a"]
    assert broker.settled == [(b"a", Outcome.DONE, True)]
    assert broker.coming == [b"b"]


def test_a_message_that_was_delivered_with_the_stop_is_returned() -> None:
    broker, seen = Broker(b"a"), list[bytes]()
    broker.stop_at_delivery = True

    Consumer(broker, "etl", seen.append, {}).run()

    assert seen == []
    assert broker.settled == [(b"a", Outcome.RETURNED, True)]


def test_a_failed_message_does_not_stop_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(b"bad", b"good")

    def handle(payload: bytes) -> None:
        if payload == b"bad":
            raise ValueError(payload)

    Consumer(broker, "etl", handle, {}).run()

    assert [outcome for _, outcome, _ in broker.settled] == [Outcome.FAILED, Outcome.DONE]
    assert "a message of etl failed: it is rejected" in caplog.text


def test_a_message_that_the_broker_lost_runs_to_its_end_and_is_not_settled(caplog: pytest.LogCaptureFixture) -> None:
    broker, ended = Broker(b"a", b"b"), list[bytes]()

    def handle(payload: bytes) -> None:
        if payload == b"a":
            broker.lost = Unavailable("the connection broke")
            broker.waker.wake()
            wait_until(lambda: "will run twice" in caplog.text, "the loss to be noticed")
            broker.lost = None
        ended.append(payload)

    Consumer(broker, "etl", handle, {}).run()

    assert ended == [b"a", b"b"]
    assert broker.settled == [(b"b", Outcome.DONE, False)]
    assert "a message of etl runs on and will run twice, the broker delivers it again: the connection broke" in (
        caplog.messages
    )


def test_an_outage_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(Unavailable("queue etl is absent"), Unavailable("queue etl is absent"), b"a")

    Consumer(broker, "etl", lambda _: None, {}).run()

    assert caplog.messages.count("no messages of etl, trying again: queue etl is absent") == 1
    assert [payload for payload, *_ in broker.settled] == [b"a"]


def test_an_error_of_any_kind_is_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(AttributeError("null"), b"a")

    Consumer(broker, "etl", lambda _: None, {}).run()

    assert "no messages of etl, trying again: AttributeError('null')" in caplog.messages
    assert broker.settled == [(b"a", Outcome.DONE, False)]


@pytest.mark.parametrize(("fault", "held"), [(AttributeError("null"), 1), (Unavailable("the connection broke"), 0)])
def test_while_a_message_runs_no_error_of_the_broker_makes_its_worker_idle(
    fault: Exception, held: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "RETRY", 0.01)
    broker, reported = Broker(b"a"), dict[str, object]()

    def handle(_payload: bytes) -> None:
        broker.lost = fault
        broker.waker.wake()
        wait_until(lambda: "runs on" in caplog.text, "the error to be noticed")
        reported.update(worker._present())
        broker.lost = None

    worker = Consumer(broker, "etl", handle, {})
    worker.run()

    assert (reported["active"], reported["held"]) == (1, held)
    assert len(broker.settled) == held


def test_a_message_that_cannot_be_settled_does_not_stop_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Broker):
        def settle(self, message: Message, outcome: Outcome, *, last: bool) -> None:
            super().settle(message, outcome, last=last)
            if message.payload == b"a":
                raise AttributeError("null")

    broker = Refusing(b"a", b"b")

    Consumer(broker, "etl", lambda _: None, {}).run()

    assert [payload for payload, *_ in broker.settled] == [b"a", b"b"]
    assert "may run twice, it could not be settled: AttributeError('null')" in caplog.text


@pytest.mark.redis
def test_a_handler_that_exits_deletes_the_report(server: EmbeddedRedis, client: Redis) -> None:
    def handle(_payload: bytes) -> None:
        wait_until(lambda: client.keys("ebbtide:worker:etl:*"), "the report")
        sys.exit(3)

    url = f"redis://{server.host}:{server.port}/0"
    with pytest.raises(SystemExit):
        Consumer(Broker(b"a"), "etl", handle, {"EBBTIDE_REDIS_URL": url}).run()

    assert client.keys("ebbtide:worker:etl:*") == []


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_a_handler_forks_can_be_terminated() -> None:
    exits = list[int | None]()

    def handle(_payload: bytes) -> None:
        context = multiprocessing.get_context("fork")
        begun = context.Event()
        child = context.Process(target=_sleep, args=(begun,))
        child.start()
        assert begun.wait(30)
        child.terminate()
        child.join(30)
        exits.append(child.exitcode)
        child.kill()

    Consumer(Broker(b"a"), "etl", handle, {}).run()

    assert exits == [-signal.SIGTERM]


def _sleep(begun: Event) -> None:
    begun.set()
    time.sleep(60)


@pytest.mark.parametrize(
    ("environment", "why"),
    [({}, "EBBTIDE_REDIS_URL is not set"), ({"EBBTIDE_REDIS_URL": "etl:secret"}, "is no address of a Redis")],
)
def test_without_an_address_for_reports_the_worker_runs_and_warns_once(
    environment: dict[str, str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(b"a")

    Consumer(broker, "etl", lambda _: None, environment).run()

    assert broker.settled == [(b"a", Outcome.DONE, False)]
    assert [record.levelno for record in caplog.records if why in record.message] == [logging.WARNING]
    assert "secret" not in caplog.text


def test_a_call_before_the_wait_ends_it_and_only_once() -> None:
    waker = Waker()
    for _ in range(100_000):  # more than a pipe holds
        waker.wake()
    assert not waker.wait(3600)
