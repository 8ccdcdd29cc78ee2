"""The stand-in for AWS over its own protocol, without any engine: what it takes, gives back and refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2 as rpc
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub
from pulumi.runtime.rpc import UNKNOWN

from tests.engine.stand_in.__main__ import start
from tests.engine.stand_in.cloud import CLUSTER, NODE_GROUP
from tests.engine.stand_in.sdk import Json

GROUP: Json = {
    "clusterName": "acme",
    "nodeGroupNamePrefix": "flexible-a-",
    "nodeRoleArn": "arn:aws:iam::111122223333:role/node",
    "subnetIds": ["subnet-0a"],
    "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 6},
}
CONTROL_PLANE: Json = {"name": "acme", "roleArn": "arn:aws:iam::111122223333:role/cluster", "vpcConfig": {}}


def struct(values: Json) -> Struct:
    message = Struct()
    message.update(values)
    return message


def urn(type_: str, name: str = "it") -> str:
    return f"urn:pulumi:acme::ebbtide::ebbtide:components:Cluster${type_}::{name}"


class Engine:
    """Asks as the engine does."""

    def __init__(self, stub: ResourceProviderStub) -> None:
        self._stub: Any = stub  # whose answers have no types of their own

    def configure(self, options: Json) -> None:
        self._stub.Configure(rpc.ConfigureRequest(args=struct(options)))

    def check(self, type_: str, inputs: Json) -> tuple[Json, dict[str, str]]:
        """What comes back, and what is wrong by its path."""
        answer: rpc.CheckResponse = self._stub.Check(rpc.CheckRequest(urn=urn(type_), news=struct(inputs)))
        return MessageToDict(answer.inputs), {each.property: each.reason for each in answer.failures}

    def create(self, type_: str, inputs: Json, *, preview: bool = False) -> tuple[str, Json]:
        request = rpc.CreateRequest(urn=urn(type_), properties=struct(inputs), preview=preview)
        answer: rpc.CreateResponse = self._stub.Create(request)
        return answer.id, MessageToDict(answer.properties)

    def update(self, type_: str, id_: str, olds: Json, news: Json) -> Json:
        request = rpc.UpdateRequest(urn=urn(type_), id=id_, olds=struct(olds), news=struct(news))
        answer: rpc.UpdateResponse = self._stub.Update(request)
        return MessageToDict(answer.properties)

    def read(self, type_: str, id_: str) -> Json:
        """Nothing where there is no such thing."""
        answer: rpc.ReadResponse = self._stub.Read(rpc.ReadRequest(urn=urn(type_), id=id_))
        return MessageToDict(answer.properties) if answer.id else {}

    def diff(self, type_: str, olds: Json, news: Json) -> rpc.DiffResponse:
        answer: rpc.DiffResponse = self._stub.Diff(
            rpc.DiffRequest(urn=urn(type_), old_inputs=struct(olds), news=struct(news))
        )
        return answer

    def delete(self, type_: str, id_: str) -> None:
        self._stub.Delete(rpc.DeleteRequest(urn=urn(type_), id=id_))


def engine_of(package: str, folder: Path) -> Iterator[Engine]:
    server, port = start(package, "1.2.3", folder)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Engine(ResourceProviderStub(channel))
    server.stop(grace=1).wait()


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Engine]:
    yield from engine_of("aws", tmp_path)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Engine]:
    yield from engine_of("kubernetes", tmp_path)


def sized(low: int, wanted: int, high: int) -> dict[str, int]:
    return {"minSize": low, "desiredSize": wanted, "maxSize": high}


# --- what it checks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"nodeRole": "x"}, "nodeRole", "no such property in NodeGroupArgs"),
        ({"subnetIds": "subnet-0a"}, "subnetIds", "found 'subnet-0a'"),
        ({"subnetIds": [1]}, "subnetIds[0]", "wanted str"),
        ({"labels": {"a": True}}, "labels.a", "wanted str"),
        ({"forceUpdateVersion": "true"}, "forceUpdateVersion", "wanted bool"),
        ({"diskSize": 1.5}, "diskSize", "wanted int"),
        ({"scalingConfig": sized(0, 0, 6) | {"min": 1}}, "scalingConfig.min", "no such property"),
        ({"scalingConfig": {"minSize": 0, "maxSize": 6}}, "scalingConfig.desiredSize", "is missing"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "taints[0].effect", "NO_SCHEDULE"),
    ],
)
def test_a_wrong_name_kind_or_effect_is_told_with_its_path(aws: Engine, change: Json, path: str, reason: str) -> None:
    _, faults = aws.check(NODE_GROUP, {**GROUP, **change})

    assert list(faults) == [path]
    assert reason in faults[path]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tags": None},  # as the SDK sends what a program leaves out
        {"subnetIds": UNKNOWN},
        {"scalingConfig": {"minSize": UNKNOWN, "desiredSize": 0, "maxSize": 6}},
        {"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]},
    ],
)
def test_right_inputs_and_those_not_known_yet_pass(aws: Engine, change: Json) -> None:
    assert aws.check(NODE_GROUP, {**GROUP, **change})[1] == {}


def test_kubernetes_objects_are_checked_too(kubernetes: Engine) -> None:
    type_ = "kubernetes:policy/v1:PodDisruptionBudget"
    spec: Json = {"maxUnavailable": "10%", "selector": {}}
    _, right = kubernetes.check(type_, {"spec": spec})
    _, wrong = kubernetes.check(type_, {"spec": {**spec, "max_unavailable": 0}})

    assert (right, list(wrong)) == ({}, ["spec.max_unavailable"])


# --- what it gives back -----------------------------------------------------------------------------------------------


def test_what_the_program_said_comes_back_with_what_only_aws_can_say(aws: Engine) -> None:
    id_, made = aws.create(NODE_GROUP, GROUP)

    assert made.items() >= GROUP.items()
    assert made["arn"].startswith("arn:aws:eks:us-east-1:111122223333:nodegroup/")
    assert made["resources"][0]["autoscalingGroups"][0]["name"] == f"eks-{id_}"
    assert aws.read(NODE_GROUP, id_) == made


def test_what_is_nested_in_an_input_is_completed_too(aws: Engine) -> None:
    _, made = aws.create(CLUSTER, {**CONTROL_PLANE, "vpcConfig": {"subnetIds": ["subnet-0a"]}})

    assert made["vpcConfig"]["subnetIds"] == ["subnet-0a"]
    assert made["vpcConfig"]["clusterSecurityGroupId"]


def test_a_preview_knows_nothing_that_only_aws_can_say_and_makes_nothing(aws: Engine, tmp_path: Path) -> None:
    id_, told = aws.create(NODE_GROUP, GROUP, preview=True)

    assert (id_, told["arn"]) == ("", UNKNOWN)
    assert told["resources"][0]["autoscalingGroups"] == [{"name": UNKNOWN}]
    assert told["scalingConfig"] == GROUP["scalingConfig"]
    assert list(tmp_path.iterdir()) == []


def test_what_was_said_once_stays_but_for_a_templates_version(aws: Engine) -> None:
    template = "aws:ec2/launchTemplate:LaunchTemplate"
    id_, made = aws.create(template, {"name": "nodes", "imageId": "ami-1"})

    changed = aws.update(template, id_, made, {"name": "nodes", "imageId": "ami-2"})

    assert changed == {**made, "imageId": "ami-2", "latestVersion": made["latestVersion"] + 1}


def test_names_that_nobody_gave_are_unlike_each_other(aws: Engine) -> None:
    names = {aws.check("aws:iam/role:Role", {"assumeRolePolicy": "{}"})[0]["name"] for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("it-") for name in names)


# --- what makes a new one ---------------------------------------------------------------------------------------------


def test_a_nodes_type_is_replaced_and_its_range_is_not(aws: Engine) -> None:
    larger = aws.diff(NODE_GROUP, GROUP, {**GROUP, "scalingConfig": sized(0, 0, 12)})
    other = aws.diff(NODE_GROUP, GROUP, {**GROUP, "instanceTypes": ["m7i.large"]})

    assert (larger.diffs, larger.replaces) == (["scalingConfig"], [])
    assert (other.diffs, other.replaces) == (["instanceTypes"], ["instanceTypes"])
    assert aws.diff(NODE_GROUP, GROUP, GROUP).changes == rpc.DiffResponse.DIFF_NONE


def test_a_selector_is_replaced_and_a_label_is_not(kubernetes: Engine) -> None:
    def deployment(**selector: str) -> Json:
        return {"metadata": {"name": "api"}, "spec": {"selector": {"matchLabels": selector}, "replicas": 1}}

    type_ = "kubernetes:apps/v1:Deployment"
    before, other = deployment(app="api"), deployment(app="api", category="fixed")
    labelled = {**before, "metadata": {"name": "api", "labels": {"category": "fixed"}}}

    assert list(kubernetes.diff(type_, before, other).replaces) == ["spec"]
    assert list(kubernetes.diff(type_, before, labelled).replaces) == []


# --- what it refuses --------------------------------------------------------------------------------------------------


def test_a_minimum_above_the_desired_size_is_refused_at_an_update(aws: Engine) -> None:
    id_, made = aws.create(NODE_GROUP, GROUP)

    with pytest.raises(grpc.RpcError, match="Minimum capacity 2 can't be greater than desired size 0"):
        aws.update(NODE_GROUP, id_, made, {**GROUP, "scalingConfig": sized(2, 0, 6)})

    assert aws.read(NODE_GROUP, id_) == made


def test_a_cluster_goes_after_its_node_groups_and_not_before(aws: Engine) -> None:
    cluster, _ = aws.create(CLUSTER, CONTROL_PLANE)
    group, _ = aws.create(NODE_GROUP, GROUP)
    aws.create(NODE_GROUP, {**GROUP, "clusterName": "another"})

    with pytest.raises(grpc.RpcError, match="Cluster has nodegroups attached"):
        aws.delete(CLUSTER, cluster)
    aws.delete(NODE_GROUP, group)
    aws.delete(CLUSTER, cluster)

    assert aws.read(CLUSTER, cluster) == {}


def test_a_cluster_under_deletion_protection_stays(aws: Engine) -> None:
    cluster, _ = aws.create(CLUSTER, {**CONTROL_PLANE, "deletionProtection": True})

    with pytest.raises(grpc.RpcError, match="deletion protection"):
        aws.delete(CLUSTER, cluster)

    assert aws.read(CLUSTER, cluster) != {}


def test_an_object_that_exists_is_not_created_again_but_by_a_provider_that_takes_over(kubernetes: Engine) -> None:
    type_, group = "kubernetes:core/v1:Namespace", "kubernetes:keda.sh/v1alpha1:ScaledObject"
    named: Json = {"metadata": {"name": "keda"}}
    for each in (type_, group):
        assert kubernetes.check(each, named)[1] == {}
        kubernetes.create(each, named)
        with pytest.raises(grpc.RpcError, match='"keda" already exists'):
            kubernetes.create(each, named)

    kubernetes.configure({"upsertExistingObjects": "true"})

    assert kubernetes.create(type_, named)[0] == "keda"
