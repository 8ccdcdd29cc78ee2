"""What the head tells of a worker that nothing uses: the workload controller's alert stands on it."""

import json
import subprocess
import urllib.request
from typing import Any

import pytest

from controllers.workloads.ray.head import Head
from controllers.workloads.ray.idle import Idle
from tests.builders.redis import wait_until
from tests.ray.cluster import PROGRAMS, RayCluster

pytestmark = pytest.mark.ray

DRIVER = """
import sys
import ray

ray.init(sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=1, num_gpus=1)
def quick():
    return 1

ray.get(quick.remote())
"""


def asked(cluster: RayCluster, path: str) -> Any:
    """What the head's dashboard answers."""
    headers = {"Authorization": f"Bearer {cluster.token.read_text()}"}
    request = urllib.request.Request(f"http://{cluster.head.ip}:8265{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["data"]


def test_the_head_knows_that_nothing_runs_and_of_no_node_that_it_is_idle() -> None:
    """Should it fail because a later Ray tells more, `controllers.workloads.ray.idle` can name the worker."""
    with RayCluster(dashboard=True, groups={"gpu": {"CPU": 2, "GPU": 1}}, idle_minutes=10) as cluster:
        command = [str(PROGRAMS / "python"), "-c", DRIVER, cluster.address]
        subprocess.run(command, env=cluster.environment(), check=True)
        head = Head(f"http://{cluster.head.ip}:8265", str(cluster.token))

        wait_until(lambda: isinstance(head.activity(), Idle), "the head to know that the driver has ended")
        nodes = [node["raylet"] for node in asked(cluster, "/nodes?view=summary")["summary"]]
        status = asked(cluster, "/api/cluster_status")

    workers = [node for node in nodes if not node["isHeadNode"]]
    assert [(it["state"], it["nodeTypeName"]) for it in workers] == [("ALIVE", "gpu")]
    assert [(it["stateSnapshot"]["state"], it["stateSnapshot"]["idleDurationMs"]) for it in workers] == [
        ("ACTIVE", "0")
    ]
    assert status["clusterStatus"] is None
