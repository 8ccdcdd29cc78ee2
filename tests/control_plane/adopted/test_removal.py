"""The section of adopted pods is removed, or Ebbtide itself: the team's pods run on, and its objects stay unchanged."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import Json
from ebbtide.recording.output import output_files
from ebbtide.settings import StackSettings
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import Adopted
from tests.control_plane.support.applying import Applying, State, objects_in, state_of

pytestmark = pytest.mark.control_plane

POOL = {"source": {"queues": ["etl"]}, "max": 4, "longestJob": "1h", "replicas": "kept"}
RULES: dict[str, Any] = {
    "hub": {"selector": {"app": "hub"}, "category": "fixed", "replicas": 1},
    "web": {"selector": {"app": "web"}, "replicas": 3},
    "shop": {"selector": {"app": "shop"}, "replicas": 2, "budget": "shop-pdb"},
    "task": {"selector": {"app": "task"}, "category": "worker"},
    "loader": {"selector": {"app": "loader"}, "category": "worker", "pool": POOL},
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = [f"{kind}admissionpolic{ending}" for kind in ("mutating", "validating") for ending in ("ies", "ybindings")]
PODS = 8


@dataclass
class Scene:
    team: Adopted
    chart: Json  # its budget
    stack: Applying  # all of Ebbtide
    rest: Sequence[Json]  # the stack without the section

    def get(self, path: str) -> list[Json]:
        return self.team.plane.api.get(path)["items"]

    def in_team(self, group: str, kind: str) -> list[Json]:
        return self.get(f"{group}/namespaces/{self.team.namespace}/{kind}")

    def of_team(self) -> dict[str, State]:
        """Everything that the team has, with its labels, status and managers; of its budget the spec."""
        items = [
            *self.in_team("/api/v1", "pods"),
            *(item for kind in ("deployments", "statefulsets") for item in self.in_team("/apis/apps/v1", kind)),
        ]
        states = {item["metadata"]["uid"]: state_of(item) for item in items}
        budget = self.team.plane.api.get(self.budgets[0])
        return {
            **states,
            budget["metadata"]["uid"]: State(json.dumps([budget["spec"], budget["metadata"]["labels"]]), 0),
        }

    @property
    def budgets(self) -> tuple[str, str]:
        folder = f"/apis/policy/v1/namespaces/{self.team.namespace}/poddisruptionbudgets"
        return f"{folder}/shop-pdb", folder

    def of_ebbtide(self) -> set[str]:
        """The names of policies, and of budgets and rights in the team's namespace."""
        inside = (
            ("poddisruptionbudgets", "/apis/policy/v1"),
            *((k, "/apis/rbac.authorization.k8s.io/v1") for k in ("roles", "rolebindings")),
        )
        found = [*(item for kind, group in inside for item in self.in_team(group, kind))]
        found += [item for kind in POLICIES for item in self.get(f"{ADMISSION}/{kind}")]
        return {item["metadata"]["name"] for item in found} - {"shop-pdb"}

    def is_adopted(self) -> bool:
        return WORKLOAD in self.team.admitted({"app": "web"})["metadata"]["labels"]

    def remove(self, kept: Sequence[Json]) -> None:
        """Delete what is not among these, the last one first, and apply these."""
        staying = Applying(self.team.plane.api)
        paths = staying.know(kept)
        gone = [path for path in self.stack.paths if path not in paths]
        self.stack.paths = gone
        self.stack.delete()
        self.stack.paths = paths
        self.stack.apply(kept)


def rendered(settings: StackSettings, folder: Path) -> list[Json]:
    write_directory(folder, output_files(record(settings)))
    return objects_in(folder)


@pytest.fixture(scope="module")
def team() -> Iterator[Adopted]:
    """On a control plane of its own, since the stack is the whole of Ebbtide."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane() as plane:
        team = Adopted(plane)
        team.add_nodes()
        yield team


@pytest.fixture
def scene(team: Adopted, tmp_path: Path) -> Iterator[Scene]:
    stack = Applying(team.plane.api)
    settings = team.stack(RULES)
    stack.apply(rendered(settings, tmp_path / "with"))
    chart = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "shop-pdb", "namespace": team.namespace, "labels": {"helm.sh/chart": "shop-1"}},
        "spec": {"selector": {"matchLabels": {"app": "shop"}}, "maxUnavailable": 1},
    }
    scene = Scene(team, chart, stack, rendered(settings.model_copy(update={"adopted": {}}), tmp_path / "without"))
    eventually(scene.is_adopted, what="the policy to be in force")
    git = [
        owners.stateful_set("hub", team.namespace, replicas=1),
        owners.deployment("web", team.namespace, replicas=3),
        owners.deployment("shop", team.namespace, replicas=2),
        owners.deployment("loader", team.namespace, replicas=1),
        owners.bare_pod("alone", team.namespace, app="task"),
    ]
    team.plane.kubectl("apply", "-f", "-", stdin=owners.as_git([*git, chart]))
    eventually(lambda: _running(team) == PODS, what="the team's pods to run")
    yield scene
    stack.delete()
    team.plane.kubectl("delete", "--wait=false", "-f", "-", stdin=owners.as_git([*git, chart]))
    eventually(lambda: not team.pods(), what="the team's pods to be gone")


def _running(team: Adopted) -> int:
    return sum(
        any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
        for pod in team.pods()
    )


def _settled(scene: Scene) -> dict[str, State]:
    """The state of the team's objects, once two readings are the same."""
    last = [scene.of_team()]

    def same() -> bool:
        last.append(scene.of_team())
        return last[-1] == last[-2]

    eventually(same, what="the team's objects to settle")
    return last[-1]


def test_without_the_section_pods_run_on_and_budgets_and_policies_are_gone(scene: Scene) -> None:
    before = _settled(scene)
    assert {"ebbtide-adopt", "ebbtide-kept-budgets", "ebbtide-kept-replicas", "ebbtide-web"} <= scene.of_ebbtide()
    assert all(WORKLOAD in pod["metadata"]["labels"] for pod in scene.team.pods())

    scene.remove(scene.rest)

    eventually(lambda: not scene.is_adopted(), what="new pods to be left alone")
    assert scene.of_team() == before
    of_the_stack = {"ebbtide-pods", "ebbtide-poddisruptionbudgets", "ebbtide-evictions"}
    assert scene.of_ebbtide() <= of_the_stack


def test_without_ebbtide_pods_run_on_and_nothing_of_it_is_left_in_the_namespace(scene: Scene) -> None:
    before = _settled(scene)

    scene.remove([])

    eventually(lambda: not scene.is_adopted(), what="new pods to be left alone")
    assert scene.of_team() == before
    assert scene.of_ebbtide() == set()
    assert NAMESPACE not in {item["metadata"]["name"] for item in scene.get("/api/v1/namespaces")}


def test_a_chart_that_comes_back_has_its_own_number_again(scene: Scene) -> None:
    path, folder = scene.budgets
    assert scene.team.plane.api.get(path)["spec"]["maxUnavailable"] == 0
    scene.remove(scene.rest)

    def has_its_number() -> bool:
        scene.team.plane.api.delete(path)
        return scene.team.plane.api.create(folder, scene.chart)["spec"]["maxUnavailable"] == 1

    eventually(has_its_number, what="the chart's number")
