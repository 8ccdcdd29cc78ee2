"""Machines that fail: boots that never end or take long, and spot nodes that are taken back."""

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import AutoscalerFlags, ClusterModel, GroupModel, Pod, StopReason, WorkloadModel
from ebbtide.lab.simulator.cluster.accidents import NOTICE_S, Interruptions
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Room
from ebbtide.lab.simulator.timeline import Timeline

GROUP = GroupModel(name="spot", min=0, max=5, cpu_m=4000, memory_mib=16384, boot_s=60.0)
WORKER = WorkloadModel(name="train", category="worker", cpu_m=4000, memory_mib=4096, grace_s=3600.0, startup_s=10.0)
NEVER = Accidents(failed_boots=1.0)
HOUR = 3600.0


@dataclass
class Watched:
    """Notes what becomes of pods; a pod that is told to stop takes `stop_s`."""

    stop_s: float = 30.0
    started: list[float] = field(default_factory=list[float])
    stopped: list[tuple[float, StopReason]] = field(default_factory=list[tuple[float, StopReason]])
    killed: list[float] = field(default_factory=list[float])
    timeline: Timeline = field(default_factory=Timeline)

    def pod_running(self, pod: Pod) -> None:  # noqa: ARG002 - the listener's signature
        self.started.append(self.timeline.now)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:  # noqa: ARG002 - the listener's signature
        self.stopped.append((self.timeline.now, why))
        return self.stop_s

    def pod_gone(self, pod: Pod, killed: bool) -> None:  # noqa: ARG002 - the listener's signature
        if killed:
            self.killed.append(self.timeline.now)

    def nodes_changed(self) -> None: ...


class Recorded:
    """Machines that only note what they are told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def launch(self, group: GroupModel, *, zone: str = "") -> Node:
        self.calls.append(f"launch {group.name} in {zone}")
        return Node("new", group, 0.0, 0.0, Room(group))

    def close(self, node: Node) -> None:
        self.calls.append(f"close {node.name}")

    def evict(self, pod: Pod, grace_s: float, why: StopReason) -> bool:
        raise AssertionError(f"{pod.name}: evicted with {grace_s} s, {why}")

    def cut(self, pod: Pod) -> None:
        raise AssertionError(f"{pod.name}: cut off")

    def terminate(self, node: Node) -> None:
        self.calls.append(f"terminate {node.name}")

    def stop(self, pod: Pod, why: StopReason, grace_s: float) -> None:
        self.calls.append(f"stop {pod.name} {why.value} {grace_s:g}")


def cluster(
    accidents: Accidents | None, *, group: GroupModel = GROUP, replicas: int = 1, seed: int = 1, stop_s: float = 30.0
) -> tuple[ClusterModel, Watched]:
    watched = Watched(stop_s)
    model = ClusterModel(watched.timeline, [group], AutoscalerFlags(), seed=seed, listener=watched, accidents=accidents)
    model.deploy(WORKER, replicas)
    return model, watched


def launches(model: ClusterModel, watched: Watched, until: float) -> list[float]:
    """When nodes were launched, seen from outside every 5 s."""
    seen: dict[str, float] = {}
    while watched.timeline.now < until:
        watched.timeline.run_until(watched.timeline.now + 5)
        seen |= {node.name: node.launched_at for node in model.nodes()}
    return sorted(seen.values())


def test_a_launch_that_never_becomes_a_node_is_given_up_and_tried_again_after_longer_and_longer_pauses() -> None:
    model, watched = cluster(NEVER)

    at = launches(model, watched, 4 * HOUR)

    between = [after - before for before, after in pairwise(at)]
    expected = [900 + pause for pause in (300, 600, 1200, 1800, 1800)]
    assert between[:5] == [pytest.approx(wait, abs=25) for wait in expected]
    assert watched.started == []


def test_a_machine_that_never_becomes_a_node_is_paid_for_until_it_is_given_up() -> None:
    model, watched = cluster(NEVER)
    watched.timeline.run_until(1100)

    assert model.node_counts() == {"spot": 0}
    assert model.billed_seconds()["spot"] == pytest.approx(900, abs=15)


def test_another_group_takes_over_while_one_pauses() -> None:
    watched = Watched()
    twin = replace(GROUP, name="twin", boot_s=1000.0, priority=-1)
    flags = AutoscalerFlags(expander="priority")
    model = ClusterModel(
        watched.timeline,
        [replace(GROUP, boot_s=1000.0), twin],
        flags,
        listener=watched,
        accidents=Accidents(slow_boots=1e-9),
    )
    model.deploy(WORKER, 1)
    watched.timeline.run_until(100)
    given_up = model.nodes()[0]
    watched.timeline.run_until(1050)

    assert model.node_counts() == {"spot": 0, "twin": 1}
    assert not given_up.ready  # its time has come, and it is gone


def test_slow_boots_spread_around_the_groups_time() -> None:
    boots: list[float] = []
    for seed in range(200):
        model, watched = cluster(Accidents(slow_boots=0.5), seed=seed)
        watched.timeline.run_until(30)
        boots += [node.ready_at - node.launched_at for node in model.nodes()]

    boots.sort()
    assert boots[100] == pytest.approx(60, rel=0.15)
    assert boots[190] == pytest.approx(60 * math.exp(0.5 * 1.645), rel=0.25)


def test_the_first_pod_on_a_node_pulls_its_image() -> None:
    small = replace(WORKER, cpu_m=2000)
    watched = Watched()
    model = ClusterModel(
        watched.timeline,
        [replace(GROUP, min=1, initial=1)],
        AutoscalerFlags(),
        listener=watched,
        accidents=Accidents(image_pull_s=90.0),
    )
    model.deploy(small, 1)
    watched.timeline.run_until(200)
    model.scale("train", 2)
    watched.timeline.run_until(400)

    assert watched.started == [pytest.approx(100, abs=1), pytest.approx(210, abs=1)]


def interrupted(stop_s: float, grace_s: float = 3600.0) -> tuple[ClusterModel, Watched]:
    """A busy spot node that is taken back early; the next one stays."""
    watched = Watched(stop_s)
    accidents = Accidents(interruptions_per_hour={"spot": 6.0})
    model = ClusterModel(watched.timeline, [GROUP], AutoscalerFlags(), seed=4, listener=watched, accidents=accidents)
    model.deploy(replace(WORKER, grace_s=grace_s), 1)
    while not watched.stopped:
        watched.timeline.run_until(watched.timeline.now + 1)
    return model, watched


def test_pods_are_told_two_minutes_before_their_spot_node_goes() -> None:
    model, watched = interrupted(stop_s=30.0)
    notice, why = watched.stopped[0]
    first = model.nodes()[0]
    watched.timeline.run_until(notice + NOTICE_S - 1)
    before = model.nodes()
    watched.timeline.run_until(notice + NOTICE_S + 1)

    assert why is StopReason.INTERRUPTED
    assert watched.killed == []
    assert first in before
    assert first not in model.nodes()


def test_what_has_not_ended_after_two_minutes_is_killed_whatever_its_grace() -> None:
    _, watched = interrupted(stop_s=3000.0)
    notice = watched.stopped[0][0]
    watched.timeline.run_until(notice + NOTICE_S + 1)

    assert watched.killed == [pytest.approx(notice + NOTICE_S)]


def taken_back(budget: int | None, missed: float = 0.0) -> tuple[ClusterModel, Watched]:
    """Two workers with a budget on one spot node, until its first pod is told or killed."""
    watched = Watched(stop_s=7.0)
    accidents = Accidents(interruptions_per_hour={"spot": 6.0}, missed_notices=missed)
    model = ClusterModel(watched.timeline, [GROUP], AutoscalerFlags(), seed=4, listener=watched, accidents=accidents)
    model.deploy(replace(WORKER, cpu_m=2000, pdb_max_unavailable=budget), 2)
    while not watched.stopped and not watched.killed:
        watched.timeline.run_until(watched.timeline.now + 1)
    return model, watched


def test_pods_whose_budget_is_closed_are_not_told_and_go_with_their_node() -> None:
    told, untold = taken_back(budget=None)[1], taken_back(budget=0)[1]

    assert len(told.stopped) == 2
    assert untold.stopped == []
    assert untold.killed == [pytest.approx(told.stopped[0][0] + NOTICE_S)] * 2


def test_a_budget_of_one_lets_the_second_pod_go_when_the_first_has_its_successor() -> None:
    _, watched = taken_back(budget=1)
    notice, _ = watched.stopped[0]
    watched.timeline.run_until(notice + NOTICE_S + 1)

    (_, _), (later, why) = watched.stopped
    successor = watched.started[2]
    assert why is StopReason.INTERRUPTED
    assert notice + 60 < successor < later <= successor + 5  # its node boots for a minute
    assert watched.killed == []


def test_a_refused_eviction_is_asked_for_again_every_five_seconds() -> None:
    model, watched = taken_back(budget=1)
    notice, _ = watched.stopped[0]
    watched.timeline.run_until(notice + 21)
    model.set_budget("train", 2)
    watched.timeline.run_until(notice + 26)

    assert [at for at, _ in watched.stopped] == [notice, pytest.approx(notice + 25)]


def test_pods_that_went_with_their_node_count_for_no_budget_any_more() -> None:
    """Else the next drain would take more of their successors than the budget says."""
    model, watched = taken_back(budget=0)
    model.set_budget("train", 1)
    while not watched.stopped:
        watched.timeline.run_until(watched.timeline.now + 1)

    assert len(watched.stopped) == 1


def test_of_a_missed_notice_nobody_is_told_and_the_node_goes_at_once() -> None:
    notice = taken_back(budget=None)[1].stopped[0][0]
    model, watched = taken_back(budget=None, missed=1.0)

    assert watched.stopped == []
    assert watched.killed == [pytest.approx(notice)] * 2
    watched.timeline.run_until(notice + 150)
    assert len(watched.started) == 4  # both run again
    assert all(pod.healthy for pod in model.pods("train"))


def test_a_node_without_pods_is_taken_back_and_replaced_as_well() -> None:
    model, watched = cluster(
        Accidents(interruptions_per_hour={"spot": 1.0}), group=replace(GROUP, min=1, initial=1), replicas=0
    )
    (first,) = model.nodes()
    watched.timeline.run_until(20 * HOUR)

    assert model.node_counts() == {"spot": 1}
    assert first not in model.nodes()


def test_a_node_on_its_way_out_is_left_to_the_autoscaler_and_asked_again_if_it_stays() -> None:
    timeline, machines = Timeline(), Recorded()
    state = ClusterState({"spot": GROUP})
    node = Node("spot-1", GROUP, 0.0, 0.0, Room(GROUP), leaving=True, zone="b")
    state.nodes[node.name] = node
    interruptions = Interruptions(timeline, state, Accidents(interruptions_per_hour={"spot": 60.0}), Random(1))
    interruptions.machines = interruptions.pods = machines
    interruptions.launched(node)
    timeline.run_until(HOUR)
    before = list(machines.calls)
    node.leaving = False
    timeline.run_until(2 * HOUR)

    assert before == []
    assert machines.calls == ["close spot-1", "terminate spot-1", "launch spot in b"]


def test_the_group_keeps_its_size_and_the_pod_gets_another_node() -> None:
    model, watched = interrupted(stop_s=30.0)
    notice = watched.stopped[0][0]
    watched.timeline.run_until(notice + NOTICE_S + 1)
    counts = model.node_counts()
    watched.timeline.run_until(notice + NOTICE_S + 200)

    assert counts["spot"] >= 1
    assert len(watched.started) >= 2


def test_groups_without_a_rate_are_never_interrupted() -> None:
    _, watched = cluster(Accidents(interruptions_per_hour={"other": 60.0}))
    watched.timeline.run_until(100 * HOUR)

    assert watched.stopped == []


def test_the_number_of_interruptions_is_that_of_the_rate() -> None:
    _, watched = cluster(Accidents(interruptions_per_hour={"spot": 0.5}), replicas=5, stop_s=5.0)
    watched.timeline.run_until(200 * HOUR)

    told = sum(why is StopReason.INTERRUPTED for _, why in watched.stopped)
    assert 0.5 * 1000 * 0.85 < told < 0.5 * 1000 * 1.15


def test_without_accidents_the_same_seed_draws_the_same_cluster() -> None:
    plain, plainly = cluster(None, replicas=3)
    calm, calmly = cluster(Accidents(), replicas=3)
    for watched in (plainly, calmly):
        watched.timeline.run_until(2 * HOUR)

    assert plainly.started == calmly.started
    assert plain.billed_seconds() == calm.billed_seconds()


@given(st.integers(0, 10_000), st.floats(0, 0.6), st.floats(0, 1), st.floats(0, 4))
def test_whatever_fails_the_books_balance(seed: int, failed: float, slow: float, rate: float) -> None:
    accidents = Accidents(failed_boots=failed, slow_boots=slow, interruptions_per_hour={"spot": rate})
    model, watched = cluster(accidents, replicas=4, seed=seed)
    watched.timeline.run_until(3 * HOUR)

    assert 0 <= model.node_counts()["spot"] == len(model.nodes()) <= GROUP.max
    assert model.billed_seconds()["spot"] <= 3 * HOUR * GROUP.max
    assert all(pod.node is None or pod.node in model.nodes() for pod in model.pods("train"))
    assert not (rate == 0 and watched.killed)
