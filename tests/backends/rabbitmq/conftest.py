"""A real RabbitMQ, a real Redis for the reports, and Celery's workers on both."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from controllers.adapters.broker_demand import broker_demands
from controllers.adapters.redis_connection import connect
from controllers.ports import Known, Reading
from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import CELERY_PREFORK, QUEUE, Framework, Scene
from tests.backends.rabbitmq.server import PASSWORD, Rabbit, missing_parts
from tests.builders.controllers import config, pool_policy
from tests.builders.redis import client, endpoint, server, shared_server, wait_until

__all__ = ["client", "server", "shared_server"]

POD = socket.gethostname()


@pytest.fixture(autouse=True, scope="session")
def _parts() -> None:  # pyright: ignore[reportUnusedFunction] - used by every test here
    """Skip without Debian's packages, but for GitHub's runs: a tier that skips there proves nothing."""
    lacking = missing_parts()
    if lacking and os.environ.get("GITHUB_ACTIONS"):
        pytest.fail(lacking, pytrace=False)
    if lacking:
        pytest.skip(lacking)


@pytest.fixture(scope="package")
def rabbit() -> Iterator[Rabbit]:
    with Rabbit() as broker:
        yield broker


class RabbitScene(Scene):
    """Workers that take their tasks from RabbitMQ, and the controller's own reading of their pool."""

    def __init__(
        self, rabbit: Rabbit, server: EmbeddedRedis, client: Redis, framework: Framework = CELERY_PREFORK
    ) -> None:
        super().__init__(framework, server, client)
        self.rabbit = rabbit
        source = "celery" if framework is CELERY_PREFORK else "consumer"
        pool = pool_policy(name=QUEUE, queues=(QUEUE,), source=source, broker="jobs")
        stack = config(pool, brokers=(rabbit.endpoint(),), redis=endpoint(server))
        [self.demand] = broker_demands(stack, {"RABBIT": PASSWORD}, lambda: connect(endpoint(server), {}))

    def close(self) -> None:
        self.demand.close()
        super().close()

    def variables(self, **more: str) -> dict[str, str]:
        return super().variables(**{**self._addresses(), **more})

    def _addresses(self) -> dict[str, str]:
        url = self.rabbit.url
        return {"TEST_BROKER": url, "EBBTIDE_BROKER_URL": url, "EBBTIDE_REDIS_URL": self.url}

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

    def busy(self, seconds: float, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker whose task `a` runs, as its report says."""
        worker = self.worker(**variables)
        self.enqueue(("a", seconds))
        wait_until(lambda: self.begun("a"), "the task to begin")
        wait_until(lambda: isinstance(seen := self.read_any(), Known) and seen.running == 1, "the report")
        return worker

    def watch_until(self, over: Callable[[], object], limit: float = 60.0) -> list[Reading]:
        """Read once a second, as the controller does, while `over` is still false after the reading."""
        readings: list[Reading] = []
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            reading = self.read_any()
            if over():
                return readings
            readings.append(reading)
            time.sleep(1.0)
        raise AssertionError(f"not over within {limit:.0f} s: {readings[-3:]}")

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
    rabbit.reset()
    try:
        built = RabbitScene(rabbit, server, client)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()
