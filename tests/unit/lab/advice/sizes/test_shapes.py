"""Recorded pods, packed on nodes of other types."""

import pytest

from ebbtide.lab.advice.demand import NODE_OVERHEAD_S
from ebbtide.lab.advice.sizes.shapes import Stay, cheaper, most_nodes, node_hours, shape_of
from ebbtide.prices import Capacity, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.sections.node_groups import SPOT_TYPES
from tests.builders.stack import group_settings

NODE = Capacity(cpu=4000, memory=16384, gpu=0, pods=10)
START = NODE_OVERHEAD_S / 3600
REGION = "us-east-1"


def pod(cpu: int = 1000, memory: int = 1024, gpu: int = 0) -> PodSize:
    return PodSize(cpu=cpu, memory=memory, gpu=gpu)


def stays(count: int, size: PodSize, start: float = 0, end: float = 10) -> list[Stay]:
    return [(start, end, size)] * count


@pytest.mark.parametrize(("pods", "nodes"), [(1, 1), (4, 1), (5, 2), (9, 3)])
def test_pods_fill_nodes(pods: int, nodes: int) -> None:
    assert node_hours(stays(pods, pod()), NODE, 0, 10) == pytest.approx(nodes * (10 + START))


def test_a_node_ends_when_its_last_pod_has_ended_and_no_pod_moves() -> None:
    long, short = stays(2, pod(3000), 0, 10), stays(2, pod(1000), 0, 2)

    assert node_hours([*long, *short], NODE, 0, 10) == pytest.approx(2 * (10 + START))
    assert node_hours([*long[:1], *stays(1, pod(3000), 0, 2)], NODE, 0, 10) == pytest.approx(12 + 2 * START)


def test_a_node_that_one_pod_keeps_takes_the_next_ones() -> None:
    assert node_hours([(0, 10, pod()), (2, 4, pod(3000)), (5, 9, pod(3000))], NODE, 0, 10) == pytest.approx(10 + START)


def test_no_fewer_nodes_than_there_must_be() -> None:
    assert node_hours(stays(1, pod(), 4, 6), NODE, 2, 10) == 20
    assert node_hours(stays(12, pod(), 4, 6), NODE, 2, 10) == pytest.approx(2 * 10 + 2 + START)


def test_the_cheapest_shape_is_one_that_every_pod_fits() -> None:
    group = group_settings()
    ran = stays(8, pod(1500, 10_000), 0, 100)

    now = shape_of(group, REGION, ran, 100, group.instance_types, 0)
    cheapest = cheaper(group, REGION, ran, 100, [], 0)
    with_a_large_one = cheaper(group, REGION, ran, 100, [pod(1000, 200_000)], 0)

    assert now is not None
    assert cheapest is not None
    assert with_a_large_one is not None
    assert cheapest.usd < now.usd * 0.9, "pods with much memory are cheaper on nodes with much of it"
    assert all(name.startswith("r") for name in cheapest.types)
    assert cheapest.usd == pytest.approx(cheapest.node_hours * max(on_demand(REGION, name) for name in cheapest.types))
    assert all(
        name.endswith(("8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge")) for name in with_a_large_one.types
    )


def test_another_gpu_is_never_advised() -> None:
    group = group_settings(NodeKind.GPU, instance_types=("g6e.8xlarge",))
    cheapest = cheaper(group, REGION, stays(2, pod(2000, 8192, gpu=1)), 10, [], 0)

    assert cheapest is not None
    assert cheapest.types == ("g6e.xlarge",), "g6 has the same shape and costs less"


def test_a_spot_group_keeps_as_many_types_as_it_has() -> None:
    group = group_settings(NodeKind.SPOT)

    assert len(group.instance_types) == len(SPOT_TYPES)
    assert cheaper(group, REGION, stays(2, pod()), 10, [], 0) is None


def test_what_fits_no_node_has_no_shape() -> None:
    group = group_settings()

    assert shape_of(group, REGION, stays(1, pod(64_000)), 10, group.instance_types, 0) is None


@pytest.mark.parametrize(
    ("kind", "now", "then", "most"),
    [
        (NodeKind.FLEXIBLE, "m7i.4xlarge", "m7i.8xlarge", 3),
        (NodeKind.FLEXIBLE, "m7i.8xlarge", "m7i.4xlarge", 12),
        (NodeKind.GPU, "g6.2xlarge", "g6.xlarge", 6),
        (NodeKind.GPU, "g6.12xlarge", "g6.xlarge", 24),
    ],
)
def test_max_leaves_as_much_room_as_there_was(kind: NodeKind, now: str, then: str, most: int) -> None:
    assert most_nodes(group_settings(kind, instance_types=(now,)), (then,), zones=2) == most
