"""What the safe worker decides, on a real Redis, without a process of its own. `test_rq_worker.py` runs it as one."""

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis import Redis, exceptions
from rq import Queue, Retry, Worker
from rq.exceptions import DequeueTimeout, StopRequested
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.timeouts import HorseMonitorTimeoutException
from rq.utils import now

from ebbtide.jobs import rq_worker
from ebbtide.jobs.checkpoints.attempts import MOST_DEATHS, attempt_key
from ebbtide.jobs.patience import Patience
from ebbtide.jobs.rq_checkpoints import CheckpointWorker
from ebbtide.jobs.rq_worker import LAST_CHANCE, LOOK_EVERY, MAINTENANCE_EVERY, InterruptibleQueue, SafeWorker
from ebbtide.jobs.unblocking import PopGate
from tests.builders.jobs import job

pytestmark = pytest.mark.redis

POPPED = "rq:queue:train:intermediate"
LOCK = "rq:scheduler-lock:train"
AWAY = exceptions.ConnectionError("Connection refused")


@pytest.fixture
def worker(client: Redis) -> Iterator[SafeWorker]:
    made = SafeWorker(["train"], connection=client, maintenance_interval=0)
    made.register_birth()
    made.set_state("idle")
    yield made
    made._gate.closed = True


def enqueued(client: Redis) -> Job:
    return Queue("train", connection=client).enqueue(job, 1)


# --- when a command waits for Redis -----------------------------------------------------------------------------------


def test_every_command_of_a_worker_is_patient_and_a_copy_made_to_look_at_it_changes_nothing(
    worker: SafeWorker, client: Redis
) -> None:
    assert isinstance(client.get_retry(), Patience)
    before = client.get_retry()

    SafeWorker.find_by_key(worker.key, connection=client)

    assert client.get_retry() is before


def test_a_worker_waits_as_long_as_it_takes(worker: SafeWorker) -> None:
    worker._on_outage(AWAY, 1e6)

    worker._gate.empty_handed = False
    worker._on_outage(AWAY, 1e6)


def test_a_pop_is_never_repeated(worker: SafeWorker) -> None:
    worker._gate.client_id = 7

    with pytest.raises(exceptions.ConnectionError):
        worker._on_outage(AWAY, 0.0)


def test_on_sigterm_it_waits_only_while_it_holds_a_job(worker: SafeWorker) -> None:
    worker._gate.closed, worker._gate.empty_handed = True, False
    worker._on_outage(AWAY, 0.0)  # popped, not begun

    worker._gate.empty_handed = True
    with pytest.raises(StopRequested):
        worker._on_outage(AWAY, 0.0)


def test_on_sigterm_it_waits_for_the_process_of_its_job_and_no_longer(worker: SafeWorker) -> None:
    worker._gate.closed, worker._gate.empty_handed = True, False
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    worker._horse_pid = child
    worker._on_outage(AWAY, 0.0)

    os.close(writer)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    with pytest.raises(StopRequested):
        worker._on_outage(AWAY, 0.0)
    assert worker.wait_for_horse()[0] == child  # it was only looked at
    assert worker._gate.empty_handed
    worker._gate.empty_handed = False
    with pytest.raises(StopRequested):
        worker._on_outage(AWAY, 0.0)  # long gone


def test_the_thread_that_hears_commands_waits_whatever_happens(worker: SafeWorker) -> None:
    worker._gate.closed, worker._gate.client_id = True, 7
    raised: list[BaseException] = []

    def bear() -> None:
        try:
            worker._on_outage(AWAY, 1e6)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=bear)
    thread.start()
    thread.join()

    assert raised == []


def test_the_process_of_a_job_gives_up_after_its_patience_logs_it_once_and_then_fails_at_once(
    worker: SafeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker._is_horse = True
    worker._gate.closed, worker._gate.client_id = True, 7  # as they were when it was forked
    worker.begun = Execution("1", "the-job", worker.connection)
    worker._on_outage(AWAY, worker.result_patience - 1)

    with caplog.at_level(logging.ERROR, "rq.worker"):
        with pytest.raises(exceptions.ConnectionError):
            worker._on_outage(AWAY, worker.result_patience)
        with pytest.raises(exceptions.ConnectionError):
            worker._on_outage(AWAY, 0.0)

    assert [record.getMessage() for record in caplog.records] == [
        "Redis could not be used for 1800 s: giving up on job the-job, which RQ will retry or fail"
    ]


def test_an_outage_in_the_pop_is_like_an_empty_queue_and_a_mistake_is_raised(client: Redis) -> None:
    class Ours(InterruptibleQueue):
        gate = PopGate(StopRequested)

    def broken(error: Exception) -> Any:
        def pop(_: Redis) -> Any:
            assert Ours.gate.client_id is not None
            raise error

        return pop

    with pytest.raises(DequeueTimeout):
        Ours._pop(client, broken(AWAY))
    with pytest.raises(exceptions.ResponseError):
        Ours._pop(client, broken(exceptions.ResponseError("WRONGTYPE")))
    assert (Ours.gate.client_id, Ours.gate.empty_handed) == (None, True)


@pytest.mark.parametrize("timeout", [1, None], ids=["blocking", "burst"])
def test_the_gate_is_informed_of_what_a_pop_returns(client: Redis, timeout: int | None) -> None:
    class Ours(InterruptibleQueue):
        gate = PopGate(StopRequested)

    client.rpush("rq:queue:train", "one", "two")
    assert Ours.lmove(client, "rq:queue:train", timeout) == ("rq:queue:train", b"one")
    assert (Ours.gate.client_id, Ours.gate.empty_handed) == (None, False)

    Ours.gate.empty_handed = True
    assert Ours.lpop(["rq:queue:none", "rq:queue:train"], timeout, connection=client)[1] == b"two"
    assert (Ours.gate.client_id, Ours.gate.empty_handed) == (None, False)


# --- a job ------------------------------------------------------------------------------------------------------------


def test_only_the_time_of_the_job_itself_counts_against_its_limit(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = enqueued(client)
    worker.prepare_execution(running)
    worker._monitored = running

    def look(_: Worker) -> None:
        raise HorseMonitorTimeoutException  # as RQ's own alarm does every now and then

    monkeypatch.setattr(Worker, "wait_for_horse", look)

    def counted(seconds: float) -> float:
        running.started_at = now() - timedelta(seconds=seconds)
        with pytest.raises(HorseMonitorTimeoutException):
            worker.wait_for_horse()
        return (now() - running.started_at).total_seconds()

    before = counted(1000)
    worker.prepare_job_execution(running)
    time.sleep(0.5)
    during, young = counted(1000), counted(0.01)
    worker.handle_execution_ended(running, Queue("train", connection=client), 60)

    assert (round(before), round(counted(1000))) == (0, 0)
    assert 0.5 <= during < 60
    assert 0.01 <= young < during


def test_the_clock_of_the_job_before_does_not_run_on(worker: SafeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker._clock.start()  # and its process was killed
    monkeypatch.setattr("os.fork", lambda: 4711)

    worker.fork_work_horse(cast("Job", SimpleNamespace(id="next")), cast("Queue", None))

    assert worker._clock.seconds == 0.0


def test_the_process_of_a_job_remembers_its_start_for_a_transaction_that_must_be_repeated(
    worker: SafeWorker, client: Redis
) -> None:
    running = enqueued(client)
    for is_horse in (True, False):
        worker.prepare_execution(running)
        worker._is_horse = is_horse
        with client.pipeline() as pipeline:
            worker.cleanup_execution(running, pipeline)
        assert (worker.execution is not None) == is_horse
    worker._is_horse = False


@pytest.mark.parametrize("horse", [4711, 0], ids=["in its job", "after it"])
def test_a_worker_that_cannot_go_on_waits_for_the_process_of_its_job_if_there_is_one(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch, horse: int
) -> None:
    waited: list[int] = []

    def broken(*_: object) -> None:
        worker._horse_pid = horse
        raise exceptions.ResponseError("WRONGTYPE")

    monkeypatch.setattr(Worker, "monitor_work_horse", broken)

    def wait(self: Worker) -> None:
        waited.append(self.horse_pid)

    monkeypatch.setattr(Worker, "wait_for_horse", wait)

    with pytest.raises(exceptions.ResponseError):
        worker.monitor_work_horse(enqueued(client), Queue("train", connection=client))
    assert waited == [horse] * bool(horse)  # with no process of its own it would wait for any, the scheduler's perhaps


@pytest.mark.parametrize("told", [StopRequested, SystemExit])
def test_a_worker_that_has_to_end_does_not_wait(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch, told: type[BaseException]
) -> None:
    def leaves(*_: object) -> None:
        worker._horse_pid = 4711
        raise told

    monkeypatch.setattr(Worker, "monitor_work_horse", leaves)

    def wait(_: Worker) -> None:
        pytest.fail("it waits")

    monkeypatch.setattr(Worker, "wait_for_horse", wait)

    with pytest.raises(told):
        worker.monitor_work_horse(enqueued(client), Queue("train", connection=client))


# --- being known ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["everything", "state", "hostname", "the list"])
def test_a_worker_that_was_partly_forgotten_registers_again_at_its_next_beat(
    worker: SafeWorker, client: Redis, lost: str
) -> None:
    match lost:
        case "everything":
            client.flushall()
        case "the list":
            client.srem("rq:workers", worker.key)
        case field:
            client.hdel(worker.key, field)

    worker.heartbeat()

    assert client.hmget(worker.key, "state", "hostname") == [b"idle", str(worker.hostname).encode()]
    assert client.smembers("rq:workers") == client.smembers("rq:workers:train") == {worker.key.encode()}


def test_a_worker_that_was_forgotten_during_its_job_reports_again_that_it_is_busy(
    worker: SafeWorker, client: Redis
) -> None:
    running = enqueued(client)
    worker.prepare_execution(running)
    worker._gate.empty_handed = False
    client.flushall()

    worker.maintain_heartbeats(running)

    assert client.hmget(worker.key, "state", "hostname") == [b"busy", str(worker.hostname).encode()]
    assert client.smembers("rq:workers") == client.smembers("rq:workers:train") == {worker.key.encode()}
    assert 0 < client.ttl(worker.key) <= 90


def test_a_worker_that_is_known_writes_only_its_beat(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_register_again", lambda: pytest.fail("it is known"))

    worker.heartbeat()
    with client.pipeline() as pipeline:
        client.hdel(worker.key, "state")
        worker.heartbeat(90, pipeline)  # part of a transaction: nothing can be asked in it
        assert len(pipeline) == 2
    worker._gate.empty_handed = False
    worker.heartbeat()  # it has a job in hand, which is to begin first


@pytest.mark.parametrize(
    ("closed", "empty_handed", "leaves"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_worker_may_end_at_a_beat(worker: SafeWorker, closed: bool, empty_handed: bool, leaves: bool) -> None:
    worker._gate.closed, worker._gate.empty_handed = closed, empty_handed

    if leaves:
        with pytest.raises(StopRequested):
            worker.heartbeat()
    else:
        worker.heartbeat()


def test_a_user_without_the_right_to_list_subscribers_still_works(client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "job", "on", "nopass", "~*", "&*", "+@all", "-pubsub|numsub")
    port = cast("dict[str, Any]", client.get_connection_kwargs())["port"]
    with Redis(port=port, username="job", password="any") as limited:
        worker = SafeWorker(["train"], connection=limited)
        worker.register_birth()
        worker.heartbeat()
    client.acl_deluser("job")


@pytest.mark.parametrize("beat", ["idle", "in a job"])
@pytest.mark.parametrize("listeners", [0, 1])
def test_a_connection_without_a_subscription_is_woken_and_one_with_a_subscription_is_not(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch, beat: str, listeners: int
) -> None:
    here, there = socket.socketpair()
    with here, there, client.pubsub() as other:
        worker.pubsub = cast("Any", SimpleNamespace(connection=SimpleNamespace(_sock=here)))
        if listeners:
            other.subscribe(worker.pubsub_channel_name)
            assert other.get_message(timeout=5)
        if beat == "idle":
            worker.heartbeat()
        else:
            running = enqueued(client)
            worker.prepare_execution(running)
            worker.maintain_heartbeats(running)

        here.setblocking(False)
        if listeners:
            with pytest.raises(BlockingIOError):
                here.recv(1)
        else:
            assert here.recv(1) == b""  # its end, which whoever reads it takes for a broken connection


def test_a_connection_that_noticed_by_itself_is_no_error(worker: SafeWorker) -> None:
    worker.pubsub = cast("Any", SimpleNamespace(connection=SimpleNamespace(_sock=None)))

    worker.heartbeat()


# --- the dead ---------------------------------------------------------------------------------------------------------


Lose = Callable[..., Job]


@pytest.fixture
def lose(client: Redis) -> Lose:
    """Make a job whose worker has missed its deadline, some seconds ago."""

    def make(late: float = 5.0, *, checkpoint: bool = False, **options: Any) -> Job:
        lost = Queue("train", connection=client).enqueue(job, 1, **options)
        lost.set_status(JobStatus.STARTED)
        client.lrem("rq:queue:train", 1, lost.id)
        client.zadd("rq:wip:train", {f"{lost.id}:1": int(time.time()) - late})
        if checkpoint:
            client.hset(attempt_key(lost.id), "token", 1)
        return lost

    return make


class Looks:
    """The looks of one worker at the others, at instants that the test chooses."""

    def __init__(self, worker: SafeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = float(int(time.monotonic()))  # else a sum of seconds may miss their total by its last bit
        monkeypatch.setattr(rq_worker.time, "monotonic", lambda: self.now)
        self.worker = worker

    def __call__(self, after: float = 0.0) -> None:
        self.now += after
        self.worker.clean_registries()


@pytest.fixture
def look(worker: SafeWorker, monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(worker, monkeypatch)


def starts(client: Redis) -> list[str]:
    found = cast("list[bytes]", client.zrange("rq:wip:train", 0, -1))
    return [member.decode().partition(":")[0] for member in found]


def test_a_job_past_its_deadline_is_given_up_only_at_a_second_look_a_while_later(
    client: Redis, look: Looks, lose: Lose
) -> None:
    lost = lose()

    look()
    look(after=LAST_CHANCE - 1)
    assert starts(client) == [lost.id]

    look(after=1)
    assert starts(client) == []
    assert lost.get_status() == "failed"


def test_a_job_that_beat_once_in_between_gets_another_chance(client: Redis, look: Looks, lose: Lose) -> None:
    lost = lose()
    look()

    client.zadd("rq:wip:train", {f"{lost.id}:1": time.time() - 4})
    look(after=LAST_CHANCE + 1)

    assert starts(client) == [lost.id]


def test_a_job_that_runs_does_not_keep_a_dead_ones_from_being_given_up(client: Redis, look: Looks, lose: Lose) -> None:
    lost = lose()
    client.zadd("rq:wip:train", {"running:1": time.time() + 60})
    look()

    client.zadd("rq:wip:train", {"running:1": time.time() + 90})
    look(after=LAST_CHANCE)

    assert lost.get_status() == "failed"
    assert starts(client) == ["running"]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_in_a_stream_of_deaths_each_job_is_judged_alone(
    client: Redis, look: Looks, lose: Lose, checkpoint: bool
) -> None:
    """One more is seen dead at each look, so that there is always one with time left."""
    lost = [lose(late=90, checkpoint=checkpoint, retry=Retry(max=1))]
    went_on: list[int] = []
    for number in range(1, 8):
        look(after=LAST_CHANCE / 3)
        went_on.append(client.llen("rq:queue:train"))  # pyright: ignore[reportArgumentType] - no future
        lost.append(lose(late=90 - number, checkpoint=checkpoint, retry=Retry(max=1)))

    assert went_on == [0, 0, 0, 1, 2, 3, 4]
    assert set(Queue("train", connection=client).job_ids) == {job.id for job in lost[:4]}
    assert starts(client) == [job.id for job in lost[4:]]


def test_of_two_with_the_same_deadline_only_the_one_that_used_its_time_up_goes_on(
    client: Redis, look: Looks, lose: Lose
) -> None:
    """RQ's cleanup includes its limit, and deadlines are whole seconds."""
    second = time.time() // 1 - 5
    plain, saved = lose(retry=Retry(max=1)), lose(checkpoint=True, retry=Retry(max=1))
    for each in (plain, saved):
        client.zadd("rq:wip:train", {f"{each.id}:1": second})
    look()

    late = lose(retry=Retry(max=1))
    client.zadd("rq:wip:train", {f"{late.id}:1": second})
    look(after=LAST_CHANCE)
    assert Queue("train", connection=client).job_ids == [saved.id]
    assert set(starts(client)) == {plain.id, late.id}

    look(after=LAST_CHANCE)
    assert set(Queue("train", connection=client).job_ids) == {saved.id, plain.id, late.id}


def test_jobs_that_were_lost_together_go_on_in_their_order(client: Redis, look: Looks, lose: Lose) -> None:
    lost = [lose(late=20 - number, checkpoint=True) for number in range(3)]
    look()
    look(after=LAST_CHANCE)

    assert Queue("train", connection=client).job_ids == [job.id for job in lost]


def test_a_heartbeat_between_the_look_and_the_return_keeps_the_job(
    worker: SafeWorker, client: Redis, lose: Lose
) -> None:
    """Even one whose deadline has already passed, as of a worker whose clock is behind."""
    lost, [queue] = lose(late=20, checkpoint=True), worker.queues
    [seen] = worker.overdue_starts(queue)

    client.zadd("rq:wip:train", {f"{lost.id}:1": time.time() - 10})
    worker.return_abandoned(queue, seen, may_fail=True)

    assert starts(client) == [lost.id]


@pytest.mark.parametrize("noticed", [True, False], ids=["an outage", "a frozen server"])
def test_after_an_outage_a_living_worker_has_its_whole_time_whatever_was_seen_before(
    worker: SafeWorker, client: Redis, look: Looks, lose: Lose, noticed: bool
) -> None:
    lost = lose(checkpoint=True)
    look()

    if noticed:
        worker._on_outage(AWAY, 0.0)
    look(after=LAST_CHANCE if noticed else 60)
    look(after=LAST_CHANCE - 1)
    assert starts(client) == [lost.id]

    look(after=1)
    assert Queue("train", connection=client).job_ids == [lost.id]


@pytest.mark.parametrize(("deaths", "goes_on"), [(0, True), (MOST_DEATHS - 1, False)])
def test_a_busy_worker_puts_dead_ones_jobs_back_and_fails_none(
    worker: SafeWorker, client: Redis, look: Looks, lose: Lose, deaths: int, goes_on: bool
) -> None:
    """RQ 2 would end the present job's execution with the one that failed."""
    running = Queue("train", connection=client).enqueue(job, 1)
    worker.prepare_execution(running)
    worker._gate.empty_handed = False
    client.delete("rq:queue:train")
    lost, plain = lose(checkpoint=True), lose()
    client.hset(attempt_key(lost.id), "deaths", deaths)

    worker.maintain_heartbeats(running)
    look.now += LAST_CHANCE
    worker.maintain_heartbeats(running)

    assert Queue("train", connection=client).job_ids == [lost.id] * goes_on
    assert set(starts(client)) == {running.id, plain.id} | (set() if goes_on else {lost.id})
    assert lost.get_status() == ("queued" if goes_on else "started")
    if not goes_on:
        worker._gate.empty_handed = True
        look()
        assert lost.get_status() == "failed"


def test_a_job_that_has_died_too_often_is_failed_or_retried_once(client: Redis, look: Looks, lose: Lose) -> None:
    lost = lose(checkpoint=True, retry=Retry(max=5))
    client.hset(attempt_key(lost.id), "deaths", MOST_DEATHS - 1)
    look()
    look(after=LAST_CHANCE)
    look(after=LAST_CHANCE)

    lost.refresh()
    assert Queue("train", connection=client).job_ids == [lost.id]
    assert (lost.retries_left, starts(client)) == (4, [])


def test_while_one_worker_fails_a_job_that_has_died_too_often_another_leaves_it_alone(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch, lose: Lose
) -> None:
    lost, [queue], other = lose(checkpoint=True), worker.queues, SafeWorker(["train"], connection=client)
    client.hset(attempt_key(lost.id), "deaths", MOST_DEATHS - 1)
    [seen] = worker.overdue_starts(queue)

    def fail(*_: object, **__: object) -> None:
        other.return_abandoned(queue, seen, may_fail=True)
        assert other.overdue_starts(queue) == []

    monkeypatch.setattr(Worker, "handle_job_failure", fail)
    worker.return_abandoned(queue, seen, may_fail=True)

    assert Queue("train", connection=client).job_ids == []


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_job_that_is_popped_again_is_not_taken_for_one_that_was_never_begun(
    client: Redis, look: Looks, lose: Lose, checkpoint: bool
) -> None:
    """RQ remembers for a day that it saw a job popped. A job that was put back may be there again, for milliseconds."""
    again = lose(checkpoint=checkpoint, retry=Retry(max=1))
    client.delete("rq:wip:train")
    again.set_status(JobStatus.QUEUED)
    client.set(f"{POPPED}:first_seen:{again.id}", time.time() - 600)
    client.rpush(POPPED, again.id)

    look()
    assert (client.lrange(POPPED, 0, -1), Queue("train", connection=client).job_ids) == ([again.id.encode()], [])
    assert again.get_status() == "queued"

    for _ in range(4):
        look(after=15)
    assert (client.lrange(POPPED, 0, -1), Queue("train", connection=client).job_ids) == ([], [again.id])


@pytest.mark.parametrize(
    ("other", "status", "waits", "back"),
    [
        (60, "started", False, False),
        (-90, "started", False, True),
        (None, "finished", False, False),
        (None, "queued", True, False),
        (None, "queued", False, True),
    ],
    ids=["replaced", "two dead", "ended", "waits already", "died as it began"],
)
def test_a_start_that_no_longer_matters_goes_without_its_job(
    worker: SafeWorker, client: Redis, lose: Lose, other: int | None, status: str, waits: bool, back: bool
) -> None:
    """After a freeze or a partition a job may have several."""
    lost, [queue] = lose(checkpoint=True), worker.queues
    lost.set_status(JobStatus(status))
    if waits:
        client.rpush("rq:queue:train", lost.id)
    [seen] = worker.overdue_starts(queue)
    if other is not None:
        client.zadd("rq:wip:train", {f"{lost.id}:2": time.time() + other})

    worker.return_abandoned(queue, seen, may_fail=True)

    assert client.zrange("rq:wip:train", 0, -1) == ([f"{lost.id}:2".encode()] if other == 60 else [])
    assert Queue("train", connection=client).job_ids == [lost.id] * (back or waits)
    assert client.hget(attempt_key(lost.id), "token") == (b"2" if back else b"1")


def test_an_idle_worker_looks_between_its_short_pops_whatever_its_command_says(
    worker: SafeWorker, client: Redis, look: Looks, lose: Lose
) -> None:
    lost = lose(checkpoint=True)
    assert SafeWorker(["train"], connection=client).maintenance_interval == MAINTENANCE_EVERY  # RQ's: 600
    assert worker.worker_ttl == 420
    pops = 0
    while starts(client):
        worker.heartbeat()
        look.now += worker.dequeue_timeout
        pops += 1

    assert pops * worker.dequeue_timeout <= LAST_CHANCE + 2 * LOOK_EVERY
    assert Queue("train", connection=client).job_ids == [lost.id]
    assert worker.connection_timeout == 415  # RQ's own, which the job's commands may count on


# --- being told to stop -----------------------------------------------------------------------------------------------


def test_the_first_signal_asks_for_the_end_of_the_pop_and_only_ctrl_c_insists(
    worker: SafeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, forced = list[str](), list[int]()
    worker._unblocker = cast("Any", SimpleNamespace(ask=lambda: asked.append("ask")))

    def force(number: int, _frame: object) -> None:
        forced.append(number)

    monkeypatch.setattr(worker, "request_force_stop", force)

    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        worker.request_stop(number, None)

    assert (asked, forced) == (["ask"], [signal.SIGINT])
    assert worker._gate.closed
    assert worker._shutdown_requested_date is not None


def test_a_stop_before_a_worker_is_ready_is_no_error(worker: SafeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*_: object, **__: object) -> bool:
        raise StopRequested

    monkeypatch.setattr(Worker, "work", told)

    assert worker.work() is False


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_the_process_of_a_job_does_not_deregister_the_worker(worker: SafeWorker, client: Redis) -> None:
    worker._is_horse = True
    worker.teardown()

    assert client.sismember("rq:workers", worker.key)
    assert not worker._gate.closed


def test_a_worker_that_cannot_deregister_ends_anyway(worker: SafeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[bool] = []
    worker._unblocker = cast("Any", SimpleNamespace(finish=lambda: finished.append(True)))

    def refuse() -> None:
        worker._on_outage(AWAY, 0.0)  # as the command would
        pytest.fail("it waits")

    monkeypatch.setattr(worker, "register_death", refuse)
    worker.teardown()

    assert finished == [True]


def test_a_subscription_that_breaks_while_a_worker_leaves_is_no_error(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RQ's thread may close the socket of its subscription while the worker writes to it."""
    finished: list[bool] = []
    worker._unblocker = cast("Any", SimpleNamespace(finish=lambda: finished.append(True)))

    def broken(_: Worker) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sendall'")

    monkeypatch.setattr(Worker, "unsubscribe", broken)
    worker.teardown()

    assert finished == [True]
    assert not client.sismember("rq:workers", worker.key)


@pytest.mark.parametrize("holder", ["ours", "another's"])
def test_a_scheduler_that_does_not_stop_is_ended_and_only_its_own_lock_is_released(
    worker: SafeWorker, client: Redis, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    monkeypatch.setattr(rq_worker, "SCHEDULER_STOPS_WITHIN", 1)
    deaf = multiprocessing.get_context("fork").Process(target=_without_subscription)
    deaf.start()
    worker.scheduler = cast("Any", SimpleNamespace(_process=deaf, name="ours"))
    client.set(LOCK, holder, ex=61)
    time.sleep(0.3)

    worker.stop_scheduler()

    assert not deaf.is_alive()
    assert client.get(LOCK) == (None if holder == "ours" else b"another's")
    worker.stop_scheduler()
    worker.scheduler = None
    worker.stop_scheduler()


def _without_subscription() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


# --- its report -------------------------------------------------------------------------------------------------------


def calls(client: Redis) -> dict[str, int]:
    return {name: told["calls"] for name, told in cast("Any", client.info("commandstats")).items()}


def test_the_report_adds_no_call_to_redis(client: Redis) -> None:
    counted: list[dict[str, int]] = []
    for worker_class in (CheckpointWorker, SafeWorker):
        made = worker_class(["train"], connection=client)
        client.config_resetstat()
        made.register_birth()
        counted.append(calls(client))

    stock, safe = counted
    assert safe == stock
    assert safe["cmdstat_hset"] == 1
