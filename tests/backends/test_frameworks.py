"""What only one framework does: its dead workers, its delayed jobs, what it hides."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from rq import Queue

from controllers.ports import Known, ObservedPod, ObservedPool, PodPhase, Unknown
from controllers.reconciling import Expectations
from controllers.scaler.workers.decision import Reason
from controllers.scaler.workers.reconcile import PoolReconciler
from tests.backends.frameworks import (
    CELERY_BARE,
    CELERY_PREFORK,
    CELERY_SOLO,
    LIST_WORKER,
    POD,
    QUEUE,
    RQ2_OWN_INTERVALS,
    RQ2_SAFE,
    RQ2_SCHEDULING,
    RQ_OWN_INTERVALS,
    RQ_SAFE,
    RQ_SCHEDULING,
    RQ_STOCK,
    Scene,
)
from tests.builders.controllers import NOON, config, pool_policy
from tests.builders.redis import DEADLINE, wait_until

pytestmark = pytest.mark.backends

SCHEDULER_LOCK = "rq:scheduler-lock:train"


def on(*frameworks: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("framework", frameworks, ids=lambda framework: framework.name)


def kill_in_its_job(scene: Scene, **variables: str) -> None:
    worker = scene.worker(**variables)
    scene.enqueue(("a", 30))
    wait_until(lambda: scene.begun("a"), "the job to begin")
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


# --- RQ ---------------------------------------------------------------------------------------------------------------


@on(RQ_STOCK)
def test_rq_job_of_a_dead_worker_is_stale_once_its_deadline_has_passed(scene: Scene) -> None:
    kill_in_its_job(scene)
    assert scene.read().running == 1
    [entry] = cast("list[bytes]", scene.client.zrange("rq:wip:train", 0, -1))
    scene.client.zadd("rq:wip:train", {entry: time.time() - 1})  # in place of the 90 s that RQ gives it

    assert (scene.read().running, scene.read().stale) == (0, 1)


@on(RQ_SAFE)
def test_rq_job_that_is_due_soon_is_seen(scene: Scene) -> None:
    queue = Queue(QUEUE, connection=scene.client)
    queue.enqueue_in(timedelta(seconds=30), "rq_app.job", "a", 0)
    queue.enqueue_in(timedelta(hours=5), "rq_app.job", "b", 0)

    assert (scene.read().due_soon, scene.read().in_flight) == (1, 0)


@on(RQ_SCHEDULING, RQ2_SCHEDULING)
def test_rq_job_that_is_overdue_beside_a_busy_worker_brings_a_free_one_that_moves_it(scene: Scene) -> None:
    scene.client.set(SCHEDULER_LOCK, "of a worker that is gone", ex=5)
    scene.worker()
    scene.enqueue(("a", 60))
    wait_until(lambda: scene.begun("a"), "the job to begin")
    queue = Queue(QUEUE, connection=scene.client)
    queue.enqueue_at(datetime.now(UTC) - timedelta(seconds=40), "rq_app.job", "b", 0)
    wait_until(lambda: not scene.client.exists(SCHEDULER_LOCK), "the lock to be free")
    time.sleep(3)

    seen = scene.read()
    pod = ObservedPod(name=POD, phase=PodPhase.RUNNING)
    pool = PoolReconciler(pool_policy(), config(), Expectations[int]())
    report = pool.reconcile(NOON, ObservedPool(replicas=1, existing=1, pods=(pod,)), seen).report

    assert (seen.running, seen.stale, scene.begun("b")) == (1, 1, False)
    assert (report.wanted, report.reason) == (2, Reason.CHORES)
    scene.start()
    wait_until(lambda: scene.ended("b"), "the second worker to move the job and to do it", limit=30)
    assert not scene.ended("a")


def children(process: "subprocess.Popen[bytes]") -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@on(RQ_OWN_INTERVALS, RQ2_OWN_INTERVALS)
def test_rq_worker_that_ends_gives_up_the_lock_of_a_scheduler_that_does_not_stop(scene: Scene) -> None:
    ending = scene.worker()
    ours = scene.client.get(SCHEDULER_LOCK)
    assert ours is not None
    for scheduler in children(ending):
        os.kill(scheduler, signal.SIGSTOP)

    ending.send_signal(signal.SIGTERM)

    assert ending.wait(DEADLINE) == 0
    assert scene.client.get(SCHEDULER_LOCK) is None


@on(RQ_OWN_INTERVALS, RQ2_OWN_INTERVALS)
def test_rq_worker_that_ends_keeps_the_lock_of_another(scene: Scene) -> None:
    scene.client.set(SCHEDULER_LOCK, "another's", ex=600)
    ending = scene.worker()

    ending.send_signal(signal.SIGTERM)

    assert ending.wait(DEADLINE) == 0
    assert scene.client.get(SCHEDULER_LOCK) == b"another's"


@on(RQ_OWN_INTERVALS, RQ2_OWN_INTERVALS)
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_rq_idle_worker_takes_the_scheduling_over_from_one_that_ended(scene: Scene, end: signal.Signals) -> None:
    leader = scene.worker()
    leading = scene.client.get(SCHEDULER_LOCK)
    scene.start()
    wait_until(lambda: len(worker_states(scene)) == 2, "the second worker")
    wait_until(lambda: scene.client.info("clients")["blocked_clients"] == 2, "its pop")  # pyright: ignore[reportIndexIssue] - no future

    os.killpg(leader.pid, end)  # the scheduler gets the signal, too
    leader.wait(DEADLINE)
    if end is signal.SIGKILL:
        scene.client.expire(SCHEDULER_LOCK, 1)  # in place of the 61 s that RQ gives it
    Queue(QUEUE, connection=scene.client).enqueue_at(datetime.now(UTC), "rq_app.job", "due", 0)

    wait_until(lambda: scene.ended("due"), "the job that is due")
    assert scene.client.get(SCHEDULER_LOCK) not in (None, leading)


@on(RQ_SCHEDULING, RQ2_SCHEDULING)
def test_rq_pod_of_two_workers_stays_busy_after_a_flush_while_one_has_a_job(scene: Scene) -> None:
    scene.worker()
    scene.enqueue(("a", 25))
    wait_until(lambda: scene.begun("a"), "the job to begin")
    scene.start()
    wait_until(lambda: len(worker_states(scene)) == 2, "the second worker")
    assert scene.read().idle == frozenset()
    scene.client.flushdb()

    seen: list[frozenset[str]] = []
    states: list[list[bytes]] = []
    until = time.monotonic() + 20
    while time.monotonic() < until:
        reading = scene.read_any()
        assert not isinstance(reading, Unknown)
        seen.append(reading.idle if isinstance(reading, Known) else reading.seen.idle)
        states.append(worker_states(scene))
        time.sleep(0.2)

    assert [b"idle"] in states  # the other registers first
    assert states[-1] == [b"busy", b"idle"]
    assert set(seen) == {frozenset()}


@on(RQ_SAFE, RQ2_SAFE)
@pytest.mark.parametrize("fault", ["another version", "another prefix"])
def test_rq_that_was_not_tried_is_refused_before_the_first_pop_in_one_line(scene: Scene, fault: str) -> None:
    scene.enqueue(("a", 0))
    python, (program, *options) = str(Path(scene.command()[0]).with_name("python")), scene.command()
    other = "import rq.version; rq.version.VERSION = '4.0.0'; " if fault == "another version" else ""
    prefix = {"RQ_KEY_PREFIX": "acme"} if fault == "another prefix" else {}
    code = f"{other}import sys; from rq.cli import main; sys.argv = {[program, *options]!r}; main()"
    done = subprocess.run(
        [python, "-c", code], env=scene.variables(**prefix), capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert ("got 4.0.0" if other else "got acme") in done.stderr
    assert scene.read().waiting == 1


def worker_states(scene: Scene) -> list[bytes]:
    keys = cast("set[bytes]", scene.client.smembers("rq:workers:train"))
    states = [cast("bytes | None", scene.client.hget(key, "state")) for key in keys]
    return sorted(state for state in states if state)


@on(RQ_STOCK)
def test_rq_stock_worker_strands_a_job_popped_a_moment_before_the_signal(scene: Scene) -> None:
    worker = scene.worker()
    os.killpg(worker.pid, signal.SIGSTOP)
    scene.enqueue(("a", 0))
    worker.send_signal(signal.SIGTERM)
    os.killpg(worker.pid, signal.SIGCONT)
    worker.wait(DEADLINE)

    assert not scene.begun("a")
    assert (scene.read().waiting, scene.read().in_transit) == (0, 1)  # why it must not declare a safe stop


# --- Celery -----------------------------------------------------------------------------------------------------------


@on(CELERY_BARE)
def test_celery_task_of_a_dead_worker_keeps_counting_while_nobody_tells_the_timeout(scene: Scene) -> None:
    kill_in_its_job(scene, TEST_VISIBILITY="0.5")
    time.sleep(0.6)

    assert (scene.read().running, scene.read().stale) == (1, 0)


@on(CELERY_SOLO)
def test_celery_task_of_a_dead_worker_is_stale_once_a_report_tells_the_timeout(scene: Scene) -> None:
    patience = {"TEST_VISIBILITY": "5", "TEST_RESTORE": "3600"}
    worker = scene.worker(**patience)
    scene.enqueue(("a", 60))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    scene.start(**patience)  # as one starts, a worker puts back what is overdue by then
    wait_until(lambda: b"idle" in states(scene), "another worker")
    os.killpg(worker.pid, signal.SIGKILL)
    scene.client.delete(f"ebbtide:worker:train:{POD}.{worker.pid}")  # in place of the 15 s that a report lives

    seen = scene.read()
    assert (seen.in_flight, seen.stale) == (1, 0)  # of the last 15 s: another worker might just have taken it
    wait_until(lambda: (scene.read().running, scene.read().stale) == (0, 1), "the task to be stale")


@on(CELERY_PREFORK)
def test_celery_task_of_a_dead_worker_is_done_by_another_in_the_end(scene: Scene) -> None:
    worker = scene.worker(TEST_VISIBILITY="0.5")
    scene.enqueue(("a", 1.5))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    os.killpg(worker.pid, signal.SIGKILL)
    scene.start(TEST_VISIBILITY="0.5", TEST_RESTORE="0.2")

    wait_until(lambda: scene.ended("a"), "another worker to do it")


@on(CELERY_SOLO)
def test_celery_task_that_outlives_its_visibility_timeout_still_counts_as_running(scene: Scene) -> None:
    scene.worker(TEST_VISIBILITY="0.5", TEST_RESTORE="0.2")
    scene.worker(TEST_VISIBILITY="0.5", TEST_RESTORE="0.2")
    scene.enqueue(("a", 3))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    time.sleep(1.0)

    samples = list(scene.samples_until(lambda: scene.ended("a")))

    assert samples
    assert all(seen.running >= 1 for seen in samples)


@on(CELERY_PREFORK)
def test_celery_task_for_later_keeps_the_worker_that_holds_it_and_does_not_count(scene: Scene) -> None:
    scene.worker()
    scene.enqueue(("a", 0), countdown=3600)

    wait_until(lambda: scene.client.hlen("unacked") == 1, "the task to be held")
    wait_until(lambda: POD not in scene.read().idle, "the pod to count as busy")
    wait_until(lambda: (scene.read().waiting, scene.read().running) == (0, 0), "the report that the pod holds it")


@on(CELERY_PREFORK)
def test_celery_task_for_later_is_on_the_list_again_when_its_worker_leaves(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 0), countdown=3600)
    wait_until(lambda: scene.client.hlen("unacked") == 1, "the task to be held")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0
    assert (scene.client.llen(QUEUE), scene.client.hlen("unacked")) == (1, 0)
    assert scene.read().in_flight == 0  # it is due in an hour


@on(CELERY_BARE)
def test_celery_acknowledged_early_runs_in_no_key(scene: Scene) -> None:
    scene.worker(TEST_ACKS="early")
    scene.enqueue(("a", 2))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    assert scene.read().in_flight == 0  # why such a source is refused
    assert not scene.ended("a")


@on(CELERY_PREFORK)
def test_celery_head_of_the_queue_tells_how_long_it_waits(scene: Scene) -> None:
    scene.enqueue(("a", 0))
    time.sleep(0.2)

    wait = scene.read().oldest_wait

    assert wait is not None
    assert timedelta(seconds=0.1) < wait < timedelta(seconds=15)


@on(CELERY_PREFORK)
def test_celery_worker_that_is_told_to_stop_takes_no_further_task_into_its_hands(scene: Scene) -> None:
    worker = scene.worker(TEST_CONCURRENCY="2")
    scene.enqueue(("a", 3))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    wait_until(scene.somebody_pops, "the second pop")
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: states(scene) == {b"stopping"}, "the news")

    scene.enqueue(("b", 0))

    wait_until(lambda: scene.read().waiting == 1, "the task to be on the list again")
    assert not scene.ended("a")
    assert worker.wait(DEADLINE) == 0
    assert scene.ended("a")
    assert not scene.begun("b")


@on(CELERY_PREFORK, CELERY_SOLO)
@pytest.mark.parametrize("tries", [2, pytest.param(20, marks=pytest.mark.long)])
def test_celery_task_sent_to_the_pool_at_the_moment_of_the_signal_is_done_once(scene: Scene, tries: int) -> None:
    for number in range(tries):
        worker = scene.worker()
        scene.enqueue((str(number), 0.05))
        time.sleep(0.006 * (number % 7) / 6)
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(20) == 0  # the stock worker may take 30 s and leave a task that is done to be done again
        assert scene.ended(str(number)) != (scene.read().waiting == 1)
        scene.client.delete(QUEUE)


def states(scene: Scene) -> set[bytes]:
    keys: Iterator[bytes] = iter(cast("list[bytes]", scene.client.keys("ebbtide:worker:train:*")))
    return {cast("bytes", scene.client.hget(key, "state")) for key in keys}


# --- list -------------------------------------------------------------------------------------------------------------


@on(LIST_WORKER)
def test_list_payload_of_a_dead_consumer_is_stale_and_another_puts_it_back(scene: Scene) -> None:
    kill_in_its_job(scene, TEST_NAME="first")
    assert (scene.read().running, scene.read().stale) == (1, 0)
    scene.client.delete("train:consumer:first")  # in place of the 30 s that a heartbeat lives

    assert (scene.read().running, scene.read().stale) == (0, 1)
    scene.start(TEST_NAME="second")
    wait_until(lambda: scene.client.lrange("train:processing:second", 0, -1), "the other to take it")
    assert (scene.read().stale, scene.read().running) == (0, 1)


@on(LIST_WORKER)
def test_list_worker_that_was_restarted_does_what_it_left(scene: Scene) -> None:
    scene.enqueue(("a", 0))
    scene.client.lmove("train", f"train:processing:{POD}", "LEFT", "RIGHT")
    scene.client.sadd("train:consumers", POD)

    scene.start()

    wait_until(lambda: scene.ended("a"), "the payload to be handled")


@on(LIST_WORKER)
def test_list_payload_that_fails_is_kept_aside(scene: Scene) -> None:
    scene.worker()
    scene.client.rpush("train", "not what was wanted")

    wait_until(lambda: scene.client.lrange("train:failed", 0, -1) == [b"not what was wanted"], "the failed payload")
    wait_until(lambda: scene.read().in_flight == 0, "nothing in flight")


@on(LIST_WORKER)
def test_list_shared_by_all_consumers_cannot_tell_pod_from_pod(scene: Scene) -> None:
    scene.enqueue(("a", 0))
    scene.client.lmove("train", "train:processing", "LEFT", "RIGHT")

    assert (scene.read().running, scene.read().names_idle) == (1, False)
