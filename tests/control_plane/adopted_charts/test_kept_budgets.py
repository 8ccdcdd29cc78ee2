"""A chart's own budget, which the controller opens and closes while the chart's tools write it again and again."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, Json
from controllers.closer import close
from ebbtide.recording.output import output_files
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import CLOSER, NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest
from tests.control_plane.support.applying import Applying, controller_of, objects_in, write_all
from tests.control_plane.support.team_writers import LAST_APPLIED, STRATEGIC

pytestmark = pytest.mark.control_plane

BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
PATH = f"{BUDGETS}/shop-pdb"
RULE = "namespace: shop, selector: { app: shop }, category: flexible, replicas: 3, cpu: 1, memory: 1Gi"
STACK = shortest(
    more=f"""
      ebbtide:cluster: {{ version: "1.36" }}
      ebbtide:adopted: {{ shop: {{ {RULE}, budget: shop-pdb }} }}
    """
)
BY_DAY = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS: tuple[dict[str, Any], ...] = ({"minAvailable": 1}, {"maxUnavailable": 2}, {"maxUnavailable": "50%"})


@dataclass
class Chart:
    plane: ControlPlane
    config: ControllerConfig

    def manifest(self, **numbers: Any) -> Json:
        spec = {"selector": {"matchLabels": {"app": "shop"}}, **numbers}
        metadata = {"name": "shop-pdb", "namespace": "shop", "labels": {"helm.sh/chart": "shop-1"}}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}

    def spec(self) -> dict[str, Any]:
        return self.plane.api.get(PATH)["spec"]

    def write(self, opening: int) -> None:
        """As the controller does."""
        with controller_of(self.plane, self.config) as controller:
            write_all(controller, self.config, workers=0, opening=opening)

    def helm(self, item: Json) -> None:
        self.plane.api.patch(PATH, item, STRATEGIC, fieldManager="helm")

    def argo(self, item: Json) -> None:
        """An apply on the client's side, which notes what it sent."""
        metadata = {**item["metadata"], "annotations": {LAST_APPLIED: json.dumps(item)}}
        self.plane.api.patch(PATH, {**item, "metadata": metadata}, STRATEGIC, fieldManager="argocd-controller")

    def flux(self, item: Json) -> None:
        self.plane.api.apply(PATH, item, manager="kustomize-controller")

    def kubectl(self, item: Json) -> None:
        self.plane.kubectl("apply", "-f", "-", stdin=json.dumps(item))

    def again(self, item: Json) -> None:
        """As an uninstalled chart that comes back."""
        self.plane.api.delete(PATH)
        self.plane.api.create(BUDGETS, item)

    def replaced(self, item: Json) -> None:
        version = self.plane.api.get(PATH)["metadata"]["resourceVersion"]
        self.plane.api.replace(PATH, {**item, "metadata": {**item["metadata"], "resourceVersion": version}})


@pytest.fixture(scope="module")
def chart(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Chart:
    """The chart is older than the stack."""
    folder = tmp_path_factory.mktemp("chart")
    write_directory(folder, output_files(record(loaded(STACK, tmp_path_factory.mktemp("stack")))))
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    config = load(ControllerConfig, (folder / "controller-config.json").read_text(encoding="utf-8"))
    chart = Chart(plane, config)
    chart.kubectl(chart.manifest(minAvailable=1))
    Applying(plane.api).apply(objects_in(folder))
    return chart


def test_the_chart_budget_is_the_only_one_and_closes_when_the_controller_first_writes_it(chart: Chart) -> None:
    assert [item["metadata"]["name"] for item in chart.plane.api.get(BUDGETS)["items"]] == ["shop-pdb"]
    assert chart.spec()["minAvailable"] == 1

    chart.write(0)

    assert (chart.spec()["maxUnavailable"], "minAvailable" in chart.spec()) == (0, False)
    labels = chart.plane.api.get(PATH)["metadata"]["labels"]
    assert labels == {"helm.sh/chart": "shop-1"}


TOOLS: dict[str, Callable[[Chart, Json], None]] = {
    "helm upgrade": Chart.helm,
    "Argo CD": Chart.argo,
    "Flux": Chart.flux,
    "kubectl apply": Chart.kubectl,
    "kubectl replace": Chart.replaced,
}


@pytest.mark.parametrize("opening", [0, 1], ids=["by day", "in the window"])
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_no_tool_of_the_chart_changes_its_number(
    chart: Chart, tool: Callable[[Chart, Json], None], opening: int
) -> None:
    chart.write(opening)
    for numbers, _ in product(NUMBERS, range(2)):
        tool(chart, chart.manifest(**numbers))

        assert (chart.spec()["maxUnavailable"], "minAvailable" in chart.spec()) == (opening, False)
    chart.write(1 - opening)
    assert chart.spec()["maxUnavailable"] == 1 - opening


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_a_budget_that_comes_back_is_closed(chart: Chart, numbers: dict[str, Any]) -> None:
    chart.write(1)
    chart.again(chart.manifest(**numbers))

    assert (chart.spec()["maxUnavailable"], "minAvailable" in chart.spec()) == (0, False)


def test_other_fields_stay_the_charts(chart: Chart) -> None:
    item = chart.manifest(minAvailable=1)
    item["spec"]["selector"]["matchLabels"] = {"app": "shop", "release": "two"}
    chart.helm(item)

    assert chart.spec()["selector"] == item["spec"]["selector"]
    chart.helm(chart.manifest(minAvailable=1))


def test_the_closer_closes_it_and_nobody_of_ebbtide_opens_it_wider(chart: Chart) -> None:
    chart.write(1)
    closer = chart.plane.api_as(NAMESPACE, CLOSER)
    (policy,) = [budget for budget in chart.config.closed_by_day if budget.name == "shop"]

    assert close(policy, chart.config, closer, [BY_DAY])
    assert chart.spec()["maxUnavailable"] == 0
    body = chart.manifest(maxUnavailable=1)
    for account, number in ((CLOSER, 1), ("ebbtide-controller", 2)):
        body["spec"] = {"maxUnavailable": number}
        with pytest.raises(ApiError):
            chart.plane.api_as(NAMESPACE, account).apply(PATH, body, manager=account)
    assert chart.spec()["maxUnavailable"] == 0


def test_the_closer_also_closes_the_budget_of_an_older_chart(chart: Chart) -> None:
    """The policy is younger: until the first write of any client it has the chart's minimum."""
    policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/ebbtide-kept-budgets"
    binding = chart.plane.api.get(policies)
    chart.plane.api.delete(policies)
    item = chart.manifest(minAvailable=1)

    def has_its_minimum() -> bool:
        chart.again(item)
        return "minAvailable" in chart.spec()

    eventually(has_its_minimum, what="the policy to be out of force")
    metadata = {"name": binding["metadata"]["name"]}
    chart.plane.api.create(policies.rpartition("/")[0], {**binding, "metadata": metadata})
    eventually(lambda: _is_kept(chart), what="the policy to be in force")
    (policy,) = [budget for budget in chart.config.closed_by_day if budget.name == "shop"]

    assert close(policy, chart.config, chart.plane.api_as(NAMESPACE, CLOSER), [BY_DAY])
    assert (chart.spec()["maxUnavailable"], "minAvailable" in chart.spec()) == (0, False)


def _is_kept(chart: Chart) -> bool:
    body = {"metadata": {"labels": {"any": "thing"}}}
    return "minAvailable" not in chart.plane.api.patch(PATH, body, dryRun="All")["spec"]
