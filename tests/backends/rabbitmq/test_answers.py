"""A real broker's answers, good and bad, as the controller receives them."""

import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import amqp
import pytest

from controllers.adapters.broker_rules import Answer, Count, Missing
from controllers.adapters.rabbit_broker import MANY, POLL, POLL_MANY, RabbitBroker
from controllers.ports import Unknown
from tests.backends.rabbitmq.server import PASSWORD, Rabbit
from tests.builders.redis import wait_until

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]


@pytest.fixture
def broker(rabbit: Rabbit) -> Iterator[RabbitBroker]:
    rabbit.reset()
    connected = RabbitBroker(rabbit.endpoint(), PASSWORD)
    yield connected
    connected.close()


def ask(broker: RabbitBroker, queue: str) -> Answer:
    return broker.ask([queue])[1][queue]


def why(broker: RabbitBroker, queue: str = "train") -> str:
    answer = ask(broker, queue)
    assert isinstance(answer, Unknown), answer
    return answer.why


@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_waiting_messages_are_counted_by_a_user_without_any_permission(
    rabbit: Rabbit, broker: RabbitBroker, quorum: bool
) -> None:
    rabbit.declare("train", quorum=quorum)
    rabbit.publish("train", 3)

    wait_until(lambda: ask(broker, "train") == Count(ready=3, consumers=0, listed=3, unacked=0), "both counts to agree")


def test_an_absent_queue_hides_no_other(rabbit: Rabbit, broker: RabbitBroker) -> None:
    rabbit.declare("train")

    link, answers = broker.ask(["absent", "train"])
    again, _ = broker.ask(["absent", "train"])

    assert answers == {"absent": Missing(), "train": Count(ready=0, consumers=0, listed=0, unacked=0)}
    assert link == again  # each refusal closes the channel, and the connection stays


def test_an_exclusive_queue_is_unknown(rabbit: Rabbit, broker: RabbitBroker) -> None:
    rabbit.declare("train")
    with amqp.Connection(f"{rabbit.host}:{rabbit.port}") as owner:  # pyright: ignore[reportGeneralTypeIssues]
        owner.channel().queue_declare("mine", exclusive=True)

        assert "RESOURCE_LOCKED" in why(broker, "mine")
        assert isinstance(ask(broker, "train"), Count)


@pytest.mark.parametrize(
    ("tags", "permitted", "password", "vhost", "message"),
    [
        ("management", True, "wrong", "/", "broker jobs refused user reader: ACCESS_REFUSED - Login was refused"),
        (
            "management",
            True,
            PASSWORD,
            "nope",
            "broker jobs refused user reader: NOT_ALLOWED - vhost nope not",
        ),
        ("management", False, PASSWORD, "/", "NOT_ALLOWED - access to vhost '/' refused for user 'reader'"),
        ("monitoring", False, PASSWORD, "/", "NOT_ALLOWED - access to vhost '/' refused for user 'reader'"),
        ("", True, PASSWORD, "/", "the management API answered 401: wanted a user with the tag management"),
    ],
    ids=["password", "vhost", "permission", "monitoring", "tag"],
)
def test_each_refusal_is_named(
    rabbit: Rabbit, broker: RabbitBroker, tags: str, permitted: bool, password: str, vhost: str, message: str
) -> None:
    rabbit.declare("train")
    rabbit.add_reader(tags, permitted=permitted)

    with closing(RabbitBroker(rabbit.endpoint(vhost=vhost), password)) as refused:
        assert message in why(refused)
    rabbit.add_reader()
    assert isinstance(ask(broker, "train"), Count)  # without a restart of the controller


def test_among_more_than_500_queues_counts_are_right_and_polled_less_often(
    rabbit: Rabbit, broker: RabbitBroker
) -> None:
    rabbit.declare("train")
    rabbit.publish("train", 2)
    counts = Count(ready=2, consumers=0, listed=2, unacked=0)
    assert ask(broker, "train") == counts
    assert broker.pause == POLL

    with amqp.Connection(f"{rabbit.host}:{rabbit.port}") as owner:  # pyright: ignore[reportGeneralTypeIssues]
        channel = cast("Any", owner).channel()
        for number in range(MANY):
            channel.queue_declare(f"other-{number}", exclusive=True)

        assert ask(broker, "train") == counts
        assert broker.pause == POLL_MANY


@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_a_queue_that_was_made_again_has_the_counts_of_the_new_one(
    rabbit: Rabbit, broker: RabbitBroker, quorum: bool
) -> None:
    rabbit.declare("train")
    rabbit.publish("train", 2)
    assert ask(broker, "train") == Count(ready=2, consumers=0, listed=2, unacked=0)

    rabbit.delete("train")
    assert ask(broker, "train") == Missing()
    rabbit.declare("train", quorum=quorum)

    wait_until(lambda: ask(broker, "train") == Count(ready=0, consumers=0, listed=0, unacked=0), "both counts to agree")


def test_a_frozen_broker_is_unknown_until_it_answers_again_on_another_connection(
    rabbit: Rabbit, broker: RabbitBroker
) -> None:
    rabbit.declare("train")
    first, _ = broker.ask(["train"])

    rabbit.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: broker.ask(["train"])[0] == "", "the signal to arrive")
        assert why(broker) == "broker jobs did not answer within 1 s"
    finally:
        rabbit.signal(signal.SIGCONT)

    wait_until(lambda: isinstance(ask(broker, "train"), Count), "the broker to answer")
    second, _ = broker.ask(["train"])
    assert first != second
    assert first != ""


def test_a_restart_keeps_the_messages_and_is_another_link(rabbit: Rabbit, broker: RabbitBroker) -> None:
    rabbit.declare("train", quorum=True)
    rabbit.publish("train", 2)
    first, _ = broker.ask(["train"])

    rabbit.restart()

    wait_until(lambda: isinstance(answer := ask(broker, "train"), Count) and answer.ready == 2, "the messages")
    assert broker.ask(["train"])[0] != first


def test_a_virtual_host_with_many_queues_is_asked_less_often(rabbit: Rabbit, broker: RabbitBroker) -> None:
    rabbit.declare("train")
    broker.ask(["train"])
    often = broker.pause
    with cast("Any", amqp.Connection)(f"{rabbit.host}:{rabbit.port}") as connection:
        channel = connection.channel()
        for number in range(MANY + 1):
            channel.queue_declare(f"other-{number}", auto_delete=True, exclusive=True)

        answer = ask(broker, "train")

        assert isinstance(answer, Count)
        assert (often, broker.pause) == (POLL, POLL_MANY)
    wait_until(lambda: isinstance(ask(broker, "train"), Count) and broker.pause == POLL, "the queues to be gone")
