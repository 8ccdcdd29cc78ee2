"""The smallest fleet against trying every fleet there is."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.outcome import waits_of
from ebbtide.lab.simulator.results import PoolResult
from ebbtide.lab.simulator.strategies.constant import fleet_runs
from ebbtide.lab.simulator.strategies.fleet import FleetGroup, FleetPool, peak_fleet, smallest_fleet
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.lab.simulator.world.waits import fifo_starts, percentile
from ebbtide.prices import Capacity
from ebbtide.settings.capacity.packing import alike_nodes_needed
from ebbtide.settings.capacity.placement import PodSize
from tests.counts import examples

NODE = Capacity(cpu=8000, memory=32768, gpu=0, pods=20)
GPU_NODE = Capacity(cpu=8000, memory=32768, gpu=1, pods=20)
GROUPS = [
    FleetGroup(name="flexible", shape=NODE, residents=((PodSize(cpu=1000, memory=2048, gpu=0), 3),)),
    FleetGroup(name="gpu", shape=GPU_NODE),
]
END = 10_000.0


def a_fleet_pool(name: str, jobs: list[tuple[float, float]], *, gpu: int = 0, cpu_m: int = 3000) -> FleetPool:
    return FleetPool(
        name=name,
        group="gpu" if gpu else "flexible",
        worker=PodSize(cpu=cpu_m, memory=4096, gpu=gpu),
        max_workers=4,
        jobs=tuple(PooledJob(at, lasts, name) for at, lasts in sorted(jobs)),
    )


def reaching(p95_s: float, unfinished: int = 0) -> PoolResult:
    return PoolResult(jobs=0, wait_p95_s=p95_s, wait_p99_s=0.0, jobs_unfinished=unfinished)


def is_as_good(pool: FleetPool, workers: int, target: PoolResult, end_s: float) -> bool:
    """From the starts, in other words than the search: a job is late after the target, and done by the end."""
    runs = fleet_runs([pool], {pool.name: workers}, end_s)
    late = sum(wait > target.wait_p95_s for wait in waits_of(runs, end_s))
    undone = [run for run in runs if run.done_at is None or run.done_at > end_s]
    return late <= len(runs) // 20 and len(undone) <= target.jobs_unfinished


def test_jobs_start_in_order_on_the_worker_that_is_free_first() -> None:
    jobs = [PooledJob(0, 100, "p"), PooledJob(1, 10, "p"), PooledJob(2, 10, "p"), PooledJob(200, 5, "p")]

    assert fifo_starts(jobs, 2) == [0, 1, 11, 200]


@pytest.mark.parametrize(("count", "place"), [(1, 0), (20, 18), (21, 19), (100, 94)])
def test_p95_is_the_smallest_value_that_95_percent_do_not_exceed(count: int, place: int) -> None:
    assert percentile([float(i) for i in reversed(range(count))], 0.95) == place


def test_many_short_jobs_of_one_pool_do_not_excuse_another_pool() -> None:
    often = a_fleet_pool("often", [(float(i), 1.0) for i in range(0, 400, 10)])
    rare = a_fleet_pool("rare", [(0.0, 50.0), (0.0, 50.0)], gpu=1)

    fleet = smallest_fleet([often, rare], GROUPS, {"often": reaching(0.0), "rare": reaching(0.0)}, END)

    assert fleet.workers == {"often": 1, "rare": 2}  # one late job of 42 in all would be within the five percent
    assert fleet.nodes == {"flexible": 1, "gpu": 2}


def test_a_job_that_the_product_ends_is_not_left_unfinished() -> None:
    """19 short jobs and a long one, which waits for them: a single worker would have the same p95."""
    pool = a_fleet_pool("p", [*((0.0, 0.0),) * 19, (1.0, 9.0), (2.0, 9.0)])

    assert smallest_fleet([pool], GROUPS, {"p": reaching(0.0, 1)}, 15.0).workers == {"p": 1}
    assert smallest_fleet([pool], GROUPS, {"p": reaching(0.0, 0)}, 15.0).workers == {"p": 2}


def test_a_job_that_would_start_after_the_end_has_not_started() -> None:
    pool = a_fleet_pool("p", [(0.0, 2 * END), (END - 5.0, 1.0)])

    first, second = fleet_runs([pool], {"p": 1}, END)

    assert (first.started_at, second.started_at) == (0.0, None)
    assert waits_of([first, second], END) == [0.0, 5.0]


def test_a_pool_without_jobs_gets_no_worker_and_groups_keep_their_minimum() -> None:
    groups = [FleetGroup(name="flexible", shape=NODE, min_nodes=2)]

    fleet = smallest_fleet([a_fleet_pool("none", [])], groups, {}, END)

    assert (fleet.workers, fleet.nodes) == ({"none": 0}, {"flexible": 2})


def test_a_job_that_never_starts_counts_with_its_wait_until_the_end() -> None:
    endless = a_fleet_pool("p", [(0.0, 2 * END), (END - 5.0, 1.0)])

    fleet = smallest_fleet([endless], GROUPS, {"p": reaching(5.0, 2)}, END)

    assert fleet.workers == {"p": 1}


def test_no_fleet_is_too_small_for_a_gang_even_if_one_job_may_be_late() -> None:
    alone = tuple(PooledJob(at * 100.0, 5.0, "p") for at in range(40))
    pool = replace(a_fleet_pool("p", []), jobs=(*alone, PooledJob(4500.0, 5.0, "p", members=3)))

    fleet = smallest_fleet([pool], GROUPS, {"p": reaching(0.0)}, END)

    assert fleet.workers == {"p": 3}


def test_the_peak_fleet_has_a_worker_for_every_job_and_member_at_once_and_none_waits() -> None:
    jobs = [PooledJob(0, 100, "p"), PooledJob(50, 10, "p", members=2), PooledJob(100, 5, "p", members=2)]
    pool = replace(a_fleet_pool("p", []), jobs=tuple(jobs), max_workers=2)

    fleet = peak_fleet([pool], GROUPS)

    assert fleet.workers == {"p": 3}  # more than the pool may have, and the job that ends at 100 is out of the way
    assert fifo_starts(jobs, 3) == [0, 50, 100]


@pytest.mark.parametrize(
    ("jobs", "workers"),
    [
        ([(0, 0, 1)], 1),
        ([(0, 0, 2), (0, 0, 3)], 3),
        ([(0, 10, 1), (5, 0, 2)], 3),
        ([(0, 5, 1), (5, 0, 1), (5, 5, 1)], 1),
        ([(0, 5, 1), (5, 5, 1), (5, 0, 1)], 2),
        ([(1e7, 1e-12, 1)], 1),
    ],
)
def test_a_job_without_length_needs_a_worker_too(jobs: list[tuple[float, float, int]], workers: int) -> None:
    pooled = [PooledJob(at, length, "p", members=members) for at, length, members in jobs]
    pool = replace(a_fleet_pool("p", []), jobs=tuple(pooled), max_workers=2)

    fleet = peak_fleet([pool], GROUPS)

    assert fleet.workers == {"p": workers}
    assert fifo_starts(pooled, workers) == [at for at, _, _ in jobs]


def test_a_target_that_no_number_of_workers_reaches_takes_all_that_the_pool_may_have() -> None:
    burst = a_fleet_pool("p", [(0.0, 9.0)] * 9)

    assert smallest_fleet([burst], GROUPS, {"p": reaching(1.0)}, END).workers == {"p": 4}


JOBS = st.lists(
    st.builds(
        PooledJob,
        submitted_at=st.integers(0, 200).map(float),
        duration_s=st.integers(0, 30).map(float),
        pool=st.just("p"),
        members=st.sampled_from([1, 1, 1, 2, 3]),
    ),
    min_size=1,
    max_size=40,
)


@given(
    jobs=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60), st.integers(1, 3)), min_size=1, max_size=30),
    workers=st.integers(1, 8),
)
def test_one_more_worker_never_makes_a_job_start_later(jobs: list[tuple[int, int, int]], workers: int) -> None:
    """What lets the search halve: gangs included."""
    queue = [PooledJob(float(at), float(lasts), "p", members) for at, lasts, members in sorted(jobs)]

    fewer, more = fifo_starts(queue, workers), fifo_starts(queue, workers + 1)

    assert all(later >= earlier for later, earlier in zip(fewer, more, strict=True))


@settings(max_examples=examples(80), deadline=None)
@given(
    jobs=st.tuples(JOBS, JOBS, JOBS),
    targets=st.tuples(*[st.builds(reaching, st.sampled_from([0.0, 5.0, 20.0, 60.0, END]), st.integers(0, 9))] * 3),
    end_s=st.sampled_from([201.0, 220.0, END]),
)
def test_each_pool_has_the_fewest_workers_that_are_as_good_and_each_group_the_nodes_for_them(
    jobs: tuple[list[PooledJob], ...], targets: tuple[PoolResult, ...], end_s: float
) -> None:
    empty = (a_fleet_pool("a", []), a_fleet_pool("b", [], cpu_m=2000), a_fleet_pool("c", [], gpu=1))
    queues = [tuple(sorted(queue, key=lambda job: job.submitted_at)) for queue in jobs]
    pools = [replace(pool, jobs=queue, max_workers=12) for pool, queue in zip(empty, queues, strict=True)]
    aims = dict(zip("abc", targets, strict=True))
    fewest = {
        pool.name: next(
            (n for n in range(widest(pool), pool.max_workers) if is_as_good(pool, n, aims[pool.name], end_s)),
            pool.max_workers,
        )
        for pool in pools
    }

    fleet = smallest_fleet(pools, GROUPS, aims, end_s)

    assert fleet.workers == fewest
    for group in GROUPS:
        pods = [(pool.worker, fewest[pool.name]) for pool in pools if pool.group == group.name]
        assert fleet.nodes[group.name] == alike_nodes_needed(group.shape, [*group.residents, *pods])


def widest(pool: FleetPool) -> int:
    return max(job.members for job in pool.jobs)
