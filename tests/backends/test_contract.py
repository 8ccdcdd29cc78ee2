"""What every backend is held to, on the real framework with real workers. A new backend adds its line to FRAMEWORKS."""

import os
import signal
import subprocess

import pytest

from tests.backends.frameworks import FRAMEWORKS, MISSPELT, POD, QUEUE, Scene
from tests.builders.redis import DEADLINE, wait_until

LISTS = (QUEUE, f"rq:queue:{QUEUE}")  # one framework's name of the queue or the other's

pytestmark = pytest.mark.backends

every = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
naming = pytest.mark.parametrize(
    "framework", [each for each in FRAMEWORKS if each.names_idle], ids=lambda framework: framework.name
)
stopping = pytest.mark.parametrize(
    "framework", [each for each in FRAMEWORKS if each.safe_stop], ids=lambda framework: framework.name
)


@every
def test_jobs_that_nobody_took_wait(scene: Scene) -> None:
    scene.enqueue(("a", 0), ("b", 0), ("c", 0))

    seen = scene.read()

    assert (seen.waiting, seen.in_transit, seen.running, seen.stale, seen.idle) == (3, 0, 0, 0, frozenset())


@every
def test_while_a_job_runs_no_reading_is_empty_and_its_pod_is_not_idle(scene: Scene) -> None:
    scene.worker()
    scene.enqueue(("a", 1.0))
    wait_until(lambda: scene.begun("a"), "the job to begin")

    samples = list(scene.samples_until(lambda: scene.ended("a")))

    assert len(samples) > 10
    assert {(seen.waiting, seen.running) for seen in samples} == {(0, 1)}
    assert all(POD not in seen.idle for seen in samples[len(samples) // 2 :])  # a report may come a moment late


@every
def test_after_the_work_nothing_is_in_flight(scene: Scene) -> None:
    scene.worker()
    scene.enqueue(("a", 0.1), ("b", 0.1))
    wait_until(lambda: scene.ended("b"), "the jobs to end")

    wait_until(lambda: scene.read().in_flight == 0, "nothing in flight")

    seen = scene.read()
    assert (seen.stale, seen.seen_before, seen.names_idle) == (0, True, scene.framework.names_idle)


@naming
def test_a_worker_without_a_job_makes_its_pod_idle(scene: Scene) -> None:
    scene.worker()

    wait_until(lambda: POD in scene.read().idle, "the pod to be idle")


@naming
def test_a_worker_that_left_is_no_longer_idle(scene: Scene) -> None:
    worker = scene.worker()
    wait_until(lambda: POD in scene.read().idle, "the pod to be idle")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0
    assert scene.read().idle == frozenset()


def frozen_with_a_job_in_its_pop(scene: Scene) -> "subprocess.Popen[bytes]":
    """Celery pops for a second at a time: one that was over at the moment of the signal takes no job, so try again."""
    worker = scene.worker()
    while True:
        wait_until(scene.somebody_pops, "the worker to wait in its pop")
        os.killpg(worker.pid, signal.SIGSTOP)
        if scene.somebody_pops():
            scene.enqueue(("a", 0))
            if not scene.client.exists(*LISTS):
                return worker
            scene.client.delete(*LISTS)
        os.killpg(worker.pid, signal.SIGCONT)


@every
def test_a_job_popped_by_a_worker_that_stands_still_is_seen_unless_the_framework_hides_it(scene: Scene) -> None:
    worker = frozen_with_a_job_in_its_pop(scene)

    seen = scene.read()

    os.killpg(worker.pid, signal.SIGCONT)
    assert seen.waiting == 0
    assert seen.in_flight == int(not scene.framework.gap_in_pop)  # the calm window covers what no key shows


@stopping
def test_a_job_popped_a_moment_before_the_signal_is_not_lost(scene: Scene) -> None:
    worker = frozen_with_a_job_in_its_pop(scene)

    worker.send_signal(signal.SIGTERM)
    os.killpg(worker.pid, signal.SIGCONT)

    assert worker.wait(DEADLINE) == 0
    assert scene.ended("a") or scene.read().waiting == 1


@every
def test_a_running_job_ends_before_its_worker_leaves_and_the_next_one_waits(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 1.5), ("b", 0))
    wait_until(lambda: scene.begun("a"), "the job to begin")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0
    assert (scene.ended("a"), scene.begun("b")) == (True, False)
    assert scene.read().waiting == 1


@every
def test_an_idle_worker_leaves_when_told(scene: Scene) -> None:
    worker = scene.worker()

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0


@every
def test_a_queue_that_nothing_ever_used_is_told_from_an_empty_one(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 0))
    wait_until(lambda: scene.ended("a"), "the job to end")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE) == 0

    used, other = scene.read(), scene.read(MISSPELT)

    assert (used.in_flight, used.seen_before, other.seen_before) == (0, True, False)
