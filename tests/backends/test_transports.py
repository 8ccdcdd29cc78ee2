"""The Celery hooks on brokers that Ebbtide does not scale by: the worker runs, and says so."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import NoEnvironment, environment
from tests.backends.frameworks import CELERY_PREFORK, CELERY_SOLO, QUEUE, Framework, Scene
from tests.builders.redis import wait_until
from tests.paths import ROOT

pytestmark = pytest.mark.backends

# The environment with the clients of Redis, AMQP and SQS. Only these of kombu's transports need no other package.
ENVIRONMENT = "celery-sqs"
WITHOUT_PACKAGES = {"amqp", "amqps", "filesystem", "memory", "pyamqp", "redis", "rediss", "sentinel", "sqs"}
PREFORK, SOLO = (
    replace(
        each, environment=ENVIRONMENT, command=tuple("WARNING" if word == "ERROR" else word for word in each.command)
    )
    for each in (CELERY_PREFORK, CELERY_SOLO)
)

# For each of kombu's transports: what the hooks ask of it before a worker consumes, without a connection.
_ALL = """
import json
from celery import Celery
from kombu.transport import TRANSPORT_ALIASES
from ebbtide.jobs.celery_transports import transport_of
from ebbtide.jobs.celery_worker import _places, unsafe_settings
found = {}
for alias in TRANSPORT_ALIASES:
    app = Celery(broker=f"{alias}://")
    try:
        app.connection_for_read().transport
    except (ImportError, NameError, RuntimeError):  # how kombu says that a package is missing
        continue
    transport = transport_of(app)
    transport.before_consuming(app)
    unsafe_settings(app, transport), _places(app)
    found[alias] = transport.problems("prefork")
print(json.dumps(found))
"""

# A channel with nothing but what each of kombu's virtual transports has.
_CHANNEL = """
from celery import Celery
from kombu.transport import virtual
from ebbtide.jobs.celery_transports import OtherTransport
transport, channel = OtherTransport("mongodb"), virtual.AbstractChannel()
transport.consuming(channel), transport.stop_taking(channel), transport.settings(channel), transport.held(channel)
"""


def run(program: str) -> str:
    try:
        python = environment(ENVIRONMENT) / "python"
    except NoEnvironment as error:
        pytest.skip(str(error))
    done = subprocess.run([python, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_hooks_know_each_transport_of_kombu_that_can_be_imported_here() -> None:
    problems: dict[str, list[str]] = json.loads(run(_ALL))

    assert problems.keys() >= WITHOUT_PACKAGES
    unscaled = {
        alias for alias, said in problems.items() if any("no pool is scaled by its tasks" in one for one in said)
    }
    assert unscaled >= {"memory", "filesystem"}
    assert not unscaled & {"amqp", "redis", "sqs"}


def test_the_hooks_use_no_attribute_that_a_channel_may_lack() -> None:
    run(_CHANNEL)


@pytest.fixture(params=[PREFORK, SOLO], ids=["prefork", "solo"])
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


class OtherScene(Scene):
    def __init__(self, framework: Framework, server: EmbeddedRedis, client: Redis, folder: Path) -> None:
        super().__init__(framework, server, client)
        self._log = folder / "log"
        self.said = self._undo.enter_context(self._log.open("ab", buffering=0))
        self.broker: dict[str, str] = {}

    def variables(self, **more: str) -> dict[str, str]:
        return super().variables(**{"EBBTIDE_REDIS_URL": self.url, **self.broker, **more})

    def somebody_pops(self) -> bool:
        return False

    def reports(self) -> bool:
        return self.client.scard(f"ebbtide:workers:{QUEUE}") == 1

    def log(self) -> str:
        return self._log.read_text()


@pytest.fixture
def scene(framework: Framework, server: EmbeddedRedis, client: Redis, tmp_path: Path) -> Iterator[OtherScene]:
    try:
        built = OtherScene(framework, server, client, tmp_path)
    except NoEnvironment as error:
        pytest.skip(str(error))
    try:
        yield built
    finally:
        built.close()


@pytest.mark.parametrize("broker", ["memory", "filesystem"])
def test_a_worker_on_another_broker_runs_reports_and_says_that_nothing_scales_it(
    scene: OtherScene, tmp_path: Path, broker: str
) -> None:
    folders = {f"{name}_folder": str(tmp_path / name) for name in ("data", "processed", "control")}
    options = {**folders, "data_folder_in": folders["data_folder"], "data_folder_out": folders["data_folder"]}
    for folder in folders.values():
        Path(folder).mkdir()
    scene.broker = {
        "TEST_BROKER": f"{broker}://",
        "TEST_OPTIONS": json.dumps(options if broker == "filesystem" else {}),
    }

    worker = scene.start()
    wait_until(scene.reports, "the worker to report")
    if broker == "filesystem":  # the other one's tasks stay in the process that sends them
        scene.enqueue(("a", 0.0))
        wait_until(lambda: scene.ended("a"), "the task")
    worker.terminate()

    assert worker.wait(30) == 0
    assert f"the broker is {broker}: Ebbtide counts tasks in Redis, RabbitMQ and SQS" in scene.log()
    assert "Traceback" not in scene.log()
