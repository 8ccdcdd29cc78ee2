"""The address of an encrypted Redis, as Celery's own transport reads it: by itself it would check nothing."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from components.pods.redis_access import python_url
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.backends.environments import NoEnvironment, environment
from tests.redis_faults.encrypted_redis import PASSWORD, encrypted_server, endpoint
from tests.redis_faults.redis_server import certificates, missing_parts

pytestmark = pytest.mark.backends

CONNECT = """
import sys
from kombu import Connection
with Connection(sys.argv[1]) as connection:
    connection.ensure_connection(max_retries=0, timeout=3)
    print(connection.default_channel.client.ping())
"""


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return environment("celery") / "python"
    except NoEnvironment as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisEndpoint]:
    if missing := missing_parts():
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("encrypted")
    issued = certificates(folder / "tls", "DNS:localhost")
    with encrypted_server(folder, issued) as port:
        yield endpoint(port, issued.authority)


def said_by_celery(python: Path, address: str) -> str:
    command = [str(python), "-c", CONNECT, address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_celery_connects_with_its_address_alone(python: Path, encrypted: RedisEndpoint) -> None:
    assert said_by_celery(python, python_url(encrypted, PASSWORD)) == "True\n"


def test_celery_refuses_an_unknown_authority_and_another_name(python: Path, encrypted: RedisEndpoint) -> None:
    for wrong in (replace(encrypted, ca_file=None), replace(encrypted, host="127.0.0.1")):
        assert "CERTIFICATE_VERIFY_FAILED" in said_by_celery(python, python_url(wrong, PASSWORD))
