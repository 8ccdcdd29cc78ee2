"""The plain-list worker on a real Redis, in this process. `tests/backends` runs it as one, with signals."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from redis import Redis, exceptions
from redis.connection import Connection

from ebbtide.jobs import list_worker
from ebbtide.jobs.list_worker import ListWorker
from tests.builders.redis import wait_until

pytestmark = pytest.mark.redis

AWAY = exceptions.ConnectionError("Connection refused")
OWN, ALIVE, CONSUMERS = "train:processing:me", "train:consumer:me", "train:consumers"


class Worker(ListWorker):
    """Called `me`; keeps what it handled and closes itself after `last`."""

    def __init__(self, client: Redis, last: int = 1) -> None:
        self.handled: list[bytes] = []
        self.during: Callable[[], object] = lambda: None
        self._last = last
        super().__init__(client, "train", self._handle_one, name="me")

    def _handle_one(self, payload: bytes) -> None:
        self.handled.append(payload)
        if len(self.handled) >= self._last:
            self._gate.closed = True
        self.during()


def watch_cleaning(monkeypatch: pytest.MonkeyPatch, worker: Worker) -> list[tuple[str, ...]]:
    cleaned: list[tuple[str, ...]] = []

    def clean(*consumers: str) -> list[str]:
        cleaned.append(consumers)
        return []

    monkeypatch.setattr(worker, "_clean", clean)
    return cleaned


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    monkeypatch.setattr(list_worker, "RETRY", 0.01)


def test_payloads_are_handled_in_their_order_and_leave_nothing_behind(client: Redis) -> None:
    client.rpush("train", "a", "b", "c")
    worker = Worker(client, last=2)
    seen: list[object] = []
    worker.during = lambda: seen.append((client.lrange(OWN, 0, -1), client.get(ALIVE), client.ttl(ALIVE) > 0))

    worker.run()

    assert worker.handled == [b"a", b"b"]
    assert seen[0] == ([b"a"], worker._host.encode(), True)
    assert client.lrange("train", 0, -1) == [b"c"]
    assert client.exists(OWN, ALIVE, CONSUMERS) == 0
    assert client.smembers("ebbtide:queues") == {b"train"}


def test_a_payload_that_fails_is_kept_aside_and_the_worker_lives_on(client: Redis) -> None:
    client.rpush("train", "bad", "good")
    worker = Worker(client, last=2)

    def fail_once() -> None:
        if len(worker.handled) == 1:
            raise ValueError("no")

    worker.during = fail_once
    worker.run()

    assert worker.handled == [b"bad", b"good"]
    assert client.lrange("train:failed", 0, -1) == [b"bad"]
    assert client.exists(OWN) == 0


def test_what_it_left_in_an_earlier_life_comes_first(client: Redis) -> None:
    client.rpush("train", "new")
    client.rpush(OWN, "old", "older")
    worker = Worker(client, last=3)

    worker.run()

    assert worker.handled == [b"old", b"older", b"new"]


class Looks:
    """The looks of one worker at the others, at instants that the test chooses."""

    def __init__(self, client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(list_worker.time, "monotonic", lambda: self.now)
        self.worker = Worker(client)

    def __call__(self, after: float = 0.0) -> None:
        self.now += after
        self.worker._look_at = 0.0
        self.worker._look_for_the_dead()


@pytest.fixture
def look(client: Redis, monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(client, monkeypatch)


def test_entries_of_the_dead_are_put_back_after_a_while_and_those_of_the_living_are_not(
    client: Redis, look: Looks
) -> None:
    client.sadd(CONSUMERS, "dead", "living")
    client.set("train:consumer:living", "host")
    client.rpush("train:processing:dead", "a", "b")
    client.rpush("train:processing:living", "c")
    client.rpush("train", "d")

    look()
    look(after=list_worker.LAST_CHANCE - 1)
    assert client.lrange("train", 0, -1) == [b"d"]
    look(after=1)

    assert client.lrange("train", 0, -1) == [b"a", b"b", b"d"]
    assert client.lrange("train:processing:living", 0, -1) == [b"c"]
    assert client.smembers(CONSUMERS) == {b"living"}


def test_one_that_beat_again_after_an_outage_keeps_its_payload(client: Redis, look: Looks) -> None:
    client.sadd(CONSUMERS, "late")
    client.rpush("train:processing:late", "a")
    look()

    client.set("train:consumer:late", "host")
    look(after=list_worker.LAST_CHANCE)
    client.delete("train:consumer:late")  # once more: its time begins anew
    look()

    assert client.lrange("train:processing:late", 0, -1) == [b"a"]


@pytest.mark.parametrize("noticed", [True, False], ids=["an outage", "a frozen server"])
def test_one_that_looked_dead_before_an_outage_gets_its_whole_time_after_it(
    client: Redis, monkeypatch: pytest.MonkeyPatch, look: Looks, noticed: bool
) -> None:
    client.sadd(CONSUMERS, "late")
    client.rpush("train:processing:late", "a")
    look()
    if noticed:
        turns = iter([False, True])

        def over(_: float) -> bool:
            return next(turns)

        monkeypatch.setattr(look.worker._over, "wait", over)
        failing(monkeypatch, look.worker, "_beat", 1)
        look.worker._keep_beating()

    look(after=list_worker.LAST_CHANCE + (0 if noticed else 6))
    look(after=list_worker.LAST_CHANCE - 1)
    assert client.lrange("train:processing:late", 0, -1) == [b"a"]
    look(after=1)

    assert client.lrange("train", 0, -1) == [b"a"]


def test_it_looks_sooner_for_one_who_seems_dead(client: Redis, look: Looks) -> None:
    look()
    usual = look.worker._look_at - look.now
    client.sadd(CONSUMERS, "dead")
    look()

    assert (usual, look.worker._look_at - look.now) == (list_worker.CLEAN_EVERY, list_worker.LAST_CHANCE)


def test_it_looks_for_the_dead_after_a_while_and_not_at_each_heartbeat(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(list_worker.time, "monotonic", lambda: now)
    worker = Worker(client)
    cleaned = watch_cleaning(monkeypatch, worker)
    for _ in range(4):
        worker._look_for_the_dead()
        now += list_worker.BEAT

    assert cleaned == [(), ()]


def test_a_worker_with_a_payload_puts_back_what_a_dead_one_had(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, seconds in (("BEAT", 0.01), ("CLEAN_EVERY", 0.0), ("LAST_CHANCE", 0.1)):
        monkeypatch.setattr(list_worker, setting, seconds)
    client.sadd(CONSUMERS, "dead")
    client.rpush("train:processing:dead", "b")
    client.rpush("train", "a")
    worker = Worker(client)
    worker.during = lambda: wait_until(lambda: client.lrange("train", 0, -1) == [b"b"], "the payload to be put back")

    worker.run()

    assert worker.handled == [b"a"]


def test_a_late_heartbeat_does_not_announce_a_worker_that_has_left(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_worker, "BEAT", 0.01)
    client.rpush("train", "a")
    worker, beat = Worker(client), Worker._beat
    begun = threading.Event()

    def slow(self: Worker) -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            time.sleep(0.5)
        beat(self)

    monkeypatch.setattr(Worker, "_beat", slow)
    worker.during = lambda: begun.wait(10)

    worker.run()

    for thread in threading.enumerate():
        if thread.name == "ebbtide-beat":
            thread.join()
    assert client.exists(ALIVE, CONSUMERS) == 0


def test_it_beats_while_it_works_and_after_a_loss_of_data_is_there_again(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_worker, "BEAT", 0.05)
    client.rpush("train", "a")
    worker = Worker(client)
    seen: list[object] = []

    def lose_everything() -> None:
        client.flushall()
        wait_until(lambda: client.exists(ALIVE, CONSUMERS, "ebbtide:queues") == 3, "the next beat")
        seen.append(client.smembers(CONSUMERS))

    worker.during = lose_everything
    worker.run()

    assert seen == [{b"me"}]


def failing(monkeypatch: pytest.MonkeyPatch, worker: Worker, name: str, times: int, then: object = None) -> list[int]:
    """A method of this worker fails with an outage at first."""
    real, calls = getattr(worker, name), list[int]()

    def call(*arguments: object, **named: object) -> object:
        calls.append(1)
        if len(calls) <= times:
            if callable(then):
                then()
            raise AWAY
        return real(*arguments, **named)

    monkeypatch.setattr(worker, name, call)
    return calls


@pytest.mark.parametrize("step", ["_beat", "_clean", "_pop", "_settle"])
def test_an_outage_at_any_step_is_waited_for_and_the_payload_is_handled_once(
    client: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    client.rpush("train", "a")
    worker = Worker(client)
    calls = failing(monkeypatch, worker, step, 3)

    with caplog.at_level(logging.WARNING):
        worker.run()

    assert len(calls) >= 4
    assert worker.handled == [b"a"]
    assert client.exists("train", OWN, ALIVE, CONSUMERS) == 0
    lines = [record.getMessage() for record in caplog.records if "trying again" in record.getMessage()]
    assert lines == ["Redis cannot be used, trying again: Connection refused"]


def test_on_sigterm_before_it_could_join_it_does_not_wait(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    client.rpush("train", "a")
    worker = Worker(client)
    failing(monkeypatch, worker, "_beat", 10**6, then=lambda: setattr(worker._gate, "closed", True))

    worker.run()

    assert worker.handled == []
    assert client.exists(ALIVE, CONSUMERS) == 0


def test_a_payload_whose_moves_answer_was_lost_is_still_handled(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the connection breaks between the move and its answer."""
    client.rpush("train", "a", "b")
    worker = Worker(client, last=2)
    read: Callable[..., object] = Connection.read_response
    lost: list[int] = []

    def read_and_lose(self: Connection, *arguments: object, **named: object) -> object:
        answer = read(self, *arguments, **named)
        if answer == b"a" and not lost:
            lost.append(1)
            self.disconnect()
            raise AWAY
        return answer

    monkeypatch.setattr(Connection, "read_response", read_and_lose)
    worker.run()

    assert (lost, worker.handled) == ([1], [b"a", b"b"])


def test_a_payload_that_an_old_connection_still_moves_is_looked_for_a_while_longer(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(list_worker.time, "monotonic", lambda: now)
    worker = Worker(client, last=9)
    cleaned = watch_cleaning(monkeypatch, worker)
    worker._doubt_until = now + 2 * list_worker.POP_FOR
    monkeypatch.setattr(worker, "_pop", lambda: None)

    worker._handle_next()
    worker._handle_next()
    now += 2 * list_worker.POP_FOR
    worker._handle_next()

    assert cleaned == [("me",), ("me",)]


def test_a_failed_pop_is_doubted_for_twice_its_length(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(client)
    client.set("train", "no list")
    begun = time.monotonic()

    with pytest.raises(exceptions.ResponseError):
        worker._pop()

    assert worker._doubt_until >= begun + 2 * list_worker.POP_FOR
    assert worker._gate.client_id is None


def test_it_asks_once_and_with_a_limit_whatever_its_owners_connection_does(client: Redis) -> None:
    settings = cast("dict[str, Any]", Worker(client)._connection.get_connection_kwargs())

    assert settings["retry"].get_retries() == 0
    assert list_worker.POP_FOR < settings["socket_timeout"] < list_worker.LIFE
    assert settings["port"] == cast("Any", client.get_connection_kwargs())["port"]


def test_a_worker_that_ends_without_its_payload_leaves_it_to_be_found(client: Redis) -> None:
    worker = Worker(client)
    worker._joins()
    client.rpush(OWN, "a")

    worker._leave()

    assert client.exists(ALIVE) == 0
    assert client.smembers(CONSUMERS) == {b"me"}  # by which the others find its list


def test_a_payload_given_to_another_meanwhile_is_reported(client: Redis, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Worker(client)._settle(b"a", failed=False)

    assert "it may be handled twice" in caplog.text


def test_a_second_signal_changes_nothing(client: Redis) -> None:
    worker = Worker(client)
    asked: list[int] = []
    worker._unblocker.ask = lambda: asked.append(1)

    worker._stop(signal.SIGTERM, None)
    worker._stop(signal.SIGTERM, None)

    assert asked == [1]
    assert worker._gate.closed


def test_without_a_name_it_is_called_like_its_host(client: Redis) -> None:
    worker = ListWorker(client, "train", lambda _: None)

    assert worker._name == worker._host
