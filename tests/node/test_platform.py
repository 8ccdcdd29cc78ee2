"""The labelling platform of examples/ on real nodes: its pods answer, and what is to stay outlives its pod."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import NAMESPACE
from tests.node.harbour import Harbour, settle
from tests.node.labelling import SECRETS, platform

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

NOTEBOOKS = "ebbtide-notebooks"
JOB = f"/apis/batch/v1/namespaces/{WORKER_NAMESPACE}/jobs/migrate-4-2"


@pytest.fixture(scope="module")
def site(_installed: Harbour) -> Iterator[Harbour]:
    """With disks of `n1` for the two pods that keep something."""
    harbour, kubectl = _installed, _installed.cluster.plane.kubectl
    settle(harbour)
    for name in ("postgres", "notebooks"):
        harbour.cluster.local_volume(name, "n1", "1Gi")
    for namespace in (NAMESPACE, WORKER_NAMESPACE):
        for name, values in SECRETS.items():
            literals = [f"--from-literal={key}={value}" for key, value in values.items()]
            kubectl("create", "secret", "generic", name, "--namespace", namespace, *literals)
    with harbour.grown(platform()):
        for workload, count in (("web", 2), ("labels-api", 3), ("postgres", 1), ("orchestrator", 1)):
            harbour.wait(lambda name=workload, count=count: harbour.ready(name, count), f"{workload} to be ready")
        harbour.wait(lambda: harbour.ready("notebooks", 1, NOTEBOOKS), "the notebook hub to be ready")
        yield harbour


def test_the_web_server_answers_as_its_mounted_file_says(site: Harbour) -> None:
    assert asked(site, "web", 8080, "/healthz") == "ok"


def test_the_api_has_its_files_secrets_and_names_and_a_helper_beside_it(site: Harbour) -> None:
    told = json.loads(asked(site, "labels-api", 8000))
    pod = next(pod for pod in site.pods("labels-api") if pod["metadata"]["name"] == told["environment"]["POD_NAME"])

    assert told["files"] == ["gunicorn.conf.py", "logging.yaml"]
    assert told["writable"] == ["/var/spool/uploads"]
    assert told["environment"]["DATABASE_PASSWORD"] == SECRETS["db-login"]["password"]
    assert SECRETS["platform"].items() <= told["environment"].items()
    assert [each["ready"] for each in pod["status"]["initContainerStatuses"]] == [True]


def test_the_hub_may_see_the_pods_of_its_namespace_by_its_own_token_and_no_secret(site: Harbour) -> None:
    assert json.loads(asked(site, "notebooks", 8081, namespace=NOTEBOOKS)) == {"pods": 200, "secrets": 403}


def test_the_job_reaches_the_database_by_its_name_and_ends(site: Harbour) -> None:
    site.wait(lambda: site.api.get(JOB)["status"].get("succeeded"), "the migration to be done")


def test_a_stateful_pod_is_drained_by_nobody_and_finds_its_disk_again(site: Harbour) -> None:
    (before,) = site.pods("postgres")
    starts = len(json.loads(asked(site, "postgres", 5432)))
    only = "ebbtide.dev/workload=postgres"

    refused = site.drain("n1", 10, only)
    assert refused.returncode != 0
    assert "violate the pod's disruption budget" in refused.stderr
    assert [pod["metadata"]["uid"] for pod in site.pods("postgres")] == [before["metadata"]["uid"]]

    # What an operator does who must replace the machine: the pod goes, whatever its budget says.
    site.cluster.plane.kubectl("drain", "n1", "--disable-eviction", f"--pod-selector={only}", "--delete-emptydir-data")
    site.uncordon("n1")

    def again() -> list[Any] | None:
        pods = site.pods("postgres")
        moved = [pod["metadata"]["uid"] for pod in pods] != [before["metadata"]["uid"]]
        return json.loads(asked(site, "postgres", 5432)) if moved and site.ready("postgres", 1) else None

    assert len(site.wait(again, "another pod on the same disk")) == starts + 1


def asked(site: Harbour, workload: str, port: int, path: str = "/", namespace: str = NAMESPACE) -> str:
    """What one of its pods answers, at the pod's own address."""
    address = site.pods(workload, namespace)[0]["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=30) as answer:
        return answer.read().decode().strip()
