"""A new release of a service, of a fixed workload and of a worker pool, by day and in the window."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from control_plane.nodes.images.recipes import WORKER_TAG

from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.node.harbour import POOL, Harbour, is_ready

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

LONGEST_JOB = 600  # seconds, as the stack says
CALLER = """
import os, socket, sys, time, urllib.request
address, asked = socket.gethostbyname("api"), 0
while not os.path.exists(sys.argv[1]):
    urllib.request.urlopen(f"http://{address}:8080/", timeout=30).read()
    asked += 1
    time.sleep(0.05)
print(asked)
"""


@pytest.mark.parametrize(
    ("part", "change", "open_budget"),
    [("day", {"image": WORKER_TAG}, 0), ("night", {"env": {"RELEASE": "night"}}, 1)],
    ids=["another image by day", "another environment in the window"],
)
def test_a_new_release_of_a_service_leaves_no_request_without_answer(
    harbour: Harbour, part: str, change: dict[str, Any], open_budget: int
) -> None:
    if part == "night":
        harbour.make_night()
    before, (hub,) = uids(harbour.pods("api")), harbour.pods("hub")
    fewest, budgets = 2, set[int]()

    def rolled_out() -> bool:
        nonlocal fewest
        fewest = min(fewest, sum(is_ready(pod) for pod in staying(harbour.pods("api"))))
        budgets.add(harbour.budget("api")["spec"].get("maxUnavailable", 0))
        return not before & uids(harbour.pods("api")) and harbour.ready("api", 2)

    with ThreadPoolExecutor() as pool:
        asked = pool.submit(harbour.run_in, hub, "python", "-c", CALLER, f"/tmp/enough-{part}")
        try:
            harbour.release("api", **change)
            harbour.wait(rolled_out, "the new release to be all there is")
        finally:
            harbour.run_in(hub, "touch", f"/tmp/enough-{part}")

    assert int(asked.result()) > 20
    assert fewest == 2
    assert budgets == {open_budget}


def test_the_new_pod_of_a_fixed_workload_comes_once_the_old_one_has_ended(harbour: Harbour) -> None:
    """Though the node has room for both."""
    (old,) = harbour.pods("hub")
    most = 1

    def rolled_out() -> bool:
        nonlocal most
        pods = harbour.pods("hub")
        most = max(most, sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods))
        return old["metadata"]["uid"] not in uids(pods) and harbour.ready("hub", 1)

    harbour.release("hub", env={"RELEASE": "2"})
    harbour.wait(rolled_out, "the new release to be all there is")

    assert most == 1


def test_a_new_release_of_a_pool_lets_a_busy_worker_end_its_job(harbour: Harbour) -> None:
    (job,) = harbour.enqueue_held()
    (busy,) = harbour.busy_workers(job)
    name = busy["metadata"]["name"]

    harbour.release(POOL, env={"RELEASE": "2"})
    harbour.wait(lambda: harbour.has_heard(name), "the busy one to be told to stop")
    told = harbour.pod(name, WORKER_NAMESPACE)["metadata"]
    (next_one,) = harbour.enqueue(1)
    harbour.wait(lambda: harbour.done(next_one), "a job to be done by the new release")
    meanwhile = job.get_status(refresh=True)
    harbour.let_end(job)
    harbour.wait(lambda: harbour.done(job), "the job to be done")
    harbour.wait(lambda: name not in {pod["metadata"]["name"] for pod in harbour.workers()}, "the old pod to be gone")

    assert told["deletionGracePeriodSeconds"] > LONGEST_JOB
    assert meanwhile == "started"
    assert len(job.results()) == 1


def staying(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
