"""Dangers of changed rules for adopted pods, from one stack file to another."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.document import Danger
from ebbtide.preview.sides import Side
from tests.builders.adoption import stack_with
from tests.builders.recorded import record
from tests.builders.sides import coded, dangers

pytestmark = pytest.mark.whole

NOTE, WARNING = Severity.NOTE, Severity.WARNING
BEGINS, CHANGED, ENDS = "adoption-begins", "adoption-changed", "adoption-ends"
HUB = {"namespace": "jupyter", "selector": {"component": "hub"}, "category": "fixed", "replicas": 1}
API = {"selector": {"app": ["api", "web"]}, "replicas": 3}


def side(**rules: dict[str, Any]) -> Side:
    settings = stack_with(**rules)
    return Side(stack="acme", settings=settings, resources=record(settings))


@cache
def now() -> Side:
    return side(hub=HUB, api=API)


def of_change(**rules: dict[str, Any]) -> list[Danger]:
    return [danger for danger in dangers(now(), side(**rules)) if danger.code != "minor-losses"]


def test_the_same_rules_have_no_dangers() -> None:
    assert of_change(hub=HUB, api=API) == []


def test_a_rule_that_becomes_flexible_lets_its_pods_be_moved_at_night() -> None:
    (danger,) = of_change(hub={**HUB, "category": "flexible", "replicas": 2}, api=API)

    assert coded([danger]) == [(WARNING, CHANGED, ("hub",))]
    assert "hub becomes flexible instead of fixed: its pods may be moved at night" in danger.text
    assert "running ones keep their nodes until they are replaced" in danger.text


@pytest.mark.parametrize(("category", "keys"), [("fixed", {"replicas": 3}), ("worker", {"usually": 3})])
def test_other_categories_say_what_new_pods_do(category: str, keys: dict[str, int]) -> None:
    (danger,) = of_change(hub=HUB, api={"selector": API["selector"], "category": category, **keys})

    assert coded([danger]) == [(WARNING, CHANGED, ("api",))]
    assert f"api becomes {category}" in danger.text
    assert "never moved" in danger.text


def test_pods_of_a_removed_rule_lose_their_budget() -> None:
    (danger,) = of_change(hub=HUB)

    assert coded([danger]) == [(WARNING, ENDS, ("api",))]
    assert "removes the rule api: its pods lose their budget" in danger.text
    assert danger.impact == "3 pods that anything may evict by day"


def test_rules_that_select_other_pods_instead_are_no_heirs() -> None:
    changed = of_change(other={"selector": {"app": "other"}})

    assert coded(changed) == [(WARNING, ENDS, ("hub",)), (WARNING, ENDS, ("api",)), (NOTE, BEGINS, ("other",))]


@pytest.mark.parametrize(
    "changed",
    [
        {"selector": {"app": "api"}},
        {"selector": {"app": ["api", "web"], "tier": "front"}},
        {"selector": {"name": "api"}},
        {"namespace": "another"},
    ],
)
def test_pods_that_a_changed_selector_leaves_out_lose_their_budget(changed: dict[str, Any]) -> None:
    (danger,) = of_change(hub=HUB, api={**API, **changed})

    assert coded([danger]) == [(WARNING, ENDS, ("api",))]
    assert "no rule selects any more" in danger.text


def test_a_wider_selector_leaves_no_pod_out() -> None:
    assert of_change(hub=HUB, api={**API, "selector": {"app": ["api", "web", "worker"]}}) == []


def test_a_renamed_rule_keeps_its_pods() -> None:
    (danger,) = of_change(hub=HUB, backend=API)

    assert coded([danger]) == [(NOTE, CHANGED, ("backend",))]
    assert "renames the rule api to backend" in danger.text


def test_a_chart_whose_budget_is_used_or_left_is_named() -> None:
    kept = side(hub=HUB, api={**API, "budget": "api-pdb"})

    (used,) = dangers(now(), kept)
    (left,) = (danger for danger in dangers(kept, now()) if danger.code == ENDS)
    (removed,) = (danger for danger in dangers(kept, side(hub=HUB)) if danger.code == ENDS)
    assert coded([used]) == [(NOTE, CHANGED, ("api",))]
    assert "opens and closes api-pdb of its chart" in used.text
    assert left == removed
    assert "leaves the budget api-pdb to its chart" in left.text
    assert "kubectl --namespace team delete poddisruptionbudget api-pdb" in left.remedy


def test_pods_that_pass_to_a_rule_of_another_category_are_named() -> None:
    wide = {**HUB, "selector": {"component": ["hub", "proxy"]}, "category": "flexible", "replicas": 2}
    swapped = of_change(front=wide, api=API)

    assert (WARNING, CHANGED, ("front",)) in coded(swapped)
    assert any("pods of hub become flexible instead of fixed" in danger.text for danger in swapped)


def test_changes_of_a_pool_are_those_of_the_stacks_own_pools() -> None:
    pool = {"source": {"queues": ["etl"]}, "max": 4, "longestJob": "2h"}

    def loader(**keys: Any) -> Side:
        return side(loader={"selector": {"app": "loader"}, "category": "worker", "pool": {**pool, **keys}})

    changed = dangers(loader(), loader(longestJob="1h", min=1))

    assert {danger.code for danger in changed} >= {"longest-job-lowered", "pool-minimum-raised"}
    assert any("set adopted.loader.pool.min to 0" in danger.remedy for danger in changed)


def test_a_deployment_that_a_pool_begins_or_stops_to_size_is_named() -> None:
    pool = {"source": {"queues": ["etl"]}, "max": 4, "longestJob": "2h", "deployment": "etl-loader"}
    plain = {"selector": {"app": "loader"}, "category": "worker", "usually": 1}
    without, sized = side(loader=plain), side(loader={**plain, "pool": pool})

    (begins,) = (danger for danger in dangers(without, sized) if danger.code == CHANGED)
    (ends,) = (danger for danger in dangers(sized, without) if danger.code == ENDS)
    assert "sizes Deployment team/etl-loader from now on" in begins.text
    assert "nothing sizes Deployment team/etl-loader any more" in ends.text
    assert (begins.severity, ends.severity) == (NOTE, WARNING)


def test_deployments_are_named_in_the_order_of_their_rules() -> None:
    names = ["loader", "resizer", "mailer", "exporter", "indexer"]

    def rule(name: str, **keys: Any) -> dict[str, Any]:
        return {"selector": {"app": name}, "category": "worker", **keys}

    without = side(**{name: rule(name, usually=1) for name in names})
    sized = side(
        **{name: rule(name, pool={"source": {"queues": [name]}, "max": 4, "longestJob": "2h"}) for name in names}
    )

    for before, after, code in ((without, sized, CHANGED), (sized, without, ENDS)):
        assert [danger.subjects[0] for danger in dangers(before, after) if danger.code == code] == names


def test_pods_that_lose_redis_are_named() -> None:
    settings = stack_with(hub=HUB, api=API)
    rules = {**settings.adopted, "api": settings.adopted["api"].model_copy(update={"redis": True})}
    with_redis = replace(now(), settings=settings.model_copy(update={"adopted": rules}))
    changed = dangers(with_redis, now())

    assert coded(changed) == [(WARNING, CHANGED, ("api",))]
    assert "deletes the Redis user" in changed[0].text


def test_new_rules_share_a_note() -> None:
    (danger,) = of_change(hub=HUB, api=API, one={"selector": {"app": "one"}}, two={"selector": {"app": "two"}})

    assert coded([danger]) == [(NOTE, BEGINS, ("one", "two"))]
    assert danger.impact == "4 pods"
