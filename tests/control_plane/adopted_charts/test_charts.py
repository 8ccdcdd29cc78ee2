"""Imitated charts on a real control plane, under the rules of the page on charts."""

import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from ebbtide.vocabulary.labels import CATEGORY, NODE_KIND, WORKLOAD
from tests.builders import charts
from tests.builders.adoption import policies
from tests.builders.control_plane import Fresh, eventually
from tests.builders.shown_stacks import stack_of
from tests.control_plane.support.applying import Applying

pytestmark = pytest.mark.control_plane

RULES = stack_of("how-to/charts.md").adopted
NAMESPACES = {rule.namespace for rule in RULES.values()} | {charts.LOGGING}
OWN = (None, None, None)
PLACED: Mapping[str, tuple[str | None, str | None, str | None]] = {
    "hub": ("fixed", "hub", "fixed"),
    "proxy": ("fixed", "proxy", "fixed"),
    "jupyter-ada": ("worker", "users", "flexible"),
    "continuous-image-puller": OWN,
    "mlflow": ("flexible", "mlflow", "flexible"),
    "airflow-scheduler": ("flexible", "scheduler", "flexible"),
    "airflow-api-server": ("flexible", "api-server", "flexible"),
    "airflow-dag-processor": ("fixed", "dag-processor", "fixed"),
    "airflow-triggerer": ("flexible", "triggerer", "flexible"),
    "nightly-train-x1": ("worker", "tasks", "flexible"),
    "fluent-bit": OWN,
    "main-1": ("fixed", "database", "fixed"),
    "main-1-initdb": OWN,
}
"""By name of the owner or bare pod: category, rule and nodes."""
NODES = ("fixed", "flexible", "flexible")
REPLICATED = {"mlflow", "airflow-scheduler", "airflow-api-server", "airflow-triggerer"}
"""Deployments with two pods."""
DAEMON_SETS = {"continuous-image-puller", "fluent-bit"}
WARNED = {
    "hub": "hub",
    "proxy": "proxy",
    "airflow-scheduler-pdb": "scheduler",
    "airflow-worker-pdb": "tasks",
    "main": "database",
    "main-primary": "database",
}
"""The rule that the warning for a budget names."""


class Installed:
    """The charts, in namespaces that no other test uses."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.fresh, self._applying = plane, Fresh(plane), Applying(plane.api)
        self.namespaces = {name: self.fresh.namespace(name) for name in sorted(NAMESPACES)}
        here = {
            name: rule.model_copy(update={"namespace": self.namespaces[rule.namespace]}) for name, rule in RULES.items()
        }
        self._applying.apply(policies(here))

    def kubectl(self, *arguments: str, objects: list[dict[str, Any]]) -> str:
        return self.plane.kubectl(*arguments, "-f", "-", stdin=charts.as_list(charts.moved(objects, self.namespaces)))

    def pods(self) -> list[dict[str, Any]]:
        return [
            pod
            for namespace in self.namespaces.values()
            for pod in self.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        ]

    def clean(self) -> None:
        self._applying.delete()
        self.fresh.clean()


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Installed]:
    installed = Installed(control_plane)
    for kind in NODES:
        installed.fresh.node(kind, labels={NODE_KIND: kind})
    first = charts.bare_pod("first", charts.JUPYTER, charts.jupyterhub("hub"))
    eventually(
        lambda: WORKLOAD in installed.kubectl("create", "--dry-run=server", "-o", "yaml", objects=[first]),
        what="the policy's rules",
    )
    eventually(lambda: warning(installed, charts.budgets()["hub"]), what="the warning for budgets")
    yield installed
    installed.clean()


def name_of(pod: Mapping[str, Any]) -> str:
    """The name of the Deployment, the DaemonSet or the bare pod."""
    owners = pod["metadata"].get("ownerReferences", [])
    if not owners:
        return pod["metadata"]["name"]
    name = owners[0]["name"]
    return name.rpartition("-")[0] if owners[0]["kind"] == "ReplicaSet" else name


def placement_of(pod: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    labels = pod["metadata"]["labels"]
    return labels.get(CATEGORY), labels.get(WORKLOAD), pod["spec"].get("nodeSelector", {}).get(NODE_KIND)


def test_pods_of_every_chart_get_the_category_and_the_nodes_of_the_page(installed: Installed) -> None:
    """DaemonSets run on every node, and the Job that initializes a disk has no rule."""
    installed.kubectl("apply", objects=charts.workloads())
    nodes = len(installed.plane.api.get("/api/v1/nodes")["items"])
    expected = {name: nodes if name in DAEMON_SETS else 1 + (name in REPLICATED) for name in PLACED}

    def counted() -> dict[str, int]:
        names = [name_of(pod) for pod in installed.pods()]
        return {name: names.count(name) for name in names}

    eventually(lambda: counted() == expected, what="all pods to be created")
    assert {(name_of(pod), placement_of(pod)) for pod in installed.pods()} == {*PLACED.items()}
    eventually(lambda: all("nodeName" in pod["spec"] for pod in installed.pods()), what="all pods to be bound")


def warning(installed: Installed, budget: dict[str, Any]) -> str:
    """What `kubectl apply` adds to its answer; the budget is not stored."""
    try:
        made, shown = installed.kubectl("apply", "--dry-run=server", "--warnings-as-errors", objects=[budget]), ""
    except subprocess.CalledProcessError as error:
        made, shown = error.stdout, error.stderr
    assert "created (server dry run)" in made
    return shown


@pytest.mark.parametrize(("name", "budget"), charts.budgets().items())
def test_the_warning_for_a_charts_budget_names_the_rule(
    name: str, budget: dict[str, Any], installed: Installed
) -> None:
    shown = warning(installed, budget)

    rule = WARNED.get(name)
    assert (f"ebbtide:adopted.{rule}." in shown) if rule else shown == ""
