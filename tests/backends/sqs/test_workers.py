"""Celery's real workers on moto's SQS, on queues whose visibility timeout is 2 s."""

import random
import signal
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.frameworks import POD, QUEUE
from tests.backends.sqs.conftest import EMPTY, LONG_TIMEOUT, PREFORK, SqsScene, end, kill
from tests.backends.sqs.moto_server import Counts
from tests.backends.sqs.proxy import Proxy
from tests.builders.redis import wait_until

pytestmark = pytest.mark.backends

SOLO = replace(PREFORK, command=tuple("solo" if word == "prefork" else word for word in PREFORK.command))
SHORT_POLL = '{"wait_time_seconds": 1}'
HELD = Counts(visible=0, hidden=1, delayed=0)
pools = pytest.mark.parametrize("framework", [PREFORK, SOLO], ids=["prefork", "solo"], indirect=True)


@pools
def test_a_task_of_several_timeouts_runs_once_beside_an_idle_worker(scene: SqsScene) -> None:
    scene.worker(TEST_OPTIONS=SHORT_POLL)
    scene.worker(TEST_OPTIONS=SHORT_POLL)
    scene.enqueue(("a", 4.5))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    while not scene.ended("a"):
        assert scene.beginnings() == ["a"]
        time.sleep(0.2)

    wait_until(lambda: scene.counts() == EMPTY, "the acknowledgement")
    assert scene.beginnings() == ["a"]


def test_a_task_held_until_it_is_due_runs_once_and_counts_as_held(scene: SqsScene) -> None:
    scene.worker(TEST_OPTIONS=SHORT_POLL)
    scene.enqueue(("a", 0.0), countdown=4)
    wait_until(lambda: scene.counts().hidden, "the worker to hold the task")

    while not scene.begun("a"):
        assert scene.counts().visible == 0
        assert scene.report()["state"] == "busy" or not scene.counts().hidden
        time.sleep(0.2)

    wait_until(lambda: scene.counts() == EMPTY, "the acknowledgement")
    assert scene.beginnings() == ["a"]


@pools
def test_a_killed_worker_gives_its_task_back_after_the_rest_of_the_timeout(scene: SqsScene) -> None:
    first = scene.worker()
    scene.enqueue(("a", 3.0))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    kill(first)

    assert scene.counts() == HELD
    scene.worker(TEST_OPTIONS=SHORT_POLL)
    wait_until(lambda: scene.ended("a"), "another worker to run it")
    assert scene.beginnings() == ["a", "a"]


@pytest.mark.parametrize("when", ["during the poll", "afterwards"])
def test_a_message_that_arrives_while_an_idle_worker_stops_is_not_hidden(scene: SqsScene, when: str) -> None:
    scene.moto.set_timeout(QUEUE, LONG_TIMEOUT)
    worker = scene.worker(TEST_OPTIONS='{"wait_time_seconds": 3}')
    time.sleep(0.5)  # until it polls

    worker.send_signal(signal.SIGTERM)
    if when == "during the poll":
        wait_until(lambda: scene.report()["state"] == "stopping", "the report")
        scene.moto.send(QUEUE, "a")
    assert worker.wait(30) == 0
    if when == "afterwards":
        scene.moto.send(QUEUE, "a")

    assert scene.counts() == Counts(visible=1, hidden=0, delayed=0)


def test_a_stopping_worker_ends_its_task_and_returns_the_task_that_it_only_holds(scene: SqsScene) -> None:
    worker = scene.worker(TEST_OPTIONS=SHORT_POLL)
    scene.enqueue(("later", 0.0), countdown=3600)
    wait_until(lambda: scene.counts().hidden == 1, "the worker to hold the delayed task")
    scene.enqueue(("a", 3.0))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: scene.report()["state"] == "stopping", "the report")
    assert worker.wait(30) == 0

    assert scene.beginnings() == ["a"]
    assert scene.ended("a")
    wait_until(lambda: scene.counts().visible == 1, "the delayed task to be visible again")


@pools
@pytest.mark.parametrize(
    ("tasks", "stops", "processes"),
    [(12, 2, 1), pytest.param(100, 12, 2, marks=pytest.mark.long)],
)
def test_each_task_runs_once_though_workers_stop_at_random_instants(
    scene: SqsScene, tasks: int, stops: int, processes: int
) -> None:
    """With a free process a worker polls while its other one runs a task. moto itself delivers nothing twice."""
    seed = random.randrange(1_000_000)
    print("seed", seed)
    instants = random.Random(seed)
    names = [str(number) for number in range(tasks)]
    options = {"TEST_OPTIONS": SHORT_POLL, "TEST_CONCURRENCY": str(processes)}
    worker = scene.worker(**options)
    scene.enqueue(*((name, instants.uniform(0.05, 0.5)) for name in names))

    for _ in range(stops):
        time.sleep(instants.uniform(0.0, 1.0))
        replacement = scene.worker(**options)
        end(worker)
        worker = replacement
    wait_until(lambda: all(scene.ended(name) for name in names), "all tasks", limit=120)

    wait_until(lambda: scene.counts() == EMPTY, "the last acknowledgement")
    assert sorted(scene.beginnings(), key=int) == names


def test_a_task_runs_once_though_credentials_fail_for_a_moment(scene: SqsScene, tmp_path: Path) -> None:
    """The poll fails, Celery gives up its connection, and a stock worker would return the running task."""
    failing = tmp_path / "failing"
    config = expiring_credentials(tmp_path, failing)
    scene.moto.set_timeout(QUEUE, 5)
    # With a free process the worker polls while a task runs.
    scene.worker(TEST_CONCURRENCY="2", TEST_OPTIONS=SHORT_POLL, **config)
    scene.enqueue(("a", 7.0))
    wait_until(lambda: scene.begun("a"), "the task to begin")

    failing.touch()
    time.sleep(2.5)
    failing.unlink()
    wait_until(lambda: scene.ended("a"), "the task to end")

    wait_until(lambda: scene.counts() == EMPTY, "the acknowledgement")
    assert scene.beginnings() == ["a"]


def expiring_credentials(folder: Path, failing: Path) -> dict[str, str]:
    """The variables of a worker whose credentials are asked for again at each call, in vain while `failing` exists."""
    program = folder / "credentials"
    program.write_text(
        f"#!{sys.executable}\n"
        "import datetime, json, os, sys\n"
        f"os.path.exists({str(failing)!r}) and sys.exit(1)\n"
        "until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=60)\n"
        "found = {'Version': 1, 'AccessKeyId': 'nobody', 'SecretAccessKey': 'nothing', 'SessionToken': 'none'}\n"
        "print(json.dumps({**found, 'Expiration': until.isoformat()}))\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    config = folder / "config"
    config.write_text(f"[default]\ncredential_process={program}\n")
    return {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": str(config)}


@pytest.mark.parametrize("fault", ["down", "throttled"])
def test_a_worker_survives_polls_without_messages(fault: str, scene: SqsScene) -> None:
    with Proxy(scene.moto.port) as proxy:
        worker = scene.worker(TEST_OPTIONS=SHORT_POLL, AWS_ENDPOINT_URL_SQS=proxy.url)
        proxy.fault = fault
        before = len(proxy.asked)
        wait_until(lambda: len(proxy.asked) > before + 1, "polls")
        proxy.fault = ""
        scene.enqueue(("a", 0.0))

        wait_until(lambda: scene.ended("a"), "the task")
        assert worker.poll() is None


def test_the_report_names_an_idle_worker_and_how_long_it_keeps_a_message(scene: SqsScene) -> None:
    scene.worker()

    report = scene.report()

    assert (report["hostname"], report["state"], report["held"]) == (POD, "idle", "0")
    assert '"visibility_timeout": 43200.0' in report["settings"]
