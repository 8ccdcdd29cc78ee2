"""How nodes and budgets are read off the API server's objects."""

from typing import Any

from control_plane.playground.seen import NodeSeen, NodeState, budgets_of, nodes_of

from ebbtide.labels import NODE_GROUP
from ebbtide.vocabulary.labels import CATEGORY
from tests.unit.playground.moments import CONFIG


def node(name: str, group: str = "flexible", *, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {NODE_GROUP: group} if group else {}, **metadata},
        "spec": {},
        "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(home: str, cpu: str, category: str = "flexible") -> dict[str, Any]:
    return {
        "metadata": {"labels": {CATEGORY: category} if category else {}},
        "spec": {"nodeName": home, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
    }


def test_a_node_tells_how_much_of_it_each_category_asks_for() -> None:
    pods = [pod("n", "2"), pod("n", "1"), pod("n", "4", "worker"), pod("n", "500m", ""), pod("other", "8")]

    (seen,) = nodes_of([node("n")], pods)

    assert seen == NodeSeen(
        name="n", group="flexible", shares={"flexible": 0.375, "worker": 0.5, "system": 0.0625}, pods=3
    )


def test_nodes_come_in_the_order_of_their_numbers_and_without_strangers() -> None:
    names = [seen.name for seen in nodes_of([node("f-10"), node("f-9"), node("laptop", group="")], [])]

    assert names == ["f-9", "f-10"]


def test_a_node_starts_is_ready_and_leaves() -> None:
    tainted = node("c")
    tainted["spec"] = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}
    items = [node("a", ready="Unknown"), node("b"), tainted, node("d", deletionTimestamp="2026-03-04T19:00:00Z")]

    states = [seen.state for seen in nodes_of(items, [])]

    assert states == [NodeState.STARTING, NodeState.READY, NodeState.LEAVING, NodeState.LEAVING]


def test_a_budget_is_open_only_if_it_says_so() -> None:
    def told(name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}

    elsewhere = told("api", "other", {"maxUnavailable": 1})
    states = [
        budgets_of(CONFIG, [elsewhere, told("api", "apps", spec)])
        for spec in ({}, {"maxUnavailable": 0}, {"maxUnavailable": 1})
    ]

    assert states == [{"api": False}, {"api": False}, {"api": True}]
