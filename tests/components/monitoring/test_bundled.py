"""The bundled Prometheus and Alertmanager: their pods, rights and configs, and the allowed calls."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from components.monitoring.alerting import alertmanager_document
from components.monitoring.scraping import CADVISOR_KEPT, GPU_KEPT
from components.monitoring.targets import targets
from ebbtide.monitoring.documents import rules_document
from ebbtide.monitoring.recordings import recordings
from ebbtide.settings.sections.alerting import Alerts
from tests.builders.monitoring.bundled import ALERTS, document, jobs, on_an_existing_cluster, pod, settings, stack
from tests.builders.monitoring.promql import uses
from tests.builders.monitoring.watched import WORKERS
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.components.cluster.test_network_policies import (
    API_SERVER,
    BALANCER,
    DNS,
    INTERNET,
    METADATA,
    Outside,
    Pod,
    Policies,
)

pytestmark = pytest.mark.whole

PARTS = ("prometheus", "alertmanager")
NODE = Outside("10.0.4.17")


def ours(name: str, namespace: str = "ebbtide") -> Pod:
    return Pod(namespace=namespace, labels={"ebbtide.dev/workload": name})


PROMETHEUS, ALERTMANAGER = (ours(f"ebbtide-{part}") for part in PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_each_runs_restricted_and_writes_to_its_volume_alone(part: str) -> None:
    (container,) = pod(stack(), part)["containers"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}

    assert pod(stack(), part)["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert [path for path, read_only in mounts.items() if not read_only] == ["/data"]
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]


def test_only_prometheus_has_a_token_of_the_cluster() -> None:
    tokens = {part: pod(stack(), part)["automountServiceAccountToken"] for part in PARTS}

    assert tokens == {"prometheus": True, "alertmanager": False}


def test_a_changed_config_is_another_pod_and_a_changed_claim_is_not() -> None:
    other = Recorded(record(settings(runbooks="https://docs.example")))
    digests = [
        made.named("monitoring-prometheus-server").inputs["spec"]["template"]["metadata"]["annotations"]
        for made in (stack(), other)
    ]

    assert digests[0] != digests[1]
    assert stack().named("monitoring-prometheus-server").ignore_changes == ("spec.volumeClaimTemplates",)


def test_its_account_reads_nodes_what_kubelets_tell_and_the_pods_where_it_scrapes() -> None:
    granted = [one for one in stack().all if one.name.startswith("monitoring-") and "rules" in one.inputs]
    rules = {
        (one.inputs["metadata"].get("namespace", ""), resource): rule["verbs"]
        for one in granted
        for rule in one.inputs["rules"]
        for resource in rule["resources"]
    }
    spaces = {target.namespace for target in targets(settings())} | {"kube-system"}

    assert rules == {
        ("", "nodes"): ["get", "list", "watch"],
        ("", "nodes/metrics"): ["get"],
        **{(space, "pods"): ["get", "list", "watch"] for space in spaces},
    }
    for one in stack().all:
        if one.name.startswith("monitoring-") and "roleRef" in one.inputs:
            assert one.inputs["subjects"] == [
                {"kind": "ServiceAccount", "name": "ebbtide-prometheus", "namespace": "ebbtide"}
            ]


def test_each_target_of_the_stack_has_a_job_that_finds_its_pods_alone() -> None:
    found = jobs(stack())

    for target in targets(settings()):
        (looked,) = found[f"{target.namespace}/{target.name}"]["kubernetes_sd_configs"]
        assert looked["namespaces"] == {"names": [target.namespace]}
        assert looked["selectors"] == [
            {"role": "pod", "label": f"ebbtide.dev/workload in ({','.join(target.workloads)})"}
        ]
    assert found.keys() == {
        *(f"{target.namespace}/{target.name}" for target in targets(settings())),
        *("prometheus", "alertmanager", "kubelet", "kubelet-resource", "cadvisor", "gpu"),
    }


def test_every_target_is_given_the_customer_and_no_pod_of_a_customer_can_name_another() -> None:
    for name, job in jobs(stack()).items():
        assert job["relabel_configs"][-1] == {"target_label": "customer", "replacement": "demo"}
        assert job.get("honor_labels", False) is (name in ("ebbtide/ebbtide", "gpu"))
        assert "sample_limit" in job or "honor_labels" in job or name in (*PARTS, "cadvisor") or "kubelet" in name


def test_kubelets_are_believed_by_the_clusters_authority_on_eks_alone() -> None:
    existing = Recorded(record(on_an_existing_cluster()))

    assert jobs(stack())["cadvisor"]["tls_config"] == {
        "ca_file": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    }
    assert jobs(existing)["cadvisor"]["tls_config"] == {"insecure_skip_verify": True}


def test_the_rules_are_those_of_the_stack() -> None:
    assert document(stack(), "prometheus", "rules.json") == rules_document(settings())
    assert document(stack(), "prometheus", "prometheus.json")["rule_files"] == ["/etc/prometheus/rules.json"]


def test_no_other_pod_and_no_config_knows_of_it_so_that_nothing_waits_for_it() -> None:
    ours = [one for one in stack().all if one.name.startswith("monitoring") or "-prometheus" in one.name]
    others = [one for one in stack().all if one not in ours and one.name != "network-policies-alertmanager"]
    policies = {one.name for one in others if one.type.endswith(":NetworkPolicy")}

    assert len(ours) > 10
    named = {one.name for one in others if any(name in str(one.inputs) for name in ("ebbtide-prom", "ebbtide-alertm"))}
    assert named <= policies


def test_secrets_are_read_from_files_in_the_namespace_of_the_pods() -> None:
    config = document(stack(), "alertmanager", "alertmanager.json")
    mounts = {
        mount["mountPath"]: mount["name"] for mount in pod(stack(), "alertmanager")["containers"][0]["volumeMounts"]
    }
    held = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in pod(stack(), "alertmanager")["volumes"]
        if "secret" in volume
    }
    files = [
        config["receivers"][0]["webhook_configs"][0]["url_file"],
        config["receivers"][1]["webhook_configs"][0]["url_file"],
    ]

    assert [held[mounts[file.rpartition("/")[0]]] for file in files] == ["oncall", "beat"]


def test_a_secret_that_others_take_too_stands_in_both_namespaces() -> None:
    taking = {"env": {"HOOK": {"secret": "oncall", "key": "url"}}}
    workers = {**WORKERS, "train": {**WORKERS["train"], **taking}}
    made = Recorded(record(settings(more={"workers": workers})))
    places = [(one.inputs["metadata"]["namespace"], one.inputs["metadata"]["name"]) for one in made.of("Secret")]

    assert sorted(space for space, name in places if name == "oncall") == ["ebbtide", "ebbtide-workers"]


RECEIVERS: Mapping[str, tuple[dict[str, Any], str]] = {
    "slack": ({"slack": {"channel": "#oncall"}}, "api_url_file"),
    "webhook": ({"webhook": {}}, "url_file"),
    "pagerduty": ({"pagerduty": {}}, "routing_key_file"),
    "email": (
        {"email": {"to": "a@example.com", "from": "b@example.com", "smarthost": "smtp.example.com:587"}},
        "auth_password_file",
    ),
}


@pytest.mark.parametrize("kind", RECEIVERS)
def test_no_receiver_has_its_secret_in_the_config(kind: str) -> None:
    keys, file = RECEIVERS[kind]
    alerts = Alerts.model_validate({"receiver": {**keys, "secret": "oncall"}})
    told, nobody = alertmanager_document(alerts)["receivers"]

    assert told[f"{kind}_configs"][0][file] == f"/etc/alertmanager-receiver/{alerts.receiver.key}"
    assert told[f"{kind}_configs"][0]["send_resolved"] is True
    assert nobody == {"name": "nobody"}


def test_the_dead_mans_alert_goes_to_whoever_misses_it_and_to_nobody_else() -> None:
    route = document(stack(), "alertmanager", "alertmanager.json")["route"]
    plain = alertmanager_document(Alerts.model_validate({"receiver": ALERTS["receiver"]}))["route"]

    assert route["routes"][0]["matchers"] == plain["routes"][0]["matchers"] == ['severity="none"']
    assert (route["routes"][0]["receiver"], plain["routes"][0]["receiver"]) == ("dead-man", "nobody")


def test_prometheus_reaches_what_it_scrapes_on_its_ports_and_nothing_else() -> None:
    open_to = Policies(stack().all)
    train = settings().workers["train"].ports["metrics"]
    scraped = [
        (ours("ebbtide-controller"), 8080),
        (ours("ebbtide-workloads"), 8080),
        (ours("cluster-autoscaler", "kube-system"), 8085),
        (ours("nvidia-gpu-exporter", "kube-system"), 9400),
        (ours("api"), 9090),
        (ours("train", "ebbtide-workers"), train),
        (ours("flow-cpu", "ebbtide-ray-flow"), 8080),
        (ALERTMANAGER, 9093),
        (DNS, 53),
        (API_SERVER, 443),
        (NODE, 10250),
    ]
    shut = [
        *((target, port + 1) for target, port in scraped if target != API_SERVER),
        (ours("prep", "ebbtide-workers"), train),
        (INTERNET, 9090),
        (METADATA, 80),
        (METADATA, 443),
        (ours("ebbtide-redis"), 6379),
    ]

    assert [(target, port) for target, port in scraped if not open_to.allow(PROMETHEUS, target, port)] == []
    assert [(target, port) for target, port in shut if open_to.allow(PROMETHEUS, target, port)] == []


def test_both_are_called_through_the_api_server_alone() -> None:
    open_to = Policies(stack().all)

    for callee, port in ((PROMETHEUS, 9090), (ALERTMANAGER, 9093)):
        assert open_to.allow(BALANCER, callee, port)
        for caller in (INTERNET, ours("api"), ours("train", "ebbtide-workers"), Pod(namespace="elsewhere")):
            assert not open_to.allow(caller, callee, port)
    for one in (ours("ebbtide-controller"), ours("flow-cpu", "ebbtide-ray-flow")):
        assert not open_to.allow(Pod(namespace="elsewhere"), one, 8080)
        assert not open_to.allow(ours("api"), one, 8080)


def test_what_rules_ask_of_kubelets_and_gpus_is_kept() -> None:
    named = {use.metric for rule in recordings("acme") for use in uses(rule.expr)}
    others = {name for name in named if name.startswith(("container_", "DCGM_"))}

    assert len(others) > 4
    assert {name for name in others if not re.fullmatch(f"{CADVISOR_KEPT}|{GPU_KEPT}", name)} == set()
