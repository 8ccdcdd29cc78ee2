"""A pool on spot nodes with a fallback on demand: a stack as rendered and applied, with the modelled autoscaler.

AWS' answer to a launch without capacity is played (`RealFleet.without_capacity`). The GPUs are numbers in the status of
KWOK's nodes. The order of the groups, the pods' affinity and their budget are the product's.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from control_plane.night.autoscaler import RealAutoscaler
from control_plane.night.scaled import ScaledClock
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import install

from controllers.adapters.kube_api import Json
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.strategies.plans import FLAGS, group_model
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.fallbacks import first_backoff
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.vocabulary.labels import NODE_GROUP, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.control_plane

PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
SPEED, PATIENCE = 60.0, 120.0
SAVES = "checkpoints: { store: s3://acme-checkpoints, required: true }"
POOL = f'image: "a:1", max: 4, cpu: 2, memory: 4Gi, longestJob: 12h, {SAVES}'
STACK = shortest(
    more="""
        ebbtide:nodeGroups:
          gpu: { instanceTypes: [g6e.2xlarge], max: 8 }
          gpu-spot: { kind: spot, instanceTypes: [g6e.2xlarge, g5.2xlarge, g5.4xlarge, g6.4xlarge], max: 30 }
          spot: { max: 8 }
          flexible: { max: 8 }
    """
).replace(
    "  ebbtide:nodeGroups:",
    f"    tune: {{ source: {{ queues: [tune] }}, {POOL}, gpu: 1, nodeGroup: gpu-spot, fallback: gpu }}\n"
    f"    prep: {{ source: {{ queues: [prep] }}, {POOL}, nodeGroup: spot, fallback: flexible }}\n"
    f"    cheap: {{ source: {{ queues: [cheap] }}, {POOL}, nodeGroup: spot }}\n"
    "  ebbtide:nodeGroups:",
)


class Site:
    def __init__(self, plane: ControlPlane, settings: StackSettings) -> None:
        self.plane, self.settings = plane, settings

    def groups(self) -> Iterator[GroupModel]:
        """The managed groups, each as if it had one zone."""
        for name, group in self.settings.node_groups.items():
            for part, of_shape in parts_of(name, group).items():
                model = group_model(part, of_shape, ())
                yield replace(model, labels={**model.labels, NODE_GROUP: name}, initial=0, min=0, boot_s=30.0)

    @contextmanager
    def autoscaler(self) -> Generator[RealAutoscaler]:
        flags = replace(FLAGS, first_backoff_s=first_backoff(self.settings).total_seconds())
        clock = ScaledClock(datetime(2026, 6, 2, 12, 0, tzinfo=UTC), SPEED)
        self.clock = clock
        with RealAutoscaler(self.plane.api, [*self.groups()], flags, clock) as running:
            yield running

    def scale(self, pool: str, workers: int) -> None:
        self.plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", pool, f"--replicas={workers}")

    def workers(self, pool: str) -> list[Json]:
        return self.plane.api.get(PODS, labelSelector=f"{WORKLOAD}={pool}")["items"]

    def groups_of(self, pool: str) -> list[str]:
        """The groups of the nodes of its workers, once all run."""
        workers = self.workers(pool)
        if not workers or any(worker["status"]["phase"] != "Running" for worker in workers):
            return []
        nodes = {it["metadata"]["name"]: it for it in self.plane.api.get("/api/v1/nodes")["items"]}
        return sorted(nodes[worker["spec"]["nodeName"]]["metadata"]["labels"][NODE_GROUP] for worker in workers)

    def nodes(self, group: str) -> list[Json]:
        return self.plane.api.get("/api/v1/nodes", labelSelector=f"{NODE_GROUP}={group}")["items"]

    def wait(self, look: Callable[[], object], what: str) -> None:
        eventually(look, what=what, patience=PATIENCE)

    def pass_time(self, lasting: timedelta) -> None:
        until = self.clock.seconds() + lasting.total_seconds()
        self.wait(lambda: self.clock.seconds() > until, f"{lasting} of virtual time to pass")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("fallback")
    settings = loaded(STACK, folder)
    with ControlPlane() as plane:
        install(plane, settings, folder / "rendered")
        yield Site(plane, settings)


def launched(running: RealAutoscaler) -> list[str]:
    """The groups with GPUs in the order of their first requests."""
    requested = (name for _, counts in running.history for name, count in counts.items() if count)
    return [*dict.fromkeys(name for name in requested if name.startswith("gpu"))]


def test_a_worker_falls_back_once_each_shape_has_failed_and_the_next_one_runs_on_spot_again(site: Site) -> None:
    shapes = [*parts_of("gpu-spot", site.settings.node_groups["gpu-spot"])]
    with site.autoscaler() as running:
        running.without_capacity.update(shapes)
        site.scale("tune", 1)
        site.wait(lambda: site.groups_of("tune"), "the worker to run")

        assert site.groups_of("tune") == ["gpu"]
        assert (set(launched(running)[:-1]), launched(running)[-1]) == (set(shapes), "gpu")
        assert len(shapes) == 3
        assert [running.node_hours()[shape] for shape in shapes] == [0.0, 0.0, 0.0]

        running.without_capacity.clear()
        site.scale("tune", 0)
        site.wait(lambda: not site.workers("tune") and not site.nodes("gpu"), "the node on demand to go")
        site.pass_time(first_backoff(site.settings))
        site.scale("tune", 1)
        site.wait(lambda: site.groups_of("tune"), "the next worker to run")

        assert site.groups_of("tune") == ["gpu-spot"]
        site.scale("tune", 0)
        site.wait(lambda: not site.nodes("gpu-spot"), "the spot nodes to go")
        assert running.evictions == ()


def test_a_worker_on_demand_stays_there_while_a_spot_node_has_room(site: Site) -> None:
    """Its budget is open and its node is nearly empty: only the annotation keeps the autoscaler off."""
    with site.autoscaler() as running:
        running.without_capacity.add("spot")
        site.scale("prep", 1)
        site.wait(lambda: site.groups_of("prep") == ["flexible"], "the worker to fall back")
        (worker,) = site.workers("prep")
        running.without_capacity.clear()
        site.scale("cheap", 1)
        site.wait(lambda: site.groups_of("cheap"), "a spot node with room")
        site.pass_time(timedelta(minutes=15))

        assert running.evictions == ()
        assert [it["metadata"]["uid"] for it in site.workers("prep")] == [worker["metadata"]["uid"]]
        site.scale("prep", 0)
        site.scale("cheap", 0)
        site.wait(lambda: not site.nodes("spot") and not site.nodes("flexible"), "the nodes to go")
