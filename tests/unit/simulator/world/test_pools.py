"""A job goes to the smallest pool that fits its size and its length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.simulator.trace.traces import Job
from ebbtide.simulator.world.pools import assign
from tests.builders.simulator import HOUR, a_job, a_pool

POOLS = {
    "large": a_pool(cpu="16", memory="64Gi", longest=24 * HOUR),
    "small": a_pool(cpu="4", memory="16Gi", longest=2 * HOUR),
    "vision": a_pool(cpu="8", memory="32Gi", gpu=1, longest=8 * HOUR),
}


@pytest.mark.parametrize(
    ("job", "pool"),
    [
        (a_job(0, 60, cpu=4, memory=16), "small"),
        (a_job(0, 60, cpu=4, memory=16.1), "large"),
        (a_job(0, 60, cpu=4.1), "large"),
        (a_job(0, 3 * HOUR, cpu=1), "large"),  # small enough, but too long for the small pool
        (a_job(0, 60, gpu=0.25), "vision"),
        (a_job(0, 0, cpu=0, memory=0), "small"),
    ],
)
def test_the_smallest_pool_that_fits_takes_the_job(job: Job, pool: str) -> None:
    assert assign([job], POOLS).jobs[0].pool == pool


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (a_job(0, gpu=2, cpu=99, memory=999), "too-much-gpu"),
        (a_job(0, gpu=1, cpu=9), "too-much-cpu"),
        (a_job(0, cpu=16, memory=65), "too-much-memory"),
        (a_job(0, 25 * HOUR, cpu=16), "too-long"),
        (a_job(0, 9 * HOUR, gpu=1), "too-long"),
    ],
)
def test_a_job_that_fits_no_pool_is_counted_by_what_rules_out_the_last_one(job: Job, reason: str) -> None:
    assignment = assign([job], POOLS)

    assert (assignment.jobs, dict(assignment.unfit)) == ((), {reason: 1})


def test_coverage_counts_jobs_and_their_cpu_hours() -> None:
    covered = assign([a_job(0, HOUR, cpu=2), a_job(1, HOUR, cpu=2), a_job(2, HOUR, cpu=36)], POOLS).coverage

    assert covered.jobs == pytest.approx(2 / 3)
    assert covered.cpu_hours == pytest.approx(0.1)


def test_no_pools_cover_nothing_and_no_jobs_leave_nothing_out() -> None:
    assert dict(assign([a_job(0)], {}).unfit) == {"too-much-gpu": 1}
    assert assign([], POOLS).coverage.jobs == 1.0


@given(
    st.lists(
        st.builds(
            a_job,
            st.just(0.0),
            st.floats(0, 200_000),
            cpu=st.floats(0, 40),
            memory=st.floats(0, 200),
            gpu=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
        ),
        max_size=30,
    )
)
def test_every_job_is_pooled_or_counted_as_unfit(jobs: list[Job]) -> None:
    assignment = assign(jobs, POOLS)

    assert len(assignment.jobs) + sum(assignment.unfit.values()) == len(jobs)
    assert 0 <= assignment.coverage.cpu_hours <= 1 + 1e-9
