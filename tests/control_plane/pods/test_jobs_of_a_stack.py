"""Jobs and cron jobs as rendered: the API server takes them as they are, and their pods stay where they run."""

from collections.abc import Iterator
from functools import partial

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install
from pydantic_core import PydanticCustomError

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.jobs import parse_cron
from ebbtide.vocabulary.labels import WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.control_plane

JOBS = f"/apis/batch/v1/namespaces/{WORKER_NAMESPACE}/jobs"
CRON_JOBS = f"/apis/batch/v1/namespaces/{WORKER_NAMESPACE}/cronjobs"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
REFUSED = 429
STACK = shortest(
    more="""
        ebbtide:jobs:
          migrate: { image: "example.com/db:1", args: [--all], cpu: 1, memory: 2Gi, longestRun: 2h, retries: 2 }
        ebbtide:cronJobs:
          report:
            image: example.com/report:1
            cpu: 500m
            memory: 1Gi
            longestRun: 30m
            schedule: "30 2 * * MON-fri"
            timezone: Asia/Tokyo
            concurrency: replace
            startWithin: 10m
            history: { succeeded: 0, failed: 5 }
            suspended: true
            completions: 4
            parallelism: 2
    """
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With the stack applied by `kubectl apply --server-side --validate=strict`; KWOK leaves the job's pods alone."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("jobs")
    settings = loaded(STACK, folder)
    with ControlPlane(hands_off=f"{WORKLOAD} in (migrate,report)") as plane:
        add_group_node(plane, settings, "flexible", "flexible-0")
        install(plane, settings, folder / "rendered")
        yield plane


def test_nobody_evicts_the_running_pod_of_a_job(plane: ControlPlane) -> None:
    def bound() -> Json | None:
        pods = plane.api.get(PODS, labelSelector=f"{WORKLOAD}=migrate")["items"]
        return pods[0] if pods and pods[0]["spec"].get("nodeName") == "flexible-0" else None

    pod = eventually(bound, what="the job's pod to have its node")
    path = f"{PODS}/{pod['metadata']['name']}"
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    plane.api.patch(f"{path}/status", {"status": ready}, "application/strategic-merge-patch+json")
    budget = f"/apis/policy/v1/namespaces/{WORKER_NAMESPACE}/poddisruptionbudgets/migrate"
    eventually(lambda: plane.api.get(budget)["status"].get("currentHealthy") == 1, what="its budget to count it")

    with pytest.raises(ApiError) as refused:
        plane.api.create(f"{path}/eviction", {"metadata": {"name": pod["metadata"]["name"]}})

    assert refused.value.status == REFUSED


def test_a_run_of_a_cron_job_is_admitted(plane: ControlPlane) -> None:
    """Started by hand, as `kubectl create job --from` does: its schedule is suspended."""
    cron_job = plane.api.get(f"{CRON_JOBS}/report")
    template = cron_job["spec"]["jobTemplate"]
    plane.api.create(JOBS, {"metadata": {"name": "report-now", **template["metadata"]}, "spec": template["spec"]})

    def pods() -> list[Json]:
        found: list[Json] = plane.api.get(PODS, labelSelector=f"{WORKLOAD}=report")["items"]
        return found if len(found) == template["spec"]["parallelism"] else []

    assert len(eventually(pods, what="the pods of the run")) == 2
    assert cron_job["spec"]["concurrencyPolicy"] == "Replace"


TAKEN = ("*/15 * * * *", "0 3 29 2 *", "5,35 8-18/2 1,15 JAN-Mar ?", "0 3 31 2 mon", "3/20 0 ? * *", "00 03 * * *")
ALSO_TAKEN = ("0 0 1-7 * sun", "0 3 * * tue-thu/2", "0 3 ? ? ?", "*/70 3 * * *")
REFUSED_BY_BOTH = ("60 3 * * *", "0 24 * * *", "0 3 0 * *", "0 3 * 13 *", "0 3 * * 7", "0 3 * * 5-1", "*/0 3 * * *")
ALSO_REFUSED = ("0 3 * * mo", "0 0 3 * * *", "1-2-3 * * * *", "TZ=UTC 0 3 * *", "-1 3 * * *", "1- 3 * * *", "x * * * *")


@pytest.mark.parametrize("schedule", [*TAKEN, *ALSO_TAKEN, *REFUSED_BY_BOTH, *ALSO_REFUSED])
def test_a_schedule_is_taken_where_the_api_server_takes_it(plane: ControlPlane, schedule: str) -> None:
    asked = partial(plane.api.patch, f"{CRON_JOBS}/report", {"spec": {"schedule": schedule}}, dryRun="All")
    try:
        taken = parse_cron(schedule)
    except PydanticCustomError:
        with pytest.raises(ApiError, match=r"spec\.schedule"):
            asked()
    else:
        assert asked()["spec"]["schedule"] == taken
