"""A rendered stack on real nodes: its own images, accounts and tokens, and what the kernel holds its pods to."""

import re

import pytest

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from tests.node.harbour import POOL, Harbour

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]


def test_the_controller_works_from_its_image_with_its_own_token(harbour: Harbour) -> None:
    leader = harbour.pod(harbour.wait(harbour.leader, "a leader"))
    (status,) = leader["status"]["containerStatuses"]

    assert harbour.status(leader)["leader"]["held"]
    assert status["image"].startswith("ghcr.io/ebbtide/controller:")


def test_workers_come_with_jobs_and_go_when_all_are_done(harbour: Harbour) -> None:
    jobs = harbour.enqueue(5, count=3)

    harbour.wait(lambda: harbour.done(*jobs), "the jobs to be done")
    harbour.wait(lambda: not harbour.workers(), "the last worker to leave")

    assert harbour.deployment(POOL, WORKER_NAMESPACE)["spec"]["replicas"] == 0


def test_fixed_pods_run_on_the_fixed_node_and_flexible_ones_elsewhere(harbour: Harbour) -> None:
    fixed = [*harbour.pods("hub"), *harbour.pods(CONTROLLER), *harbour.pods("ebbtide-redis")]

    assert {pod["spec"]["nodeName"] for pod in fixed} == {"n1"}
    assert {pod["spec"]["nodeName"] for pod in harbour.pods("api")} <= {"n2", "n3"}


def test_a_service_answers_by_its_name_from_another_node(harbour: Harbour) -> None:
    (hub,), caller = harbour.pods("hub"), harbour.pods("api")[0]
    harbour.run_in(hub, "sh", "-c", "echo here is the hub > /tmp/index.html")
    asked = "import urllib.request; print(urllib.request.urlopen('http://hub:8080/').read().decode())"

    assert harbour.run_in(caller, "python", "-c", asked).strip() == "here is the hub"


@pytest.mark.parametrize("workload", ["hub", CONTROLLER])
def test_the_kernel_holds_a_pod_to_the_restricted_level(harbour: Harbour, workload: str) -> None:
    told = harbour.run_in(harbour.pods(workload)[0], "cat", "/proc/1/status")
    status = dict(re.findall(r"(?m)^(\w+):\t(.*)$", told))

    assert status["Uid"].split() == ["1000"] * 4
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_the_controllers_root_and_config_are_read_only(harbour: Harbour) -> None:
    tries = "for place in / /app /etc/ebbtide /tmp; do touch $place/new 2>&1; done; true"

    told = harbour.run_in(harbour.pods(CONTROLLER)[0], "sh", "-c", tries)

    assert [line.rpartition(": ")[2] for line in told.splitlines()] == ["Read-only file system"] * 4


def test_a_pod_without_an_account_of_its_own_has_no_token(harbour: Harbour) -> None:
    look = "ls /var/run/secrets/kubernetes.io/serviceaccount/token 2>/dev/null || echo none"

    assert harbour.run_in(harbour.pods("hub")[0], "sh", "-c", look).strip() == "none"
    assert harbour.run_in(harbour.pods(CONTROLLER)[0], "sh", "-c", look).strip().endswith("/token")


def test_a_pod_that_wants_the_machine_is_refused(harbour: Harbour) -> None:
    one = {"name": "one", "image": "localhost/ebbtide/python:3.13"}
    pod = {"metadata": {"name": "greedy"}, "spec": {"hostPID": True, "containers": [one]}}

    with pytest.raises(Exception, match=r"violates PodSecurity .restricted") as refused:
        harbour.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)

    assert getattr(refused.value, "status", None) == 403
