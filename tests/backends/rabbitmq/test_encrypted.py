"""A broker that speaks TLS only, on both ports, with a certificate for localhost that a private authority signed."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.adapters.broker_rules import Answer, Count
from controllers.adapters.rabbit_broker import RabbitBroker
from controllers.ports import Unknown
from ebbtide.demo.embedded import HOST
from ebbtide.jobs.amqp_worker import AmqpWorker
from ebbtide.vocabulary.controller_config import BrokerEndpoint
from tests.backends.rabbitmq.server import PASSWORD, Rabbit
from tests.builders.redis import wait_until
from tests.redis_faults.redis_server import certificates

pytestmark = [pytest.mark.backends, pytest.mark.rabbitmq]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encrypted")


@pytest.fixture(scope="module")
def encrypted(folder: Path) -> Iterator[Rabbit]:
    with Rabbit(certificates=certificates(folder / "ours", "DNS:localhost")) as broker:
        broker.add_reader()
        broker.declare("train")
        broker.publish("train", 2)
        yield broker


@pytest.fixture
def trusted(encrypted: Rabbit, folder: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerEndpoint:
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ours" / "ca.pem"))
    return encrypted.endpoint()


def ask(endpoint: BrokerEndpoint) -> Answer:
    with closing(RabbitBroker(endpoint, PASSWORD)) as broker:
        return broker.ask(["train"])[1]["train"]


def why(endpoint: BrokerEndpoint) -> str:
    answer = ask(endpoint)
    assert isinstance(answer, Unknown), answer
    return answer.why


def test_counts_are_read_from_a_broker_that_a_private_authority_vouches_for(trusted: BrokerEndpoint) -> None:
    assert ask(trusted) == Count(ready=2, consumers=0, listed=2, unacked=0)


def test_an_authority_that_is_not_trusted_is_named(encrypted: Rabbit) -> None:
    assert why(encrypted.endpoint()) == (
        "broker jobs has a certificate that is not trusted, or for another host name "
        "(self-signed certificate in certificate chain)"
    )


def test_a_host_that_is_not_in_the_certificate_is_refused(trusted: BrokerEndpoint) -> None:
    assert f"IP address mismatch, certificate is not valid for '{HOST}'" in why(replace(trusted, host=HOST))
    management = trusted.management.replace("localhost", HOST)
    assert f"IP address mismatch, certificate is not valid for '{HOST}'" in why(replace(trusted, management=management))


def test_a_port_with_and_one_without_tls_are_told_apart(trusted: BrokerEndpoint, rabbit: Rabbit) -> None:
    plain = replace(trusted, port=rabbit.port)
    plain_management = replace(trusted, management=f"https://localhost:{rabbit.management_port}")

    assert "the TLS handshake with broker jobs failed: is this port a TLS port?" in why(plain)
    assert "the TLS handshake with the management API of broker jobs failed" in why(plain_management)
    assert "broker jobs cannot be reached: [Errno 104] Connection reset by peer" in why(replace(trusted, tls=False))
    assert "broker jobs does not answer in HTTP: is this port a TLS port, for https?" in why(
        replace(trusted, management=trusted.management.replace("https", "http"))
    )


def test_a_frozen_broker_is_unknown_until_it_answers(trusted: BrokerEndpoint, encrypted: Rabbit) -> None:
    with closing(RabbitBroker(trusted, PASSWORD)) as broker:
        first, _ = broker.ask(["train"])
        encrypted.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: broker.ask(["train"])[0] == "", "the signal to arrive")
            assert broker.ask(["train"])[1]["train"] == Unknown("broker jobs did not answer within 1 s")
        finally:
            encrypted.signal(signal.SIGCONT)

        wait_until(lambda: isinstance(broker.ask(["train"])[1]["train"], Count), "the broker to answer")
        assert first != broker.ask(["train"])[0]


@pytest.mark.usefixtures("trusted")
def test_a_consumer_takes_messages_of_many_frames(encrypted: Rabbit) -> None:
    encrypted.declare("scan")
    texts = ["é" * 200_000, "small", "", "x" * 1_000_000]
    for text in texts:
        encrypted.publish("scan", payload=text)
    seen: list[str] = []

    def handle(payload: bytes) -> None:
        seen.append(payload.decode())
        if len(seen) == len(texts):
            os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        AmqpWorker("scan", handle, url=f"amqps://guest:guest@localhost:{encrypted.port}", environment={}).run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert seen == texts
