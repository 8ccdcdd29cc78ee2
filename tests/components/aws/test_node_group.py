"""Node groups: one shape for EKS, the nodes and the autoscaler; sizes split over the zones."""

from base64 import b64decode
from dataclasses import replace
from email import message_from_string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from components.aws.node_group import NodeGroup, NodeGroupArgs
from components.aws.node_shape import NodeRange, NodeTemplate, ami_type, name_prefix, node_shape, ranges, split
from components.context import StackContext
from components.ownership import FieldOwner, OwnershipTable
from ebbtide.kube.taints import Taint
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.provisioning_labels import NodeKind
from tests.builders.autoscaler import read_from_tags
from tests.builders.stack import Recorded, group_settings, run, text

KEYS = st.from_regex(r"[a-z]{1,8}\.dev/[a-z]{1,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
SHAPES = st.builds(
    NodeTemplate,
    labels=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4),
    taints=st.lists(
        st.builds(Taint, key=KEYS, value=VALUES, effect=st.sampled_from(sorted(EFFECTS.values()))),
        max_size=3,
        unique_by=lambda taint: taint.key,
    ).map(tuple),
    gpus=st.integers(0, 8),
    max_pods=st.sampled_from([110, 250]),
    disk_gib=st.integers(20, 16_384),
    options=st.dictionaries(st.sampled_from(["scaledownunneededtime", "ignoredaemonsetsutilization"]), VALUES),
)
ZONES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)


def node_group(
    shape: NodeTemplate | None = None,
    kind: NodeKind = NodeKind.FLEXIBLE,
    size: NodeRange = NodeRange(0, 3),  # noqa: B008 - frozen
    table: OwnershipTable | None = None,
) -> Recorded:
    settings = group_settings(kind)
    args = NodeGroupArgs(
        stack=StackContext(customer="acme", ownership=table),
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
    )
    return run(lambda: NodeGroup("flexible-a", replace(args, cluster_name=text("acme"))))


def nodes_of(seen: Recorded) -> dict[str, Any]:
    return dict(seen.named("flexible-a-nodes").inputs)


@given(shape=SHAPES)
def test_the_autoscaler_reads_from_the_tags_what_the_nodes_will_be(shape: NodeTemplate) -> None:
    read = read_from_tags(shape.autoscaling_tags())

    assert read.labels == shape.labels
    assert read.taints == {(taint.key, taint.value, taint.effect) for taint in shape.taints}
    assert read.resources.get("nvidia.com/gpu", "0") == str(shape.gpus)
    assert read.resources["pods"] == str(shape.max_pods)
    assert read.options == shape.options


@pytest.mark.parametrize("kind", list(NodeKind))
def test_labels_taints_and_tags_of_the_registered_group_agree(kind: NodeKind) -> None:
    seen = node_group(kind=kind)
    group = nodes_of(seen)
    read = read_from_tags({tag.inputs["tag"]["key"]: tag.inputs["tag"]["value"] for tag in seen.of("Tag")})

    assert read.labels == group["labels"]
    assert read.taints == {(t["key"], t["value"], EFFECTS[t["effect"]]) for t in group["taints"]}
    assert read.resources.get("nvidia.com/gpu", "0") == str(instance_type(group["instanceTypes"][0]).gpu)
    assert all(tag.inputs["autoscalingGroupName"] == "eks-flexible-a-nodes" for tag in seen.of("Tag"))


def test_gpu_nodes_are_tainted_and_known_as_such_before_they_exist() -> None:
    shape = node_shape("gpu", group_settings(NodeKind.GPU))
    read = read_from_tags(shape.autoscaling_tags())

    assert shape.taints == (Taint("nvidia.com/gpu", "true", "NoSchedule"),)
    assert shape.labels["k8s.amazonaws.com/accelerator"] == "nvidia-a10g"
    assert read.taints == {("nvidia.com/gpu", "true", "NoSchedule")}
    assert read.resources["nvidia.com/gpu"] == "1"


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


def test_nodes_keep_their_role_and_their_disks_to_themselves() -> None:
    template = node_group().named("flexible-a-template").inputs
    (disk,) = template["blockDeviceMappings"]

    assert template["metadataOptions"]["httpTokens"] == "required"
    assert template["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert disk["ebs"]["encrypted"] == "true"
    assert disk["ebs"]["volumeType"] == "gp3"


def told_to_nodes(seen: Recorded) -> dict[str, Any]:
    """The one part of the user data, which nodeadm reads."""
    message = message_from_string(b64decode(seen.named("flexible-a-template").inputs["userData"]).decode())
    whole, part = message.walk()
    assert (whole.get_content_type(), part.get_content_type()) == ("multipart/mixed", "application/node.eks.aws")
    return yaml.safe_load(str(part.get_payload()))


@pytest.mark.parametrize(
    ("types", "pods"), [(("m7i.2xlarge",), 110), (("m7i.8xlarge",), 250), (("m7i.8xlarge", "m7i.2xlarge"), 110)]
)
def test_nodes_take_as_many_pods_as_the_smallest_of_their_types_does(types: tuple[str, ...], pods: int) -> None:
    config = told_to_nodes(node_group(node_shape("flexible", group_settings(instance_types=types))))

    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"] == {"kubelet": {"config": {"maxPods": pods}}}


def test_the_autoscaler_is_told_of_more_pods_than_it_takes_for_granted() -> None:
    shape = node_shape("flexible", group_settings(instance_types=("m7i.8xlarge",)))

    assert read_from_tags(shape.autoscaling_tags()).resources["pods"] == "250"


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
