"""Hints: when they wake, when they do not, and where they come from on a real Redis."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from controllers.adapters import wakers
from controllers.adapters.clock import EventWaker
from controllers.adapters.redis_connection import connect
from controllers.adapters.wakers import TrackingListener, _covering
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.redis import endpoint, wait_until

LONG = timedelta(seconds=60)
BRIEF = timedelta(milliseconds=20)


def test_a_wait_without_a_hint_ends_by_itself() -> None:
    assert EventWaker().wait(BRIEF)


def test_a_hint_from_another_thread_ends_a_long_wait() -> None:
    waker = EventWaker()
    threading.Timer(0.05, waker.notify).start()
    began = time.monotonic()

    assert waker.wait(LONG)
    assert time.monotonic() - began < LONG.total_seconds() / 2


def test_a_hint_given_before_the_wait_is_not_lost() -> None:
    waker = EventWaker()
    waker.notify()

    assert waker.wait(LONG)


def test_many_hints_are_one() -> None:
    waker = EventWaker()
    for _ in range(100_000):  # more than a pipe holds
        waker.notify()
    waker.wait(LONG)
    began = time.monotonic()
    waker.wait(timedelta(seconds=0.2))

    assert time.monotonic() - began >= 0.19


def test_a_storm_of_hints_leaves_the_loop_idle_for_three_quarters_of_the_time() -> None:
    waker, over, turn = EventWaker(), threading.Event(), 0.02

    def storm() -> None:
        while not over.wait(0.0005):
            waker.notify()

    thread = threading.Thread(target=storm)
    thread.start()
    turns, began = 0, time.monotonic()
    while time.monotonic() - began < 1.0:
        waker.wait(LONG)
        time.sleep(turn)
        turns += 1
    over.set()
    thread.join()

    assert turns * turn <= 0.3


def test_a_long_turn_does_not_delay_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    waker, rests = EventWaker(), list[float]()
    waker.wait(BRIEF)
    time.sleep(0.2)  # a turn that calls for a rest of 0.6 s
    waker.notify()
    monkeypatch.setattr(time, "sleep", rests.append)
    waker.wait(BRIEF)

    assert len(rests) == 1
    assert rests[0] <= BRIEF.total_seconds()


def test_stopping_from_a_signal_handler_ends_the_wait_for_good() -> None:
    waker = EventWaker()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        waker.stop()

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert not waker.wait(LONG)
        assert not waker.wait(LONG)
    finally:
        signal.signal(signal.SIGALRM, before)


@given(st.lists(st.text("ab:", min_size=1, max_size=5), max_size=12))
def test_prefixes_cover_all_that_was_asked_for_and_never_overlap(asked: list[str]) -> None:
    chosen = _covering(asked)

    assert all(any(prefix.startswith(cover) for cover in chosen) for prefix in asked)
    assert not any(one != other and other.startswith(one) for one in chosen for other in chosen)
    assert len(chosen) == len(set(chosen))


def test_too_many_prefixes_become_every_key() -> None:
    assert _covering(f"queue-{number:04}" for number in range(1000)) == [""]


def test_no_prefixes_stay_none() -> None:
    assert _covering(()) == []


# --- a real Redis -----------------------------------------------------------------------------------------------------


class Told:
    """A listener and the hints that it gave."""

    def __init__(self, where: RedisEndpoint, *prefixes: str, environment: dict[str, str] | None = None) -> None:
        self.count = 0
        self.listener = TrackingListener(lambda: connect(where, environment or {}), prefixes, self._hint)
        self.listener.start()

    def _hint(self) -> None:
        self.count += 1

    def wait_for(self, mode: str) -> None:
        wait_until(lambda: self.listener.mode() == mode, f"mode {mode}")

    def wait_for_more_than(self, count: int) -> None:
        wait_until(lambda: self.count > count, "a hint")


@pytest.fixture
def told(server: EmbeddedRedis) -> Iterator[Told]:
    told = Told(endpoint(server), "rq:queue:", "rq:queue:mail", "rq:wip:")  # the second one is covered by the first
    told.wait_for("tracking")
    told.wait_for_more_than(0)
    yield told
    told.listener.close()


@pytest.mark.redis
def test_a_push_is_news_and_other_keys_are_not(told: Told, client: Redis) -> None:
    before = told.count
    client.set("something:else", 1)
    client.rpush("rq:queue:mail", "job")
    told.wait_for_more_than(before)
    time.sleep(0.1)

    assert told.count == before + 1


@pytest.mark.redis
def test_without_pools_no_write_of_anybody_is_news(server: EmbeddedRedis, client: Redis) -> None:
    nobody = Told(endpoint(server))
    everybody = Told(endpoint(server), *(f"queue-{number:04}" for number in range(wakers.MOST_PREFIXES + 1)))
    everybody.wait_for("tracking")
    everybody.wait_for_more_than(0)

    for number in range(200):
        client.set(f"session:{number}", "x")
    everybody.wait_for_more_than(100)  # so that nobody would have been told, too

    assert (nobody.count, nobody.listener.mode()) == (0, "nothing to watch")
    nobody.listener.close()
    everybody.listener.close()


@pytest.mark.redis
def test_a_flush_is_news(told: Told, client: Redis) -> None:
    before = told.count
    client.flushall()

    told.wait_for_more_than(before)


@pytest.mark.redis
def test_a_lost_connection_is_news_and_is_made_again(told: Told, client: Redis) -> None:
    before = told.count
    client.client_kill_filter(_type="normal", skipme=True)
    told.wait_for_more_than(before + 1)  # one for the loss, one for the new connection
    told.wait_for("tracking")
    before = told.count
    client.rpush("rq:queue:mail", "job")

    told.wait_for_more_than(before)


@pytest.mark.redis
def test_a_dead_server_is_down_and_a_listener_without_one_still_closes_at_once() -> None:
    with EmbeddedRedis() as server:
        told = Told(endpoint(server), "rq:")
        told.wait_for("tracking")
    told.wait_for("down")
    told.listener.close()

    assert not told.listener._thread.is_alive()


@pytest.mark.redis
def test_a_frozen_server_is_noticed_by_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakers, "SILENCE", 0.2)
    with EmbeddedRedis() as server:
        told = Told(endpoint(server), "rq:")
        told.wait_for("tracking")
        time.sleep(1.0)  # several pings, all answered
        assert told.count == 1
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        told.wait_for("down")
        told.listener.close()


@pytest.mark.redis
def test_where_tracking_is_refused_hints_come_on_a_beat(server: EmbeddedRedis, client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "quiet", "on", "nopass", "%R~*", "+@all", "-client|tracking")
    where = RedisEndpoint(host=server.host, port=server.port, username="quiet", password_env="ANY")
    told = Told(where, "rq:", environment={"ANY": "x"})
    told.wait_for("polling")

    told.wait_for_more_than(told.count + 3)

    told.listener.close()
    client.acl_deluser("quiet")
