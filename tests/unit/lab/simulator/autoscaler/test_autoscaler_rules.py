"""Rules of the real autoscaler that were read off its source: order by chance, options of groups, rests, templates."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from ebbtide.lab.simulator.cluster import ClusterModel, DrainBlock, Node, RetainedNode, Retention
from ebbtide.lab.simulator.cluster.autoscaler.pacing import LONGEST_STATUS_S, ApiRateLimiter
from ebbtide.lab.simulator.cluster.autoscaler.snapshot import Templates, beginning
from ebbtide.lab.simulator.cluster.state import Room
from tests.builders.cluster import QUICK, Played, group, quick, running, workload

# --- chance -----------------------------------------------------------------------------------------------------------


def test_among_few_nodes_the_first_is_asked_first_more_often_than_the_others() -> None:
    rng = random.Random(1)
    first = Counter(beginning(3, rng) for _ in range(800))

    assert sorted(first) == [0, 1, 2]
    assert first[0] > 4 * max(first[1], first[2])


def test_among_many_nodes_each_may_be_asked_first_alike() -> None:
    rng = random.Random(1)
    first = Counter(beginning(20, rng) for _ in range(4000))

    assert len(first) == 20
    assert max(first.values()) < 2 * min(first.values())


def first_growth(seed: int) -> int:
    """Six nodes would do for two sets of a size, of which one takes a node per pod and both fit a node together."""
    played = Played([group(cpu_m=3000)], QUICK, seed=seed)
    played.cluster.deploy(workload("spread", cpu_m=1000, memory_mib=1024, one_per_node=True), 6)
    played.cluster.deploy(workload("any", cpu_m=1000, memory_mib=1024), 6)
    played.cluster.deploy(workload("big", cpu_m=1100, memory_mib=1100), 6)
    return played.at(15).node_counts()["flexible"]


def test_pods_of_one_size_may_take_more_nodes_than_they_need_and_not_always_as_many() -> None:
    counts = {first_growth(seed) for seed in range(12)}

    assert min(counts) >= 6
    assert len(counts) > 1


def named_reason(seed: int) -> tuple[str, ...]:
    played = Played([group(initial=1), group("other", initial=1)], quick(unremovable_recheck_s=1000), seed=seed)
    first = workload("one", cpu_m=1500, pdb_max_unavailable=0, node_selector={"group": "flexible"})
    played.cluster.deploy(first, 1)
    played.cluster.deploy(replace(first, name="more"), 1)  # together above the threshold: not looked at yet
    played.at(3)
    played.cluster.deploy(replace(first, name="two", cpu_m=100), 1)
    played.at(6)
    played.cluster.scale("more", 0)
    return tuple(reason.rpartition(" ")[2] for reason in played.at(60).unremovable_reasons())


def test_of_several_pods_that_block_a_node_any_may_be_the_one_that_is_named() -> None:
    assert {named_reason(seed) for seed in range(12)} == {("one",), ("two",)}


# --- what a group says for itself -------------------------------------------------------------------------------------


def test_a_group_may_have_an_unneeded_time_of_its_own() -> None:
    played = Played([group(initial=1), group("slow", initial=1, scale_down_unneeded_s=60)], QUICK)

    assert played.at(30).node_counts() == {"flexible": 0, "slow": 1}
    assert played.at(90).node_counts() == {"flexible": 0, "slow": 0}


@pytest.mark.parametrize(("threshold", "nodes"), [(0.65, 0), (None, 1)])
def test_a_group_may_have_a_threshold_of_its_own(threshold: float | None, nodes: int) -> None:
    played = Played([group(initial=1, utilization_threshold=threshold), group("keep")], QUICK)
    played.cluster.deploy(workload(cpu_m=2400), 1)  # 60 % of a node
    played.at(3)
    played.cluster.deploy(workload("stay", cpu_m=500, safe_to_evict=False, node_selector={"group": "keep"}), 1)

    assert played.at(120).node_counts() == {"flexible": nodes, "keep": 1}


@pytest.mark.parametrize(("local", "left"), [(True, 0), (False, 1)])
def test_a_rest_after_growing_may_hold_for_the_group_alone_that_grew(local: bool, left: int) -> None:
    flags = quick(scale_down_delay_after_add_s=300, scale_down_delay_local=local)
    played = Played([group(initial=1), group("other")], flags)
    played.cluster.deploy(workload(node_selector={"group": "other"}), 1)

    assert played.at(120).node_counts() == {"flexible": left, "other": 1}


def test_a_group_that_rests_by_itself_counts_no_unneeded_time_meanwhile() -> None:
    played = Played([group()], quick(scale_down_delay_after_add_s=60, scale_down_delay_local=True))
    played.cluster.deploy(workload(), 1)
    grown = next(t for t in range(20) if played.at(t).node_counts()["flexible"])
    played.cluster.scale("api", 0)

    assert played.at(grown + 60 + 10).node_counts() == {"flexible": 1}  # 10 s unneeded, 5 s closed
    assert played.at(grown + 60 + 20).node_counts() == {"flexible": 0}


def test_a_pod_that_fills_a_node_exactly_gets_none_from_a_group_that_was_never_seen() -> None:
    played = Played([group(template_less_cpu_m=100)], QUICK)
    played.cluster.deploy(workload(cpu_m=4000), 1)
    assert played.at(60).node_counts() == {"flexible": 0}

    played.cluster.deploy(workload("small", cpu_m=100), 1)
    assert played.at(100).node_counts() == {"flexible": 1}
    assert played.at(150).node_counts() == {"flexible": 2}  # a node was seen for a minute
    assert len(running(played.cluster, "api")) == 1


def test_a_node_stands_for_its_group_once_it_was_seen_for_more_than_a_minute() -> None:
    shape = group(template_less_cpu_m=100)
    templates, node = Templates([shape]), Node("flexible-1", shape, 0.0, 10.0, Room(shape), ready=True)
    templates.learn([node], 70)
    assert (templates.room(shape).cpu_m, templates.next_seen) == (3900, 70)

    templates.learn([node], 70.1)

    assert (templates.room(shape).cpu_m, templates.next_seen) == (4000, None)


# --- drains -----------------------------------------------------------------------------------------------------------


def between_two_evictions(seed: int) -> float:
    played = Played([group(initial=1), group("keep")], QUICK, seed=seed)
    played.cluster.deploy(workload(cpu_m=500, pdb_max_unavailable=1, startup_s=0.1), 2)
    played.at(5)
    stay = workload("stay", cpu_m=2500, safe_to_evict=False, node_selector={"group": "keep"})
    played.cluster.deploy(stay, 1)
    first, second = played.at(300).evictions
    return second.at - first.at


def test_evictions_that_meet_at_a_budget_are_tried_again_by_the_api_server_or_else_by_the_autoscaler() -> None:
    gaps = sorted(round(between_two_evictions(seed)) for seed in range(12))

    assert set(gaps) == {1, 10}  # half a second, and ten


# --- looks ------------------------------------------------------------------------------------------------------------


def test_looks_follow_each_other_at_once_until_the_client_has_sent_its_share() -> None:
    requests = ApiRateLimiter(scan_interval_s=1.0)

    assert [requests.status(0.0) for _ in range(5)] == [0.0] * 5
    assert requests.status(0.0) > 0
    assert requests.status(100.0) == 0.0


def test_events_for_many_pods_make_looks_slow_but_not_slower_than_so_much() -> None:
    requests = ApiRateLimiter(scan_interval_s=1.0)
    requests.events(0.0, 50)

    assert requests.status(0.1) == LONGEST_STATUS_S


# --- why nodes were kept ----------------------------------------------------------------------------------------------


def seconds(cluster: ClusterModel) -> dict[RetainedNode, int]:
    return {kept: round(span) for kept, span in cluster.retained_seconds().items() if round(span)}


def test_the_account_of_reasons_adds_up_to_what_is_billed() -> None:
    played = Played([group(initial=2, boot_s=20), group("least", min=1, initial=1)], QUICK)
    played.cluster.deploy(workload(cpu_m=1500, pdb_max_unavailable=0), 5)
    played.at(100)
    played.cluster.scale("api", 1)
    cluster = played.at(400)

    assert sum(cluster.retained_seconds().values()) == pytest.approx(sum(cluster.billed_seconds().values()), abs=10)


def test_a_blocked_node_names_whose_pod_blocks_it_and_a_group_at_its_minimum_says_so() -> None:
    played = Played([group(initial=1), group("least", min=1, initial=1)], QUICK)
    played.cluster.deploy(workload(cpu_m=500, pdb_max_unavailable=0, node_selector={"group": "flexible"}), 1)
    before = seconds(played.at(100))
    after = seconds(played.at(700))

    blocked, least = RetainedNode("flexible", DrainBlock.BUDGET, "api"), RetainedNode("least", Retention.MINIMUM)
    assert {kept: after[kept] - before[kept] for kept in after if after[kept] != before.get(kept)} == {
        blocked: 600,
        least: 600,
    }


def test_use_waiting_and_leaving_are_told_apart() -> None:
    played = Played([group(initial=1)], QUICK)
    played.cluster.deploy(workload(cpu_m=3000), 1)
    played.at(50)
    played.cluster.scale("api", 0)
    values = {kept.why: span for kept, span in seconds(played.at(200)).items()}

    assert values[Retention.IN_USE] == pytest.approx(50, abs=2)
    assert values[Retention.NOT_YET] == pytest.approx(10, abs=2)
    assert values[Retention.GOING] == pytest.approx(5, abs=2)


def test_a_model_without_autoscaler_has_no_reasons_to_tell() -> None:
    assert Played([group(initial=3)]).at(100).retained_seconds() == {}


def test_a_group_that_rests_still_tells_what_would_keep_its_nodes_anyway() -> None:
    played = Played([group()], quick(scale_down_delay_after_add_s=900, scale_down_delay_local=True))
    played.cluster.deploy(workload("big", cpu_m=3000), 1)
    played.cluster.deploy(workload("held", cpu_m=1500, pdb_max_unavailable=0), 1)
    played.cluster.deploy(workload("gone", cpu_m=3900), 1)
    played.at(100)
    played.cluster.scale("gone", 0)
    result = seconds(played.at(500))

    assert {kept: span // 100 for kept, span in result.items() if span > 100} == {
        RetainedNode("flexible", Retention.IN_USE): 5,  # the big one's, and until its pod left the other's
        RetainedNode("flexible", DrainBlock.BUDGET, "held"): 4,
        RetainedNode("flexible", Retention.RESTING): 4,
    }
