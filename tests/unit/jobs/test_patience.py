"""Which errors are waited for, for how long, and what is logged. No server: the errors are those of redis-py."""

import copy
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from redis import Redis, exceptions
from redis.sentinel import Sentinel, SentinelManagedConnection

from ebbtide.jobs import patience
from ebbtide.jobs.patience import Patience, is_outage, make_patient

OUTAGES = (
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError("timed out"),
    exceptions.ConnectionError("Connection refused"),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
    exceptions.TimeoutError("Timeout reading from socket"),
    exceptions.MasterDownError("Link with MASTER is down"),
    exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'"),
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    exceptions.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"),
    exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
    exceptions.ResponseError("BUSY Redis is busy running a script."),
    exceptions.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"),
    exceptions.ResponseError("Command # 1 (HSET a b c) of pipeline caused error: MISCONF Errors writing to the AOF"),
    exceptions.ExecAbortError("Transaction discarded because of: OOM command not allowed when used memory"),
)
MISTAKES = (
    exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    exceptions.ResponseError("ERR BUSY is no word of Redis here"),
    exceptions.NoPermissionError("this user has no permissions to run the 'hset' command"),
    exceptions.ExecAbortError("Transaction discarded because of previous errors."),
    exceptions.WatchError("Watched variable changed."),
    ValueError("READONLY "),
)
REFUSED = exceptions.ConnectionError("Connection refused")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    monkeypatch.setattr(patience, "PAUSE", 0.0)


class Server:
    """Fails with these errors, one after the other, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self._errors: Iterator[Exception] = iter(errors)
        self.calls: list[str] = []

    def do(self) -> str:
        self.calls.append("do")
        for error in self._errors:
            raise error
        return "answer"

    def fail(self, *told: object) -> None:
        self.calls.append(f"fail {len(told)}")


@pytest.mark.parametrize("error", OUTAGES, ids=str)
def test_a_temporary_error_is_waited_for(error: Exception) -> None:
    server = Server(error, error)

    assert is_outage(error)
    assert Patience().call_with_retry(server.do, server.fail) == "answer"
    assert server.calls == ["do", "fail 1", "do", "fail 1", "do"]  # the connection is dropped before each further try


@pytest.mark.parametrize("error", MISTAKES, ids=str)
def test_a_permanent_error_is_raised_at_once(error: Exception) -> None:
    server = Server(error)

    assert not is_outage(error)
    with pytest.raises(type(error)):
        Patience().call_with_retry(server.do, server.fail)
    assert server.calls == ["do"]


def test_redis_py_may_receive_the_number_of_the_failure_and_may_exclude_an_error() -> None:
    server = Server(REFUSED)
    Patience().call_with_retry(server.do, server.fail, with_failure_count=True)
    assert server.calls == ["do", "fail 2", "do"]

    with pytest.raises(exceptions.ConnectionError):
        Patience().call_with_retry(Server(REFUSED).do, server.fail, is_retryable=lambda _: False)
    assert Patience().call_with_retry(Server(REFUSED).do, server.fail, is_retryable=lambda _: True) == "answer"


def test_a_password_is_waited_for_only_if_it_was_right_once() -> None:
    wrong = exceptions.AuthenticationError("invalid username-password pair or user is disabled.")
    ever, never = Patience(), Patience()
    ever.call_with_retry(Server().do, Server().fail)

    assert ever.call_with_retry(Server(wrong).do, Server().fail) == "answer"
    with pytest.raises(exceptions.AuthenticationError):
        never.call_with_retry(Server(wrong).do, Server().fail)


def give_up(error: Exception, _waited: float) -> None:
    raise KeyboardInterrupt from error


def test_the_owner_ends_the_wait_and_the_connection_is_still_dropped() -> None:
    server = Server(REFUSED)

    with pytest.raises(KeyboardInterrupt):
        Patience(give_up).call_with_retry(server.do, server.fail)
    assert server.calls == ["do", "fail 1"]


def test_a_transaction_that_is_given_up_is_not_retried() -> None:
    def watched(_error: Exception) -> None:
        raise exceptions.WatchError("as redis-py does when a connection breaks that watches a key")

    with pytest.raises(KeyboardInterrupt):
        Patience(give_up).call_with_retry(Server(REFUSED).do, watched)
    with pytest.raises(exceptions.WatchError):
        Patience().call_with_retry(Server(REFUSED).do, watched)


def test_the_owner_gets_the_time_that_this_command_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 101.0, 105.0, 105.0])
    monkeypatch.setattr(patience.time, "monotonic", lambda: next(now, 105.0))
    waits: list[float] = []

    Patience(lambda _, waited: waits.append(waited)).call_with_retry(Server(REFUSED, REFUSED).do, Server().fail)

    assert waits == [1.0, 5.0]


def test_redis_away_is_logged_once_then_each_minute_and_its_return_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0

    def later(_error: Exception, _waited: float) -> None:
        nonlocal now
        now += 25.0

    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    waiting = Patience(later)
    with caplog.at_level(logging.WARNING):
        waiting.call_with_retry(Server(*[REFUSED] * 5).do, Server().fail)
        waiting.call_with_retry(Server().do, Server().fail)
        waiting.call_with_retry(Server(REFUSED).do, Server().fail)

    assert [record.getMessage() for record in caplog.records] == [
        "Redis cannot be used, waiting (0 s so far): Connection refused",
        "Redis cannot be used, waiting (75 s so far): Connection refused",
        "Redis is back after 125 s",
        "Redis cannot be used, waiting (0 s so far): Connection refused",
        "Redis is back after 25 s",
    ]


def test_a_connection_made_while_its_commands_are_refused_is_no_end_of_the_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Patience()
    full = Server(*[exceptions.OutOfMemoryError("used memory > 'maxmemory'")] * 3)

    def connect_and_ask() -> str:
        waiting.call_with_retry(Server().do, Server().fail)
        return full.do()

    with caplog.at_level(logging.WARNING):
        waiting.call_with_retry(connect_and_ask, full.fail)

    assert [record.getMessage()[:17] for record in caplog.records] == ["Redis cannot be u", "Redis is back aft"]


def test_the_pause_between_two_tries_differs_from_worker_to_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(patience, "PAUSE", 1.0)
    monkeypatch.setattr(patience.time, "sleep", slept.append)

    Patience().call_with_retry(Server(*[REFUSED] * 50).do, Server().fail)

    assert all(0.5 <= pause <= 1.5 for pause in slept)
    assert len(set(slept)) > 40


def test_all_connections_share_the_outage() -> None:
    one = Patience()
    connection = Redis()

    make_patient(connection, one)

    assert copy.deepcopy(one) is one
    assert cast("Any", connection.connection_pool).make_connection().retry is one


def test_a_connection_found_by_a_sentinel_asks_it_again_before_a_command_is_repeated() -> None:
    """redis-py itself would use the address that it knows, where the old primary is gone, or worse: frozen."""
    connection = Sentinel([("127.0.0.1", 1)]).master_for("jobs")
    pool: Any = connection.connection_pool
    stale = pool.make_connection()
    pool._available_connections.append(stale)
    make_patient(connection, Patience(give_up))
    make_patient(connection, Patience(give_up))  # `rq worker` asks first, the worker itself follows

    assert pool._available_connections == []
    made = pool.make_connection()
    asked: list[str] = []
    made._connect_retry = lambda: asked.append("sentinel") or give_up(REFUSED, 0.0)

    assert isinstance(stale, SentinelManagedConnection)
    assert isinstance(made, SentinelManagedConnection)
    assert [kind.__name__ for kind in type(made).__mro__].count("_AskingAgain") == 1
    with pytest.raises(KeyboardInterrupt):
        made.send_command("PING")
    assert asked == ["sentinel"]


def test_patience_in_one_thread_does_not_end_with_that_in_another() -> None:
    def only_here(error: Exception, _waited: float) -> None:
        if threading.current_thread() is threading.main_thread():
            raise error

    answers: list[object] = []
    shared = Patience(only_here)
    call: Callable[[], None] = lambda: answers.append(shared.call_with_retry(Server(REFUSED).do, Server().fail))  # noqa: E731
    listener = threading.Thread(target=call)
    listener.start()
    listener.join()

    with pytest.raises(exceptions.ConnectionError):
        call()
    assert answers == ["answer"]
