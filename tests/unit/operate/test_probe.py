"""`ebbtide probe`: the finding of each rule in a cluster that answers from a table, and the command's output."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from components.pods.rules import tolerations
from controllers.adapters.kube_api import ApiError
from ebbtide.cli import cluster as cluster_options
from ebbtide.cli.__main__ import app
from ebbtide.operate.probe.facts import Right, facts_of
from ebbtide.operate.probe.findings import Probed, State
from ebbtide.operate.probe.rules import findings_of
from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, GPU_RESOURCE
from tests.builders.components import controller_config
from tests.builders.existing import CLUSTER_ID, onprem, written
from tests.builders.settings import SHORTEST, loaded, shortest

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
NODES = "/api/v1/nodes"
SYSTEM = "/api/v1/namespaces/ebbtide"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENT = f"/apis/apps/v1/namespaces/ebbtide/deployments/{CONTROLLER}"
AUTOSCALER = f"{KUBE_SYSTEM}/configmaps/cluster-autoscaler-status"
GROUPS = ("policy/v1", "batch/v1", "metrics.k8s.io/v1beta1")
DENIED = 403


def storage_class(name: str = "fast", *, default: bool = True) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}}


def node(
    cpu: str = "16", memory: str = "64Gi", gpu: int = 0, spec: Mapping[str, Any] | None = None, **labels: str
) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, **({GPU_RESOURCE: str(gpu)} if gpu else {})}
    return {"metadata": {"labels": labels}, "spec": spec or {}, "status": {"allocatable": allocatable}}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "value": value, "effect": effect}]}


def groups(*versions: str) -> dict[str, Any]:
    return {"groups": [{"versions": [{"groupVersion": version}]} for version in versions]}


def namespace(customer: str = "") -> dict[str, Any]:
    return {"metadata": {"labels": {CUSTOMER: customer} if customer else {}}}


def controller(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


class CannedCluster:
    """A cluster that answers by path from a table, a sound one by default.

    An int is the status of a refusal, and what is not in the table does not exist.

    `denied` holds (verb, resource) pairs that the caller lacks, `others_lack` (account, verb, resource); None: the
    caller may not ask about others.
    """

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        denied: tuple[tuple[str, str], ...] = (),
        others_lack: tuple[tuple[str, str, str], ...] | None = (),
    ) -> None:
        self._denied, self._others_lack = denied, others_lack
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.34.1"},
            KUBE_SYSTEM: {"metadata": {"uid": CLUSTER_ID}},
            STORAGE: {"items": [storage_class()]},
            NODES: {"items": [node()]},
            ADMISSION: {"resources": [{"name": "validatingadmissionpolicies"}]},
            "/apis": groups(*GROUPS),
            **(answers or {}),
        }

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(path)
        answer = self.answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, "no")
        labels = dict(pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair)
        if not labels:
            return answer
        chosen = [item for item in answer["items"] if labels.items() <= item["metadata"]["labels"].items()]
        return {**answer, "items": chosen}

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        assert not query
        wish = body["spec"]["resourceAttributes"]
        if path == "/apis/authorization.k8s.io/v1/subjectaccessreviews":
            if self._others_lack is None:
                raise ApiError(403, "no")
            asked = (body["spec"]["user"].rpartition(":")[2], wish["verb"], wish["resource"])
            return {"status": {"allowed": asked not in self._others_lack}}
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return {"status": {"allowed": (wish["verb"], wish["resource"]) not in self._denied}}


RIGHTS = (
    Right("create", "admissionregistration.k8s.io", "validatingadmissionpolicies"),
    *(Right("get", "", "secrets", space) for space in ("ebbtide", "ebbtide-workers")),
    *(Right("patch", "rbac.authorization.k8s.io", "roles", space) for space in ("ebbtide", "ebbtide-workers")),
    Right("get", "", "pods", "ebbtide"),
)
BY_ID = f'clusterId: "{CLUSTER_ID}"'
GPU_NODES = "nodeSelectors: { gpu: { pool: gpu } }"
UNREPORTED: dict[str, Any] = {"metadata": {"labels": {"pool": "gpu"}}, "spec": {}, "status": {}}
"""A node whose kubelet has not reported what it offers."""


def findings(
    cluster: CannedCluster, wants: Wants | None = None, ahead: timedelta | None = timedelta()
) -> dict[str, str]:
    """Return state and sentence of each verdict, by its subject."""
    asked = wants or Wants()
    facts = facts_of(cluster, asked.nodes or {}, RIGHTS, asked.objects, asked.ray, asked.serving, asked.node_pools)
    verdicts = findings_of(Probed(facts=facts, wants=asked, clock_ahead=ahead))
    return {verdict.what: f"{verdict.state}: {verdict.said}" for verdict in verdicts}


def wants(tmp_path: Path, cluster: str = "", most: int = 1, **changes: str) -> Wants:
    return wants_of(loaded(onprem(cluster, **changes).replace("max: 4", f"max: {most}"), tmp_path), ())


def lacking(cluster: CannedCluster, wants: Wants | None = None) -> list[str]:
    return [what for what, line in findings(cluster, wants).items() if line.startswith(State.MISSING)]


def test_a_sound_cluster_lacks_nothing(tmp_path: Path) -> None:
    assert lacking(CannedCluster(), wants(tmp_path, BY_ID)) == []


@pytest.mark.parametrize(
    ("what", "answers", "line"),
    [
        ("version", {"/version": {"gitVersion": "v1.29.3"}}, "missing: v1.29.3; upgrade to 1.30 or later"),
        ("version", {"/version": {"gitVersion": "v1.30.0-eks-1"}}, "ok: v1.30.0-eks-1"),
        ("version", {"/version": {"gitVersion": "v1.99.0+k3s1"}}, "note: v1.99.0+k3s1; Ebbtide is tested up to"),
        ("version", {"/version": {}}, "note: the server's version cannot be read"),
        ("budgets", {"/apis": groups("batch/v1")}, "missing: no policy/v1"),
        ("cron", {"/apis": groups("policy/v1")}, "missing: no batch/v1"),
        ("admission", {ADMISSION: {"resources": []}}, "missing: no ValidatingAdmissionPolicy v1"),
        ("storage", {STORAGE: {"items": []}}, "missing: no default class for the volume of Redis, found no class"),
        ("storage", {STORAGE: {"items": [storage_class("slow", default=False)]}}, "found slow; kubectl annotate"),
        ("storage", {STORAGE: {"items": [storage_class("a"), storage_class("b")]}}, "note: several default classes"),
        ("storage", {STORAGE: DENIED}, "note: storage classes cannot be read"),
        ("metrics", {"/apis": groups("policy/v1")}, "note: no metrics.k8s.io"),
        ("cluster", {KUBE_SYSTEM: DENIED}, "note: its id cannot be read"),
        ("autoscaler", {}, "note: none found"),
        ("autoscaler", {AUTOSCALER: {"data": {}}}, "ok: the cluster autoscaler"),
        ("autoscaler", {"/apis": groups("karpenter.sh/v1")}, "ok: Karpenter"),
        ("ebbtide", {}, "ok: not installed yet"),
        ("ebbtide", {DEPLOYMENT: DENIED}, "note: whether it is installed cannot be read"),
        ("ebbtide", {SYSTEM: namespace()}, "missing: namespace ebbtide exists and is not Ebbtide's"),
        ("network", {}, "note: whether NetworkPolicies are enforced cannot be checked"),
    ],
)
def test_each_finding_has_its_remedy(what: str, answers: dict[str, Any], line: str) -> None:
    assert line in findings(CannedCluster(answers))[what]


def test_the_clusters_id_is_printed_to_be_written_down_and_compared(tmp_path: Path) -> None:
    other = CannedCluster({KUBE_SYSTEM: {"metadata": {"uid": "another"}}})

    assert f'write clusterId: "{CLUSTER_ID}"' in findings(CannedCluster())["cluster"]
    assert findings(CannedCluster(), wants(tmp_path, BY_ID))["cluster"] == f"ok: {CLUSTER_ID}"
    assert findings(other, wants(tmp_path, BY_ID))["cluster"].startswith(f"missing: wanted {CLUSTER_ID}, found another")


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ([node(pool="gpu", gpu=2)], "ok: 1 with pool=gpu"),
        ([node(pool="cpu")], "missing: no node with pool=gpu; label nodes so, or change cluster.nodeSelectors.gpu"),
        ([node(pool="gpu")], "missing: train wants 2 nvidia.com/gpu, and no node with pool=gpu offers any"),
        (
            [node(pool="gpu", gpu=1)],
            "missing: train wants 4 CPU, 16Gi, 2 GPU; the largest node with pool=gpu offers 16",
        ),
        ([node(pool="gpu", gpu=2, cpu="3900m")], "the largest node with pool=gpu offers 3.9 CPU, 64Gi, 2 GPU"),
        ([node(pool="gpu", gpu=2, memory="8Gi"), node(pool="gpu", gpu=2)], "ok: 2 with pool=gpu"),
        ([UNREPORTED, node(pool="gpu", gpu=2)], "ok: 2 with pool=gpu"),
        ([UNREPORTED], "missing: train wants 2 nvidia.com/gpu, and no node with pool=gpu offers any"),
    ],
)
def test_a_set_of_nodes_must_have_room_for_its_largest_pod(
    nodes: list[dict[str, Any]], line: str, tmp_path: Path
) -> None:
    cluster = CannedCluster({NODES: {"items": nodes}})

    assert line in findings(cluster, wants(tmp_path, GPU_NODES, train="gpu: 2"))["nodes gpu"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (taint("nvidia.com/gpu", "true"), "ok: 1 with pool=gpu"),
        (taint("spot", effect="PreferNoSchedule"), "ok: 1 with pool=gpu"),
        (
            taint("nvidia.com/gpu", "present"),
            "missing: no node with pool=gpu accepts train: nvidia.com/gpu=pres",
        ),
        (
            taint("dedicated", "ml", "NoExecute"),
            "missing: no node with pool=gpu accepts train: dedicated=ml:No",
        ),
        ({"unschedulable": True}, "missing: no node with pool=gpu accepts train: cordoned"),
    ],
)
def test_a_node_that_lets_no_pod_of_ours_in_does_not_count(spec: dict[str, Any], line: str, tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [node(pool="gpu", gpu=2, spec=spec)]}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, train="gpu: 2"))["nodes gpu"].startswith(line)


def gpu_node(memory: str = "", resource: str = GPU_RESOURCE, **more: Any) -> dict[str, Any]:
    found = node(pool="gpu", **more)
    found["status"]["allocatable"][resource] = "1"
    if memory:
        found["metadata"]["labels"]["nvidia.com/gpu.memory"] = memory
    return found


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ([gpu_node("40960")], "ok: 1 with pool=gpu"),
        (
            [gpu_node()],
            "missing: train wants GPUs of 40Gi, and no node with pool=gpu has the label nvidia.com/gpu.memory; is GPU",
        ),
        (
            [gpu_node("23028"), gpu_node()],
            "missing: train wants GPUs of 40Gi; the largest GPU of nodes with pool=gpu has 23028Mi",
        ),
        ([gpu_node("40960", cpu="1")], "missing: train wants 4 CPU, 16Gi, 1 GPU; the largest node with pool=gpu off"),
        ([gpu_node("40960", cpu="1"), gpu_node("23028")], "missing: train wants 4 CPU, 16Gi, 1 GPU; the largest"),
    ],
)
def test_gpus_must_have_the_memory_that_a_pod_asks_for(nodes: list[dict[str, Any]], line: str, tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": nodes}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, train="gpu: { memory: 40Gi }"))["nodes gpu"].startswith(line)


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ({"kubernetes.io/arch": "arm64"}, "ok: 1 with pool=gpu"),
        ({"kubernetes.io/arch": "amd64"}, "missing: train is for arm64, and nodes with pool=gpu have amd64"),
        ({}, "missing: train is for arm64, and nodes with pool=gpu have no processor in their labels"),
    ],
)
def test_nodes_must_have_the_processor_that_a_pod_is_for(labels: dict[str, str], line: str, tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [node(gpu=1, spec=None, pool="gpu", **labels)]}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, train="gpu: 1, arch: arm64"))["nodes gpu"].startswith(line)


MIG = "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (gpu_node(resource=MIG), "ok: 1 with pool=gpu"),
        (gpu_node(), f"missing: train wants 1 {MIG}, and no node with pool=gpu offers any; is a device plugin there?"),
        (gpu_node(resource=MIG, spec=taint("nvidia.com/gpu", "true")), "ok: 1 with pool=gpu"),
        (gpu_node(resource=MIG, spec=taint(MIG, "any")), "ok: 1 with pool=gpu"),
        (
            gpu_node(resource=MIG, spec=taint("amd.com/gpu")),
            "missing: no node with pool=gpu accepts train: amd.com/gpu",
        ),
    ],
)
def test_other_devices_are_found_by_their_name(found: dict[str, Any], line: str, tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [found]}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, train=f"gpu: {{ resource: {MIG} }}"))["nodes gpu"].startswith(
        line
    )


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", MIG, "amd.com/gpu"])
def test_the_tolerated_taints_are_those_of_the_rendered_pod(resource: str, tmp_path: Path) -> None:
    """With the keys and values that nodes with devices carry, one at a time."""
    rendered = tolerations(Gpu(resource=resource))
    asked = wants(tmp_path, GPU_NODES, train=f"gpu: {{ resource: {resource} }}")
    for key, value in product(("nvidia.com/gpu", MIG, "amd.com/gpu", "dedicated"), ("true", "present", "")):
        bears = any(
            found.get("key") == key and (found.get("operator") == "Exists" or found.get("value") == value)
            for found in rendered
        )
        cluster = CannedCluster({NODES: {"items": [gpu_node(resource=resource, spec=taint(key, value))]}})
        assert findings(cluster, asked)["nodes gpu"].startswith("ok:") is bears, (key, value)


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ([node(gpu=2, pool="gpu")], "note: 1 with pool=gpu, too few for all pods that may run there at once: 4 train"),
        ([node(gpu=2, pool="gpu")] * 3 + [node(gpu=1, pool="gpu")], "note: 4 with pool=gpu, too few"),
        ([node(gpu=4, pool="gpu")] * 2, "ok: 2 with pool=gpu"),
    ],
)
def test_nodes_that_cannot_hold_all_workers_at_once_are_reported(
    nodes: list[dict[str, Any]], line: str, tmp_path: Path
) -> None:
    cluster = CannedCluster({NODES: {"items": nodes}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, most=4, train="gpu: 2"))["nodes gpu"].startswith(line)


@pytest.mark.parametrize(
    ("shape", "differences"),
    [
        ("cpu: 16, memory: 64Gi, gpu: 1, max: 2", ""),
        ("cpu: 16, memory: 63900Mi, gpu: 1, max: 3, min: 1, autoscaled: true", "memory 63900Mi, a node has 64Gi"),
        ("cpu: 16, memory: 64Gi, gpu: 1, max: 3, min: 1, autoscaled: true", ""),
        (
            "cpu: 17, memory: 64Gi, gpu: 2, max: 3",
            "3 nodes, the cluster has 2; cpu 17, a node has 16; gpu 2, a node has 1",
        ),
        ("cpu: 16, memory: 64Gi, gpu: 1, max: 2, maxPods: 250, arch: arm64", "maxPods 250, a node has 110; arch arm64"),
        ("cpu: 16, memory: 64Gi, gpu: 1, max: 9, min: 3, autoscaled: true", "3 to 9 nodes, the cluster has 2"),
    ],
)
def test_a_shape_that_the_nodes_do_not_have_is_reported(shape: str, differences: str, tmp_path: Path) -> None:
    nodes = [node(gpu=1, pool="gpu"), node(gpu=2, cpu="32", pool="gpu")]
    nodes[0]["metadata"]["labels"]["kubernetes.io/arch"] = "amd64"
    described = f"{GPU_NODES}, nodeShapes: {{ gpu: {{ {shape} }} }}"
    finding = findings(CannedCluster({NODES: {"items": nodes}}), wants(tmp_path, described, train="gpu: 1"))

    line = finding.get("node shape gpu", "")
    assert line.startswith(f"note: cluster.nodeShapes.gpu differs: {differences}") if differences else line == ""


@pytest.mark.parametrize(
    ("instance_type", "memory", "differences"),
    [
        ("m7i.2xlarge", "29Gi", ""),  # more memory than is assumed
        ("m7i.2xlarge", "20Gi", "memory 29317Mi of m7i.2xlarge, a node has 20Gi"),
        ("c7i.2xlarge", "29Gi", "types m7i.2xlarge, m7i.4xlarge, a node is c7i.2xlarge"),
    ],
)
def test_nodes_of_karpenter_are_compared_by_their_type_and_never_too_few(
    instance_type: str, memory: str, differences: str, tmp_path: Path
) -> None:
    existing = node(cpu="8", memory=memory, pool="batch")
    existing["metadata"]["labels"]["node.kubernetes.io/instance-type"] = instance_type
    shape = "{ instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 9 }"
    sets = "nodeSelectors: { flexible: { pool: batch } }, nodePools: { flexible: [general] }"
    described = f"{sets}, nodeShapes: {{ flexible: {shape} }}"
    finding = findings(CannedCluster({NODES: {"items": [existing]}}), wants(tmp_path, described))

    line = finding.get("node shape flexible", "")
    assert line == (f"note: cluster.nodeShapes.flexible differs: {differences}" if differences else "")


def test_a_set_on_nodes_of_karpenter_that_the_file_does_not_name_is_reported(tmp_path: Path) -> None:
    existing = node(cpu="8", memory="32Gi", pool="batch")
    existing["metadata"]["labels"]["karpenter.sh/nodepool"] = "general"
    described = (
        "nodeSelectors: { flexible: { pool: batch } }, nodeShapes: { flexible: { cpu: 8, memory: 32Gi, max: 1 } }"
    )
    cluster = CannedCluster({NODES: {"items": [existing]}})

    assert findings(cluster, wants(tmp_path, described))["node shape flexible"] == (
        "note: cluster.nodeShapes.flexible differs: no Karpenter, the nodes are of its NodePool general "
        "(for example cluster.nodePools: { flexible: [general] })"
    )
    named = wants(tmp_path, f"{described}, nodePools: {{ flexible: [general] }}")
    assert "node shape flexible" not in findings(cluster, named)


def test_nodes_that_an_autoscaler_adds_are_never_too_few(tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [node(gpu=2, pool="gpu")]}, AUTOSCALER: {"metadata": {}}})

    assert findings(cluster, wants(tmp_path, GPU_NODES, most=4, train="gpu: 2"))["nodes gpu"] == "ok: 1 with pool=gpu"


def test_on_eks_a_group_that_check_calls_too_small_is_named(tmp_path: Path) -> None:
    small = shortest(more="ebbtide:nodeGroups: { flexible: { max: 2 } }").replace("max: 4,", "max: 400,")

    assert findings(CannedCluster(), wants_of(loaded(small, tmp_path), ()))["nodes"].endswith("at once: flexible")


def test_a_pod_without_gpus_does_not_tolerate_the_taint_of_gpu_nodes(tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [node(spec=taint("nvidia.com/gpu", "true"))]}})

    assert findings(cluster, wants(tmp_path))["nodes flexible"].startswith("missing: no node with any labels accepts")


def test_fixed_nodes_must_let_the_controller_and_redis_in(tmp_path: Path) -> None:
    closed = CannedCluster({NODES: {"items": [node(spec={"unschedulable": True})]}})
    small = CannedCluster({NODES: {"items": [node(memory="1Gi")]}})

    assert "accepts ebbtide-controller: cordoned" in findings(closed, wants(tmp_path))["nodes fixed"]
    assert "missing: ebbtide-redis wants 0 CPU, 2Gi" in findings(small, wants(tmp_path))["nodes fixed"]


def test_what_the_first_nodes_of_many_do_not_offer_is_not_called_missing(tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": [node(pool="gpu")], "metadata": {"continue": "more"}}})

    line = findings(cluster, wants(tmp_path, GPU_NODES, train="gpu: 2"))["nodes gpu"]
    assert line.startswith("note: train wants 2 nvidia.com/gpu")
    assert line.endswith("; only the first 1 were checked")


def test_nodes_that_an_autoscaler_can_make_need_not_be_there_but_fixed_ones_must(tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": []}, AUTOSCALER: {"data": {}}})
    found = findings(cluster, wants(tmp_path, "nodeSelectors: { flexible: { pool: batch } }"))

    assert found["nodes flexible"].startswith("note: no node with pool=batch now; the cluster autoscaler must")
    assert found["nodes fixed"].startswith("missing: no node with any labels")


def test_redis_elsewhere_needs_no_storage(tmp_path: Path) -> None:
    elsewhere = wants(tmp_path, more='ebbtide:redis: { kind: url, url: "rediss://redis.example.com:6379/0" }')

    assert lacking(CannedCluster({STORAGE: {"items": []}}), elsewhere) == []


def test_a_class_that_the_stack_names_must_be_there_and_need_not_be_the_default(tmp_path: Path) -> None:
    named = wants(tmp_path, more="ebbtide:redis: { storageClass: slow }")
    there = CannedCluster({STORAGE: {"items": [storage_class("slow", default=False)]}})

    assert findings(there, named)["storage"] == "ok: class slow"
    assert "missing: no class slow for the volume of Redis, found fast" in findings(CannedCluster(), named)["storage"]


CACHE = """
    ebbtide:redis: { kind: elasticache }
    ebbtide:redisPassword: { secure: AAA }
"""


@pytest.fixture
def pulumi_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Puts a `pulumi` first on PATH that prints a text when it is asked for the password of the stack `acme`."""

    def write_pulumi(text: str, code: int) -> None:
        script = tmp_path / "bin" / "pulumi"
        script.parent.mkdir()
        asked = "config get ebbtide:redisPassword --stack acme --non-interactive"
        script.write_text(f'#!/bin/sh\n[ "$*" = "{asked}" ] || exit 9\necho \'{text}\'\nexit {code}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")

    return write_pulumi


@pytest.mark.process
@pytest.mark.parametrize(
    ("token", "code", "line"),
    [
        ("hunter2", 0, "missing  token       wanted the token of the cache: 16 to 128 letters, digits or"),
        ("hunter2", 0, "found a secret that is too short; pulumi config set --secret ebbtide:redisPassword"),
        ("hunter2 hunter2 hunter2", 0, "found a secret that has other characters"),
        ("hunter2-hunter2-hunter2", 0, "ok       token       one that ElastiCache accepts"),
        ("hunter2", 255, "note     token       pulumi config get cannot read it here; pulumi up checks it"),
    ],
)
def test_the_token_of_a_cache_is_judged_and_never_shown(
    token: str,
    code: int,
    line: str,
    pulumi_says: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pulumi_says(token, code)
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_text(shortest(more=CACHE), encoding="utf-8")

    result, _ = run(monkeypatch, CannedApi(), str(path))

    assert line in result.output
    assert "hunter2" not in result.output
    assert (result.exit_code == 1) is line.startswith(("missing", "found"))


@pytest.mark.process
def test_without_pulumi_nothing_is_known_of_the_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_text(shortest(more=CACHE), encoding="utf-8")

    result, _ = run(monkeypatch, CannedApi(), str(path))

    assert (result.exit_code, "note     token" in result.output) == (0, True)


def test_metrics_are_needed_where_an_autoscaler_of_pods_is(tmp_path: Path) -> None:
    service = '{ category: flexible, image: "a:1", cpu: 1, memory: 1Gi, replicasOwner: hpa }'
    cluster = CannedCluster({"/apis": groups("policy/v1", "batch/v1")})

    assert lacking(cluster, wants(tmp_path, more=f"ebbtide:workloads: {{ api: {service} }}")) == ["metrics"]


def test_an_existing_prometheus_needs_its_operators_kinds_and_nothing_else_does(tmp_path: Path) -> None:
    existing = wants(tmp_path, more="ebbtide:monitoring: { prometheus: existing, namespace: monitoring }")
    none = wants(tmp_path, more="")
    without = CannedCluster({"/apis": groups(*GROUPS)})
    installed = CannedCluster({"/apis": groups(*GROUPS, "monitoring.coreos.com/v1")})

    assert lacking(without, existing) == ["monitoring"]
    assert lacking(without, none) == lacking(installed, existing) == []


def test_rights_that_are_not_there_are_named_and_the_rest_counted() -> None:
    cluster = CannedCluster(denied=(("create", "validatingadmissionpolicies"), ("patch", "roles"), ("get", "secrets")))

    assert findings(cluster)["rights"] == (
        "missing: you may not create validatingadmissionpolicies.admissionregistration.k8s.io; "
        "get secrets in ebbtide; get secrets in ebbtide-workers; and 2 more; "
        "ask an administrator of the cluster (kubectl auth can-i --list)"
    )


@pytest.mark.parametrize(
    ("ahead", "line"),
    [
        (timedelta(seconds=59), "ok: "),
        (timedelta(seconds=-75), "missing: the server's is 75 s behind this machine's"),
        (timedelta(hours=1), "missing: the server's is 3600 s ahead of this machine's"),
        (None, "note: "),
    ],
)
def test_clocks_that_differ_are_reported(ahead: timedelta | None, line: str) -> None:
    assert findings(CannedCluster(), ahead=ahead)["clock"].startswith(line)


def test_another_customers_cluster_is_refused_whatever_shows_it() -> None:
    config = controller_config()  # of acme
    other = Wants(customer="other")
    by_config = CannedCluster({f"{SYSTEM}/configmaps/ebbtide-controller": {"data": {"config.json": dump(config)}}})

    assert findings(CannedCluster({SYSTEM: namespace("acme")}), other)["ebbtide"].startswith(
        "missing: the namespaces belong to acme"
    )
    assert findings(by_config, other)["ebbtide"].startswith("missing: the namespaces belong to acme")


def test_another_release_is_reported_and_no_fault(tmp_path: Path) -> None:
    cluster = CannedCluster({SYSTEM: namespace("acme"), DEPLOYMENT: controller("ebbtide/controller:0.1.0")})

    assert findings(cluster, wants(tmp_path))["ebbtide"].startswith("note: ebbtide/controller:0.1.0 is installed, and")


def test_a_server_in_trouble_is_no_verdict() -> None:
    with pytest.raises(ApiError):
        findings(CannedCluster({STORAGE: 500}))


class CannedApi(CannedCluster):
    source = "kubeconfig canned, context here"
    clock_ahead = timedelta()


def run(monkeypatch: pytest.MonkeyPatch, cluster: CannedApi, *words: str) -> tuple[Result, list[str | None]]:
    contexts: list[str | None] = []

    def connected(_file: str | None, context: str | None) -> CannedApi:
        contexts.append(context)
        return cluster

    monkeypatch.setattr(cluster_options, "connect", connected)
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["probe", *words]), contexts


def test_the_stacks_own_context_is_asked_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack = written(onprem(), tmp_path)

    assert run(monkeypatch, CannedApi(), stack)[1] == ["onprem"]
    assert run(monkeypatch, CannedApi(), stack, "--context", "other")[1] == ["other"]
    assert run(monkeypatch, CannedApi())[1] == [None]


def test_one_line_each_and_the_exit_code_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sound, _ = run(monkeypatch, CannedApi())
    poor, _ = run(monkeypatch, CannedApi({STORAGE: {"items": []}}))

    assert (sound.exit_code, sound.output.splitlines()[-1]) == (0, "nothing is missing")
    assert (poor.exit_code, poor.output.splitlines()[-1]) == (1, "1 missing")
    assert sum(line.startswith("missing") for line in poor.output.splitlines()) == 1


def test_json_holds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = run(monkeypatch, CannedApi({STORAGE: {"items": []}}), "--json")
    document = json.loads(result.output)

    assert result.exit_code == 1
    assert document["source"] == "kubeconfig canned, context here"
    assert [found["what"] for found in document["findings"] if found["state"] == "missing"] == ["storage"]


def test_a_stack_file_with_faults_is_reported_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result, contexts = run(monkeypatch, CannedApi(), written(onprem("version: 3"), tmp_path))

    assert result.exit_code == 1
    assert "ebbtide:cluster.version" in result.output
    assert contexts == []


def test_on_eks_the_nodes_are_the_stacks_own(tmp_path: Path) -> None:
    cluster = CannedCluster({NODES: {"items": []}})

    assert findings(cluster, wants_of(loaded(SHORTEST, tmp_path), ()))["nodes"].startswith("note: created by the stack")
    assert NODES not in cluster.asked
