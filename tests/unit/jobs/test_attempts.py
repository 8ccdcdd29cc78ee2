"""Which attempt of a job counts, on a real Redis."""

import pytest
from redis import Redis

from ebbtide.jobs.checkpoints import CheckpointError, Superseded
from ebbtide.jobs.checkpoints.attempts import Hold, attempt_key, claim, end_in_order, note

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


def test_so_many_hard_ends_without_a_checkpoint_and_no_more(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})
    for _ in range(3):
        claim(client, "a", 0, HOLD, most=3)

    with pytest.raises(CheckpointError, match="ended hard 3 times without a new checkpoint"):
        claim(client, "a", 0, HOLD, most=3)

    assert claim(client, "a", 0, HOLD, most=3) == 4  # enqueued again by a person
    assert client.hget(attempt_key("a"), "deaths") is None


def test_attempts_that_end_in_order_are_no_hard_ends(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})

    for _ in range(5):
        end_in_order(client, "a", claim(client, "a", 0, HOLD, most=3))

    assert client.hget(attempt_key("a"), "deaths") is None


def test_the_end_of_an_attempt_that_was_replaced_hides_no_hard_end_of_the_newer_one(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})
    replaced = claim(client, "a", 0, HOLD, most=3)
    claim(client, "a", 0, HOLD, most=3)

    end_in_order(client, "a", replaced)

    claim(client, "a", 0, HOLD, most=3)
    assert client.hget(attempt_key("a"), "deaths") == b"2"


def test_an_attempt_may_ask_for_its_number_as_often_as_its_store_is_away(client: Redis) -> None:
    client.zadd("started", {"a:1": 1})
    token = None

    for _ in range(5):
        token = claim(client, "a", 0, HOLD, most=3, already=token)

    assert (token, client.hget(attempt_key("a"), "deaths")) == (5, None)


def test_a_checkpoint_clears_the_count_and_a_problem_does_not(client: Redis) -> None:
    client.hset(attempt_key("a"), "deaths", 2)

    note(client, "a", {"problem": "the bucket is away"})
    assert client.hget(attempt_key("a"), "deaths") == b"2"
    note(client, "a", {"step": 3, "saved": "2026-01-01T00:00:00+00:00"})
    assert client.hget(attempt_key("a"), "deaths") == b"0"
