"""A Redis that goes away and comes back under the workers of each framework: a job that runs is run once."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import CELERY_PREFORK, CELERY_SOLO, LIST_WORKER, RQ_SAFE, Framework, OutageScene
from tests.builders.redis import DEADLINE, wait_until
from tests.counts import count

pytestmark = pytest.mark.backends

KINDS = ("killed", "frozen", "full", "data lost", "dropped")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_worker = pytest.mark.parametrize(
    "framework", [RQ_SAFE, LIST_WORKER, CELERY_PREFORK, CELERY_SOLO], ids=lambda framework: framework.name
)


@pytest.fixture
def scene(framework: Framework, tmp_path: Path) -> Iterator[OutageScene]:
    try:
        built = OutageScene(framework, tmp_path)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()


@each_worker
@each_kind
def test_a_job_that_runs_and_ends_while_redis_is_away_is_run_once(scene: OutageScene, kind: str) -> None:
    worker = scene.worker()
    scene.enqueue(("1", 3.0))
    wait_until(lambda: scene.stage.begun(1), "the job to begin")

    with scene.stage.outage(kind):
        wait_until(lambda: scene.stage.ended(1), "the job to end")
        time.sleep(2)

    wait_until(lambda: scene.stage.asked(lambda _: scene.read().in_flight == 0), "the job to be settled")
    scene.enqueue(("2", 0))
    wait_until(lambda: scene.stage.ended(2), "the same worker to do the next job")
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE) == 0
    assert len(scene.stage.turns(1)) == 1


@pytest.mark.parametrize("framework", [CELERY_PREFORK, CELERY_SOLO], ids=lambda framework: framework.name)
def test_a_task_with_a_checkpoint_that_ends_while_redis_is_away_does_not_fail(
    scene: OutageScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = {"store": str(tmp_path / "store"), "every": 0, "saveWithin": 1, "required": True, "openWithin": 60}
    monkeypatch.setenv("EBBTIDE_CHECKPOINTS", json.dumps(section))
    monkeypatch.setenv("TEST_KEEP", "1")
    log = tmp_path / "worker.log"
    with log.open("ab") as scene.said:
        scene.worker()
    scene.enqueue(("1", 3.0))
    wait_until(lambda: scene.stage.begun(1), "the job to begin")

    with scene.stage.outage("killed"):
        wait_until(lambda: scene.stage.ended(1), "the job to end")
        time.sleep(2)

    wait_until(lambda: scene.stage.asked(lambda _: scene.read().in_flight == 0), "the job to be settled")
    assert "raised unexpected" not in log.read_text()
    assert len(scene.stage.turns(1)) == 1


@each_worker
def test_a_job_is_run_once_however_often_the_connection_breaks(scene: OutageScene) -> None:
    worker = scene.worker()
    scene.enqueue(("1", 4.0))
    wait_until(lambda: scene.stage.begun(1), "the job to begin")

    for _ in range(2):
        with scene.stage.outage("dropped"):
            time.sleep(1.5)

    wait_until(lambda: scene.stage.ended(1), "the job to end")
    wait_until(lambda: scene.read().in_flight == 0, "the job to be settled")
    assert worker.poll() is None
    assert len(scene.stage.turns(1)) == 1


@each_worker
def test_told_to_stop_while_redis_is_away_a_worker_without_a_job_leaves(scene: OutageScene) -> None:
    worker = scene.worker()

    with scene.stage.outage("killed"):
        time.sleep(2)
        worker.send_signal(signal.SIGTERM)
        worker.wait(DEADLINE)


# Celery's prefork pool is busy connecting anew then, and leaves its task to run again: docs/reference/backends.md.
@pytest.mark.parametrize("framework", [RQ_SAFE, LIST_WORKER, CELERY_SOLO], ids=lambda framework: framework.name)
def test_told_to_stop_while_redis_is_away_a_worker_settles_its_job_first(scene: OutageScene) -> None:
    worker = scene.worker()
    scene.enqueue(("1", 3.0))
    wait_until(lambda: scene.stage.begun(1), "the job to begin")

    with scene.stage.outage("killed"):
        time.sleep(1)
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: scene.stage.ended(1), "the job to end")
        time.sleep(2)
        assert worker.poll() is None

    worker.wait(DEADLINE)
    # A report that could not be taken back counts until it expires.
    wait_until(lambda: scene.read().in_flight == 0, "the job to be settled")
    assert len(scene.stage.turns(1)) == 1


@pytest.mark.long
@pytest.mark.parametrize("framework", [RQ_SAFE, LIST_WORKER], ids=lambda framework: framework.name)
def test_a_job_that_outlives_its_heartbeats_in_an_outage_is_not_given_to_the_worker_beside(scene: OutageScene) -> None:
    scene.worker(TEST_NAME="first")
    scene.enqueue(("1", 100.0))
    wait_until(lambda: scene.stage.begun(1), "the job to begin")
    scene.start(TEST_NAME="second")
    time.sleep(2)

    with scene.stage.outage("killed"):
        time.sleep(count(full=92, part=40))  # RQ's patience is 90 s, that of the list worker 30 s

    wait_until(lambda: scene.stage.ended(1), "the job to end", limit=100)
    wait_until(lambda: scene.read().in_flight == 0, "the job to be settled")
    assert len(scene.stage.turns(1)) == 1
