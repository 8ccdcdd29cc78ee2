"""Hundreds of tasks while workers stop at random instants, as Kubernetes stops pods: each task runs once.

In the long run the broker restarts, too. It then delivers unacknowledged tasks again, which no setting prevents: those
that run twice are printed with the reason, and a restart explains each of them.
"""

import itertools
import json
import math
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis import Redis

from controllers.ports import Known, Reading, Untrusted
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.rabbitmq.conftest import POD, RabbitScene
from tests.backends.rabbitmq.server import Rabbit
from tests.builders.redis import DEADLINE, wait_until
from tests.counts import count
from tests.harness.real_jobs import Ledger, Turn, read_ledger

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]

WORKERS = 3
LONGEST = 1.0  # seconds that a task takes
LATE = 1.0  # seconds after its end in which a task may still be unacknowledged


class LedgerScene(RabbitScene):
    """Tasks are numbers, and write their turns into a file."""

    def __init__(self, rabbit: Rabbit, server: EmbeddedRedis, client: Redis, folder: Path) -> None:
        self.ledger = folder / "ledger"
        super().__init__(rabbit, server, client)
        self.lines = folder / "lines"
        self.said = self._log = self.lines.open("ab")
        self._numbers = itertools.count()

    def command(self) -> list[str]:
        """Celery's workers of one host need names of their own on RabbitMQ: their control queues are exclusive."""
        return [*super().command(), "-n", f"{next(self._numbers)}@%h"]

    def close(self) -> None:
        super().close()
        self._log.close()

    def variables(self, **more: str) -> dict[str, str]:
        return super().variables(**{"TEST_LEDGER": str(self.ledger), **more})

    def done(self) -> Ledger:
        return read_ledger(self.ledger)

    def redelivered(self) -> set[int]:
        """Tasks whose message had the broker's flag for a repeated delivery when they began."""
        file = self.ledger.with_name("ledger.again")
        return set(map(int, file.read_text().split())) if file.exists() else set()


@pytest.fixture
def stopping(rabbit: Rabbit, server: EmbeddedRedis, client: Redis, tmp_path: Path) -> Iterator[LedgerScene]:
    rabbit.reset()
    try:
        with closing(LedgerScene(rabbit, server, client, tmp_path)) as scene:
            yield scene
    except NoEnvironment as error:
        pytest.skip(str(error))


@dataclass
class Run:
    """Tasks, and workers of which one at a time stops and is replaced; the controller reads all the time."""

    scene: LedgerScene
    chance: random.Random
    workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])
    stopped: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])
    restarts: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    freed: list[Turn] = field(default_factory=list[Turn])  # that ran although their pod could be removed

    doubts: Counter[str] = field(default_factory=Counter[str])  # reasons of readings that are not known

    def start(self, tasks: int) -> None:
        for number in range(tasks):
            self.scene.enqueue((str(number), self.chance.uniform(0, LONGEST)))
        self.workers += [self.scene.start() for _ in range(WORKERS)]

    def stop_one(self) -> None:
        """SIGTERM to the first process alone, as Kubernetes does; the replacement starts while it finishes."""
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        worker.send_signal(signal.SIGTERM)
        self.stopped.append(worker)
        self.workers.append(self.scene.start())

    def restart_broker(self) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor() as beside:
            restarting = beside.submit(self.scene.rabbit.restart)
            while not restarting.done():
                self.read()
            restarting.result()
        self.restarts.append((began, time.monotonic()))

    def read(self) -> None:
        at = time.monotonic()
        seen = self.scene.read_any()
        if isinstance(seen, Known) and (POD in seen.idle or not seen.in_flight):
            self.freed += [turn for turn in self.scene.done().turns if turn.started < at < (turn.finished or math.inf)]
        if not isinstance(seen, Known):
            self.doubts[seen.why] += 1
        time.sleep(self.chance.uniform(0, 0.5))

    def unexplained(self) -> list[int]:
        """Print the tasks that ran twice with the reason, and return those that the broker did not deliver twice."""
        numbers = Counter(turn.number for turn in self.scene.done().turns)
        twice = [number for number, turns in numbers.items() if turns > 1]
        flagged = self.scene.redelivered()
        without: list[int] = []
        for number in twice:
            first = next(turn for turn in self.scene.done().turns if turn.number == number)
            end = (first.finished or math.inf) + LATE
            in_time = any(first.started < back and down < end for down, back in self.restarts)
            explained = in_time and number in flagged
            flag = "the broker's flag redelivered" if number in flagged else "no flag of the broker"
            reason = "the broker restarted before the acknowledgement" if explained else "unexplained"
            print(f"task {number} ran {numbers[number]} times: {flag}; {reason}")
            without += [] if explained else [number]
        print(*[f"{readings} readings: {why}" for why, readings in self.doubts.items()], sep="\n")
        print(f"{len(numbers)} tasks, {len(self.stopped)} stops, {len(self.restarts)} restarts: {len(twice)} ran twice")
        return without


@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
@pytest.mark.parametrize(
    ("tasks", "stops", "restarts"),
    [
        (40, 5, 0),
        pytest.param(count(500, 100), count(40, 8), 0, marks=pytest.mark.long),
        pytest.param(count(300, 60), count(10, 2), count(3, 1), marks=pytest.mark.long),
    ],
    ids=["few", "many", "restarts"],
)
def test_each_task_runs_once_unless_a_restart_of_the_broker_delivers_it_again(
    stopping: LedgerScene, monkeypatch: pytest.MonkeyPatch, tasks: int, stops: int, restarts: int, quorum: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    monkeypatch.setenv("TEST_CONF", json.dumps({"task_default_queue_type": "quorum" if quorum else "classic"}))
    run = Run(stopping, random.Random(seed))
    faults = [(run.chance.uniform(0.05, 0.9) * tasks, run.stop_one) for _ in range(stops)]
    faults += [((number + 1) * tasks / (restarts + 1), run.restart_broker) for number in range(restarts)]
    faults.sort(key=lambda fault: fault[0])

    run.start(tasks)
    finished, since = 0, time.monotonic()
    while finished < tasks or faults:
        run.read()
        before, finished = finished, len(stopping.done().finished)
        since = time.monotonic() if finished > before else since
        assert time.monotonic() - since < DEADLINE, f"{tasks - finished} tasks do not run: {stopping.read_any()}"
        if faults and faults[0][0] <= finished:
            faults.pop(0)[1]()

    codes = [worker.wait(60) for worker in run.stopped]
    wait_until(lambda: in_flight(stopping.read_any()) == 0, "the last acknowledgement")
    assert run.unexplained() == []
    assert run.freed == []
    # Those that SIGTERM reached before they had a handler had taken no task.
    assert set(codes) <= {0, -signal.SIGTERM}, stopping.lines.read_text()


def in_flight(seen: Reading) -> int | None:
    """Return the demand, also if it is not trusted: after a lost connection this host waits for workers that left."""
    known = seen.seen if isinstance(seen, Untrusted) else seen
    return known.in_flight if isinstance(known, Known) else None
