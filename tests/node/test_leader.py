"""The leader is killed, or cut off with its node: the other one leads, and no busy worker pays for it."""

import json
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from tests.node.harbour import Harbour, is_ready

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

APART = "n4"


def test_a_killed_leader_is_replaced_and_comes_back_as_a_standby(harbour: Harbour) -> None:
    jobs = harbour.enqueue_held(2)
    busy, before = harbour.busy_workers(*jobs), harbour.pool()
    killed = harbour.pod(harbour.wait(harbour.leader, "a leader"))
    for pid in harbour.cluster.processes_of(killed):
        os.kill(pid, signal.SIGKILL)

    name = killed["metadata"]["name"]
    harbour.wait(lambda: harbour.leader() not in ("", name), "the other one to lead")
    (one_more,) = harbour.enqueue_held()
    harbour.wait(lambda: harbour.begun(one_more), "a worker from the other leader")
    harbour.wait(lambda: restarted(killed, harbour.pod(name)), "the kubelet to have started the killed one anew")

    assert leaders(harbour) == [harbour.leader()]
    assert harbour.leader() != name
    assert changes_since(before, harbour) == [2, 3]
    assert are_untouched(busy, harbour)
    harbour.let_end(*jobs, one_more)
    harbour.wait(lambda: harbour.done(*jobs, one_more), "the jobs to be done")
    assert [len(job.results()) for job in (*jobs, one_more)] == [1, 1, 1]


@pytest.fixture
def apart(harbour: Harbour) -> Iterator[Json]:
    """The leader, on a second fixed node that is there for this test alone; the other one is on the first."""
    cluster = harbour.cluster
    cluster.boot(APART, labels={"set": "fixed", "topology.kubernetes.io/zone": "a"})
    try:
        cluster.wait_until_ready(APART)
        leader = harbour.pod(harbour.wait(harbour.leader, "a leader"))
        (standby,) = (pod for pod in harbour.pods(CONTROLLER) if pod["metadata"]["uid"] != leader["metadata"]["uid"])
        with cordoned(harbour, "n1"):
            end(harbour, standby)
            harbour.wait(lambda: harbour.ready(CONTROLLER, 2), "the next one to be ready")
        with cordoned(harbour, APART):
            with cordoned(harbour, "n1"):  # or the leader's successor might be faster than the standby
                end(harbour, leader)
                harbour.wait(lambda: harbour.leader() not in ("", leader["metadata"]["name"]), "the standby to lead")
            harbour.wait(lambda: harbour.ready(CONTROLLER, 2), "the next one to be ready")
        yield harbour.pod(harbour.leader())
    finally:
        cluster.join(APART)
        cluster.wait_until_ready(APART)
        harbour.cordon(APART)
        for pod in [pod for pod in harbour.pods(CONTROLLER) if pod["spec"]["nodeName"] == APART]:
            end(harbour, pod)
        harbour.wait(lambda: harbour.ready(CONTROLLER, 2), "both to be on the first node")
        cluster.cut_power(APART)
        harbour.api.delete(f"/api/v1/nodes/{APART}")


@contextmanager
def cordoned(harbour: Harbour, node: str) -> Generator[None]:
    harbour.cordon(node)
    try:
        yield
    finally:
        harbour.uncordon(node)


def end(harbour: Harbour, pod: Json) -> None:
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    harbour.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    harbour.wait(lambda: uid not in {each["metadata"]["uid"] for each in harbour.pods(CONTROLLER)}, f"{name} to end")


def test_a_leader_that_is_cut_off_stops_acting_and_is_a_standby_when_it_is_back(harbour: Harbour, apart: Json) -> None:
    jobs = harbour.enqueue_held(2)
    busy, before = harbour.busy_workers(*jobs), harbour.pool()
    name, page = apart["metadata"]["name"], f"http://{apart['status']['podIP']}:8080/status"
    assert (apart["spec"]["nodeName"], harbour.leader()) == (APART, name)
    assert json.loads(harbour.cluster.ask_from(APART, page))["leader"]["held"]

    harbour.cluster.cut_off(APART)
    harbour.wait(lambda: harbour.leader() not in ("", name), "the other one to lead")
    cut_off = json.loads(harbour.cluster.ask_from(APART, page))["leader"]
    harbour.wait(lambda: json.loads(harbour.cluster.ask_from(APART, page))["report"] is None, "its term to end")
    (one_more,) = harbour.enqueue_held()
    harbour.wait(lambda: harbour.begun(one_more), "a worker from the other leader")
    harbour.cluster.join(APART)
    harbour.wait(lambda: is_ready(harbour.pod(name)) and knows_the_leader(harbour, name), "the old one to hear of it")

    assert not cut_off["held"]
    assert "cannot be reached" in cut_off["why"]
    assert leaders(harbour) == [harbour.leader()]
    assert harbour.leader() != name
    assert not restarted(apart, harbour.pod(name))
    assert changes_since(before, harbour) == [2, 3]
    assert are_untouched(busy, harbour)
    harbour.let_end(*jobs, one_more)
    harbour.wait(lambda: harbour.done(*jobs, one_more), "the jobs to be done")
    assert [len(job.results()) for job in (*jobs, one_more)] == [1, 1, 1]


def leaders(harbour: Harbour) -> list[str]:
    """Which of them take themselves for the leader."""
    pods = [pod for pod in harbour.pods(CONTROLLER) if is_ready(pod)]
    return [pod["metadata"]["name"] for pod in pods if harbour.status(pod)["leader"]["held"]]


def knows_the_leader(harbour: Harbour, name: str) -> bool:
    return harbour.leader() in harbour.status(harbour.pod(name))["leader"]["identity"]


def restarted(before: Json, pod: Json) -> bool:
    """Whether its container has been started again, and is ready."""
    counts = [each["status"]["containerStatuses"][0]["restartCount"] for each in (before, pod)]
    return counts[1] > counts[0] and is_ready(pod)


def changes_since(before: Json, harbour: Harbour) -> list[int]:
    """The numbers of workers asked for, then and now; nothing else was asked for in between, or this fails."""
    now = harbour.pool()
    numbers = [each["spec"]["replicas"] for each in (before, now)]
    assert now["metadata"]["generation"] - before["metadata"]["generation"] == len(set(numbers)) - 1
    return numbers


def are_untouched(pods: list[Json], harbour: Harbour) -> bool:
    now = [harbour.pod(pod["metadata"]["name"], WORKER_NAMESPACE)["metadata"] for pod in pods]
    return all("deletionTimestamp" not in metadata for metadata in now)
