"""A job goes to the pool of its queue; without such a pool for any job, to the smallest that fits."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.pools import assign
from tests.builders.simulator import HOUR, a_driver, a_driver_job, a_job, a_pool, a_ray_group, a_stack, with_ray

QUEUES = ("embed", "train", "vision")
BY_QUEUE = {name: a_pool(name, gpu=int(name == "vision")) for name in QUEUES}
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


def test_a_job_goes_to_the_pool_of_its_queue_even_if_a_smaller_one_fits() -> None:
    pools = {**BY_QUEUE, "train": a_pool("train", cpu="16", memory="64Gi")}

    assignment = assign([a_job(0, queue="train"), a_job(1, queue="vision"), a_job(2, queue="embed")], pools)

    assert [job.pool for job in assignment.jobs] == ["train", "vision", "embed"]
    assert assignment.by_queue


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (a_job(0, cpu=5, queue="embed"), "too-much-cpu"),
        (a_job(0, gpu=1, queue="embed"), "too-much-gpu"),
        (a_job(0, 9 * HOUR, queue="embed"), "too-long"),
        (a_job(0, gpu=16, queue="embed"), "too-much-gpu"),
        (a_driver_job(0, queue="embed"), "no-ray-cluster"),
        (a_job(0, queue="mails"), "no-pool-for-its-queue"),
    ],
)
def test_a_job_that_its_queues_pool_cannot_run_is_never_moved(job: Job, reason: str) -> None:
    large = a_pool("large", cpu="64", memory="256Gi", gpu=8, longest=99 * HOUR)

    assignment = assign([job, a_job(1, queue="train")], {**BY_QUEUE, "large": large}, {"large": 9})

    assert [job.pool for job in assignment.jobs] == ["train"]
    assert dict(assignment.unfit) == {reason: 1}
    assert dict(assignment.queues_not_served) == ({"mails": 1} if job.queue == "mails" else {})


def test_a_gang_and_a_driver_go_to_the_pools_of_their_queues() -> None:
    flow = with_ray(a_stack({"drive": a_driver()}, {}), {"cpu": a_ray_group()}).ray
    pools = {"small": a_pool("small", gpu=8), "large": a_pool("large", cpu="8", gpu=8), "drive": a_driver()}
    jobs = [a_job(0, gpu=16, queue="large"), a_driver_job(1, queue="drive"), a_job(2, queue="drive")]

    assigned = assign(jobs, pools, {"small": 9, "large": 9}, flow).jobs

    assert [(job.pool, job.members, job.ray is not None) for job in assigned] == [
        ("large", 2, False),
        ("drive", 1, True),
        ("drive", 1, True),
    ]


def test_a_part_of_a_trace_is_assigned_like_the_entire_trace() -> None:
    part = [a_job(0, queue="mails")]

    assert [job.pool for job in assign(part, BY_QUEUE).jobs] == ["embed"]
    assert dict(assign(part, BY_QUEUE, queues={"mails", "train"}).unfit) == {"no-pool-for-its-queue": 1}


@given(st.lists(st.builds(a_job, st.just(0.0), queue=st.sampled_from([*QUEUES, "mails"])), max_size=20))
def test_jobs_by_queue_are_counted_in_their_pool_or_by_their_queue(jobs: list[Job]) -> None:
    assignment = assign(jobs, BY_QUEUE, queues=QUEUES)

    submitted = Counter(job.queue for job in jobs)
    assert Counter(job.pool for job in assignment.jobs) + Counter(assignment.queues_not_served) == submitted
    assert set(assignment.queues_not_served) <= {"mails"}
