"""Workers in training, killed repeatedly at random instants, and the outcome of their jobs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs.checkpoints.environment import VARIABLE
from tests.builders.redis import wait_until
from tests.checkpoints.training import steps_done, train, weights_after
from tests.paths import ROOT

STEPS = 30
STEPS_PER_OFFER = 3
STEP = 0.02  # seconds
PAUSE = (0.05, 0.35)  # seconds between two kills
AWAY = 0.7  # seconds that Redis or the store is away

SOFT, MACHINE, PROCESS, REDIS, STORE = "worker told to stop", "machine", "job's process", "Redis frozen", "store away"
HARD = (MACHINE, PROCESS)
Worker = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    jobs: int
    kills: Counter[str]
    lost: list[str]
    wrong: list[str]  # finished with other weights than an uninterrupted training
    repeated: int  # steps that were done more than once
    failed: list[str]

    @property
    def hard(self) -> int:
        return sum(self.kills[kind] for kind in HARD)


class Fleet:
    """As in a pool that requires checkpoints: a job that has not opened its own yet begins again, too."""

    def __init__(self, server: EmbeddedRedis, store: str, log: Path) -> None:
        section = {"store": store, "every": 0, "saveWithin": 90, "required": True, "openWithin": 600}
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: json.dumps(section)}
        self._command = [
            str(Path(sys.executable).with_name("rq")),
            *("worker", "-w", "tests.checkpoints.training.OftenKilledSafeWorker"),
            *("-u", f"redis://{server.host}:{server.port}", "train"),
        ]
        self._log = log
        self._workers: list[Worker] = []

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._workers.append(subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log))

    def tend(self, wanted: int) -> None:
        """Replace those that have ended."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < wanted:
            self.start()

    def strike(self, kind: str, rng: random.Random) -> bool:
        """Return whether there was something to end."""
        worker = rng.choice(self._workers)
        if kind == SOFT:
            worker.send_signal(signal.SIGTERM)
        elif kind == MACHINE:
            cut_power(worker)
        elif children := _children(worker.pid):
            _kill(children[0])
        else:
            return False
        return True

    def end(self) -> None:
        for worker in self._workers:
            cut_power(worker)


def kill_at_random(
    server: EmbeddedRedis,
    client: Redis,
    folder: Path,
    kinds: dict[str, int],
    *,
    kills: int,
    jobs: int,
    seed: int,
    store: str | None = None,
) -> Outcome:
    """`kinds`: the kinds of end and their weights. Jobs are added meanwhile, so that there is always work.
    `store`: a folder, unless another is given."""
    rng = random.Random(seed)
    queue = Queue("train", connection=client)
    shelf = folder / "store"
    where = store or str(shelf)
    made: list[Job] = []
    done: Counter[str] = Counter()
    fleet = Fleet(server, where, folder / "workers.log")
    try:
        while done.total() < kills:
            fleet.tend(2)
            if queue.count < 2:
                made += [queue.enqueue(train, STEPS, STEP, where, 0, STEPS_PER_OFFER, result_ttl=-1)]
            time.sleep(rng.uniform(*PAUSE))
            [kind] = rng.choices(list(kinds), list(kinds.values()))
            if kind in (REDIS, STORE):
                with _frozen(server) if kind == REDIS else _away(shelf):
                    time.sleep(AWAY)
                done[kind] += 1
            else:
                done[kind] += fleet.strike(kind, rng)
        made += [queue.enqueue(train, STEPS, STEP, where, 0, STEPS_PER_OFFER) for _ in range(jobs - len(made))]

        def all_ended() -> bool:
            fleet.tend(2)
            return all(job.get_status(refresh=True) in {JobStatus.FINISHED, JobStatus.FAILED} for job in made)

        with suppress(AssertionError):  # what is left then is lost
            wait_until(all_ended, "all jobs to end", limit=300)
    finally:
        fleet.end()
    return _outcome(client, made, done)


def _outcome(client: Redis, made: list[Job], done: Counter[str]) -> Outcome:
    statuses = {job.id: job.get_status(refresh=True) for job in made}
    finished = [job for job in made if statuses[job.id] is JobStatus.FINISHED]
    right = weights_after(STEPS)
    steps = {job.id: steps_done(client, job.id) for job in made}
    return Outcome(
        jobs=len(made),
        kills=done,
        lost=[f"{name}: {status}" for name, status in statuses.items() if status is not JobStatus.FINISHED],
        failed=[name for name, status in statuses.items() if status is JobStatus.FAILED],
        wrong=[job.id for job in finished if job.return_value() != right or set(steps[job.id]) != set(range(STEPS))],
        repeated=sum(len(each) - len(set(each)) for each in steps.values()),
    )


@contextmanager
def _frozen(server: EmbeddedRedis) -> Generator[None]:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def _away(store: Path) -> Generator[None]:
    """Make it unreadable and unwritable: a file takes its place."""
    if not store.exists():
        yield
        return
    aside = store.with_name("aside")
    store.rename(aside)
    store.write_text("")
    try:
        yield
    finally:
        store.unlink()
        aside.rename(store)


def cut_power(worker: Worker) -> None:
    if worker.poll() is None:
        worker.send_signal(signal.SIGSTOP)  # it makes no further process meanwhile
    _kill(worker.pid, *_children(worker.pid))
    worker.wait()


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def _kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
