"""Workers on a Redis that goes away and comes back. Jobs write a ledger of their own, so nothing hides what was run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel
from rq import Queue
from rq.command import send_shutdown_command
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus

from ebbtide.demo.embedded import HOST
from ebbtide.demo.embedded_redis import connect
from tests.builders.redis import DEADLINE, wait_until
from tests.harness.real_jobs import Turn, read_ledger, work
from tests.harness.real_workers import KeptRedis
from tests.paths import ROOT
from tests.redis_faults.redis_server import redis_server, sentinel

RQ = Path(sys.executable).with_name("rq")
SAFE = "ebbtide.jobs.rq_worker.SafeWorker"
QUEUE = "train"


class Stage:
    """One Redis, and workers whose words are kept. Everything ends with `with`."""

    redis: KeptRedis

    def __init__(self, folder: Path, rq: Path = RQ) -> None:
        self._rq = rq
        self.said = folder / "said"
        self._ledger = folder / "ledger"
        self._undo = ExitStack()

    def __enter__(self) -> "Stage":
        self.redis = self._undo.enter_context(KeptRedis())
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    @property
    def where(self) -> tuple[str, ...]:
        return ("-u", f"redis://{HOST}:{self.redis.port}")

    def client(self) -> Redis:
        return connect(self.redis.port)

    def worker(self, *options: str, kind: str = SAFE, wrapper: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        """Not waited for. It beats each second while it has a job."""
        settings = (*self.where, "-w", kind, "--job-monitoring-interval", "1", *options)
        with self.said.open("ab") as said:
            process = subprocess.Popen(
                [*wrapper, str(self._rq), "worker", *settings, QUEUE],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self._undo.callback(_end, process)
        return process

    def ready_worker(self, *options: str, kind: str = SAFE) -> "subprocess.Popen[bytes]":
        process = self.worker(*options, kind=kind)
        wait_until(self.somebody_pops, "the worker to wait in its pop")
        return process

    def somebody_pops(self) -> object:
        return self.asked(lambda client: client.info("clients")["blocked_clients"])

    def enqueue(self, number: int, seconds: float, *, delay: float | None = None, **options: Any) -> str:
        with self.client() as client:
            queue, what = Queue(QUEUE, connection=client), (work, str(self._ledger), number, seconds)
            if delay is None:
                return str(queue.enqueue(*what, **options).id)
            return str(queue.enqueue_in(timedelta(seconds=delay), *what, **options).id)

    def turns(self, number: int) -> list[Turn]:
        return [turn for turn in read_ledger(self._ledger).turns if turn.number == number]

    def begun(self, number: int) -> bool:
        return bool(self.turns(number))

    def ended(self, number: int) -> bool:
        return any(turn.finished is not None for turn in self.turns(number))

    def is_finished(self, job: str) -> bool:
        """As RQ tells it."""
        return bool(self.asked(lambda client: Job.fetch(job, connection=client).get_status() is JobStatus.FINISHED))

    def asked(self, question: Callable[[Redis], object]) -> object:
        """None while Redis, or RQ, does not know."""
        try:
            with self.client() as client:
                return question(client)
        except (RedisError, NoSuchJobError):
            return None

    def tell_to_stop(self) -> None:
        """The only worker, by RQ's own command: a message of Redis to who listens."""
        wait_until(lambda: self.asked(lambda client: client.pubsub_channels("rq:pubsub:*")), "the worker to listen")
        with self.client() as client:
            [channel] = cast("list[bytes]", client.pubsub_channels("rq:pubsub:*"))
            send_shutdown_command(client, channel.decode().removeprefix("rq:pubsub:"))

    @contextmanager
    def outage(self, kind: str) -> Generator[None]:
        match kind:
            case "killed" | "data lost":
                self.redis.kill(forget=kind == "data lost")
                yield
                self.redis.start()
            case "frozen":
                self.redis.signal(signal.SIGSTOP)
                yield
                self.redis.signal(signal.SIGCONT)
            case "full":
                with self.client() as client:
                    client.config_set("maxmemory", 1)
                    yield
                    client.config_set("maxmemory", 0)
            case "dropped":
                with self.client() as client:
                    client.client_kill_filter(_type="normal", skipme=True)
                    client.client_kill_filter(_type="pubsub", skipme=True)
                yield
            case other:
                raise ValueError(other)


class StageWithSentinel(Stage):
    """A primary, its replica and the Sentinel that promotes it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def __enter__(self) -> "StageWithSentinel":
        enter = self._undo.enter_context
        self.primary = enter(redis_server(self._folder))
        self._replica = enter(redis_server(self._folder, "--replicaof", HOST, str(self.primary.port)))
        self._port = enter(sentinel(self._folder, self.primary.port))
        settings = {"INSTANCES": [(HOST, self._port)], "MASTER_NAME": "jobs"}
        (self._folder / "sentinel_settings.py").write_text(f"SENTINEL = {settings!r}\n")
        with Redis(port=self._port) as asked:
            wait_until(lambda: asked.sentinel_slaves("jobs"), "the Sentinel to know the replica")
        wait_until(lambda: self._in_step(), "the replica to be in step")
        return self

    def _in_step(self) -> bool:
        with self._replica.client() as client:
            return client.info("replication")["master_link_status"] == "up"

    @property
    def where(self) -> tuple[str, ...]:
        return ("-c", "sentinel_settings", "-P", str(self._folder))

    def client(self) -> Redis:
        finder = Sentinel([(HOST, self._port)], sentinel_kwargs={"socket_timeout": 2})
        return finder.master_for("jobs", socket_timeout=2, retry=Retry(NoBackoff(), 0))

    def has_failed_over(self) -> bool:
        try:
            with self._replica.client() as client:
                return client.info("replication")["role"] == "master"
        except RedisError:
            return False  # it lets its clients go as it changes


def a_job_outlives(stage: Stage, kind: str) -> None:
    """It begins, ends and has nowhere to put its result; it ran once, and its worker goes on and hears commands."""
    worker = stage.ready_worker()
    job = stage.enqueue(1, 3.0)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.outage(kind):
        wait_until(lambda: stage.ended(1), "the job to end")
        time.sleep(1.5)  # its result has nowhere to go

    wait_until(lambda: stage.is_finished(job), "the result")
    stage.enqueue(2, 0.1)
    wait_until(lambda: stage.ended(2), "the same worker to do the next job")
    assert worker.poll() is None
    stage.tell_to_stop()  # heard again
    assert worker.wait(DEADLINE) == 0
    assert len(stage.turns(1)) == 1


def _end(process: "subprocess.Popen[bytes]") -> None:
    """With the process of its job, which has a group of its own and the same session."""
    for found in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = found.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(words[3]) == process.pid:  # its session
            try:
                os.kill(int(found.parent.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()
