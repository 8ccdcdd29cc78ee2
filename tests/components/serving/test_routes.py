"""Routes of requests: one for each variant with a condition, one for all that share by weight, and its policy."""

from datetime import timedelta
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from components.definitions import release
from components.serving.routing import backend_policy, client_policy, http_routes
from ebbtide.settings.sections.serving.services import ServiceSettings
from tests.builders.workloads.services import services_stack

WHEN = 'when: { header: "x-model-size: large" }'


def embedder(*changes: tuple[str, str]) -> ServiceSettings:
    return services_stack(*changes).services["embedder"]


def only_rule(route: Any) -> Any:
    (rule,) = route["rules"]
    return rule


def policy(*changes: tuple[str, str], proxies: int = 2, largest: int = 12) -> Any:
    return backend_policy("embedder-small", embedder(*changes), proxies=proxies, largest=largest)


def test_a_model_is_named_by_a_header_or_by_the_path() -> None:
    rule = only_rule(http_routes("embedder", embedder())["embedder-small"])
    by_header = {"type": "Exact", "name": "x-model", "value": "embedder-v3"}

    assert rule["matches"] == [
        {"path": {"type": "PathPrefix", "value": "/embed"}, "headers": [by_header]},
        {"path": {"type": "PathPrefix", "value": "/embed/embedder-v3"}},
    ]


def test_the_condition_of_a_variant_is_asked_on_each_way_to_its_service() -> None:
    plain, large = (only_rule(it)["matches"] for it in http_routes("embedder", embedder()).values())
    size = {"type": "Exact", "name": "x-model-size", "value": "large"}

    assert [size in match["headers"] for match in large] == [True, True]
    assert not any(size in match.get("headers", []) for match in plain)


def test_a_variant_with_a_model_of_its_own_answers_to_that_name_alone() -> None:
    route = http_routes("embedder", embedder((WHEN, "when: { model: embedder-xl }")))["embedder-large"]

    assert "embedder-v3" not in str(route)
    assert only_rule(route)["matches"][1]["path"]["value"] == "/embed/embedder-xl"


def test_variants_with_weights_share_a_route_and_are_told_apart_by_a_filter() -> None:
    shares = ("memory: 12Gi }", "memory: 12Gi, weight: 90 }"), (WHEN, "weight: 10")
    routes = http_routes("embedder", embedder(*shares))
    backends = only_rule(routes["embedder"])["backendRefs"]

    assert list(routes) == ["embedder"]
    assert [(it["name"], it["weight"]) for it in backends] == [("embedder-small", 90), ("embedder-large", 10)]
    assert [it["filters"][0]["requestHeaderModifier"]["set"][0]["value"] for it in backends] == [
        "embedder-small",
        "embedder-large",
    ]


@pytest.mark.parametrize(("small", "large", "first"), [(100, 0, "embedder-small"), (0, 100, "embedder-large")])
def test_a_variant_of_weight_0_keeps_its_cluster_and_leaves_its_requests_to_the_largest(
    small: int, large: int, first: str
) -> None:
    shares = ("memory: 12Gi }", f"memory: 12Gi, weight: {small} }}"), (WHEN, f"weight: {large}")
    backends = only_rule(http_routes("embedder", embedder(*shares))["embedder"])["backendRefs"]

    assert [(it["name"], it["weight"]) for it in backends] == [(first, 1_000_000), (first, 1)]
    assert {it["filters"][0]["requestHeaderModifier"]["set"][0]["value"] for it in backends} == {first}


def test_another_gateway_is_told_a_weight_of_0_as_it_is() -> None:
    shares = ("memory: 12Gi }", "memory: 12Gi, weight: 100 }"), (WHEN, "weight: 0")
    routes = http_routes("embedder", embedder(*shares), envoy=False)

    assert [(it["name"], it["weight"]) for it in only_rule(routes["embedder"])["backendRefs"]] == [
        ("embedder-small", 100),
        ("embedder-large", 0),
    ]


def test_only_a_request_that_reached_no_pod_is_sent_again() -> None:
    assert policy()["retry"]["retryOn"] == {"triggers": ["connect-failure", "refused-stream"]}


def test_zones_are_preferred_only_where_each_has_pods_to_spare() -> None:
    assert "zoneAware" not in policy(largest=5)["loadBalancer"]
    assert policy(largest=6)["loadBalancer"]["zoneAware"]["preferLocal"]["minEndpointsThreshold"] == 6


def test_a_full_service_says_429_and_when_to_come_back() -> None:
    full = policy(("longestRequest: 60s", "longestRequest: 60s\n    maxInFlight: 25"), proxies=2)
    (override,) = full["responseOverride"]

    assert full["circuitBreaker"]["maxParallelRequests"] == 13
    assert override["response"]["statusCode"] == 429
    assert override["response"]["header"]["set"][0]["name"] == "Retry-After"
    assert override["match"]["responseHeaders"][0]["name"] == "x-envoy-overloaded"
    assert client_policy(embedder().longest_request)["headers"]["enableEnvoyHeaders"] is True
    assert "responseOverride" not in policy()


@pytest.mark.parametrize(("balance", "gently"), [("leastRequest", True), ("roundRobin", True), ("random", False)])
def test_a_new_pod_gets_its_share_slowly_where_the_balancer_knows_how(balance: str, gently: bool) -> None:
    chosen = policy(("longestRequest: 60s", f"longestRequest: 60s\n    balance: {balance}"))["loadBalancer"]

    assert chosen.get("slowStart") == ({"window": "30s"} if gently else None)


def test_a_pod_that_refuses_is_left_out_and_one_that_answers_errors_is_not() -> None:
    passive = policy()["healthCheck"]["passive"]

    assert (passive["consecutiveLocalOriginFailures"], passive["baseEjectionTime"]) == (3, "10s")
    assert passive["splitExternalLocalOriginErrors"] is True
    assert (passive["consecutive5XxErrors"], passive["consecutiveGatewayErrors"]) == (0, 0)
    assert passive["maxEjectionPercent"] == 50


def test_requests_go_on_to_those_that_may_answer_however_many_refuse() -> None:
    assert policy()["healthCheck"]["panicThreshold"] == 10


def test_envoy_gateway_knows_each_key_of_the_clients_policy() -> None:
    """An API server would silently drop an unknown field."""
    (kind,) = [crd for crd in release("envoy-gateway")["crds"] if crd["spec"]["names"]["kind"] == "ClientTrafficPolicy"]
    schema = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    plan = client_policy(timedelta(minutes=15))

    assert unknown_keys(plan, schema) == []
    assert not [*Draft202012Validator(schema).iter_errors(plan)]
    assert plan["tcpKeepalive"] == {"idleTime": "1m", "interval": "20s"}


def unknown_keys(given: Any, schema: Any) -> list[str]:
    properties = schema.get("properties", {})
    if not isinstance(given, dict) or not properties:
        return []
    held = cast("dict[str, Any]", given)
    return [
        *(key for key in held if key not in properties),
        *(each for key, value in held.items() if key in properties for each in unknown_keys(value, properties[key])),
    ]
