"""Whole replays of stacks with Ray: a day by hand, what each strategy pays, sleep, and what is told."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

import pytest

from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import RayGroupResult, Replay, Strategy, as_json
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S, POD_START_S
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.ray.drives import JOIN_S
from ebbtide.lab.simulator.world.workers import JobRun, runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import SleepSettings
from ebbtide.vocabulary.workloads import SleepWhen, Wake
from tests.builders.replay import priced
from tests.builders.simulator import (
    HOUR,
    a_driver,
    a_driver_job,
    a_job,
    a_pool,
    a_ray_group,
    a_stack,
    a_trace,
    with_ray,
)

MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - local time of the customer
OPTIONS = ReplayOptions(days=1, start=MONDAY, rollouts=False)
NIGHT = [a_driver_job(2 * HOUR, 1800.0, tasks=4, cpu=15), a_driver_job(9 * HOUR, 600.0, tasks=2, cpu=15)]


def stack(*, sleep: SleepSettings | None = None) -> StackSettings:
    """A Ray worker fills a node, and a driver has no room beside it."""
    plain = a_stack({"drive": a_driver()}, {})
    return with_ray(plain, {"cpu": a_ray_group(cpu=15, memory="40Gi", most=4)}, sleep=sleep)


@cache
def nightly() -> Replay:
    return replay(stack(), a_trace(NIGHT), OPTIONS)


def cpu_group(result: Replay, strategy: str) -> RayGroupResult:
    return result.strategies[strategy].ray["flow"].groups["cpu"]


def world_of(jobs: list[Job], its_stack: StackSettings) -> tuple[World, list[JobRun], float]:
    setup = replay_setup_of(its_stack, a_trace(jobs), OPTIONS)
    runs = runs_of(setup.jobs)
    world = World(
        cluster_plan(its_stack, Strategy.FIXED_FLEXIBLE), runs, world_setup_of(setup, Strategy.FIXED_FLEXIBLE)
    )
    controlled(setup.config, world, ActionCounts())
    return world, runs, setup.end_s


def test_a_driver_by_hand() -> None:
    """A node for the driver, its pod, its raylet; the next look of Ray's autoscaler, a node, a pod, then the tasks."""
    world, runs, end_s = world_of([a_driver_job(HOUR, 1800.0, tasks=2, cpu=15)], stack())
    result = world.ray.results(end_s)["flow"]
    group, run = result.groups["cpu"], runs[0]

    assert run.started_at is not None
    assert run.done_at is not None
    driver_joined = HOUR + NODE_BOOT_S + POD_START_S + JOIN_S
    two_scans, one_look = 20.0, 5.0
    assert 0 <= run.started_at - driver_joined - NODE_BOOT_S - POD_START_S <= two_scans + one_look + 1.0
    assert run.done_at - run.started_at == pytest.approx(1800.0, abs=1.0)
    assert (group.tasks_done, group.most_workers, group.tasks_interrupted, group.lost_task_s) == (2, 2, 0, 0.0)
    assert group.task_hours == 1.0
    assert group.busy_hours == pytest.approx(1.0, abs=1e-3)
    assert group.worker_hours - group.busy_hours == pytest.approx(2 * 121 / 3600, abs=2 * 5 / 3600)
    assert result.head_hours == 24.0


def test_at_night_there_is_no_worker_but_for_a_driver() -> None:
    series = cpu_group(nightly(), "fixed-flexible").series
    at_hour = {
        hour: sum(values[[at <= hour * HOUR for at in series.at].count(True) - 1] for values in series.nodes.values())
        for hour in (1.9, 2.4, 3.2, 8.9, 9.2, 10.0)
    }

    assert at_hour == {1.9: 0, 2.4: 4, 3.2: 0, 8.9: 0, 9.2: 2, 10.0: 0}


def test_each_strategy_does_the_same_tasks_and_constant_fleets_pay_for_idle_workers() -> None:
    result = nightly()
    groups = {name: cpu_group(result, name) for name in result.strategies if name != "zero-wait-bound"}

    assert {group.task_hours for group in groups.values()} == {4 * 0.5 + 2 / 6}
    assert groups["fixed-fleet"].worker_hours >= 24.0
    assert (
        groups["peak-fleet"].worker_hours > groups["fixed-fleet"].worker_hours > groups["fixed-flexible"].worker_hours
    )
    assert (
        priced(result.strategies["zero-wait-bound"].usd)
        < priced(result.strategies["fixed-flexible"].usd)
        < priced(result.strategies["fixed-fleet"].usd)
    )


def test_the_fixed_fleet_waits_no_longer_and_has_no_worker_too_many() -> None:
    """A driver waits until its first task runs, so a single worker is enough, and beside it a node for the drivers."""
    result = nightly()
    assert cpu_group(result, "fixed-fleet").most_workers == 1
    product, fleet = (result.strategies[name] for name in ("fixed-flexible", "fixed-fleet"))

    assert fleet.pools["drive"].wait_p95_s <= product.pools["drive"].wait_p95_s
    assert fleet.node_hours_by_group["flexible"] == 24.0 * 2


def test_the_bound_pays_for_the_tasks_shares_of_workers() -> None:
    """A worker asks for 15 of the cores of a node, and a driver for one."""
    hours = nightly().strategies["zero-wait-bound"].node_hours_by_group["flexible"]
    cores = 15 * (4 * 0.5 + 2 / 6) + 0.5 + 1 / 6

    assert cores / 16 < hours < cores / 14


def test_a_pool_keeps_what_it_ran_before_and_drivers_get_the_rest() -> None:
    """The last job has no GPU, so the workers with GPUs are not for it, large as they are."""
    both = with_ray(
        a_stack({"drive": a_driver(), "train": a_pool()}, {}),
        {"gpu": a_ray_group(gpu=1, cpu=40), "cpu": a_ray_group(cpu=12)},
    )
    jobs = [a_job(0, cpu=1), a_job(1, cpu=12), a_job(2, gpu=1), a_driver_job(3, tasks=7), a_job(4, cpu=30)]
    assignment = replay_setup_of(both, a_trace(jobs), OPTIONS).assignment

    assert [(job.pool, job.ray and job.ray.group, job.ray and job.ray.tasks) for job in assignment.jobs] == [
        ("train", None, None),
        ("drive", "ray flow/cpu", 1),
        ("drive", "ray flow/gpu", 1),
        ("drive", "ray flow/cpu", 7),
    ]
    assert dict(assignment.unfit) == {"too-much-cpu": 1}


def test_a_driver_of_the_trace_needs_a_stack_with_ray() -> None:
    setup = replay_setup_of(a_stack({"train": a_pool()}, {}), a_trace([a_job(0), a_driver_job(1)]), OPTIONS)

    assert dict(setup.assignment.unfit) == {"no-ray-cluster": 1}


def test_work_above_the_longest_task_is_asked_for_in_parts() -> None:
    its = with_ray(a_stack({"drive": a_driver()}, {}), {"cpu": a_ray_group()}, longest_task=1000.0)
    (job,) = replay_setup_of(its, a_trace([a_driver_job(0, 2500.0, tasks=2)]), OPTIONS).assignment.jobs

    assert job.ray is not None
    assert (job.ray.tasks, job.ray.at_once, job.ray.task_s) == (6, 2, pytest.approx(2500 / 3))


def test_more_tasks_than_a_replay_can_play_are_refused() -> None:
    its = with_ray(a_stack({"drive": a_driver(longest=400 * 24 * HOUR)}, {}), {"cpu": a_ray_group()}, longest_task=1.0)

    with pytest.raises(ReplayError, match="wanted at most 2000000 Ray tasks in 1 days, found 20000000"):
        replay_setup_of(its, a_trace([a_driver_job(0, 20e6)]), OPTIONS)


def test_a_gang_on_ray_starts_on_all_its_workers_at_once() -> None:
    eight = with_ray(a_stack({"drive": a_driver()}, {}), {"gpu": a_ray_group(gpu=1, cpu=4, most=4)})
    world, runs, end_s = world_of([a_job(60, 600, gpu=9, cpu=9), a_job(61, 600, gpu=1)], eight)
    assert [run.ray and run.ray.members for run in runs] == [1]  # nine GPUs need nine workers, and there are four

    large = with_ray(a_stack({"drive": a_driver()}, {}), {"gpu": a_ray_group(gpu=1, cpu=4, most=12)})
    groups = {**large.node_groups, "gpu": large.node_groups["gpu"].model_copy(update={"max": 12})}
    world, runs, end_s = world_of([a_job(60, 600, gpu=9, cpu=9)], large.model_copy(update={"node_groups": groups}))
    series = world.ray.results(end_s)["flow"].groups["gpu"].series

    assert [run.ray and run.ray.members for run in runs] == [9]
    assert set(series.nodes["busy"]) == {0, 9}


def test_a_cluster_sleeps_by_night_and_a_driver_wakes_it() -> None:
    rest = SleepSettings(when=SleepWhen.OUTSIDE_HOURS, after=timedelta(hours=1))
    asleep = replay(stack(sleep=rest), a_trace(NIGHT), replace(OPTIONS, strategies=(Strategy.FIXED_FLEXIBLE,)))
    hours = asleep.strategies["fixed-flexible"].ray["flow"].head_hours

    # awake from 0 to 1, from the driver at 2 to an hour after its end at about 2.7, from 8 to 19
    assert hours == pytest.approx(1 + 1.7 + 11, abs=0.3)
    assert asleep.strategies["fixed-flexible"].jobs_done == 2


def test_drivers_wait_for_the_opening_where_only_that_wakes_the_cluster() -> None:
    rest = SleepSettings(when=SleepWhen.OUTSIDE_HOURS, after=timedelta(hours=1), wake=(Wake.BUSINESS_HOURS,))
    _, runs, _ = world_of(NIGHT, stack(sleep=rest))

    assert [round((run.started_at or 0) / HOUR) for run in runs] == [8, 9]


def test_the_document_has_each_group() -> None:
    document = as_json(nightly())["strategies"]["fixed-flexible"]["ray"]["flow"]

    assert document["head_hours"] == 24.0
    assert document["groups"]["cpu"]["tasks_done"] == 6
    assert "series" not in document["groups"]["cpu"]


def test_a_replay_says_what_it_takes_for_granted_about_ray() -> None:
    assumptions = "\n".join(nightly().assumptions)
    without = replay(a_stack({"train": a_pool()}, {}), a_trace([a_job(0)]), OPTIONS).assumptions

    assert "2 jobs are Ray drivers" in assumptions
    assert "Together they request 6 tasks" in assumptions
    assert not any("Ray" in line for line in without)
