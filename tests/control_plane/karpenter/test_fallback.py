"""A pool with a fallback on the real Karpenter: the rendered worker, and NodePools with the stack's order and budgets.

Karpenter's KWOK provider never lacks capacity (docs/evidence/karpenter.md), so here the spot NodePool reaches its
limit. Both make Karpenter look at the NodePool with the next weight. The nodes are KWOK's, and so are the GPUs.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from control_plane.plane.binaries import OF_KARPENTER, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.karpenter import NODE_CLAIMS, NODE_POOLS, Karpenter, of_kwok, slow_ends

from components.cluster.karpenter.pools import node_pool, weights
from controllers.adapters.kube_api import Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import NODE_GROUP, WORKLOAD
from ebbtide.vocabulary.node_pools import budgets_for
from tests.builders.control_plane import eventually
from tests.builders.settings import loaded
from tests.control_plane.support.accepted import rendered_text
from tests.control_plane.support.karpenter import SLOW, looked_again

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(900)]

POOL, SPOT, ON_DEMAND = "tune", "gpu-spot", "gpu"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
TYPES = ("g6e.2xlarge", "g5.2xlarge")
STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: America/New_York, week: { mon-fri: "08:00-18:00" } }
  ebbtide:cluster: { provisioner: karpenter, zones: [a, b] }
  ebbtide:nodeGroups:
    gpu: { instanceTypes: [g6e.2xlarge], max: 4 }
    gpu-spot: { kind: spot, instanceTypes: [g6e.2xlarge, g5.2xlarge], max: 4 }
  ebbtide:workers:
    tune:
      { source: { queues: [tune] }, image: "example.com/tune:1", max: 4, cpu: 2, memory: 8Gi, gpu: 1, longestJob: 12h,
        nodeGroup: gpu-spot, fallback: gpu, checkpoints: { store: s3://acme-checkpoints, required: true } }
"""


class Site:
    def __init__(self, karpenter: Karpenter, settings: StackSettings) -> None:
        self.karpenter, self.plane = karpenter, karpenter.plane
        self.limits: Json = {}
        groups = settings.karpenter_groups
        for name in (SPOT, ON_DEMAND):
            spec = node_pool(name, groups[name], weight=weights(groups)[name], zones=("a",), region="us-east-1")
            body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}
            self.plane.api.create(NODE_POOLS, of_kwok(body))
            self.limits[name] = spec["limits"]

    def limit_spot(self, limits: Json) -> None:
        self.plane.api.patch(f"{NODE_POOLS}/{SPOT}", {"spec": {"limits": limits}})

    def scale(self, workers: int) -> None:
        self.plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", POOL, f"--replicas={workers}")

    def workers(self) -> dict[str, str]:
        """Uid and node group of each worker, once all run."""
        nodes = {it["metadata"]["name"]: it for it in self.plane.api.get("/api/v1/nodes")["items"]}
        pods = self.plane.api.get(PODS, labelSelector=f"{WORKLOAD}={POOL}")["items"]
        if any("deletionTimestamp" in pod["metadata"] or pod["status"]["phase"] != "Running" for pod in pods):
            return {}
        return {
            pod["metadata"]["uid"]: nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][NODE_GROUP] for pod in pods
        }

    def wait_for_workers_on(self, *groups: str) -> dict[str, str]:
        eventually(
            lambda: sorted(self.workers().values()) == sorted(groups), what=f"workers on {groups}", patience=SLOW
        )
        return self.workers()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if lacking := [*missing(), *missing(OF_KARPENTER)]:
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("fallback")
    objects = [it for it in rendered_text(STACK).objects if it["metadata"].get("namespace") == WORKER_NAMESPACE]
    with ControlPlane(mode=slow_ends(folder)) as plane, Karpenter(plane, TYPES) as karpenter:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": WORKER_NAMESPACE}})
        for each in objects:
            if each["kind"] in ("Deployment", "PodDisruptionBudget"):
                kind = {"Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}[each["kind"]]
                path = f"/apis/{kind}/namespaces/{WORKER_NAMESPACE}/{each['kind'].lower()}s"
                plane.api.create(path, each)
        site = Site(karpenter, loaded(STACK, folder))
        site.scale(0)
        yield site


def test_workers_fall_back_at_once_and_the_next_ones_run_on_spot_again(site: Site) -> None:
    site.limit_spot({"cpu": "0"})
    site.scale(1)
    site.wait_for_workers_on(ON_DEMAND)

    site.limit_spot(site.limits[SPOT])
    site.scale(2)
    site.wait_for_workers_on(ON_DEMAND, SPOT)
    site.scale(0)
    eventually(lambda: not site.plane.api.get(NODE_CLAIMS)["items"], what="the nodes to go", patience=SLOW)
    site.scale(1)
    site.wait_for_workers_on(SPOT)
    site.scale(0)
    eventually(lambda: not site.plane.api.get(NODE_CLAIMS)["items"], what="the node to go", patience=SLOW)


def test_by_day_a_worker_on_demand_stays_and_outside_business_hours_karpenter_may_move_it(site: Site) -> None:
    """Spot nodes are cheaper and its budget is open, so only the NodePool's budgets keep Karpenter off."""
    begun = datetime.now(UTC)
    site.limit_spot({"cpu": "0"})
    site.scale(1)
    by_day = site.wait_for_workers_on(ON_DEMAND)
    site.limit_spot(site.limits[SPOT])
    looked_again(site.karpenter)
    looked_again(site.karpenter)

    assert ([command for at, command in site.karpenter.commands() if at >= begun], site.workers()) == ([], by_day)
    site.karpenter.write_budgets(ON_DEMAND, budgets_for(1))
    at_night = site.wait_for_workers_on(SPOT)

    assert not set(at_night) & set(by_day)
    site.scale(0)
