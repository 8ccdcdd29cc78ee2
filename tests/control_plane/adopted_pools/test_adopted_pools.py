"""Deployments of workers that others write, sized by the controller while their owners apply them again and again.

The controller has its own token and the rendered rights; its clock and its queues are the test's. Before each of its
turns the owner applies its manifest, as a tool that heals itself does.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.ports import PoolReport, Ports
from controllers.scaler.loop import Loop
from ebbtide.recording.output import output_files
from ebbtide.settings.capacity.process_documents import RESYNC
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import CATEGORY, FIELD_MANAGER, NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.controllers import CALM, NOON
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest
from tests.control_plane.support.applying import Applying, controller_of, objects_in
from tests.fakes import FakeDemand, FakeQueue, ListJournal, ManualClock, ScriptedWaker

pytestmark = pytest.mark.control_plane

TEAM = "etl"
DEPLOYMENTS, PODS = f"/apis/apps/v1/namespaces/{TEAM}/deployments", f"/api/v1/namespaces/{TEAM}/pods"
NAMES = ("healed", "kept-applied", "kept-forced", "fought", "hasty")
CLIENT_SIDE, FORCED = ("--field-manager=argocd-controller",), ("--server-side", "--force-conflicts")


def rule(name: str) -> str:
    pool = f"source: {{ queues: [{name}] }}, max: 5, longestJob: 1h, safeStop: true"
    kept = ", replicas: kept" if name.startswith("kept") else ""
    return f"{name}: {{ namespace: etl, selector: {{ app: {name} }}, cpu: 1, memory: 1Gi, pool: {{ {pool}{kept} }} }}"


STACK = shortest(more="\n  ".join(['ebbtide:cluster: { version: "1.36" }\nebbtide:adopted:', *map(rule, NAMES)]))


@dataclass
class Manifest:
    """A Deployment in the team's repository."""

    name: str
    replicas: int | None = None
    image: str = "loader:1"
    grace: int = 3600
    options: tuple[str, ...] = CLIENT_SIDE

    @property
    def text(self) -> str:
        labels = {"app": self.name}
        pod = {"terminationGracePeriodSeconds": self.grace, "containers": [{"name": "main", "image": self.image}]}
        spec: dict[str, Any] = {"selector": {"matchLabels": labels}}
        spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
        if self.replicas is not None:
            spec["replicas"] = self.replicas
        metadata = {"name": self.name, "namespace": TEAM}
        return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


@dataclass
class Team:
    plane: ControlPlane
    own: KubeApi  # with the controller's token
    loop: Loop
    clock: ManualClock
    journal: ListJournal
    queues: dict[str, FakeQueue]
    applied: dict[str, Manifest] = field(default_factory=dict[str, Manifest])

    def apply(self, manifest: Manifest) -> None:
        self.applied[manifest.name] = manifest
        self.plane.kubectl("apply", *manifest.options, "-f", "-", stdin=manifest.text)

    def turn(self, name: str, *, heals: bool = True) -> PoolReport:
        if heals:
            self.apply(self.applied[name])
        self.clock.advance(timedelta(seconds=1))
        self.loop.reconcile(self.clock.now())
        assert self.journal.report is not None
        return next(report for report in self.journal.report.pools if report.name == name)

    def until(self, name: str, replicas: int, *, heals: bool = True) -> PoolReport:
        def reached() -> PoolReport | None:
            report = self.turn(name, heals=heals)
            return report if self.replicas(name) == report.workers == replicas else None

        return eventually(reached, what=f"{replicas} workers of {name}")

    def jobs(self, name: str, number: int) -> None:
        self.queues[name].waiting = number

    def wait(self) -> None:
        """The stabilization window passes, with a turn every few seconds."""
        for _ in range(CALM // RESYNC):
            self.clock.advance(RESYNC)
            self.loop.reconcile(self.clock.now())

    def deployment(self, name: str) -> dict[str, Any]:
        return self.plane.api.get(f"{DEPLOYMENTS}/{name}")

    def replicas(self, name: str) -> int:
        return self.deployment(name)["spec"]["replicas"]

    def image(self, name: str) -> str:
        return self.deployment(name)["spec"]["template"]["spec"]["containers"][0]["image"]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("pools")
    settings = loaded(STACK, tmp_path_factory.mktemp("stack"))
    write_directory(folder, output_files(record(settings)))
    config = load(ControllerConfig, (folder / "controller-config.json").read_text(encoding="utf-8"))
    queues = {pool.name: FakeQueue(names_idle=False) for pool in config.pools}
    clock, journal = ManualClock(NOON), ListJournal()
    with ControlPlane() as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        add_group_node(plane, settings, "flexible", "flexible-0")
        Applying(plane.api).apply(objects_in(folder))
        with controller_of(plane, config) as cluster:
            waker = ScriptedWaker(clock, ())
            ports = Ports(demand=FakeDemand(queues), cluster=cluster, clock=clock, waker=waker, journal=journal)
            own = plane.api_as(NAMESPACE, FIELD_MANAGER)
            yield Team(plane=plane, own=own, loop=Loop(config, ports), clock=clock, journal=journal, queues=queues)


def test_a_pool_without_replicas_in_git_grows_and_shrinks_while_its_owner_heals_it(team: Team) -> None:
    team.apply(Manifest("healed"))
    eventually(lambda: team.plane.api.get(PODS, labelSelector=f"{WORKLOAD}=healed")["items"], what="an adopted pod")
    team.jobs("healed", 3)

    assert team.until("healed", 3).note == ""
    team.apply(Manifest("healed", image="loader:2"))
    assert (team.replicas("healed"), team.image("healed")) == (3, "loader:2")
    team.jobs("healed", 0)
    for _ in range(3):
        assert team.turn("healed").workers == 3
    team.wait()
    team.until("healed", 0)

    metadata = team.deployment("healed")["metadata"]
    owners = {(entry["manager"], entry.get("subresource", "")) for entry in metadata["managedFields"]}
    assert owners == {("argocd-controller", ""), ("kube-controller-manager", "status"), (FIELD_MANAGER, "scale")}
    assert CATEGORY not in team.deployment("healed")["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(("name", "options"), [("kept-applied", CLIENT_SIDE), ("kept-forced", FORCED)])
def test_kept_replicas_stay_whatever_git_says(team: Team, name: str, options: tuple[str, ...]) -> None:
    team.apply(Manifest(name, replicas=2, options=options))
    assert team.replicas(name) == 2
    team.jobs(name, 4)
    team.until(name, 4)

    for image, replicas in {"loader:2": 2, "loader:3": 3, "loader:4": None, "loader:5": 1}.items():
        team.apply(Manifest(name, replicas=replicas, image=image, options=options))
        assert (team.replicas(name), team.image(name)) == (4, image)
        assert team.turn(name).note == ""
    team.plane.kubectl("-n", TEAM, "scale", f"deployment/{name}", "--replicas=5")
    assert team.replicas(name) == 5
    team.jobs(name, 0)
    team.turn(name)
    team.wait()
    team.until(name, 0)


def test_an_owner_that_writes_another_number_has_it_and_a_message_says_so(team: Team) -> None:
    team.apply(Manifest("fought", replicas=2))
    team.jobs("fought", 4)
    team.until("fought", 4, heals=False)

    report = eventually(lambda: _noted(team.turn("fought")), what="the conflict to be seen")
    assert "a conflicting manager writes its replicas: argocd-controller;" in report.note
    assert [team.turn("fought").workers for _ in range(3)] == [2, 2, 2]

    team.apply(Manifest("fought"))  # removing the line leaves one worker
    assert team.replicas("fought") == 1
    team.plane.kubectl("-n", TEAM, "scale", "deployment/fought", "--replicas=2")
    assert team.until("fought", 4).note == ""


def _noted(report: PoolReport) -> PoolReport | None:
    return report if report.note else None


def test_a_pool_whose_pods_would_be_killed_only_grows(team: Team) -> None:
    team.apply(Manifest("hasty", grace=30))
    team.jobs("hasty", 2)
    team.until("hasty", 2)
    team.jobs("hasty", 0)
    team.turn("hasty")
    team.wait()

    reports = [team.turn("hasty") for _ in range(3)]
    assert [report.workers for report in reports] == [2, 2, 2]
    assert all("only grows: a pod gets 30 s to stop" in report.note for report in reports)
    team.apply(Manifest("hasty", grace=3600))
    team.until("hasty", 0)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{DEPLOYMENTS}/healed", {"spec": {"replicas": 5}}),
        (f"{DEPLOYMENTS}/other/scale", {"spec": {"replicas": 5}}),
        (f"{PODS}/some", {"metadata": {"labels": {CATEGORY: "flexible"}}}),
        (f"{PODS}/some", {"spec": {"activeDeadlineSeconds": 1}}),
        ("/api/v1/namespaces/default/pods/some", {"metadata": {"annotations": {"a": "b"}}}),
    ],
    ids=["the Deployment", "another Deployment", "a pod's labels", "a pod's life", "another namespace"],
)
def test_the_controller_may_do_nothing_else_there(team: Team, path: str, body: dict[str, Any]) -> None:
    for pods in (PODS, "/api/v1/namespaces/default/pods"):
        try:
            team.plane.api.create(
                pods, {"metadata": {"name": "some"}, "spec": {"containers": [{"name": "main", "image": "any:1"}]}}
            )
        except ApiError as error:
            assert error.status == 409  # noqa: PT017 - of an earlier case

    with pytest.raises(ApiError) as refused:
        team.own.patch(path, body)
    assert refused.value.status in (403, 422)


def test_an_eviction_leaves_a_worker_the_time_of_its_longest_job(team: Team) -> None:
    team.apply(Manifest("healed"))
    team.jobs("healed", 1)
    team.until("healed", 1)
    pod = eventually(lambda: team.plane.api.get(PODS, labelSelector="app=healed")["items"], what="a pod")[0]
    metadata = {"name": pod["metadata"]["name"], "namespace": TEAM}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}

    with pytest.raises(ApiError, match="may need 3600 s"):
        team.plane.api.create(
            f"{PODS}/{metadata['name']}/eviction", {**eviction, "deleteOptions": {"gracePeriodSeconds": 60}}
        )
