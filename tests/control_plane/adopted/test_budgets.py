"""Budgets of adopted pods by day and by night: the controller's adapter writes them, and the Eviction API answers."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import install

from controllers.adapters.kube_api import ApiError, Json
from controllers.adapters.kube_cluster import KubeCluster
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, NAMESPACE
from tests.builders.control_plane import eventually
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import RULES, Adopted
from tests.control_plane.support.applying import controller_of, write_all

pytestmark = pytest.mark.control_plane

ALL_RULES: Mapping[str, Any] = {
    **RULES,
    "database": {"selector": {"app": "database"}, "category": "fixed", "replicas": 3},
}
GRANTED, REFUSED = 201, 429
SPACES = {NAMESPACE, WORKER_NAMESPACE}


class Platform:
    """A team's workloads under a stack that adopts them, and the controller's adapter."""

    def __init__(self, team: Adopted, cluster: KubeCluster, config: ControllerConfig) -> None:
        self.team, self.api, self._cluster, self._config = team, team.plane.api, cluster, config
        self._budgets = f"/apis/policy/v1/namespaces/{team.namespace}/poddisruptionbudgets"

    def set(self, opening: int) -> None:
        """As the controller does at the end of a window (1), and before its start (0)."""
        write_all(self._cluster, self._config, workers=0, opening=opening)
        expected = {
            "web": ("maxUnavailable", opening),
            "engine.pods": ("minAvailable", 3 if opening else CLOSED_MINIMUM),
        }
        for name, (field, number) in expected.items():
            assert self.api.get(f"{self._budgets}/{name}")["spec"][field] == number
            eventually(lambda name=name: self.counted(name), what=f"the budget {name} to be counted")

    def counted(self, name: str) -> Json | None:
        budget = self.api.get(f"{self._budgets}/{name}")
        status: Json = budget.get("status", {})
        return status if status.get("observedGeneration") == budget["metadata"]["generation"] else None

    def expecting(self, name: str, pods: int) -> Json | None:
        status = self.counted(name)
        return status if status and status["expectedPods"] == pods else None

    def allowed(self, name: str) -> int:
        status = self.counted(name)
        return status["disruptionsAllowed"] if status else 0

    def evict(self, app: str) -> list[int]:
        """The answers for all its pods, one after the other."""
        return [self._evict(pod["metadata"]["name"]) for pod in self.team.pods(app=app)]

    def _evict(self, name: str) -> int:
        metadata = {"name": name, "namespace": self.team.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        try:
            self.api.create(f"{self.team.pods_path}/{name}/eviction", body)
        except ApiError as error:
            return error.status
        return GRANTED

    def new_nodes(self, *, take_pods: bool) -> None:
        """Whether pods that come now find a node."""
        for node in self.api.get("/api/v1/nodes")["items"]:
            self.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": not take_pods}})

    def until_ready(self, app: str, number: int) -> None:
        def ready() -> bool:
            pods = [pod for pod in self.team.pods(app=app) if "deletionTimestamp" not in pod["metadata"]]
            states = [each for pod in pods for each in pod["status"].get("conditions", ()) if each["type"] == "Ready"]
            return [state["status"] for state in states] == ["True"] * number

        eventually(ready, what=f"{number} ready pods of {app}")


@pytest.fixture(scope="module")
def platform(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    team, api = Adopted(control_plane), control_plane.api
    team.add_nodes()
    stack = install(control_plane, team.stack(ALL_RULES), tmp_path_factory.mktemp("adopted"))
    for group in (owners.PLAIN, owners.SCALED):
        owners.add_kind(team.fresh, group)
    control_plane.restart("kube-controller-manager")  # which asks for new kinds every 30 s only
    git = [
        owners.deployment("web", team.namespace, replicas=3),
        owners.stateful_set("hub", team.namespace, replicas=1),
        owners.bare_pod("alone", team.namespace, app="task"),
        owners.engine("main", team.namespace, instances=4),
        owners.engine("main", team.namespace, instances=3, group=owners.SCALED),
    ]
    control_plane.kubectl("apply", "-f", "-", stdin=owners.as_git(git))
    for group, app, instances in ((owners.PLAIN, "engine", 4), (owners.SCALED, "database", 3)):
        owner = api.get(f"/apis/{group}/v1/namespaces/{team.namespace}/engines/main")
        for number in range(instances):
            api.create(team.pods_path, owners.engine_pod(f"{app}-{number}", owner, app))
    with controller_of(control_plane, stack.config) as cluster:
        platform = Platform(team, cluster, stack.config)
        for app, number in {"web": 3, "hub": 1, "task": 1, "engine": 4, "database": 3}.items():
            platform.until_ready(app, number)
        yield platform
    control_plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(stack.folder / "kubernetes"))
    eventually(lambda: not spaces(api), what="the stack's namespaces to be gone")
    team.clean()


def spaces(api: Any) -> set[str]:
    return {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]} & SPACES


def test_by_day_no_adopted_pod_is_evicted(platform: Platform) -> None:
    platform.set(0)

    answers = {app: platform.evict(app) for app in ("web", "hub", "task", "engine", "database")}

    assert answers == {
        "web": [REFUSED] * 3,
        "hub": [REFUSED],
        "task": [REFUSED],
        "engine": [REFUSED] * 4,
        "database": [REFUSED] * 3,
    }


def test_at_night_flexible_pods_go_one_at_a_time_and_fixed_ones_and_workers_stay(platform: Platform) -> None:
    platform.set(1)
    eventually(lambda: platform.allowed("web") and platform.allowed("engine.pods"), what="the budgets to be open")
    platform.new_nodes(take_pods=False)

    assert sorted(platform.evict("web")) == [GRANTED, REFUSED, REFUSED]
    assert sorted(platform.evict("engine")) == [GRANTED, REFUSED, REFUSED, REFUSED]
    assert [platform.evict(app) for app in ("hub", "task", "database")] == [[REFUSED], [REFUSED], [REFUSED] * 3]


def test_the_next_one_goes_when_the_successor_is_ready(platform: Platform) -> None:
    platform.new_nodes(take_pods=True)
    platform.until_ready("web", 3)
    eventually(lambda: platform.allowed("web"), what="the budget to allow the next one")
    platform.new_nodes(take_pods=False)

    assert sorted(platform.evict("web")) == [GRANTED, REFUSED, REFUSED]
    assert platform.allowed("engine.pods") == 0  # its operator has created none


def test_before_the_day_begins_the_budgets_close_again(platform: Platform) -> None:
    platform.new_nodes(take_pods=True)
    platform.until_ready("web", 3)
    platform.set(0)

    assert platform.evict("web") == [REFUSED] * 3
    assert set(platform.evict("engine")) == {REFUSED}


def test_pods_of_a_custom_resource_with_a_scale_are_counted_by_it(platform: Platform) -> None:
    status = eventually(lambda: platform.expecting("database", 3), what="the budget to be counted")

    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 0)
