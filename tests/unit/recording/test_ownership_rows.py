"""The ownership table of a recording."""

import pytest

from components.ownership import KINDS_OF_FIELD
from ebbtide.recording.ownership import KEPT, OwnershipRow, ownership_rows
from ebbtide.recording.resources import Resource
from ebbtide.vocabulary.labels import Category
from tests.builders.adoption import stack_with
from tests.builders.components import demo_stack, of_kind


def test_every_pool_budget_and_node_group_has_an_owner() -> None:
    rows = ownership_rows(demo_stack())

    assert OwnershipRow(
        object="Deployment ebbtide-workers/train", field="spec.replicas", owner="controller", initial="0"
    ) in set(rows)
    assert OwnershipRow(
        object="PodDisruptionBudget ebbtide/api", field="spec.maxUnavailable", owner="controller", initial="0"
    ) in set(rows)
    assert {row.owner for row in rows if row.field == "scalingConfig.desiredSize"} == {"cluster-autoscaler"}
    assert all(row.owner != KEPT for row in rows if row.field in KINDS_OF_FIELD)


def test_no_budget_but_a_flexible_one_is_anybodys_but_pulumis() -> None:
    for budget in of_kind(demo_stack(), "PodDisruptionBudget"):
        category = budget.inputs["metadata"].get("labels", {}).get("ebbtide.dev/category")

        assert (budget.ignore_changes == ("spec.maxUnavailable",)) == (category == Category.FLEXIBLE), budget.name


def test_a_charts_budget_is_the_controllers_though_pulumi_does_not_declare_it() -> None:
    rules = stack_with(api={"selector": {"app": "api"}, "budget": "api-pdb"}).adopted

    assert ownership_rows([], rules) == (
        OwnershipRow(
            object="PodDisruptionBudget team/api-pdb", field="spec.maxUnavailable", owner="controller", initial="-"
        ),
    )


@pytest.mark.parametrize(("when", "rows"), [("outsideBusinessHours", 1), ("never", 0)])
def test_the_number_of_a_chart_that_sleeps_is_the_workload_controllers(when: str, rows: int) -> None:
    sleep = {"when": when, "scale": {"kind": "StatefulSet", "name": "label-studio"}}
    rules = stack_with(labels={"selector": {"app": "labels"}, "sleep": sleep}).adopted

    assert [(row.object, row.field, row.owner) for row in ownership_rows([], rules)] == rows * [
        ("StatefulSet team/label-studio", "spec.replicas", "workload-controller")
    ]


def test_a_field_that_nobody_is_named_for_is_shown_all_the_same() -> None:
    entry = Resource(
        urn="urn:entry",
        type="aws:eks/accessEntry:AccessEntry",
        name="deployer",
        parent="",
        custom=True,
        inputs={},
        ignore_changes=("principalArn",),
    )

    assert ownership_rows([entry]) == (
        OwnershipRow(object="AccessEntry deployer", field="principalArn", owner=KEPT, initial="-"),
    )


def test_a_truth_value_is_written_as_in_the_file() -> None:
    (add_ons,) = [row for row in ownership_rows(demo_stack()) if row.field == "bootstrapSelfManagedAddons"]

    assert add_ons.initial == "false"


def test_a_whole_structure_is_not_spread_over_the_table() -> None:
    (claims,) = [row for row in ownership_rows(demo_stack()) if row.field == "spec.volumeClaimTemplates"]

    assert (claims.object, claims.owner, claims.initial) == ("StatefulSet ebbtide/ebbtide-redis", KEPT, "as created")


def test_a_node_pool_of_others_has_its_budgets_from_the_workload_controller() -> None:
    assert ownership_rows([], None, ["general"]) == (
        OwnershipRow(
            object="NodePool general", field="spec.disruption.budgets", owner="workload-controller", initial="-"
        ),
    )
