"""Resources that a destroy refuses or leaves behind, from a recording."""

from dataclasses import replace
from typing import Any

from ebbtide.recording.ownership import LastingRow, lasting_rows
from ebbtide.recording.resources import Resource
from tests.builders.components import demo_stack
from tests.builders.recorded import record
from tests.builders.rights import workload
from tests.builders.stack import stack_settings


def resource(type_: str, name: str, *, protect: bool = False, retain: bool = False, **inputs: Any) -> Resource:
    return Resource(
        urn=name, type=type_, name=name, parent="", custom=True, inputs=inputs, protect=protect, retain_on_delete=retain
    )


def test_every_protected_resource_of_a_stack_is_listed() -> None:
    rows = lasting_rows(demo_stack())
    protected = {row.resource for row in rows if row.what.startswith("protected")}

    assert protected == {r.name for r in demo_stack() if r.protect} >= {"cluster-control-plane", "cluster-secrets"}
    assert LastingRow("cluster-secrets", "is deleted 30 days later") in rows
    assert LastingRow("redis-server", "leaves the volumes of claim data-ebbtide-redis-0") in rows


def test_the_log_group_that_eks_writes_again_is_listed_with_the_way_to_delete_it() -> None:
    (row,) = [row for row in lasting_rows(demo_stack()) if row.resource == "cluster-logs"]

    command = "aws logs delete-log-group --region us-east-1 --log-group-name /aws/eks/demo/cluster"
    assert row.what == f"may be made again by EKS: {command}"


def test_the_log_group_of_flow_logs_does_not_come_back() -> None:
    (group,) = [it for it in demo_stack() if it.name == "cluster-logs"]

    assert lasting_rows([replace(group, inputs={"name": "/aws/vpc/demo/flow-logs"})]) == []


def test_the_class_says_what_becomes_of_a_volume_once_the_namespace_takes_its_claim() -> None:
    classes = [_class("kept", "Retain"), _class("gone", "Delete")]
    sets = [_set(name, class_=name) for name in ("kept", "gone", "theirs")]

    kept, gone, theirs = (row.what for row in sorted(lasting_rows([*classes, *sets]), key=_order))

    assert kept == "leaves the volumes of claim data-kept-0"
    assert gone.startswith("leaves claim data-gone-0; ")
    assert gone.endswith("with it claims and volumes")
    assert "class theirs decides if volumes stay" in theirs


def test_all_claims_of_a_set_are_named_and_the_default_class_counts_where_none_is_given() -> None:
    three = _set("db", class_=None, replicas=3)

    assert "leaves claims data-db-0 to data-db-2; " in lasting_rows([three])[0].what
    assert "the cluster's default class decides if volumes stay" in lasting_rows([three])[0].what
    ours = _class("gp3", "Delete", **{"storageclass.kubernetes.io/is-default-class": "true"})
    assert lasting_rows([ours, three])[0].what.endswith("with it claims and volumes")


def test_a_last_snapshot_and_what_is_only_forgotten_are_listed() -> None:
    cache = resource("aws:elasticache/replicationGroup:ReplicationGroup", "cache", finalSnapshotIdentifier="cache-last")
    data = resource("aws:s3/bucket:Bucket", "data", retain=True)

    assert [row.what for row in lasting_rows([cache, data])] == [
        "leaves a last snapshot",
        "stays, and Pulumi forgets it",
    ]


def test_snapshots_outlive_their_policy_and_are_found_by_the_tag_of_their_disks() -> None:
    settings = stack_settings(
        workloads={
            "db": workload(
                kind="stateful-set",
                replicas=2,
                volumes={
                    "data": {"perPod": "1Gi", "at": "/data", "snapshots": {"every": "24h", "keep": 7}},
                    "log": {"perPod": "1Gi", "at": "/log", "class": "gp3"},
                },
            )
        }
    )
    rows = lasting_rows(record(settings))

    command = "aws ec2 describe-snapshots --region us-east-1 --owner-ids self"
    found = f"{command} --filters Name=tag:ebbtide.dev/volume,Values=acme.db.data"
    assert LastingRow("snapshots-db.data", f"leaves its snapshots, which are then no longer deleted: {found}") in rows
    assert [row.what.partition(";")[0] for row in rows if row.resource == "db-stateful-set"] == [
        "leaves the volumes of claims data-db-0 to data-db-1",
        "leaves claims log-db-0 to log-db-1",
    ]


def test_what_leaves_nothing_is_not_listed() -> None:
    assert lasting_rows([resource("aws:ec2/vpc:Vpc", "vpc"), resource("kubernetes:core/v1:Secret", "secret")]) == []


def _order(row: LastingRow) -> int:
    return ["kept", "gone", "theirs"].index(row.resource)


def _class(name: str, policy: str, **annotations: str) -> Resource:
    metadata = {"name": name, "annotations": annotations}
    return resource("kubernetes:storage.k8s.io/v1:StorageClass", name, reclaimPolicy=policy, metadata=metadata)


def _set(name: str, *, class_: str | None, replicas: int = 1) -> Resource:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": class_} if class_ else {}}
    spec = {"replicas": replicas, "volumeClaimTemplates": [claim]}
    return resource("kubernetes:apps/v1:StatefulSet", name, metadata={"name": name}, spec=spec)
