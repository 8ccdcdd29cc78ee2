"""A suggested stack file passes `ebbtide check`, and its pools run the trace that it was made for."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.advice.demand import peak_at_once
from ebbtide.lab.advice.suggest import NoSuggestion, suggested_stack
from ebbtide.lab.simulator.trace.traces import Job, bundled, find_trace
from ebbtide.lab.simulator.world.gangs import largest_gangs
from ebbtide.lab.simulator.world.pools import assign
from ebbtide.prices import instance_type, usable
from ebbtide.settings import StackSettings, warnings_of
from ebbtide.settings.load import stack_of_text
from tests.builders.simulator import HOUR, a_job, a_trace
from tests.counts import examples


def suggested(jobs: Sequence[Job]) -> StackSettings:
    return stack_of_text(suggested_stack(a_trace(jobs)), stack="suggested", file="suggested.yaml")


def covered(jobs: Sequence[Job], stack: StackSettings) -> float:
    return assign(jobs, stack.workers, largest_gangs(stack)).coverage.jobs


jobs = st.lists(
    st.builds(
        a_job,
        st.integers(0, 86400).map(float),
        st.sampled_from([0.1, 60.0, HOUR, 9 * HOUR, 720 * HOUR]),
        cpu=st.sampled_from([0.1, 1.0, 3.152, 16.0, 40.0]),
        memory=st.sampled_from([0.1, 5.469, 64.0, 150.0]),
        gpu=st.sampled_from([0, 0, 0.25, 1, 2.5, 8, 32]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(30), deadline=None)
@given(jobs)
def test_any_trace_gets_a_sound_stack_that_runs_it(some: list[Job]) -> None:
    stack = suggested(some)

    assert covered(some, stack) >= 0.95
    assert not [warning for warning in warnings_of(stack) if warning.code == "node-group.too-small"]


@pytest.mark.parametrize("max_job_s", [None, 8 * HOUR])
def test_a_real_trace_is_run_completely_and_its_workers_fill_their_nodes(max_job_s: float | None) -> None:
    trace = find_trace("openb2023-a")
    stack = stack_of_text(suggested_stack(trace, max_job_s=max_job_s), stack="s", file="s.yaml")

    assert covered([job for job in trace.jobs if job.duration_s <= (max_job_s or float("inf"))], stack) >= 0.99
    for pool in stack.workers.values():
        room = usable(instance_type(stack.node_groups[pool.node_group].instance_types[0]))
        copies = room.copies(cpu=pool.cpu, memory=pool.memory, gpu=pool.gpu.count)
        assert room.cpu - copies * pool.cpu < 100 * copies


def test_limits_come_from_what_was_wanted_at_once() -> None:
    some = [a_job(0, HOUR), a_job(60, HOUR), a_job(3 * HOUR, 30 * 60)]

    (pool,) = suggested(some).workers.values()

    assert pool.max == peak_at_once([(job.submitted_at, job.submitted_at + job.duration_s) for job in some]) == 2
    assert pool.longest_job.total_seconds() == HOUR


def test_a_job_over_several_nodes_counts_as_all_its_workers() -> None:
    (pool,) = suggested([a_job(0, HOUR, cpu=64, memory=512, gpu=32)]).workers.values()

    assert (pool.gpu.count, pool.max) == (8, 4)


def test_jobs_without_a_gpu_get_nodes_without_one() -> None:
    stack = suggested([a_job(0, HOUR, cpu=7, memory=20, gpu=1), a_job(0, HOUR, cpu=7, memory=20)])

    assert sorted(pool.node_group for pool in stack.workers.values()) == ["flexible", "gpu"]


def test_nodes_with_gpus_are_no_larger_because_of_jobs_without() -> None:
    stack = suggested([a_job(0, 9 * HOUR, cpu=40, memory=150), a_job(0, HOUR, cpu=3, memory=8, gpu=1)])

    assert [pool.cpu < 10_000 for pool in stack.workers.values() if pool.gpu.count] == [True]


def test_one_giant_job_among_many_gets_no_separate_nodes() -> None:
    small = [a_job(at * 60.0, HOUR, cpu=1, memory=4) for at in range(400)]
    giant = a_job(0, 60, cpu=40, memory=170)

    assert all(pool.cpu < 40_000 for pool in suggested([*small, giant]).workers.values())


def test_a_trace_that_no_node_runs_is_refused_in_one_line() -> None:
    with pytest.raises(NoSuggestion, match="none of its 1 jobs fits a node of the price tables") as refused:
        suggested([a_job(0, HOUR, cpu=4000)])

    assert "\n" not in str(refused.value)


def test_the_same_trace_gets_the_same_text() -> None:
    trace = find_trace("openb2023-a")

    assert suggested_stack(trace) == suggested_stack(trace)


@pytest.mark.long
@pytest.mark.parametrize("name", bundled())
@pytest.mark.parametrize("max_job_s", [None, 8 * HOUR])
def test_every_bundled_trace_gets_a_stack_that_runs_nearly_all_of_it(name: str, max_job_s: float | None) -> None:
    trace = find_trace(name)
    stack = stack_of_text(suggested_stack(trace, max_job_s=max_job_s), stack="s", file="s.yaml")

    assert covered([job for job in trace.jobs if job.duration_s <= (max_job_s or float("inf"))], stack) >= 0.99
    assert not [warning for warning in warnings_of(stack) if warning.code == "node-group.too-small"]
