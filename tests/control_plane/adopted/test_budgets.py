"""A team's platform under a rendered stack: its budgets by day and by night, and everybody who writes to it.

The controller's adapter writes the budgets, and the Eviction API answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import InstalledStack, install

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.vocabulary.labels import CLOSED_MINIMUM
from tests.builders.control_plane import eventually
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import RULES, Adopted
from tests.control_plane.support.applying import controller_of, objects_in, write_all
from tests.control_plane.support.team_writers import Writers
from tests.counts import count

pytestmark = pytest.mark.control_plane

ALL_RULES: Mapping[str, Any] = {
    **RULES,
    "database": {"selector": {"app": "database"}, "category": "fixed", "replicas": 3},
    "batch": {"selector": {"app": "batch"}, "category": "worker"},
}
GRANTED, REFUSED = 201, 429


class Platform:
    """A team's workloads under a stack that adopts them, and the controller's adapter."""

    def __init__(self, team: Adopted, stack: InstalledStack, git: Sequence[Json]) -> None:
        self.team, self.api, self.git, self._config = team, team.plane.api, git, stack.config
        self.rendered: Sequence[Json] = [item for item in objects_in(stack.folder) if _is_for(team, item)]
        self._budgets = f"/apis/policy/v1/namespaces/{team.namespace}/poddisruptionbudgets"
        self._controller = ExitStack()
        self.restart()

    def restart(self) -> None:
        """Start the controller's adapter again."""
        self.close()
        self._cluster = self._controller.enter_context(controller_of(self.team.plane, self._config))

    def close(self) -> None:
        self._controller.close()

    def write(self, opening: int) -> None:
        write_all(self._cluster, self._config, workers=0, opening=opening)

    def set(self, opening: int) -> None:
        """As the controller does at the end of a window (1), and before its start (0)."""
        self.write(opening)
        least = 3 if opening else CLOSED_MINIMUM
        for name, field, number in (
            ("ebbtide-web", "maxUnavailable", opening),
            ("ebbtide-engine.pods", "minAvailable", least),
        ):
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
        """The answers for all its ready pods, one after the other. No budget counts for a pod that is pending."""
        return [self._evict(pod["metadata"]["name"]) for pod in self.team.pods(app=app) if _ready(pod)]

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
            return [_ready(pod) for pod in self.team.pods(app=app)] == [True] * number

        eventually(ready, what=f"{number} ready pods of {app}")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """On a control plane of its own, whose nodes it closes to new pods."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane() as plane:
        platform = _installed(plane, tmp_path_factory.mktemp("adopted"))
        yield platform
        platform.close()


def _installed(plane: ControlPlane, folder: Path) -> Platform:
    team = Adopted(plane)
    team.add_nodes()
    for group in (owners.PLAIN, owners.SCALED):
        owners.add_kind(team.fresh, group)
    plane.restart("kube-controller-manager")  # which asks for new kinds every 30 s only
    stack = install(plane, team.stack(ALL_RULES), folder)
    git = [
        owners.deployment("web", team.namespace, replicas=3),
        owners.stateful_set("hub", team.namespace, replicas=1),
        owners.daemon_set("agent", team.namespace, app="agent"),
        owners.job("once", team.namespace, app="batch"),
        owners.cron_job("yearly", team.namespace, app="batch"),
        owners.bare_pod("alone", team.namespace, app="task"),
        owners.engine("main", team.namespace, instances=4),
        owners.engine("main", team.namespace, instances=3, group=owners.SCALED),
    ]
    plane.kubectl("apply", "-f", "-", stdin=owners.as_git(git))
    for group, app, instances in ((owners.PLAIN, "engine", 4), (owners.SCALED, "database", 3)):
        owner = plane.api.get(f"/apis/{group}/v1/namespaces/{team.namespace}/engines/main")
        for number in range(instances):
            plane.api.create(team.pods_path, owners.engine_pod(f"{app}-{number}", owner, app))
    platform = Platform(team, stack, git)
    for app, number in {"web": 3, "hub": 1, "task": 1, "engine": 4, "database": 3}.items():
        platform.until_ready(app, number)
    return platform


def _is_for(team: Adopted, item: Json) -> bool:
    return item["metadata"].get("namespace") == team.namespace or "AdmissionPolicy" in item["kind"]


def _ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


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
    eventually(
        lambda: platform.allowed("ebbtide-web") and platform.allowed("ebbtide-engine.pods"),
        what="the budgets to be open",
    )
    platform.new_nodes(take_pods=False)

    assert sorted(platform.evict("web")) == [GRANTED, REFUSED, REFUSED]
    assert sorted(platform.evict("engine")) == [GRANTED, REFUSED, REFUSED, REFUSED]
    assert [platform.evict(app) for app in ("hub", "task", "database")] == [[REFUSED], [REFUSED], [REFUSED] * 3]


def test_the_next_one_goes_when_the_successor_is_ready(platform: Platform) -> None:
    platform.new_nodes(take_pods=True)
    platform.until_ready("web", 3)
    eventually(lambda: platform.allowed("ebbtide-web"), what="the budget to allow the next one")
    platform.new_nodes(take_pods=False)

    assert sorted(platform.evict("web")) == [GRANTED, REFUSED, REFUSED]
    assert platform.allowed("ebbtide-engine.pods") == 0  # its operator has created none


def test_before_the_day_begins_the_budgets_close_again(platform: Platform) -> None:
    platform.new_nodes(take_pods=True)
    platform.until_ready("web", 3)
    platform.set(0)

    assert platform.evict("web") == [REFUSED] * 3
    assert set(platform.evict("engine")) == {REFUSED}


def test_pods_of_a_custom_resource_with_a_scale_are_counted_by_it(platform: Platform) -> None:
    status = eventually(lambda: platform.expecting("ebbtide-database", 3), what="the budget to be counted")

    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 0)


# --- everybody writes -------------------------------------------------------------------------------------------------

QUICK = range(20)
LONG = range(len(QUICK), len(QUICK) + count(200, 40))


@pytest.fixture(scope="module")
def writers(platform: Platform) -> Writers:
    platform.new_nodes(take_pods=True)
    rules = platform.team.stack(ALL_RULES).adopted
    return Writers(platform, {name: rule.category.value for name, rule in rules.items()})


@pytest.mark.parametrize("seed", QUICK)
def test_no_writer_undoes_another_ones_fields(seed: int, writers: Writers) -> None:
    writers.interleave(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_more_interleavings_of_all_writers(seed: int, writers: Writers) -> None:
    writers.interleave(seed)
