"""The safe worker and its job outlive a Redis that is killed for some seconds. More in `tests/redis_faults`."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.redis import DEADLINE, wait_until
from tests.redis_faults.outages import Stage, a_job_outlives

pytestmark = pytest.mark.redis


@pytest.fixture
def stage(tmp_path: Path, rq_program: Path) -> Iterator[Stage]:
    with Stage(tmp_path, rq_program) as built:
        yield built


def test_a_job_that_runs_and_ends_while_redis_is_away_is_run_once_and_stored(stage: Stage) -> None:
    a_job_outlives(stage, "killed")


def test_on_sigterm_while_redis_is_away_a_worker_ends_when_its_job_is_done_and_stored(stage: Stage) -> None:
    worker = stage.ready_worker()
    job = stage.enqueue(1, 3.0)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.outage("killed"):
        time.sleep(1.5)  # a heartbeat waits
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: stage.ended(1), "the job to end")
        time.sleep(1.5)
        assert worker.poll() is None  # the result is not stored yet

    assert worker.wait(DEADLINE) == 0
    assert stage.is_finished(job)
    assert len(stage.turns(1)) == 1


def test_a_worker_whose_redis_was_restarted_can_be_stopped_in_its_pop(stage: Stage) -> None:
    """The number of its connection, by which the pop is ended, is different then."""
    worker = stage.ready_worker()
    with stage.outage("killed"):
        time.sleep(0.5)
    wait_until(stage.somebody_pops, "its pop on the new server")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0, stage.said.read_text()  # the pop would block for 405 s


def test_a_job_popped_a_moment_before_redis_went_away_is_done_once(stage: Stage) -> None:
    worker = stage.ready_worker(kind="tests.builders.jobs.SlowPopSafeWorker")
    job = stage.enqueue(1, 0.1)
    wait_until(lambda: stage.asked(lambda client: client.llen("test:popped")), "the pop")

    with stage.outage("killed"):
        time.sleep(2)

    wait_until(lambda: stage.is_finished(job), "the job")
    assert len(stage.turns(1)) == 1
    assert worker.poll() is None


def test_a_result_that_redis_does_not_take_is_given_up_after_a_while_with_one_clear_line(stage: Stage) -> None:
    stage.ready_worker(kind="tests.builders.jobs.ImpatientSafeWorker")
    job = stage.enqueue(1, 0.5)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.outage("killed"):
        wait_until(lambda: f"giving up on job {job}" in stage.said.read_text(), "the line")

    stage.enqueue(2, 0.1)
    wait_until(lambda: stage.ended(2), "the same worker to do the next job")
    assert not stage.is_finished(job)
    assert stage.said.read_text().count("giving up") == 1


def test_a_worker_that_cannot_go_on_lets_its_job_end_first(stage: Stage) -> None:
    worker = stage.ready_worker()
    stage.enqueue(1, 3.0)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.client() as client:
        [key] = client.smembers("rq:workers")  # pyright: ignore[reportGeneralTypeIssues] - bytes client
        client.set(key, "no hash any more")  # not an outage: no waiting helps
    worker.wait(DEADLINE)

    assert stage.ended(1)
