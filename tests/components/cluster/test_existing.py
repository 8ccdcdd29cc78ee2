"""An existing cluster: nothing of AWS, only the expected cluster, and the same objects as on EKS."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pulumi
import pytest

import infra
from components.cluster.existing import ExistingCluster, ExistingClusterArgs, owners_labels, refuse_another_cluster
from components.context import StackContext
from ebbtide.recording.graph import counts_by_type
from ebbtide.recording.output import is_object
from ebbtide.recording.record import record_directory, record_program
from ebbtide.recording.resources import Resource
from tests.builders.existing import CLUSTER_ID, onprem, stack_config, twins
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.builders.stack import Recorded
from tests.paths import ROOT

CONFIG = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": json.dumps({"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}}),
    "ebbtide:workers": json.dumps(stack_config("demo")["ebbtide:workers"]),
}
WAY_IN = ("kubeconfig", "context")
SELECTORS = {"fixed": {"pool": "services"}, "flexible": {"pool": "batch"}, "spot": {"pool": "cheap"}}
MADE_FOR_EKS = ("ClusterAddOns", "Autoscaler", "DevicePlugin", "Cluster", "NodeGroup")


@pytest.fixture(scope="module", params=["demo", "example-berlin"])
def pair(request: pytest.FixtureRequest) -> tuple[Recorded, Recorded]:
    on_eks, there_already = twins(request.param, SELECTORS)
    return Recorded(record(on_eks)), Recorded(record(there_already))


def objects(stack: Recorded) -> dict[str, Resource]:
    """The customer's objects by URN, without those for EKS itself, such as its StorageClass."""
    ours = [r for r in stack.all if is_object(r) and r.inputs["kind"] != "StorageClass"]
    return {r.urn: r for r in ours if not any(f":components:{part}" in r.urn for part in MADE_FOR_EKS)}


def without(keys: set[str], value: object) -> object:
    if isinstance(value, dict):
        inputs = cast("dict[str, object]", value)
        return {key: without(keys, inner) for key, inner in inputs.items() if key not in keys}
    return [without(keys, item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def selectors_in(value: object) -> Iterator[dict[str, str]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            if key == "nodeSelector":
                yield cast("dict[str, str]", inner)
            yield from selectors_in(inner)
    for item in cast("list[object]", value) if isinstance(value, list) else ():
        yield from selectors_in(item)


def test_every_object_is_the_one_of_eks_but_for_its_node_selectors(pair: tuple[Recorded, Recorded]) -> None:
    on_eks, there_already = map(objects, pair)

    assert on_eks.keys() == there_already.keys()
    assert {"Deployment", "CronJob", "PodDisruptionBudget", "Role", "ConfigMap", "ValidatingAdmissionPolicy"} <= {
        str(r.inputs["kind"]) for r in on_eks.values()
    }
    for urn, resource in on_eks.items():
        # A volume's class is one of EBS on EKS; elsewhere it is the cluster's default.
        differ = {"nodeSelector", "storageClassName"} if resource.name == "redis-server" else {"nodeSelector"}
        assert without(differ, there_already[urn].inputs) == without(differ, resource.inputs), urn
        assert there_already[urn].ignore_changes == resource.ignore_changes


def test_pods_select_nodes_in_the_words_of_their_owner(pair: tuple[Recorded, Recorded]) -> None:
    seen = {urn: list(selectors_in(r.inputs)) for urn, r in objects(pair[1]).items()}
    used = [selector for found in seen.values() for selector in found]

    assert {tuple(selector.items()) for selector in used} <= {tuple(labels.items()) for labels in SELECTORS.values()}
    assert {"pool": "services"} in used
    assert {"pool": "batch"} in used or {"pool": "cheap"} in used


def test_without_node_selectors_a_pod_may_go_anywhere(tmp_path: Path) -> None:
    stack = record(loaded(onprem(), tmp_path))

    assert [list(selectors_in(r.inputs)) for r in stack if list(selectors_in(r.inputs))] == []


@pytest.mark.process
def test_nothing_of_aws_is_registered_nor_even_loaded(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_text(onprem(), encoding="utf-8")
    program = (
        "import json, sys\n"
        "from ebbtide.recording.record import record\n"
        "from ebbtide.settings import load_stack\n"
        f"types = sorted({{r.type for r in record(load_stack({str(path)!r}))}})\n"
        "print(json.dumps([types, 'pulumi_aws.provider' in sys.modules]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    types, aws_loaded = json.loads(ran.stdout)

    assert [type_ for type_ in types if "aws" in type_] == []
    assert not aws_loaded


def test_the_provider_finds_the_kubeconfig_of_whoever_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/one:/home/somebody/other")
    provider = Recorded(record(loaded(onprem(), tmp_path))).named("cluster-kubernetes")

    assert provider.inputs["kubeconfig"] == ""
    assert provider.inputs["context"] == "onprem"


def test_the_provider_writes_as_it_does_on_eks(pair: tuple[Recorded, Recorded]) -> None:
    options = [
        {key: value for key, value in stack.named("cluster-kubernetes").inputs.items() if key not in WAY_IN}
        for stack in pair
    ]

    assert options[0] == options[1]
    assert options[0]["enableServerSideApply"] == "true"
    assert options[0]["clusterIdentifier"] in ("demo", "example-berlin")


def test_with_a_cluster_id_every_object_waits_for_the_comparison(tmp_path: Path) -> None:
    stack = Recorded(record(loaded(onprem(f'clusterId: "{CLUSTER_ID}"'), tmp_path)))
    provider = stack.named("cluster-kubernetes")
    identity = stack.named("cluster-identity")

    assert identity.read
    assert identity.urn in provider.depends_on
    assert {r.provider for r in stack.all if is_object(r)} == {provider.urn}
    assert all("cluster-identity" in stack.before(r) for r in stack.all if is_object(r))


def test_what_is_only_looked_at_is_not_counted(tmp_path: Path) -> None:
    with_id = record(loaded(onprem(f'clusterId: "{CLUSTER_ID}"'), tmp_path))

    assert counts_by_type(with_id) == counts_by_type(record(loaded(onprem(), tmp_path)))


def test_another_cluster_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> None:
        args = ExistingClusterArgs(stack=StackContext(customer="acme"), context="onprem", cluster_id=CLUSTER_ID)
        ExistingCluster("cluster", args)

    found = "00000000-0000-4000-8000-000000000000"

    def answered(*_: object) -> dict[str, Any]:
        return {"metadata": {"uid": found}}

    monkeypatch.setattr("ebbtide.recording.record.outputs_of", answered)
    with pytest.raises(pulumi.RunError) as refused:
        record_program(program)

    assert str(refused.value).startswith(
        f"ebbtide:cluster.clusterId: wanted the cluster {CLUSTER_ID}, found {found} behind the context 'onprem'"
    )
    assert "\n" not in str(refused.value)


def test_the_right_cluster_passes() -> None:
    refuse_another_cluster("onprem", expected=CLUSTER_ID, actual=CLUSTER_ID)


@pytest.mark.parametrize(
    ("ours", "labels"),
    [
        ({"ebbtide.dev/node-kind": "fixed"}, {"pool": "services"}),
        ({"ebbtide.dev/node-group": "flexible"}, {"pool": "batch"}),
        ({"ebbtide.dev/node-group": "unnamed"}, {}),
        ({"kubernetes.io/arch": "amd64", "ebbtide.dev/node-kind": "gpu"}, {"kubernetes.io/arch": "amd64"}),
    ],
)
def test_only_ebbtides_own_labels_are_translated(ours: dict[str, str], labels: dict[str, str]) -> None:
    assert owners_labels(ours, SELECTORS) == labels


def test_the_program_runs_as_pulumi_runs_it_and_exports_the_context() -> None:
    cluster = {"kind": "existing", "context": "onprem", "clusterId": CLUSTER_ID}
    config = {**CONFIG, "ebbtide:cluster": json.dumps(cluster)}
    recording = record_directory(Path(infra.__file__).parent, config, stack="acme")

    assert recording.outputs["clusterName"] == "onprem"
    assert {row["owner"] for row in recording.outputs["ownership"]} == {"controller"}


def test_a_faulty_file_is_refused_without_a_traceback() -> None:
    with pytest.raises(pulumi.RunError, match=r"ebbtide:cluster\.context: wanted the context of your kubeconfig"):
        record_directory(Path(infra.__file__).parent, {**CONFIG, "ebbtide:cluster": '{"kind": "existing"}'})
