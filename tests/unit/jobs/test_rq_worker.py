"""The safe worker as a real process on a real Redis: whatever the moment of the signal, no job is lost."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus

from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand
from controllers.adapters.rq_backend import RQ
from controllers.ports import Known
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.builders.controllers import pool_policy
from tests.builders.jobs import BEGUN, POPPED, job
from tests.builders.redis import DEADLINE, endpoint, wait_until
from tests.paths import ROOT

pytestmark = pytest.mark.redis

SAFE = "ebbtide.jobs.rq_worker.SafeWorker"
SLOW_SAFE = "tests.builders.jobs.SlowPopSafeWorker"
SLOW_STOCK = "tests.builders.jobs.SlowPopStockWorker"
ONE_QUEUE, TWO_QUEUES = ("train",), ("train", "embed")

WorkerProcess = subprocess.Popen[bytes]
StartWorker = Callable[..., WorkerProcess]


@contextmanager
def started_workers(server: EmbeddedRedis, client: Redis, rq_program: Path) -> Generator[StartWorker]:
    started: list[WorkerProcess] = []

    def start(
        worker_class: str, queues: tuple[str, ...], *, wrapper: tuple[str, ...] = (), options: tuple[str, ...] = ()
    ) -> WorkerProcess:
        url = f"redis://{server.host}:{server.port}"
        command = [*wrapper, str(rq_program), "worker", "-q", "-w", worker_class, "-u", url, *options, *queues]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        started.append(process)
        wait_until(lambda: states(client) == [b"idle"], "the worker to be idle")
        wait_until(lambda: client.info("clients")["blocked_clients"], "its pop to block")
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def start_worker(server: EmbeddedRedis, client: Redis, rq_program: Path) -> Iterator[StartWorker]:
    with started_workers(server, client, rq_program) as start:
        yield start


def states(client: Redis) -> list[bytes | None]:
    workers = client.smembers("rq:workers")
    return [client.hget(key, "state") for key in workers]  # pyright: ignore[reportReturnType] - bytes client


def enqueue(client: Redis, seconds: float, queue: str = "train") -> Job:
    return Queue(queue, connection=client).enqueue(job, seconds)


def exit_code(process: WorkerProcess) -> int:
    return process.wait(DEADLINE)


@pytest.mark.parametrize("queues", [ONE_QUEUE, TWO_QUEUES], ids=["one queue", "two queues"])
def test_a_job_popped_a_moment_before_the_signal_is_done(
    client: Redis, start_worker: StartWorker, queues: tuple[str, ...]
) -> None:
    worker = start_worker(SLOW_SAFE, queues)
    popped = enqueue(client, 0.1)
    wait_until(lambda: client.llen(POPPED), "the pop")

    worker.send_signal(signal.SIGTERM)

    assert exit_code(worker) == 0
    assert popped.get_status() is JobStatus.FINISHED


def test_the_stock_worker_loses_that_job(client: Redis, start_worker: StartWorker) -> None:
    worker = start_worker(SLOW_STOCK, TWO_QUEUES)
    popped = enqueue(client, 0.1)
    wait_until(lambda: client.llen(POPPED), "the pop")

    worker.send_signal(signal.SIGTERM)

    assert exit_code(worker) == 0
    assert popped.get_status() is JobStatus.QUEUED  # and it is in no list any more
    assert client.llen("rq:queue:train") == 0


def test_after_a_signal_during_a_job_the_job_ends_and_no_other_is_taken(
    client: Redis, start_worker: StartWorker
) -> None:
    worker = start_worker(SAFE, ONE_QUEUE)
    running, waiting = enqueue(client, 0.6), enqueue(client, 0.1)
    wait_until(lambda: client.llen(BEGUN), "the job to begin")

    worker.send_signal(signal.SIGTERM)

    assert exit_code(worker) == 0
    assert running.get_status() is JobStatus.FINISHED
    assert waiting.get_status() is JobStatus.QUEUED
    assert client.llen("rq:queue:train") == 1


def test_a_second_sigterm_does_not_cut_the_job_short(client: Redis, start_worker: StartWorker) -> None:
    worker = start_worker(SAFE, ONE_QUEUE)
    running = enqueue(client, 2.0)
    wait_until(lambda: client.llen(BEGUN), "the job to begin")

    worker.send_signal(signal.SIGTERM)
    time.sleep(1.2)  # the stock worker forgives a second signal within one second
    worker.send_signal(signal.SIGTERM)

    assert exit_code(worker) == 0
    assert running.get_status() is JobStatus.FINISHED


@pytest.mark.parametrize("queues", [ONE_QUEUE, TWO_QUEUES], ids=["one queue", "two queues"])
def test_an_idle_worker_leaves_without_waiting_for_its_pop_to_time_out(
    client: Redis, start_worker: StartWorker, queues: tuple[str, ...]
) -> None:
    worker = start_worker(SAFE, queues)

    worker.send_signal(signal.SIGTERM)

    assert exit_code(worker) == 0  # the pop would block for 405 s
    assert client.smembers("rq:workers") == set()


def test_an_idle_worker_leaves_once_a_frozen_redis_answers_again(
    start_worker: StartWorker, server: EmbeddedRedis
) -> None:
    worker = start_worker(SAFE, ONE_QUEUE)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # the requests to end the pop go unanswered
        assert worker.poll() is None
    finally:
        os.kill(server.pid, signal.SIGCONT)

    assert exit_code(worker) == 0


def test_an_idle_worker_leaves_even_when_redis_is_gone(rq_program: Path) -> None:
    with EmbeddedRedis() as server, server.client() as client, started_workers(server, client, rq_program) as start:
        worker = start(SAFE, ONE_QUEUE)
        server.stop()
        worker.send_signal(signal.SIGTERM)

        exit_code(worker)  # it cannot say goodbye, but it goes


def test_the_request_to_stop_is_written_down_while_the_job_runs(client: Redis, start_worker: StartWorker) -> None:
    worker = start_worker(SAFE, ONE_QUEUE)
    enqueue(client, 0.8)
    wait_until(lambda: client.llen(BEGUN), "the job to begin")
    [key] = client.smembers("rq:workers")

    worker.send_signal(signal.SIGTERM)

    wait_until(lambda: client.hexists(str(key, "ascii"), "shutdown_requested_date"), "the date")  # pyright: ignore
    assert exit_code(worker) == 0


def test_as_process_one_of_a_container_it_stops_as_well(client: Redis, start_worker: StartWorker) -> None:
    wrapper = ("unshare", "--pid", "--fork", "--kill-child")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to make a process namespace")
    outer = start_worker(SAFE, ONE_QUEUE, wrapper=wrapper)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()

    os.kill(int(children[0]), signal.SIGTERM)

    assert exit_code(outer) == 0


def test_a_worker_that_redis_forgot_reports_again_that_it_is_idle(client: Redis, start_worker: StartWorker) -> None:
    start_worker(SAFE, ONE_QUEUE, options=("--worker-ttl", "17"))  # its pop ends after 2 s, and it beats

    client.flushall()

    wait_until(lambda: states(client) == [b"idle"], "the worker to be idle again")
    (key,) = client.smembers("rq:workers:train")
    assert client.hget(key, "hostname")


def test_a_worker_registers_its_options_and_handlers_before_its_first_job(
    server: EmbeddedRedis, client: Redis, start_worker: StartWorker
) -> None:
    start_worker(SAFE, ONE_QUEUE, options=("--max-jobs", "5", "--results-ttl", "-1"))
    key = client.smembers("rq:workers").pop()

    report = json.loads(cast("bytes", client.hget(key, "ebbtide")))

    assert report["signals"] == {"SIGTERM": "warm", "SIGQUIT": "default", "SIGINT": "warm"}
    told = ("burst", "max_jobs", "max_idle_time", "with_scheduler", "results_ttl")
    assert [report[name] for name in told] == [False, 5, None, False, -1]
    policy = pool_policy()
    with connect(endpoint(server), {}) as reader:
        seen = RedisDemand(reader, RQ, {"train": ("train",)}, {"train": policy}).read(["train"])["train"]
    assert isinstance(seen, Known)
    assert all(told in seen.warning for told in ("--max-jobs", "no worker has --with-scheduler", "--results"))


def test_a_handler_that_replaced_the_workers_is_registered_by_its_name(
    client: Redis, start_worker: StartWorker
) -> None:
    start_worker("tests.builders.jobs.RudeWorker", ONE_QUEUE)
    key = client.smembers("rq:workers").pop()

    signals = json.loads(cast("bytes", client.hget(key, "ebbtide")))["signals"]

    assert signals["SIGTERM"] == "tests.builders.jobs.RudeWorker.request_stop"
