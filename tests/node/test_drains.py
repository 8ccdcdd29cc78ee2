"""`kubectl drain` as an operator calls it, by day and in the window, with busy workers and real pods."""

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.node.harbour import Harbour

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget"


@pytest.mark.every_run
def test_by_day_a_drain_is_refused_and_the_jobs_of_busy_workers_end_where_they_began(harbour: Harbour) -> None:
    jobs = harbour.enqueue_held(2)
    before = harbour.busy_workers(*jobs)
    node, pods = before[0]["spec"]["nodeName"], uids(harbour.pods("api"))

    drained = harbour.drain(node, seconds=10)

    assert drained.returncode != 0
    assert REFUSED in drained.stderr
    for pod in before:
        assert harbour.pod(pod["metadata"]["name"], WORKER_NAMESPACE)["metadata"].get("deletionTimestamp") is None
    assert uids(harbour.pods("api")) == pods
    harbour.let_end(*jobs)
    harbour.wait(lambda: harbour.done(*jobs), "the jobs to be done")
    assert [job.retries_left for job in jobs] == [None, None]


@pytest.mark.every_run
def test_in_the_window_a_flexible_pod_moves_and_a_busy_worker_stays(harbour: Harbour) -> None:
    (job,) = harbour.enqueue_held()
    (worker,) = harbour.busy_workers(job)
    busy = worker["spec"]["nodeName"]
    served_from = harbour.pods("api")[0]["spec"]["nodeName"]
    harbour.make_night()

    moved = harbour.drain(served_from, seconds=300, only="app.kubernetes.io/name=api")
    stuck = harbour.drain(busy, seconds=5, only="app.kubernetes.io/name=prep")
    kept = harbour.pod(worker["metadata"]["name"], WORKER_NAMESPACE)

    assert moved.returncode == 0, moved.stderr
    # A drain ends when the old pod is gone; its successor still starts then.
    harbour.wait(lambda: harbour.ready("api", 2), "the moved pod to be ready")
    assert served_from not in {pod["spec"]["nodeName"] for pod in harbour.pods("api")}
    assert stuck.returncode != 0
    assert REFUSED in stuck.stderr
    assert kept["metadata"].get("deletionTimestamp") is None
    harbour.let_end(job)
    harbour.wait(lambda: harbour.done(job), "the job to be done")


def test_in_the_window_a_fixed_node_is_not_drained(harbour: Harbour) -> None:
    harbour.make_night()
    before = uids(harbour.pods("hub") + harbour.pods("ebbtide-redis"))

    drained = harbour.drain("n1", seconds=10)

    assert drained.returncode != 0
    assert REFUSED in drained.stderr
    assert uids(harbour.pods("hub") + harbour.pods("ebbtide-redis")) == before


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
