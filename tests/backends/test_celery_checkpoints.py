"""Tasks with checkpoints, in real Celery workers of both pools."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.backends.frameworks import BEGUN, FRAMEWORKS, QUEUE, Scene
from tests.builders.redis import DEADLINE, wait_until

pytestmark = pytest.mark.backends

CELERY = [each for each in FRAMEWORKS if each.environment == "celery" and each.variables["TEST_HOOKS"] == "1"]
STEPS = [f"a {step}" for step in range(12)] + ["a all"]

hooked = pytest.mark.parametrize("framework", CELERY, ids=lambda framework: framework.name)
forking = pytest.mark.parametrize(
    "framework", [each for each in CELERY if "prefork" in each.command], ids=lambda framework: framework.name
)


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    monkeypatch.setenv("TEST_STORE", str(tmp_path / "store"))


def begun(scene: Scene) -> list[str]:
    names: list[bytes] = scene.client.lrange(BEGUN, 0, -1)  # pyright: ignore[reportAssignmentType] - bytes client
    return [name.decode() for name in names]


@hooked
def test_told_to_stop_a_task_pauses_and_another_worker_goes_on_where_it_was(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 0.3))
    wait_until(lambda: "a 2" in begun(scene), "the third step")
    scene.enqueue(("behind", 0.0))

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(DEADLINE) == 0
    waiting: list[bytes] = scene.client.lrange(QUEUE, 0, -1)  # pyright: ignore[reportAssignmentType] - bytes client
    assert len(waiting) == 2
    assert b'"redelivered": true' in waiting[-1]  # the end that is taken from next
    assert scene.client.hlen("unacked") == 0
    assert "a all" not in begun(scene)
    scene.worker()
    wait_until(lambda: "a all" in begun(scene), "the training to end")
    wait_until(lambda: scene.client.hlen("unacked") == 0, "its message to be acknowledged")
    assert [name for name in begun(scene) if name.startswith("a ")] == STEPS


@forking
def test_a_task_whose_process_is_killed_goes_on_in_another(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 0.3))
    wait_until(lambda: "a 2" in begun(scene), "the third step")

    found = subprocess.run(["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=True)
    for child in map(int, found.stdout.split()):
        os.kill(child, signal.SIGKILL)

    wait_until(lambda: "a all" in begun(scene), "the training to end")
    steps = begun(scene)
    assert [step for step in STEPS if step not in steps] == []
    assert len(steps) <= len(STEPS) + 1  # the step under way, at most
    wait_until(lambda: scene.client.hlen("unacked") == 0, "its message to be acknowledged")


@hooked
def test_a_worker_that_is_gone_leaves_its_task_to_the_next_after_the_visibility_timeout(scene: Scene) -> None:
    quick = {"TEST_VISIBILITY": "2", "TEST_RESTORE": "1"}
    worker = scene.worker(**quick)
    scene.enqueue(("a", 0.3))
    wait_until(lambda: "a 2" in begun(scene), "the third step")

    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    # Longer than the training takes now: a message whose time is over is given to a second worker while it runs.
    wait_until(lambda: not scene.somebody_pops(), "the worker to be gone")
    scene.worker(**quick)

    wait_until(lambda: "a all" in begun(scene), "the training to end")
    steps = begun(scene)
    assert [step for step in STEPS if step not in steps] == []
    assert steps.count("a 0") == 1


@hooked
def test_no_task_is_taken_until_the_store_can_be_used(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = str(tmp_path / "file").replace("\\", "")
    section = f'{{"store": "{store}", "every": 1, "saveWithin": 1, "required": false, "openWithin": 60}}'
    worker = scene.start(EBBTIDE_CHECKPOINTS=section)
    scene.enqueue(("a", 0.0))

    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(6)
    assert begun(scene) == []

    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE) == 0


@hooked
def test_a_task_that_is_run_in_place_is_no_job_and_ends(scene: Scene) -> None:
    """`apply()` and `task_always_eager` have no message, and so no delivery tag."""
    line = "import celery_app; celery_app.job.apply(('a', 0.0), throw=True)"
    program = str(Path(scene.command()[0]).with_name("python"))

    subprocess.run([program, "-c", line], env=scene.variables(), check=True)

    assert scene.ended("a")
