"""When jobs come in a show, and how few workers they may have."""

from dataclasses import replace
from datetime import datetime, timedelta

from control_plane.playground.jobs import MOST_WORKERS, Submission, small, submissions
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.vocabulary.controller_config import ControllerConfig, Floor, Morning, RedisEndpoint
from tests.builders.controllers import NOON, OFFICE, config, pool_policy

HERE = RedisEndpoint(host="127.0.0.1", port=1)
ONE_DAY = timedelta(hours=24)
SMALL = small(config(pool_policy(), pool_policy(name="prep", queues=("prep", "late"))), HERE)


def pools(number: int, most: int) -> ControllerConfig:
    return config(*(pool_policy(name=f"p{i}", queues=(f"q{i}",), max_workers=most) for i in range(number)))


def moments(jobs: list[Submission]) -> list[datetime]:
    return [NOON + timedelta(seconds=job.at) for job in jobs]


def test_one_seed_gives_the_same_jobs_and_another_gives_others() -> None:
    first, again, other = (submissions(SMALL, NOON, ONE_DAY, seed) for seed in (1, 1, 2))

    assert first == again != other


def test_jobs_come_in_order_to_every_queue() -> None:
    jobs = submissions(SMALL, NOON, ONE_DAY, 0)

    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    assert {job.queue for job in jobs} == {"train", "prep", "late"}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_nobody_works_at_night_and_few_do_in_the_evening(seed: int) -> None:
    hours = [moment.hour for moment in moments(submissions(SMALL, NOON, ONE_DAY, seed))]

    assert not [hour for hour in hours if hour >= 21 or hour < 8]
    assert sum(8 <= hour < 19 for hour in hours) > 2 * sum(hour >= 19 for hour in hours)


@settings(max_examples=40, deadline=None)
@given(number=st.integers(1, MOST_WORKERS), most=st.integers(1, 50))
def test_all_pools_together_have_few_workers_and_each_has_one(number: int, most: int) -> None:
    sizes = [pool.max_workers for pool in small(pools(number, most), HERE).pools]

    assert sum(sizes) <= MOST_WORKERS
    assert min(sizes) >= 1
    assert max(sizes) <= most


def test_of_very_many_pools_the_first_ones_get_jobs() -> None:
    many = small(pools(20, 5), HERE)

    queues = {job.queue for job in submissions(many, NOON, ONE_DAY, 0)}
    assert queues == {f"q{i}" for i in range(MOST_WORKERS)}


def test_planned_work_asks_for_no_more_than_there_may_be() -> None:
    floor = Floor(at=120, lasting=timedelta(hours=1), workers=9)
    morning = Morning(lasting=timedelta(hours=1), workers=8)
    big = pool_policy(min_workers=7, floors=(floor,), morning=morning)

    (pool,) = small(config(big), HERE).pools

    assert pool.morning is not None
    assert {pool.max_workers, pool.min_workers, pool.floors[0].workers, pool.morning.workers} == {MOST_WORKERS}


def test_whatever_the_customer_uses_the_jobs_here_are_rqs() -> None:
    celery = replace(pool_policy(), source="celery", safe_stop=False)

    (pool,) = small(config(celery, hours=OFFICE), HERE).pools

    assert (pool.source, pool.safe_stop) == ("rq", True)
