"""A real Redis for tests, and waiting with a deadline instead of sleeping."""

import time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import RedisEndpoint

DEADLINE = 60.0  # seconds: what does not come at all is told then; how soon it comes proves nothing


def wait_until(condition: Callable[[], object], what: str, *, limit: float = DEADLINE) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit:.0f} s for {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def shared_server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
def server(shared_server: EmbeddedRedis) -> EmbeddedRedis:
    """An empty server."""
    with shared_server.client() as client:
        client.flushall()
    return shared_server


@pytest.fixture
def client(server: EmbeddedRedis) -> Iterator[Redis]:
    """As RQ needs it: replies in bytes."""
    with server.client() as connection:
        yield connection


def endpoint(server: EmbeddedRedis) -> RedisEndpoint:
    return RedisEndpoint(host=server.host, port=server.port)
