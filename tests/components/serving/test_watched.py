"""The counts of requests: Envoy is scraped often, and only series that rules and autoscalers use are kept."""

import re
from typing import Any

import pytest

from components.monitoring.scraping import Scraping, prometheus_document
from components.monitoring.targets import ENVOY_KEPT, ENVOY_OF_ROUTES, targets
from ebbtide.monitoring import serving
from ebbtide.monitoring.documents import rule_groups
from ebbtide.recording.resources import kind_of
from ebbtide.settings import StackSettings
from tests.builders.monitoring.promql import series, uses
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack
from tests.components.cluster.test_network_policies import Pod, Policies
from tests.paths import DATA

ELSEWHERE = "ebbtide:cluster: { kind: existing, context: here }\nebbtide:serving: { gatewayClass: eg, keda: true }"
_NODES = "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }"
ON_A_CLUSTER = ((_NODES, ELSEWHERE),)
PROMETHEUS = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "ebbtide-prometheus"})
ENVOY = Pod(
    namespace="ebbtide-gateway",
    labels={"ebbtide.dev/workload": "ebbtide-envoy", "gateway.envoyproxy.io/owning-gateway-name": "ebbtide"},
)


def envoy_jobs(settings: StackSettings) -> list[dict[str, Any]]:
    scraping = Scraping(customer=settings.customer, targets=targets(settings), kubelets_are_known=True)
    return [it for it in prometheus_document(scraping)["scrape_configs"] if it["job_name"].endswith("/ebbtide-envoy")]


def test_what_is_kept_of_envoy_is_what_rules_and_triggers_name_and_nothing_else() -> None:
    settings = services_stack()
    cluster = [serving.envoy_cluster(settings, "embedder", "small")]
    queries = [query("acme", cluster) for query in (serving.in_flight_query, serving.latency_query)]
    expressions = [*queries, serving.throughput_query("acme", cluster)]
    expressions += [rule.expr for group in rule_groups(settings) for rule in group.rules]
    named = {use.metric for expr in expressions for use in uses(expr) if use.metric.startswith("envoy_")}
    told = series((DATA / "expositions" / "envoy.txt").read_text(encoding="utf-8"))

    assert named == {name for name in told if re.fullmatch(ENVOY_KEPT, name)}
    (job,) = envoy_jobs(settings)
    assert [(it["source_labels"], it["regex"]) for it in job["metric_relabel_configs"]] == [
        (["__name__"], ENVOY_KEPT),
        (["envoy_cluster_name"], ENVOY_OF_ROUTES),
    ]


def test_the_clusters_of_envoys_own_business_are_dropped() -> None:
    kept = re.compile(ENVOY_OF_ROUTES)

    assert kept.fullmatch("httproute/ebbtide/embedder-small/rule/0")
    assert kept.fullmatch(""), "what is of the whole proxy"
    assert not kept.fullmatch("xds_cluster")


def test_prometheus_reaches_envoy_and_keda_reaches_prometheus() -> None:
    policies = Policies(record(services_stack()))

    assert policies.allow(PROMETHEUS, ENVOY, 19001)
    assert not policies.allow(PROMETHEUS, ENVOY, 10080)
    assert policies.allow(Pod(namespace="keda", labels={"ebbtide.dev/workload": "keda-operator"}), PROMETHEUS, 9090)


@pytest.mark.parametrize("discovery", ["", ", discovery: operator"])
def test_keda_asks_the_service_that_the_operator_of_an_existing_prometheus_makes(discovery: str) -> None:
    existing = f"{{ prometheus: existing, namespace: watch{discovery} }}"
    recorded = record(services_stack(("{ prometheus: bundled }", existing)))

    addresses = {
        trigger["metadata"]["serverAddress"]
        for resource in recorded
        if kind_of(resource) == "ScaledObject"
        for trigger in resource.inputs["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    }
    assert addresses == {"http://prometheus-operated.watch.svc:9090"}


def test_on_a_cluster_that_was_there_envoy_is_where_its_chart_puts_it() -> None:
    (job,) = envoy_jobs(services_stack(*ON_A_CLUSTER))

    assert job["kubernetes_sd_configs"][0]["namespaces"] == {"names": ["envoy-gateway-system"]}
