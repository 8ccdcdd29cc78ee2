"""Node groups: one shape told to EKS, to the nodes and to the autoscaler; sizes split over the zones."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.node_group import NodeGroup, NodeGroupArgs
from components.node_shape import (
    TEMPLATE,
    NodeRange,
    NodeShape,
    Taint,
    ami_type,
    name_prefix,
    node_shape,
    ranges,
    split,
)
from components.ownership import FieldOwner, OwnershipTable
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.vocabulary.labels import NodeKind
from tests.builders_stack import Recorded, group_settings, run, text

KEYS = st.from_regex(r"[a-z]{1,8}\.dev/[a-z]{1,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
SHAPES = st.builds(
    NodeShape,
    labels=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4),
    taints=st.lists(
        st.builds(Taint, key=KEYS, value=VALUES, effect=st.sampled_from(sorted(EFFECTS))),
        max_size=3,
        unique_by=lambda taint: taint.key,
    ).map(tuple),
    gpus=st.integers(0, 8),
    options=st.dictionaries(st.sampled_from(["scaledownunneededtime", "ignoredaemonsetsutilization"]), VALUES),
)
ZONES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)


def node_group(
    shape: NodeShape | None = None,
    kind: NodeKind = NodeKind.FLEXIBLE,
    size: NodeRange = NodeRange(0, 3),  # noqa: B008 - frozen
    table: OwnershipTable | None = None,
) -> Recorded:
    settings = group_settings(kind)
    args = NodeGroupArgs(
        group=kind.value,
        kind=kind,
        zone="a",
        cluster_name="acme",
        node_role_arn="arn:aws:iam::111122223333:role/node",
        subnet_id="subnet-1",
        version="1.35",
        instance_types=settings.instance_types,
        ami_type=ami_type(settings),
        size=size,
        shape=shape or node_shape(kind.value, settings),
        tags={"team": "ml", "plan": "none"},
        node_tags={"team": "ml"},
        ownership=table,
    )
    return run(lambda: NodeGroup("flexible-a", replace(args, cluster_name=text("acme"))))


def nodes_of(seen: Recorded) -> dict[str, Any]:
    return dict(seen.named("flexible-a-nodes").inputs)


def as_the_autoscaler_reads(tags: dict[str, str]) -> NodeShape:
    """The autoscaler's side of the tags, written from its documentation."""

    def under(part: str) -> dict[str, str]:
        start = f"{TEMPLATE}/{part}/"
        return {key.removeprefix(start): value for key, value in tags.items() if key.startswith(start)}

    names = {kubernetes: eks for eks, kubernetes in EFFECTS.items()}
    taints = {key: value.split(":") for key, value in under("taint").items()}
    return NodeShape(
        labels=under("label"),
        taints=tuple(Taint(key=key, value=value, effect=names[effect]) for key, (value, effect) in taints.items()),
        gpus=int(under("resources").get("nvidia.com/gpu", "0")),
        options=under("autoscaling-options"),
    )


@given(shape=SHAPES)
def test_the_autoscaler_reads_from_the_tags_what_the_nodes_will_be(shape: NodeShape) -> None:
    assert as_the_autoscaler_reads(shape.autoscaling_tags()) == shape


@pytest.mark.parametrize("kind", list(NodeKind))
def test_labels_taints_and_tags_of_the_registered_group_agree(kind: NodeKind) -> None:
    seen = node_group(kind=kind)
    group = nodes_of(seen)
    tags = {tag.inputs["tag"]["key"]: tag.inputs["tag"]["value"] for tag in seen.of("Tag")}
    read = as_the_autoscaler_reads(tags)

    assert read.labels == group["labels"]
    assert [{"key": t.key, "value": t.value, "effect": t.effect} for t in read.taints] == group["taints"]
    assert read.gpus == instance_type(group["instanceTypes"][0]).gpu
    assert all(tag.inputs["autoscalingGroupName"] == "eks-flexible-a-nodes" for tag in seen.of("Tag"))


def test_gpu_nodes_are_tainted_and_known_as_such_before_they_exist() -> None:
    shape = node_shape("gpu", group_settings(NodeKind.GPU))

    assert shape.taints == (Taint(key="nvidia.com/gpu", value="true", effect="NO_SCHEDULE"),)
    assert shape.labels["k8s.amazonaws.com/accelerator"] == "nvidia-a10g"
    assert shape.autoscaling_tags()[f"{TEMPLATE}/taint/nvidia.com/gpu"] == "true:NoSchedule"
    assert shape.autoscaling_tags()[f"{TEMPLATE}/resources/nvidia.com/gpu"] == "1"


@given(total=st.integers(0, 500), zones=ZONES)
def test_a_split_is_whole_and_even(total: int, zones: list[str]) -> None:
    shares = split(total, zones)

    assert list(shares) == zones
    assert sum(shares.values()) == total
    assert max(shares.values()) - min(shares.values()) <= 1


@given(least=st.integers(0, 50), extra=st.integers(0, 50), zones=ZONES)
def test_every_zone_has_room_for_its_minimum(least: int, extra: int, zones: list[str]) -> None:
    most = max(least + extra, len(zones))
    sizes = ranges(group_settings(min=least, max=most), zones)

    assert all(size.min <= size.max and size.max >= 1 for size in sizes.values())


def test_the_desired_size_starts_at_the_minimum_and_is_then_the_autoscalers() -> None:
    table = OwnershipTable()
    seen = node_group(size=NodeRange(2, 5), table=table)
    group = seen.named("flexible-a-nodes")
    (row,) = table.rows

    assert group.inputs["scalingConfig"] == {"minSize": 2, "maxSize": 5, "desiredSize": 2}
    assert group.ignore_changes == ("scalingConfig.desiredSize",)
    assert (row.name, row.owner, row.initial) == ("flexible-a-nodes", FieldOwner.CLUSTER_AUTOSCALER, 2)


def test_the_cost_tags_reach_instances_volumes_and_interfaces() -> None:
    template = node_group().named("flexible-a-template").inputs

    tagged = {part["resourceType"]: part["tags"]["team"] for part in template["tagSpecifications"]}
    assert tagged == {"instance": "ml", "volume": "ml", "network-interface": "ml"}


def test_nodes_keep_their_role_and_their_disks_to_themselves() -> None:
    template = node_group().named("flexible-a-template").inputs
    (disk,) = template["blockDeviceMappings"]

    assert template["metadataOptions"]["httpTokens"] == "required"
    assert template["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert disk["ebs"]["encrypted"] == "true"
    assert disk["ebs"]["volumeType"] == "gp3"


def test_only_spot_groups_buy_spot() -> None:
    bought = {kind: nodes_of(node_group(kind=kind))["capacityType"] for kind in NodeKind}

    assert [kind for kind, capacity in bought.items() if capacity == "SPOT"] == [NodeKind.SPOT]


@pytest.mark.parametrize(
    ("type_", "image"),
    [
        ("m7i.4xlarge", "AL2023_x86_64_STANDARD"),
        ("m7g.4xlarge", "AL2023_ARM_64_STANDARD"),
        ("g5.2xlarge", "AL2023_x86_64_NVIDIA"),
    ],
)
def test_the_image_follows_from_the_instance_type(type_: str, image: str) -> None:
    assert ami_type(group_settings(instance_types=(type_,))) == image


def test_every_known_instance_type_makes_labels_that_kubernetes_takes() -> None:
    for name in instance_type_names():
        shape = node_shape("group", group_settings(instance_types=(name,)))
        assert all(value.replace("-", "").isalnum() and len(value) < 64 for value in shape.labels.values())


@pytest.mark.parametrize(
    ("name", "kind", "prefix"),
    [
        ("gpu", NodeKind.GPU, "gpu-a-"),
        ("wide", NodeKind.GPU, "gpu-wide-a-"),
        ("x" * 60, NodeKind.GPU, "gpu-" + "x" * 30 + "-a-"),
    ],
)
def test_a_groups_name_says_its_kind_and_zone_and_leaves_room_for_ekss_suffix(
    name: str, kind: NodeKind, prefix: str
) -> None:
    assert name_prefix(name, kind, "a") == prefix
    assert len(prefix) <= 37
