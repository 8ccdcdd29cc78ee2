"""The smallest fleet against trying every fleet there is."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.prices import Capacity
from ebbtide.settings.packing import alike_nodes_needed
from ebbtide.settings.placement import PodSize
from ebbtide.simulator.outcome import waits_of
from ebbtide.simulator.strategies.constant import fleet_runs
from ebbtide.simulator.strategies.fleet import FleetGroup, FleetPool, NoFleet, peak_fleet, smallest_fleet
from ebbtide.simulator.world.pools import PooledJob
from ebbtide.simulator.world.waits import fifo_starts, percentile
from tests.counts import examples

NODE = Capacity(cpu=8000, memory=32768, gpu=0, pods=20)
GPU_NODE = Capacity(cpu=8000, memory=32768, gpu=1, pods=20)
GROUPS = [
    FleetGroup(name="flexible", shape=NODE, usd_per_hour=1.0, residents=((PodSize(cpu=1000, memory=2048, gpu=0), 3),)),
    FleetGroup(name="gpu", shape=GPU_NODE, usd_per_hour=1.7),
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


def p95(pools: list[FleetPool], workers: tuple[int, ...]) -> float:
    waits: list[float] = []
    for pool, count in zip(pools, workers, strict=True):
        starts = fifo_starts(pool.jobs, count) if count else []
        waits += [min(start, END) - job.submitted_at for start, job in zip(starts, pool.jobs, strict=True)]
    return percentile(waits, 0.95)


def price(pools: list[FleetPool], workers: tuple[int, ...]) -> float:
    total = 0.0
    for group in GROUPS:
        pods = [(pool.worker, n) for pool, n in zip(pools, workers, strict=True) if pool.group == group.name]
        total += alike_nodes_needed(group.shape, [*group.residents, *pods]) * group.usd_per_hour
    return total


def test_jobs_start_in_order_on_the_worker_that_is_free_first() -> None:
    jobs = [PooledJob(0, 100, "p"), PooledJob(1, 10, "p"), PooledJob(2, 10, "p"), PooledJob(200, 5, "p")]

    assert fifo_starts(jobs, 2) == [0, 1, 11, 200]


@pytest.mark.parametrize(("count", "place"), [(1, 0), (20, 18), (21, 19), (100, 94)])
def test_p95_is_the_smallest_value_that_95_percent_do_not_exceed(count: int, place: int) -> None:
    assert percentile([float(i) for i in reversed(range(count))], 0.95) == place


def test_a_rare_pool_may_wait_if_the_whole_still_holds() -> None:
    often = a_fleet_pool("often", [(float(i), 1.0) for i in range(0, 400, 10)])
    rare = a_fleet_pool("rare", [(0.0, 50.0), (0.0, 50.0)], gpu=1)

    fleet = smallest_fleet([often, rare], GROUPS, target_p95_s=0.0, end_s=END)

    assert fleet.workers == {"often": 1, "rare": 1}  # one late job of 42 is within the five percent


def test_a_job_that_would_start_after_the_end_has_not_started() -> None:
    pool = a_fleet_pool("p", [(0.0, 2 * END), (END - 5.0, 1.0)])

    first, second = fleet_runs([pool], {"p": 1}, END)

    assert (first.started_at, second.started_at) == (0.0, None)
    assert waits_of([first, second], END) == [0.0, 5.0]


def test_a_pool_without_jobs_gets_no_worker_and_groups_keep_their_minimum() -> None:
    groups = [FleetGroup(name="flexible", shape=NODE, usd_per_hour=1.0, min_nodes=2)]

    fleet = smallest_fleet([a_fleet_pool("none", [])], groups, target_p95_s=0.0, end_s=END)

    assert (fleet.workers, fleet.nodes, fleet.usd_per_hour) == ({"none": 0}, {"flexible": 2}, 2.0)


def test_a_job_that_never_starts_counts_with_its_wait_until_the_end() -> None:
    endless = a_fleet_pool("p", [(0.0, 2 * END), (END - 5.0, 1.0)])

    fleet = smallest_fleet([endless], GROUPS, target_p95_s=5.0, end_s=END)

    assert fleet.workers == {"p": 1}


def test_an_allowance_is_spent_where_it_saves_most() -> None:
    burst_and_calm = [(0.0, 9.0)] * 3 + [(at * 100.0, 9.0) for at in range(1, 18)]
    cheap = a_fleet_pool("cheap", burst_and_calm, cpu_m=500)
    dear = a_fleet_pool("dear", burst_and_calm, gpu=1)

    fleet = smallest_fleet([cheap, dear], GROUPS, target_p95_s=0.0, end_s=END)

    assert fleet.workers == {"cheap": 3, "dear": 1}  # two of forty jobs may wait: both are the dear pool's
    assert fleet.nodes == {"flexible": 1, "gpu": 1}


def test_no_fleet_is_too_small_for_a_gang_even_if_one_job_may_be_late() -> None:
    alone = tuple(PooledJob(at * 100.0, 5.0, "p") for at in range(40))
    pool = replace(a_fleet_pool("p", []), jobs=(*alone, PooledJob(4500.0, 5.0, "p", members=3)))

    fleet = smallest_fleet([pool], GROUPS, target_p95_s=0.0, end_s=END)

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


def test_a_target_that_the_largest_fleet_misses_is_refused() -> None:
    with pytest.raises(NoFleet):
        smallest_fleet([a_fleet_pool("p", [(0.0, 9.0)] * 9)], GROUPS, target_p95_s=1.0, end_s=END)


JOBS = st.lists(st.tuples(st.integers(0, 200).map(float), st.integers(1, 30).map(float)), min_size=1, max_size=40)


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
@given(a=JOBS, b=JOBS, c=JOBS, target=st.sampled_from([0.0, 5.0, 20.0, 60.0]))
def test_no_fleet_that_holds_the_target_is_cheaper(
    a: list[tuple[float, float]], b: list[tuple[float, float]], c: list[tuple[float, float]], target: float
) -> None:
    pools = [a_fleet_pool("a", a), a_fleet_pool("b", b, cpu_m=2000), a_fleet_pool("c", c, gpu=1)]
    holding = [workers for workers in product(range(1, 5), repeat=3) if p95(pools, workers) <= target]
    if not holding:
        with pytest.raises(NoFleet):
            smallest_fleet(pools, GROUPS, target_p95_s=target, end_s=END)
        return

    fleet = smallest_fleet(pools, GROUPS, target_p95_s=target, end_s=END)

    counts = tuple(fleet.workers[pool.name] for pool in pools)
    assert counts in holding
    best = min((price(pools, workers), sum(workers)) for workers in holding)
    assert (fleet.usd_per_hour, sum(counts)) == pytest.approx(best)
