"""GPUs that a real kubelet hands out. A stand-in offers them: there is no card, and nothing is computed on one."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.kube.taints import GPU_TAINT
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.node.device_plugin import RESOURCE, VISIBLE
from tests.node.harbour import POOL, Harbour, config, is_ready, parsed, pool
from tests.paths import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

GPUS = 2
NODE = "n4"
TRAIN = "train"
SETS = {name: {"set": name} for name in ("fixed", "flexible", "gpu")}


@pytest.fixture
def with_gpus(harbour: Harbour) -> Iterator[Harbour]:
    """A node with two GPUs, and a pool whose workers want one each."""
    cluster = harbour.cluster
    cluster.boot(NODE, labels={"set": "gpu"}, taints=[str(GPU_TAINT)])
    sockets = cluster.folder_of(NODE) / "lib" / "kubelet" / "device-plugins"
    program = [sys.executable, "-m", "tests.node.device_plugin", str(sockets), str(GPUS)]
    cluster.wait_until_ready(NODE)
    cluster.processes.start("device-plugin", ["env", f"--chdir={ROOT}", *program])
    changes: dict[str, Any] = {
        "ebbtide:cluster": {"kind": "existing", "context": "real-nodes", "nodeSelectors": SETS},
        "ebbtide:workers": {POOL: pool(POOL), TRAIN: pool(TRAIN, gpu=1)},
    }
    try:
        with harbour.grown(parsed({**config(), **changes})):
            yield harbour
    finally:
        cluster.processes.stop("device-plugin")
        cluster.cut_power(NODE)
        harbour.api.delete(f"/api/v1/nodes/{NODE}")


def test_each_worker_gets_a_gpu_of_its_own_and_one_too_many_waits(with_gpus: Harbour) -> None:
    harbour = with_gpus
    harbour.wait(lambda: offered(harbour) == str(GPUS), "the kubelet to offer the GPUs")
    jobs = [harbour.enqueue_call("time.sleep", 20, queue=TRAIN) for _ in range(GPUS + 1)]

    def two_run_and_one_waits() -> list[Json] | None:
        pods = harbour.pods(TRAIN, WORKER_NAMESPACE)
        running, waiting = [pod for pod in pods if is_ready(pod)], [pod for pod in pods if not is_ready(pod)]
        refused = [told for pod in waiting for told in reasons(pod) if f"Insufficient {RESOURCE}" in told]
        return running if (len(running), len(refused)) == (GPUS, 1) else None

    running = harbour.wait(two_run_and_one_waits, "a worker for each GPU, and one that waits")
    assert {pod["spec"]["nodeName"] for pod in running} == {NODE}
    assert {harbour.run_in(pod, "printenv", VISIBLE).strip() for pod in running} == {"GPU-0", "GPU-1"}

    harbour.wait(lambda: harbour.done(*jobs), "the jobs to be done")
    harbour.wait(lambda: not harbour.pods(TRAIN, WORKER_NAMESPACE), "no worker to be left")


def offered(harbour: Harbour) -> str:
    return harbour.api.get(f"/api/v1/nodes/{NODE}")["status"].get("allocatable", {}).get(RESOURCE, "")


def reasons(pod: Json) -> list[str]:
    return [each.get("message", "") for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
