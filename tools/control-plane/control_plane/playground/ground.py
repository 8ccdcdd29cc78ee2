"""The cluster as an afternoon leaves it: nodes, disks, and the customer's stack spread out over them.

Ebbtide's pods fill one node before the next, so a stack that is applied at once leaves nothing to tidy up at night. By
the evening of a real day, rollouts and bursts have scattered the services. Here the flexible nodes offer only a part
of their room until the services are placed, and all of it from then on.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_plane.night.fleet import is_ready
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install
from controllers.adapters.kube_api import ApiError
from ebbtide.labels import NodeKind
from ebbtide.operate.objects import at
from ebbtide.settings import StackSettings
from ebbtide.simulator.world.world import ClusterPlan
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import Category

AFTERNOON = 2  # times the nodes that the services alone would need
_SPARE = 1.2  # what a node offers at first, over its even share
_PATIENCE = 30.0  # seconds, at most, for nodes to be ready and for pods to be placed
_CALM, _TICK = 1.0, 0.2  # seconds in which nothing more is placed, and between two looks
_EXISTS = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Nodes at first by group, and how many millicores each node of the scattered group offers until all are placed."""

    numbers: Mapping[str, int]
    scattered: str = ""  # a group; empty: none
    offered: int = 0


def ground_of(settings: StackSettings, plan: ClusterPlan) -> Ground:
    """Each group's minimum; of the first flexible group so many as an afternoon leaves. Pure."""
    numbers = {group.name: group.min for group in plan.groups}
    homes = [group for group in plan.groups if settings.node_groups[group.name].kind is NodeKind.FLEXIBLE]
    services = [(pod, count) for pod, count in plan.workloads if pod.category == Category.FLEXIBLE and not pod.gpu]
    if not homes or not services:
        return Ground(numbers=numbers)
    home = homes[0]
    cpu = sum(pod.cpu_m * count for pod, count in services)
    memory = sum(pod.memory_mib * count for pod, count in services)
    needed = math.ceil(max(cpu / home.cpu_m, memory / home.memory_mib))
    number = min(home.max, max(home.min, AFTERNOON * needed))
    offered = max(round(cpu / number * _SPARE), *(pod.cpu_m for pod, _ in services))
    return Ground(numbers={**numbers, home.name: number}, scattered=home.name, offered=min(offered, home.cpu_m))


def lay_out(plane: ControlPlane, settings: StackSettings, plan: ClusterPlan) -> ControllerConfig:
    """Gives the rendered config of the controller. Raises `subprocess.CalledProcessError` if an object is refused."""
    ground = ground_of(settings, plan)
    for group, number in ground.numbers.items():
        for index in range(1, number + 1):
            add_group_node(plane, settings, group, f"{group}-{index}")
    _until_ready(plane, sum(ground.numbers.values()))
    scattered = [f"{ground.scattered}-{index}" for index in range(1, ground.numbers.get(ground.scattered, 0) + 1)]
    whole = {name: _offer(plane, name, f"{ground.offered}m") for name in scattered}
    installed = install(plane, settings, plane.folder / "stack")
    _settle(plane)
    for name, cpu in whole.items():
        _offer(plane, name, cpu)
    return installed.config


def _offer(plane: ControlPlane, node: str, cpu: str) -> str:
    """Gives what it offered before."""
    path = f"/api/v1/nodes/{node}"
    before = str(at(plane.api.get(path), "status", "allocatable", "cpu"))
    plane.api.patch(f"{path}/status", {"status": {"allocatable": {"cpu": cpu}}})
    return before


def _until_ready(plane: ControlPlane, nodes: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if sum(is_ready(node) for node in plane.api.get("/api/v1/nodes")["items"]) >= nodes:
            return
        time.sleep(_TICK)


def _settle(plane: ControlPlane) -> None:
    """Until the scheduler has placed what it can: the autoscaler would take what is only late for what has no room."""
    deadline = time.monotonic() + _PATIENCE
    placed, since = 0, time.monotonic()
    while time.monotonic() < deadline and (not placed or time.monotonic() < since + _CALM):
        give_disks(plane)
        now = sum("nodeName" in pod["spec"] for pod in plane.api.get("/api/v1/pods")["items"])
        if now != placed:
            placed, since = now, time.monotonic()
        time.sleep(_TICK)


def give_disks(plane: ControlPlane) -> None:
    """A volume for each claim that waits, in place of the volume driver, which needs a cloud."""
    for claim in plane.api.get("/api/v1/persistentvolumeclaims")["items"]:
        if at(claim, "status", "phase") == "Pending":
            try:
                plane.api.create("/api/v1/persistentvolumes", volume_for(claim))
            except ApiError as error:
                if error.status != _EXISTS:
                    raise


def volume_for(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Bound to that claim alone. Pure."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {"name": f"disk-{metadata['uid']}"},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
            "csi": {"driver": "disks.playground", "volumeHandle": metadata["uid"]},
        },
    }
