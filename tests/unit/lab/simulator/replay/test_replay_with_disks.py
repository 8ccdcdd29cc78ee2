"""Whole replays of stacks whose pods have disks of their own."""

from datetime import datetime
from functools import cache

import pytest

from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.workers import runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace, a_workload, with_disks

MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - local time of the customer
OPTIONS = ReplayOptions(days=2, start=MONDAY)
TRACE = a_trace([a_job(10 * HOUR + 60.0 * n, 3600.0, cpu=4) for n in range(20)] + [a_job(47 * HOUR, 60.0)])


@cache
def plain() -> StackSettings:
    return a_stack({"train": a_pool()}, {"db": a_workload(Category.FLEXIBLE, cpu="6", replicas=3)})


@cache
def stateful() -> StackSettings:
    return plain().model_copy(update={"workloads": {"db": with_disks(plain().workloads["db"])}})


def test_nodes_have_zones_only_where_a_pod_has_a_disk() -> None:
    for strategy in Strategy:
        assert {group.zones for group in cluster_plan(stateful(), strategy).groups} == {stateful().cluster.zones}
        assert {group.zones for group in cluster_plan(plain(), strategy).groups} == {()}


def test_no_replica_ever_leaves_the_zone_of_its_disk_by_day_or_by_night() -> None:
    setup = replay_setup_of(stateful(), TRACE, OPTIONS)
    plan = cluster_plan(stateful(), Strategy.FIXED_FLEXIBLE)
    world = World(plan, runs_of(setup.jobs), world_setup_of(setup, Strategy.FIXED_FLEXIBLE))
    seen: dict[int | None, set[str]] = {}
    hours = 0

    def look() -> None:
        nonlocal hours
        hours += 1
        for pod in world.cluster.pods("db"):
            if pod.node is not None:
                seen.setdefault(pod.slot, set()).add(pod.node.zone)
        assert len(world.cluster.pods("db")) <= 3  # never two pods on one disk

    for minute in range(0, 48 * 60, 2):
        world.timeline.at(minute * 60.0 + 30.0, look)
    controlled(setup.config, world, ActionCounts())

    assert hours == 24 * 60
    assert sorted(seen, key=str) == [0, 1, 2]
    assert all(len(zones) == 1 for zones in seen.values())
    assert len({zone for zones in seen.values() for zone in zones}) > 1


@pytest.mark.parametrize("strategy", [Strategy.FIXED_FLEXIBLE, Strategy.KEDA_DEFAULTS])
def test_jobs_are_done_beside_such_pods(strategy: Strategy) -> None:
    replayed = replay(stateful(), TRACE, ReplayOptions(days=2, start=MONDAY, strategies=(strategy,)))

    assert replayed.strategies[strategy].jobs_unfinished == 0


def test_pods_with_disks_are_deployed_with_one_fewer_and_others_with_one_more() -> None:
    def surges(stack: StackSettings) -> set[int]:
        return {rollout.surge for rollout in replay_setup_of(stack, TRACE, OPTIONS).rollouts}

    assert (surges(stateful()), surges(plain())) == ({0}, {1})


def test_it_is_said_whose_disks_have_a_zone() -> None:
    few = ReplayOptions(days=1, start=MONDAY, strategies=(Strategy.FIXED_FLEXIBLE,))
    with_them, without = (" ".join(replay(stack, TRACE, few).assumptions) for stack in (stateful(), plain()))

    assert "Each pod of db has a disk (perPod)" in with_them
    assert "has a disk" not in without
