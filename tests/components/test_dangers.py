"""The demo customer with one key changed: what a reviewer is told, and what is said of what it touches."""

from dataclasses import replace
from functools import cache

import pytest

from ebbtide.preview.changes import changes_between
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import ChangeKind, FieldChange, ResourceChange, Severity
from ebbtide.preview.replacing import forcing_paths
from ebbtide.preview.sides import Side
from ebbtide.settings.cluster import ClusterKind, ClusterSettings
from tests.builders_sides import Change, dangers, demo, demo_now, edited, put, said, whole, with_input, without
from tests.builders_stack import stack_settings

ID = "3f1c2a9e-6b0d-4c57-9f5e-0a4d8c7b6e21"
BLOCKING, WARNING, NOTE = Severity.BLOCKING, Severity.WARNING, Severity.NOTE


def existing(context: str, cluster_id: str | None = None) -> Side:
    """A customer on a cluster of their own; what is rendered for it is not asked here."""
    cluster = ClusterSettings(kind=ClusterKind.EXISTING, context=context, cluster_id=cluster_id)
    return Side(stack="acme", settings=stack_settings(cluster=cluster), resources=())


def test_a_stack_that_stays_as_it_is_has_no_dangers() -> None:
    assert dangers(demo_now(), demo_now()) == ()
    assert dangers(None, demo_now()) == ()


def test_another_instance_type_replaces_its_group_in_all_zones_and_names_what_runs_there() -> None:
    (danger,) = dangers(demo_now(), demo(put("nodeGroups", "flexible", instanceTypes=["m7i.8xlarge"])))

    assert (danger.severity, danger.what) == (WARNING, "replaces node group flexible: instanceTypes changes")
    who, protection = "7 services, 1 pool (49 pods at most)", "1 closed budget, 7 budgets that open at night"
    assert danger.blast == f"up to 40 nodes; {who}; {protection}"
    assert "closed budgets or not" in danger.fix


def test_other_sizes_of_groups_say_how_to_apply_them() -> None:
    sizes = put("nodeGroups", "fixed", min=4), put("nodeGroups", "flexible", max=60), put("nodeGroups", "gpu", max=12)
    fixed, flexible, gpu = dangers(demo_now(), demo(*sizes))

    assert [danger.what.rsplit(": ", 1) for danger in (fixed, flexible, gpu)] == [
        ["changes the size of node group fixed", "min 2 → 4"],
        ["changes the size of node group flexible", "max 40 → 60"],
        ["changes the size of node group gpu", "max 24 → 12"],
    ]
    assert all("up --refresh" in danger.fix for danger in (fixed, flexible, gpu))
    assert ["two steps" in danger.fix for danger in (fixed, flexible, gpu)] == [True, False, False]
    assert ["wait until they have left" in danger.fix for danger in (fixed, flexible, gpu)] == [False, False, True]


def test_another_name_stops_at_the_protected_cluster_and_nothing_else_is_told() -> None:
    (danger,) = dangers(demo_now(), edited(demo_now(), with_input("cluster-control-plane", "name", "other")))

    assert danger.severity is BLOCKING
    assert danger.what.startswith("replaces Cluster cluster-control-plane: name changes")
    assert danger.what.endswith("it is protected, so up stops there")
    assert danger.blast.startswith("everything: up to 80 nodes; ")


def test_another_region_is_another_stack() -> None:
    settings = demo_now().settings
    assert settings is not None
    (danger,) = dangers(demo_now(), replace(demo_now(), settings=settings.model_copy(update={"region": "us-west-2"})))

    assert said([danger]) == [
        (BLOCKING, "moves the stack from us-east-1 to us-west-2: everything is built anew there"),
    ]


def test_kubernetes_goes_up_by_one_and_never_back() -> None:
    older = demo(whole("cluster", version="1.34"))

    (up,) = dangers(older, demo_now())
    (back,) = dangers(demo_now(), older)

    assert up.severity is WARNING
    assert (back.severity, back.what) == (BLOCKING, "changes Kubernetes 1.35 → 1.34: EKS never goes back")


def test_two_versions_at_once_are_refused_and_nodes_are_never_newer_than_the_cluster() -> None:
    oldest = edited(demo_now(), with_input("cluster-control-plane", "version", "1.33"))

    assert said(dangers(oldest, demo_now())) == [
        (BLOCKING, "changes Kubernetes 1.33 → 1.35: EKS goes up by one minor version at a time")
    ]
    (newer,) = dangers(None, oldest)
    assert newer.severity is BLOCKING
    assert newer.what.endswith(" and 2 more would run version 1.35 under a control plane of 1.33")


@cache
def everyday() -> Side:
    """Changes that do not touch one another, in one recording."""
    image = "registry.example.com/ml/new:1"
    return demo(
        put("workloads", "ray-head", category="flexible"),
        put("workloads", "metrics", image=image),
        put("workloads", "api", image=image),
        put("workers", "prep", longestJob="2h"),
        whole("businessHours", week={"mon-thu": "08:00-19:00", "fri": "10:00-15:00"}),
    )


def test_of_changes_of_every_day_those_that_interrupt_somebody_are_told() -> None:
    moved, restarted, jobs, hours = dangers(demo_now(), everyday())

    assert moved.what.startswith("moves ray-head from fixed to flexible nodes")
    assert moved.blast == "1 service (1 pod at most); 1 closed budget"
    assert said([restarted, jobs, hours]) == [
        (WARNING, "restarts metrics (fixed): spec.containers[0].image changes"),
        (WARNING, "pool prep is told that no job takes longer than 2h; it was 168h"),
        (NOTE, "4 hours a week are business hours no more"),
    ]


def test_longer_jobs_and_longer_hours_are_no_danger_and_a_service_becomes_fixed_by_day() -> None:
    moved, restarted = dangers(everyday(), demo_now())

    assert moved.what.startswith("moves ray-head from flexible to fixed nodes")
    assert "business hours" in moved.fix
    assert restarted.what.startswith("restarts metrics")


def test_a_pool_that_goes_takes_its_workers_along_and_a_fixed_service_of_another_kind_loses_its_state() -> None:
    fewer = demo(without("workers", "prep"), put("workloads", "experiment-db", kind=None))

    database, pool = dangers(demo_now(), fewer)

    assert said([database, pool]) == [
        (BLOCKING, "deletes StatefulSet experiment-db-stateful-set; a Deployment takes its place"),
        (WARNING, "deletes Deployment prep-deployment"),
    ]
    assert pool.blast == "1 pool (30 pods at most); 1 closed budget"
    assert [danger.what for danger in dangers(fewer, demo_now()) if "prep" in danger.what] == []


def test_protection_that_is_taken_away_is_told() -> None:
    bare = edited(demo_now(), lambda resource: replace(resource, protect=False))

    assert said(dangers(demo_now(), bare)) == [
        (WARNING, "takes the protection of network-vpc, cluster-secrets, cluster-control-plane away")
    ]
    assert dangers(bare, demo_now()) == ()


def test_other_tags_of_nodes_replace_them_and_say_so_once() -> None:
    tagged = edited(
        demo_now(),
        lambda one: with_input(one.name, "tagSpecifications", [])(one) if one.name.endswith("-template") else one,
    )

    (danger,) = dangers(demo_now(), tagged)

    assert danger.what == "replaces the nodes of fixed, flexible, gpu, gpu-large: the launch template changes"


REDIS: Change = lambda config: config.update(  # noqa: E731 - one change of many
    {"ebbtide:redis": {"kind": "elasticache"}, "ebbtide:redisPassword": "x" * 16}
)


def test_another_redis_leaves_the_waiting_jobs_behind() -> None:
    elsewhere = demo(REDIS)

    assert [danger.blast for danger in dangers(demo_now(), elsewhere) if "redis-server" in danger.what] == [
        "all waiting jobs, and the record of running ones"
    ]


@pytest.mark.parametrize(("name", "severity"), [("prep-budget", BLOCKING), ("autoscaler-role", NOTE)])
def test_what_is_left_out_of_the_program_is_told_by_its_weight(name: str, severity: Severity) -> None:
    without_it = edited(demo_now(), lambda resource: None if resource.name == name else resource)

    (danger,) = dangers(demo_now(), without_it)

    assert danger.severity is severity
    assert name in danger.what


def test_a_file_that_goes_leaves_everything_standing() -> None:
    (danger,) = dangers(demo_now(), None)

    assert danger.what == "the file of stack demo goes, and what it built stays"
    assert danger.blast.startswith("everything: up to 80 nodes")


def test_another_context_may_be_another_cluster_unless_its_id_says_that_it_is_the_same() -> None:
    (danger,) = dangers(existing("onprem"), existing("other"))

    assert danger.what == "goes to the cluster behind context other, no more to that behind onprem"
    assert dangers(existing("onprem", ID), existing("other", ID)) == ()


def by_the_engine(kind: ChangeKind, type_: str, name: str, *fields: FieldChange, lost: bool = False) -> ResourceChange:
    """A change of a plan: `lost` is what the state has, and no file."""
    known = [resource.urn for resource in demo_now().resources if resource.name == name and resource.custom]
    urn = f"urn:pulumi:demo::ebbtide::aws:any:{type_}::{name}" if lost else known[0]
    component, why = name.removesuffix("-nodes"), ("amiType",)
    return ResourceChange(kind=kind, type=type_, name=name, component=component, urn=urn, fields=fields, reasons=why)


def test_what_only_the_engine_knows_is_told_too() -> None:
    size = FieldChange(path="scalingConfig.minSize", before="1", after="2")
    plan = [
        by_the_engine(ChangeKind.REPLACE, "NodeGroup", "gpu-a-nodes"),
        by_the_engine(ChangeKind.DELETE, "NodeGroup", "old-nodes", lost=True),
        by_the_engine(ChangeKind.DELETE, "Deployment", "old-api", lost=True),
        by_the_engine(ChangeKind.UPDATE, "NodeGroup", "fixed-a-nodes", size),
    ]

    found = {danger.what: danger.blast for danger in dangers_of(None, demo_now(), plan)}

    assert list(found) == [
        "deletes Deployment old-api: amiType changes",
        "replaces node group gpu (gpu-a): amiType changes",
        "deletes node group old-nodes: amiType changes",
        "changes the size of node group fixed: fixed-a-nodes minSize 1 → 2",
    ]
    assert found["deletes Deployment old-api: amiType changes"] == "pods that neither file has"


@pytest.mark.parametrize(
    ("name", "type_"),
    {
        "cluster-control-plane": "aws:eks/cluster:Cluster",
        "flexible-a-nodes": "aws:eks/nodeGroup:NodeGroup",
        "network-vpc": "aws:ec2/vpc:Vpc",
        "network-private-a": "aws:ec2/subnet:Subnet",
        "metrics-stateful-set": "kubernetes:apps/v1:StatefulSet",
        "api-deployment": "kubernetes:apps/v1:Deployment",
    }.items(),
)
def test_every_field_that_forces_a_replacement_is_told_unless_it_is_ignored(name: str, type_: str) -> None:
    (resource,) = [one for one in demo_now().resources if (one.name, one.type) == (name, type_)]

    for path in forcing_paths(type_):
        found = dangers(demo_now(), edited(demo_now(), with_input(name, path, "other")))
        told = [danger.what for danger in found if danger.what.startswith("replaces")]
        assert bool(told) is (path not in resource.ignore_changes), path


@pytest.mark.parametrize("path", ["tags.team", "metadata.labels.team", "metadata.annotations.team"])
def test_a_label_or_a_tag_more_blocks_nothing(path: str) -> None:
    part = path.split(".")[0]
    more = edited(
        demo_now(), lambda one: with_input(one.name, path, "ml")(one) if part in one.inputs and one.custom else one
    )

    assert [danger.what for danger in dangers(demo_now(), more) if danger.severity is BLOCKING] == []
    assert len(changes_between(demo_now().resources, more.resources)) > 30
