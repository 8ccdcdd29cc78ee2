"""The nodes themselves: what they may, that they stand beside played ones, and that nothing of them stays."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_plane.nodes import cgroups, leftovers
from control_plane.nodes.cluster import RealCluster
from control_plane.nodes.images import building

from controllers.adapters.kube_api import ApiError, KubeApi
from tests.builders.control_plane import eventually
from tests.paths import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

MERGE = "application/merge-patch+json"
DRIVER = """
import sys, time
sys.path[:0] = [{root!r}, {tools!r}]
from control_plane.nodes.cluster import RealCluster
with RealCluster() as cluster:
    cluster.boot("n1")
    cluster.wait_until_ready("n1")
    print(cluster.folder.name, flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def driver() -> Iterator["subprocess.Popen[str]"]:
    """Of another cluster with a node."""
    script = DRIVER.format(root=str(ROOT), tools=str(ROOT / "tools" / "control-plane"))
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        yield driver
        driver.kill()


def told(driver: "subprocess.Popen[str]") -> str:
    assert driver.stdout is not None
    name = driver.stdout.readline().strip()
    assert name
    return name


def test_what_a_killed_driver_left_is_gone_after_the_next_run_has_begun(driver: "subprocess.Popen[str]") -> None:
    name = told(driver)
    reapers = subprocess.run(["pgrep", "-P", str(driver.pid), "-f", "reaper"], capture_output=True, text=True).stdout
    for pid in reapers.split():  # or it would end the programs
        subprocess.run(["kill", "-KILL", pid], check=True)
    driver.kill()
    driver.wait()
    left, plane = (
        cgroups.processes(name),
        (leftovers.folder_of_runs(building.folder()) / name / "control-plane").readlink(),
    )

    swept = leftovers.sweep(building.folder())

    assert left
    assert swept == [name]
    assert not plane.exists()
    assert name not in cgroups.runs()
    eventually(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), what="the dead to be buried", patience=300
    )
    assert not (leftovers.folder_of_runs(building.folder()) / name).exists()


def test_after_ctrl_c_nothing_is_left(driver: "subprocess.Popen[str]") -> None:
    name = told(driver)

    driver.send_signal(signal.SIGINT)
    driver.wait()

    assert name not in cgroups.runs()
    assert not (leftovers.folder_of_runs(building.folder()) / name).exists()


def test_a_run_whose_driver_lives_is_let_alone(cluster: RealCluster) -> None:
    swept = leftovers.sweep(building.folder())

    assert cluster.folder.name not in swept
    assert cluster.is_ready("n1")


def test_a_node_may_write_its_own_labels_and_nobody_elses(cluster: RealCluster) -> None:
    kubeconfig = json.loads((cluster.folder_of("n1") / "kubeconfig").read_text())
    node = KubeApi(cluster.plane.configuration(kubeconfig["users"][0]["user"]["token"]))
    labels = {"metadata": {"labels": {"note": "mine"}}}

    node.patch("/api/v1/nodes/n1", labels, MERGE)
    with pytest.raises(ApiError, match="is not allowed to modify node") as refused:
        node.patch("/api/v1/nodes/n2", labels, MERGE)

    assert refused.value.status == 403


def test_a_played_node_stands_beside_real_ones(cluster: RealCluster) -> None:
    cluster.plane.add_node("played")
    try:
        eventually(lambda: cluster.is_ready("played"), what="KWOK to play the node", patience=300)
        info = cluster.plane.api.get("/api/v1/nodes/n1")["status"]["nodeInfo"]
    finally:
        cluster.plane.api.delete("/api/v1/nodes/played")

    assert info["containerRuntimeVersion"].startswith("containerd://")


def test_nothing_leads_out_of_the_network(cluster: RealCluster) -> None:
    routes = subprocess.run(["ip", "route", "show", "default"], capture_output=True, text=True, check=True).stdout

    assert routes == ""
