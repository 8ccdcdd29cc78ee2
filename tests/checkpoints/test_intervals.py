"""With the intervals of a rendered pool: machines end, and one idle worker of each queue takes the job over.

Printed, since no time is asserted: how long after the end of its machine each job went on.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.settings.sections.workers import Source
from ebbtide.settings.worker_command import worker_command
from tests.builders.components import worker_settings
from tests.builders.redis import wait_until
from tests.checkpoints.kills import Worker, cut_power
from tests.checkpoints.training import OPENED, steps_done, train, weights_after
from tests.counts import count
from tests.paths import ROOT

QUEUES = 10
STEPS = 700
STEP = 0.1  # seconds
KILLED_WITHIN = 50.0  # seconds: more than one pop of an idle worker and one heartbeat of a busy one


class Duel:
    """A job in its own queue, the worker that runs it, and an idle one."""

    def __init__(self, number: int, server: EmbeddedRedis, client: Redis, folder: Path) -> None:
        self._queue = Queue(f"train-{number}", connection=client)
        self._url = f"redis://{server.host}:{server.port}"
        self._client, self._folder = client, folder
        self.workers: list[Worker] = []
        self.job: Job = self._queue.enqueue(train, STEPS, STEP, str(folder / "store"), 0.0, result_ttl=-1)

    def start(self) -> None:
        program, *options = worker_command(worker_settings(source=Source(queues=(self._queue.name,))))
        command = [str(Path(sys.executable).with_name(program)), *options, "--url", self._url]
        with (self._folder / f"{self._queue.name}.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.workers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    @property
    def attempts(self) -> int:
        return int(self._client.llen(OPENED + self.job.id))  # pyright: ignore[reportArgumentType] - no future

    @property
    def is_over(self) -> bool:
        return self.job.get_status(refresh=True) in {JobStatus.FINISHED, JobStatus.FAILED}


@pytest.mark.long
@pytest.mark.skipif(count(1, 0) == 0, reason="it waits for five minutes")
@pytest.mark.timeout(1500)
def test_ten_ends_of_machines_with_the_intervals_of_a_pool(
    server: EmbeddedRedis, client: Redis, tmp_path: Path
) -> None:
    rng = random.Random(1)
    duels = [Duel(number, server, client, tmp_path) for number in range(QUEUES)]
    try:
        went_on = _waits(duels, rng)
        wait_until(lambda: all(duel.is_over for duel in duels), "the trainings to end", limit=300)
    finally:
        for duel in duels:
            for worker in duel.workers:
                cut_power(worker)
    print(f"went on after: {went_on[0]:.0f}..{median(went_on):.0f}..{went_on[-1]:.0f} s, {len(went_on)} ends")

    assert [duel.job.return_value() for duel in duels] == [weights_after(STEPS)] * QUEUES
    assert [set(steps_done(client, duel.job.id)) for duel in duels] == [set(range(STEPS))] * QUEUES
    assert max(len(steps_done(client, duel.job.id)) for duel in duels) <= STEPS + 1  # the step under way


def _waits(duels: list[Duel], rng: random.Random) -> list[float]:
    """Return the seconds from the end of the machine to the next attempt, the shortest first."""
    for duel in duels:
        duel.start()
    wait_until(lambda: all(duel.attempts for duel in duels), "the jobs to begin")
    for duel in duels:
        duel.start()
    begin = time.monotonic()
    ends = {begin + rng.uniform(10, KILLED_WITHIN): duel for duel in duels}
    for instant, duel in sorted(ends.items(), key=lambda entry: entry[0]):
        time.sleep(max(0.0, instant - time.monotonic()))
        cut_power(duel.workers[0])
    killed = {duel.job.id: instant for instant, duel in ends.items()}
    waits: dict[str, float] = {}

    def all_went_on() -> bool:
        for duel in duels:
            if duel.attempts > 1:
                waits.setdefault(duel.job.id, time.monotonic() - killed[duel.job.id])
        return len(waits) == len(duels)

    wait_until(all_went_on, "the jobs to go on", limit=400)
    return sorted(waits.values())
