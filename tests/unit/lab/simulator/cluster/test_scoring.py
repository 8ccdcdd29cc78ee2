"""Which node takes a pod, and that the answer costs no more in a large cluster."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.scoring import OpenNodes
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Room
from tests.builders.cluster import group, workload

POD = workload("api", cpu_m=500, memory_mib=1024)
OTHER = workload("mail", cpu_m=1500, memory_mib=1024)


class Nodes:
    """Ready nodes, by number, and the open ones among them as the scheduler keeps them."""

    def __init__(self, count: int, shape: GroupModel | None = None) -> None:
        shape = group() if shape is None else shape
        self.state = ClusterState({shape.name: shape})
        self.all = [Node(f"node-{number}", shape, 0.0, 0.0, Room(shape), ready=True) for number in range(count)]
        self.state.nodes.update({node.name: node for node in self.all})
        self.open = self.new()

    def new(self, spec: WorkloadModel = POD) -> OpenNodes:
        return OpenNodes(spec, self.state, Placement().takes)

    def put(self, number: int, spec: WorkloadModel = POD, stopping: int = 0) -> None:
        node = self.all[number]
        node.room.take(spec)
        if stopping:
            node.stopping[spec.name] = stopping
        self.state.touch(node)

    def best(self) -> str | None:
        node = self.open.best(random.Random(0))
        return None if node is None else node.name


def test_the_emptiest_node_with_the_fewest_pods_of_the_workload_takes_it() -> None:
    nodes = Nodes(3)
    nodes.put(0)
    nodes.put(1, OTHER)

    assert nodes.best() == "node-2"


def test_a_pod_that_stops_does_not_count_when_pods_are_spread() -> None:
    nodes = Nodes(2)
    for _ in range(2):
        nodes.put(0)
    nodes.put(1, OTHER)
    before = nodes.best()
    nodes.put(0, stopping=3)

    assert (before, nodes.best()) == ("node-1", "node-0")


def test_pods_that_gather_go_where_most_of_their_category_are_as_long_as_they_fit() -> None:
    nodes = Nodes(3)
    worker = replace(POD, category="worker", gathers=True, spreads=False)
    small, large = replace(worker, name="small"), replace(worker, name="large", cpu_m=2500)
    nodes.put(0, OTHER)
    nodes.put(1, small)
    nodes.put(2, small)
    nodes.put(2, replace(worker, name="middle", cpu_m=1500))
    chosen = [nodes.new(spec).best(random.Random(0)) for spec in (small, large)]

    assert [node and node.name for node in chosen] == ["node-2", "node-1"]


def test_a_pod_that_is_not_spread_minds_no_pod_of_its_own_workload() -> None:
    nodes = Nodes(2)
    nodes.put(0)
    nodes.put(1, replace(OTHER, cpu_m=600))
    alone = nodes.new(replace(POD, spreads=False)).best(random.Random(0))

    assert [nodes.best(), alone and alone.name] == ["node-1", "node-0"]


def test_a_node_that_is_likely_to_go_is_taken_only_when_there_is_no_other() -> None:
    nodes = Nodes(2)
    nodes.put(1)
    nodes.state.mark(nodes.all[0], unwanted=True)
    preferred = nodes.best()
    nodes.all[1].leaving = True
    nodes.state.touch(nodes.all[1])

    assert (preferred, nodes.best()) == ("node-1", "node-0")


def test_a_node_that_is_gone_takes_nothing() -> None:
    nodes = Nodes(1)
    assert nodes.best() == "node-0"
    del nodes.state.nodes["node-0"]
    nodes.state.touch(nodes.all[0])

    assert nodes.best() is None


CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["pod", "other", "close", "open", "mark"])), max_size=30
)


@given(CHANGES)
def test_what_is_kept_up_to_date_answers_as_what_is_built_anew(changes: list[tuple[int, str]]) -> None:
    nodes = Nodes(6)
    for number, change in changes:
        node = nodes.all[number]
        if change in ("pod", "other"):
            spec = POD if change == "pod" else OTHER
            if node.room.fits(spec):
                nodes.put(number, spec)
        elif change == "mark":
            nodes.state.mark(node, unwanted=not node.unwanted)
        else:
            node.leaving = change == "close"
            nodes.state.touch(node)
        assert answers(nodes.open) == answers(nodes.new())


def answers(open_nodes: OpenNodes) -> set[str]:
    """All that may be drawn: so many seeds draw each of six."""
    drawn = (open_nodes.best(random.Random(seed)) for seed in range(24))
    return {node.name for node in drawn if node is not None}


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_after_the_first_pod_only_nodes_that_changed_are_looked_at(count: int) -> None:
    nodes = Nodes(count)
    nodes.best()
    for number in range(5):
        nodes.put(number)
        nodes.best()

    assert nodes.open.looked_at == count + 5
