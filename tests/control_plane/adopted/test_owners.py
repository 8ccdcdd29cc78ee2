"""Every kind of owner of adopted pods, with the real controllers: pods are placed, and no owner is written."""

import re
from collections.abc import Mapping

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import CATEGORY, NODE_KIND, PREFIX, WORKLOAD
from tests.builders.control_plane import eventually
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import RULES, Adopted, adoption_of
from tests.control_plane.support.applying import State, state_of

pytestmark = pytest.mark.control_plane

FLUX = ("--server-side", "--force-conflicts", "--field-manager=kustomize-controller")
PODS = {"hub": 1, "web": 3 + 3, "task": 3, "engine": 1}
"""By the label that the team gives; three of web are the DaemonSet's."""


class Git:
    """The team's manifests, and what applies them."""

    def __init__(self, team: Adopted) -> None:
        self.team, space = team, team.namespace
        self.objects = [
            owners.deployment("web", space, replicas=3),
            owners.stateful_set("hub", space, replicas=1),
            owners.daemon_set("agent", space, app="web"),
            owners.job("once", space, app="task"),
            owners.cron_job("yearly", space, app="task"),
            owners.bare_pod("alone", space, app="task"),
            owners.engine("main", space, instances=1),
        ]
        self.paths = [owners.path_of(each) for each in self.objects]

    def apply(self, *how: str) -> set[str]:
        """What kubectl says of each object."""
        said = self.team.plane.kubectl("apply", *how, "-f", "-", stdin=owners.as_git(self.objects))
        return {re.sub(r"^\S+ ", "", line) for line in said.splitlines()}

    def live(self) -> list[Json]:
        return [self.team.plane.api.get(path) for path in self.paths]

    def specs(self) -> list[Json]:
        return [item["spec"] for item in self.live()]

    def states(self) -> dict[str, State]:
        """What anybody asks of the objects, and who asks it; not what controllers report."""
        states: dict[str, State] = {}
        for item in self.live():
            item.pop("status", None)
            metadata = item["metadata"]
            metadata["managedFields"] = [e for e in metadata["managedFields"] if e.get("subresource") != "status"]
            states[metadata["name"]] = state_of(item)
        return states


@pytest.fixture(scope="module")
def git(team: Adopted) -> Git:
    api = team.plane.api
    team.add_nodes()
    owners.add_kind(team.fresh, owners.PLAIN)
    git = Git(team)
    git.apply()
    team.plane.kubectl("create", "job", "--namespace", team.namespace, "--from=cronjob/yearly", "this-year")
    api.create(team.pods_path, owners.engine_pod("main-1", git.live()[-1]))
    eventually(lambda: counted(team) == PODS and all(map(bound, team.pods())), what="all pods to be bound")
    return git


def counted(team: Adopted) -> Mapping[str, int]:
    apps = [pod["metadata"]["labels"]["app"] for pod in team.pods()]
    return {app: apps.count(app) for app in apps}


def bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def owner_of(pod: Json) -> str:
    return pod["metadata"].get("ownerReferences", [{"kind": "none"}])[0]["kind"]


def test_the_pods_of_every_owner_are_labelled_and_placed_but_those_of_a_daemon_set(git: Git) -> None:
    api = git.team.plane.api

    def kind_of_node(pod: Json) -> str:
        return api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"][NODE_KIND]

    placed = {(owner_of(pod), *adoption_of(pod), kind_of_node(pod)) for pod in git.team.pods()}

    assert placed == {
        ("ReplicaSet", "flexible", "web", "flexible"),
        ("StatefulSet", "fixed", "hub", "fixed"),
        ("Job", "worker", "task", "flexible"),
        ("none", "worker", "task", "flexible"),
        ("Engine", "flexible", "engine", "flexible"),
        *(("DaemonSet", None, None, kind) for kind in ("fixed", "flexible", "gpu")),
    }
    jobs = {pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") for pod in git.team.pods(app="task")}
    assert jobs == {"once", "this-year", None}


def test_no_owner_names_anything_of_ours(git: Git) -> None:
    owned = [item for item in git.live() if item["kind"] != "Pod"]

    assert PREFIX not in str(owned)
    assert {each["manager"] for item in owned for each in item["metadata"]["managedFields"]} <= {
        "kubectl-client-side-apply",
        "kube-controller-manager",
    }


def test_our_fields_of_a_pod_belong_to_no_manager(git: Git) -> None:
    """So no apply of the pod itself conflicts with them."""
    (pod,) = [pod for pod in git.team.pods() if owner_of(pod) == "none"]

    assert {CATEGORY, WORKLOAD} <= pod["metadata"]["labels"].keys()
    assert PREFIX not in str(pod["metadata"]["managedFields"])


def test_an_apply_by_the_client_or_the_server_finds_nothing_to_change(git: Git) -> None:
    before, specs, pods = git.states(), git.specs(), {pod["metadata"]["uid"] for pod in git.team.pods()}

    assert git.apply() == {"unchanged"}
    assert git.states() == before
    git.apply(*FLUX)  # its own name and annotation now stand beside the client's
    settled = git.states()
    git.apply(*FLUX)

    assert git.states() == settled
    assert git.specs() == specs
    assert {pod["metadata"]["uid"] for pod in git.team.pods()} == pods


def test_without_its_rule_a_new_pod_is_the_teams_own_and_the_owner_is_unchanged(git: Git) -> None:
    team, before = git.team, git.states()
    team.adopt({name: rule for name, rule in RULES.items() if name != "web"})
    old = [pod for pod in team.pods(app="web") if owner_of(pod) == "ReplicaSet"]

    team.plane.api.delete(f"{team.pods_path}/{old[0]['metadata']['name']}")

    known = {pod["metadata"]["uid"] for pod in old}
    (new,) = eventually(
        lambda: [p for p in team.pods(app="web") if owner_of(p) == "ReplicaSet" and p["metadata"]["uid"] not in known],
        what="the pod's successor",
    )
    assert (adoption_of(new), "nodeSelector" in new["spec"]) == ((None, None), False)
    assert [adoption_of(pod) for pod in old[1:]] == [("flexible", "web")] * 2
    assert git.states() == before
    assert adoption_of(team.admitted({"app": "hub"})) == ("fixed", "hub")
