"""The scaling of a service: its object, queries and steps."""

from typing import Any

from components.serving.scaling import Scaled, behavior, scaled_object
from tests.builders.workloads.services import services_stack

METRICS = "inFlight: 3, latency: 300ms"


def scaled(service: str, variant: str, *changes: tuple[str, str], tolerance: bool = True) -> Scaled:
    found = services_stack(*changes).services[service]
    return Scaled(
        pod=f"{service}-{variant}" if variant else service,
        service=found,
        variant=found.variants[variant],
        customer="acme",
        cluster="httproute/ebbtide/embedder-small/rule/0",
        prometheus="http://ebbtide-prometheus.ebbtide.svc:9090",
        tolerance=tolerance,
    )


def small(*changes: tuple[str, str]) -> Scaled:
    return scaled("embedder", "small", *changes)


def test_a_metric_that_is_missing_never_lowers() -> None:
    spec = scaled_object(small())

    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert [trigger["metadata"]["ignoreNullValues"] for trigger in spec["triggers"]] == ["false", "false"]


def test_in_flight_is_shared_among_the_pods_and_latency_is_a_ratio() -> None:
    by_name: dict[str, Any] = {trigger["name"]: trigger for trigger in scaled_object(small())["triggers"]}

    assert (by_name["inFlight"]["metricType"], by_name["inFlight"]["metadata"]["threshold"]) == ("AverageValue", "3")
    assert (by_name["latency"]["metricType"], by_name["latency"]["metadata"]["threshold"]) == ("Value", "0.3")
    assert "envoy_cluster_name=~" in by_name["inFlight"]["metadata"]["query"]


def test_up_goes_at_once_and_down_waits_for_a_pod_to_have_come_twice() -> None:
    steps: Any = behavior(small((METRICS, "inFlight: 3"), ("startsWithin: 90s", "startsWithin: 10m")))

    assert steps["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert {policy["periodSeconds"] for policy in steps["scaleUp"]["policies"]} == {
        10
    }  # shorter than the time between two looks, which would else leave a step out
    assert steps["scaleDown"]["stabilizationWindowSeconds"] == 2 * 600
    assert {policy["value"] for policy in steps["scaleDown"]["policies"]} == {25, 1}


def test_the_longest_request_ends_between_two_steps_down() -> None:
    steps: Any = behavior(small((METRICS, "inFlight: 3"), ("longestRequest: 60s", "longestRequest: 300s")))

    assert all(policy["periodSeconds"] >= 300 for policy in steps["scaleDown"]["policies"])


def test_with_latency_a_step_up_waits_for_the_pods_of_the_one_before() -> None:
    steps: Any = behavior(small())

    assert {policy["periodSeconds"] for policy in steps["scaleUp"]["policies"]} == {90 + 120}


def test_the_tolerance_leaves_less_than_a_pod_uncovered_where_the_cluster_knows_one() -> None:
    many: Any = behavior(small(("min: 2, max: 12", "min: 2, max: 40")))
    unknown: Any = behavior(scaled("embedder", "small", tolerance=False))

    assert many["scaleUp"]["tolerance"] == "0.025"
    assert "tolerance" not in unknown["scaleUp"]
