"""What operators change from day to day is updated in place: nothing is replaced, and nothing else goes.

A replaced node group drops its nodes, a replaced Deployment its pods, a replaced cluster everything.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ebbtide.preview.replacing import is_listed
from ebbtide.recording.resources import Resource
from ebbtide.settings import parse_stack
from tests.builders.recorded import record
from tests.unit.preview.replacement import gone, one_of_each, replaced

pytestmark = pytest.mark.whole

Config = dict[str, Any]
Change = Callable[[Config], object]


@cache
def before() -> tuple[Resource, ...]:
    return after(lambda _: None)


def after(*changes: Change) -> tuple[Resource, ...]:
    changed = one_of_each()
    for change in changes:
        change(changed)
    return record(parse_stack(changed, stack="acme", file="any"))


def put(section: str, name: str, **values: object) -> Change:
    """Set keys of one entry of a section."""
    return lambda config: config[f"ebbtide:{section}"][name].update(values)


def whole(section: str, **values: object) -> Change:
    """Set keys of a section."""
    return lambda config: config.setdefault(f"ebbtide:{section}", {}).update(values)


IN_PLACE: dict[str, tuple[Change, ...]] = {
    "sizes of groups, a new group, a new zone": (
        put("nodeGroups", "fixed", min=4, max=8),
        put("nodeGroups", "flexible", min=3, max=60),
        whole("nodeGroups", cpu={"kind": "flexible", "instanceTypes": ["c7i.4xlarge"], "max": 9}),
        whole("cluster", zones=["a", "b", "c"]),
    ),
    "another version, other tags, no deletion protection": (
        whole("cluster", version="1.34", deletionProtection=False),
        whole("costs", tags={"cost-center": "other", "team": "ml"}),
    ),
    "images, sizes and copies": (
        put("workloads", "api", image="registry.example.com/ml/two:2", cpu=2, memory="4Gi", replicas=5),
        put("workloads", "store", image="registry.example.com/ml/two:2", cpu=2),
        put("workers", "train", image="registry.example.com/ml/two:2", max=9, cpu=2, memory="4Gi", longestJob="2h"),
        put("workers", "prep", source={"kind": "rq", "queues": ["other"]}, gpu=1),
        whole("controller", image="registry.example.com/ebbtide:2", replicas=2),
    ),
    "services that move": (
        put("workloads", "head", category="flexible"),
        put("workloads", "store", category="flexible"),
        put("workloads", "api", category="fixed"),
    ),
}


@pytest.mark.parametrize("changes", IN_PLACE)
def test_a_change_of_every_day_is_made_in_place(changes: str) -> None:
    changed = after(*IN_PLACE[changes])

    assert changed != before()
    assert replaced(before(), changed) == []
    assert gone(before(), changed) == set()


def test_other_business_hours_change_the_controllers_document_and_its_closer_alone() -> None:
    changed = after(whole("businessHours", week={"mon-fri": "06:00-18:00"}))
    old = {resource.urn: resource for resource in before()}

    assert replaced(before(), changed) == []
    assert gone(before(), changed) == {"controller-closer-0745"}
    assert {r.name for r in changed if r.custom and r != old.get(r.urn)} == {
        "controller-config",
        "controller-closer-0545",
    }


def test_a_pool_that_leaves_takes_only_itself_along() -> None:
    changed = after(lambda config: config["ebbtide:workers"].pop("prep"))

    assert replaced(before(), changed) == []
    assert gone(before(), changed) == {"prep-deployment", "prep-budget"}


def test_the_first_step_of_a_destroy_takes_both_protections_away_and_changes_nothing_else() -> None:
    changed = after(whole("cluster", deletionProtection=False))
    old = {resource.urn: resource for resource in before()}

    assert {r.name for r in before() if r.protect} == {"cluster-control-plane", "cluster-secrets", "network-vpc"}
    assert [r.name for r in changed if r.protect] == []
    assert {r.name for r in changed if r.custom and r.inputs != old[r.urn].inputs} == {"cluster-control-plane"}


def test_what_does_replace_is_seen() -> None:
    changed = after(
        put("nodeGroups", "flexible", instanceTypes=["m6i.4xlarge"]),
        lambda config: config.update({"ebbtide:customer": "x"}),
    )

    assert {"flexible-a-nodes: instanceTypes", "cluster-control-plane: name"} <= set(replaced(before(), changed))


def test_of_every_type_that_a_stack_registers_it_is_known_what_replaces_it() -> None:
    cache_of_aws = {"ebbtide:redis": {"kind": "elasticache"}, "ebbtide:redisPassword": "x" * 16}
    cached = after(lambda config: config.update(cache_of_aws))

    types = {resource.type for resource in (*before(), *cached) if resource.custom}

    assert [type_ for type_ in types if not is_listed(type_)] == []
    assert sum(type_.startswith("aws:") for type_ in types) > 20
