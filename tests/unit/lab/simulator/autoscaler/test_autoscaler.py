"""What the modelled autoscaler grows, keeps and removes, and when."""

from typing import Any

import pytest

from ebbtide.kube.taints import GPU_TAINT, gpu_tolerations
from ebbtide.lab.simulator.cluster import AutoscalerFlags, StopReason
from tests.builders.cluster import QUICK, Played, Witness, group, homes, quick, running, waiting, workload


def drained_pair(budget: int | None = 1, flags: AutoscalerFlags = QUICK, **changes: Any) -> Played:
    """Two nodes with one small pod each, settled: one node is enough for both."""
    played = Played([group(initial=2)], flags)
    played.cluster.deploy(workload(cpu_m=1000, pdb_max_unavailable=budget, **changes), 2)
    played.at(1)
    return played


# --- growing ----------------------------------------------------------------------------------------------------------


def test_as_many_nodes_come_as_the_waiting_pods_need() -> None:
    played = Played([group(boot_s=30)], QUICK)
    played.cluster.deploy(workload(), 5)

    assert played.at(10).node_counts() == {"flexible": 3}
    assert running(played.cluster, "api") == []
    assert len(running(played.at(50), "api")) == 5
    assert played.cluster.node_counts() == {"flexible": 3}


def test_nodes_that_still_boot_are_counted_on() -> None:
    played = Played([group(boot_s=120)], QUICK)
    played.cluster.deploy(workload(), 4)
    played.at(60)
    played.cluster.scale("api", 6)

    assert played.at(110).node_counts() == {"flexible": 3}


def test_a_group_at_its_maximum_leaves_pods_waiting() -> None:
    played = Played([group(max=2)], QUICK)
    played.cluster.deploy(workload(), 6)

    assert played.at(300).node_counts() == {"flexible": 2}
    assert len(waiting(played.cluster, "api")) == 2


def test_pods_are_given_time_to_arrive_together() -> None:
    played = Played([group(initial=1, min=1)], quick(scan_interval_s=10))
    played.at(100)
    played.cluster.deploy(workload(cpu_m=4000), 2)

    assert played.at(109).node_counts() == {"flexible": 1}
    assert played.at(111).node_counts() == {"flexible": 2}


def test_waiting_gpu_pods_hold_back_every_scale_up_for_thirty_seconds() -> None:
    played = Played([group(), group("gpu", gpu=1, taints=(GPU_TAINT,))], QUICK)
    played.at(100)
    played.cluster.deploy(workload("train", gpu=1, tolerations=gpu_tolerations("nvidia.com/gpu")), 1)
    played.cluster.deploy(workload("api"), 1)

    assert sum(played.at(128).node_counts().values()) == 0
    assert played.at(140).node_counts() == {"flexible": 1, "gpu": 1}


def test_least_waste_takes_the_shape_that_the_pods_fill() -> None:
    played = Played([group("large", cpu_m=16000, memory_mib=65536), group("small")], QUICK)
    played.cluster.deploy(workload(cpu_m=3800, memory_mib=15000), 1)

    assert played.at(10).node_counts() == {"large": 0, "small": 1}


def test_priority_takes_the_first_group_that_helps_and_then_the_next() -> None:
    played = Played([group("other"), group("covered", max=1, priority=1)], quick(expander="priority"))
    played.cluster.deploy(workload(), 4)

    assert played.at(30).node_counts() == {"covered": 1, "other": 1}


def test_among_groups_of_equal_priority_the_next_expander_decides() -> None:
    groups = [group("large", cpu_m=16000, memory_mib=65536, priority=1), group("small", priority=1), group("last")]
    played = Played(groups, quick(expander="priority,least-waste"))
    played.cluster.deploy(workload(cpu_m=3800, memory_mib=15000), 1)

    assert played.at(10).node_counts() == {"large": 0, "small": 1, "last": 0}


@pytest.mark.parametrize(("kind", "second"), [("flexible", 2), ("fixed", 0)])
def test_groups_alike_in_all_but_their_name_and_zone_grow_in_balance(kind: str, second: int) -> None:
    zones = [
        group("a", priority=1, labels={"kind": "flexible", "topology.kubernetes.io/zone": "a"}),
        group("b", labels={"kind": kind, "topology.kubernetes.io/zone": "b"}),
    ]
    played = Played(zones, quick(balance_similar=True, expander="priority"))
    played.cluster.deploy(workload(), 8)

    assert played.at(30).node_counts() == {"a": 4 - second, "b": second}


def test_groups_that_are_alike_do_not_grow_in_balance_by_default() -> None:
    played = Played([group("a", priority=1), group("b", labels={"group": "a"})], quick(expander="priority"))
    played.cluster.deploy(workload(), 8)

    assert played.at(30).node_counts() == {"a": 4, "b": 0}


def test_an_unknown_expander_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expander: wanted one of least-waste, .*, found 'cheapest'"):
        Played([group()], quick(expander="cheapest"))


# --- shrinking --------------------------------------------------------------------------------------------------------


def test_empty_nodes_go_together_after_their_unneeded_time() -> None:
    played = Played([group()], QUICK)
    played.cluster.deploy(workload(), 8)
    played.at(100)
    played.cluster.scale("api", 0)

    assert played.at(109).node_counts() == {"flexible": 4}
    assert played.at(119).node_counts() == {"flexible": 0}
    assert played.cluster.evictions == []


def test_no_more_empty_nodes_go_at_a_time_than_allowed() -> None:
    played = Played([group()], quick(max_scale_down_parallelism=3))
    played.cluster.deploy(workload(), 8)
    played.at(100)
    played.cluster.scale("api", 0)

    assert played.at(118).node_counts() == {"flexible": 1}
    assert played.at(130).node_counts() == {"flexible": 0}


def test_a_group_keeps_its_minimum() -> None:
    played = Played([group(min=2, initial=5)], QUICK)

    assert played.at(200).node_counts() == {"flexible": 2}


def test_a_node_that_others_can_take_over_is_drained() -> None:
    played = drained_pair()
    cluster = played.at(60)

    assert cluster.node_counts() == {"flexible": 1}
    assert len(running(cluster, "api")) == 2
    (eviction,) = cluster.evictions
    assert (eviction.workload, eviction.category) == ("api", "flexible")


def test_an_evicted_pod_is_told_why() -> None:
    witness = Witness()
    played = Played([group(initial=2)], QUICK, listener=witness)
    played.cluster.deploy(workload(cpu_m=1000), 2)
    played.at(60)

    assert [why for _, why in witness.stops] == [StopReason.EVICTED]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"budget": 0}, "not enough pod disruption budget to move api"),
        ({"safe_to_evict": False}, "pod annotated as not safe to evict present: api"),
        ({"empty_dir": True, "flags": quick(skip_nodes_with_local_storage=True)},
         "pod with local storage present: api"),
        ({"category": "system", "budget": None},
         "non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: api"),
    ],
)  # fmt: skip
def test_a_pod_that_may_not_move_keeps_its_node_and_is_named(changes: dict[str, Any], reason: str) -> None:
    cluster = drained_pair(**changes).at(600)

    assert cluster.node_counts() == {"flexible": 2}
    assert cluster.unremovable_reasons() == (reason,)


def test_safe_to_evict_goes_before_local_storage_and_budget() -> None:
    played = drained_pair(2, quick(skip_nodes_with_local_storage=True), empty_dir=True, safe_to_evict=True)

    assert played.at(60).node_counts() == {"flexible": 1}


def test_new_pods_avoid_a_node_that_is_likely_to_go() -> None:
    played = Played([group(initial=2)], QUICK)
    played.cluster.deploy(workload("stay", cpu_m=1500, safe_to_evict=False), 1)
    played.at(5)
    played.cluster.deploy(workload(cpu_m=1000), 1)

    assert homes(played.at(6), "api") == homes(played.cluster, "stay")


def test_a_node_above_the_threshold_stays_whatever_the_budget() -> None:
    played = Played([group(initial=2)], QUICK)
    played.cluster.deploy(workload(cpu_m=2100), 2)

    assert played.at(600).node_counts() == {"flexible": 2}


def test_a_node_stays_when_its_pods_fit_nowhere_else() -> None:
    played = Played([group(initial=2)], QUICK)
    played.cluster.deploy(workload(cpu_m=100, one_per_node=True), 2)

    assert played.at(600).node_counts() == {"flexible": 2}
    assert played.cluster.evictions == []


def test_an_opened_budget_is_seen_only_at_the_next_re_check() -> None:
    played = drained_pair(0, quick(unremovable_recheck_s=300))
    played.at(400)
    played.cluster.set_budget("api", 1)

    assert played.at(600).node_counts() == {"flexible": 2}
    assert played.at(640).node_counts() == {"flexible": 1}


def test_a_budget_closed_again_before_the_drain_reaches_its_pods_stops_it() -> None:
    """Unneeded from 1 s, closed to new pods at 11 s, drained from 16 s."""
    played = drained_pair()
    assert [node.leaving for node in played.at(14).nodes()].count(True) == 1
    played.cluster.set_budget("api", 0)

    assert not any(node.leaving for node in played.at(20).nodes())
    assert played.at(200).node_counts() == {"flexible": 2}
    assert played.cluster.evictions == []


def test_after_a_scale_up_nothing_is_removed_for_a_while() -> None:
    played = Played([group(initial=2), group("gpu", gpu=1)], quick(scale_down_delay_after_add_s=100))
    played.cluster.deploy(workload("train", gpu=1, node_selector={"group": "gpu"}), 1)
    grown = 31

    assert played.at(grown + 90).node_counts() == {"flexible": 2, "gpu": 1}
    assert played.at(grown + 115).node_counts() == {"flexible": 0, "gpu": 1}


def serial_or_parallel(parallelism: int) -> Played:
    played = Played([group(initial=4, cpu_m=10000)], quick(max_drain_parallelism=parallelism))
    for name in ("a", "b", "c", "d"):
        played.cluster.deploy(workload(name, cpu_m=2000, startup_s=1), 1)
    played.at(1)
    assert len({node.name for name in "abcd" for node in homes(played.cluster, name)}) == 4
    return played


@pytest.mark.parametrize(("parallelism", "left"), [(1, 3), (3, 1)])
def test_as_many_nodes_are_drained_at_a_time_as_allowed(parallelism: int, left: int) -> None:
    assert serial_or_parallel(parallelism).at(25).node_counts() == {"flexible": left}


def test_two_pods_of_one_budget_on_one_node_leave_one_after_the_other() -> None:
    played = Played([group(initial=1), group("keep")], QUICK)
    played.cluster.deploy(workload(cpu_m=500, pdb_max_unavailable=1, startup_s=2), 2)
    played.at(5)
    played.cluster.deploy(workload("stay", cpu_m=2500, safe_to_evict=False, node_selector={"group": "keep"}), 1)
    cluster = played.at(300)
    first, second = cluster.evictions

    assert cluster.node_counts() == {"flexible": 0, "keep": 1}
    assert second.at - first.at == pytest.approx(10, abs=0.6)  # the API server may have tried once more by itself


def test_a_budget_of_one_makes_one_candidate_at_a_time() -> None:
    played = Played([group(initial=4)], quick(max_drain_parallelism=4))
    played.cluster.deploy(workload(cpu_m=500, pdb_max_unavailable=1), 4)

    assert [node.leaving for node in played.at(15).nodes()].count(True) == 1


def test_a_pod_that_stops_already_is_given_no_more_time_than_a_drain_gives() -> None:
    witness = Witness(lasts=None)
    played = Played([group(initial=2)], quick(max_graceful_termination_s=60), listener=witness)
    played.cluster.deploy(workload("stay", cpu_m=1500, safe_to_evict=False), 1)
    played.cluster.deploy(workload(cpu_m=1000, grace_s=43200), 1)
    played.at(5)
    played.cluster.scale("api", 0)

    assert played.at(100).node_counts() == {"flexible": 1}
    assert witness.killed == ["api-1"]
    assert played.cluster.evictions == []


def test_an_eviction_shortens_a_long_grace_period() -> None:
    """The trap of the default: a job longer than 10 minutes is killed by a drain that its budget allows."""
    witness = Witness(lasts=None)
    played = Played([group(initial=2)], quick(max_graceful_termination_s=60), listener=witness)
    played.cluster.deploy(workload(cpu_m=1000, grace_s=43200), 2)
    played.at(100)

    assert len(witness.killed) == 1
    assert played.cluster.node_counts() == {"flexible": 1}


def test_a_drained_node_is_billed_until_it_is_gone() -> None:
    played = Played([group(initial=1)], QUICK)

    assert played.at(100).billed_seconds()["flexible"] == pytest.approx(16, abs=1.5)


def test_a_quiet_month_costs_no_looks() -> None:
    played = Played([group(initial=2)], QUICK)
    played.cluster.deploy(workload(pdb_max_unavailable=0, cpu_m=1000), 2)
    played.at(100)

    assert played.timeline.next_time() is None
