"""Job frameworks as the contract tests see them: real workers as processes, readings by the controller's own code."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import IO

from redis import Redis
from rq import Queue

from controllers.adapters.backend import Backend
from controllers.adapters.celery_backend import CELERY
from controllers.adapters.list_backend import LIST
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import RedisDemand, backend_of
from controllers.adapters.rq_backend import RQ
from controllers.ports import Known, Reading
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import PoolPolicy
from tests.backends.environments import environment
from tests.builders.redis import endpoint, wait_until
from tests.paths import ROOT
from tests.redis_faults.outages import Stage
from tests.redis_faults.rights import PASSWORD

BACKENDS = ROOT / "tests" / "backends"
QUEUE, MISSPELT, POD = "train", "trian", socket.gethostname()
BEGUN, ENDED = "test:begun", "test:ended"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One way to run a worker. What it promises is what the tests hold it to."""

    name: str
    backend: Backend
    environment: str
    command: tuple[str, ...]  # after the program, {url} is the server's
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    names_idle: bool = True
    gap_in_pop: bool = False  # a popped job is in no key for a moment
    safe_stop: bool = True


def _rq(name: str, worker: str, *more: str, safe_stop: bool) -> Framework:
    options = ("worker", "-q", "-w", worker, "--worker-ttl", "60", "-u", "{url}", *more, QUEUE)
    return Framework(name=name, backend=RQ, environment="rq", command=("rq", *options), safe_stop=safe_stop)


def _celery(name: str, pool: str, *, hooks: bool) -> Framework:
    options = ("-A", "celery_app", "worker", "-P", pool, "-l", "ERROR", "--without-mingle")
    return Framework(
        name=name,
        backend=CELERY,
        environment="celery",
        command=("celery", *options),
        variables={"TEST_HOOKS": str(int(hooks))},
        names_idle=hooks,
        gap_in_pop=True,
    )


RQ_STOCK = _rq("rq, stock worker", "rq.Worker", safe_stop=False)
RQ_SAFE = _rq("rq, SafeWorker", "ebbtide.jobs.rq_worker.SafeWorker", safe_stop=True)
# Quick to notice what was done to Redis meanwhile.
RQ_SCHEDULING = _rq(
    "rq, SafeWorker with a scheduler",
    "ebbtide.jobs.rq_worker.SafeWorker",
    *("--with-scheduler", "--worker-ttl", "18", "--maintenance-interval", "2", "--job-monitoring-interval", "15"),
    safe_stop=True,
)
RQ2_SCHEDULING = replace(RQ_SCHEDULING, name="rq 2, SafeWorker with a scheduler", environment="rq2")
RQ2_STOCK = replace(RQ_STOCK, name="rq 2, stock worker", environment="rq2")
RQ2_SAFE = replace(RQ_SAFE, name="rq 2, SafeWorker", environment="rq2")
# As in a pool with its own command: RQ's intervals, ten minutes and seven.
RQ_OWN_INTERVALS = _rq(
    "rq, SafeWorker with a scheduler and RQ's intervals",
    "ebbtide.jobs.rq_worker.SafeWorker",
    *("--with-scheduler", "--worker-ttl", "420"),
    safe_stop=True,
)
RQ2_OWN_INTERVALS = replace(
    RQ_OWN_INTERVALS, name="rq 2, SafeWorker with a scheduler and RQ's intervals", environment="rq2"
)
CELERY_PREFORK = _celery("celery, prefork", "prefork", hooks=True)
CELERY_SOLO = _celery("celery, solo", "solo", hooks=True)
CELERY_BARE = _celery("celery without our hooks", "prefork", hooks=False)
LIST_WORKER = Framework(
    name="list, ListWorker",
    backend=LIST,
    environment="list",
    command=("python", str(BACKENDS / "list_app.py")),
)
AMQP_WORKER = Framework(
    name="consumer, AmqpWorker",
    backend=CELERY,  # its messages are never in Redis
    environment="celery",  # which has the same client of AMQP
    command=("python", str(BACKENDS / "amqp_app.py")),
)
FRAMEWORKS = (RQ_STOCK, RQ_SAFE, RQ2_STOCK, RQ2_SAFE, CELERY_PREFORK, CELERY_SOLO, CELERY_BARE, LIST_WORKER)


class Scene:
    """One framework on one empty server. Workers that are left are killed at the end, by their process group."""

    def __init__(self, framework: Framework, server: EmbeddedRedis, client: Redis) -> None:
        self.framework = framework
        self.client = client
        self.server = server
        self.said: int | IO[bytes] = subprocess.DEVNULL  # where the workers' lines go
        self.url = f"redis://{server.host}:{server.port}/0"
        self._programs = environment(framework.environment)
        self._undo = ExitStack()
        # A killed worker's connection outlives it for a moment, and would pass for the next one's.
        wait_until(lambda: not self.somebody_pops(), "the workers of the test before to be gone")
        self._reader = self._undo.enter_context(connect(endpoint(server), {}))
        self._source = RedisDemand(self._reader, framework.backend, {name: [name] for name in (QUEUE, MISSPELT)})
        self._producer: subprocess.Popen[str] | None = None

    def close(self) -> None:
        self._undo.close()

    def log_in(self, workers: str, reader: str) -> None:
        """From now on as these users, with the password of `tests.redis_faults.rights`."""
        self.url = f"redis://{workers}:{PASSWORD}@{self.server.host}:{self.server.port}/0"
        where = replace(endpoint(self.server), username=reader, password_env="ANY")
        self._source.connection = self._undo.enter_context(connect(where, {"ANY": PASSWORD}))

    def read_any(self, queue: str = QUEUE) -> Reading:
        return self._source.read([queue])[queue]

    def read(self, queue: str = QUEUE) -> Known:
        seen = self.read_any(queue)
        assert isinstance(seen, Known), seen
        return seen

    def read_pool(self, policy: PoolPolicy) -> Reading:
        """As the controller reads a pool: with the names of its keys, and beside what its workers report."""
        backend = backend_of(policy.source, policy.celery, timedelta(minutes=5))
        source = RedisDemand(self._reader, backend, {policy.name: policy.queues}, {policy.name: policy})
        return source.read([policy.name])[policy.name]

    def variables(self, **more: str) -> dict[str, str]:
        found = f"{ROOT}{os.pathsep}{BACKENDS}"
        given = {**self.framework.variables, "TEST_REDIS": self.url, "PYTHONPATH": found, **more}
        return {**os.environ, **given}

    def command(self) -> list[str]:
        program, *options = self.framework.command
        return [str(self._programs / program), *(option.format(url=self.url) for option in options)]

    def start(self, *wrapper: str, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker's process, not waited for."""
        process = subprocess.Popen(
            [*wrapper, *self.command()],
            env=self.variables(**variables),
            stdout=self.said,
            stderr=self.said,
            start_new_session=True,
        )
        self._undo.callback(_end, process)
        return process

    def worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker that waits in its pop."""
        process = self.start(**variables)
        wait_until(self.somebody_pops, f"{self.framework.name} to wait in its pop")
        return process

    def control(self, *command: str) -> None:
        """Change a running Celery worker, as `celery control` does."""
        program = [str(self._programs / "celery"), "-A", "celery_app", "control", *command]
        subprocess.run(program, env=self.variables(), check=True, capture_output=True)

    def somebody_pops(self) -> bool:
        """Blocked on the queue now; asked twice, since Celery blocks for a second at a time and then again."""
        return any(
            client["cmd"] in {"brpop", "blmove"} and "b" in client["flags"] for client in self.client.client_list()
        )

    def enqueue(self, *jobs: tuple[str, float], countdown: float = 0) -> None:
        for name, seconds in jobs:
            if self.framework.backend is RQ:
                Queue(QUEUE, connection=self.client).enqueue("rq_app.job", name, seconds)
            elif self.framework.backend is LIST:
                self.client.rpush(QUEUE, f"{name} {seconds}")
            else:
                self._send_task(name, seconds, countdown)

    def _send_task(self, name: str, seconds: float, countdown: float) -> None:
        if self._producer is None:
            self._producer = subprocess.Popen(
                [str(self._programs / "python"), str(BACKENDS / "producer.py")],
                env=self.variables(TEST_HOOKS="1"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._undo.callback(_end, self._producer)
        assert self._producer.stdin is not None
        assert self._producer.stdout is not None
        self._producer.stdin.write(f"{name} {seconds} {countdown}\n")
        self._producer.stdin.flush()
        assert self._producer.stdout.readline() == "sent\n"

    def begun(self, name: str) -> bool:
        return name.encode() in self._names(BEGUN)

    def ended(self, name: str) -> bool:
        return name.encode() in self._names(ENDED)

    def _names(self, key: str) -> list[bytes]:
        return self.client.lrange(key, 0, -1)  # pyright: ignore[reportReturnType] - bytes client

    def samples_until(self, over: Callable[[], bool]) -> Iterator[Known]:
        """Readings taken one after the other while `over` is still false after them."""
        reading = self.read()
        while not over():
            yield reading
            reading = self.read()


class OutageScene(Scene):
    """On a Redis of its own that can go away; the jobs' names are numbers, and they write a ledger."""

    def __init__(self, framework: Framework, folder: Path) -> None:
        self.stage = Stage(folder)
        self.stage.__enter__()
        where = EmbeddedRedis()  # for its address: it is not started
        where.port = self.stage.redis.port
        super().__init__(framework, where, self.stage.client())
        self._ledger = {"TEST_LEDGER": str(folder / "ledger")}

    def close(self) -> None:
        super().close()
        self.client.close()
        self.stage.__exit__()

    def variables(self, **more: str) -> dict[str, str]:
        return super().variables(**self._ledger, **more)


def _end(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
