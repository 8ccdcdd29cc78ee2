"""A variant on spot nodes and its base: their common Service, budget, nodes and metrics."""

from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pytest

from components.serving.routing import http_routes
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.monitoring.documents import rule_groups
from ebbtide.monitoring.recorded import Recorded
from ebbtide.policies.judging import judge
from ebbtide.preview.cost.shares import service_costs
from ebbtide.prices import on_demand, spot_typical
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.settings import StackSettings
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack, spot_stack

pytestmark = pytest.mark.whole

TODAY = date(2026, 11, 24)
SERVICE, BASE, SPOT, LARGE = "embedder", "embedder-small", "embedder-cheap", "embedder-large"
CLUSTER = "httproute/ebbtide/embedder-small/rule/0"
SERVES = "ebbtide.dev/serves"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
WITH_LATENCY = (
    ("inFlight: 4.5", "inFlight: 4.5, latency: 450ms, throughput: 30"),
    ("{ inFlight: 3 }", "{ inFlight: 3, latency: 300ms, throughput: 20 }"),
)


@cache
def resources(*changes: tuple[str, str]) -> tuple[Resource, ...]:
    return record(spot_stack(*changes))


def named(kind: str, found: tuple[Resource, ...]) -> dict[str, Any]:
    return {name_of(it): it for it in found if kind_of(it) == kind}


def pod(name: str, found: tuple[Resource, ...]) -> Any:
    return named("Deployment", found)[name].inputs["spec"]["template"]


def triggers(name: str, *changes: tuple[str, str]) -> dict[str, Any]:
    spec = named("ScaledObject", resources(*changes))[name].inputs["spec"]
    return {
        it["name"]: (it["metricType"], it["metadata"]["threshold"], it["metadata"]["query"]) for it in spec["triggers"]
    }


def test_it_breaks_no_rule() -> None:
    assert [(it.code, it.resource, it.text) for it in judge(spot_stack(), resources(), TODAY)] == []


def test_one_service_leads_to_the_pods_of_both_and_to_no_others() -> None:
    spec = named("Service", resources())[SERVICE].inputs["spec"]
    labels = {name: pod(name, resources())["metadata"]["labels"] for name in (BASE, SPOT, LARGE)}

    assert spec["selector"] == {SERVES: SERVICE}
    assert [(it["name"], it["port"], it["targetPort"]) for it in spec["ports"]] == [("http", 8000, "http")]
    assert {name for name, its in labels.items() if its.get(SERVES) == SERVICE} == {BASE, SPOT}


def test_a_route_leads_there_once_it_is_there() -> None:
    routes = named("HTTPRoute", resources())

    assert sorted(routes) == [LARGE, BASE]
    assert [it["name"] for it in routes[BASE].inputs["spec"]["rules"][0]["backendRefs"]] == [SERVICE]
    assert [it["name"] for it in routes[LARGE].inputs["spec"]["rules"][0]["backendRefs"]] == [LARGE]
    assert routes[BASE].inputs["metadata"]["annotations"]["ebbtide.dev/shared-by"] == f"{BASE},{SPOT}"
    order = [(kind_of(it), name_of(it)) for it in resources()]
    assert order.index(("Service", SERVICE)) < order.index(("HTTPRoute", BASE))


def test_no_pod_of_the_one_beside_it_is_made_anew_when_it_comes_or_goes() -> None:
    one_target = ("memory: 12Gi }\n", "memory: 12Gi, scale: { metrics: { inFlight: 4.5 }, min: 2, max: 12 } }\n")

    assert pod(BASE, record(services_stack(one_target))) == pod(BASE, resources())


def test_the_service_of_pods_of_its_name_and_the_one_over_variants_are_one_object() -> None:
    """Each has the other's URN: otherwise a service that gets a variant on spot would create a second Service."""
    shared = named("Service", resources())[SERVICE]
    of_pods = named("Service", resources())["ranker"]

    assert shared.aliases == (of_pods.urn.replace("ranker", SERVICE),)
    assert of_pods.aliases == (shared.urn.replace(SERVICE, "ranker"),)


def test_variants_by_weight_take_no_service_of_both() -> None:
    shares = ("memory: 12Gi }", "memory: 12Gi, weight: 90 }"), ('when: { header: "x-model-size: large" }', "weight: 10")
    found = record(services_stack(*shares))

    assert SERVES not in pod(BASE, found)["metadata"]["labels"]
    assert SERVICE not in named("Service", found)


def test_all_its_pods_of_a_node_may_be_evicted_at_once_and_not_by_the_autoscaler() -> None:
    budgets = named("PodDisruptionBudget", resources())

    assert SPOT not in budgets
    assert budgets[f"{SPOT}.spot"].inputs["spec"]["maxUnavailable"] == "100%"
    assert budgets[f"{SPOT}.spot"].ignore_changes == ()
    assert budgets[BASE].inputs["spec"]["maxUnavailable"] == 0
    assert pod(SPOT, resources())["metadata"]["annotations"][SAFE] == "false"
    assert SAFE not in pod(BASE, resources())["metadata"].get("annotations", {})


def test_its_pods_go_to_spot_nodes_and_an_update_waits_for_none_of_them() -> None:
    spec = pod(SPOT, resources())["spec"]

    assert spec["nodeSelector"] == {"ebbtide.dev/node-kind": "spot"}
    assert spec["terminationGracePeriodSeconds"] < 120
    for kind in ("Deployment", "Service"):
        assert named(kind, resources())[SPOT].inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_an_open_budget_over_pods_that_the_autoscaler_may_evict_is_refused() -> None:
    bare = tuple(_without_the_annotation(it) for it in resources())

    assert "EB001" in {it.code for it in judge(spot_stack(), bare, TODAY)}


def _without_the_annotation(resource: Resource) -> Resource:
    if (kind_of(resource), name_of(resource)) != ("Deployment", SPOT):
        return resource
    spec: Any = resource.inputs["spec"]
    template = {**spec["template"], "metadata": {"labels": spec["template"]["metadata"]["labels"]}}
    return replace(resource, inputs={**resource.inputs, "spec": {**spec, "template": template}})


def test_both_scale_by_what_there_is_for_each_pod_of_both() -> None:
    base, spot = (triggers(name, *WITH_LATENCY) for name in (BASE, SPOT))
    large = triggers(LARGE, *WITH_LATENCY)

    assert {key: it[:2] for key, it in base.items()} == {
        "inFlight": ("Value", "4.5"),
        "latency": ("Value", "0.45"),
        "throughput": ("Value", "30"),
    }
    assert {key: it[:2] for key, it in spot.items()} == {
        "inFlight": ("Value", "3"),
        "latency": ("Value", "0.3"),
        "throughput": ("Value", "20"),
    }
    assert {key: it[2] for key, it in base.items()} == {key: it[2] for key, it in spot.items()}
    assert all(CLUSTER in it[2] for it in base.values())
    assert "/ (max by (customer) (envoy_cluster_membership_total" in base["inFlight"][2]
    assert large["inFlight"][0] == "AverageValue"


OF_REQUESTS = [Recorded.IN_FLIGHT, Recorded.FAILING, Recorded.TURNED_AWAY, Recorded.THROUGHPUT, Recorded.P95_LATENCY]


@pytest.mark.parametrize("record", OF_REQUESTS)
def test_requests_are_recorded_once_for_the_one_beside_it(record: Recorded) -> None:
    rules = [it for group in rule_groups(spot_stack()) for it in group.rules if getattr(it, "record", "") == record]

    assert sorted(it.labels["variant"] for it in rules if it.labels["service"] == SERVICE) == ["large", "small"]


def test_failures_of_the_service_count_the_cluster_of_both_once() -> None:
    (failed,) = [
        it
        for group in rule_groups(spot_stack())
        for it in group.rules
        if getattr(it, "record", "") == Recorded.ERRORS_1H and it.labels["service"] == SERVICE
    ]

    assert f"{CLUSTER}|httproute" in failed.expr
    assert f"{CLUSTER}|{CLUSTER}" not in failed.expr


def alerts(settings: StackSettings, name: str) -> dict[str, str]:
    rules = [it for group in rule_groups(settings) for it in group.rules if getattr(it, "name", "") == name]
    return {it.labels["variant"]: it.expr for it in rules if it.labels["service"] == SERVICE}


def test_at_its_most_pods_is_worth_an_alert_where_nobody_grows_instead() -> None:
    at_max = alerts(spot_stack(), "EbbtideServiceAtMax")
    alone = alerts(
        spot_stack((", scale: { metrics: { inFlight: 4.5 }, min: 2, max: 12 }", ", scale: { min: 2, max: 2 }")),
        "EbbtideServiceAtMax",
    )

    assert set(at_max) == {"small", "large"}
    assert "membership_total" in at_max["small"]
    assert "> 4.5 and on" in at_max["small"]
    assert set(alone) == {"cheap", "large"}
    assert set(alerts(spot_stack(), "EbbtideServiceMetricMissing")) == {"small", "cheap", "large"}


def test_a_pod_costs_its_share_of_a_spot_node() -> None:
    costs = {it.pods: it for it in service_costs(spot_stack(), 2026)}
    types = spot_stack().node_groups["spot"].instance_types
    region = spot_stack().region
    spot, base = costs[SPOT].usd_at_min, costs[BASE].usd_at_min

    assert spot is not None
    assert base is not None
    share = max(spot_typical(region, it) for it in types) / max(on_demand(region, it) for it in types)
    assert share < 1
    fitting = round(max(spot_typical(region, it) for it in types) * 730 / spot)
    assert spot == pytest.approx(max(spot_typical(region, it) for it in types) * 730 / fitting)


def test_a_replay_puts_it_on_spot_nodes_where_all_may_be_evicted_but_not_by_the_autoscaler() -> None:
    plan = cluster_plan(spot_stack(), Strategy.FIXED_FLEXIBLE)
    found = {model.name: (model, replicas) for model, replicas in plan.workloads}
    spot, replicas = found[SPOT]

    assert spot.node_selector == {"ebbtide.dev/node-kind": "spot"}
    assert (spot.pdb_max_unavailable, spot.safe_to_evict) == (replicas, False)
    assert (found[BASE][0].pdb_max_unavailable, found[BASE][0].safe_to_evict) == (0, None)


def test_zones_are_weighed_by_the_pods_of_both() -> None:
    few = (("min: 2, max: 12 } }\n", "min: 2, max: 3 } }\n"), ("min: 1, max: 20", "min: 1, max: 3"))
    policies = named("BackendTrafficPolicy", resources(*few))

    assert "zoneAware" in policies[BASE].inputs["spec"]["loadBalancer"]


def test_the_route_of_a_service_without_spot_leads_to_the_pods_own_service() -> None:
    routes = http_routes(SERVICE, services_stack().services[SERVICE])

    assert routes[BASE]["rules"][0]["backendRefs"][0]["name"] == BASE
