"""SIGTERM before a worker is ready. Process 1 of a namespace never gets a signal that it has no handler for.

So a pod whose worker is process 1 and is stopped in its first moments lives on for the whole grace period, and takes
jobs meanwhile. With `shareProcessNamespace` the worker is not process 1, and the signal ends it at any moment.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.backends.frameworks import BACKENDS, CELERY_PREFORK, LIST_WORKER, QUEUE, RQ_SAFE, Scene
from tests.builders.redis import wait_until
from tests.processes import lives

pytestmark = pytest.mark.backends

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
INIT = (*NAMESPACE, sys.executable, str(BACKENDS / "tiny_init.py"))

each_worker = pytest.mark.parametrize(
    "framework", [RQ_SAFE, CELERY_PREFORK, LIST_WORKER], ids=lambda framework: framework.name
)


def permitted() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


needs_namespace = pytest.mark.skipif(not permitted(), reason="needs the right to make a process namespace")


def child_of(pid: int) -> int:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: listed.read_text().split(), f"a child of {pid}")
    return int(listed.read_text().split()[0])


def assert_the_job_is_accounted_for(scene: Scene) -> None:
    wait_until(lambda: scene.ended("a") or scene.read().waiting == 1, "the job to be done or to wait")


@needs_namespace
@each_worker
@pytest.mark.parametrize("moment", ["0 ms", "100 ms", "in mid-import"])
def test_behind_an_init_a_worker_ends_at_any_moment_and_the_job_waits(
    scene: Scene, moment: str, tmp_path: Path
) -> None:
    scene.enqueue(("a", 0.2))
    mark = tmp_path / "importing"
    outer = scene.start(*INIT, **({"TEST_IN_IMPORT": str(mark)} if moment == "in mid-import" else {}))
    worker = child_of(child_of(outer.pid))
    if moment == "100 ms":
        time.sleep(0.1)
    if moment == "in mid-import":
        wait_until(mark.exists, "the import")

    os.kill(worker, signal.SIGTERM)

    wait_until(lambda: not lives(worker), "the worker to end")
    assert_the_job_is_accounted_for(scene)


@needs_namespace
@each_worker
def test_as_process_one_a_signal_in_mid_import_is_dropped(scene: Scene, tmp_path: Path) -> None:
    mark = tmp_path / "importing"
    outer = scene.start(*NAMESPACE, TEST_IN_IMPORT=str(mark))
    worker = child_of(outer.pid)
    wait_until(mark.exists, "the import")

    os.kill(worker, signal.SIGTERM)

    wait_until(scene.somebody_pops, "the worker to wait for jobs all the same")
    assert lives(worker)


@needs_namespace
@each_worker
def test_as_process_one_a_worker_that_waits_in_its_pop_leaves(scene: Scene) -> None:
    outer = scene.start(*NAMESPACE)
    worker = child_of(outer.pid)
    wait_until(scene.somebody_pops, "the pop")

    os.kill(worker, signal.SIGTERM)

    wait_until(lambda: not lives(worker), "the worker to end")
    assert scene.client.llen(QUEUE) == 0
