"""RabbitMQ's answers as values."""

import json
import struct
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import amqp
import pytest

from controllers.adapters.broker_rules import Count, Missing
from controllers.adapters.rabbit_broker import ABSENT, RabbitBroker, Totals, parsed_tags, parsed_totals
from controllers.ports import Unknown
from tests.builders.components import BROKER

QUEUE = {"name": "train", "messages_ready": 2, "messages_unacknowledged": 1, "state": "running"}


def test_totals_are_read_by_name() -> None:
    assert parsed_totals(200, json.dumps([QUEUE]).encode()) == {"train": Totals(2, 1, "running")}


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, b""), (403, b""), (405, b""), (500, b"[]"), (200, b"{"), (200, b"{}"), (200, b"\xff"), (200, b"[" * 99_999)],
)
def test_bad_answers_of_the_management_api_are_unknown(status: int, body: bytes) -> None:
    assert isinstance(parsed_totals(status, body), Unknown)


@pytest.mark.parametrize("value", [None, -1, "2", True, 1.5])
def test_a_missing_or_impossible_count_leaves_the_queue_out(value: object) -> None:
    """KEDA read a missing field as 0."""
    assert parsed_totals(200, json.dumps([QUEUE | {"messages_unacknowledged": value}]).encode()) == {}
    assert parsed_totals(200, b"[]") == {}


@pytest.mark.parametrize("tags", [["management", "monitoring"], "management,monitoring"], ids=["now", "before 3.9"])
def test_tags_are_a_list_or_a_text(tags: object) -> None:
    assert parsed_tags(200, json.dumps({"tags": tags}).encode()) == {"management", "monitoring"}


@pytest.mark.parametrize(
    ("status", "body"), [(401, b'{"tags": []}'), (200, b"{"), (200, b"[]"), (200, b"{}"), (200, b'{"tags": null}')]
)
def test_tags_that_are_not_shown_are_unknown(status: int, body: bytes) -> None:
    assert isinstance(parsed_tags(status, body), Unknown)


def test_bytes_that_are_no_amqp_are_unknown_round_after_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's parser raises errors of any kind then."""

    class Garbage:
        def __init__(self, *_: object, **__: object) -> None: ...
        def connect(self) -> None:
            raise IndexError("index out of range")

        def collect(self) -> None: ...

    monkeypatch.setattr(amqp, "Connection", Garbage)
    broker = RabbitBroker(BROKER, "secret")

    for _ in range(2):
        link, answers = broker.ask(["train"])
        assert link == ""
        assert answers == {"train": Unknown("broker jobs did not answer in AMQP: is 5671 the port of AMQP?")}


class FakeAmqp:
    """A connection to a broker that has these queues, and its management API, which lists them."""

    server_properties: Mapping[str, str] = {"cluster_name": "rabbit"}

    def __init__(self, *queues: str) -> None:
        self.queues, self.declared = set(queues), list[str]()

    def __call__(self, *_: object, **__: object) -> "FakeAmqp":
        return self

    def connect(self) -> None: ...

    channel = __call__

    @property
    def transport(self) -> Any:
        return SimpleNamespace(sock=SimpleNamespace(settimeout=float))

    def queue_declare(self, name: str, **_: object) -> object:
        self.declared.append(name)
        if name not in self.queues:
            raise amqp.NotFound("no queue")
        return SimpleNamespace(message_count=0, consumer_count=0)

    def answer(self, _path: str) -> tuple[int, bytes]:
        listed = [QUEUE | {"name": name, "messages_ready": 0, "messages_unacknowledged": 0} for name in self.queues]
        return 200, json.dumps(listed).encode()


def test_an_absent_queue_is_asked_for_seldom_until_the_broker_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker logs two errors for each refusal."""
    fake = FakeAmqp("mail")
    monkeypatch.setattr(amqp, "Connection", fake)
    monkeypatch.setattr(RabbitBroker, "_get", fake.answer)
    broker = RabbitBroker(BROKER, "secret")

    for _ in range(ABSENT + 1):
        assert broker.ask(["mail", "train"])[1]["train"] == Missing()
    assert fake.declared.count("train") == 2
    assert fake.declared.count("mail") == ABSENT + 1

    fake.queues.add("train")
    broker.ask(["mail", "train"])

    assert isinstance(broker.ask(["mail", "train"])[1]["train"], Count)


def test_rights_of_a_server_that_is_no_broker_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error would hide the faults of Redis, too."""

    def garbage(*_: object, **__: object) -> None:
        raise struct.error("unpack requires a buffer of 7 bytes")

    def tags(*_: object) -> tuple[int, bytes]:
        return 200, b'{"tags": []}'

    monkeypatch.setattr(RabbitBroker, "_get", tags)
    monkeypatch.setattr(amqp, "Connection", garbage)

    seen = RabbitBroker(BROKER, "secret").excess_rights()

    assert isinstance(seen, Unknown)
    assert "is 5671 the port of AMQP" in seen.why
