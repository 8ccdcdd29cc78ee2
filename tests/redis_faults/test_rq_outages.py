"""The safe worker and its job outlive a Redis that is away, frozen, full, empty or failed over, however long."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from rq import Retry

from tests.builders.redis import DEADLINE, wait_until
from tests.counts import count
from tests.redis_faults.outages import Stage, StageWithSentinel, a_job_outlives

pytestmark = pytest.mark.redis_server

KINDS = ("killed", "frozen", "full", "data lost", "dropped")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as built:
        yield built


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_runs_and_ends_while_redis_is_away_is_run_once_and_stored(stage: Stage, kind: str) -> None:
    a_job_outlives(stage, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_without_a_job_waits_for_redis_and_takes_the_next_one(stage: Stage, kind: str) -> None:
    worker = stage.ready_worker("--worker-ttl", "17")  # its pop ends after 2 s, and it beats

    with stage.outage(kind):
        time.sleep(4)

    stage.enqueue(1, 0.1)
    wait_until(lambda: stage.ended(1), "the job")
    assert worker.poll() is None


@pytest.mark.parametrize("kind", ["killed", "full"])
def test_told_to_stop_while_redis_is_away_a_worker_without_a_job_leaves(stage: Stage, kind: str) -> None:
    worker = stage.ready_worker("--worker-ttl", "17")

    with stage.outage(kind):
        time.sleep(3)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0


@pytest.mark.parametrize("kind", ["killed", "full"])
def test_a_fresh_worker_waits_for_redis(stage: Stage, kind: str) -> None:
    with stage.outage(kind):
        worker = stage.worker()
        time.sleep(7)  # longer than redis-py tries
        assert worker.poll() is None

    stage.enqueue(1, 0.1)
    wait_until(lambda: stage.ended(1), "the job")
    assert stage.said.read_text().count("Redis cannot be used, waiting") == 1


@pytest.mark.parametrize("kind", ["killed", "full"])
def test_a_fresh_worker_that_waits_for_redis_can_be_stopped(stage: Stage, kind: str) -> None:
    with stage.outage(kind):
        worker = stage.worker()
        wait_until(lambda: "Redis cannot be used" in stage.said.read_text(), "the worker to wait")

        worker.send_signal(signal.SIGTERM)

        assert worker.wait(DEADLINE) == 0
    assert "Traceback" not in stage.said.read_text()


def test_a_fresh_worker_does_not_wait_for_another_password(stage: Stage) -> None:
    with stage.client() as client:
        client.config_set("requirepass", "secret")

    assert stage.worker().wait(DEADLINE) == 1


def test_told_to_stop_a_worker_does_not_outstay_a_result_that_was_given_up(stage: Stage) -> None:
    worker = stage.ready_worker(kind="tests.builders.jobs.ImpatientSafeWorker")
    stage.enqueue(1, 2.0)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.outage("killed"):
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: "giving up on job" in stage.said.read_text(), "the line")
        assert worker.wait(DEADLINE) == 0


def test_the_scheduler_of_a_worker_outlives_it_too_and_is_no_reason_to_stay(stage: Stage) -> None:
    worker = stage.ready_worker("--with-scheduler")
    with stage.outage("killed"):
        time.sleep(5)
    job = stage.enqueue(1, 0.1, delay=0.1)
    wait_until(lambda: stage.is_finished(job), "the job that was due")
    wait_until(stage.somebody_pops, "the next pop")

    with stage.outage("killed"):
        time.sleep(1.5)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0


@pytest.mark.parametrize("freeze", [False, True], ids=["dead", "frozen"])
def test_a_job_outlives_its_primary_which_a_sentinel_replaces(tmp_path: Path, freeze: bool) -> None:
    with StageWithSentinel(tmp_path) as stage:
        worker = stage.ready_worker("--worker-ttl", "17")  # no command waits longer than 12 s for an answer
        job = stage.enqueue(1, 3.0)
        wait_until(lambda: stage.begun(1), "the job to begin")

        stage.primary.process.send_signal(signal.SIGSTOP if freeze else signal.SIGKILL)
        wait_until(stage.has_failed_over, "the failover")

        wait_until(lambda: stage.is_finished(job), "the result")
        stage.enqueue(2, 0.1)
        wait_until(lambda: stage.ended(2), "the same worker to do the next job")
        assert worker.poll() is None
        stage.tell_to_stop()
        assert worker.wait(DEADLINE) == 0
        assert len(stage.turns(1)) == 1


def test_a_job_past_its_deadline_gets_a_last_chance_before_another_worker_gives_it_up(stage: Stage) -> None:
    """After an outage longer than RQ's patience that is every running job, at the moment that Redis is back."""
    impatient = "tests.builders.jobs.ImpatientSafeWorker"
    stage.ready_worker("--maintenance-interval", "1", kind=impatient)
    late = stage.enqueue(1, 6.0, retry=Retry(max=1))
    wait_until(lambda: stage.begun(1), "the job to begin")
    janitor = ("--worker-ttl", "16", "--maintenance-interval", "1")  # looks each second
    stage.ready_worker(*janitor, kind=impatient)

    with stage.client() as client:
        [start] = cast("list[bytes]", client.zrange("rq:wip:train", 0, -1))
        client.zadd("rq:wip:train", {"gone:with-its-worker": 5})
        for _ in range(20):  # its worker moves the deadline each second
            client.zadd("rq:wip:train", {start: time.time() - 5}, xx=True)
            time.sleep(0.1)

    wait_until(lambda: stage.is_finished(late), "the job")
    wait_until(
        lambda: stage.asked(lambda client: not client.zcard("rq:wip:train")), "the dead one to be given up", limit=30
    )
    assert len(stage.turns(1)) == 1


@pytest.mark.long
def test_the_time_limit_of_a_job_does_not_run_while_redis_is_away(stage: Stage) -> None:
    """RQ's worker kills the process of a job that is a minute over its time."""
    stage.ready_worker()
    job = stage.enqueue(1, 1.0, job_timeout=2)
    wait_until(lambda: stage.begun(1), "the job to begin")

    with stage.outage("killed"):
        time.sleep(66)

    wait_until(lambda: stage.is_finished(job), "the result")


NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS[: count(full=4, part=1)])
def test_a_job_of_two_minutes_is_run_once_whatever_a_minute_without_redis_brings(stage: Stage, kind: str) -> None:
    """As process 1 of a container, with RQ's own intervals, beside another worker that looks for jobs to give up."""
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"], check=False, stderr=-3).returncode:
        pytest.skip("needs the right to make a process namespace")
    options = ("--job-monitoring-interval", "30", "--worker-ttl", "60", "--maintenance-interval", "30")
    outer = stage.worker(*options, wrapper=NAMESPACE)
    wait_until(stage.somebody_pops, "the worker to wait in its pop")
    job = stage.enqueue(1, 120.0, job_timeout=600)
    wait_until(lambda: stage.begun(1), "the job to begin")
    stage.worker(*options)
    time.sleep(25)

    with stage.outage(kind):
        time.sleep(70)  # with the next heartbeat due in it, and the deadline at the end

    wait_until(lambda: stage.is_finished(job), "the result", limit=120)
    assert outer.poll() is None
    assert len(stage.turns(1)) == 1
