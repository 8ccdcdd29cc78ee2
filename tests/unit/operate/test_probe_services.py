"""What `ebbtide probe` reports on the needs of services: kinds, the gateway's class, the server of external metrics."""

from typing import Any

import pytest

from ebbtide.operate.probe.facts import facts_of
from ebbtide.operate.probe.findings import Probed
from ebbtide.operate.probe.serving import serving
from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.settings.load import stack_of_text
from tests.builders.workloads.services import services_stack, with_services
from tests.unit.operate.test_probe import CannedCluster, findings, groups

_NODES = "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }"
HERE = "ebbtide:cluster: { kind: existing, context: here }\nebbtide:serving: { gatewayClass: eg, keda: true }"
GATEWAY_API, ENVOYS = "gateway.networking.k8s.io/v1", "gateway.envoyproxy.io/v1alpha1"
KEDA, VERTICAL = "keda.sh/v1alpha1", "autoscaling.k8s.io/v1"
CLASS = f"/apis/{GATEWAY_API}/gatewayclasses/eg"
EXTERNAL = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"


def server(name: str, namespace: str) -> dict[str, Any]:
    return {"spec": {"service": {"name": name, "namespace": namespace}}}


def gateway_class(controller: str) -> dict[str, Any]:
    return {"spec": {"controllerName": controller}}


SOUND = {
    "/apis": groups("policy/v1", "batch/v1", "metrics.k8s.io/v1beta1", GATEWAY_API, ENVOYS, KEDA, VERTICAL),
    CLASS: gateway_class("gateway.envoyproxy.io/gatewayclass-controller"),
    EXTERNAL: server("keda-operator-metrics-apiserver", "keda"),
}


def asked(*changes: tuple[str, str]) -> Wants:
    text = with_services((_NODES, HERE), *changes)
    return wants_of(stack_of_text(text, stack="acme", file="Pulumi.acme.yaml"), ())


def lines(wants: Wants, **answers: Any) -> dict[str, str]:
    places = {"apis": "/apis", "gateway": CLASS, "external": EXTERNAL}
    given = {**SOUND, **{places[key]: value for key, value in answers.items()}}
    return findings(CannedCluster(given), wants)


def test_a_cluster_that_has_all_of_it_is_sound() -> None:
    found = lines(asked())

    assert found["gateway"] == "ok: GatewayClass eg, of gateway.envoyproxy.io/gatewayclass-controller"
    assert found["metrics"] == "ok: external metrics are KEDA's"
    assert found["services"].startswith("ok: ")


@pytest.mark.parametrize(
    ("lacking", "install"), [(GATEWAY_API, "Gateway API"), (ENVOYS, "Envoy Gateway"), (KEDA, "KEDA")]
)
def test_kinds_that_are_not_there_are_named_with_what_brings_them(lacking: str, install: str) -> None:
    apis = groups(*({GATEWAY_API, ENVOYS, KEDA} - {lacking}))
    cluster = CannedCluster({**SOUND, "/apis": apis})
    wants = asked()
    facts = facts_of(cluster, {}, (), serving=wants.serving)
    (line,) = [
        item.said for item in serving(Probed(facts=facts, wants=wants, clock_ahead=None)) if item.state == "missing"
    ]

    assert line.startswith(f"no {lacking}")
    assert install in line


def test_vertical_needs_its_kind_only_where_it_is_used() -> None:
    apis = groups(GATEWAY_API, ENVOYS, KEDA)
    used = asked(("    scale: { metrics: { cpu: 70% }, min: 1, max: 6 }", "    vertical: initial"))

    assert lines(asked(), apis=apis)["services"].startswith("ok")
    assert lines(used, apis=apis)["services"].startswith(f"missing: no {VERTICAL}")


def test_a_class_that_is_not_there_and_one_of_another_gateway() -> None:
    assert lines(asked(), gateway=404)["gateway"].startswith("missing: no GatewayClass eg")
    assert lines(asked(), gateway=403)["gateway"].startswith("note: ")
    other = lines(asked(), gateway=gateway_class("example.com/other"))["gateway"]
    assert (
        other == "missing: GatewayClass eg is of example.com/other, not of Envoy Gateway; write implementation: other"
    )
    told = asked(
        ("keda: true }", "keda: true, implementation: other }"),
        ("inFlight: 3, latency: 300ms", "gpu: 60%"),
        (
            '      small: { hardware: cpu, image: "registry.example.com/ml/embedder-small:3", cpu: 3, memory: 12Gi }\n',
            "",
        ),
        ('        when: { header: "x-model-size: large" }\n', ""),
    )
    assert lines(told, gateway=gateway_class("example.com/other"))["gateway"].startswith("ok")


def test_another_server_of_external_metrics_leaves_cpu_and_memory() -> None:
    other = lines(asked(), external=server("prometheus-adapter", "monitoring"))["metrics"]

    assert other.startswith("missing: monitoring/prometheus-adapter serves external metrics")
    assert other.endswith("only cpu and memory scale services")
    assert lines(asked(), external=404)["metrics"].startswith("missing: no server of external metrics")
    assert lines(asked(), external=403)["metrics"].startswith("note: ")


def test_a_stack_on_eks_brings_all_but_refuses_another_server_of_metrics() -> None:
    wants = wants_of(services_stack(), ())
    cluster = CannedCluster({EXTERNAL: server("other", "monitoring")})

    assert "gateway" not in findings(cluster, wants)
    assert findings(cluster, wants)["metrics"].startswith("missing: monitoring/other")
    assert "gateway" not in findings(CannedCluster({EXTERNAL: 404}), wants)


@pytest.mark.parametrize(("changes", "wanted"), [((("keda: true", "keda: true, tls: models-tls"),), True), ((), False)])
def test_the_certificate_of_the_gateway_is_looked_up(changes: tuple[tuple[str, str], ...], wanted: bool) -> None:
    found = [(item.namespace, item.keys) for item in asked(*changes).objects if item.wanted_by == "serving.tls"]

    assert found == ([("ebbtide", ("tls.crt", "tls.key"))] if wanted else [])
