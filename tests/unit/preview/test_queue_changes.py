"""A pool that leaves a queue: its name, its broker or the broker's address changes."""

from collections.abc import Mapping
from typing import Any

import pytest

from ebbtide.preview.sides import Side
from ebbtide.settings import parse_stack
from tests.builders.mutants import sound_config
from tests.builders.sides import dangers

RABBIT = {
    "kind": "rabbitmq",
    "url": "amqps://mq.example.com/prod",
    "management": "https://mq.example.com",
    "controller": {"user": "reader", "secret": "rabbit-reader"},
    "consumerTimeout": "30h",
}
IN_SQS = {"kind": "consumer", "broker": "aws"}
NO_KEYS: Mapping[str, Any] = {}
IN_BROKER = {"kind": "celery", "acks": "late", "broker": "jobs"}


def side(
    source: dict[str, Any],
    *,
    url: str = "amqps://mq.example.com/prod",
    pool: str = "train",
    keys: Mapping[str, Any] = NO_KEYS,
    **more: Any,
) -> Side:
    """A stack with one pool and two brokers; `more` has further pools by name."""
    config = sound_config("shortest")
    settings = {key: value for key, value in config["ebbtide:workers"]["train"].items() if key != "source"}
    settings |= {"longestJob": "11h", **keys}
    sources = {pool: {"queues": ["train"], **source}, **more}
    brokers = {
        "jobs": {**RABBIT, "url": url},
        "more": {**RABBIT, "url": "amqps://other.example.com"},
        "aws": {"kind": "sqs"},
    }
    stack = {
        **config,
        "ebbtide:brokers": brokers,
        "ebbtide:workers": {name: {**settings, "source": each} for name, each in sources.items()},
    }
    return Side(stack="acme", settings=parse_stack(stack, stack="acme", file="any"), resources=())


def left(before: Side, after: Side) -> list[str]:
    return [danger.text for danger in dangers(before, after) if danger.code == "queues-left"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (side({"kind": "celery", "acks": "late"}), side(IN_BROKER), "queue train in Redis from pool train"),
        (side(IN_BROKER), side({"kind": "celery", "acks": "late"}), "queue train in broker jobs"),
        (side(IN_BROKER), side({**IN_BROKER, "broker": "more"}), "queue train in broker jobs"),
        (side(IN_BROKER), side(IN_BROKER, url="amqps://mq.example.com/test"), "queue train in broker jobs"),
    ],
)
def test_a_pool_that_leaves_a_queue_is_named(before: Side, after: Side, words: str) -> None:
    [text] = left(before, after)

    assert words in text


@pytest.mark.parametrize(
    "after",
    [
        side({**IN_BROKER, "queues": ["train", "fit"]}),
        side(IN_BROKER, url="amqp://mq.example.com:5673/prod"),
        side({**IN_BROKER, "queues": ["fit"]}, other={**IN_BROKER, "queues": ["train"]}),
        side(IN_BROKER, pool="fit"),
    ],
)
def test_a_queue_that_is_still_served_is_not(after: Side) -> None:
    assert left(side(IN_BROKER), after) == []


def test_a_pool_in_redis_that_stays_there_is_not() -> None:
    assert left(side({}), side({"queues": ["fit"]})) == []


def test_a_pool_that_goes_with_its_queue_is_no_change_of_a_pool() -> None:
    assert left(side(IN_BROKER), side({**IN_BROKER, "queues": ["fit"]}, pool="fit")) == []


def rights_end(before: Side, after: Side) -> list[str]:
    return [danger.text for danger in dangers(before, after) if danger.code == "queue-rights-end"]


@pytest.mark.parametrize(
    "after",
    [side({**IN_SQS, "queues": ["scan"]}), side(IN_BROKER), side({}), side(IN_SQS, pool="renamed")],
)
def test_workers_that_lose_the_rights_on_their_queue_are_named(after: Side) -> None:
    [text] = rights_end(side(IN_SQS), after)

    assert "from pool train the rights on queue train" in text


def test_rights_that_stay_or_are_not_of_the_stack_are_no_danger() -> None:
    kept = {"aws": {"queues": {"train": "receive"}}}

    assert rights_end(side(IN_SQS), side({**IN_SQS, "queues": ["train", "scan"]})) == []
    assert rights_end(side(IN_SQS), side({**IN_SQS, "queues": ["scan"]}, keys=kept)) == []
    assert rights_end(side(IN_BROKER), side({})) == []
    assert rights_end(side(IN_SQS, keys={"serviceAccount": "mine"}), side({})) == []
