"""`ebbtide-jobs` as a worker image installs it: by pip, beside one framework, with no repository on the path."""

import os
import subprocess
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue

from ebbtide.demo.embedded_redis import EmbeddedRedis
from tests.backends.environments import ROOT, NoEnvironment, environment
from tests.builders.distributions import JOBS, built_wheel

pytestmark = pytest.mark.backends

LIST_APP = """
import os, signal, sys
from redis import Redis
from ebbtide.jobs.list_worker import ListWorker

connection = Redis.from_url(sys.argv[1])

def handle(payload):
    connection.rpush("done", payload)
    os.kill(os.getpid(), signal.SIGTERM)

ListWorker(connection, "train", handle).run()
"""
CELERY_APP = """
import os, signal
from celery import Celery
from ebbtide.jobs import celery_worker
from redis import Redis

app = Celery("app", broker=os.environ["URL"])
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_ignore_result=True)
celery_worker.install(app)

@app.task
def job(payload):
    Redis.from_url(os.environ["URL"]).rpush("done", payload)
    os.kill(os.getpid(), signal.SIGTERM)
"""


class Image:
    """What a worker image holds: a framework from its lock file, and the wheel."""

    def __init__(self, home: Path, framework: str, wheel: Path) -> None:
        self.home = home
        try:
            environment(framework, home)
        except NoEnvironment as error:
            pytest.skip(str(error))
        extra = "" if framework == "list" else f"[{framework}]"
        # Without an index: what the wheel asks for must be what the lock file holds.
        self.pip("install", "--no-index", f"{wheel}{extra}")

    def pip(self, *arguments: str) -> str:
        finished = self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.home / "bin" / program), *arguments],
            cwd=self.home,
            env=own | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def refusal(self, module: str) -> str:
        done = self.run("python", "-c", f"import {module}")
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(JOBS, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Image:
    return Image(tmp_path_factory.mktemp("plain"), "list", wheel)


def url(server: EmbeddedRedis) -> str:
    return f"redis://{server.host}:{server.port}/0"


def done(client: Redis) -> list[bytes]:
    return client.lrange("done", 0, -1)  # pyright: ignore[reportReturnType] - bytes client


def test_its_core_installs_redis_alone_and_runs_a_list_worker(
    plain: Image, server: EmbeddedRedis, client: Redis
) -> None:
    client.rpush("train", "a")

    worker = plain.run("python", "-c", LIST_APP, url(server))

    assert (worker.returncode, done(client)) == (0, [b"a"]), worker.stderr
    listed = {line.split("==")[0] for line in plain.pip("list", "--format", "freeze").split()}
    assert listed - {"pip", "setuptools", "async-timeout"} == {"ebbtide-jobs", "redis"}
    for absent in ("pydantic", "typer", "rich", "yaml", "rq", "celery", "ebbtide.vocabulary"):
        assert plain.refusal(absent) == f"ModuleNotFoundError: No module named '{absent}'"


def test_without_its_framework_a_worker_module_names_the_extra_to_install(plain: Image) -> None:
    assert plain.refusal("ebbtide.jobs.rq_worker").endswith("needs RQ: install ebbtide-jobs[rq]")
    assert plain.refusal("ebbtide.jobs.celery_worker").endswith("needs Celery: install ebbtide-jobs[celery]")
    assert plain.refusal("ebbtide.jobs.amqp_worker").endswith("needs py-amqp: install ebbtide-jobs[amqp]")
    assert plain.refusal("ebbtide.jobs.sqs_worker").endswith("needs boto3: install ebbtide-jobs[sqs]")


def test_with_rq_the_safe_worker_does_a_job(tmp_path: Path, wheel: Path, server: EmbeddedRedis, client: Redis) -> None:
    image = Image(tmp_path / "rq", "rq", wheel)
    job = Queue("train", connection=client).enqueue("operator.add", 40, 2)

    worker = image.run("rq", "worker", "--burst", "-w", "ebbtide.jobs.rq_worker.SafeWorker", "-u", url(server), "train")

    assert (worker.returncode, job.return_value()) == (0, 42), worker.stderr
    for absent in ("pydantic", "typer", "rich", "yaml"):
        assert image.refusal(absent) == f"ModuleNotFoundError: No module named '{absent}'"


def test_with_celery_a_worker_with_the_hooks_does_a_job(
    tmp_path: Path, wheel: Path, server: EmbeddedRedis, client: Redis
) -> None:
    image = Image(tmp_path / "celery", "celery", wheel)
    (image.home / "app.py").write_text(CELERY_APP)
    image.run("python", "-c", "from app import job; job.delay('a')", URL=url(server))

    worker = image.run("celery", "-A", "app", "worker", "-P", "solo", "-l", "ERROR", URL=url(server))

    assert (worker.returncode, done(client)) == (0, [b"a"]), worker.stderr
    assert client.smembers("ebbtide:queues") == {b"celery"}, "the hooks reported"
    for absent in ("pydantic", "typer", "rich"):
        assert image.refusal(absent) == f"ModuleNotFoundError: No module named '{absent}'"


def test_one_command_mends_what_an_uninstall_of_the_other_distribution_took_away(
    tmp_path: Path, wheel: Path, plain: Image
) -> None:
    plain.pip("install", "--no-index", "--no-deps", str(built_wheel(ROOT, tmp_path)))
    plain.pip("uninstall", "--yes", "ebbtide")
    assert plain.refusal("ebbtide.jobs") == "ModuleNotFoundError: No module named 'ebbtide'"

    plain.pip("install", "--no-index", "--force-reinstall", "--no-deps", str(wheel))

    assert plain.run("python", "-c", "import ebbtide.jobs.list_worker").returncode == 0
