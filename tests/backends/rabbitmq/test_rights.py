"""What a real broker shows of the rights of the controller's user, and what it takes to look."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from controllers.adapters.broker_rules import Count
from controllers.adapters.probe import probe
from controllers.adapters.rabbit_broker import RabbitBroker
from controllers.ports import Unknown
from ebbtide.demo.embedded import free_port
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.frameworks import QUEUE
from tests.backends.rabbitmq.conftest import RabbitScene
from tests.backends.rabbitmq.server import PASSWORD, READER, Rabbit
from tests.builders.controllers import config
from tests.builders.redis import endpoint, server, shared_server, wait_until
from tests.paths import ROOT

__all__ = ["server", "shared_server"]

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]

EMPTY = {"configure": "", "write": "", "read": ""}


@pytest.fixture(autouse=True)
def leaves_the_reader_as_it_was(rabbit: Rabbit) -> Iterator[None]:
    rabbit.reset()
    yield
    rabbit.add_reader()


@pytest.mark.parametrize(
    ("tags", "read", "excess"),
    [
        ("management", "", []),
        ("monitoring", "", ["has the tag monitoring"]),
        ("management", ".*", ["may take messages"]),
        (
            "policymaker,administrator",
            ".*",
            ["has the tag administrator", "has the tag policymaker", "may take messages"],
        ),
    ],
)
def test_rights_beyond_looking_are_found_and_the_commands_take_them_away(
    rabbit: Rabbit, tags: str, read: str, excess: list[str]
) -> None:
    rabbit.declare("train")
    rabbit.publish("train", 3)
    rabbit.add_reader(tags=tags)
    rabbit.call("PUT", f"/api/permissions/%2F/{READER}", **(EMPTY | {"read": read}))
    broker = RabbitBroker(rabbit.endpoint(), PASSWORD)

    try:
        assert broker.excess_rights() == excess
        link, answers = broker.ask(["train"])  # the same connection still reads, and nothing was taken
        assert answers == {"train": Count(ready=3, consumers=0, listed=3, unacked=0)}
        assert link.endswith(" 1")
    finally:
        broker.close()


def test_each_broker_has_one_line_with_the_commands(rabbit: Rabbit, server: EmbeddedRedis) -> None:
    reader, redis = rabbit.endpoint(), endpoint(server)
    away = replace(reader, name="away", port=free_port())
    rabbit.add_reader(tags="administrator")

    first, second = probe(config(brokers=(reader, away), redis=redis), {"RABBIT": PASSWORD})

    assert first == (
        "warning: broker jobs: user reader has the tag administrator; it only needs to look: "
        'rabbitmqctl set_user_tags reader management; rabbitmqctl set_permissions -p / reader "" "" ""'
    )
    assert second.startswith("warning: broker away: user reader: its rights could not be checked: the broker cannot be")
    rabbit.add_reader()
    assert probe(config(brokers=(reader,), redis=redis), {"RABBIT": PASSWORD}) == []


def test_without_a_tag_nothing_is_known_of_the_rights(rabbit: Rabbit) -> None:
    rabbit.add_reader(tags="")
    broker = RabbitBroker(rabbit.endpoint(), PASSWORD)

    assert broker.excess_rights() == Unknown("the management API does not name the user's tags (HTTP 401)")
    broker.close()


def test_the_documented_rights_are_enough_for_celerys_workers_and_producers(
    scene: RabbitScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    (may,) = re.findall(r"^MAY='(.+)'$", (ROOT / "docs" / "reference" / "backends.md").read_text(), re.MULTILINE)
    rights = may.replace("etl", QUEUE)
    rabbit = scene.rabbit
    rabbit.call("PUT", "/api/users/etl", password=PASSWORD, tags="")
    rabbit.call("PUT", "/api/permissions/%2F/etl", configure=rights, write=rights, read=rights)
    monkeypatch.setattr(Rabbit, "url", rabbit.url.replace("guest:guest", f"etl:{PASSWORD}"))

    scene.worker()
    scene.enqueue(("a", 0.1))

    wait_until(lambda: scene.begun("a"), "the task to begin")
