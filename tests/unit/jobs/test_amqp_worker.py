"""The broker's address, as a consumer of RabbitMQ reads it."""

import pytest

from ebbtide.jobs.amqp_worker import Address, AmqpWorker, parsed_address


def address(**changes: object) -> Address:
    usual: dict[str, object] = {
        "host": "mq",
        "port": 5672,
        "tls": False,
        "user": "guest",
        "password": "guest",
        "vhost": "/",
    }
    return Address(**usual | changes)  # pyright: ignore[reportArgumentType] - of the fields' own types


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("amqp://mq", {}),
        ("amqp://mq/", {}),
        ("amqp://mq//", {}),
        ("amqp://mq/%2F", {}),
        ("amqps://mq", {"port": 5671, "tls": True}),
        ("amqp://mq:5673/prod", {"port": 5673, "vhost": "prod"}),
        ("amqp://etl:p%40s%2Fs%23@mq/a%2Fb", {"user": "etl", "password": "p@s/s#", "vhost": "a/b"}),
        ("amqp://[fd00::1]:5672", {"host": "fd00::1"}),
    ],
)
def test_an_address_has_parts_and_defaults(url: str, parts: dict[str, object]) -> None:
    assert parsed_address(url) == address(**parts)


@pytest.mark.parametrize(
    ("url", "got"),
    [
        ("", "got none"),
        ("mq:5672", "got one that begins with 'mq'"),
        ("redis://etl:hush@mq", "got one that begins with 'redis'"),
        ("amqp:///prod", "got one without a host"),
        ("amqp://etl:hush@mq/prod?heartbeat=2", "got one with options"),
        ("amqp://etl:hu#sh@mq", "percent-encoded?"),
        ("amqp://etl:hu/sh@mq", "percent-encoded?"),
        ("amqp://mq:70000", "got another text"),
    ],
)
def test_another_address_is_refused_in_one_line_without_the_password(url: str, got: str) -> None:
    with pytest.raises(ValueError, match=r"^EBBTIDE_BROKER_URL: expected an address such as amqps://") as refused:
        AmqpWorker("etl", print, environment={"EBBTIDE_BROKER_URL": url})

    assert got in str(refused.value)
    assert "hu" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert "\n" not in str(refused.value)
