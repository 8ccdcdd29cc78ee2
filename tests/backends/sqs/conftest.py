"""moto's SQS, a real Redis for the reports, and workers on both."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment
from tests.backends.frameworks import BEGUN, CELERY_PREFORK, QUEUE, Framework, Scene
from tests.backends.sqs.moto_server import ENVIRONMENT, Counts, Moto
from tests.builders.redis import client, server, shared_server, wait_until

__all__ = ["client", "server", "shared_server"]

LONG_TIMEOUT = 60  # seconds: nothing that stays hidden comes back during a test
EMPTY = Counts(visible=0, hidden=0, delayed=0)
PREFORK = replace(CELERY_PREFORK, environment=ENVIRONMENT)


@pytest.fixture(scope="package")
def moto() -> Iterator[Moto]:
    try:
        with Moto() as imitation:
            yield imitation
    except NoEnvironment as error:
        pytest.skip(str(error))


class SqsScene(Scene):
    """Workers that take their jobs from the queue `train` of SQS."""

    def __init__(self, moto: Moto, framework: Framework, server: EmbeddedRedis, client: Redis) -> None:
        super().__init__(framework, server, client)
        self.moto = moto

    def variables(self, **more: str) -> dict[str, str]:
        given = {"TEST_BROKER": "sqs://", "EBBTIDE_REDIS_URL": self.url, **self.moto.variables()}
        return super().variables(**{**given, **more})

    def worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        """A worker that has reported."""
        before = self.reporting()
        process = self.start(**variables)
        wait_until(lambda: self.reporting() > before, "a worker to report")
        return process

    def reporting(self) -> int:
        return self.client.scard(f"ebbtide:workers:{QUEUE}")  # pyright: ignore[reportReturnType] - synchronous client

    def report(self) -> dict[str, str]:
        """The report of the only worker."""
        (key,) = self.client.keys(f"ebbtide:worker:{QUEUE}:*")  # pyright: ignore[reportGeneralTypeIssues]
        found: dict[bytes, bytes] = self.client.hgetall(key)  # pyright: ignore[reportAssignmentType]
        return {name.decode(): value.decode() for name, value in found.items()}

    def counts(self) -> Counts:
        return self.moto.counts(QUEUE)

    def beginnings(self) -> list[str]:
        """The names of jobs in the order in which they began; a name comes twice if its job ran twice."""
        return [name.decode() for name in self._names(BEGUN)]

    def somebody_pops(self) -> bool:
        return False  # of Redis' workers, whose tests share a server


@pytest.fixture
def framework(request: pytest.FixtureRequest) -> Framework:
    return getattr(request, "param", PREFORK)


@pytest.fixture
def scene(moto: Moto, framework: Framework, server: EmbeddedRedis, client: Redis) -> Iterator[SqsScene]:
    moto.delete_all()
    moto.create(QUEUE, timeout=2)
    try:
        built = SqsScene(moto, framework, server, client)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()


def end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    assert process.wait(30) == 0


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a worker with its children, as happens to a pod whose node is lost."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
