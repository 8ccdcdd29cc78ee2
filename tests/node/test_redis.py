"""Redis crashes in a loop, or is full, under busy workers."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest
from redis import OutOfMemoryError, RedisError
from rq import Worker
from rq.job import Job

from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.node.harbour import POOL, Harbour

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

FILLER = "filler"
MEBIBYTE = 1 << 20


def test_a_redis_that_crashes_in_a_loop_lowers_no_pool_and_costs_no_job(harbour: Harbour) -> None:
    """Its fourth start comes some seventy seconds after the first crash: the kubelet doubles its pauses."""
    ends_meanwhile, goes_on, _ = with_an_idle_worker(harbour)
    crash(harbour)
    before = harbour.pool()

    for _ in range(3):
        crash(harbour)
    harbour.let_end(ends_meanwhile)
    told = harbour.wait(lambda: messages(harbour, "demand unknown, holding: "), "the controller to tell of it")
    harbour.wait(lambda: answers(harbour), "Redis to be back")
    harbour.wait(lambda: harbour.done(ends_meanwhile), "the job that ended without Redis to be done")
    harbour.wait(lambda: demand(harbour) == ("untrusted", 0, 1), "the job that goes on to be all that is counted")
    after = harbour.pool()
    harbour.let_end(goes_on)
    harbour.wait(lambda: harbour.done(goes_on), "the job that went on to be done")

    assert "Redis" in told[0]
    assert (before["spec"]["replicas"], after["spec"]["replicas"]) == (3, 3)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert [len(job.results()) for job in (ends_meanwhile, goes_on)] == [1, 1]
    harbour.wait(lambda: harbour.pool()["spec"]["replicas"] == 0, "the pool to be lowered again")


def test_a_full_redis_refuses_new_jobs_and_takes_no_busy_worker(harbour: Harbour) -> None:
    ends_meanwhile, goes_on, idle = with_an_idle_worker(harbour)
    with full(harbour):
        with pytest.raises(OutOfMemoryError):
            harbour.enqueue(1)
        harbour.let_end(ends_meanwhile)
        # The idle one alone may go. Who has ended its job and cannot say so is busy.
        harbour.wait(lambda: idle not in {pod["metadata"]["name"] for pod in harbour.workers()}, "the idle one to go")
        unspoken = ends_meanwhile.get_status(refresh=True)
        left, pool = harbour.workers(), harbour.pool()
        logs = [harbour.log(pod) for pod in left]
    (one_more,) = harbour.enqueue(1)
    harbour.wait(lambda: harbour.done(ends_meanwhile, one_more), "what is done to be told and the new job to be done")
    harbour.let_end(goes_on)
    harbour.wait(lambda: harbour.done(goes_on), "the job that went on to be done")

    assert unspoken == "started"
    assert pool["spec"]["replicas"] == 2
    assert ["deletionTimestamp" in pod["metadata"] for pod in left] == [False, False]
    assert any("Redis cannot be used, waiting" in log and "maxmemory" in log for log in logs)
    assert [len(job.results()) for job in (ends_meanwhile, goes_on, one_more)] == [1, 1, 1]


def with_an_idle_worker(harbour: Harbour) -> tuple[Job, Job, str]:
    """Two jobs that are held, and the pod of a third worker, which has done its job and is about to be sent away."""
    held, (short,) = harbour.enqueue_held(2), harbour.enqueue(1)
    harbour.busy_workers(*held, short)
    harbour.wait(lambda: harbour.done(short), "the short job to be done")
    harbour.wait(lambda: report(harbour).get("idle") == 1, "the leader to know its worker for idle")
    (idle,) = idle_hosts(harbour)
    return held[0], held[1], idle


def idle_hosts(harbour: Harbour) -> set[str]:
    """Of the pods that are there: RQ keeps a worker's words for a while after its end."""
    workers = Worker.all(connection=harbour.redis())
    idle = {worker.hostname or "" for worker in workers if worker.get_state() == "idle"}
    return idle & {pod["metadata"]["name"] for pod in harbour.workers()}


def crash(harbour: Harbour) -> None:
    """Once it runs."""
    (server,) = harbour.pods("ebbtide-redis")
    pids = harbour.wait(lambda: harbour.cluster.processes_of(harbour.pods("ebbtide-redis")[0]), "Redis to run")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    harbour.wait(lambda: not harbour.cluster.processes_of(server), "Redis to be gone")


def answers(harbour: Harbour) -> bool:
    with harbour.redis() as client:
        try:
            return bool(client.ping())
        except RedisError:
            return False


@contextmanager
def full(harbour: Harbour) -> Generator[None]:
    """Less room than the stack gives it, all of it taken by one key; at the end the key goes and then the limit."""
    with harbour.redis() as client:
        most = str(client.config_get("maxmemory")["maxmemory"])
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 2 * MEBIBYTE)
        client.setrange(FILLER, 4 * MEBIBYTE, b"x")
        try:
            yield
        finally:
            client.delete(FILLER)
            client.config_set("maxmemory", most)


def messages(harbour: Harbour, begin: str) -> list[str]:
    return [told for told in harbour.told_about(POOL, WORKER_NAMESPACE) if told.startswith(begin)]


def demand(harbour: Harbour) -> tuple[str, int, int]:
    """How the leader reads the queue, and how many jobs wait and run."""
    reading: Json = report(harbour).get("reading", {"kind": ""})
    seen: Json = reading.get("seen", reading)
    return reading["kind"], seen.get("waiting", -1), seen.get("running", -1)


def report(harbour: Harbour) -> Json:
    """What the leader says of the pool; nothing, until it has looked at it."""
    last: Json | None = harbour.status(harbour.pod(harbour.leader()))["report"]
    return last["pools"][0] if last else {}
