"""Pools that require checkpoints: what becomes of a job that opens none, in real workers of lists and Celery; and how
their hard ends are counted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.frameworks import BEGUN, CELERY_PREFORK, CELERY_SOLO, LIST_WORKER, QUEUE, Scene
from tests.builders.redis import DEADLINE, wait_until

pytestmark = pytest.mark.backends

HOPELESS = "ended hard 3 times without a new checkpoint"


def on(*frameworks: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("framework", frameworks, ids=lambda framework: framework.name)


@pytest.fixture
def log(scene: Scene, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "worker.log"
    with path.open("ab") as file:
        scene.said = file
        yield path


@pytest.fixture(autouse=True)
def _pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    section = {"store": str(tmp_path / "store"), "every": 0, "saveWithin": 1, "required": True, "openWithin": 1}
    monkeypatch.setenv("EBBTIDE_CHECKPOINTS", json.dumps(section))
    monkeypatch.setenv("TEST_KEEP", "1")


def begun(scene: Scene) -> list[str]:
    names: list[bytes] = scene.client.lrange(BEGUN, 0, -1)  # pyright: ignore[reportAssignmentType] - bytes client
    return [name.decode() for name in names]


@on(LIST_WORKER, CELERY_PREFORK, CELERY_SOLO)
def test_a_required_checkpoint_that_is_never_opened_fails_the_job_with_one_line(scene: Scene, log: Path) -> None:
    scene.worker()

    scene.enqueue(("waits", 600.0), ("next", 0.0))

    wait_until(lambda: "next all" in begun(scene), "the same worker to go on with the next job")
    assert "waits all" not in begun(scene)
    assert "has opened no checkpoint within 1 s, and its pool requires one" in log.read_text()
    wait_until(lambda: scene.client.hlen("unacked") == 0, "its message to be acknowledged")
    failed = [b"waits 600.0"] if scene.framework is LIST_WORKER else []
    assert scene.client.lrange(f"{QUEUE}:failed", 0, -1) == failed


@on(CELERY_PREFORK)
@pytest.mark.parametrize("name", ["dies", "dies-early"])
def test_three_hard_ends_of_a_task_without_a_new_checkpoint_fail_it(scene: Scene, log: Path, name: str) -> None:
    scene.worker()

    scene.enqueue((name, 0.0), ("next", 0.0))

    wait_until(lambda: HOPELESS in log.read_text(), "the task to fail")
    wait_until(lambda: "next all" in begun(scene), "the next task")
    assert begun(scene).count(name) == 3
    wait_until(lambda: not scene.client.hlen("unacked"), "both to be acknowledged")


@on(LIST_WORKER)
def test_three_hard_ends_of_a_payload_without_a_new_checkpoint_fail_it(scene: Scene, log: Path) -> None:
    scene.enqueue(("dies", 0.0))
    for _ in range(3):
        scene.start(TEST_NAME="me").wait(DEADLINE)

    scene.start(TEST_NAME="me")

    wait_until(lambda: scene.client.llen(f"{QUEUE}:failed") == 1, "the payload to fail")
    assert HOPELESS in log.read_text()
    assert scene.client.llen(QUEUE) == 0


@on(CELERY_PREFORK)
def test_a_task_that_fails_and_is_retried_has_ended_hard_never(scene: Scene) -> None:
    scene.worker()

    scene.enqueue(("fails", 0.0))

    wait_until(lambda: "fails all" in begun(scene), "its fifth attempt")
