"""Replays without jobs: which nodes go at night, for how long, and what that saves."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from ebbtide.lab.report.pages.nights import command, headline, night_lines, notes
from ebbtide.lab.simulator.replay.nights import NightGroup, NightReplay, has_pools, nights_json, replay_nights
from ebbtide.lab.simulator.setup import ReplayOptions
from ebbtide.settings import parse_stack
from ebbtide.settings.model import StackSettings
from tests.builders.adoption import stack_with

SLEEPS = {"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "web"}}
WEB = {"replicas": 4, "cpu": "3500m", "memory": "8Gi"}  # two pods on a node of 8 CPUs
HOURS = 5 * 10  # business hours of the builder's week
NIGHTS = 7 * 24 - HOURS
ONE_TYPE = {"flexible": {"cpu": 8, "memory": "32Gi", "usdPerHour": 1, "max": 5}}


def existing(shapes: Mapping[str, Any] | None = None, **cluster: Any) -> Mapping[str, Any]:
    selectors = {"flexible": {"pool": "general"}}
    return {"kind": "existing", "context": "a", "nodeSelectors": selectors, "nodeShapes": shapes or ONE_TYPE, **cluster}


def stack_of(cluster: Mapping[str, Any] | None, **rules: Mapping[str, Any]) -> StackSettings:
    return stack_with(cluster, **{name: {"selector": {"app": name}, **rule} for name, rule in rules.items()})


def of_karpenter(shapes: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    return existing(shapes, nodePools={"flexible": ["general"]})


def nights_of(stack: StackSettings) -> NightReplay:
    return replay_nights(stack, ReplayOptions())


def flexible(nights: NightReplay) -> NightGroup:
    (group,) = (group for group in nights.groups if group.name == "flexible")
    return group


@cache
def sleeping() -> NightReplay:
    """Four pods on two nodes by day, none at night."""
    return nights_of(stack_of(of_karpenter(), web={**WEB, "sleep": SLEEPS}))


def test_nodes_of_sleeping_pods_go_for_the_night_and_their_price_is_saved() -> None:
    group = flexible(sleeping())

    assert (group.nodes, group.at_night) == (2, 0)
    assert group.hours_fewer == pytest.approx(NIGHTS, abs=2)  # a node boots, and is removed a little later
    assert group.node_hours_without == pytest.approx(2 * 7 * 24, abs=0.1)
    assert group.node_hours == pytest.approx(2 * HOURS, abs=3)
    assert group.usd == pytest.approx(group.node_hours)
    assert sleeping().replay.start.isoformat() == "2026-06-01T00:00:00+00:00"
    assert "At night up to 2 of 2 nodes go: $" in headline(sleeping())


def test_pods_that_remain_are_moved_together_at_night_and_never_by_day() -> None:
    """By day two nodes hold a pod of each rule; at night the two of `api` fit on one node."""
    size = {"replicas": 2, "cpu": "3500m", "memory": "8Gi"}
    night = nights_of(stack_of(of_karpenter(), web={**size, "sleep": SLEEPS}, api=size))

    assert (flexible(night).nodes, flexible(night).at_night) == (2, 1)
    assert night.result.evictions_in_business_hours == night.without.evictions_in_window == 0


def test_without_sleep_tightly_packed_pods_need_all_nodes_and_the_replay_says_so() -> None:
    night = nights_of(stack_of(of_karpenter(), web=WEB))
    text = "\n".join(notes(night))

    assert headline(night) == "No node goes at night: acme keeps 2 nodes at all hours"
    assert "start tightly packed" in text
    assert "`ebbtide adopt acme`" in text
    assert night.replay.assumptions[0].startswith("At second 0 all pods wait for nodes")


def test_a_smaller_type_for_the_night_is_a_saving_without_fewer_nodes() -> None:
    types = {"small": {"cpu": 4, "memory": "16Gi", "usdPerHour": 0.5}, "large": ONE_TYPE["flexible"]}
    types["large"] = {key: value for key, value in types["large"].items() if key != "max"}
    rules = {"web": {"replicas": 1, "cpu": 5, "memory": "8Gi", "sleep": SLEEPS}, "api": {"replicas": 1, "cpu": 2}}
    night = nights_of(stack_of(of_karpenter({"flexible": {"types": types, "max": 5}}), **rules))

    assert headline(night).startswith("At night smaller nodes take over: $")
    assert set(night.result.node_hours_by_group) == {"flexible/large", "flexible/small"}


def configured(cluster: Mapping[str, Any], **sections: Any) -> StackSettings:
    """A stack with business hours on all days."""
    config = {
        "ebbtide:customer": "acme",
        "ebbtide:businessHours": {"timezone": "UTC", "week": {"mon-sun": "08:00-18:00"}},
        "ebbtide:cluster": cluster,
        **{f"ebbtide:{key}": value for key, value in sections.items()},
    }
    return parse_stack(config, stack="acme", file="acme.yaml")


AUTOSCALED = {"flexible": {**ONE_TYPE["flexible"], "autoscaled": True}}


@pytest.mark.parametrize("cluster", [of_karpenter(), existing(AUTOSCALED)], ids=["karpenter", "cluster-autoscaler"])
def test_pods_that_releases_left_on_too_many_nodes_move_at_night_only_with_ebbtide(cluster: Mapping[str, Any]) -> None:
    """A release starts a fifth pod on a third node, which remains with fewer pods than it could hold."""
    web = {**WEB, "category": "flexible", "image": "a.b/web:1"}
    night = nights_of(configured(cluster, workloads={"web": web}))

    assert night.result.evictions_in_window > night.without.evictions_in_window == 0
    assert flexible(night).at_night == 2 < flexible(night).nodes
    assert night.result.evictions_in_business_hours == 0


def test_fewer_nodes_in_business_hours_are_no_night() -> None:
    """A cron job holds a node from before the evening until after the morning, and none runs by day."""
    job = {"image": "a.b/job:1", "cpu": 5, "memory": "1Gi", "schedule": "55 17 * * *", "longestRun": "15h"}
    none = {
        "namespace": "team",
        "selector": {"app": "a"},
        "category": "worker",
        "usually": 0,
        "cpu": 1,
        "memory": "1Gi",
    }
    stack = configured(of_karpenter(), cronJobs={"nightly": {**job, "runTakes": "860m"}}, adopted={"notebooks": none})
    night = replay_nights(stack, ReplayOptions(days=2, start=datetime(2026, 6, 1, 12, tzinfo=UTC)))

    assert flexible(night).at_night == 1


def test_without_a_price_the_saving_is_in_node_hours() -> None:
    shape = {"flexible": {"cpu": 8, "memory": "32Gi", "max": 5}}
    night = nights_of(stack_of(of_karpenter(shape), web={**WEB, "sleep": SLEEPS}))

    assert "node-hours less" in headline(night)
    assert nights_json(night)["usd"] is None
    assert any("No price is known for the nodes of flexible" in line for line in notes(night))


def test_nodes_without_an_autoscaler_stay_and_those_without_a_pod_are_counted() -> None:
    night = nights_of(stack_of(existing(), web={**WEB, "sleep": SLEEPS}))

    assert (flexible(night).at_night, flexible(night).empty) == (5, pytest.approx(5, abs=0.1))
    assert headline(night).endswith("5.0 of 5 nodes without a pod outside business hours")


def test_pods_beyond_the_maximum_are_said() -> None:
    shape = {"flexible": {**ONE_TYPE["flexible"], "max": 1}}
    night = nights_of(stack_of(of_karpenter(shape), web=WEB))

    assert night.too_many == {"flexible": 2}
    assert any("need 2 nodes of flexible, more than its max" in line for line in notes(night))


def test_nodes_that_ebbtide_creates_have_nights_too() -> None:
    night = nights_of(stack_of(None, web={**WEB, "replicas": 8, "sleep": SLEEPS}))

    assert [group.name for group in night.groups] == ["fixed", "flexible"]
    assert flexible(night).at_night == 0 < flexible(night).nodes
    assert flexible(night).usd_without is not None


def test_a_stack_with_pools_takes_a_trace() -> None:
    pool = {"source": {"queues": ["q"]}, "max": 2, "longestJob": "1h", "safeStop": True}
    loader = {"namespace": "etl", "selector": {"app": "l"}, "cpu": 1, "memory": "1Gi", "pool": pool}
    config = {
        "ebbtide:customer": "acme",
        "ebbtide:businessHours": {"timezone": "UTC", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:cluster": {"version": "1.36"},
        "ebbtide:adopted": {"loader": loader},
    }

    assert has_pools(parse_stack(config, stack="acme", file="acme.yaml"))
    assert not has_pools(stack_of(None, web=WEB))


def test_equal_replays_are_equal_and_repeated_by_the_command_that_is_shown() -> None:
    again = nights_of(stack_of(of_karpenter(), web={**WEB, "sleep": SLEEPS}))
    first, second = (nights_json(night) | {"replay_seconds": 0} for night in (sleeping(), again))

    assert first == second
    assert command(again) == (
        "ebbtide simulate acme --start 2026-06-01T00:00:00+00:00 --days 7 --seed 0 --report report.html"
    )


def test_the_assumptions_are_printed_only_on_request() -> None:
    short, full = (list(night_lines(sleeping(), assumptions=shown)) for shown in (False, True))

    assert next(line for line in full if line not in short) == "Assumed:"
    assert len(full) == len(short) + 1 + len(sleeping().replay.assumptions)
