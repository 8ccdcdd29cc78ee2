"""Which attempt of a job counts, on a real Redis."""

import pytest
from redis import Redis

from ebbtide.jobs.checkpoints import CheckpointError, Superseded
from ebbtide.jobs.checkpoints.attempts import Hold, attempt_key, claim, note

pytestmark = pytest.mark.redis

HOLD = Hold("started", "a:1")


def test_each_attempt_has_a_greater_number(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})

    assert [claim(client, "a", 0, HOLD) for _ in range(3)] == [1, 2, 3]


def test_the_number_exceeds_what_the_store_has_seen(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})
    client.hset(attempt_key("a"), "token", 5)

    assert claim(client, "a", 41, HOLD) == 42
    assert claim(client, "a", 7, HOLD) == 43


@pytest.mark.parametrize("kind", ["sorted set", "list", "hash"])
def test_who_does_not_have_the_job_gets_no_number(client: Redis, kind: str) -> None:
    with pytest.raises(Superseded, match="job a was given to another worker"):
        claim(client, "a", 0, HOLD)
    match kind:
        case "sorted set":
            client.zadd("started", {"b:1": 1})
        case "list":
            client.rpush("started", "b:1")
        case _:
            client.hset("started", "b:1", "")
    with pytest.raises(Superseded):
        claim(client, "a", 0, HOLD)
    assert client.exists(attempt_key("a")) == 0


def test_so_many_attempts_without_a_checkpoint_and_no_more(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})
    for _ in range(2):
        claim(client, "a", 0, HOLD, most=2)

    with pytest.raises(CheckpointError, match="ended hard 3 times without a new checkpoint"):
        claim(client, "a", 0, HOLD, most=2)

    assert claim(client, "a", 0, HOLD, most=2) == 3  # enqueued again by a person


def test_a_checkpoint_clears_the_count_and_a_problem_does_not(client: Redis) -> None:
    client.hset(attempt_key("a"), mapping={"begun": 2, "deaths": 2})

    note(client, "a", {"problem": "the bucket is away"})
    assert client.hmget(attempt_key("a"), "begun", "deaths") == [b"2", b"2"]
    note(client, "a", {"step": 3, "saved": "2026-01-01T00:00:00+00:00"})
    assert client.hmget(attempt_key("a"), "begun", "deaths") == [b"0", b"0"]
