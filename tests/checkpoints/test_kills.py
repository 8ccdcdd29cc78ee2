"""Real RQ workers, a real Redis, kills at random instants: no job is lost, none ends with another result, and no more
work is repeated than between two offers."""

from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.checkpoints.kills import MACHINE, PROCESS, REDIS, SOFT, STEPS_PER_OFFER, STORE, kill_at_random
from tests.counts import count

ALL = {SOFT: 8, PROCESS: 5, MACHINE: 4, REDIS: 1, STORE: 1}


@pytest.mark.backends
@pytest.mark.timeout(500)
def test_100_ends_of_all_kinds_lose_nothing(server: EmbeddedRedis, client: Redis, tmp_path: Path) -> None:
    outcome = kill_at_random(server, client, tmp_path, ALL, kills=100, jobs=20, seed=1)
    print(outcome)

    assert outcome.lost == []
    assert outcome.wrong == []
    assert outcome.repeated <= outcome.hard * STEPS_PER_OFFER


@pytest.mark.redis
def test_on_sigterm_in_time_no_step_is_done_twice(server: EmbeddedRedis, client: Redis, tmp_path: Path) -> None:
    outcome = kill_at_random(server, client, tmp_path, {SOFT: 1}, kills=12, jobs=4, seed=2)

    assert outcome.lost == []
    assert outcome.wrong == []
    assert outcome.repeated == 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(10, 14))
def test_2000_ends_of_all_kinds_lose_nothing(server: EmbeddedRedis, client: Redis, tmp_path: Path, seed: int) -> None:
    outcome = kill_at_random(server, client, tmp_path, ALL, kills=count(500, 50), jobs=100, seed=seed)
    print(outcome)

    assert outcome.lost == []
    assert outcome.wrong == []
    assert outcome.repeated <= outcome.hard * STEPS_PER_OFFER
