"""What `ebbtide why service` and `ebbtide status` show of a service: each hold in plain words, and the unknown."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import KubeApi
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.services import services_of
from ebbtide.operate.why.service import explain_service, rows_of
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.workloads import FloorPolicy, WorkloadsConfig
from tests.builders.controllers import OFFICE
from tests.unit.operate.raw_objects import Cluster

LABELS = {"ebbtide.dev/service": "embedder"}
PODS = "embedder-small"
NAMESPACED = "namespaces/ebbtide"
HPAS = f"/apis/autoscaling/v2/{NAMESPACED}/horizontalpodautoscalers"
SCALED = f"/apis/keda.sh/v1alpha1/{NAMESPACED}/scaledobjects"
ROUTES = f"/apis/gateway.networking.k8s.io/v1/{NAMESPACED}/httproutes"
GATEWAY = "/apis/gateway.networking.k8s.io/v1/namespaces/ebbtide-gateway/gateways/ebbtide"
DEPLOYMENT = f"/apis/apps/v1/{NAMESPACED}/deployments/{PODS}"
PENDING = f"/api/v1/{NAMESPACED}/pods"
CONFIG = f"/api/v1/{NAMESPACED}/configmaps/ebbtide-workloads"
MONDAY = datetime(2026, 1, 5, 12, tzinfo=UTC)


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def named(name: str = PODS, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ebbtide", "labels": LABELS}, **more}


def hpa(*told: Mapping[str, str], wanted: int = 4) -> dict[str, Any]:
    well = {it["type"]: it for it in (condition("AbleToScale", "True"), condition("ScalingActive", "True"), *told)}
    metric = {"name": "s0-inFlight"}
    return named(
        spec={
            "minReplicas": 1,
            "maxReplicas": 12,
            "metrics": [
                {"type": "External", "external": {"metric": metric, "target": {"averageValue": "3"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}},
            ],
        },
        status={
            "desiredReplicas": wanted,
            "conditions": [*well.values()],
            "currentMetrics": [
                {"type": "External", "external": {"metric": metric, "current": {"averageValue": "2500m"}}}
            ],
        },
    )


def scaled(*told: Mapping[str, str]) -> dict[str, Any]:
    return named(
        spec={"triggers": [{"type": "prometheus", "name": "inFlight"}]},
        status={"conditions": [condition("Ready", "True"), *told]},
    )


def route(*told: Mapping[str, str]) -> dict[str, Any]:
    return named(
        spec={
            "hostnames": ["models.acme.internal"],
            "parentRefs": [{"name": "ebbtide", "namespace": "ebbtide-gateway"}],
            "rules": [{"backendRefs": [{"name": PODS}]}],
        },
        status={"parents": [{"conditions": [condition("Accepted", "True"), *told]}]},
    )


WELL: Mapping[str, Any] = {
    HPAS: [hpa()],
    SCALED: [scaled()],
    ROUTES: [route()],
    GATEWAY: {"status": {"conditions": [condition("Programmed", "True")]}},
    DEPLOYMENT: {"spec": {"replicas": 4}, "status": {"readyReplicas": 4}},
    PENDING: [],
}


def told(**changes: Any) -> list[str]:
    places = {
        "hpas": HPAS,
        "scaled": SCALED,
        "routes": ROUTES,
        "gateway": GATEWAY,
        "deployment": DEPLOYMENT,
        "pods": PENDING,
        "config": CONFIG,
    }
    answers = {**WELL, **{places[key]: value for key, value in changes.items()}}
    return explain_service(cast("KubeApi", Cluster(answers)), "ebbtide", "embedder", MONDAY)


def with_a_floor(name: str = PODS) -> dict[str, Any]:
    lead = timedelta(minutes=7)
    floor = FloorPolicy(name=name, namespace="ebbtide", keda=True, least=1, most=12, lead=lead, open=4)
    return {"data": {"workloads.json": dump(WorkloadsConfig(namespace="ebbtide", hours=OFFICE, floors=(floor,)))}}


def with_least(pods: int) -> list[dict[str, Any]]:
    item = scaled()
    return [{**item, "spec": {**item["spec"], "minReplicaCount": pods}}]


def test_a_service_that_is_well_shows_its_metrics_and_its_route() -> None:
    assert told() == [
        "embedder-small: 4 pods, 4 ready, between 1 and 12.",
        "  - inFlight: 2.5 for each pod, target 3 for each pod",
        "  - cpu: not known, target 70% of the request",
        "route embedder-small (models.acme.internal): accepted.",
    ]


def test_a_route_to_pods_of_two_names_shows_both_and_no_pods_of_its_services_name() -> None:
    shared = route()
    shared["metadata"]["annotations"] = {"ebbtide.dev/shared-by": f"{PODS},embedder-cheap"}
    shared["spec"]["rules"] = [{"backendRefs": [{"name": "embedder"}]}]

    lines = told(routes=[shared])

    assert [line for line in lines if line.startswith("embedder")] == [
        "embedder-cheap: its pods do not exist.",
        "embedder-small: 4 pods, 4 ready, between 1 and 12.",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"hpas": [hpa(condition("ScalingLimited", "True", "TooManyReplicas"))]},
            "more are wanted than its max allows",
        ),
        (
            {"hpas": [hpa(condition("ScalingLimited", "True", "TooFewReplicas"))]},
            "fewer are wanted than its min allows",
        ),
        (
            {"hpas": [hpa(condition("AbleToScale", "True", "ScaleDownStabilized"))]},
            "fewer would do, and it waits to see if that lasts",
        ),
        (
            {"hpas": [hpa(condition("ScalingActive", "False", "FailedGetExternalMetric", "no answer"))]},
            "a metric is missing, so the number stays: no answer",
        ),
        (
            {"hpas": [hpa(condition("ScalingActive", "False", "ScalingDisabled"))]},
            "it is switched off, as there are no replicas",
        ),
        (
            {"hpas": [hpa(condition("AbleToScale", "False", "FailedGetScale", "not found"))]},
            "it cannot be scaled: not found",
        ),
        ({"hpas": []}, "KEDA has not made its HPA yet"),
        ({"hpas": [named(spec={"minReplicas": 1, "maxReplicas": 3})]}, "the HPA has not evaluated its metrics yet"),
        ({"scaled": [scaled(condition("Ready", "False", "", "bad query"))]}, "KEDA cannot read a trigger: bad query"),
        (
            {"scaled": [scaled(condition("Fallback", "True"))]},
            "KEDA has no value for a trigger, so the number does not decrease",
        ),
        ({"scaled": [named()]}, "KEDA has not processed its ScaledObject: is its operator there?"),
        (
            {"pods": [{"status": {"conditions": [condition("PodScheduled", "False", "", "0/3 nodes fit")]}}]},
            "1 of its pods does not run yet: 0/3 nodes fit",
        ),
        ({"scaled": [], "hpas": []}, "no autoscaler: the stack file sets the number"),
    ],
)
def test_what_holds_the_number_is_shown_in_plain_words(changes: dict[str, Any], line: str) -> None:
    assert f"  - {line}" in told(**changes)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"routes": [route(condition("Accepted", "False", "", "no such listener"))]}, "not accepted: no such listener"),
        ({"routes": [route(condition("ResolvedRefs", "False", "BackendNotFound"))]}, "leads nowhere: BackendNotFound"),
        ({"gateway": 404}, "the Gateway ebbtide-gateway/ebbtide does not exist"),
        ({"gateway": {}}, "the Gateway ebbtide-gateway/ebbtide is not programmed: no controller has processed it"),
    ],
)
def test_a_route_without_traffic_shows_why(changes: dict[str, Any], trouble: str) -> None:
    assert told(**changes)[-1] == f"route embedder-small (models.acme.internal): {trouble}."


def test_pods_that_wait_and_those_that_are_wanted_stand_apart() -> None:
    first = told(hpas=[hpa(wanted=7)], deployment={"spec": {"replicas": 5}, "status": {"readyReplicas": 3}})[0]

    assert first == "embedder-small: 5 pods, 3 ready, 7 wanted, between 1 and 12."


def test_missing_kinds_are_no_problem_and_forbidden_ones_are_reported() -> None:
    assert not [line for line in told(scaled=404) if line.startswith("not known")]
    (line,) = [line for line in told(scaled=403) if line.startswith("not known")]
    assert line.startswith("not known: KEDA's ScaledObjects: ")


def test_another_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(CannotOperate, match=r"no service is called ranker .*; there are: embedder"):
        explain_service(cast("KubeApi", Cluster(WELL)), "ebbtide", "ranker")


def test_status_has_one_row_for_a_service() -> None:
    full = {**WELL, HPAS: [hpa(condition("ScalingLimited", "True", "TooManyReplicas"))]}

    assert [*rows_of(services_of(cast("KubeApi", Cluster(full)), "ebbtide")[0])] == [
        (
            "embedder",
            "embedder-small 4",
            "4",
            "models.acme.internal",
            "embedder-small: more are wanted than its max allows",
        )
    ]
    assert services_of(cast("KubeApi", Cluster({})), "ebbtide") == ([], [])


def test_a_floor_is_explained_in_one_line_with_its_end() -> None:
    lines = told(config=with_a_floor(), scaled=with_least(4))

    assert lines[1] == "  - floor: 4 until Mon 05 Jan 19:00 (UTC), for business hours"
    assert not any("floor" in line for line in told(config=with_a_floor("other")))


def test_a_floor_that_is_not_written_yet_is_reported() -> None:
    assert "its autoscaler has 1" in told(config=with_a_floor(), scaled=with_least(1))[1]


def test_a_config_that_cannot_be_read_hides_nothing_of_the_rest() -> None:
    for answer in (403, {"data": {"workloads.json": "{"}}):
        lines = told(config=answer)
        assert lines[0] == "embedder-small: 4 pods, 4 ready, between 1 and 12."
        assert lines[-1].startswith("not known: floors: ")
