"""The jobs of a show: busy by day, a few in the evening, none at night, and the first ones when people come. Pure.

Planned ahead with a seed, so that two shows of one stack get the same jobs. How many run at a time is bounded by the
pools' sizes, which are lowered so that this machine's workers are few.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from control_plane.playground.evening import is_evening
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours

MOST_WORKERS = 6  # real processes at a time, besides those that end just then
_JOB_MINUTES = (12.0, 50.0)  # of the customer's time
_BUSY, _QUIET = 0.8, 0.15  # share of a pool's workers that have a job, on average
_LOOK = timedelta(minutes=15)  # how often an idle hour is looked at for the next job


@dataclass(frozen=True, slots=True, order=True)
class Submission:
    at: float  # the customer's seconds since the start
    queue: str
    seconds: float  # the customer's


def small(config: ControllerConfig, redis: RedisEndpoint) -> ControllerConfig:
    """The rendered document for this machine: few workers, and RQ's jobs in every pool, whatever speaks there else."""
    shares = _shares(config.pools)
    return replace(config, redis=redis, pools=tuple(_small(pool, shares[pool.name]) for pool in config.pools))


def _shares(pools: Sequence[PoolPolicy]) -> Mapping[str, int]:
    """The first ones get more where it does not come out even; each pool gets one at least."""
    each, rest = divmod(MOST_WORKERS, max(1, len(pools)))
    return {pool.name: max(1, each + (number < rest)) for number, pool in enumerate(pools)}


def _small(pool: PoolPolicy, share: int) -> PoolPolicy:
    most = min(pool.max_workers, share)
    morning = pool.morning
    return replace(
        pool,
        source="rq",
        safe_stop=True,
        max_workers=most,
        min_workers=min(pool.min_workers, most),
        floors=tuple(replace(floor, workers=min(floor.workers, most)) for floor in pool.floors),
        morning=None if morning is None else replace(morning, workers=min(morning.workers, most)),
    )


def submissions(config: ControllerConfig, start: datetime, lasting: timedelta, seed: int) -> list[Submission]:
    """In order of time. At most `MOST_WORKERS` pools get any: the first ones."""
    return sorted(
        submission
        for number, pool in enumerate(config.pools[:MOST_WORKERS])
        for submission in _of_pool(pool, config.hours, (start, lasting), random.Random(f"{seed} {number}"))
    )


def _of_pool(
    pool: PoolPolicy, hours: BusinessHours, when: tuple[datetime, timedelta], dice: random.Random
) -> Iterator[Submission]:
    start, lasting = when
    mean = timedelta(minutes=sum(_JOB_MINUTES) / 2) / pool.max_workers
    at, born = timedelta(), 0
    while at < lasting:
        share = _load(hours, start + at)
        if not share:
            at += _LOOK
            continue
        at += mean / share * dice.expovariate(1)
        if at < lasting and _load(hours, start + at):
            born += 1
            minutes = dice.uniform(*_JOB_MINUTES)
            yield Submission(at.total_seconds(), pool.queues[born % len(pool.queues)], minutes * 60)


def _load(hours: BusinessHours, now: datetime) -> float:
    if hours.is_open(now):
        return _BUSY
    return _QUIET if is_evening(hours, now) else 0.0
