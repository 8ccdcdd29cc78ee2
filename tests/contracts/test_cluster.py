"""One body for the fake cluster and for the one made of processes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from controllers.ports import Cluster, Mark, ObservedPool, Outcome, PodPhase, Scale, SetBudget, Unknown
from ebbtide.demo.process_cluster import ProcessCluster
from tests.builders.controllers import NOON
from tests.builders.redis import wait_until
from tests.fakes import FakeCluster, ManualClock
from tests.processes import lives

pytestmark = pytest.mark.process


class Rig(Protocol):
    cluster: Cluster

    def settle(self) -> None:
        """Let starting pods start and terminating ones end."""

    def lose(self, pod: str) -> None:
        """The pod dies by itself."""


class FakeRig:
    def __init__(self) -> None:
        fake = FakeCluster(ManualClock(NOON))
        fake.add_pool("train")
        self.cluster: Cluster = fake
        self._fake = fake

    def settle(self) -> None:
        self._fake.start_all("train")
        for pod in self._fake.pods("train", PodPhase.TERMINATING):
            self._fake.end("train", pod)

    def lose(self, pod: str) -> None:
        self._fake.lose("train", pod)


class ProcessRig:
    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster: Cluster = cluster
        self._processes = cluster

    def settle(self) -> None:
        wait_until(lambda: not any(pod.phase is PodPhase.TERMINATING for pod in pool(self).pods), "pods to end")

    def lose(self, pod: str) -> None:
        names = [seen.name for seen in pool(self).pods]
        os.kill(self._processes.pids()[names.index(pod)], signal.SIGKILL)
        wait_until(lambda: pod not in [seen.name for seen in pool(self).pods], "the pod to vanish")


@pytest.fixture(params=["fake", "processes"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if request.param == "fake":
        yield FakeRig()
        return
    with ProcessCluster(["train"], lambda _pool, _pod: ["sleep", "60"]) as cluster:
        yield ProcessRig(cluster)


def pool(rig: Rig) -> ObservedPool:
    seen = rig.cluster.observe()
    assert not isinstance(seen, Unknown)
    return seen.pools["train"]


def scale(rig: Rig, replicas: int, version: str | None = None) -> Outcome:
    return rig.cluster.act(Scale(pool="train", replicas=replicas, version=version, reason="test"))


def mark(rig: Rig, pod: str, *, idle: bool = True) -> Outcome:
    return rig.cluster.act(Mark(pool="train", pod=pod, idle=idle, reason="test"))


def names(rig: Rig) -> list[str]:
    return [pod.name for pod in pool(rig).pods if pod.phase is not PodPhase.TERMINATING]


def test_a_new_pool_has_no_replicas_and_no_pods(rig: Rig) -> None:
    assert (pool(rig).replicas, pool(rig).pods) == (0, ())


def test_growth_brings_running_pods_under_names_of_their_own(rig: Rig) -> None:
    assert scale(rig, 3, pool(rig).version) is Outcome.DONE
    rig.settle()

    assert pool(rig).replicas == 3
    assert {pod.phase for pod in pool(rig).pods} == {PodPhase.RUNNING}
    assert len(set(names(rig))) == 3


def test_marked_pods_go_first_and_vanish(rig: Rig) -> None:
    scale(rig, 4)
    rig.settle()
    first, second, third, fourth = names(rig)
    mark(rig, first)
    mark(rig, third)

    scale(rig, 2, pool(rig).version)
    rig.settle()

    assert [pod.name for pod in pool(rig).pods] == [second, fourth]


def test_a_mark_is_seen_and_can_be_taken_back(rig: Rig) -> None:
    scale(rig, 1)
    rig.settle()
    [pod] = names(rig)

    assert mark(rig, pod) is Outcome.DONE
    assert [seen.marked for seen in pool(rig).pods] == [True]
    mark(rig, pod, idle=False)
    assert [seen.marked for seen in pool(rig).pods] == [False]


def test_a_mark_leaves_the_version_alone_and_a_scale_changes_it(rig: Rig) -> None:
    scale(rig, 1)
    rig.settle()
    before = pool(rig).version

    mark(rig, names(rig)[0])
    assert pool(rig).version == before
    scale(rig, 2)
    assert pool(rig).version != before


def test_a_write_decided_on_an_old_version_changes_nothing(rig: Rig) -> None:
    old = pool(rig).version
    scale(rig, 2)

    assert scale(rig, 0, old) is Outcome.STALE
    assert pool(rig).replicas == 2


def test_a_pod_that_dies_is_replaced(rig: Rig) -> None:
    scale(rig, 1)
    rig.settle()
    [lost] = names(rig)

    rig.lose(lost)

    assert len(names(rig)) == 1
    assert names(rig) != [lost]


def test_what_does_not_exist_is_refused(rig: Rig) -> None:
    assert rig.cluster.act(Scale(pool="ghost", replicas=1, version=None, reason="test")) is Outcome.REFUSED
    assert mark(rig, "ghost") is Outcome.REFUSED
    assert rig.cluster.act(SetBudget(budget="ghost", max_unavailable=0, version=None, reason="test")) is Outcome.REFUSED


def test_no_process_is_left_when_the_cluster_closes() -> None:
    with ProcessCluster(["train"], lambda _pool, _pod: ["sleep", "60"]) as cluster:
        cluster.act(Scale(pool="train", replicas=3, version=None, reason="test"))
        pids = cluster.pids()

    assert len(pids) == 3
    assert not any(lives(pid) for pid in pids)


def test_a_pod_that_outlives_its_grace_period_is_killed(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    stubborn = ["sh", "-c", f"trap '' TERM; touch {deaf}; while true; do sleep 0.05; done"]
    with ProcessCluster(["train"], lambda _pool, _pod: stubborn, grace=0.2) as cluster:
        cluster.act(Scale(pool="train", replicas=1, version=None, reason="test"))
        wait_until(deaf.exists, "the pod to ignore SIGTERM")
        cluster.act(Scale(pool="train", replicas=0, version=None, reason="test"))

        wait_until(lambda: not cluster.pids(), "the pod to be killed")
