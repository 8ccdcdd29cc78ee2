"""A pool is overloaded if its jobs would occupy more workers on average than the stack can run."""

from datetime import datetime

import pytest

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Overload, Strategy
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.strategies.overload import overloads_of
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.settings.model import StackSettings
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

DAY = 24 * HOUR
OPTIONS = ReplayOptions(start=datetime(2026, 6, 1), rollouts=False)  # noqa: DTZ001 - local time of the customer


def overloads(stack: StackSettings, jobs: list[Job]) -> list[Overload]:
    setup = replay_setup_of(stack, a_trace(jobs), OPTIONS)
    return list(overloads_of(setup, cluster_plan(stack, Strategy.FIXED_FLEET).ray))


def all_day(workers: float, days: int = 1) -> list[Job]:
    """Jobs of an hour that would occupy so many workers all the time."""
    apart = HOUR / workers
    return [a_job(number * apart, min(HOUR, days * DAY - number * apart)) for number in range(int(days * DAY / apart))]


@pytest.mark.parametrize(
    ("busy", "expected"), [(2.5, []), (3.5, [Overload(name="p", max=3, node_group=None, needed=4)])]
)
def test_a_backlog_that_only_grows_is_an_overload(busy: float, expected: list[Overload]) -> None:
    assert overloads(a_stack({"p": a_pool(most=3)}, {}), all_day(busy)) == expected


def test_a_burst_that_drains_is_none() -> None:
    """60 worker-hours at once: the last of them waits for 19 hours."""
    assert overloads(a_stack({"p": a_pool(most=3)}, {}), [a_job(60.0, HOUR)] * 60) == []


def test_work_after_the_end_of_the_replay_is_not_counted() -> None:
    assert overloads(a_stack({"p": a_pool(most=1)}, {}), [a_job(23 * HOUR, 8 * HOUR)] * 4) == []


def test_the_nodes_that_a_group_may_have_are_a_limit_too() -> None:
    stack = a_stack({"p": a_pool(gpu=1, most=50)}, {})  # and the group has at most four nodes of one GPU
    jobs = [a_job(number * 600.0, HOUR, gpu=1) for number in range(144)]

    assert overloads(stack, jobs) == [Overload(name="p", max=4, node_group="gpu", needed=6)]
    assert str(overloads(stack, jobs)[0]) == "pool p needs at least 6 workers, node group gpu holds 4"


def test_the_nodes_of_a_fallback_count_too() -> None:
    stack = a_stack({"p": a_pool(gpu=1, most=50)}, {})
    more = stack.model_copy(
        update={
            "node_groups": {**stack.node_groups, "more": stack.node_groups["gpu"].model_copy(update={"max": 1})},
            "workers": {"p": stack.workers["p"].model_copy(update={"fallback": "more"})},
        }
    )
    jobs = [a_job(number * 600.0, HOUR, gpu=1) for number in range(144)]

    assert overloads(more, jobs) == [Overload(name="p", max=5, node_group="gpu + more", needed=6)]


def test_more_workers_than_the_average_are_needed_where_jobs_would_still_wait_for_days() -> None:
    """Four workers are busy on average over four days, but all jobs come on the first."""
    jobs = [a_job(0.0, 8 * HOUR)] * 48 + [a_job(3 * DAY, 1.0)]
    (overload,) = overloads(a_stack({"p": a_pool(most=3)}, {}), jobs)

    assert overload.needed == 12  # three rounds of eight hours, and a fourth that waits for a day


def test_a_group_of_ray_workers_is_overloaded_by_its_tasks() -> None:
    stack = with_ray(a_stack({"drive": a_driver(most=9)}, {}), {"cpu": a_ray_group(most=2, cpu=4)})
    jobs = [a_driver_job(hour * HOUR, HOUR, tasks=6, cpu=2) for hour in range(24)]

    (overload,) = overloads(stack, jobs)

    assert str(overload) == "ray flow/cpu needs at least 3 workers, its max is 2"


def test_a_replay_with_an_overload_states_no_saving() -> None:
    result = replay(a_stack({"p": a_pool(most=1)}, {}), a_trace(all_day(3.0)), OPTIONS)

    assert [overload.name for overload in result.overloads] == ["p"]
    assert result.attainable is None
    assert {figures.saving_vs_fixed_fleet for figures in result.strategies.values()} == {None}
