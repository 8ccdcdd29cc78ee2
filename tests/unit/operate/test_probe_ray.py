"""What `ebbtide probe` reports on Ray: definitions, operators, tokens, rights and namespaces."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.definitions import crds, version
from ebbtide.operate.probe.facts import RAY_POLICY
from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.recording.output import manifests
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.unit.operate.test_probe import CannedCluster, findings

pytestmark = pytest.mark.whole

NAMESPACE = "/api/v1/namespaces/ebbtide-ray-flow"
TOKENS = [
    f"/api/v1/namespaces/{space}/secrets/flow-ray-token" for space in ("ebbtide-ray-flow", "ebbtide-workers", "ebbtide")
]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/deployments"
POLICY = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{RAY_POLICY}"
RAY = """
  ebbtide:ray:
    flow:
      version: "2.60.0"
      image: registry.example.com/ml/ray:2.60.0
      head: { cpu: 2, memory: 8Gi }
      groups: { cpu: { max: 20, cpu: 15, memory: 55Gi } }
      longestTask: 30m
"""
DENIED = 403


def token(value: str = "a", key: str = "auth_token") -> dict[str, Any]:
    return {"data": {key: b64encode(value.encode()).decode()}}


def space(level: str = "restricted", customer: str = "onprem") -> dict[str, Any]:
    return {"metadata": {"labels": {CUSTOMER: customer, "pod-security.kubernetes.io/enforce": level}}}


def operator(
    *arguments: str, namespace: str = "kuberay", image: str = "quay.io/kuberay/operator:v1.3.0", replicas: int = 1
) -> dict[str, Any]:
    pod = {"containers": [{"image": image, "command": ["/manager"], "args": [*arguments]}]}
    metadata = {"name": "kuberay-operator", "namespace": namespace}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": {"spec": pod}}}


def definition(name: str, **changes: Any) -> dict[str, Any]:
    (crd,) = [item for item in crds("kuberay") if item.name == name]
    return {"metadata": {"name": name, "annotations": crd.annotations}, "spec": {**crd.spec, **changes}}


SOUND: dict[str, Any] = {
    NAMESPACE: space(),
    **{path: token() for path in TOKENS},
    **{f"{DEFINITIONS}/{crd.name}": definition(crd.name) for crd in crds("kuberay")},
    DEPLOYMENTS: {"items": [operator("--watch-namespace=ebbtide-ray-flow", namespace="ebbtide")]},
    POLICY: {},
}


def wants_in(text: str, folder: Path) -> Wants:
    settings = loaded(text, folder)
    return wants_of(settings, record(settings))


@pytest.fixture
def wants(tmp_path: Path) -> Wants:
    return wants_in(onprem() + RAY, tmp_path)


def ray_of(wants: Wants, answers: dict[str, Any] | None = None, **how: Any) -> dict[str, str]:
    found = findings(CannedCluster({**SOUND, **(answers or {})}, **how), wants)
    return {what.removeprefix("ray "): line for what, line in found.items() if what.startswith("ray ")}


def test_a_sound_cluster_has_one_good_line_for_each_thing(wants: Wants) -> None:
    assert ray_of(wants) == {
        "definitions": f"ok: KubeRay {version('kuberay')}",
        "operator": "ok: no other one watches ebbtide-ray-flow",
        "flow namespace": "ok: ebbtide-ray-flow enforces restricted",
        "flow token": "ok: the same in ebbtide-ray-flow, ebbtide-workers, ebbtide",
        "flow admission": "ok: the workload controller may write only the spec and one annotation",
        "flow operator": "ok: has all rights that it needs",
        "flow autoscaler": "ok: has all rights that it needs",
        "flow workload controller": "ok: has all rights that it needs",
    }


def test_a_stack_without_ray_asks_nothing_of_it(tmp_path: Path) -> None:
    cluster = CannedCluster()

    found = findings(cluster, wants_in(onprem(), tmp_path))

    assert [what for what in found if what.startswith("ray")] == []
    assert not {path for path in cluster.asked if "ray" in path or path == DEPLOYMENTS}


def test_before_the_first_up_nothing_of_it_is_missing(wants: Wants) -> None:
    gone: dict[str, Any] = {**dict.fromkeys(SOUND, 404), DEPLOYMENTS: {"items": []}}

    assert ray_of(wants, gone) == {
        "definitions": "note: not there yet: rayclusters.ray.io, rayjobs.ray.io, rayservices.ray.io; pulumi up creates "
        f"those of KubeRay {version('kuberay')}",
        "operator": "ok: no other one watches ebbtide-ray-flow",
        "flow": "note: namespace ebbtide-ray-flow is not there yet: pulumi up makes it",
    }


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (operator(), "missing: kuberay/kuberay-operator watches all namespaces too, and two operators make each pod"),
        (operator("--watch-namespace", "a, ebbtide-ray-flow"), "watches a, ebbtide-ray-flow too"),
        (operator("--watch-namespace=", "a"), "watches all namespaces too"),
        (operator("-watch-namespace=ebbtide-ray-flow"), "watches ebbtide-ray-flow too"),
        (operator(image="mirror.example.com/kuberay-operator:1"), "watches all namespaces too"),
        (operator("--watch-namespace=a,b"), "ok: no other one watches"),
        (operator(replicas=0), "ok: no other one watches"),
        (operator(image="registry.example.com/api:1"), "ok: no other one watches"),
        (operator(namespace="ebbtide"), "ok: no other one watches"),
    ],
)
def test_a_foreign_operator_is_reported_where_it_watches_the_same_namespaces(
    wants: Wants, found: dict[str, Any], line: str
) -> None:
    assert line in ray_of(wants, {DEPLOYMENTS: {"items": [found]}})["operator"]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ([operator()], "ok: an installed one watches ebbtide-ray-flow"),
        ([operator("--watch-namespace=ebbtide-ray-flow")], "ok: an installed one watches"),
        ([operator("--watch-namespace=a")], "missing: no installed one watches ebbtide-ray-flow"),
        ([operator(replicas=0)], "missing: no installed one watches"),
        ([], "missing: no installed one watches"),
    ],
)
def test_a_stack_that_brings_no_operator_needs_one_that_watches_its_namespaces(
    tmp_path: Path, found: list[dict[str, Any]], line: str
) -> None:
    theirs = wants_in(onprem("rayOperator: existing") + RAY, tmp_path)

    told = ray_of(theirs, {DEPLOYMENTS: {"items": found}})

    assert told["operator"].startswith(line)
    assert not {"definitions", "flow operator"} & told.keys()


def test_definitions_of_another_release_are_reported(wants: Wants) -> None:
    name = "rayclusters.ray.io"
    older = definition(name, versions=[{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {}}}}}])
    older["metadata"]["annotations"] = {"controller-gen.kubebuilder.io/version": "v0.11.1"}

    line = ray_of(wants, {f"{DEFINITIONS}/{name}": older})["definitions"]

    assert line.startswith(
        f"missing: wanted KubeRay's {version('kuberay')}, found others: {name} (controller-gen v0.11.1)"
    )


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ({TOKENS[1]: token("b")}, "missing: the one in ebbtide-workers differs from ebbtide-ray-flow's"),
        ({TOKENS[2]: 404}, "missing: not there: Secret ebbtide/flow-ray-token"),
        ({TOKENS[0]: token(key="token")}, "missing: lacks the key auth_token: Secret ebbtide-ray-flow/flow-ray-token"),
        ({TOKENS[0]: DENIED}, "note: cannot be compared: you need the right to get secrets in ebbtide-ray-flow"),
    ],
)
def test_copies_of_the_token_must_be_there_and_equal(wants: Wants, answers: dict[str, Any], line: str) -> None:
    told = ray_of(wants, answers)["flow token"]

    assert told.startswith(line)
    assert token("b")["data"]["auth_token"] not in told


@pytest.mark.parametrize(
    ("what", "answers", "line"),
    [
        ("flow namespace", {NAMESPACE: space("privileged")}, "missing: ebbtide-ray-flow enforces privileged, wanted"),
        (
            "flow namespace",
            {NAMESPACE: {"metadata": {"labels": {CUSTOMER: "onprem"}}}},
            "missing: ebbtide-ray-flow enforces nothing, wanted",
        ),
        ("flow namespace", {NAMESPACE: {"metadata": {}}}, "missing: ebbtide-ray-flow is not Ebbtide's"),
        ("flow namespace", {NAMESPACE: DENIED}, "note: ebbtide-ray-flow cannot be read"),
        ("flow admission", {POLICY: 404}, "missing: no policy limits what the workload controller may write"),
        ("flow admission", {POLICY: DENIED}, "note: cannot be read"),
        ("operator", {DEPLOYMENTS: DENIED}, "note: whether another KubeRay operator runs cannot be read"),
        ("definitions", {f"{DEFINITIONS}/rayjobs.ray.io": DENIED}, "note: cannot be read"),
    ],
)
def test_what_is_wrong_or_may_not_be_read_is_one_line(
    wants: Wants, what: str, answers: dict[str, Any], line: str
) -> None:
    assert ray_of(wants, answers)[what].startswith(line)


def test_rights_of_the_three_accounts_are_checked_separately(wants: Wants) -> None:
    lacking = (("flow-head", "patch", "pods"), ("kuberay-operator", "create", "services"))

    told = ray_of(wants, others_lack=lacking)

    assert told["flow autoscaler"].startswith(
        "missing: system:serviceaccount:ebbtide-ray-flow:flow-head may not patch pods in ebbtide-ray-flow"
    )
    assert "may not create services in ebbtide-ray-flow" in told["flow operator"]
    assert told["flow workload controller"] == "ok: has all rights that it needs"
    assert ray_of(wants, others_lack=None)["flow operator"].startswith("note: its rights cannot be read")


def rendered(folder: Path) -> list[dict[str, Any]]:
    texts = manifests(record(loaded(onprem() + RAY, folder))).values()
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


def test_the_policy_has_the_name_that_is_rendered(tmp_path: Path) -> None:
    assert RAY_POLICY in {
        item["metadata"]["name"] for item in rendered(tmp_path) if item["kind"] == "ValidatingAdmissionPolicy"
    }


def test_pull_secrets_are_wanted_in_the_namespaces_of_ray_too(tmp_path: Path) -> None:
    stack = onprem() + RAY + "\n  ebbtide:images: { pullSecrets: [registry] }\n"

    wants_in = {item.namespace for item in wants_of(loaded(stack, tmp_path), ()).objects if item.name == "registry"}

    assert wants_in == {"ebbtide", "ebbtide-workers", "ebbtide-ray-flow"}
