"""The gate before a blocking pop, and what ends the pop from outside."""

import os
import time
from collections.abc import Iterator

import pytest
from redis import Redis

from ebbtide.jobs.checkpoints.shared_memory import JobClock
from ebbtide.jobs.unblocking import PopGate, Unblocker
from tests.builders.redis import wait_until


class Stop(Exception):
    pass


class SignallingConnection:
    """A connection during whose request for its number the signal arrives."""

    def __init__(self, gate: PopGate) -> None:
        self._gate = gate

    def client_id(self) -> int:
        self._gate.closed = True
        return 7


def test_a_signal_during_the_request_for_the_connections_number_prevents_the_pop() -> None:
    gate = PopGate(Stop)

    with pytest.raises(Stop):
        gate.enter(SignallingConnection(gate))  # pyright: ignore[reportArgumentType] - all that it asks of a connection
    assert gate.client_id == 7  # a signal that came later would have ended the pop


def test_a_gate_knows_whether_its_worker_holds_a_job() -> None:
    gate = PopGate(Stop)
    assert gate.empty_handed

    gate.leave(("queue", b"job"))
    assert not gate.empty_handed
    gate.leave(None)
    assert gate.empty_handed
    assert gate.client_id is None


@pytest.fixture
def gate() -> PopGate:
    return PopGate(Stop)


@pytest.fixture
def reported() -> list[Redis]:
    return []


@pytest.fixture
def unblocker(gate: PopGate, client: Redis, reported: list[Redis]) -> Iterator[Unblocker]:
    thread = Unblocker(gate, client.connection_pool, reported.append)
    thread.start()
    yield thread
    thread.finish()
    thread.join()


@pytest.mark.redis
def test_a_pop_is_ended_also_if_it_begins_after_the_request(
    gate: PopGate, unblocker: Unblocker, client: Redis, reported: list[Redis]
) -> None:
    unblocker.ask()
    wait_until(lambda: reported, "the note")
    begun = time.monotonic()

    with client.client() as single:
        gate.client_id = single.client_id()
        assert single.blmove("train", "taken", 60, "LEFT", "RIGHT") is None
    gate.leave(None)
    unblocker.finish()
    unblocker.join(5)

    assert time.monotonic() - begun < 30
    assert len(reported) == 1
    assert not unblocker.is_alive()


@pytest.mark.redis
def test_without_a_request_nothing_is_ended_and_no_connection_is_made(
    gate: PopGate, unblocker: Unblocker, client: Redis
) -> None:
    with client.client() as single:
        gate.client_id = single.client_id()
        before = len(client.client_list())
        single.blmove("train", "taken", 1, "LEFT", "RIGHT")

    assert len(client.client_list()) <= before
    assert unblocker.is_alive()
    assert unblocker.daemon  # a worker that fails to tell it the end must end all the same


def test_a_request_during_an_outage_is_repeated_and_neither_waits_nor_fails() -> None:
    gate = PopGate(Stop)
    gate.client_id = 1
    with Redis(port=1) as nowhere:
        tried: list[Redis] = []
        thread = Unblocker(gate, nowhere.connection_pool, tried.append)
        assert thread._connection.get_connection_kwargs()["retry"].get_retries() == 0
        thread.start()
        thread.ask()
        wait_until(lambda: tried, "the first try")
        time.sleep(0.3)
        assert thread.is_alive()
        thread.finish()
        thread.join(10)
    assert not thread.is_alive()


def test_a_clock_runs_from_its_start_to_its_stop_and_is_seen_by_other_processes() -> None:
    clock = JobClock()
    assert clock.seconds == 0.0

    clock.start()
    time.sleep(0.05)
    assert 0.05 <= clock.seconds < 30
    clock.stop()
    assert clock.seconds == 0.0


@pytest.mark.process
def test_only_one_process_need_start_it() -> None:
    clock = JobClock()
    child = os.fork()
    if child == 0:
        clock.start()
        os._exit(0)
    os.waitpid(child, 0)

    assert clock.seconds > 0.0
