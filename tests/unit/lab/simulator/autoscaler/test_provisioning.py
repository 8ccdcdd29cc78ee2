"""Launches that are too late: when they are given up, and how long their group pauses."""

import math
from dataclasses import replace

import pytest

from ebbtide.lab.simulator.cluster import AutoscalerFlags, GroupModel, Node
from ebbtide.lab.simulator.cluster.autoscaler.provisioning import Provisioning
from ebbtide.lab.simulator.cluster.state import ClusterState, Room

GROUP = GroupModel(name="gpu", min=0, max=9, cpu_m=4000, memory_mib=16384)
LIMIT = 900.0


class Machines:
    """A group whose launches never arrive, unless a test says so."""

    def __init__(self, group: GroupModel = GROUP) -> None:
        self.state = ClusterState({"gpu": group})
        self.counts = {"gpu": 0}
        self.group = group
        self.watch = Provisioning(self.state, self, AutoscalerFlags(max_node_provision_s=LIMIT))

    def launch(self, now: float) -> Node:
        node = Node(f"gpu-{now:g}", self.group, now, math.inf, Room(self.group))
        self.state.nodes[node.name] = self.state.uncertain[node.name] = node
        self.counts["gpu"] += 1
        return node

    def terminate(self, node: Node) -> None:
        del self.state.nodes[node.name]
        self.counts[node.group] -= 1

    def fail_at(self, now: float) -> None:
        self.launch(now - LIMIT)
        self.watch.update(now)

    def pause_s(self, since: float) -> float:
        """How long the group pauses from `since` on, to a second."""
        return next(s for s in range(5000) if not self.watch.paused("gpu", since + s)) - 1


def test_a_launch_is_given_up_at_its_limit_and_not_before() -> None:
    machines = Machines()
    machines.launch(0.0)

    machines.watch.update(LIMIT - 1)
    before = dict(machines.counts)
    assert machines.watch.next_timer(LIMIT - 1) == LIMIT
    machines.watch.update(LIMIT)

    assert (before, machines.counts) == ({"gpu": 1}, {"gpu": 0})
    assert machines.state.uncertain == {}


def test_a_node_that_arrived_is_watched_no_more() -> None:
    machines = Machines()
    machines.launch(0.0).ready = True
    machines.watch.update(10.0)
    machines.watch.update(2 * LIMIT)

    assert machines.counts == {"gpu": 1}
    assert machines.state.uncertain == {}
    assert machines.watch.next_timer(10.0) is None


def test_a_group_never_falls_below_its_minimum() -> None:
    machines = Machines(replace(GROUP, min=1))
    machines.launch(0.0)
    machines.watch.update(LIMIT)
    kept = dict(machines.counts)
    machines.launch(LIMIT)
    machines.watch.update(LIMIT + 1)

    assert kept == {"gpu": 1}
    assert list(machines.state.nodes) == [f"gpu-{LIMIT:g}"]


@pytest.mark.parametrize(
    ("again_after", "lasts"),
    [
        (100.0, 300),  # within the pause: several machines failed together
        (301.0, 600),
        (3 * 3600.0 + 1, 300),  # long forgotten
    ],
)
def test_a_pause_is_doubled_only_by_a_failure_soon_after_it(again_after: float, lasts: int) -> None:
    machines = Machines()
    machines.fail_at(LIMIT)
    assert machines.pause_s(LIMIT) == 300

    machines.fail_at(LIMIT + again_after)

    assert machines.pause_s(LIMIT + again_after) == lasts


def test_a_pause_lasts_half_an_hour_at_most() -> None:
    machines, now = Machines(), LIMIT
    for _ in range(6):
        machines.fail_at(now)
        now += machines.pause_s(now) + 2

    machines.fail_at(now)
    assert machines.pause_s(now) == 1800


def test_a_scale_up_that_all_arrives_ends_a_pause() -> None:
    machines = Machines()
    machines.fail_at(LIMIT)
    first, second = machines.launch(LIMIT + 1), machines.launch(LIMIT + 1)
    first.ready = True
    machines.watch.update(LIMIT + 60)
    one_is_missing = machines.watch.paused("gpu", LIMIT + 60)
    second.ready = True
    machines.watch.update(LIMIT + 70)

    assert one_is_missing
    assert not machines.watch.paused("gpu", LIMIT + 70)


def test_a_machine_of_an_earlier_scale_up_is_given_up_without_a_pause() -> None:
    machines = Machines()
    machines.launch(0.0)
    machines.launch(500.0)
    machines.watch.update(LIMIT)

    assert machines.counts == {"gpu": 1}
    assert not machines.watch.paused("gpu", LIMIT)


def test_a_machine_that_is_leaving_is_left_alone() -> None:
    machines = Machines()
    machines.launch(0.0).leaving = True
    machines.watch.update(2 * LIMIT)

    assert machines.counts == {"gpu": 1}
