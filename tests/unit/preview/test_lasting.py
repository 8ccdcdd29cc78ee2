"""What a destroy refuses and what it leaves, as a recording shows it."""

from dataclasses import replace
from typing import Any

from ebbtide.preview.lasting import LastingRow, lasting_rows
from ebbtide.preview.resources import Resource
from tests.builders_components import demo_stack


def resource(type_: str, name: str, *, protect: bool = False, retain: bool = False, **inputs: Any) -> Resource:
    return Resource(
        urn=name, type=type_, name=name, parent="", custom=True, inputs=inputs, protect=protect, retain_on_delete=retain
    )


def test_every_protected_resource_of_a_stack_is_listed() -> None:
    rows = lasting_rows(demo_stack())
    protected = {row.resource for row in rows if row.what.startswith("protected")}

    assert protected == {r.name for r in demo_stack() if r.protect} >= {"cluster-control-plane", "cluster-secrets"}
    assert LastingRow("cluster-secrets", "is deleted 30 days later") in rows
    assert LastingRow("redis-server", "leaves its volumes") in rows


def test_the_log_group_that_eks_writes_again_is_listed_with_the_way_to_delete_it() -> None:
    (row,) = [row for row in lasting_rows(demo_stack()) if row.resource == "cluster-logs"]

    command = "aws logs delete-log-group --region us-east-1 --log-group-name /aws/eks/demo/cluster"
    assert row.what == f"may be made again by EKS: {command}"


def test_the_log_group_of_flow_logs_does_not_come_back() -> None:
    (group,) = [it for it in demo_stack() if it.name == "cluster-logs"]

    assert lasting_rows([replace(group, inputs={"name": "/aws/vpc/demo/flow-logs"})]) == []


def test_a_volume_of_another_class_goes_with_its_claim() -> None:
    kept = resource("kubernetes:storage.k8s.io/v1:StorageClass", "kept", reclaimPolicy="Retain", metadata={"name": "a"})
    claims = [resource("kubernetes:apps/v1:StatefulSet", name, spec=_claim(name)) for name in ("a", "b")]

    assert lasting_rows([kept, *claims]) == [LastingRow("a", "leaves its volumes")]


def test_a_last_snapshot_and_what_is_only_forgotten_are_listed() -> None:
    cache = resource("aws:elasticache/replicationGroup:ReplicationGroup", "cache", finalSnapshotIdentifier="cache-last")
    data = resource("aws:s3/bucket:Bucket", "data", retain=True)

    assert [row.what for row in lasting_rows([cache, data])] == [
        "leaves a last snapshot",
        "stays, and Pulumi forgets it",
    ]


def test_what_leaves_nothing_is_not_listed() -> None:
    assert lasting_rows([resource("aws:ec2/vpc:Vpc", "vpc"), resource("kubernetes:core/v1:Secret", "secret")]) == []


def _claim(class_: str) -> dict[str, Any]:
    return {"volumeClaimTemplates": [{"spec": {"storageClassName": class_}}]}
