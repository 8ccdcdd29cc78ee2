"""A rendered stack on a control plane of its own, changed as a test wishes, and where the scheduler put its pods."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import yaml
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import APPLY, add_group_node

from components.redis.server import KEPT
from ebbtide.recording.output import manifests
from ebbtide.settings import load_stack
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, Category
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.paths import DATA

Json: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Json], object]  # of the pod spec of a workload

PATIENCE = 90.0  # seconds
SYSTEM = "none"  # the category of pods that have none
_NO_NODE = "waiting"


@cache
def rendered(name: str) -> tuple[str, StackSettings]:
    """All objects of a customer's stack as one YAML stream, in the order of application."""
    settings = load_stack(name, DATA)
    return "".join(manifests(record(settings)).values()), settings


def objects_of(name: str) -> list[Json]:
    text, _ = rendered(name)
    return [found for found in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if found]


def without_selectors(pod: Json) -> None:
    pod.pop("nodeSelector", None)


def without_anti_affinity(pod: Json) -> None:
    pod.get("affinity", {}).pop("podAntiAffinity", None)


@dataclass(frozen=True)
class Placement:
    """A stack on a plane. Pods that end, as those of a Job do, count where they were put."""

    plane: ControlPlane
    settings: StackSettings

    def pods(self) -> list[Json]:
        return [
            pod for pod in self.plane.api.get("/api/v1/pods")["items"] if "deletionTimestamp" not in pod["metadata"]
        ]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Pods by node group and category, all of which have been tried at least once."""
        return eventually(self._counts, what="the scheduler to have tried all pods", patience=PATIENCE)

    def bound(self) -> Mapping[str, Mapping[str, int]]:
        """The same, once every pod has a node."""

        def look() -> Mapping[str, Mapping[str, int]] | None:
            counts = self._counts()
            return counts if counts and _NO_NODE not in counts else None

        return eventually(look, what="all pods to have a node", patience=PATIENCE)

    def categories_by_node(self) -> Mapping[str, Collection[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for pod in self.pods():
            if node := pod["spec"].get("nodeName"):
                found[node].add(category_of(pod))
        return found

    def mixed_nodes(self) -> list[str]:
        """Those that hold a fixed pod and one that is not."""
        fixed = Category.FIXED.value
        return [
            node
            for node, categories in self.categories_by_node().items()
            if fixed in categories and {Category.FLEXIBLE.value, Category.WORKER.value} & set(categories)
        ]

    def _counts(self) -> Mapping[str, Mapping[str, int]] | None:
        nodes = self.plane.api.get("/api/v1/nodes")["items"]
        groups = {node["metadata"]["name"]: node["metadata"]["labels"].get(NODE_GROUP, "plain") for node in nodes}
        pods = self.pods()
        wanted = self.plane.api.get("/apis/apps/v1/deployments")["items"]
        wanted += self.plane.api.get("/apis/apps/v1/statefulsets")["items"]
        if len([pod for pod in pods if owned_by_number(pod)]) != sum(it["spec"].get("replicas", 0) for it in wanted):
            return None
        daemons = self.plane.api.get("/apis/apps/v1/daemonsets")["items"]
        if not all(_is_everywhere(it, pods) for it in daemons):
            return None
        if not all(tried(pod) for pod in pods):
            return None
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for pod in pods:
            counts[groups.get(pod["spec"].get("nodeName", ""), _NO_NODE)][category_of(pod)] += 1
        return {group: dict(counts[group]) for group in sorted(counts)}


def _is_everywhere(daemon: Json, pods: list[Json]) -> bool:
    """Whether a DaemonSet has been looked at, and has a pod for each of its nodes."""
    owner, status = daemon["metadata"]["uid"], daemon["status"]
    made = sum(any(it["uid"] == owner for it in pod["metadata"].get("ownerReferences", ())) for pod in pods)
    looked_at = status.get("observedGeneration") == daemon["metadata"]["generation"]
    return looked_at and made == status["desiredNumberScheduled"]


def category_of(pod: Json) -> str:
    return str(pod["metadata"].get("labels", {}).get(CATEGORY, SYSTEM))


def owned_by_number(pod: Json) -> bool:
    """Whether a Deployment or StatefulSet says how many there are of it."""
    return pod["metadata"].get("ownerReferences", [{}])[0].get("kind") in ("ReplicaSet", "StatefulSet")


def tried(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) or any(
        condition["type"] == "PodScheduled" for condition in pod.get("status", {}).get("conditions", [])
    )


def why_waiting(pod: Json) -> str:
    """What the scheduler says about a pod that it found no node for."""
    conditions = pod.get("status", {}).get("conditions", [])
    return next((it.get("message", "") for it in conditions if it["type"] == "PodScheduled"), "")


@contextmanager
def on_group_nodes(
    name: str, nodes: Mapping[str, int], replicas: Mapping[str, int], *, change: Change = lambda _: None
) -> Generator[Placement]:
    """The stack `name` on so many nodes of each group; `replicas` where another than Pulumi says how many."""
    _, settings = rendered(name)
    with ControlPlane() as plane:
        for group, number in nodes.items():
            for index in range(number):
                add_group_node(plane, settings, group, f"{group}-{index}")
        _apply(plane, name, replicas, change)
        yield Placement(plane, settings)


@contextmanager
def on_plain_nodes(name: str, replicas: Mapping[str, int], *, change: Change) -> Generator[Placement]:
    """The stack `name` on a plane without any node yet."""
    with ControlPlane() as plane:
        _apply(plane, name, replicas, change)
        yield Placement(plane, rendered(name)[1])


def add_plain_nodes(placement: Placement, *names: str, cpu: int) -> None:
    """Nodes of one group that carries no label of ours; room for the GPUs is on all of them."""
    for name in names:
        placement.plane.add_node(name, cpu=cpu, memory=f"{4 * cpu}Gi", gpu=4)


def _apply(plane: ControlPlane, name: str, replicas: Mapping[str, int], change: Change) -> None:
    found = objects_of(name)
    for each in found:
        if each["kind"] == "CronJob":
            each["spec"]["suspend"] = True  # its hour may come while the test runs
        if each["kind"] in ("Deployment", "StatefulSet"):
            change(each["spec"]["template"]["spec"])
        if each["kind"] == "Deployment":
            each["spec"].setdefault("replicas", replicas.get(each["metadata"]["name"]))
    plane.api.create("/api/v1/persistentvolumes", redis_volume())
    plane.kubectl(*APPLY, "-f", "-", stdin=yaml.safe_dump_all(found))


def redis_volume() -> Json:
    """For Redis: what the volume controller of AWS would make when the pod has been given its node."""
    spec = {
        "capacity": {"storage": "8Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": KEPT,
        "hostPath": {"path": "/data"},
    }
    return {"metadata": {"name": "for-redis"}, "spec": spec}
