"""The rules about budgets against a stack with adopted pods, whose owners are not among the resources."""

from datetime import date
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ebbtide.policies import judge
from ebbtide.policies.engine import resources_of
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import CLOSED_MINIMUM
from tests.builders.adoption import TEAM, stack_with
from tests.builders.policies import GONE, Change, added, both, edited, ignoring, removed
from tests.builders.recorded import record

TODAY = date(2026, 11, 21)
HUB, API, SCALED, USERS = (
    f"PodDisruptionBudget {TEAM}/ebbtide-{name}" for name in ("hub", "api", "web.pods", "users.pods")
)


@cache
def adopted() -> tuple[StackSettings, tuple[Resource, ...]]:
    settings = stack_with(
        hub={"selector": {"component": "hub"}, "category": "fixed", "replicas": 1},
        api={"selector": {"component": ["api", "backend"]}},
        web={"selector": {"component": "web"}, "pods": 3},
        users={"selector": {"component": "user"}, "category": "worker"},
        shop={"selector": {"component": "shop"}, "budget": "shop-pdb"},
    )
    return settings, record(settings)


def broken(change: Change) -> set[str]:
    settings, resources = adopted()
    return {result.code for result in judge(settings, change(resources), TODAY)}


def another_budget(**selector: str) -> Change:
    spec = {"selector": {"matchLabels": selector}, "maxUnavailable": 0}
    inputs = {"metadata": {"name": "of-the-chart", "namespace": TEAM}, "spec": spec}
    return added("kubernetes:policy/v1:PodDisruptionBudget", "of-the-chart", inputs)


def test_their_budgets_break_no_rule() -> None:
    assert judge(*adopted(), TODAY) == ()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("EB001", edited(HUB, "spec.maxUnavailable", 1)),
        ("EB001", edited(API, "spec.maxUnavailable", "50%")),
        ("EB001", edited(SCALED, "spec.minAvailable", 2)),
        ("EB001", edited(USERS, "spec.minAvailable", CLOSED_MINIMUM - 1)),
        ("EB001", ignoring(HUB, "spec.maxUnavailable")),
        ("EB001", ignoring(USERS, "spec.minAvailable")),
        ("EB002", removed(HUB)),
        ("EB002", removed(USERS)),
        ("EB003", another_budget(component="hub")),
        ("EB004", both(edited(USERS, "spec.minAvailable", GONE), edited(USERS, "spec.maxUnavailable", 0))),
        ("EB005", another_budget(component="nothing")),
        ("EB006", edited(API, "spec.unhealthyPodEvictionPolicy", "IfHealthyBudget")),
        ("EB008", ignoring(API)),
        ("EB008", ignoring(SCALED)),
    ],
)
def test_a_loosened_budget_is_found(rule: str, change: Change) -> None:
    assert broken(change) == {rule}


def test_a_rule_without_a_budget_is_named() -> None:
    settings, resources = adopted()
    (result,) = judge(settings, removed(HUB)(resources), TODAY)

    assert result.resource == "adopted hub"


def test_a_minimum_that_the_controller_opened_for_the_night_is_read_as_closed() -> None:
    props = {"metadata": {"name": "web.pods", "namespace": TEAM}, "spec": {"minAvailable": 2}}
    opts = SimpleNamespace(ignore_changes=["spec.minAvailable"], protect=False)
    live = SimpleNamespace(
        resource_type="kubernetes:policy/v1:PodDisruptionBudget",
        props=props,
        urn="any",
        name="any",
        opts=opts,
        parent=None,
    )
    (resource,) = resources_of([cast("Any", live)], {}, KeyError)

    assert resource.inputs["spec"]["minAvailable"] == CLOSED_MINIMUM
