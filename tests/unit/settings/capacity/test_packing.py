"""The number of nodes for fixed workloads, and the error if their group is too small."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices import Capacity
from ebbtide.settings.capacity.packing import Nodes, nodes_needed
from ebbtide.settings.capacity.placement import PodSize
from tests.builders.settings import loaded, problem_of, shortest

NODE = Capacity(cpu=8000, memory=32768, gpu=0, pods=10)
SIZES = st.builds(PodSize, cpu=st.integers(1, 9000), memory=st.integers(1, 40_000), gpu=st.just(0))
PODS = st.lists(st.tuples(SIZES, st.integers(1, 12)), max_size=6)


def pod(cpu: int = 1, memory: int = 1) -> PodSize:
    return PodSize(cpu=cpu * 1000, memory=memory * 1024, gpu=0)


def needed(*pods: tuple[PodSize, int]) -> int:
    return nodes_needed(pods, {"fixed": Nodes(each=NODE, most=1)})["fixed"]


def one_by_one(pods: list[tuple[PodSize, int]]) -> int:
    """The same rule with a list of nodes, pod by pod."""
    rooms: list[Capacity] = []
    for size, replicas in sorted(pods, key=lambda pod: (pod[0].cpu, pod[0].memory), reverse=True):
        for _ in range(replicas if NODE.copies(cpu=size.cpu, memory=size.memory, gpu=0) else 0):
            free = (i for i, room in enumerate(rooms) if room.copies(cpu=size.cpu, memory=size.memory, gpu=0))
            index = next(free, len(rooms))
            room = rooms.pop(index) if index < len(rooms) else NODE
            rooms.insert(index, Capacity(room.cpu - size.cpu, room.memory - size.memory, 0, room.pods - 1))
    return len(rooms)


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        ([], 0),
        ([(pod(cpu=8), 3)], 3),
        ([(pod(cpu=3), 2), (pod(cpu=5), 2)], 2),  # small ones fill the gaps that large ones leave
        ([(pod(cpu=1, memory=20), 2)], 2),  # memory counts as much as CPU
        ([(pod(cpu=1, memory=17), 1), (pod(cpu=5, memory=1), 1)], 1),
        ([(PodSize(cpu=1, memory=1, gpu=0), 11)], 2),  # a node takes ten pods, however small
        ([(pod(cpu=9), 1)], 0),  # too large for any node, which another rule tells
    ],
)
def test_pods_share_nodes_as_far_as_they_fit(pods: list[tuple[PodSize, int]], nodes: int) -> None:
    assert needed(*pods) == nodes


@given(PODS)
def test_counting_nodes_in_bulk_gives_what_placing_pod_by_pod_gives(pods: list[tuple[PodSize, int]]) -> None:
    assert needed(*pods) == one_by_one(pods)


def test_a_slip_of_the_keyboard_takes_no_time() -> None:
    assert needed((pod(cpu=3), 10**12), (pod(cpu=2), 10**12)) == 5 * 10**11 + (10**12 - 5 * 10**11) // 4


def test_a_second_group_is_filled_before_the_first_is_too_small() -> None:
    small = Capacity(cpu=2000, memory=8192, gpu=0, pods=10)
    groups = {"fixed": Nodes(each=NODE, most=2), "little": Nodes(each=small, most=3)}

    assert nodes_needed([(pod(cpu=2), 11)], groups) == {"fixed": 2, "little": 3}
    assert nodes_needed([(pod(cpu=2), 12)], groups) == {"fixed": 3, "little": 3}
    assert nodes_needed([(pod(cpu=8), 2), (pod(cpu=2), 3)], groups) == {"fixed": 2, "little": 3}
    assert nodes_needed([(pod(cpu=4), 5)], groups) == {"fixed": 3, "little": 0}


def fixed(*workloads: str, most: int = 6) -> str:
    entries = ", ".join(
        f'w{number}: {{ category: fixed, image: "a:1", {workload} }}' for number, workload in enumerate(workloads)
    )
    return shortest(more=f"ebbtide:nodeGroups: {{ fixed: {{ max: {most} }} }}\nebbtide:workloads: {{ {entries} }}")


def test_fixed_workloads_that_fit_alone_must_fit_together(tmp_path: Path) -> None:
    text = fixed("replicas: 5, cpu: 6, memory: 4Gi", "replicas: 2, cpu: 5, memory: 4Gi")

    assert problem_of(text, tmp_path) == (
        ":6: ebbtide:nodeGroups.fixed.max: wanted at least 7, the nodes that the fixed workloads need in total, "
        "found 6 (for example 7); fixed pods never move, so those without room would stay pending"
    )
    assert loaded(text.replace("max: 6", "max: 7"), tmp_path).workloads


def test_only_what_lives_on_fixed_nodes_counts(tmp_path: Path) -> None:
    text = fixed("replicas: 50, cpu: 6, memory: 4Gi")

    assert problem_of(text, tmp_path).tells("fixed.no-room", "50")
    assert loaded(text.replace("category: fixed", "category: flexible"), tmp_path).workloads
    assert loaded(text.replace("cpu: 6", "cpu: 6, gpu: 1"), tmp_path).workloads


def test_a_pod_too_large_for_any_fixed_node_is_told_once(tmp_path: Path) -> None:
    assert problem_of(fixed("replicas: 50, cpu: 60, memory: 4Gi"), tmp_path).tells("pod.too-large", "w0:")
