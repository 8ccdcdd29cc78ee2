"""The control plane that the other tests rely on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError
from tests.builders.control_plane import Fresh, eventually
from tests.processes import lives

pytestmark = pytest.mark.control_plane

# Starts a control plane, says which processes it has, and waits to be killed.
HOLDER = """
import sys
from control_plane.plane.driver import ControlPlane
with ControlPlane(with_nodes=False) as plane:
    print(plane.folder, *[plane.processes.pid(name) for name in plane.processes.names()], flush=True)
    sys.stdin.read()
"""


def test_a_pod_that_is_scheduled_runs_and_ends_when_deleted(control_plane: ControlPlane, fresh: Fresh) -> None:
    node, namespace = fresh.node(labels={"test": "driver"}), fresh.namespace()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeSelector": {"test": "driver"}, "containers": [{"name": "main", "image": "any"}]}
    control_plane.api.create(pods, {"metadata": {"name": "one"}, "spec": spec})

    pod = eventually(lambda: running(control_plane, f"{pods}/one"), what="the pod to run")
    control_plane.api.delete(f"{pods}/one")

    assert pod["spec"]["nodeName"] == node
    eventually(lambda: not control_plane.api.get(pods)["items"], what="the pod to be gone")


def running(plane: ControlPlane, path: str) -> dict[str, dict[str, str]] | None:
    pod = plane.api.get(path)
    return pod if pod["status"]["phase"] == "Running" else None


def test_an_account_gets_in_with_its_own_token_and_without_rights(control_plane: ControlPlane, fresh: Fresh) -> None:
    namespace = fresh.namespace()
    account = {"metadata": {"name": "nobody"}}
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)

    with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:nobody") as refused:
        control_plane.api_as(namespace, "nobody").get(f"/api/v1/namespaces/{namespace}/pods")
    with pytest.raises(subprocess.CalledProcessError) as refused_too:
        control_plane.kubectl("get", "pods", kubeconfig=control_plane.kubeconfig_as(namespace, "nobody"))

    assert refused.value.status == 403
    assert "Forbidden" in refused_too.value.stderr


def test_a_restarted_server_keeps_what_it_was_told(control_plane: ControlPlane, fresh: Fresh) -> None:
    namespace = fresh.namespace()
    before = control_plane.processes.pid("kube-apiserver")

    control_plane.restart("kube-apiserver")

    assert control_plane.processes.pid("kube-apiserver") != before
    assert control_plane.api.get(f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_whoever_started_it(control_plane: ControlPlane, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        folder, *pids = holder.stdout.readline().split()
        assert len(pids) == 2
        assert all(lives(int(pid)) for pid in pids)

        holder.send_signal(end)
        holder.wait()

    eventually(lambda: not any(lives(int(pid)) for pid in pids), what=f"processes {pids} to end")
    eventually(lambda: not Path(folder).exists(), what="their folder to be removed")


def test_a_frozen_server_does_not_answer_until_it_goes_on(control_plane: ControlPlane) -> None:
    control_plane.suspend("kube-apiserver")
    try:
        with pytest.raises(subprocess.CalledProcessError, match="kubectl"):
            control_plane.kubectl("get", "namespaces", "--request-timeout=1s")
    finally:
        control_plane.resume("kube-apiserver")

    assert "kube-system" in control_plane.kubectl("get", "namespaces")
