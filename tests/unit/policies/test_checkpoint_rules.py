"""Budgets of pools with checkpoints: their writers, and spot nodes."""

from datetime import date
from functools import cache

import pytest

from ebbtide.policies import judge
from ebbtide.recording.state import StackState
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.policies import GONE, Change, edited, ignoring
from tests.builders.recorded import record
from tests.builders.stack import pool_settings, stack_settings

TODAY = date(2026, 11, 23)
CLOSED = "PodDisruptionBudget ebbtide-workers/train"
OPEN = "PodDisruptionBudget ebbtide-workers/train.spot"
TRAIN = "Deployment ebbtide-workers/train"
ANNOTATION = "spec.template.metadata.annotations.cluster-autoscaler\\.kubernetes\\.io/safe-to-evict"
SPOT = ("m7i.2xlarge", "m6i.2xlarge", "m6a.2xlarge", "m7i-flex.2xlarge")


@cache
def saving(*, required: bool = False, spot: bool = False, fallback: str = "") -> StackSettings:
    saves = CheckpointSettings.model_validate({"store": "s3://acme-checkpoints", "required": required})
    home = "spot" if spot else pool_settings().node_group
    changes: dict[str, object] = {"checkpoints": saves, "node_group": home, "fallback": fallback}
    settings = stack_settings(workers={"train": pool_settings().model_copy(update=changes)})
    group = NodeGroupSettings.model_validate(
        {"kind": "spot", "instanceTypes": SPOT, "min": 0, "max": 4, "diskSize": 50}
    )
    return settings.model_copy(update={"node_groups": {**settings.node_groups, "spot": group}})


def broken(settings: StackSettings, change: Change | None = None) -> set[str]:
    resources = record(settings)
    return {result.code for result in judge(settings, resources if change is None else change(resources), TODAY)}


def test_a_pool_that_is_saved_breaks_no_rule_wherever_it_runs() -> None:
    assert broken(saving()) == broken(saving(required=True)) == broken(saving(required=True, spot=True)) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (edited(CLOSED, "spec.maxUnavailable", 1), "EB001"),
        (edited(CLOSED, "spec.maxUnavailable", "100%"), "EB001"),
        (ignoring(CLOSED), "EB008"),
        (edited(TRAIN, ANNOTATION, "false"), "EB014"),
    ],
)
def test_off_spot_its_budget_is_declared_closed_and_handed_over(change: Change, rule: str) -> None:
    assert broken(saving(required=True), change) == {rule}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (edited(OPEN, "spec.maxUnavailable", "50%"), "EB001"),
        (edited(TRAIN, ANNOTATION, GONE), "EB001"),
        (ignoring(OPEN, "spec.maxUnavailable"), "EB001"),
    ],
)
def test_on_spot_its_budget_is_open_for_the_drain_alone(change: Change, rule: str) -> None:
    assert broken(saving(required=True, spot=True), change) == {rule}


def test_with_a_fallback_its_one_budget_is_open_on_both_groups_under_the_same_rules() -> None:
    both = saving(required=True, spot=True, fallback="flexible")
    state = StackState(both, record(both))
    (workers,) = [pods for pods in state.pods if pods.name == "train"]

    assert {group.name for group in state.groups_for(workers)} == {"flexible", "spot"}
    assert [budget.urn for budget in state.budgets_of(workers)] == [it.urn for it in state.budgets if "train" in it.urn]
    assert workers in state.pods_on({"flexible"})
    assert broken(both) == set()
    assert broken(both, edited(TRAIN, ANNOTATION, GONE)) == {"EB001"}
    assert broken(both, edited(OPEN, "spec.maxUnavailable", 1)) == {"EB001"}


def test_a_pool_without_checkpoints_may_have_no_open_budget() -> None:
    plain = stack_settings(workers={"train": pool_settings()})

    assert broken(plain, edited(CLOSED, "spec.maxUnavailable", "100%")) == {"EB001"}
    assert broken(plain, ignoring(CLOSED, "spec.maxUnavailable")) == {"EB001"}
