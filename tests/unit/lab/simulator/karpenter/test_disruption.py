"""Which nodes Karpenter removes, and when: its loop, the 15 s, the five minutes, budgets, and pods that block."""

import random
from collections.abc import Sequence

import pytest

from ebbtide.lab.simulator.cluster import DrainBlock, Node
from ebbtide.lab.simulator.cluster.karpenter import DisruptionBudget, DisruptionReason
from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.state import ClusterState, Room
from ebbtide.lab.simulator.timeline import Timeline
from tests.builders.cluster import Played, Witness, homes, node_pool, workload

OPEN = (DisruptionBudget(percent=100),)
BY_DAY = (
    DisruptionBudget(nodes=0, reasons=frozenset([DisruptionReason.UNDERUTILIZED])),
    DisruptionBudget(percent=100, reasons=frozenset([DisruptionReason.EMPTY])),
)


def spread_out(
    api: int = 3,
    fillers: int = 3,
    budgets: Sequence[DisruptionBudget] = OPEN,
    pdb: int | None = 1,
    do_not_disrupt: bool = False,
) -> Played:
    """Nodes of 8 CPU, one for each filler of 7; the small pods that came with them remain, and would fit on one."""
    pool = node_pool(sizes=["2xlarge"], budgets=tuple(budgets))
    played = Played([], node_pools=[pool], listener=Witness(1.0))
    played.cluster.deploy(workload("filler", cpu_m=7000, pdb_max_unavailable=0), fillers)
    played.cluster.deploy(workload(cpu_m=1000, pdb_max_unavailable=pdb, do_not_disrupt=do_not_disrupt), api)
    played.at(30)
    played.cluster.scale("filler", 0)
    return played


def commands(played: Played) -> list[tuple[str, int]]:
    assert played.cluster.karpenter is not None
    return [(command.reason.value, len(command.removed)) for command in played.cluster.karpenter.commands]


def first_command_at(played: Played) -> float:
    assert played.cluster.karpenter is not None
    return played.cluster.karpenter.commands[0].at


def test_nodes_are_emptied_together_but_pods_leave_as_their_budget_says() -> None:
    played = spread_out()
    assert len({node.name for node in homes(played.at(35), "api")}) == 3

    cluster = played.at(120)

    assert commands(played) == [("Underutilized", 2)]
    assert len({node.name for node in homes(cluster, "api")}) == len(cluster.nodes()) == 1


def test_a_pass_every_ten_seconds_waits_fifteen_before_it_acts() -> None:
    played = spread_out()
    played.at(120)

    assert 45 <= first_command_at(played) <= 61


def test_by_day_nothing_but_empty_nodes_goes() -> None:
    played = spread_out(fillers=4, budgets=BY_DAY)
    cluster = played.at(400)

    assert commands(played) == [("Empty", 1)]
    assert cluster.evictions == []
    assert len(cluster.nodes()) == 3


def test_ten_percent_is_one_node_at_a_time_rounded_up() -> None:
    played = spread_out(api=0, fillers=6, budgets=(DisruptionBudget(percent=10),))
    played.at(150)

    assert commands(played)[:3] == [("Empty", 1)] * 3


def test_half_of_the_nodes_go_in_one_command() -> None:
    played = spread_out(api=0, fillers=6, budgets=(DisruptionBudget(percent=50),))
    played.at(70)

    assert commands(played)[0] == ("Empty", 3)


def test_a_node_with_a_pod_that_may_not_be_evicted_stays() -> None:
    for played in (spread_out(pdb=0), spread_out(pdb=None, do_not_disrupt=True)):
        assert len(played.at(700).nodes()) == 3
        assert played.cluster.evictions == []


def test_a_budget_that_closes_within_the_fifteen_seconds_stops_the_removal() -> None:
    played = spread_out()
    played.timeline.at(44, lambda: played.cluster.set_node_budgets("general", BY_DAY))
    played.at(400)

    assert commands(played) == []
    assert not any(node.leaving for node in played.cluster.nodes())


def rested(changed_after_s: float | None) -> float:
    """A node that found no move rests; at 100 s the budget that blocked the others opens."""
    played = spread_out(pdb=0)
    played.cluster.deploy(workload("free", cpu_m=500, memory_mib=100), 1)
    played.cluster.deploy(workload("lone", cpu_m=7500, memory_mib=100), 1)  # a candidate that has no cheaper place
    played.timeline.at(100, lambda: played.cluster.set_budget("api", 1))
    if changed_after_s is not None:
        played.timeline.at(100 + changed_after_s, lambda: played.cluster.set_node_budgets("general", OPEN))
    played.at(600)
    return first_command_at(played)


def test_an_opened_budget_of_pods_moves_nothing_for_minutes_unless_the_node_pool_changes_too() -> None:
    assert rested(None) > 300
    assert rested(0.5) < 130


def test_the_lowest_deletion_cost_makes_a_running_pods_node_empty() -> None:
    played = spread_out(api=1, fillers=1, budgets=BY_DAY, pdb=None)
    played.cluster.annotate("api-1", -2147483647)
    played.at(70)
    assert commands(played) == [("Empty", 1)]

    played = spread_out(api=1, fillers=1, budgets=BY_DAY, pdb=None)
    played.cluster.annotate("api-1", -1)
    played.at(70)
    assert commands(played) == []


def test_a_cheaper_node_is_ready_before_the_first_pod_is_evicted() -> None:
    played = Played([], node_pools=[node_pool(boot_s=25.0)], listener=Witness(1.0))
    played.cluster.deploy(workload("filler", cpu_m=12000), 1)
    played.cluster.deploy(workload(cpu_m=1000, pdb_max_unavailable=1), 1)
    played.at(60)
    played.cluster.scale("filler", 0)

    cluster = played.at(200)

    (eviction,) = cluster.evictions
    assert [node.group for node in cluster.nodes()] == ["general/large"]
    assert eviction.at >= cluster.nodes()[0].ready_at
    assert eviction.at - first_command_at(played) >= 25


def test_at_its_limit_a_node_pool_replaces_a_node_by_a_smaller_one() -> None:
    played = Played([], node_pools=[node_pool(limits={"cpu_m": 16000})], listener=Witness(1.0))
    played.cluster.deploy(workload("filler", cpu_m=12000), 1)
    played.cluster.deploy(workload(cpu_m=1000, pdb_max_unavailable=1), 1)
    assert [node.group for node in played.at(30).nodes()] == ["general/4xlarge"]
    played.cluster.scale("filler", 0)

    assert [node.group for node in played.at(120).nodes()] == ["general/large"]


def test_a_pod_is_not_moved_to_a_node_within_its_consolidate_after() -> None:
    """The first node is a candidate from 130 s on and has no place for its pod: a pod left the second one at 90 s. The
    end of that wait is no change of the cluster, so the next look comes five minutes after the last change.
    """
    pool = node_pool(sizes=["2xlarge"], consolidate_after_s=100)
    played = Played([], node_pools=[pool], listener=Witness(1.0))
    played.cluster.deploy(workload("filler", cpu_m=7000), 2)
    played.cluster.deploy(workload(cpu_m=1000), 1)
    played.at(15)
    played.cluster.deploy(workload("other", cpu_m=1000), 1)
    played.at(30)
    played.cluster.scale("filler", 1)
    played.at(90)
    played.cluster.scale("filler", 0)

    assert len({node.name for name in ("api", "other") for node in homes(played.cluster, name)}) == 2
    played.at(380)
    assert commands(played) == []
    played.at(430)
    assert commands(played) == [("Underutilized", 1)]


def test_without_its_replacement_a_node_is_left_alone_again() -> None:
    played = Played([], node_pools=[node_pool(boot_s=25.0)], listener=Witness(1.0))
    played.cluster.deploy(workload("filler", cpu_m=12000), 1)
    played.cluster.deploy(workload(cpu_m=1000), 1)
    played.at(60)
    played.cluster.scale("filler", 0)
    while not any(node.leaving for node in played.cluster.nodes()):
        played.at(played.timeline.now + 1)
    machines = played.cluster._machines  # pyright: ignore[reportPrivateUsage]
    machines.terminate(played.cluster.nodes()[-1])

    assert [node.leaving for node in played.at(played.timeline.now + 2).nodes()] == [False]


def test_consolidate_after_counts_from_the_last_pod_event() -> None:
    pool = node_pool(sizes=["large"], consolidate_after_s=100)
    played = Played([], node_pools=[pool], listener=Witness(1.0))
    played.cluster.deploy(workload(), 1)
    played.at(200)
    played.cluster.scale("api", 0)

    assert played.at(299).nodes()
    assert not played.at(340).nodes()
    assert 315 <= first_command_at(played) <= 326


def test_evictions_and_what_keeps_nodes_are_accounted_for() -> None:
    played = spread_out(pdb=0)

    seconds = played.at(400).retained_seconds()

    assert {(node.workload, str(node.why)) for node in seconds} >= {("api", str(DrainBlock.BUDGET))}


def test_of_nodes_of_one_price_the_one_with_fewest_pods_goes_first() -> None:
    played = Played([], node_pools=[node_pool(sizes=["2xlarge"], budgets=(DisruptionBudget(nodes=1),))])
    played.cluster.deploy(workload("filler", cpu_m=5000), 1)
    played.cluster.deploy(workload("many", cpu_m=1000, memory_mib=100), 3)
    played.at(10)
    played.cluster.deploy(workload("other", cpu_m=7000), 1)
    played.cluster.deploy(workload("few", cpu_m=1000, memory_mib=100), 1)
    played.at(20)
    for name in ("filler", "other"):
        played.cluster.scale(name, 0)

    assert {eviction.workload for eviction in played.at(120).evictions} == {"few"}


def test_a_node_that_boots_is_no_place_for_the_pods_of_another() -> None:
    played = Played([], node_pools=[node_pool(sizes=["2xlarge", "4xlarge"], boot_s=120.0)])
    played.cluster.deploy(workload(cpu_m=1000), 1)
    played.at(200)
    played.cluster.deploy(workload("big", cpu_m=12000), 1)
    played.at(210)
    played.cluster.scale("big", 0)
    played.at(215)
    played.cluster.deploy(workload("later", cpu_m=9000), 1)

    assert commands(played) == []
    played.at(500)
    assert commands(played) == [("Underutilized", 1)]
    assert first_command_at(played) > 320


@pytest.mark.parametrize(("stops_after_s", "node_stays_s"), [(2.0, 5), (20.0, 20)])
def test_a_drained_node_stays_until_its_last_pod_ended_and_at_least_five_seconds(
    stops_after_s: float, node_stays_s: float
) -> None:
    witness = Witness(stops_after_s)
    played = Played([], node_pools=[node_pool(sizes=["2xlarge"])], listener=witness)
    played.cluster.deploy(workload("filler", cpu_m=7000), 2)
    played.cluster.deploy(workload(cpu_m=1000, pdb_max_unavailable=1), 2)
    played.at(30)
    played.cluster.scale("filler", 0)
    left_at = next(tenths / 10 for tenths in range(300, 1200) if len(played.at(tenths / 10).nodes()) == 1)
    (eviction,) = played.cluster.evictions

    assert witness.killed == []
    assert node_stays_s <= left_at - eviction.at < node_stays_s + 1.2  # a look each second, and one of the test


def test_a_nominated_node_is_kept_for_twenty_seconds() -> None:
    timeline, pool = Timeline(), node_pool(sizes=["large"])
    shape = pool.types[0].shape
    fleet = Fleet(timeline, ClusterState({shape.name: shape}), {pool.name: pool}, random.Random(0))
    nominated, other = (Node(name, shape, 0.0, 1.0, Room(shape)) for name in ("nominated", "other"))
    timeline.run_until(100)

    fleet.nominate(nominated)

    assert (fleet.nominated_until(nominated), fleet.nominated_until(other)) == (120, 0)
