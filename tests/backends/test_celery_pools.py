"""Celery as people run it, with real workers: several queues, delayed tasks, other names of keys, topics, settings."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from controllers.ports import Known, Untrusted
from ebbtide.vocabulary.controller_config import CeleryKeys, PoolPolicy
from tests.backends.frameworks import CELERY_BARE, CELERY_PREFORK, POD, QUEUE, Scene
from tests.builders.controllers import pool_policy
from tests.builders.redis import wait_until

pytestmark = pytest.mark.backends

POOL = replace(pool_policy(), source="celery", queues=(QUEUE,), jobs_per_worker=1, longest_job=timedelta(minutes=30))
hooked = pytest.mark.parametrize("framework", [CELERY_PREFORK], ids=lambda framework: framework.name)
bare = pytest.mark.parametrize("framework", [CELERY_BARE], ids=lambda framework: framework.name)
OPTIONS = {
    "global_keyprefix": "ml:",
    "sep": ":",
    "priority_steps": [0, 5],
    "unacked_key": "taken",
    "unacked_index_key": "taken_index",
}
KEYS = CeleryKeys(prefix="ml:", separator=":", priorities=(0, 5), unacked="taken", unacked_index="taken_index")


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the apps of workers and producer begin with."""

    def begin_with(**given: str) -> None:
        for name, text in given.items():
            monkeypatch.setenv(f"TEST_{name}", text)

    return begin_with


def known(scene: Scene, pool: PoolPolicy = POOL) -> Known:
    seen = scene.read_pool(pool)
    assert isinstance(seen, Known), seen
    return seen


def counts(scene: Scene, pool: PoolPolicy = POOL) -> tuple[int, int]:
    return known(scene, pool).waiting, known(scene, pool).running


def reports(scene: Scene, field: str, value: str, queue: str = QUEUE) -> bool:
    keys: list[bytes] = scene.client.keys(f"ebbtide:worker:{queue}:*")  # pyright: ignore[reportAssignmentType]
    return [scene.client.hget(key, field) for key in keys] == [value.encode()]


@hooked
def test_a_busy_worker_of_four_queues_is_one_running_task_of_its_pool(
    scene: Scene, options: Callable[..., None]
) -> None:
    options(QUEUES="train embed mail score")
    scene.worker()
    scene.enqueue(("a", 3))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    wait_until(lambda: reports(scene, "state", "busy", "score"), "the report")
    pool = replace(POOL, queues=("train", "embed", "mail", "score"))

    assert counts(scene, pool) == (0, 1)
    assert known(scene, pool).idle == frozenset()


@hooked
def test_delayed_tasks_keep_the_worker_that_holds_them_and_ask_for_no_other(scene: Scene) -> None:
    scene.worker()
    for number in range(30):
        scene.enqueue((str(number), 0), countdown=300)

    wait_until(lambda: reports(scene, "held", "30"), "the worker to hold all")

    assert scene.client.hlen("unacked") == 30
    assert counts(scene) == (0, 0)
    assert POD not in known(scene).idle


@hooked
def test_delayed_tasks_that_are_due_at_once_are_done_one_by_one_by_the_worker_that_holds_them(scene: Scene) -> None:
    scene.worker()
    for number in range(5):
        scene.enqueue((str(number), 2), countdown=2)
    wait_until(lambda: scene.begun("0"), "the first to begin")
    wait_until(lambda: reports(scene, "active", "1"), "the report")

    assert scene.client.hlen("unacked") >= 4
    assert counts(scene) == (0, 1)


@bare
def test_without_hooks_delayed_tasks_keep_one_worker(scene: Scene) -> None:
    scene.worker()
    for number in range(10):
        scene.enqueue((str(number), 0), countdown=300)
    wait_until(lambda: scene.client.hlen("unacked") == 10, "the worker to hold all")

    assert counts(scene) == (0, 1)


@hooked
def test_delayed_tasks_in_the_list_wait_until_a_node_could_start_for_them(scene: Scene) -> None:
    scene.enqueue(("later", 0), ("later-too", 0), countdown=3600)
    assert counts(scene) == (0, 0)
    assert known(scene).oldest_wait is None

    scene.enqueue(("soon", 0), countdown=200)
    assert counts(scene) == (1, 0)
    assert known(scene).oldest_wait == timedelta()


@hooked
def test_a_task_is_seen_under_every_name_that_keys_can_have(scene: Scene, options: Callable[..., None]) -> None:
    options(OPTIONS=json.dumps(OPTIONS), ROUTE=json.dumps({"priority": 7}))
    pool = replace(POOL, celery=KEYS)
    scene.enqueue(("a", 3))
    assert scene.client.llen("ml:train:5") == 1
    assert counts(scene, pool) == (1, 0)

    scene.start()
    wait_until(lambda: scene.begun("a"), "the task to begin")
    wait_until(lambda: reports(scene, "active", "1"), "the report")

    assert scene.client.hlen("ml:taken") == 1
    assert counts(scene, pool) == (0, 1)
    assert 0 < scene.client.ttl(scene.client.keys("ebbtide:worker:train:*")[0]) <= 15  # pyright: ignore
    assert scene.client.keys("ml:ebbtide*") == []
    wait_until(lambda: POD in known(scene, pool).idle, "the end")
    assert (known(scene, pool).seen_before, known(scene, pool).warning) == (True, "")


@hooked
def test_keys_of_other_names_are_a_condition_on_the_pool_with_and_without_workers(
    scene: Scene, options: Callable[..., None]
) -> None:
    options(OPTIONS=json.dumps(OPTIONS))
    scene.enqueue(("a", 2))

    without_worker = scene.read_pool(POOL)
    scene.start()
    wait_until(lambda: scene.begun("a"), "the task to begin")
    wait_until(lambda: reports(scene, "state", "busy"), "the report")
    with_worker = scene.read_pool(POOL)

    for seen in (without_worker, with_worker):
        assert isinstance(seen, Untrusted)
        for words in ('keyPrefix: "ml:"', 'separator: ":"', "priorities: [0, 5]", 'unackedKey: "taken"'):
            assert words in seen.why
    assert isinstance(with_worker, Untrusted)
    assert with_worker.seen.running == 1


@hooked
def test_a_task_of_a_topic_is_its_own_pools_alone(scene: Scene, options: Callable[..., None]) -> None:
    options(
        QUEUES="train=ml.gpu.# embed=ml.cpu.* mail",
        ROUTE=json.dumps({"exchange": "ml", "routing_key": "ml.gpu.big.train"}),
    )
    scene.worker()
    scene.enqueue(("a", 3))
    wait_until(lambda: scene.begun("a"), "the task to begin")
    held = [replace(POOL, name=queue, queues=(queue,)) for queue in ("train", "embed")]
    keys: list[bytes] = scene.client.keys("ebbtide:work*")  # pyright: ignore[reportAssignmentType]
    scene.client.delete(*keys)  # the worker serves all three queues: its report would count for each

    assert [counts(scene, pool) for pool in held] == [(0, 1), (0, 0)]


@hooked
def test_settings_that_repeat_or_hide_work_are_told_and_a_good_application_is_not(
    scene: Scene, options: Callable[..., None]
) -> None:
    options(CONF=json.dumps({"worker_prefetch_multiplier": 4}), CONCURRENCY="8")
    scene.worker(TEST_VISIBILITY="1200")
    wait_until(lambda: POD in known(scene).idle, "the report")

    warning = known(scene).warning

    assert "visibility_timeout is 20 min, and longestJob is 30 min" in warning
    assert "runs 8 tasks at once, and the pool counts 1" in warning
    assert "worker_prefetch_multiplier is 4" in warning
    good = replace(POOL, jobs_per_worker=8, longest_job=timedelta(minutes=20))
    assert "visibility" not in known(scene, good).warning
    assert "at once" not in known(scene, good).warning


@hooked
def test_an_application_without_faults_has_no_warning(scene: Scene) -> None:
    scene.worker()
    wait_until(lambda: POD in known(scene).idle, "the report")
    time.sleep(0.1)

    assert known(scene).warning == ""


ODD = replace(
    CELERY_PREFORK,
    name="celery with options that contradict a pool",
    command=(*CELERY_PREFORK.command, "--prefetch-multiplier", "4", "--time-limit", "7200", "-B", "-Q", "mail,train"),
)


@pytest.mark.parametrize("framework", [ODD], ids=lambda framework: framework.name)
def test_options_of_a_running_worker_are_a_condition_whatever_the_application_says(
    scene: Scene, tmp_path: Path
) -> None:
    conf = {"beat_schedule_filename": str(tmp_path / "schedule"), "result_backend": scene.url, "result_expires": 0}
    scene.worker(REMAP_SIGTERM="SIGQUIT", TEST_CONF=json.dumps(conf))
    wait_until(lambda: POD in known(scene).idle, "the report")

    warning = known(scene).warning

    assert "worker_prefetch_multiplier is 4" in warning
    assert "ends a task after 2 h, and longestJob is 30 min" in warning
    assert "workers start with --beat" in warning
    assert "results stay in Redis forever" in warning
    assert "broker_read_url" not in warning
    assert "serves mail, train, and the pool counts train" in warning
    assert "the SIGTERM of a stopping worker cancels its job (REMAP_SIGTERM=SIGQUIT)" in warning
    assert "safeStop" not in known(scene, replace(POOL, safe_stop=False)).warning


@hooked
def test_a_worker_that_reads_from_another_broker_is_a_condition(scene: Scene) -> None:
    scene.start(CELERY_BROKER_READ_URL=scene.url.replace("/0", "/1"))

    wait_until(lambda: "another broker (broker_read_url)" in known(scene).warning, "the report")


@hooked
def test_what_remote_control_changes_is_a_condition_while_it_lasts(scene: Scene) -> None:
    scene.worker()
    wait_until(lambda: POD in known(scene).idle, "the report")
    assert known(scene).warning == ""

    scene.control("pool_grow", "2")
    scene.control("add_consumer", "mail")

    wait_until(lambda: "serves mail, train, and the pool counts train" in known(scene).warning, "its queues")
    wait_until(lambda: "runs 3 tasks at once" in known(scene).warning, "its processes")

    scene.control("cancel_consumer", "mail")

    wait_until(lambda: "serves" not in known(scene).warning, "its own queue alone")
