"""The controller is dead when the window ends: the CronJob closes what it left open."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, NAMESPACE
from tests.node.harbour import Harbour

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

GUARD = timedelta(minutes=15)  # the default: so long before the opening the window ends


def test_the_closer_closes_by_its_schedule_what_a_dead_controller_left_open(harbour: Harbour, tmp_path: Path) -> None:
    harbour.make_night()
    with no_controller(harbour):
        left = harbour.budget("api")["spec"]["maxUnavailable"]
        end = next_minute(datetime.now(UTC) + timedelta(seconds=5))
        with window_until(harbour, end, tmp_path / "cron.yaml"):
            harbour.wait(lambda: harbour.budget("api")["spec"]["maxUnavailable"] == 0, "the budget to be closed")
            harbour.wait(lambda: harbour.budget("api")["status"]["disruptionsAllowed"] == 0, "its status to follow")
            jobs = harbour.wait(lambda: closed_by(harbour), "the closer to be done")
            (pod,) = harbour.pods(CLOSER)
            said = harbour.log(pod)
        owners = owners_of_max_unavailable(harbour.budget("api"))

    assert left == 1
    assert jobs == [end.isoformat().replace("+00:00", "Z")]
    assert pod["spec"]["serviceAccountName"] == CLOSER
    assert said.splitlines() == [f"closer: {NAMESPACE}/api closed"]
    assert owners[-1] == CLOSER


@contextmanager
def no_controller(harbour: Harbour) -> Generator[None]:
    """Told to stop, a controller closes the budgets itself. So both are frozen first, and die of it."""
    for pod in harbour.pods(CONTROLLER):
        for pid in harbour.cluster.processes_of(pod):
            os.kill(pid, signal.SIGSTOP)
    scale = ("--namespace", NAMESPACE, "scale", "deployment", CONTROLLER)
    harbour.cluster.plane.kubectl(*scale, "--replicas=0")
    try:
        harbour.wait(lambda: not harbour.pods(CONTROLLER), "the controllers to be gone")
        yield
    finally:
        harbour.cluster.plane.kubectl(*scale, "--replicas=2")


@contextmanager
def window_until(harbour: Harbour, end: datetime, file: Path) -> Generator[None]:
    """Business hours that begin after the guard, with their CronJob."""
    opening = end + GUARD
    week = {opening.strftime("%a").lower(): f"{opening:%H:%M}-24:00"}
    harbour.tell(week)
    every = (harbour.rendered(week) / "60-workloads.yaml").read_text().split("\n---\n")
    (cron,) = (document for document in every if "\nkind: CronJob\n" in document)
    file.write_text(cron)
    harbour.cluster.plane.kubectl("apply", "--server-side", "-f", str(file))
    try:
        yield
    finally:
        harbour.cluster.plane.kubectl("delete", "-f", str(file))


def next_minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


def closed_by(harbour: Harbour) -> list[str]:
    """When the Jobs that are done were due."""
    jobs = harbour.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]
    due = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    return [job["metadata"]["annotations"][due] for job in jobs if job["status"].get("succeeded") == 1]


def owners_of_max_unavailable(budget: Json) -> list[str]:
    fields = budget["metadata"]["managedFields"]
    return [each["manager"] for each in fields if "f:maxUnavailable" in each["fieldsV1"].get("f:spec", {})]
