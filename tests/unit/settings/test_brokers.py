"""Brokers of a stack file: rules between a broker and its pools, and the controller's document."""

import json
from pathlib import Path

import pytest

from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.vocabulary.controller_config import BrokerEndpoint, ControllerConfig, RedisEndpoint
from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from tests.builders.settings import loaded, problem_of, shortest

BROKER = """
    ebbtide:brokers:
      jobs:
        kind: rabbitmq
        url: amqps://mq.example.com/a%2Fb
        management: https://mq.example.com
        controller: { user: reader, secret: rabbit-reader }
        consumerTimeout: 13h
"""


def file_with(source: str = "kind: celery, broker: jobs, acks: late", pool: str = "longestJob: 12h") -> str:
    text = shortest(more=BROKER)
    return text.replace("queues: [train]", f"{source}, queues: [train]").replace("longestJob: 12h", pool)


def document(text: str, folder: Path) -> str:
    return dump(controller_config(loaded(text, folder), RedisEndpoint(host="redis"), years=[2026]))


def test_the_controller_gets_the_address_and_the_name_of_the_password(tmp_path: Path) -> None:
    config = load(ControllerConfig, document(file_with(), tmp_path))

    assert config.brokers == (
        BrokerEndpoint(
            name="jobs",
            host="mq.example.com",
            port=5671,
            vhost="a/b",
            tls=True,
            management="https://mq.example.com:443",
            username="reader",
            password_env="BROKER_JOBS_PASSWORD",
        ),
    )
    assert [(pool.source, pool.broker) for pool in config.pools] == [("celery", "jobs")]


def test_only_a_document_with_a_broker_is_refused_by_the_previous_release(tmp_path: Path) -> None:
    """The previous release reads schemas 3 and 4."""
    with_broker = json.loads(document(file_with(), tmp_path))
    without = json.loads(document(shortest(), tmp_path))

    assert (with_broker["schema"], without["schema"]) == (5, 4)
    assert "brokers" not in without
    assert all("broker" not in pool for pool in without["pools"])


def test_a_document_whose_pool_names_no_broker_is_refused(tmp_path: Path) -> None:
    content = json.loads(document(file_with(), tmp_path))
    content["brokers"][0]["name"] = "other"

    with pytest.raises(UnreadableConfig, match=r"unknown brokers: \['jobs'\]"):
        load(ControllerConfig, json.dumps(content))


@pytest.mark.parametrize("longest", ["13h", "14h"])
def test_a_broker_waits_longer_than_the_longest_job(longest: str, tmp_path: Path) -> None:
    told = problem_of(file_with(pool=f"longestJob: {longest}"), tmp_path)

    assert told.tells("broker.timeout-too-short", longest, "ebbtide:brokers.jobs", "13h")


def test_a_misspelt_broker_is_told_the_near_one(tmp_path: Path) -> None:
    told = problem_of(file_with(source="kind: celery, broker: job, acks: late"), tmp_path)

    assert told.tells("source.unknown-broker", "'job'", "did you mean jobs?")


@pytest.mark.parametrize("option", ["-P, solo", "--pool=solo", "--pool, solo"])
def test_a_solo_pool_is_refused(option: str, tmp_path: Path) -> None:
    command = f"longestJob: 12h, command: [celery, -A, app, worker, {option}, -Q, train]"

    assert problem_of(file_with(pool=command), tmp_path).tells("broker.solo-pool", "command")


def test_a_pool_in_redis_may_run_solo_beside_a_broker(tmp_path: Path) -> None:
    command = "longestJob: 12h, command: [celery, -A, app, worker, -P, solo, -Q, train]"

    assert loaded(file_with(source="kind: celery, acks: late", pool=command), tmp_path).workers["train"].command
