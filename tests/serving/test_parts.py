"""The bundled parts work together, each as it is rendered: requests find their pods, and replicas follow them."""

import socket
import sys
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders.control_plane import eventually
from tests.serving.support.site import GATEWAYS, NAMESPACE, PROMETHEUS, Serving
from tests.serving.support.stack import lasting

pytestmark = pytest.mark.serving

ECHO = Path(__file__).parent / "support" / "echo.py"


def gateway() -> dict[str, Any]:
    listener = {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "ebbtide", "namespace": GATEWAYS},
        "spec": {"gatewayClassName": "ebbtide", "listeners": [listener]},
    }


def route(name: str, path: str) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"name": "ebbtide", "namespace": GATEWAYS}],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                    "backendRefs": [{"name": name, "port": 8000}],
                    "timeouts": {"request": "0s"},  # none; Envoy's own default is 15 s
                }
            ],
        },
    }


def scaled(name: str, query: str, *, target: str, most: int) -> dict[str, Any]:
    trigger = {
        "serverAddress": PROMETHEUS,
        "query": query,
        "threshold": target,
        "ignoreNullValues": "false",
    }
    quick = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 0}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": 1,
            "maxReplicaCount": most,
            "pollingInterval": 1,
            "advanced": {"horizontalPodAutoscalerConfig": {"name": name, "behavior": quick}},
            "fallback": {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfHigher"},
            "triggers": [{"type": "prometheus", "metadata": trigger, "metricType": "AverageValue"}],
        },
    }


@pytest.fixture(scope="module")
def gate(serving: Serving) -> Iterator[Serving]:
    serving.apply(gateway())
    serving.pods("ebbtide-envoy", 2, namespace=GATEWAYS)
    yield serving
    serving.delete(gateway())


def answer(serving: Serving, path: str) -> str:
    with urllib.request.urlopen(f"http://{serving.gateway_address()}{path}", timeout=5) as got:
        return str(got.read().decode())


def answered(serving: Serving, path: str) -> str | None:
    try:
        return answer(serving, path)
    except OSError:
        return None


def test_a_route_leads_through_envoy_to_a_pod(gate: Serving) -> None:
    made = [*gate.deployment("echo", [sys.executable, str(ECHO)]), route("echo", "/echo")]
    gate.apply(*made)
    (pod,) = gate.pods("echo", 1)

    assert eventually(lambda: answered(gate, "/echo"), what="an answer") == pod.name

    gate.delete(*made)


# Envoy tells of no cluster before its first request: `or` keeps that apart from a gateway that says nothing.
QUERY = (
    'sum(envoy_cluster_upstream_rq_active{envoy_cluster_name="httproute/ebbtide/held/rule/0"})'
    " or 0 * sum(envoy_server_live)"
)


@pytest.fixture
def held(gate: Serving) -> Iterator[list[dict[str, Any]]]:
    """A service whose requests last until they are let go, scaled by those that are in flight: one for each pod."""
    made = [*gate.deployment("held", [sys.executable, str(ECHO)]), route("held", "/held")]
    gate.apply(*made, scaled("held", QUERY, target="1", most=6))
    gate.pods("held", 1)
    eventually(lambda: answered(gate, "/held"), what="an answer")
    yield made
    gate.delete(scaled("held", QUERY, target="1", most=6), *made)


def test_what_is_in_flight_at_the_gateway_brings_pods(gate: Serving, held: list[dict[str, Any]]) -> None:
    with in_flight(gate, 4):
        gate.pods("held", 4)

    gate.pods("held", 1)


@contextmanager
def in_flight(serving: Serving, number: int) -> Generator[list[socket.socket]]:
    """Requests that last until the end of the block; then each of them is answered."""
    begun: list[socket.socket] = []
    try:
        for _ in range(number):
            host, _, port = serving.gateway_address().partition(":")
            one = socket.create_connection((host, int(port)), timeout=10)
            one.sendall(b"GET /held?until=gone HTTP/1.1\r\nHost: a\r\n\r\n")
            begun.append(one)
        yield begun
    finally:
        for one in begun:
            one.close()


AWAY = [pytest.param(8, id="a moment"), pytest.param(300, id="five minutes", marks=pytest.mark.long)]


@pytest.mark.parametrize("seconds", AWAY)
@pytest.mark.parametrize("part", ["keda", "prometheus"])
def test_without_what_counts_nothing_shrinks_though_the_load_is_gone(
    gate: Serving, held: list[dict[str, Any]], part: str, seconds: int
) -> None:
    with in_flight(gate, 4):
        gate.pods("held", 4)
        gate.away(part)
    try:
        for _ in lasting(seconds):
            assert gate.replicas("held") >= 4
            assert answered(gate, "/held")
    finally:
        gate.back(part)

    gate.pods("held", 1)


@pytest.mark.parametrize("seconds", AWAY)
def test_without_the_gateways_controller_requests_flow(gate: Serving, held: list[dict[str, Any]], seconds: int) -> None:
    with in_flight(gate, 4):
        gate.pods("held", 4)
        gate.away("envoy-gateway")
        try:
            for _ in lasting(seconds):
                assert gate.replicas("held") >= 4
                assert answered(gate, "/held")
        finally:
            gate.back("envoy-gateway")


# Longer than metrics-server's last figures are good for.
OUTLAST = [pytest.param(25, id="a moment"), AWAY[1]]


@pytest.mark.parametrize("seconds", OUTLAST)
def test_what_pods_use_brings_more_and_without_metrics_server_nothing_shrinks_though_they_rest(
    gate: Serving, seconds: int
) -> None:
    made = gate.deployment("busy", [sys.executable, str(ECHO), "busy"], cpu="50m")
    scaler = by_cpu("busy", target=50, most=3)
    gate.apply(*made, scaler)
    try:
        pods = gate.pods("busy", 3, patience=180)
        gate.away("metrics-server")
        try:
            for pod in pods:
                with urllib.request.urlopen(f"http://{pod.address}:8000/rest", timeout=5):
                    pass
            for _ in lasting(seconds):
                assert gate.replicas("busy") == 3
        finally:
            gate.back("metrics-server")

        gate.pods("busy", 1, patience=120)
    finally:
        gate.delete(scaler, *made)


def by_cpu(name: str, *, target: int, most: int) -> dict[str, Any]:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": cpu}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }
