"""A customer's stack on the real engine: from the first preview to the end."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandError

from tests.engine.project import STACKS, Project
from tests.engine.stand_in.cloud import CLUSTER, Thing
from tests.engine.stand_in.sdk import Json

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

EACH = pytest.mark.parametrize("name", STACKS)
EACH_AND_DEMO_IN_EVERY_RUN = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.every_run) if name == "demo" else name for name in STACKS]
)
SHORTEST: Mapping[str, Any] = {
    "ebbtide:customer": "new",
    "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
    "ebbtide:workers": {
        "jobs": {
            "source": {"kind": "rq", "queues": ["jobs"]},
            "image": "registry.example.com/jobs:1",
            "max": 4,
            "cpu": 2,
            "memory": "4Gi",
            "longestJob": "1h",
        }
    },
}


def test_a_new_customers_preview_shows_all_of_it_and_makes_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("new", SHORTEST)

    told = project.preview("new")

    assert set(told.touched.values()) == {"create"}
    assert {"cluster-control-plane", "controller-deployment", "jobs-deployment"} <= told.named().keys()
    assert list(project.cloud.things()) == []


def test_bad_input_ends_a_preview_with_its_message_and_no_traceback(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("new", {**SHORTEST, "ebbtide:customr": "new"})

    with pytest.raises(CommandError) as refused:
        project.preview("new")

    assert "customr" in str(refused.value)
    assert "Traceback" not in str(refused.value)


@EACH_AND_DEMO_IN_EVERY_RUN
def test_a_second_up_and_a_refresh_change_nothing(name: str, running: Callable[[str], Project]) -> None:
    project = running(name)

    assert project.up(name, refresh=True).touched == {}


@EACH
def test_other_business_hours_reach_the_document_and_the_closer_and_no_workload(
    name: str, running: Callable[[str], Project]
) -> None:
    project = running(name)
    project.edit(name, lambda config: config["ebbtide:businessHours"].update(week={"mon-fri": "09:10-18:05"}))

    told = project.up(name)

    # Prometheus' rules name the hours, and its pod restarts for new rules.
    assert told.of("ConfigMap", "CronJob") == told.named().keys() - {"monitoring-prometheus-server"}
    assert told.named()["controller-config"] == "update"


@pytest.mark.parametrize("name", [name for name in STACKS if name != "example-lisbon"])  # it has services alone
def test_a_workload_that_becomes_flexible_is_not_replaced(name: str, running: Callable[[str], Project]) -> None:
    project = running(name)
    moved: list[str] = []

    def move(config: dict[str, Any]) -> None:
        moved.append(next(key for key, each in config["ebbtide:workloads"].items() if each["category"] == "fixed"))
        config["ebbtide:workloads"][moved[0]]["category"] = "flexible"

    project.edit(name, move)

    told = project.up(name)

    assert set(told.touched.values()) == {"update"}
    assert {f"{moved[0]}-deployment", f"{moved[0]}-budget"} <= told.named().keys()


@EACH
def test_a_destroy_that_would_reach_protected_data_touches_nothing(
    name: str, running: Callable[[str], Project]
) -> None:
    """By its preview, which `pulumi destroy` runs first: with `--skip-preview` all around it would be gone."""
    project = running(name)
    before = len(list(project.cloud.things()))

    with pytest.raises(CommandError, match="protected"):
        project.destroy(name, preview_only=True)

    assert len(list(project.cloud.things())) == before > 50


@EACH
def test_a_destroy_ends_once_what_is_protected_was_let_go(name: str, running: Callable[[str], Project]) -> None:
    project = running(name)
    project.let_go(name)
    kept = project.kept(name)

    told = project.destroy(name)

    assert set(told.touched.values()) == {"delete"}
    assert {thing.id for thing in project.cloud.things()} == kept


@pytest.fixture
def one(running: Callable[[str], Project]) -> Project:
    return running("demo")


def flexible_groups(project: Project) -> list[Thing]:
    return [
        each for each in project.cloud.things() if each.inputs.get("nodeGroupNamePrefix", "").startswith("flexible")
    ]


def sizes(project: Project) -> list[Json]:
    return [each.inputs["scalingConfig"] for each in flexible_groups(project)]


def autoscaler_grows(project: Project, nodes: int) -> None:
    """Behind Pulumi's back."""
    for group in flexible_groups(project):
        for side in (group.inputs, group.outputs):
            side["scalingConfig"]["desiredSize"] = float(nodes)
        project.cloud.put(group)


def set_range(minimum: int, maximum: int) -> Callable[[dict[str, Any]], object]:
    return lambda config: config["ebbtide:nodeGroups"]["flexible"].update(min=minimum, max=maximum)


def test_a_new_maximum_with_a_refresh_leaves_the_running_nodes(one: Project) -> None:
    autoscaler_grows(one, 3)
    one.edit("demo", set_range(0, 60))

    told = one.up("demo", refresh=True)

    assert told.of("NodeGroup") >= {"flexible-a-nodes", "flexible-b-nodes"}
    assert [(each["maxSize"], each["desiredSize"]) for each in sizes(one)] == [(30, 3), (30, 3)]


def test_a_minimum_above_the_running_nodes_is_refused_and_changes_no_group(one: Project) -> None:
    autoscaler_grows(one, 3)
    before = sizes(one)
    one.edit("demo", set_range(8, 40))

    with pytest.raises(CommandError, match="Minimum capacity 4 can't be greater than desired size 3"):
        one.up("demo", refresh=True)

    assert sizes(one) == before


def test_the_minimum_follows_in_a_second_step(one: Project) -> None:
    autoscaler_grows(one, 4)
    one.edit("demo", set_range(8, 40))

    one.up("demo", refresh=True)

    assert [(each["minSize"], each["desiredSize"]) for each in sizes(one)] == [(4, 4), (4, 4)]


def test_a_cluster_is_the_last_to_go_of_what_stands_in_it(one: Project) -> None:
    one.let_go("demo")

    order = list(one.destroy("demo").named())

    gone = order.index("cluster-control-plane")
    assert all(order.index(each) < gone for each in order if each.endswith(("-nodes", "-deployment", "-budget")))
    assert order.index("controller-deployment") < min(
        order.index(each) for each in order if each.endswith("-budget") and not each.startswith("controller")
    )
    assert one.cloud.find(CLUSTER, "demo") is None
