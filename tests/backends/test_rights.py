"""The rights that the page about queues gives, with real workers: they do their work, and the reader reads it."""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.backends.frameworks import (
    CELERY_PREFORK,
    LIST_WORKER,
    QUEUE,
    RQ2_SCHEDULING,
    RQ_SCHEDULING,
    Framework,
    Scene,
)
from tests.builders.redis import DEADLINE, wait_until
from tests.redis_faults.rights import make_user

pytestmark = [
    pytest.mark.backends,
    pytest.mark.parametrize(
        "framework", [RQ_SCHEDULING, RQ2_SCHEDULING, CELERY_PREFORK, LIST_WORKER], ids=lambda framework: framework.name
    ),
]


def refusals(scene: Scene) -> list[str]:
    entries = cast("list[dict[str, str]]", scene.client.acl_log())
    return [f"{entry['reason']} {entry['object']}" for entry in entries]


@pytest.fixture(autouse=True)
def _users(scene: Scene, framework: Framework) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    for name in ("jobs", "reader"):
        make_user(scene.client, name, framework.backend.kind, QUEUE)
    scene.client.execute_command("ACL", "SETUSER", "jobs", "~test:*")  # where the tests' own jobs tell what they did
    scene.client.acl_log_reset()
    scene.log_in("jobs", "reader")
    yield
    scene.client.acl_deluser("jobs", "reader")


def test_workers_and_controller_need_no_other_rights(scene: Scene) -> None:
    worker = scene.worker()
    scene.enqueue(("a", 2.0), ("b", 0.1))
    wait_until(lambda: scene.begun("a"), "the job to begin")
    seen = scene.read()

    assert (seen.waiting, seen.running) == (1, 1)
    wait_until(lambda: scene.ended("b"), "the jobs to end")
    wait_until(lambda: scene.read().in_flight == 0, "nothing in flight")
    assert scene.read().seen_before
    worker.terminate()
    assert worker.wait(DEADLINE) == 0
    assert refusals(scene) == []
