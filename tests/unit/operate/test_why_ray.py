"""Why a Ray cluster, its worker and the node of the worker still exist, and what a driver and its jobs wait for."""

from datetime import timedelta
from typing import Any

import pytest

from ebbtide.operate.api import CannotOperate
from ebbtide.operate.ray.view import ray_view
from ebbtide.operate.why.node import NodeFacts, explain_node
from ebbtide.operate.why.ray import ExplainedRayCluster, driver_lines, explain_ray, job_lines, why_pod
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, PAUSED, SLEEP
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, dump_sleep
from tests.unit.operate.raw_objects import NOW, budget, node
from tests.unit.operate.ray_objects import (
    asleep,
    config,
    document,
    group,
    ray_cluster,
    ray_facts,
    ray_pod,
    report,
    view,
)

IDLE = report(why="idle-but-recent", reading="idle", activity="idle", idleFor=1500.0)
SHORT = group("gpu", 1, idleTimeoutSeconds=120)


def known(**changes: Any) -> ExplainedRayCluster:
    facts = ray_facts(**changes)
    return ExplainedRayCluster(facts, ray_view(facts, config(), document()))


def why(pod: dict[str, Any], **changes: Any) -> str:
    return why_pod(view(**changes), pod, "UTC")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"cluster": ray_cluster(SHORT)},
            "it may be busy (driver: 1 job); Ray's autoscaler removes it after 2m without tasks, and only it knows",
        ),
        (
            {"cluster": ray_cluster(SHORT), "report": IDLE},
            "for 25 min, and Ray's autoscaler, which removes a worker after 2m without tasks, has not: version 2",
        ),
        (
            {"cluster": ray_cluster(SHORT), "report": {**IDLE, "idleFor": 60.0}},
            "nothing has run in the cluster for 1 min; Ray's autoscaler removes it after 2m without tasks",
        ),
        (
            {"cluster": ray_cluster(group("gpu", 1, least=1, idleTimeoutSeconds=120)), "report": IDLE},
            "nothing has run in the cluster for 25 min, and its group keeps its min of 1",
        ),
        (
            {"report": report(reading="unreadable", activity="http://head: HTTP 401")},
            "whether it is busy is not known, as the head gives no answer: http://head: HTTP 401",
        ),
        ({"report": None}, "whether it is busy is not known; Ray's autoscaler removes it when idle"),
        ({"cluster": ray_cluster(group("cpu"))}, "its group is gone from the spec, and it goes when Ray finds it idle"),
        ({"cluster": ray_cluster(suspend=True)}, "the cluster goes to sleep, and this pod with it"),
        ({"cluster": ray_cluster(annotations={PAUSED: "by hand"})}, "(paused: by hand)"),
        ({"report": report(pending=["headGroupSpec"])}, "a new spec waits until nothing runs"),
    ],
)
def test_why_a_worker_stays(changes: dict[str, Any], said: str) -> None:
    assert said in why(ray_pod("gpu"), **changes)


def test_a_cluster_that_never_sleeps_does_not_promise_to_end_a_worker() -> None:
    cluster = ray_cluster(SHORT, annotations={SLEEP: dump_sleep(Sleep(when=SleepWhen.NEVER))})

    assert why(ray_pod("gpu"), cluster=cluster, report=IDLE).endswith("(kuberay#3738); it never sleeps")


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (ray_pod("gpu", ending=True), "it is terminating, and has up to 32 min to end its tasks"),
        (ray_pod("gpu", node=None), "it does not run yet: 0/3 nodes are available: 3 Insufficient gpu."),
        (ray_pod("headgroup"), "the head ends only with the entire cluster, which is awake since"),
    ],
)
def test_why_another_pod_is_as_it_is(pod: dict[str, Any], said: str) -> None:
    assert why(pod).startswith(said)


def test_a_cluster_is_explained_with_its_drivers_and_its_workers() -> None:
    one = known(report=report(pending=["headGroupSpec.image"]))

    lines = explain_ray([one], "flow", "UTC")

    assert lines[0].startswith("Ray cluster flow: awake since Fri 2026-11-20 14:00 UTC (14:00 UTC): it is not known")
    assert lines[1].startswith("A new spec waits (headGroupSpec.image (old image)); it is applied once nothing has run")
    assert "Drivers preprocess: 3 wanted, 2 ready, at most 3." in lines
    assert [line.split(":")[0] for line in lines if line.startswith("  - ")] == [
        "  - flow-cpu-worker-1",
        "  - flow-cpu-worker-2",
        "  - flow-gpu-worker-1",
    ]


def test_a_pod_is_explained_by_its_name_and_an_unknown_one_is_refused() -> None:
    (line,) = explain_ray([known()], "flow-gpu-worker-1", "UTC")

    assert line.startswith("flow-gpu-worker-1 is a worker of group gpu of Ray cluster flow: it may be busy")
    with pytest.raises(CannotOperate, match="no pod of one is called folw; there are the clusters: flow") as refused:
        explain_ray([known()], "folw", "UTC")
    assert refused.value.code == 2


def chain(**changes: Any) -> str:
    one = view(**changes)
    return "\n".join(driver_lines(one, one.drivers[0]))


NO_QUEUE = ray_cluster(
    suspend=True, gone=True, annotations={SLEEP: dump_sleep(Sleep(when=SleepWhen.IDLE, after=timedelta(hours=1)))}
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1 driver does not run yet: ebbtide why pool preprocess."),
        (
            {"pools": {"preprocess": {"spec": {"replicas": 3}, "status": {"readyReplicas": 3}}}},
            "All 3 drivers that its max allows are there: a job waits until one of them is free.",
        ),
        ({"cluster": asleep()}, "A driver waits for the head: flow is asleep; it wakes when a driver is wanted."),
        ({"cluster": NO_QUEUE}, "flow is asleep; no queue wakes it (sleep.wake): ebbtide wake flow."),
        ({"pods": [ray_pod("headgroup", node=None)]}, "A driver waits for the head, which does not run: 0/3 nodes"),
        ({"pods": []}, "A driver waits for the head, which does not run: it has no pod yet."),
        ({"cluster": ray_cluster(group("gpu", 8, 8))}, "Group gpu is at its max of 8: further tasks wait"),
        (
            {"pods": [ray_pod("gpu", node=None)]},
            "Group gpu: 1 pod does not run yet: 0/3 nodes are available: 3 Insufficient gpu.",
        ),
    ],
)
def test_what_a_driver_waits_for(changes: dict[str, Any], said: str) -> None:
    assert said in chain(**changes)


def test_an_unknown_wait_is_not_guessed() -> None:
    assert chain(pods=None, pools={}, cluster=None) == ("Drivers preprocess: unknown wanted, unknown ready, at most 3.")


@pytest.mark.parametrize(("status", "lines"), [("queued", True), ("started", True), ("finished", False)])
def test_a_job_of_a_pool_that_drives_ray_mentions_the_cluster(status: str, *, lines: bool) -> None:
    queue = config().pools[0].queues[0]

    told = job_lines({"rq": {"status": status, "queue": queue}}, config(), [known()])

    assert told[:1] == (["Its pool drives Ray cluster flow."] if lines else [])
    assert job_lines({"rq": {"status": status, "queue": "other"}}, config(), [known()]) == []


def test_a_node_under_a_worker_names_the_cluster_and_why_the_worker_stays() -> None:
    pod = ray_pod("gpu", node="node-1")
    closed = budget("flow-gpu", meta={"namespace": pod["metadata"]["namespace"]})
    closed["spec"] = {"minAvailable": CLOSED_MINIMUM, "selector": {"matchLabels": {"ray.io/group": "gpu"}}}
    told = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": "it is a worker of group gpu of flow: busy"}

    text = "\n".join(explain_node(NodeFacts(now=NOW, node=node("gpu"), pods=[pod], budgets=[closed], ray=told)))

    assert "its budget flow-gpu is closed: workers of Ray are not evicted; Ray's autoscaler removes an idle one" in text
    assert "; it is a worker of group gpu of flow: busy" in text
