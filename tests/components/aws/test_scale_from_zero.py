"""Groups at zero: the node that the autoscaler reads from the tags equals the real one, for any group."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from random import Random

from components.aws.node_shape import NodeTemplate, ami_type, group_options, node_shape
from components.pods.rules import nodes_of_group, nodes_of_kind, tolerations
from ebbtide.prices import InstanceType, instance_type, instance_type_names
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.shapes import NodeShape as NodeSize
from tests.builders.autoscaler import ReadNode, read_from_tags

SPECS = 10_000
GIB = 1024**3


def types_by_shape() -> list[list[InstanceType]]:
    shapes: dict[object, list[InstanceType]] = {}
    for name in instance_type_names():
        shapes.setdefault(instance_type(name).shape, []).append(instance_type(name))
    return list(shapes.values())


def specs(number: int) -> Iterator[tuple[str, NodeGroupSettings]]:
    """Groups of valid stack files, from one seed; GPU types are in GPU groups only, as the checks require."""
    random, shapes = Random(7), types_by_shape()
    for _ in range(number):
        types = random.choice(shapes)
        kind = NodeKind.GPU if types[0].gpu else random.choice([NodeKind.FIXED, NodeKind.FLEXIBLE, NodeKind.SPOT])
        yield (
            random.choice([kind.value, "a", "eks-taint", "label", "gpu-a", "x" * 24]),
            NodeGroupSettings(
                kind=kind,
                instance_types=tuple(each.name for each in random.sample(types, random.randint(1, len(types)))),
                min=random.randint(1, 3),
                max=random.randint(3, 50),
                disk_size=random.randint(20, 16_384),
                priority=random.randint(0, 99),
            ),
        )


def disagreements(name: str, group: NodeGroupSettings) -> list[str]:
    """The differences between the node that the autoscaler expects and the one that EKS creates."""
    shape, first = node_shape(name, group), instance_type(group.instance_types[0])
    read = read_from_tags(shape.autoscaling_tags())
    same = {
        "labels": read.labels == shape.labels,
        "own labels": read.labels.items() >= {**nodes_of_group(name), **nodes_of_kind(group.kind)}.items(),
        "taints": read.taints == {(taint.key, taint.value, taint.effect) for taint in shape.taints},
        "a taint where there are GPUs": bool(read.taints) is (first.gpu > 0),
        "GPUs": read.resources.get("nvidia.com/gpu", "0") == str(first.gpu),
        "pods": read.resources["pods"] == str(shape.max_pods),
        "disk": disk_is_right(read, group.disk_size),
        "options": read.options == group_options(group.kind, gpus=group.has_gpus),
        "tags that AWS takes": all(len(key) <= 128 and len(it) <= 256 for key, it in shape.autoscaling_tags().items()),
    }
    return [what for what, agree in same.items() if not agree]


def disk_is_right(read: ReadNode, disk_gib: int) -> bool:
    """Never more than the kubelet will offer (it keeps a tenth, and 1 GiB), and less by a GiB and a bit at most.

    A disk of 80 GiB was seen with 83,873,772 KiB: the partition for starting takes some MiB.
    """
    offered = ((disk_gib * GIB - 16 * 1024**2) * 9 // 10 - GIB) / GIB
    return offered - 1.2 < int(read.resources["ephemeral-storage"].removesuffix("Gi")) <= offered


def test_of_ten_thousand_groups_each_is_known_before_it_has_a_node() -> None:
    wrong = [(name, group, found) for name, group in specs(SPECS) if (found := disagreements(name, group))]

    assert wrong == []


def test_a_type_that_the_autoscaler_may_not_know_is_described_by_tags() -> None:
    shape = NodeSize.model_validate({"cpu": 16, "memory": "128Gi", "gpu": 1, "arch": "arm64"})
    group = NodeGroupSettings(kind=NodeKind.GPU, instance_types=("g9g.4xlarge",), shape=shape, max=4)
    read = read_from_tags(node_shape("gpu", group).autoscaling_tags())
    expected = group.types[0]

    assert ami_type(group) == "AL2023_ARM_64_NVIDIA"
    assert read.labels.items() >= {"kubernetes.io/arch": "arm64", "k8s.amazonaws.com/accelerator": "nvidia"}.items()
    assert read.resources["nvidia.com/gpu"] == "1"
    assert read.resources["cpu"] == f"{expected.allocatable_cpu}m"
    assert read.resources["memory"] == f"{expected.allocatable_memory}Mi"


def takes(node: ReadNode, selector: Mapping[str, str], gpus: int) -> bool:
    """True if the scheduler would place a pod on such a node, by labels, taints and GPUs."""
    bearable = {(it.get("key"), it.get("value")) for it in tolerations(Gpu(count=gpus))}
    return (
        selector.items() <= node.labels.items()
        and {(key, value) for key, value, _ in node.taints} <= bearable
        and gpus <= int(node.resources.get("nvidia.com/gpu", "0"))
    )


def test_a_worker_starts_nodes_of_its_own_group_and_of_no_other() -> None:
    """Any two groups in one stack."""
    shapes: list[tuple[str, NodeTemplate]] = [(name, node_shape(name, group)) for name, group in specs(2_000)]
    for (name, own), (other, another) in pairwise(shapes):
        selector = nodes_of_group(name)
        assert takes(read_from_tags(own.autoscaling_tags()), selector, own.gpus)
        assert takes(read_from_tags(another.autoscaling_tags()), selector, 0) is (other == name and not another.gpus)
