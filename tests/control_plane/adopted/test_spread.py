"""Where the real scheduler puts the replicas of adopted workloads, on nodes that each test has for itself."""

import secrets
from collections.abc import Sequence

import pytest

from components.pods.rules import ZONE
from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import ADOPT, NODE_KIND
from tests.builders.control_plane import eventually
from tests.control_plane.support import owners
from tests.control_plane.support.adopted import CONTAINER, Adopted

pytestmark = pytest.mark.control_plane

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WORLD = "example.com/world"
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "hub"}}}
WISHES: dict[str, Json] = {
    "none": {},
    "of CloudNativePG": {PREFERRED: [{"weight": 100, "podAffinityTerm": APART}]},
    "of Bitnami": {PREFERRED: [{"weight": 1, "podAffinityTerm": APART}]},
    "required": {REQUIRED: [APART]},
}


class Nodes:
    """Six nodes of a kind, in three zones in turn; `used`: pods of another workload on each."""

    def __init__(self, team: Adopted, kind: str, *, used: Sequence[int] = (), zones: Sequence[str] = "abc") -> None:
        self.team, self.world = team, f"world-{secrets.token_hex(4)}"
        self.names = [
            team.fresh.node(kind, labels={NODE_KIND: kind, WORLD: self.world, **({ZONE: zone} if zone else {})})
            for zone in [*zones, *zones]
        ]
        eventually(lambda: all(map(self._is_ready, self.names)), what="the nodes to take pods")
        for node, pods in zip(self.names, used, strict=False):
            for _ in range(pods):
                self.pin(node, "front" if kind == "flexible" else "other-hub")
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in team.pods()), what="the others to be bound")

    def pin(self, node: str, app: str, **labels: str) -> None:
        pod = {"metadata": {"generateName": f"{app}-", "labels": {"app": app, **labels}}}
        spec = {"containers": [CONTAINER], "nodeSelector": {"kubernetes.io/hostname": node}}
        self.team.plane.api.create(self.team.pods_path, {**pod, "spec": spec})

    def placed(
        self, kind: str, app: str, replicas: int, affinity: Json | None = None, *, rollouts: int = 0
    ) -> list[int]:
        """The number of its pods on each node, after so many rollouts."""
        make = owners.deployment if kind == "Deployment" else owners.stateful_set
        item = make(app, self.team.namespace, replicas=replicas)
        item["spec"]["template"]["spec"] |= {"nodeSelector": {WORLD: self.world}, "affinity": affinity or {}}
        path = owners.path_of(item)
        self.team.plane.api.create(path.rpartition("/")[0], item)
        try:
            for number in range(rollouts):
                annotated = {"metadata": {"annotations": {"rollout": str(number)}}}
                self.team.plane.api.patch(path, {"spec": {"template": annotated}})
                eventually(lambda: self._is_rolled_out(path, replicas), what="the rollout to end")
            return eventually(lambda: self._placed(app, replicas), what="its pods to be bound")
        finally:
            self.team.plane.api.delete(path)
            eventually(lambda: not self._owned(app), what="its pods to be gone")

    def _is_rolled_out(self, path: str, replicas: int) -> bool:
        item = self.team.plane.api.get(path)
        status = item["status"]
        counts = {status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")}
        return status.get("observedGeneration") == item["metadata"]["generation"] and counts == {replicas}

    def _placed(self, app: str, replicas: int) -> list[int] | None:
        nodes = [pod["spec"].get("nodeName", "") for pod in self._owned(app)]
        return [nodes.count(name) for name in self.names] if len(nodes) == replicas and all(nodes) else None

    def _owned(self, app: str) -> list[Json]:
        return [pod for pod in self.team.pods(app=app) if "ownerReferences" in pod["metadata"]]

    def _is_ready(self, name: str) -> bool:
        node = self.team.plane.api.get(f"/api/v1/nodes/{name}")
        return not node["spec"].get("taints") and any(
            it["type"] == "Ready" and it["status"] == "True" for it in node["status"]["conditions"]
        )


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_fixed_replicas_are_on_different_nodes_and_in_different_zones(kind: str, wish: Json, team: Adopted) -> None:
    nodes = Nodes(team, "fixed", used=(2, 1))
    affinity = {"podAntiAffinity": wish} if wish else {}

    three = nodes.placed(kind, "hub", 3, affinity)

    assert [three[zone] + three[zone + 3] for zone in range(3)] == [1, 1, 1]
    assert nodes.placed(kind, "hub", 6, affinity) == [1, 1, 1, 1, 1, 1]


def test_flexible_replicas_share_the_nodes_in_use_and_leave_the_others_empty(team: Adopted) -> None:
    nodes = Nodes(team, "flexible", used=(4, 4, 4))

    assert nodes.placed("Deployment", "web", 3) == [1, 1, 1, 0, 0, 0]
    assert nodes.placed("Deployment", "web", 6) == [2, 2, 2, 0, 0, 0]


def test_after_rollouts_replicas_are_still_apart(team: Adopted) -> None:
    """While old pods counted, two of three new ones often met on one node."""
    nodes = Nodes(team, "fixed")

    assert nodes.placed("Deployment", "hub", 6, rollouts=3) == [1, 1, 1, 1, 1, 1]


def test_pods_that_are_older_than_the_policy_count(team: Adopted) -> None:
    """They are on the emptiest nodes, which a new pod would take otherwise."""
    nodes = Nodes(team, "fixed", used=(0, 0, 5, 5, 5, 5))
    for node in nodes.names[:2]:
        nodes.pin(node, "hub", **{ADOPT: "no"})

    assert nodes.placed("StatefulSet", "hub", 4) == [0, 0, 1, 1, 1, 1]


def test_a_pod_that_requires_other_nodes_runs_there(team: Adopted) -> None:
    nodes = Nodes(team, "flexible")
    term = {"matchExpressions": [{"key": NODE_KIND, "operator": "NotIn", "values": ["fixed"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}

    assert sum(nodes.placed("StatefulSet", "hub", 2, affinity)) == 2


def test_on_an_existing_cluster_replicas_are_apart_with_zones_and_without(team: Adopted) -> None:
    """A constraint over zones would switch off that over hosts on nodes without the label."""
    team.adopt(node_selectors={kind: {NODE_KIND: kind} for kind in ("fixed", "flexible")})

    zoned = Nodes(team, "fixed", used=(0, 5, 5, 0, 5, 5)).placed("StatefulSet", "hub", 3)
    assert [zoned[zone] + zoned[zone + 3] for zone in range(3)] == [1, 1, 1]
    unzoned = Nodes(team, "fixed", used=(0, 5, 5, 5, 5, 5), zones=("", "", ""))
    assert max(unzoned.placed("StatefulSet", "hub", 3)) == 1
    flexible = Nodes(team, "flexible", used=(4, 4, 4), zones=("", "", ""))
    assert flexible.placed("Deployment", "web", 3) == [1, 1, 1, 0, 0, 0]
