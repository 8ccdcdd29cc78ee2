"""What breaks on real machines: power, memory, processes, images, Redis."""

import os
import signal
from datetime import datetime

import pytest
from rq import Retry
from rq.job import Job

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import NAMESPACE
from tests.node.harbour import Harbour, is_ready

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


@pytest.mark.every_run
def test_a_worker_that_is_told_to_stop_ends_its_job_first(harbour: Harbour) -> None:
    (job,) = harbour.enqueue_held()
    (worker,) = harbour.busy_workers(job)
    name = worker["metadata"]["name"]

    harbour.api.delete(f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods/{name}")
    harbour.wait(lambda: harbour.has_heard(name), "the worker to be told to stop")
    meanwhile = job.get_status(refresh=True)
    harbour.let_end(job)
    harbour.wait(lambda: harbour.done(job), "the job to be done")
    harbour.wait(lambda: name not in {pod["metadata"]["name"] for pod in harbour.workers()}, "the pod to be gone")

    assert meanwhile == "started"
    assert len(job.results()) == 1


def test_a_job_that_takes_too_much_memory_is_killed_and_the_next_one_is_done(harbour: Harbour) -> None:
    greedy = harbour.enqueue_call("os.urandom", 1_000_000_000)
    (worker,) = harbour.busy_workers(greedy)

    harbour.wait(lambda: harbour.cluster.killed_for_memory(worker), "the kernel to kill the greedy job")
    harbour.wait(lambda: greedy.get_status(refresh=True) == "failed", "the greedy job to fail")
    (status,) = harbour.pod(worker["metadata"]["name"], WORKER_NAMESPACE)["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    (next_one,) = harbour.enqueue(1)

    harbour.wait(lambda: harbour.done(next_one), "the next job to be done")


def test_a_frozen_leader_is_replaced_and_started_again(harbour: Harbour) -> None:
    leader = harbour.pod(harbour.wait(harbour.leader, "a leader"))
    restarts = leader["status"]["containerStatuses"][0]["restartCount"]
    for pid in harbour.cluster.processes_of(leader):
        os.kill(pid, signal.SIGSTOP)

    name = leader["metadata"]["name"]
    harbour.wait(lambda: harbour.leader() not in ("", name), "the other one to lead")
    (job,) = harbour.enqueue(1)
    harbour.wait(lambda: harbour.done(job), "a job to be done under the other leader")

    def again() -> bool:
        pod = harbour.pod(name)
        return pod["status"]["containerStatuses"][0]["restartCount"] > restarts and is_ready(pod)

    harbour.wait(again, "the kubelet to have started the frozen one anew")


def test_redis_comes_back_with_its_queue_and_busy_workers_lose_no_job(harbour: Harbour) -> None:
    jobs = harbour.enqueue(30, count=2)
    harbour.busy_workers(*jobs)
    (server,) = harbour.pods("ebbtide-redis")
    waiting = harbour.enqueue(1, count=4)

    harbour.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/ebbtide-redis-0")

    def is_new() -> bool:
        return any(pod["metadata"]["uid"] != server["metadata"]["uid"] for pod in harbour.pods("ebbtide-redis"))

    harbour.wait(is_new, "a new pod")
    harbour.wait(lambda: harbour.ready("ebbtide-redis", 1), "Redis to be ready")

    for job in (*jobs, *waiting):
        job.connection = harbour.redis()
    harbour.wait(lambda: harbour.done(*jobs, *waiting), "all jobs to be done")


def test_a_crash_looping_image_takes_no_pod_that_serves(harbour: Harbour) -> None:
    before = {pod["metadata"]["uid"] for pod in harbour.pods("api")}
    crash = [{"op": "replace", "path": "/spec/template/spec/containers/0/command", "value": ["sh", "-c", "exit 3"]}]
    kubectl = harbour.cluster.plane.kubectl

    kubectl("--namespace", NAMESPACE, "patch", "deployment", "api", "--type=json", f"--patch={crash}".replace("'", '"'))
    try:
        harbour.wait(lambda: looping(harbour), "the new pod to crash twice")
        serving = {pod["metadata"]["uid"] for pod in harbour.pods("api") if is_ready(pod)}
    finally:
        kubectl("--namespace", NAMESPACE, "rollout", "undo", "deployment", "api")

    assert serving == before


def looping(harbour: Harbour) -> bool:
    statuses = [status for pod in harbour.pods("api") for status in pod["status"].get("containerStatuses", [])]
    return any(status["restartCount"] >= 2 for status in statuses)


def test_a_power_cut_takes_no_job_that_may_be_tried_again(harbour: Harbour) -> None:
    """RQ finds the abandoned job by its silence, and does it again where it has a retry; the node is back by then."""
    job = harbour.enqueue_call("time.sleep", 20, retry=Retry(max=1))
    (worker,) = harbour.busy_workers(job)
    node = worker["spec"]["nodeName"]
    cluster, begun = harbour.cluster, started_at(job)

    cluster.cut_power(node)
    assert cluster.processes_on(node) == set()
    harbour.wait(lambda: not cluster.is_ready(node), "the control plane to notice")
    cluster.boot(node)
    cluster.wait_until_ready(node)

    harbour.wait(lambda: harbour.ready("api", 2), "the service to be whole again")
    harbour.wait(lambda: harbour.done(job), "the abandoned job to be done")
    assert started_at(job) > begun


def started_at(job: Job) -> datetime:
    job.refresh()
    assert job.started_at is not None
    return job.started_at
