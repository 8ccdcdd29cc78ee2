"""A real Redis, and one framework's workers on it."""

from collections.abc import Iterator

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import Framework, Scene
from tests.builders.redis import client, server, shared_server

__all__ = ["client", "scene", "server", "shared_server"]


@pytest.fixture
def scene(framework: Framework, server: EmbeddedRedis, client: Redis) -> Iterator[Scene]:
    try:
        built = Scene(framework, server, client)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()
