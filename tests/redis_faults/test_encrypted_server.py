"""The options of the Redis pod, run by a real server; the addresses that clients are given, used by real clients."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis, exceptions

from components.pods.redis_access import CA_FILE, python_url, redis_endpoint, redis_url
from controllers.adapters.redis_connection import connect
from tests.redis_faults.encrypted_redis import PASSWORD, SETTINGS, encrypted_server, endpoint
from tests.redis_faults.redis_server import Certificates, certificates

pytestmark = pytest.mark.redis_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encrypted")


@pytest.fixture(scope="module")
def issued(folder: Path) -> Certificates:
    return certificates(folder / "tls", "DNS:localhost")


@pytest.fixture(scope="module")
def port(folder: Path, issued: Certificates) -> Iterator[int]:
    with encrypted_server(folder, issued) as chosen:
        yield chosen


def test_the_controller_connects_with_what_its_document_says(port: int, issued: Certificates) -> None:
    with connect(endpoint(port, issued.authority), {"REDIS_PASSWORD": PASSWORD}) as client:
        assert client.ping()
        assert client.info("memory")["maxmemory_policy"] == "noeviction"
        assert client.config_get("port") == {"port": "0"}


def test_a_worker_connects_with_its_address_alone(port: int, issued: Certificates) -> None:
    with Redis.from_url(python_url(endpoint(port, issued.authority), PASSWORD)) as client:
        assert client.ping()


def test_without_the_authority_a_worker_refuses_the_server(port: int) -> None:
    unaware = replace(redis_endpoint(SETTINGS), host="localhost", port=port, ca_file=None)

    with Redis.from_url(python_url(unaware, PASSWORD)) as client, pytest.raises(exceptions.ConnectionError):
        client.ping()


def test_a_certificate_for_another_name_is_refused(port: int, issued: Certificates) -> None:
    other = endpoint(port, issued.authority, host="127.0.0.1")

    with Redis.from_url(python_url(other, PASSWORD)) as client, pytest.raises(exceptions.ConnectionError):
        client.ping()


def test_nobody_is_answered_without_tls(port: int, issued: Certificates) -> None:
    plain = replace(endpoint(port, issued.authority), tls=False)

    with (
        Redis.from_url(redis_url(plain, PASSWORD), socket_timeout=2) as client,
        pytest.raises((exceptions.ConnectionError, exceptions.TimeoutError)),
    ):
        client.ping()


def test_the_mounted_file_is_the_one_that_the_address_names() -> None:
    assert f"ssl_ca_certs={CA_FILE}" in python_url(redis_endpoint(SETTINGS), "")
