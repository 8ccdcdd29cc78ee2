"""The safe worker and its job outlive a Redis that is away, frozen, full or empty; the stock worker does not."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders_outages import Stage
from tests.builders_redis import wait_until

pytestmark = pytest.mark.redis

KINDS = ("killed", "frozen", "full", "data lost")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as built:
        yield built


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_runs_and_ends_while_redis_is_away_is_run_once_and_stored(stage: Stage, kind: str) -> None:
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
    assert worker.wait(15) == 0
    assert len(stage.turns(1)) == 1
