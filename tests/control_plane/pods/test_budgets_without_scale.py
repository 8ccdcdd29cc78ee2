"""Pods of Jobs, of operators and bare ones: no scale subresource says how many there should be (decision 24).

The real disruption controller and the real Eviction API answer. Half of these tests hold what Kubernetes does with the
budget that every other pod has, and so why these pods have another one: if one of them fails after an upgrade, the
decision is to be looked at again.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, WORKLOAD, Category
from tests.builders.control_plane import Fresh, eventually

Json: TypeAlias = dict[str, Any]

pytestmark = pytest.mark.control_plane

ALL, NONE = {"minAvailable": "100%"}, {"minAvailable": "0%"}
GRANTED, REFUSED = 201, 429
NAME = "hub"
LABELS = {WORKLOAD: NAME, CATEGORY: Category.WORKER.value}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One whose KWOK leaves these pods alone: it would end a Job's pods as soon as they run."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(hands_off=f"{WORKLOAD}={NAME}") as found:
        yield found


@pytest.fixture
def left_alone(plane: ControlPlane) -> Iterator[Fresh]:
    made = Fresh(plane)
    yield made
    made.clean()


class Place:
    """A namespace with one budget, and a node for its pods."""

    def __init__(self, fresh: Fresh, **number: int | str) -> None:
        self.plane, self.node, self.namespace = fresh.plane, fresh.node(), fresh.namespace()
        self.pods_path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.budget_path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec: Json = {**number, "selector": {"matchLabels": {WORKLOAD: NAME}}}
        spec["unhealthyPodEvictionPolicy"] = "IfHealthyBudget"
        self.plane.api.create(self.budget_path, {"metadata": {"name": NAME}, "spec": spec})

    @property
    def _pod(self) -> Json:
        main = {"name": "main", "image": "any"}
        end = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        return {"nodeName": self.node, **end, "containers": [main]}

    def bare(self, name: str) -> None:
        self.plane.api.create(self.pods_path, {"metadata": {"name": name, "labels": LABELS}, "spec": self._pod})

    def job(self, pods: int) -> None:
        template = {"metadata": {"labels": LABELS}, "spec": self._pod}
        spec = {"parallelism": pods, "completions": pods, "template": template}
        self.plane.api.create(
            f"/apis/batch/v1/namespaces/{self.namespace}/jobs", {"metadata": {"name": NAME}, "spec": spec}
        )

    def deployment(self, replicas: int) -> None:
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {**self._pod, "restartPolicy": "Always"}},
        }
        self.plane.api.create(
            f"/apis/apps/v1/namespaces/{self.namespace}/deployments", {"metadata": {"name": NAME}, "spec": spec}
        )

    def until_healthy(self, number: int) -> list[str]:
        """So many pods are there, and each is said to be ready, as a kubelet would say it; their names."""

        def there() -> list[str] | None:
            names = sorted(pod["metadata"]["name"] for pod in self.plane.api.get(self.pods_path)["items"])
            return names if len(names) == number else None

        names = eventually(there, what=f"{number} pods")
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for name in names:
            path = f"{self.pods_path}/{name}/status"
            self.plane.api.patch(path, {"status": ready}, "application/strategic-merge-patch+json")
        return names

    def budget(self) -> Json:
        return self.plane.api.get(f"{self.budget_path}/{NAME}")

    def until_counted(self, number: int) -> Json:
        def status() -> Json | None:
            found: Json = self.budget().get("status", {})
            return found if found.get("currentHealthy") == number else None

        return eventually(status, what=f"the budget to count {number} pods")

    def why_not_counted(self) -> str:
        def message() -> str | None:
            conditions = self.budget().get("status", {}).get("conditions", [])
            return next((entry["message"] for entry in conditions if entry["reason"] == "SyncFailed"), None)

        return eventually(message, what="the budget to say why it cannot be counted")

    def evict(self, name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        try:
            self.plane.api.create(f"{self.pods_path}/{name}/eviction", body)
        except ApiError as error:
            return error.status
        return GRANTED


# --- the budget that such pods have -----------------------------------------------------------------------------------


def test_nobody_evicts_a_jobs_pods(left_alone: Fresh) -> None:
    place = Place(left_alone, minAvailable=CLOSED_MINIMUM)
    place.job(2)
    pods = place.until_healthy(2)

    status = place.until_counted(2)

    assert (status["disruptionsAllowed"], status["desiredHealthy"], status["expectedPods"]) == (0, CLOSED_MINIMUM, 2)
    assert [place.evict(name) for name in pods] == [REFUSED, REFUSED]


def test_nobody_evicts_a_pod_that_a_hub_started_by_itself(left_alone: Fresh) -> None:
    place = Place(left_alone, minAvailable=CLOSED_MINIMUM)
    place.deployment(1)
    place.bare("notebook-ada")
    pods = place.until_healthy(2)

    assert place.until_counted(2)["disruptionsAllowed"] == 0
    assert "notebook-ada" in pods
    assert [place.evict(name) for name in pods] == [REFUSED, REFUSED]


def test_zero_opens_it_and_the_closed_number_closes_it_again(left_alone: Fresh) -> None:
    place = Place(left_alone, minAvailable=CLOSED_MINIMUM)
    place.bare("notebook-ada")
    place.bare("notebook-bob")
    place.until_healthy(2)
    place.until_counted(2)

    place.plane.api.patch(f"{place.budget_path}/{NAME}", {"spec": {"minAvailable": 0}})
    eventually(lambda: place.budget()["status"]["disruptionsAllowed"] == 2, what="the budget to be open")
    assert place.evict("notebook-ada") == GRANTED
    place.plane.api.patch(f"{place.budget_path}/{NAME}", {"spec": {"minAvailable": CLOSED_MINIMUM}})

    assert place.evict("notebook-bob") == REFUSED


# --- what `maxUnavailable: 0` would do instead ------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "opened"), [({"maxUnavailable": 0}, {"maxUnavailable": 1}), (ALL, NONE)])
def test_what_is_a_share_of_the_expected_cannot_be_counted_for_a_jobs_pods(
    number: Json, opened: Json, left_alone: Fresh
) -> None:
    """It refuses by failing: nothing is allowed, nothing is known, and no such number opens it."""
    place = Place(left_alone, **number)
    place.job(1)
    (pod,) = place.until_healthy(1)

    assert "does not implement the scale subresource" in place.why_not_counted()
    assert place.evict(pod) == REFUSED
    place.plane.api.patch(f"{place.budget_path}/{NAME}", {"spec": opened})
    assert place.evict(pod) == REFUSED


def test_max_unavailable_lets_as_many_go_by_day_as_there_are_bare_pods(left_alone: Fresh) -> None:
    """A bare pod counts as healthy and not as expected, so it stands in for one that is evicted."""
    place = Place(left_alone, maxUnavailable=0)
    place.deployment(2)
    place.bare("notebook-ada")
    place.until_healthy(3)

    status = place.until_counted(3)

    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (2, 2, 1)
    assert place.evict("notebook-ada") == GRANTED
