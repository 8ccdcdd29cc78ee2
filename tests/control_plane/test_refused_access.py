"""A kubeconfig that the real API server does not accept: what the commands say of it, and what the controller does."""

import json
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.labels import CONTROLLER
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import Process, Scene, make_scene
from tests.builders.redis import server, shared_server

__all__ = ["server", "shared_server"]  # fixtures

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]


def changed(kubeconfig: Path, target: Path, *, user: dict[str, Any] | None = None, drop_ca: bool = False) -> Path:
    """A copy with another login, or without the authority that signed the server's certificate."""
    document = json.loads(kubeconfig.read_text())
    if user is not None:
        document["users"][0]["user"] = user
    if drop_ca:
        del document["clusters"][0]["cluster"]["certificate-authority"]
    target.write_text(json.dumps(document))
    return target


def said_by_status(kubeconfig: Path, namespace: str) -> str:
    arguments = ["status", "--kubeconfig", str(kubeconfig), "--namespace", namespace]
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith(f"kubeconfig {kubeconfig}, context test: ")
    return line


def test_status_names_what_the_server_refused(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> None:
    good, namespace = control_plane.kubeconfig, fresh.namespace()
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    control_plane.api.create(accounts, {"metadata": {"name": "nobody"}})

    untrusted = said_by_status(changed(good, tmp_path / "untrusted", drop_ca=True), namespace)
    unknown = said_by_status(changed(good, tmp_path / "unknown", user={"token": "wrong"}), namespace)
    anonymous = said_by_status(changed(good, tmp_path / "anonymous", user={}), namespace)
    powerless = said_by_status(control_plane.kubeconfig_as(namespace, "nobody"), namespace)

    assert "certificate verify failed" in untrusted
    assert "wanted a server whose certificate the kubeconfig's certificate-authority has signed" in untrusted
    assert "Unauthorized (HTTP 401): the login is refused; wanted a valid one" in unknown
    assert "wanted a login, and this kubeconfig gave none" in anonymous
    assert 'cannot get resource "configmaps"' in powerless
    assert "(HTTP 403): ask an administrator of the cluster" in powerless


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, server: EmbeddedRedis, tmp_path: Path) -> Scene:
    return make_scene(control_plane, fresh, server, tmp_path)


def wait_until_unready(process: Process, why: str) -> None:
    """It says so to whoever asks, and once in its log."""
    eventually(lambda: why in process.get("/readyz")[1], what=f"to be told: {why}")
    assert process.get("/readyz")[0] == 503
    assert process.get("/healthz")[0] == 200  # another start would change nothing
    assert why in process.status()["leader"]["why"]
    eventually(lambda: told_of_the_lease(process), what="a line in the log")
    (message,) = told_of_the_lease(process)
    assert why in message


def told_of_the_lease(process: Process) -> list[str]:
    lines = [json.loads(line) for line in process.log.read_text().splitlines()]
    return [line["message"] for line in lines if line["event"] == "noted" and line["subject"] == "Lease"]


def test_a_controller_whose_token_is_refused_says_so_and_does_not_lead(scene: Scene, tmp_path: Path) -> None:
    good = scene.plane.kubeconfig_as(scene.apps, CONTROLLER)
    unknown = changed(good, tmp_path / "unknown", user={"token": "wrong"})
    with scene.process("unknown", kubeconfig=unknown) as process:
        wait_until_unready(process, "the API server refuses our token: Unauthorized")
        assert scene.lease_holder() == ""


def test_a_controller_without_its_rights_says_so_and_acts_when_it_has_them(scene: Scene) -> None:
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{scene.apps}/rolebindings"
    binding = scene.plane.api.get(f"{rights}/{CONTROLLER}")
    scene.plane.api.delete(f"{rights}/{CONTROLLER}")
    with scene.process() as process:
        wait_until_unready(process, f'a right is missing: leases.coordination.k8s.io "{CONTROLLER}" is forbidden')
        del binding["metadata"]["resourceVersion"]
        scene.plane.api.create(rights, binding)
        eventually(process.leads, what="the Lease")
        eventually(lambda: scene.max_unavailable() == 1, what="the opening")
        why, over = told_of_the_lease(process)
        assert over == f"no longer: {why}"
