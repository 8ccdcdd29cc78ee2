"""Pods with a disk of their own: the zone of the first node is the only one they ever run in."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import ClusterModel, GroupModel, Node, Pod, StopReason
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.timeline import Timeline
from tests.builders.cluster import QUICK, Played, Witness, group, homes, quick, running, waiting, workload
from tests.counts import examples

ZONES = ("a", "b")


def zoned(**changes: Any) -> GroupModel:
    """Room for two pods of `workload()` on each node."""
    values: dict[str, Any] = {"zones": ZONES, "boot_s": 20.0, **changes}
    return group(**values)


def nodes_by_zone(cluster: ClusterModel) -> dict[str, int]:
    values = [node.zone for node in cluster.nodes()]
    return {zone: values.count(zone) for zone in sorted(set(values))}


def stop(cluster: ClusterModel, pod: Pod) -> None:
    cluster._lifecycle.stop(pod, StopReason.EVICTED, 30.0)  # pyright: ignore[reportPrivateUsage] - as an eviction by hand


def home(cluster: ClusterModel, name: str = "db") -> Node:
    (node,) = homes(cluster, name)
    return node


def test_nodes_come_in_turn_and_no_zone_gets_more_than_its_part() -> None:
    shape = zoned(zones=("a", "b", "c"), max=7, initial=7)

    assert nodes_by_zone(Played([zoned(initial=3)]).at(0.0)) == {"a": 2, "b": 1}
    assert nodes_by_zone(Played([shape]).at(0.0)) == {"a": 3, "b": 2, "c": 2}
    assert [shape.most_in(zone) for zone in shape.zones] == [3, 2, 2]


def test_without_zones_nobody_asks_where_a_node_is() -> None:
    assert nodes_by_zone(Played([group(initial=2)]).at(0.0)) == {"": 2}


def test_a_pod_comes_back_to_the_zone_of_its_disk_though_the_other_node_is_as_good() -> None:
    played = Played([zoned(initial=2, min=2)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True), 1)
    first = home(played.at(5.0))
    for _ in range(10):
        stop(cluster, cluster.pods("db")[0])
        played.at(played.timeline.now + 20)

        assert home(cluster) is first


def test_a_new_pod_waits_until_the_disk_is_free_and_keeps_it_through_fewer_replicas() -> None:
    played = Played([zoned(initial=4, min=4)], quick(), listener=Witness(lasts=10.0))
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True), 3)
    before = {pod.slot: pod.zone for pod in running(played.at(5.0), "db")}
    stop(cluster, cluster.pods("db")[1])

    assert len(played.at(14.0).pods("db")) == 3  # the old one included
    assert len(running(played.at(17.0), "db")) == 3
    cluster.scale("db", 0)
    assert played.at(40.0).pods("db") == ()
    cluster.scale("db", 3)
    assert {pod.slot: pod.zone for pod in running(played.at(50.0), "db")} == before
    assert set(before) == {0, 1, 2}


def test_pods_without_a_disk_are_replaced_at_once() -> None:
    played = Played([zoned(initial=4, min=4)], quick(), listener=Witness(lasts=10.0))
    cluster = played.at(0.0)
    cluster.deploy(workload("api"), 3)
    stop(cluster, played.at(5.0).pods("api")[1])

    assert len(played.at(14.0).pods("api")) == 4


def test_a_drain_is_held_where_the_only_free_node_is_in_another_zone() -> None:
    played = Played([zoned(initial=2, min=1)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True, cpu_m=1000, pdb_max_unavailable=1), 1)
    first = home(played.at(0.3))
    cluster.deploy(workload("mail", pdb_max_unavailable=0), 1)  # on the other node, which has room for the database
    after = played.at(1000.0)

    assert [node.zone for node in homes(after, "mail")] != [first.zone]
    assert home(after) is first
    assert after.evictions == []


def test_the_same_drain_goes_on_for_a_pod_without_a_disk() -> None:
    played = Played([zoned(initial=2, min=1)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", cpu_m=1000, pdb_max_unavailable=1), 1)
    played.at(0.3)
    cluster.deploy(workload("mail", pdb_max_unavailable=0), 1)

    assert len(played.at(1000.0).nodes()) == 1


def test_a_drain_goes_on_where_a_node_of_the_same_zone_has_room() -> None:
    played = Played([zoned(initial=3, min=1)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True, cpu_m=1000, spreads=True, pdb_max_unavailable=0), 3)
    zones = {pod.name: pod.zone for pod in running(played.at(5.0), "db")}
    assert sorted(zones.values()) == ["a", "a", "b"]
    cluster.set_budget("db", 1)
    after = played.at(1000.0)

    assert sorted(pod.zone for pod in running(after, "db")) == ["a", "a", "b"]
    assert nodes_by_zone(after) == {"a": 1, "b": 1}


@pytest.mark.parametrize("seed", range(6))
def test_a_pod_whose_zone_is_full_gets_a_new_node_there(seed: int) -> None:
    played = Played([zoned(initial=2, min=2)], quick(), seed=seed)
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True), 1)
    old = home(played.at(5.0))
    fill = workload("mail", cpu_m=4000, memory_mib=100)
    cluster.deploy(fill, 1)  # on the other node, where nothing is
    played.at(6.0)
    cluster.scale("db", 0)
    played.at(7.0)
    cluster.scale("mail", 2)
    played.at(8.0)
    cluster.scale("db", 1)
    new = home(played.at(60.0))

    assert (new.zone, new.name) == (old.zone, "flexible-3")  # the first that was launched


@pytest.mark.parametrize("seed", range(8))
def test_each_of_two_zones_that_are_full_gets_one_node(seed: int) -> None:
    played = Played([zoned(initial=2, min=2)], quick(), seed=seed)
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True, cpu_m=3000), 2)
    played.at(5.0)
    cluster.scale("db", 0)
    played.at(10.0)
    cluster.deploy(workload("mail", cpu_m=4000, memory_mib=100), 2)
    played.at(15.0)
    cluster.scale("db", 2)
    after = played.at(45.0)

    assert nodes_by_zone(after) == {"a": 2, "b": 2}
    assert len(running(after, "db")) == 2


@pytest.mark.parametrize("seed", range(6))
def test_a_pod_whose_zone_is_full_holds_up_none_of_another_zone(seed: int) -> None:
    played = Played([zoned(initial=2, min=2, max=2)], quick(), seed=seed)
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True), 2)
    played.at(5.0)
    cluster.scale("db", 0)
    played.at(10.0)
    cluster.deploy(workload("mail", cpu_m=4000, memory_mib=100), 1)
    (full,) = homes(played.at(15.0), "mail")
    cluster.scale("db", 2)
    after = played.at(16.0)

    assert [pod.zone for pod in waiting(after, "db")] == [full.zone]
    assert len(running(after, "db")) == 1


def test_a_zone_at_its_most_leaves_the_pod_waiting_though_the_group_may_grow() -> None:
    played = Played([zoned(initial=2, min=2, max=3)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True, node_selector={"group": "flexible"}), 2)
    disks = {pod.zone for pod in running(played.at(5.0), "db")}
    assert disks == {"a", "b"}
    cluster.scale("db", 0)
    played.at(10.0)
    cluster.deploy(workload("mail", cpu_m=4000, memory_mib=100), 2)
    played.at(15.0)
    cluster.scale("db", 2)
    after = played.at(200.0)

    assert [pod.zone for pod in waiting(after, "db")] == ["b"]  # of three nodes zone a may have two, zone b one
    assert nodes_by_zone(after) == {"a": 2, "b": 1}


def test_a_node_that_is_taken_back_is_replaced_in_its_zone() -> None:
    timeline = Timeline()
    accidents = Accidents(interruptions_per_hour={"flexible": 30.0})
    shape = zoned(initial=2, min=2, max=2)
    cluster = ClusterModel(timeline, [shape], QUICK, accidents=accidents)
    cluster.deploy(workload("db", disks=True), 2)
    timeline.run_until(20_000.0)

    assert nodes_by_zone(cluster) == {"a": 1, "b": 1}
    assert len({node.name for node in cluster.nodes()} & {"flexible-1", "flexible-2"}) == 0


def test_each_zone_grows_by_as_many_nodes_as_its_pods_need() -> None:
    played = Played([zoned(initial=3, min=3)], quick())
    cluster = played.at(0.0)
    cluster.deploy(workload("db", disks=True, cpu_m=3000), 3)
    assert sorted(pod.zone for pod in running(played.at(5.0), "db")) == ["a", "a", "b"]
    cluster.scale("db", 0)
    played.at(10.0)
    cluster.deploy(workload("mail", cpu_m=4000, memory_mib=100), 3)
    played.at(15.0)
    cluster.scale("db", 3)
    after = played.at(60.0)

    assert len(running(after, "db")) == 3
    assert nodes_by_zone(after) == {"a": 4, "b": 2}


class Moves:
    """Where pods ran, one step after the other."""

    def __init__(self) -> None:
        self.zones: dict[tuple[str, int | None], set[str]] = {}

    def pod_running(self, pod: Pod) -> None:
        assert pod.node is not None
        self.zones.setdefault((pod.workload, pod.slot), set()).add(pod.node.zone)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - the listener's signature
        return 1.0

    def pod_gone(self, pod: Pod, killed: bool) -> None: ...

    def nodes_changed(self) -> None: ...


@settings(max_examples=examples(40), deadline=None)
@given(
    zones=st.sampled_from([("a", "b"), ("a", "b", "c")]),
    pods=st.integers(1, 5),
    steps=st.lists(st.sampled_from(["open", "shut", "more", "fewer", "busy", "idle"]), max_size=12),
    rate=st.sampled_from([0.0, 5.0]),
    seed=st.integers(0, 999),
)
def test_whatever_happens_no_disk_has_pods_in_two_zones(
    zones: tuple[str, ...], pods: int, steps: list[str], rate: float, seed: int
) -> None:
    timeline, moves = Timeline(), Moves()
    accidents = Accidents(interruptions_per_hour={"flexible": rate}) if rate else None
    shape = zoned(zones=zones, min=0, max=9)
    cluster = ClusterModel(timeline, [shape], QUICK, seed=seed, listener=moves, accidents=accidents)
    cluster.deploy(workload("db", disks=True, cpu_m=1000, pdb_max_unavailable=0), pods)
    cluster.deploy(workload("mail", cpu_m=3000), 1)
    for step in steps:
        timeline.run_until(timeline.now + 120)
        if step in ("open", "shut"):
            cluster.set_budget("db", int(step == "open"))
        if step in ("more", "fewer"):
            cluster.scale("db", pods + (step == "more"))
        if step in ("busy", "idle"):
            cluster.scale("mail", 4 if step == "busy" else 0)
    timeline.run_until(timeline.now + 4000)

    assert all(len(result) == 1 and result <= set(zones) for (name, _), result in moves.zones.items() if name == "db")
    assert all(pod.node is None or pod.node.zone == pod.zone for pod in cluster.pods("db"))
    if not rate:
        assert len(running(cluster, "db")) == cluster.replicas("db")
