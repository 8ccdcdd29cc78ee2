"""The workload controller as a process, against KubeRay's own definition of a RayCluster on a real API server.

KubeRay's operator is not there: a test says in its place that the pods of a suspended cluster have gone. Ray's
autoscaler is not there either; its patches are sent as its provider for KubeRay sends them.
"""

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from ebbtide.vocabulary.labels import APPLY_UNTIL, ASLEEP_FOR, PAUSED, SLEEP, WORKLOADS
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, Wake, dump_sleep
from tests.builders.control_plane import Fresh, eventually
from tests.builders.workloads.process import RayScene, make_ray_scene
from tests.builders.workloads.specs import group, spec

pytestmark = pytest.mark.control_plane

AT_ONCE = dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(), wake=frozenset({Wake.QUEUE})))


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[RayScene]:
    with make_ray_scene(control_plane, fresh, tmp_path) as scene:
        yield scene


def image(written: dict[str, Any]) -> str:
    return written["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]


def test_the_first_spec_is_written_from_the_annotation_and_an_up_takes_nothing_back(scene: RayScene) -> None:
    scene.up(spec(group("a", least=1), group("b")))
    with scene.leader() as process:
        written = eventually(lambda: scene.cluster().get("spec"), what="the first write")

        assert scene.groups() == [("a", 1, 5), ("b", 0, 5)]
        assert image(scene.cluster()) == "ray:1"
        assert "suspend" not in written
        eventually(lambda: process.workload().get("why") == "never-sleeps", what="the status")
        assert process.workload()["spec"] == "applied"
        (event,) = eventually(scene.events, what="the Event")
        assert event["reason"] == "SpecFirst"
        assert 'ebbtide_workload_pending{workload="raycluster' in process.get("/metrics")[1]
        assert process.get("/healthz") == process.get("/readyz") == (200, "ok\n")

        scene.autoscale(("1/replicas", 3), ("1/scaleStrategy", {"workersToDelete": ["b-1"]}))
        scene.up(spec(group("a", least=1), group("b")))
        assert scene.groups() == [("a", 1, 5), ("b", 3, 5)]
        assert scene.owners() == {
            "pulumi": set(),
            WORKLOADS: {*written} - {"workerGroupSpecs"},
            "autoscaler": {"workerGroupSpecs"},
        }
        scene.up(spec(group("a", 7, least=1), group("b")))
        eventually(lambda: scene.groups() == [("a", 1, 7), ("b", 3, 5)], what="the raise")
        assert scene.owners()[WORKLOADS] == {*written}
        assert scene.cluster()["spec"]["workerGroupSpecs"][1]["scaleStrategy"] == {"workersToDelete": ["b-1"]}


class Autoscaler:
    """Sets the replicas of both groups again and again, and before each time looks whether its last number is there."""

    def __init__(self, scene: RayScene) -> None:
        self._scene, self._luck, self._over = scene, random.Random(6), threading.Event()
        self.last, self.lost, self.written = {"a": 0, "b": 0}, list[object](), 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Autoscaler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._luck.random() / 20):
            found = {name: replicas for name, replicas, _ in self._scene.groups()}
            if found != self.last:
                self.lost.append((self.written, self.last, found))
            name = self._luck.choice("ab")
            self.last = {**self.last, name: self._luck.randrange(20)}
            self._scene.autoscale((f"{'ab'.index(name)}/replicas", self.last[name]))
            self.written += 1


def test_no_number_of_the_autoscaler_is_lost_between_a_hundred_writes_of_the_spec(scene: RayScene) -> None:
    scene.up(spec(group("a", 20), group("b", 20)))
    with scene.leader() as process:
        eventually(scene.groups, what="the first write")
        with Autoscaler(scene) as autoscaler:
            for turn in range(100):
                most = 30 + turn
                scene.up(spec(group("a", most), group("b", most)))
                eventually(lambda most=most: {it[2] for it in scene.groups()} == {most}, what=f"at most {most}")

        assert autoscaler.lost == []
        assert scene.groups() == [(name, autoscaler.last[name], 129) for name in "ab"]
        assert autoscaler.written > 50
    told = [json.loads(line) for line in process.log.read_text().splitlines()]
    outcomes = Counter(line["outcome"] for line in told if line["event"] == "acted")
    assert outcomes["done"] >= 100
    assert outcomes["stale"] > 0, "no write met one of the autoscaler's"


def test_it_suspends_on_a_known_idle_alone_and_wakes_when_drivers_are_wanted(scene: RayScene) -> None:
    scene.head.state = "a driver"
    scene.up(spec(group("a")), **{SLEEP: AT_ONCE})
    with scene.leader() as process:
        eventually(lambda: process.workload().get("why") == "not-known-idle", what="a busy head")
        assert process.workload()["activity"] == "driver: Number of active drivers: 1"
        scene.head.state = "no token"
        eventually(lambda: "HTTP 401" in process.workload()["activity"], what="a head that refuses")
        assert "suspend" not in scene.cluster()["spec"]

        scene.head.state = "nothing ever ran"
        eventually(lambda: scene.cluster()["spec"].get("suspend"), what="sleep")
        assert scene.cluster()["metadata"]["annotations"][ASLEEP_FOR] == "rest"
        eventually(lambda: process.workload()["state"] == "suspending", what="the status")
        scene.pods_gone()
        scene.up(spec(group("b", image="ray:2"), group("a", image="ray:2"), image="ray:2"), **{SLEEP: AT_ONCE})
        eventually(lambda: image(scene.cluster()) == "ray:2", what="the whole spec")
        assert scene.groups() == [("b", 0, 5), ("a", 0, 5)]
        scene.head.state = "no token"
        eventually(lambda: process.workload()["state"] == "asleep", what="the status")
        assert scene.cluster()["spec"]["suspend"] is True

        scene.drivers(1)
        eventually(lambda: scene.cluster()["spec"]["suspend"] is False, what="the waking")
        assert ASLEEP_FOR not in scene.cluster()["metadata"]["annotations"]
        wanted = {"SpecFirst", "IdleForLong", "SpecWhole", "DriversWanted"}
        eventually(lambda: wanted <= {it["reason"] for it in scene.events()}, what="the Events")


def test_a_new_image_waits_while_it_is_busy_and_a_maintenance_lets_it_in(scene: RayScene) -> None:
    scene.head.state = "a driver"
    scene.up(spec(group("a")))
    with scene.leader() as process:
        eventually(scene.groups, what="the first write")
        scene.autoscale(("0/replicas", 2))
        scene.up(spec(group("a", image="ray:2"), image="ray:2"))
        eventually(lambda: process.workload().get("spec") == "old-image", what="the status")
        assert image(scene.cluster()) == "ray:1"
        assert process.workload()["pending"] == [
            "headGroupSpec.template.spec.containers[0].image",
            "workerGroupSpecs[a].template.spec.containers[0].image",
        ]

        scene.annotate(APPLY_UNTIL, (datetime.now(UTC) + timedelta(hours=1)).isoformat())
        eventually(lambda: scene.cluster()["spec"].get("suspend"), what="the suspension")
        assert image(scene.cluster()) == "ray:1", "pods are still there"
    with scene.leader("two"):  # another process goes on from here
        scene.pods_gone()
        eventually(lambda: image(scene.cluster()) == "ray:2", what="the new image")
        eventually(lambda: scene.cluster()["spec"]["suspend"] is False, what="the resumption")
        assert scene.groups() == [("a", 0, 5)]


def test_what_the_api_refuses_or_a_person_has_paused_stays_as_it_is(scene: RayScene) -> None:
    scene.up(spec(group("a")))
    with scene.leader() as process:
        eventually(scene.groups, what="the first write")
        scene.up(spec(group("a", 9, rayStartParams={"num-cpus": 1})))
        eventually(lambda: "refused" in process.workload()["note"], what="the refusal")
        scene.up({"headGroupSpec": {}, "suspend": True})
        eventually(lambda: "suspend: may not be in it" in process.workload()["note"], what="the fault")
        scene.annotate(PAUSED, "a look")
        scene.up(spec(group("a", 9)))
        eventually(lambda: process.workload()["why"] == "paused", what="the pause")
        assert scene.groups() == [("a", 0, 5)]
        scene.annotate(PAUSED, None)
        eventually(lambda: scene.groups() == [("a", 0, 9)], what="the end of the pause")


def test_on_the_way_out_it_leaves_everything_and_frees_the_lease(scene: RayScene) -> None:
    scene.up(spec(group("a")), **{SLEEP: AT_ONCE})
    with scene.leader() as process:
        eventually(lambda: scene.cluster().get("spec", {}).get("suspend"), what="sleep")
        scene.pods_gone()
        before = scene.cluster()["metadata"]["resourceVersion"]

        assert process.terminate() == 0
        assert scene.cluster()["metadata"]["resourceVersion"] == before
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{scene.apps}/leases/{WORKLOADS}"
        assert scene.plane.api.get(lease)["spec"]["holderIdentity"] == ""
