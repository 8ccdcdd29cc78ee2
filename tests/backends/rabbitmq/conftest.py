"""A real RabbitMQ, a real Redis for the reports, and Celery's workers on both."""

import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from controllers.adapters.rabbit_demand import RabbitDemand, rabbit_demands
from controllers.adapters.redis_connection import connect
from controllers.ports import Reading
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import CELERY_PREFORK, QUEUE, Scene
from tests.backends.rabbitmq.server import PASSWORD, NoRabbit, Rabbit
from tests.builders.controllers import config, pool_policy
from tests.builders.redis import client, endpoint, server, shared_server, wait_until

__all__ = ["client", "server", "shared_server"]

POD = socket.gethostname()


@pytest.fixture(scope="package")
def rabbit() -> Iterator[Rabbit]:
    try:
        with Rabbit() as broker:
            broker.add_reader()
            yield broker
    except NoRabbit as error:
        pytest.skip(str(error))


class RabbitScene(Scene):
    """Workers that take their tasks from RabbitMQ, and the controller's own reading of their pool."""

    def __init__(self, rabbit: Rabbit, server: EmbeddedRedis, client: Redis) -> None:
        super().__init__(CELERY_PREFORK, server, client)
        self.rabbit = rabbit
        pool = pool_policy(name=QUEUE, queues=(QUEUE,), source="celery", broker="jobs")
        self._config = config(pool, brokers=(rabbit.endpoint(),), redis=endpoint(server))
        self.demand = self.new_demand()

    def close(self) -> None:
        self.demand.close()
        super().close()

    def new_demand(self) -> RabbitDemand:
        """Return a reader without a memory, as after a restart of the controller."""
        return rabbit_demands(self._config, {"RABBIT": PASSWORD}, lambda: connect(endpoint(self.server), {}))[0]

    def variables(self, **more: str) -> dict[str, str]:
        return super().variables(**{"TEST_BROKER": self.rabbit.url, "EBBTIDE_REDIS_URL": self.url, **more})

    def read_any(self, queue: str = QUEUE) -> Reading:
        self.demand.poll()
        return self.demand.read([queue])[queue]

    def worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker that consumes."""
        before = len(self.consumers())
        process = self.start(**variables)
        wait_until(lambda: len(self.consumers()) > before, "a worker to consume")
        return process

    def consumers(self) -> list[Any]:
        return [consumer for consumer in self.rabbit.consumers() if consumer["queue"]["name"] == QUEUE]

    def somebody_pops(self) -> bool:
        return False  # of Redis' workers, whose tests share a server

    def watch(self, seconds: float) -> list[Reading]:
        """Read once a second, as the controller does."""
        readings: list[Reading] = []
        for _ in range(int(seconds)):
            readings.append(self.read_any())
            time.sleep(1.0)
        return readings


@pytest.fixture
def scene(rabbit: Rabbit, server: EmbeddedRedis, client: Redis) -> Iterator[RabbitScene]:
    for queue in rabbit.queues():
        rabbit.delete(queue)
    try:
        built = RabbitScene(rabbit, server, client)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()
