"""The controller as it runs in the cluster: a process with its own account's token, against real servers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.documents import dump
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import Scene, make_scene
from tests.builders.redis import server, shared_server

__all__ = ["server", "shared_server"]  # fixtures

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, server: EmbeddedRedis, tmp_path: Path) -> Scene:
    return make_scene(control_plane, fresh, server, tmp_path)


def test_it_scales_opens_and_tells_why(scene: Scene) -> None:
    with scene.leader() as process:
        eventually(lambda: scene.max_unavailable() == 1, what="the opening")
        scene.enqueue("one", "two")
        eventually(lambda: scene.replicas() == 2, what="the growth")

        def growth() -> list[str]:
            told = [event["message"] for event in scene.events(scene.workers)]
            return [message for message in told if message.startswith("replicas 2: ")]

        (message,) = eventually(growth, what="the Event")
        assert "Events" in scene.plane.kubectl("-n", scene.workers, "describe", "deployment", "train")
        assert message in scene.plane.kubectl("-n", scene.workers, "describe", "deployment", "train")
        eventually(lambda: scene.events(scene.apps), what="the budget's Event")
        assert process.get("/healthz") == (200, "ok\n")
        assert process.get("/readyz") == (200, "ok\n")
        status = process.status()
        assert status["report"]["pools"][0]["reading"]["waiting"] == 2
        assert status["window"]["open"] is True
        assert status["config"] == {"good": True, "why": ""}
        assert 'ebbtide_pool_jobs{pool="train",part="waiting"} 2.0\n' in process.get("/metrics")[1]


def test_on_the_way_out_it_closes_the_budgets_and_frees_the_lease(scene: Scene) -> None:
    with scene.leader() as process:
        eventually(lambda: scene.max_unavailable() == 1, what="the opening")

        assert process.terminate() == 0
        assert scene.max_unavailable() == 0
        assert scene.lease_holder() == ""


def test_a_bad_config_closes_and_a_good_one_is_followed_without_a_restart(scene: Scene) -> None:
    scene.enqueue("one", "two", "three", "four")
    scene.write(dump(scene.config(most=2)))
    with scene.leader() as process:
        eventually(lambda: scene.replicas() == 2 and scene.max_unavailable() == 1, what="the first config")

        scene.write("{")
        eventually(lambda: scene.max_unavailable() == 0, what="the closing")
        assert process.status()["config"]["good"] is False
        assert scene.replicas() == 2

        scene.write(dump(scene.config(most=3)))
        eventually(lambda: scene.replicas() == 3 and scene.max_unavailable() == 1, what="the second config")
        assert process.status()["config"]["good"] is True


def test_a_budget_that_the_new_config_does_not_name_is_closed(scene: Scene) -> None:
    with scene.leader():
        eventually(lambda: scene.max_unavailable() == 1, what="the opening")

        scene.write(dump(scene.config(budgets=())))
        eventually(lambda: scene.max_unavailable() == 0, what="the closing")


def test_a_standby_is_ready_and_acts_at_once_when_its_leader_leaves(scene: Scene) -> None:
    with scene.leader("one") as one, scene.process("two") as two:
        eventually(
            lambda: two.status().get("leader", {}).get("identity") == "one", what="the standby to see its leader"
        )
        assert two.get("/readyz") == (200, "ok\n")
        assert one.terminate() == 0
        scene.enqueue("one")

        eventually(lambda: scene.replicas() == 1, what="the standby to act")
        assert scene.lease_holder() == "two"


@pytest.fixture
def frozen(scene: Scene) -> Iterator[Scene]:
    """Redis and the API server accept and never answer."""
    frozen = [scene.redis.pid]
    yield scene
    scene.plane.resume("kube-apiserver")
    for pid in frozen:
        assert pid is not None
        os.kill(pid, signal.SIGCONT)


def test_it_ends_in_time_although_nothing_answers(frozen: Scene) -> None:
    with frozen.leader() as process:
        eventually(lambda: frozen.max_unavailable() == 1, what="the opening")
        assert frozen.redis.pid is not None
        os.kill(frozen.redis.pid, signal.SIGSTOP)
        frozen.plane.suspend("kube-apiserver")

        assert process.terminate() in (0, 1)  # 1: the watchdog ended it
