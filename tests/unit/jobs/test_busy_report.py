"""What a worker reports of itself in Redis, and that it removes the report."""

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs import busy_report
from ebbtide.jobs.busy_report import BusyReport, Reporter
from tests.builders.redis import wait_until

pytestmark = pytest.mark.redis

QUEUES = ("train", "embed")
REPORTER = Reporter(queues=QUEUES, hostname="pod-1", worker="pod-1.7", facts={"patience": 5.0})
KEY = "ebbtide:worker:train:pod-1.7"
Started = Callable[..., BusyReport]


@pytest.fixture
def report(client: Redis) -> Iterator[Started]:
    started: list[BusyReport] = []

    def start(busy: Callable[[], bool] = lambda: False, **more: object) -> BusyReport:
        connect = more.pop("connect", lambda: client)
        thread = BusyReport(REPORTER, connect, busy, **more)  # pyright: ignore[reportArgumentType]
        started.append(thread)
        thread.start()
        return thread

    yield start
    for thread in started:
        thread.finish()


def nowhere() -> Redis:
    return Redis(port=1, retry=Retry(NoBackoff(), 0))


def state(client: Redis) -> object:
    return client.hget(KEY, "state")


def test_a_worker_reports_its_name_and_state_to_each_of_its_queues(client: Redis, report: Started) -> None:
    report()
    wait_until(lambda: client.exists("ebbtide:worker:embed:pod-1.7"), "the report")

    told = client.hgetall(KEY)

    assert {word: told[word] for word in (b"hostname", b"state", b"patience")} == {  # pyright: ignore
        b"hostname": b"pod-1",
        b"state": b"idle",
        b"patience": b"5.0",
    }
    assert abs(float(told[b"beat"]) - time.time()) < 30  # pyright: ignore
    assert 0 < int(client.ttl(KEY)) <= busy_report.LIFE  # pyright: ignore
    assert client.smembers("ebbtide:queues") == {b"train", b"embed"}
    assert client.smembers("ebbtide:workers:train") == client.smembers("ebbtide:workers:embed") == {b"pod-1.7"}


def test_a_change_is_reported_before_the_next_beat(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 60.0)
    busy = False
    thread = report(lambda: busy)
    wait_until(lambda: state(client) == b"idle", "the first beat")

    busy = True
    thread.changed()
    wait_until(lambda: state(client) == b"busy", "the change")
    thread.stopping()
    wait_until(lambda: state(client) == b"stopping", "the stop")  # neither idle nor busy, whatever it does


def test_any_number_of_changes_is_one_beat_after_a_pause(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 60.0)
    pausing, over = threading.Event(), threading.Event()

    def sleep(_seconds: float) -> None:
        pausing.set()
        over.wait(30)

    clock = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(busy_report, "time", clock)
    beats = list[None]()

    def present() -> dict[str, str | int]:
        beats.append(None)
        return {}

    thread = report(present=present)
    thread.changed()
    assert pausing.wait(30)

    for _ in range(1000):
        thread.changed()

    assert (len(beats), thread._news.qsize()) == (1, 1)
    over.set()
    wait_until(lambda: len(beats) == 3, "the first change and the others")


def test_a_redis_that_cannot_be_used_is_logged_once_and_its_return_too(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 0.01)
    monkeypatch.setattr(busy_report, "PAUSE", 0.0)
    asked = list[None]()

    def connect() -> Redis:
        asked.append(None)
        return nowhere() if len(asked) <= 3 else client

    report(connect=connect)
    wait_until(lambda: state(client) == b"idle", "the report")

    wait_until(lambda: "is reported again" in caplog.text, "the second line")
    assert caplog.text.count("is not reported, trying again") == 1


def test_numbers_that_change_are_reported_with_each_beat(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 60.0)
    held = 1
    thread = report(present=lambda: {"held": held})
    wait_until(lambda: client.hget(KEY, "held") == b"1", "the first beat")

    held = 30
    thread.changed()

    wait_until(lambda: client.hget(KEY, "held") == b"30", "the change")


class Breaking(Redis):
    broken = False
    refused = 0

    def pipeline(self, *arguments: Any, **more: Any) -> Any:
        if self.broken:
            self.refused += 1
            raise RedisConnectionError
        return super().pipeline(*arguments, **more)


def test_it_removes_the_report_even_when_redis_was_away_at_the_last_beat(
    client: Redis, server: EmbeddedRedis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 60.0)
    with Breaking(host=server.host, port=server.port) as breaking:
        clients = iter([breaking, client])
        taken: list[Redis] = []
        thread = report(lambda: False, connect=lambda: taken.append(next(clients)) or taken[-1])
        wait_until(lambda: state(client) == b"idle", "the first beat")
        breaking.broken = True
        thread.changed()
        wait_until(lambda: breaking.refused, "the beat that fails")
        assert state(client) == b"idle"

        thread.finish()

    assert len(taken) == 2
    assert not client.exists(KEY)


def test_without_news_it_beats_by_itself(client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 0.02)
    report()
    wait_until(lambda: state(client) == b"idle", "the first beat")

    client.flushall()

    wait_until(lambda: client.smembers("ebbtide:workers:train") == {b"pod-1.7"}, "the next")


def test_a_stop_is_passed_on_once_from_the_thread(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 0.02)
    stops: list[object] = []
    thread = report(on_stop=lambda: stops.append(thread.is_alive()))
    wait_until(lambda: state(client) == b"idle", "the first beat")
    assert stops == []

    thread.stopping()
    thread.stopping()

    wait_until(lambda: state(client) == b"stopping", "the stop")
    time.sleep(0.1)
    assert stops == [True]


def test_at_the_end_it_removes_everything(client: Redis, report: Started) -> None:
    thread = report()
    wait_until(lambda: client.exists(KEY), "the report")

    thread.finish()

    assert not thread.is_alive()
    assert client.keys("ebbtide:worker*") == []
    assert client.exists("ebbtide:queues")  # it only shrinks when the data was lost


def test_after_an_error_it_reconnects(client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_report, "BEAT", 0.02)
    asked: list[int] = []

    def connect() -> Redis:
        asked.append(1)
        if len(asked) == 1:
            raise OSError("no route to host")
        return nowhere() if len(asked) == 2 else client

    report(connect=connect)

    wait_until(lambda: client.exists(KEY), "the report in the end")
    time.sleep(0.1)
    assert len(asked) == 3  # and keeps what works


def test_a_farewell_that_fails_is_left_to_expire(
    client: Redis, report: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = report()
    wait_until(lambda: client.exists(KEY), "the report")
    with nowhere() as away:
        thread._leave(away)

    assert client.exists(KEY)


def test_the_dead_are_forgotten_and_the_living_are_not(client: Redis, report: Started) -> None:
    client.sadd("ebbtide:workers:train", "dead", "living")
    client.hset("ebbtide:worker:train:living", "state", "busy")

    report()

    wait_until(lambda: client.smembers("ebbtide:workers:train") == {b"living", b"pod-1.7"}, "the dead to be forgotten")


def test_the_report_does_not_keep_the_process_running() -> None:
    assert BusyReport(REPORTER, Redis, lambda: False).daemon


def test_workers_of_one_pod_are_distinguished_by_default() -> None:
    """Two containers have the same host name, and each may be process 1."""
    own, other = Reporter(queues=QUEUES), Reporter(queues=QUEUES)

    assert own.worker.startswith(f"{own.hostname}.")
    assert own.worker != other.worker


def test_a_member_that_is_no_text_is_forgotten(client: Redis, report: Started) -> None:
    client.sadd("ebbtide:workers:train", b"\xff")

    report()

    wait_until(lambda: client.smembers("ebbtide:workers:train") == {b"pod-1.7"}, "the report")
