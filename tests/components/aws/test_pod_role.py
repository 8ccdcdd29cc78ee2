"""A pod's rights on AWS: exact names, for one account in one namespace, created before the pod."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.aws.iam import policy
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.pods.aws import AwsRights
from tests.builders.components import pod_of
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.rights import workload
from tests.builders.settings import loaded
from tests.builders.stack import Recorded, pool_settings, stack_settings

ACCOUNT = "111122223333"  # the recording's
LONGEST = "a" * 40


def rights(**keys: Any) -> AwsRights:
    return AwsRights.model_validate(keys)


def allowed(**keys: Any) -> set[tuple[str, str]]:
    """Actions and resources that the policy allows."""
    statements = policy(rights(**keys), region="eu-central-1", account=ACCOUNT)["Statement"]
    assert all(statement["Effect"] == "Allow" for statement in statements)
    return {(action, on) for statement in statements for action in statement["Action"] for on in statement["Resource"]}


def stack(**aws: Any) -> Recorded:
    pool = pool_settings().model_copy(update={"aws": rights(**aws)})
    return Recorded(record(stack_settings(workloads={"api": workload("flexible", aws=aws)}, workers={"train": pool})))


OBJECTS = "arn:aws:s3:::data/*"
READING = {("s3:ListBucket", "arn:aws:s3:::data"), ("s3:GetObject", OBJECTS)}
WRITING = {(f"s3:{action}", OBJECTS) for action in ("PutObject", "AbortMultipartUpload", "ListMultipartUploadParts")}
FINDING = {("sqs:GetQueueUrl", f"arn:aws:sqs:eu-central-1:{ACCOUNT}:up")}


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("read", READING),
        ("write", WRITING),
        ("read-write", READING | WRITING),
        ("read-write-delete", READING | WRITING | {("s3:DeleteObject", OBJECTS)}),
    ],
)
def test_a_word_for_a_bucket_is_these_actions_and_no_other(access: str, expected: set[tuple[str, str]]) -> None:
    assert allowed(buckets={"data": access}) == expected


def test_a_word_for_a_queue_is_these_actions_and_no_other() -> None:
    def on_queue(*actions: str) -> set[tuple[str, str]]:
        return FINDING | {(f"sqs:{action}", f"arn:aws:sqs:eu-central-1:{ACCOUNT}:up") for action in actions}

    received = ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes")
    assert allowed(queues={"up": "send"}) == on_queue("SendMessage")
    assert allowed(queues={"up": "receive"}) == on_queue(*received)
    assert allowed(queues={"up": "both"}) == on_queue("SendMessage", *received)


def test_one_buckets_rights_are_not_anothers() -> None:
    found = allowed(buckets={"data-in": "read", "data-out": "write"})

    assert {on for action, on in found if action == "s3:GetObject"} == {"arn:aws:s3:::data-in/*"}
    assert {on for action, on in found if action == "s3:PutObject"} == {"arn:aws:s3:::data-out/*"}


def test_a_role_is_for_the_pods_of_one_account_of_one_namespace() -> None:
    found = stack(buckets={"data": "read"})

    for role, account, namespace in (
        ("workload-api-role", "api", "ebbtide"),
        ("worker-train-role", "train", WORKER_NAMESPACE),
    ):
        trust = json.loads(found.named(role, ":Role").inputs["assumeRolePolicy"])["Statement"]
        assert trust[0]["Condition"]["StringEquals"] == {
            "aws:RequestTag/eks-cluster-name": "acme",
            "aws:RequestTag/kubernetes-namespace": namespace,
            "aws:RequestTag/kubernetes-service-account": account,
        }
        given = found.named(f"{role}-identity").inputs
        assert (given["namespace"], given["serviceAccount"]) == (namespace, account)
        assert found.named(f"{account}-account").inputs["metadata"]["namespace"] == namespace


def test_a_pod_with_a_role_has_its_account_and_no_token_of_the_api_server() -> None:
    found = stack(buckets={"data": "read"})

    for name in ("api", "train"):
        pod = pod_of(found.named(f"{name}-deployment"))
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (name, False)


def test_the_role_and_the_account_are_there_before_the_pod() -> None:
    found = stack(buckets={"data": "read"})

    for name, kind in (("api", "workload"), ("train", "worker")):
        role = found.named(f"{kind}-{name}-role", ":PodRole")
        deployment = found.named(f"{name}-deployment")
        assert role.urn in found.urns_before(deployment)
        assert found.named(f"{kind}-{name}-role-identity").parent == role.urn
        assert f"{name}-account" in found.before(deployment)


def test_a_role_that_is_there_is_associated_and_nothing_else_is_made() -> None:
    arn = f"arn:aws:iam::{ACCOUNT}:role/team/api"
    found = stack(role=arn)

    assert found.named("workload-api-role-identity").inputs["roleArn"] == arn
    assert not [r for r in found.of("Role") if r.type.startswith("aws:") and "api-role" in r.name]


def test_the_longest_names_are_short_enough_for_iam() -> None:
    """Pulumi adds a hyphen and seven letters to a generated name, and IAM allows 64."""
    pool = pool_settings().model_copy(update={"aws": rights(policies=["arn:aws:iam::aws:policy/A"])})
    settings = stack_settings(
        workloads={LONGEST: workload("flexible", aws={"buckets": {"data": "read"}})}, workers={LONGEST: pool}
    )
    roles = [r for r in record(settings) if r.type == "aws:iam/role:Role"]

    assert {r.name for r in roles if LONGEST in r.name} == {f"workload-{LONGEST}-role", f"worker-{LONGEST}-role"}
    assert max(len(r.name) for r in roles if LONGEST in r.name) + 8 <= 64


def test_an_account_of_others_is_named_and_decides_about_its_token(tmp_path: Any) -> None:
    found = Recorded(record(loaded(onprem(train="serviceAccount: train"), tmp_path)))
    pod: Mapping[str, Any] = pod_of(found.named("train-deployment"))

    assert pod["serviceAccountName"] == "train"
    assert "automountServiceAccountToken" not in pod
    assert not [r for r in found.of("ServiceAccount") if r.name == "train-account"]
