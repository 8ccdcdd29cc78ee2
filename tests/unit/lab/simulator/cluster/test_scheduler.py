"""Where the modelled scheduler puts pods, and when it tries again."""

from typing import Any

import pytest

from ebbtide.kube.taints import Taint, Toleration
from tests.builders.cluster import QUICK, Played, group, homes, running, waiting, workload


def test_pods_of_one_workload_are_spread_over_the_nodes() -> None:
    played = Played([group(initial=3)])
    played.cluster.deploy(workload(cpu_m=500), 3)

    assert len({node.name for node in homes(played.at(5), "api")}) == 3


@pytest.mark.parametrize(
    "changes", [{"cpu_m": 5000}, {"memory_mib": 20000}, {"gpu": 1}, {"node_selector": {"group": "gpu"}}]
)
def test_a_pod_that_no_node_can_take_waits(changes: dict[str, Any]) -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload(**changes), 1)

    assert len(waiting(played.at(60), "api")) == 1


def test_a_node_takes_no_more_pods_than_its_limit() -> None:
    played = Played([group(initial=1, max_pods=3)])
    played.cluster.deploy(workload(cpu_m=10, memory_mib=10), 5)

    assert len(running(played.at(5), "api")) == 3


def test_a_taint_keeps_out_all_but_those_that_tolerate_it() -> None:
    gpu = Taint("nvidia.com/gpu", "true")
    played = Played([group("gpu", initial=1, taints=(gpu,))])
    played.cluster.deploy(workload("api"), 1)
    played.cluster.deploy(workload("train", tolerations=(Toleration("nvidia.com/gpu"),)), 1)

    cluster = played.at(5)

    assert len(waiting(cluster, "api")) == 1
    assert len(running(cluster, "train")) == 1


def test_anti_affinity_holds_against_pods_that_came_first_and_that_come_later() -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload("store", category="fixed", anti_affinity_with=("flexible",), cpu_m=100), 1)
    played.at(1)
    played.cluster.deploy(workload("api", cpu_m=100), 4)
    played.at(2)
    played.cluster.deploy(workload("cache", category="fixed", anti_affinity_with=("flexible",), cpu_m=100), 1)

    cluster = played.at(3)

    assert not {node.name for node in homes(cluster, "api")} & {node.name for node in homes(cluster, "store")}
    assert homes(cluster, "cache") == homes(cluster, "store")


def test_one_per_node_leaves_the_others_waiting() -> None:
    played = Played([group(initial=2)])
    played.cluster.deploy(workload(one_per_node=True, cpu_m=100), 3)

    assert len(waiting(played.at(5), "api")) == 1


def test_a_waiting_pod_takes_the_place_of_one_that_is_gone() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload("first"), 2)
    played.at(1)
    played.cluster.deploy(workload("second"), 1)
    played.at(10)
    played.cluster.scale("first", 1)

    assert len(running(played.at(12), "second")) == 1


def test_a_stopping_pod_keeps_its_place_until_it_is_gone() -> None:
    played = Played([group(initial=1)])
    played.cluster.deploy(workload("first"), 2)
    played.at(1)
    played.cluster.deploy(workload("second"), 1)
    played.at(10)
    played.cluster.scale("first", 1)

    assert len(waiting(played.at(10.2), "second")) == 1


@pytest.mark.parametrize("seed", range(5))
def test_without_any_node_a_pod_is_tried_on_a_doubling_back_off(seed: int) -> None:
    """Tried at 0, after 1, after 2 and after 4 s more, each on the next one-second tick; the node is ready by 8.5 s."""
    played = Played([group(boot_s=6)], QUICK, seed=seed)
    played.cluster.deploy(workload(), 1)
    cluster = played.at(8.99)

    assert [node.ready for node in cluster.nodes()] == [True]
    assert running(cluster, "api") == []
    assert len(running(played.at(10.1), "api")) == 1
