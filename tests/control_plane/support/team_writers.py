"""Everybody who writes to a team's platform, in any order: the team's tools, its operators, Ebbtide and restarts.

The tools are imitated by the requests that they send: Argo CD and kubectl patch what git says and note it in an
annotation, Helm patches without it, and Flux applies on the server by force.
"""

import copy
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from controllers.adapters.kube_api import MERGE_PATCH, ApiError, Json, KubeApi
from ebbtide.vocabulary.labels import PREFIX
from tests.builders.control_plane import eventually
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import Adopted, adoption_of
from tests.control_plane.support.applying import Applying

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
STRATEGIC = "application/strategic-merge-patch+json"
NEVER_EVICTED = ("hub", "task", "database")
STEPS = 6
_TEAMS = {"kubectl-client-side-apply", "argocd-controller", "helm", "kustomize-controller", "kube-controller-manager"}


class Platform(Protocol):
    team: Adopted
    git: Sequence[Json]
    rendered: Sequence[Json]

    def write(self, opening: int) -> None: ...
    def restart(self) -> None: ...
    def evict(self, app: str) -> list[int]: ...


class Writers:
    """`git` is the team's, and changes with `commit`. `specs` are what the API server made of it at first."""

    def __init__(self, platform: Platform, categories: Mapping[str, str]) -> None:
        self._platform, self._categories = platform, categories
        self._api: KubeApi = platform.team.plane.api
        self._git = copy.deepcopy([*platform.git])
        self._specs = {owners.path_of(item): self._api.get(owners.path_of(item))["spec"] for item in self._git}
        self._commits = 0

    def interleave(self, seed: int) -> None:
        """Raises `ApiError` for a write that is refused, and AssertionError for a field that is not the team's."""
        chance = random.Random(seed)
        steps: list[Callable[[random.Random], object]] = [
            *([self._argo, self._helm, self._flux] * 2),
            self._commit,
            self._up,
            lambda some: self._platform.write(some.randint(0, 1)),
            lambda _: self._platform.restart(),
            self._evict,
            self._lose_a_pod,
        ]
        for _ in range(STEPS):
            chance.choice(steps)(chance)
        for item in self._git:
            self._patch(item, "argocd-controller", noted=True)  # self-heal
        self._check()

    # --- the team's tools ---------------------------------------------------------------------------------------------

    def _argo(self, chance: random.Random) -> None:
        self._patch(chance.choice(self._git), "argocd-controller", noted=True)

    def _helm(self, chance: random.Random) -> None:
        self._patch(chance.choice(self._git), "helm", noted=False)

    def _flux(self, chance: random.Random) -> None:
        item = chance.choice(self._git)
        self._api.apply(owners.path_of(item), item, manager="kustomize-controller")

    def _patch(self, item: Json, manager: str, *, noted: bool) -> None:
        body = copy.deepcopy(item)
        if noted:
            body["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(item)}
        kind = MERGE_PATCH if item["kind"] == "Engine" else STRATEGIC
        self._api.patch(owners.path_of(item), body, kind, fieldManager=manager)

    def _commit(self, chance: random.Random) -> None:
        """A new image, in git only."""
        self._commits += 1
        item = chance.choice([item for item in self._git if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet")])
        for spec in (item["spec"], self._specs[owners.path_of(item)]):
            spec["template"]["spec"]["containers"][0]["image"] = f"any:{self._commits}"

    # --- Ebbtide, and what happens ------------------------------------------------------------------------------------

    def _up(self, _: random.Random) -> None:
        """Without force: a field of another manager would be a conflict."""
        Applying(self._api).apply(self._platform.rendered)

    def _evict(self, chance: random.Random) -> None:
        for app in (chance.choice(["web", "engine"]), *NEVER_EVICTED):
            answers = self._platform.evict(app)
            gone = {404}  # a rollout may have replaced it
            assert {*answers} - gone <= ({429} if app in NEVER_EVICTED else {201, 429}), (app, answers)
        self._operate()

    def _operate(self) -> None:
        """Its operator brings back what an engine lacks."""
        for engine in [item for item in self._git if item["kind"] == "Engine"]:
            app = "database" if engine["apiVersion"].startswith(owners.SCALED) else "engine"
            names = {pod["metadata"]["name"] for pod in self._platform.team.pods(app=app)}
            owner = self._api.get(owners.path_of(engine))
            for name in {f"{app}-{number}" for number in range(engine["spec"]["replicas"])} - names:
                self._api.create(self._platform.team.pods_path, owners.engine_pod(name, owner, app))

    def _lose_a_pod(self, chance: random.Random) -> None:
        pods = self._platform.team.pods(app=chance.choice(["web", "hub"]))
        if pods:
            try:
                self._api.delete(f"{self._platform.team.pods_path}/{chance.choice(pods)['metadata']['name']}")
            except ApiError as error:
                if error.status != 404:
                    raise

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        for item in self._git:
            live = self._api.get(owners.path_of(item))
            assert _comparable(live["spec"]) == _comparable(self._specs[owners.path_of(item)])
            if item["kind"] != "Pod":
                assert PREFIX not in str(live)
            assert {entry["manager"] for entry in live["metadata"]["managedFields"]} <= _TEAMS | {"kwok"}
        eventually(self._all_adopted, what="every pod of a rule to be adopted")

    def _all_adopted(self) -> bool:
        pods = self._platform.team.pods()
        apps = [pod["metadata"]["labels"]["app"] for pod in pods]
        expected = [(self._categories.get(app), app if app in self._categories else None) for app in apps]
        assert [adoption_of(pod) for pod in pods] == expected
        return apps.count("web") >= 3 and apps.count("hub") == 1


def _comparable(spec: Any) -> str:
    return json.dumps(spec, sort_keys=True)
