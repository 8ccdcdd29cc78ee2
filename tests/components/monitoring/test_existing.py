"""Targets and rules for an existing Prometheus, and the allowed callers of the ports."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from components.monitoring.scraping import jobs_of_pods
from components.monitoring.targets import reached, targets
from ebbtide.monitoring.documents import rules_document
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.cluster import ClusterKind, ClusterSettings
from tests.builders.monitoring.servers import needs_prometheus
from tests.builders.monitoring.watched import (
    WATCHED,
    WORKERS,
    WORKLOADS,
    definitions,
    objects,
    place_of,
    settings,
    settings_with,
    stack,
)
from tests.builders.recorded import record
from tests.builders.stack import Recorded, stack_settings
from tests.components.cluster.test_network_policies import PROMETHEUS, Pod, Policies

pytestmark = pytest.mark.whole

OBJECTS = (
    ("PodMonitor", "ebbtide", "ebbtide"),
    ("PodMonitor", "kube-system", "ebbtide"),
    ("PodMonitor", "ebbtide", "ebbtide-pods"),
    ("PodMonitor", "ebbtide-workers", "ebbtide-pods"),
    ("PodMonitor", "ebbtide-ray-flow", "ebbtide-ray"),
    ("PrometheusRule", "ebbtide", "ebbtide"),
)


def schema_of(kind: str) -> Draft202012Validator:
    """The API server's schema, which here refuses fields that it would silently drop."""
    return Draft202012Validator(_strict(definitions()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(one) for one in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    given = {key: _strict(value) for key, value in cast("dict[str, Any]", node).items()}
    return {**given, "additionalProperties": False} if isinstance(given.get("properties"), dict) else given


def pods() -> dict[tuple[str, str], set[str]]:
    """The names of ports of the stack's pods, by namespace and label `workload`."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in stack().all:
        template = one.inputs.get("spec", {}).get("template") if one.type.startswith("kubernetes:apps") else None
        if template:
            names = {port["name"] for it in template["spec"]["containers"] for port in it.get("ports", ())}
            found[place_of(one)[0], template["metadata"]["labels"]["ebbtide.dev/workload"]] = names
    return found


def test_each_namespace_with_something_to_scrape_has_a_monitor_and_the_stack_its_rules() -> None:
    assert sorted(objects()) == sorted(OBJECTS)
    assert objects()["PrometheusRule", "ebbtide", "ebbtide"].inputs["spec"] == rules_document(settings())


@pytest.mark.parametrize("target", [it for it in targets(settings()) if it.name != "ebbtide-ray"], ids=str)
def test_what_a_monitor_chooses_exists_and_has_the_port(target: Any) -> None:
    spec = objects()["PodMonitor", target.namespace, target.name].inputs["spec"]
    (chosen,) = spec["selector"]["matchExpressions"]
    (endpoint,) = spec["podMetricsEndpoints"]

    assert (chosen["key"], chosen["operator"]) == ("ebbtide.dev/workload", "In")
    assert chosen["values"]
    for name in chosen["values"]:
        assert endpoint["port"] in pods()[target.namespace, name]


def test_each_pod_with_a_port_for_metrics_is_chosen() -> None:
    wanted = {place for place, ports in pods().items() if "metrics" in ports}
    told = {(it.namespace, name) for it in targets(settings()) for name in it.workloads if it.port == "metrics"}

    assert wanted == {("kube-system", "cluster-autoscaler"), ("ebbtide", "api"), ("ebbtide-workers", "train")}
    assert {place for place in told if place[0] != "ebbtide-ray-flow"} == wanted


@cache
def on_one_port() -> StackSettings:
    """A pool and a workload with metrics on the port that they serve, and others with a port named metrics."""
    prep = {**WORKERS["prep"], "metrics": "http"}
    llm = {**WORKLOADS["api"], "ports": {"http": 8001, "metrics": 9091}, "metrics": "http"}
    workloads = {**WORKLOADS, "llm": llm}
    return settings_with(monitoring=WATCHED, workers={**WORKERS, "prep": prep}, workloads=workloads)


def test_prometheus_reaches_the_port_of_metrics_that_a_section_names() -> None:
    policies = Policies(Recorded(record(on_one_port())).all)
    prep = Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "prep"})

    assert policies.allow(PROMETHEUS, prep, 8000)
    assert not policies.allow(PROMETHEUS, prep, 9100)
    ports = {(it.namespace, it.workloads): it.ports for it in reached(on_one_port(), targets(on_one_port()))}
    assert ports["ebbtide", ("llm",)] == (8001,)
    assert ports["ebbtide-workers", ("prep",)] == (8000,)
    assert ports["ebbtide-workers", ("train",)] == (9100,)
    assert ports["kube-system", ("cluster-autoscaler",)] == (8085,)


def test_a_cluster_that_is_there_has_an_autoscaler_of_others() -> None:
    existing = stack_settings(cluster=ClusterSettings(kind=ClusterKind.EXISTING, context="here"))

    assert {target.namespace for target in targets(existing)} == {"ebbtide"}


def test_every_series_carries_the_customer_that_the_rules_ask_for() -> None:
    customer = settings().customer
    for (kind, _, _), one in objects().items():
        assert one.inputs["metadata"]["labels"] == {"ebbtide.dev/customer": customer, "release": "stack"}
        if kind == "PodMonitor":
            (endpoint,) = one.inputs["spec"]["podMetricsEndpoints"]
            named, *further = endpoint["relabelings"]
            assert named == {"action": "replace", "targetLabel": "customer", "replacement": customer}
            assert [it["targetLabel"] for it in further] == ([] if "honorLabels" in endpoint else ["workload"])


def test_the_pods_that_the_exporter_tells_of_keep_their_names_and_nobody_else_chooses_his() -> None:
    """Otherwise Prometheus would rename `pod` to `exported_pod`, or a customer's pod could pass for another."""
    monitors = {
        place: one.inputs["spec"]["podMetricsEndpoints"] for place, one in objects().items() if "Pod" in place[0]
    }
    honoured = {place[1:] for place, (endpoint,) in monitors.items() if endpoint.get("honorLabels")}

    assert honoured == {("ebbtide", "ebbtide")}


@pytest.mark.parametrize("place", [*OBJECTS], ids=str)
def test_the_operators_own_definitions_take_each_object_and_know_each_of_its_keys(place: tuple[str, str, str]) -> None:
    plain = objects()[place].inputs

    faults = [f"{error.json_path}: {error.message}" for error in schema_of(place[0]).iter_errors({**plain})]
    assert faults == []


@pytest.mark.process
@needs_prometheus
def test_those_files_are_what_prometheus_takes(tmp_path: Path) -> None:
    """Debian's promtool, 2.42, knows neither `scrape_config_files` nor the discovery of pods, which is taken out."""
    jobs = jobs_of_pods(settings().customer, targets(settings()))["scrape_configs"]
    for job in jobs:
        assert job.pop("kubernetes_sd_configs")[0]["role"] == "pod"
    file = tmp_path / "prometheus.json"
    file.write_text(json.dumps({"scrape_configs": jobs}), encoding="utf-8")

    done = subprocess.run(["promtool", "check", "config", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cluster_without_the_kinds_refuses_them_after_all_else_is_there() -> None:
    controller = {one.urn for one in stack().all if one.name == "controller-deployment"}

    assert controller
    assert all(controller <= stack().urns_before(one) for one in objects().values())


def test_the_namespace_that_is_named_reaches_the_ports_of_metrics_and_nobody_else_does() -> None:
    watched, unwatched = Policies(stack().all), Policies(record(settings_with()))
    other = Pod(namespace="elsewhere")
    train = Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "train"})
    prep = Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "prep"})
    port = settings().workers["train"].ports["metrics"]
    ours = [
        Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": name})
        for name in ("ebbtide-controller", "ebbtide-workloads", "ebbtide-exporter")
    ]
    ray = Pod(namespace="ebbtide-ray-flow", labels={"ebbtide.dev/workload": "flow-cpu"})

    for one in (*ours, ray):
        assert watched.allow(PROMETHEUS, one, 8080)
        assert not watched.allow(PROMETHEUS, one, 8081)
        assert not watched.allow(other, one, 8080)
        assert unwatched.allow(other, one, 8080)
    assert watched.allow(PROMETHEUS, train, port)
    assert not watched.allow(PROMETHEUS, train, port + 1)
    assert not watched.allow(PROMETHEUS, prep, port)
    assert not watched.allow(other, train, port)
    assert not unwatched.allow(PROMETHEUS, train, port)
    opened = [one.name for one in stack().of("NetworkPolicy") if "-scraped-" in one.name]
    assert opened == [f"network-policies-scraped-{port}"], "only what is needed: workloads are open to all pods already"
