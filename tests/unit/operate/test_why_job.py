"""`ebbtide why job`: a real Redis, real RQ jobs and workers, and the real command of a worker's container.

Only the edge is played: `tests.unit.operate.pod_exec` runs that command as a process instead of a kubelet in a pod.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs.checkpoints.attempts import attempt_key, note
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump, load
from tests.builders.components import BROKER, controller_config, pool_policy
from tests.builders.jobs import job as plain_job
from tests.builders.redis import DEADLINE, client, server, shared_server, wait_until
from tests.checkpoints.training import STEPS, dies_before_it_saves, train
from tests.paths import ROOT
from tests.unit.operate.pod_exec import PodServer, serving

__all__ = ["client", "server", "shared_server"]

pytestmark = pytest.mark.redis

NAMESPACE = "ebbtide-workers"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG = "/api/v1/namespaces/ebbtide/configmaps/ebbtide-controller"

Why = Callable[[str], tuple[int, str]]
StartWorker = Callable[[], "subprocess.Popen[bytes]"]


def worker_pod(name: str, pool: str = "train", *, phase: str = "Running", ready: bool = True) -> dict[str, Any]:
    meta = {"name": name, "labels": {"ebbtide.dev/workload": pool}}
    return {"metadata": meta, "status": {"phase": phase, "containerStatuses": [{"ready": ready}]}}


@pytest.fixture
def pods(server: EmbeddedRedis) -> Iterator[PodServer]:
    """A cluster with the pools `old`, of lists and without workers, and `train`, with one worker."""
    pool = replace(pool_policy(), name="train", namespace=NAMESPACE, deployment="train", queues=("train",))
    old = replace(pool, name="old", deployment="old", source="list", queues=("train",))
    config = replace(controller_config(pools=()), pools=(old, pool))
    with serving(
        PodServer(
            objects={CONFIG: {"data": {"config.json": dump(config)}}, PODS: {"items": [worker_pod("train-a")]}},
            environment={"RQ_REDIS_URL": f"redis://{server.host}:{server.port}/0", "PYTHONPATH": str(ROOT)},
        )
    ) as pods:
        yield pods


@pytest.fixture
def why(pods: PodServer, tmp_path: Path) -> Why:
    def ask(job: str) -> tuple[int, str]:
        arguments = ["why", "--kubeconfig", str(pods.kubeconfig(tmp_path)), "job", "--", job]
        result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return ask


@pytest.fixture
def start_worker(server: EmbeddedRedis) -> Iterator[StartWorker]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        rq, url = Path(sys.executable).with_name("rq"), f"redis://{server.host}:{server.port}"
        command = [str(rq), "worker", "-w", "tests.checkpoints.training.QuickSafeWorker", "-u", url, "train"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(process)
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # the second one ends its job
        process.wait(DEADLINE)


@pytest.fixture
def queue(client: Redis) -> Queue:
    return Queue("train", connection=client)


def attempt(client: Redis, job: Job) -> dict[str, str]:
    found: Any = client.hgetall(attempt_key(job.id))
    return {name.decode(): value.decode() for name, value in found.items()}


def test_a_waiting_job_has_its_queue_and_position(why: Why, queue: Queue, pods: PodServer) -> None:
    queue.enqueue(plain_job, 0)
    job = queue.enqueue(plain_job, 0, job_id="-my-job")
    queue.enqueue(plain_job, 0)

    assert why(job.id) == (
        0,
        "Job -my-job waits: number 2 of 3 in queue train of pool train.\nIt has opened no checkpoint.\n",
    )
    ((path, command),) = pods.ran
    assert path == f"{PODS}/train-a/exec"
    assert command[-1] == job.id


def test_a_running_job_has_its_pod_and_last_checkpoint(
    why: Why, queue: Queue, client: Redis, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker()
    job = queue.enqueue(train, 1000, 0.05, str(tmp_path / "store"))
    wait_until(lambda: int(attempt(client, job).get("step", 0)) >= 3, "three steps to be saved")

    code, said = why(job.id)

    saved = re.fullmatch(
        rf"Job {job.id} runs on pod {socket.gethostname()}, begun \d+ s ago \(\S+Z\): queue train of pool train.\n"
        r"Its checkpoint: step (\d+), saved \d+ s ago \(\S+Z\). "
        "Attempt 1: each return to the queue counts as one too.\n",
        said,
    )
    assert (code, saved is not None) == (0, True), said
    assert saved is not None
    assert 3 <= int(saved[1]) <= int(attempt(client, job)["step"])


def test_a_job_that_was_interrupted_waits_with_its_checkpoint_and_the_next_attempts_number(
    why: Why, queue: Queue, client: Redis, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker()
    job = queue.enqueue(train, 1000, 0.05, str(tmp_path / "store"), 3600)
    wait_until(lambda: client.llen(STEPS + job.id) >= 3, "three steps")
    worker.send_signal(signal.SIGTERM)
    worker.wait(DEADLINE)

    code, said = why(job.id)

    kept = attempt(client, job)
    assert code == 0
    assert said.startswith(f"Job {job.id} waits: number 1 of 1 in queue train of pool train.\n")
    assert f"\nIts checkpoint: step {kept['step']}, saved " in said
    assert f" Attempt {kept['token']}: " in said
    assert int(kept["token"]) == 2
    assert int(kept["step"]) == client.llen(STEPS + job.id)


def test_hard_ends_and_the_last_problem_are_shown(why: Why, queue: Queue, client: Redis) -> None:
    job = queue.enqueue(plain_job, 0)
    note(client, job.id, {"problem": "s3://acme: the pod's role has no right to it"})
    client.hset(attempt_key(job.id), mapping={"token": 5, "deaths": 2})

    assert why(job.id)[1].splitlines()[1:] == [
        "Its checkpoint: opened, nothing saved yet. Attempt 5: each return to the queue counts as one too.",
        "It ended hard 2 times so far; the third time fails it.",
        "The last problem: s3://acme: the pod's role has no right to it.",
    ]


def test_a_failed_job_shows_its_error(why: Why, queue: Queue, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker()
    job = queue.enqueue(dies_before_it_saves, str(tmp_path / "store"))
    wait_until(lambda: job.get_status(refresh=True) is JobStatus.FAILED, "the job to fail")

    code, said = why(job.id)

    assert code == 0
    assert re.match(
        rf"Job {job.id} has ended, failed \d+ s ago \(\S+Z\), queue train of pool train: job {job.id} ", said
    )
    assert "ended hard 3 times without a new checkpoint" in said


def test_a_job_whose_worker_is_gone_is_shown_as_such(
    why: Why, queue: Queue, client: Redis, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker()
    job = queue.enqueue(train, 10_000, 0.05, str(tmp_path / "store"))
    wait_until(lambda: client.llen(STEPS + job.id) >= 1, "a step")
    horse = subprocess.run(["pgrep", "-P", str(worker.pid)], capture_output=True, text=True, check=True).stdout.split()
    for pid in (worker.pid, *map(int, horse)):
        os.kill(pid, signal.SIGKILL)
    worker.wait()

    wait_until(lambda: "its heartbeat is overdue" in why(job.id)[1], "the deadline to pass")


def test_the_checkpoint_of_a_job_that_rq_does_not_know_is_shown(why: Why, client: Redis) -> None:
    note(client, "4f1c", {"step": 7, "saved": "2026-11-20T15:00:00+00:00", "token": 1})
    client.hset(attempt_key("4f1c"), "deaths", 2)

    code, said = why("4f1c")

    assert code == 0
    assert said.startswith("Job 4f1c is not an RQ job, or RQ has forgotten it: ")
    assert "(2026-11-20T15:00:00Z)" in said
    assert "It ended hard 2 times since that save" in said


def test_an_unknown_job_is_one_line(why: Why) -> None:
    code, said = why("4f1c")

    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("no job 4f1c: Redis has neither an RQ job nor a checkpoint with this id")


IN_BROKER = (
    "the jobs of etl are in a message broker, which shows how many there are and not where one is; "
    "ebbtide why pool etl shows these counts"
)


def with_broker(pods: PodServer, *others: str) -> None:
    """The pool `etl`, whose queue is in a RabbitMQ, and of the others those with these names."""
    config = load(ControllerConfig, pods.objects[CONFIG]["data"]["config.json"])
    etl = replace(pool_policy(), name="etl", namespace=NAMESPACE, deployment="etl", source="celery", broker="jobs")
    kept = [pool for pool in config.pools if pool.name in others]
    changed = replace(config, pools=(etl, *kept), brokers=(BROKER,))
    pods.objects[CONFIG]["data"]["config.json"] = dump(changed)


def test_a_job_of_a_broker_is_not_looked_for_in_redis(why: Why, pods: PodServer) -> None:
    with_broker(pods)

    assert why("4f1c") == (1, f"job 4f1c cannot be looked up: {IN_BROKER}\n")
    assert pods.ran == []


def test_beside_a_broker_a_pool_in_redis_is_asked_first(why: Why, pods: PodServer) -> None:
    with_broker(pods, "old")

    code, said = why("4f1c")

    assert (code, "no worker runs" in said, "ebbtide why pool old" in said) == (1, True, True)


def test_an_unknown_job_may_be_in_a_broker(why: Why, pods: PodServer) -> None:
    with_broker(pods, "train")

    code, said = why("4f1c")

    assert (code, said.count("\n")) == (2, 1)
    assert said.endswith(f"only the checkpoint is known; {IN_BROKER}\n")


@pytest.mark.parametrize("broker", ["amqps://mq:5671//", "sqs://", "kafka://kafka:9092"])
def test_a_worker_of_a_broker_looks_into_the_redis_of_its_reports(
    why: Why, queue: Queue, pods: PodServer, broker: str
) -> None:
    with_broker(pods, "train")
    pods.objects[PODS] = {"items": [worker_pod("etl-a", "etl")]}
    pods.environment |= {
        "CELERY_BROKER_URL": broker,
        "EBBTIDE_REDIS_URL": pods.environment["RQ_REDIS_URL"],
    }
    del pods.environment["RQ_REDIS_URL"]
    job = queue.enqueue(plain_job, 0)

    assert why(job.id)[1].startswith(f"Job {job.id} waits: number 1 of 1 in queue train of pool train.\n")


def test_without_a_worker_there_is_no_answer_and_the_line_says_what_to_do(why: Why, pods: PodServer) -> None:
    pods.objects[PODS] = {"items": [worker_pod("train-b", phase="Pending")]}

    code, said = why("4f1c")

    assert (code, said.count("\n")) == (1, 1)
    assert "no worker runs" in said
    assert "ebbtide why pool train" in said


def test_without_the_right_to_exec_the_api_servers_words_are_shown(why: Why, pods: PodServer) -> None:
    words = 'pods "train-a" is forbidden: User "me" cannot create resource "pods/exec" in API group ""'
    pods.refuse = {"code": 403, "message": words}

    code, said = why("4f1c")

    assert (code, said.count("\n")) == (1, 1)
    assert words in said
    assert "wanted the rights to get and create pods/exec in ebbtide-workers" in said
    assert "ask an administrator" in said


@pytest.mark.parametrize(
    ("python", "url", "told"),
    [
        ("/no/such/python", None, "has no ebbtide-jobs of this release"),
        (sys.executable, "redis://:secret@127.0.0.1:1/0", "Redis cannot be asked: "),
        (sys.executable, "ftp://:secret@nowhere", "no Redis: its address cannot be read: "),
        (sys.executable, "", "no Redis: wanted one of RQ_REDIS_URL"),
    ],
)
def test_a_worker_that_cannot_answer_is_one_line(
    why: Why, pods: PodServer, python: str, url: str | None, told: str
) -> None:
    pods.python = python
    if url is not None:
        pods.environment["RQ_REDIS_URL"] = url

    code, said = why("4f1c")

    assert (code, said.count("\n")) == (1, 1), said
    assert "no worker can say where job 4f1c is: pod train-a: " in said
    assert told in said
    assert "secret" not in said


def test_a_worker_that_cannot_answer_is_passed_over_for_one_of_another_pool(
    why: Why, pods: PodServer, queue: Queue
) -> None:
    job = queue.enqueue(plain_job, 0)
    pods.objects[PODS]["items"] = [worker_pod("old-a", "old"), worker_pod("train-a")]

    assert why(job.id)[0] == 0
    assert [path for path, _ in pods.ran] == [f"{PODS}/train-a/exec"]  # RQ's first


def test_a_terminating_worker_is_asked_if_no_other_runs(why: Why, pods: PodServer, queue: Queue) -> None:
    job = queue.enqueue(plain_job, 0)
    leaving = worker_pod("train-a")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-20T15:00:00Z"

    for there, asked in ([leaving], "train-a"), ([leaving, worker_pod("train-b")], "train-b"):
        pods.objects[PODS] = {"items": there}
        assert why(job.id)[0] == 0
        assert pods.ran[-1][0] == f"{PODS}/{asked}/exec"
