"""What Karpenter launches, and when."""

import pytest

from ebbtide.lab.simulator.cluster import ClusterModel
from tests.builders.cluster import Played, group, node_pool, quick, running, waiting, workload


def launched(cluster: ClusterModel) -> list[str]:
    return sorted(node.group for node in cluster.nodes())


def test_pods_of_a_batch_share_one_large_node_which_may_cost_more_than_small_ones() -> None:
    played = Played([], node_pools=[node_pool(sizes=["xlarge", "4xlarge"])])
    played.cluster.deploy(workload(cpu_m=3000), 3)  # three of 4 CPU would cost 0.6

    assert launched(played.at(5)) == ["general/4xlarge"]


def test_the_cheapest_type_that_fits_the_packed_pods_is_launched() -> None:
    played = Played([], node_pools=[node_pool()])
    played.cluster.deploy(workload(cpu_m=1500, memory_mib=100), 3)

    assert launched(played.at(5)) == ["general/2xlarge"]


def test_a_batch_ends_a_second_after_the_last_pod_and_ten_seconds_after_the_first() -> None:
    played = Played([], node_pools=[node_pool(sizes=["large"])])
    played.cluster.deploy(workload(), 1)
    for second in range(1, 14):
        played.at(second * 0.9)
        assert (not played.cluster.nodes()) == (second * 0.9 < 10)
        played.cluster.scale("api", second + 1)

    assert len(played.at(30).nodes()) == 14


def test_pods_that_wait_for_a_booting_node_get_no_second_one() -> None:
    played = Played([], node_pools=[node_pool(sizes=["4xlarge"], boot_s=120)])
    played.cluster.deploy(workload(), 2)
    played.at(60)
    played.cluster.deploy(workload("more", cpu_m=1000), 1)

    assert launched(played.at(119)) == ["general/4xlarge"]
    assert len(running(played.at(140), "api")) == 2


def test_the_heavier_pool_comes_first_and_what_it_cannot_take_goes_to_the_next() -> None:
    heavy = node_pool("heavy", sizes=["large"], weight=10, limits={"nodes": 1})
    played = Played([], node_pools=[node_pool("light", sizes=["xlarge"]), heavy])
    played.cluster.deploy(workload(), 1)
    assert launched(played.at(5)) == ["heavy/large"]

    played.cluster.scale("api", 2)
    assert launched(played.at(10)) == ["heavy/large", "light/xlarge"]


def test_one_batch_may_exceed_a_limit_of_nodes_and_later_pods_get_no_more() -> None:
    played = Played([], node_pools=[node_pool(sizes=["large"], limits={"nodes": 2})])
    played.cluster.deploy(workload(), 3)
    assert launched(played.at(10)) == ["general/large"] * 3

    played.cluster.scale("api", 5)

    assert launched(played.at(60)) == ["general/large"] * 3
    assert len(waiting(played.cluster, "api")) == 2


@pytest.mark.parametrize("limits", [{"cpu_m": 5000}, {"nodes": 2, "cpu_m": 4000}])
def test_pods_above_a_limit_of_cpu_wait_until_there_is_room(limits: dict[str, int]) -> None:
    played = Played([], node_pools=[node_pool(sizes=["large"], limits=limits)])
    played.cluster.deploy(workload(), 3)
    played.cluster.deploy(workload("other", category="x"), 0)

    assert len(waiting(played.at(60), "api")) == 1

    played.cluster.scale("api", 2)
    played.at(90)
    assert launched(played.cluster) == ["general/large"] * 2


def test_a_group_of_the_cluster_autoscaler_is_left_to_it_and_karpenters_nodes_are_not_its_business() -> None:
    played = Played([group("fixed", min=0)], quick(), node_pools=[node_pool(consolidate_after_s=1000)])
    played.cluster.deploy(workload("db", node_selector={"group": "fixed"}), 1)
    played.cluster.deploy(workload(node_selector={"group": "general"}), 1)
    assert launched(played.at(30)) == ["fixed", "general/large"]

    played.cluster.scale("db", 0)
    played.cluster.scale("api", 0)
    assert launched(played.at(200)) == ["general/large"]


def test_a_pod_joins_the_planned_node_with_fewest_pods() -> None:
    played = Played([], node_pools=[node_pool()])
    played.cluster.deploy(workload("apart", cpu_m=1500, memory_mib=100, one_per_node=True), 2)
    played.cluster.deploy(workload("small", cpu_m=500, memory_mib=50), 4)

    assert launched(played.at(5)) == ["general/xlarge"] * 2
