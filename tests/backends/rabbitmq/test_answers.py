"""A real broker's answers, good and bad, as the controller receives them."""

import signal
from collections.abc import Iterator

import amqp
import pytest

from controllers.adapters.broker_rules import Answer, Count, Missing
from controllers.adapters.rabbit_demand import RabbitBroker
from controllers.ports import Unknown
from tests.backends.rabbitmq.server import PASSWORD, READER, Rabbit
from tests.builders.redis import wait_until

pytestmark = pytest.mark.backends


@pytest.fixture
def broker(rabbit: Rabbit) -> Iterator[RabbitBroker]:
    for queue in rabbit.queues():
        rabbit.delete(queue)
    rabbit.add_reader()
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


def test_each_refusal_is_named(rabbit: Rabbit, broker: RabbitBroker) -> None:
    rabbit.declare("train")

    assert "ACCESS_REFUSED" in why(RabbitBroker(rabbit.endpoint(), "wrong"))
    assert "vhost nope not found" in why(RabbitBroker(rabbit.endpoint(vhost="nope"), PASSWORD))
    rabbit.add_reader(tags="")
    assert "the management API answered 401" in why(broker)
    rabbit.call("DELETE", f"/api/permissions/%2F/{READER}")
    assert "access to vhost '/' refused" in why(RabbitBroker(rabbit.endpoint(), PASSWORD))


def test_a_frozen_broker_is_unknown_until_it_answers_again_on_another_connection(
    rabbit: Rabbit, broker: RabbitBroker
) -> None:
    rabbit.declare("train")
    first, _ = broker.ask(["train"])

    rabbit.signal(signal.SIGSTOP)
    try:
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
