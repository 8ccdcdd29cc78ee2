"""The machines of the autoscaler's model as KWOK nodes: the work of an Auto Scaling group, and the taints of a removal.

After every step the model's taints are compared with the nodes' and written where they differ, so a failed write is
tried again, and one that lost a race (409) starts from the present object.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping

from control_plane.night.paced import Paced
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.nodes import BilledSeconds
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Room
from ebbtide.operate.objects import at, words_at
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_GROUP

CONDEMNED = "ToBeDeletedByClusterAutoscaler"
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
_NODES = "/api/v1/nodes"
_OURS = (CONDEMNED, CANDIDATE)
_EFFECT = {CONDEMNED: "NoSchedule", CANDIDATE: "PreferNoSchedule"}
_RETRY_S = 10.0
_TRIES = 5  # of a write that others overtake


class RealFleet:
    """Launches are billed at once, and become nodes after their boot time. Runs in the thread of `pace`."""

    def __init__(self, api: KubeApi, state: ClusterState, pace: Paced, tell: Callable[[str], None]) -> None:
        self._api, self._state, self._pace, self._tell = api, state, pace, tell
        self._bills = {name: BilledSeconds() for name in state.groups}
        self.counts: Counter[str] = Counter(dict.fromkeys(state.groups, 0))
        self.history: list[tuple[float, Mapping[str, int]]] = []
        self.boots: list[float] = []  # seconds from each launch to a ready node
        self.without_capacity: set[str] = set()  # groups whose launches make no machine
        self._booting: dict[str, float] = {}  # own launches, and when
        self._visible: set[str] = set()  # own nodes that the API server shows
        self._ended: set[str] = set()  # terminated, and perhaps still shown
        self._foreign: set[str] = set()
        self._taints: dict[str, tuple[str, ...]] = {}  # own taints, as last written
        self._broken: set[str] = set()  # actions whose failure was reported

    # --- called by the autoscaler -----------------------------------------------------------------------------------

    def launch(self, group: GroupModel, boot_s: float | None = None, *, zone: str = "") -> Node:
        """Launch a node; `zone` is always empty, since no pod of a simulated night has a disk."""
        boot_s = group.boot_s if boot_s is None else boot_s
        if not self.has_capacity(group, zone):
            return self._request(group)
        node = self._add(self._free_name(group), group, boot_s)
        self._booting[node.name] = node.launched_at
        self._tell(f"node {node.name} launched")
        self._pace.timeline.after(boot_s, lambda: self._create(node))
        return node

    def has_capacity(self, group: GroupModel, zone: str) -> bool:  # noqa: ARG002
        return group.name not in self.without_capacity

    def close(self, node: Node) -> None:
        node.leaving, node.unwanted = True, False
        self._tell(f"node {node.name} closed, to be removed")
        self.write_taints()

    def reopen(self, node: Node) -> None:
        node.leaving = False
        self._tell(f"node {node.name} opened again: it could not be emptied")
        self.write_taints()

    def terminate(self, node: Node) -> None:
        self._tell(f"node {node.name} removed")
        self._remove(node)
        self._ended.add(node.name)
        self._delete(node.name)

    # --- observation ------------------------------------------------------------------------------------------------

    def see(self, nodes: Mapping[str, Json]) -> None:
        """Note nodes that appeared, became ready or vanished; foreign ones are adopted by their group's label."""
        for name, item in nodes.items():
            if name in self._ended or (node := self._known(name, item)) is None:
                continue
            node.ready = is_ready(item)
            self._visible.add(name)
            if node.ready and name in self._booting:
                self.boots.append(self._pace.timeline.now - self._booting.pop(name))
        for name in (self._visible | self._ended) - nodes.keys():
            self._visible.discard(name)
            self._ended.discard(name)
            if name in self._state.nodes:
                self._tell(f"node {name} has gone")
                self._remove(self._state.nodes[name])

    def begin(self) -> None:
        """Launch the nodes that groups start with and that do not exist."""
        for group in self._state.groups.values():
            for _ in range(group.initial - self.counts[group.name]):
                self.launch(group, boot_s=0.0)

    def write_taints(self) -> None:
        for node in list(self._state.nodes.values()):
            taints = (CONDEMNED,) if node.leaving else (CANDIDATE,) if node.unwanted else ()
            if node.name in self._visible and self._taints.get(node.name, ()) != taints:
                self._try(f"taints of {node.name}", lambda node=node, taints=taints: self._taint(node.name, taints))

    def billed_seconds(self, at_s: float) -> dict[str, float]:
        return {name: bill.at(at_s) for name, bill in self._bills.items()}

    # --- internal ---------------------------------------------------------------------------------------------------

    def _known(self, name: str, item: Json) -> Node | None:
        if name in self._state.nodes:
            return self._state.nodes[name]
        group = self._state.groups.get(words_at(item, "metadata", "labels").get(NODE_GROUP, ""))
        if group is not None:
            return self._add(name, group, 0.0)
        if name not in self._foreign:
            self._foreign.add(name)
            self._tell(f"node {name} is of no group here: left alone")
        return None

    def _request(self, group: GroupModel) -> Node:
        """Note a launch without capacity: nothing is billed, and the autoscaler takes it back."""
        now = self._pace.timeline.now
        node = Node(self._free_name(group), group, now, math.inf, Room(group))
        node.lacking = True
        self._state.nodes[node.name] = self._state.uncertain[node.name] = node
        self._count(group.name, 1)
        self._tell(f"node {node.name} launched without capacity")
        return node

    def _add(self, name: str, group: GroupModel, boot_s: float) -> Node:
        now = self._pace.timeline.now
        node = self._state.nodes[name] = Node(name, group, now, now + boot_s, Room(group))
        self._bills[group.name].running += 1
        self._bills[group.name].launched_at_sum += now
        self._count(group.name, 1)
        return node

    def _remove(self, node: Node) -> None:
        now, bill = self._pace.timeline.now, self._bills[node.group]
        del self._state.nodes[node.name]
        self._taints.pop(node.name, None)
        self._booting.pop(node.name, None)
        if not node.lacking:
            bill.running -= 1
            bill.launched_at_sum -= node.launched_at
            bill.ended_s += now - node.launched_at
        self._count(node.group, -1)

    def _count(self, group: str, by: int) -> None:
        self.counts[group] += by
        self.history.append((self._pace.timeline.now, dict(self.counts)))

    def _free_name(self, group: GroupModel) -> str:
        number = 1
        while (name := f"{group.name}-{number}") in self._state.nodes or name in self._ended:
            number += 1
        return name

    def _create(self, node: Node) -> None:
        if self._state.nodes.get(node.name) is not node:
            return
        created = self._try(f"creation of {node.name}", lambda: self._api.create(_NODES, node_object(node)))
        if not created:
            self._pace.timeline.after(_RETRY_S, lambda: self._create(node))

    def _delete(self, name: str) -> None:
        if not self._try(f"removal of {name}", lambda: self._api.delete(f"{_NODES}/{name}"), fine=(404,)):
            self._pace.timeline.after(_RETRY_S, lambda: self._delete(name))

    def _taint(self, name: str, keys: tuple[str, ...]) -> None:
        for remaining in reversed(range(_TRIES)):
            item = self._api.get(f"{_NODES}/{name}")
            others = [taint for taint in at(item, "spec", "taints") or () if taint["key"] not in _OURS]
            stamp = str(int(time.time()))  # real time, for people and for `ebbtide why node`
            item["spec"]["taints"] = [
                *others,
                *({"key": key, "value": stamp, "effect": _EFFECT[key]} for key in keys),
            ]
            try:
                self._api.replace(f"{_NODES}/{name}", item)
            except ApiError as error:
                if error.status != 409 or not remaining:
                    raise
            else:
                self._taints[name] = keys
                return

    def _try(self, action: str, act: Callable[[], object], fine: tuple[int, ...] = ()) -> bool:
        """Return True on success; report the first of several failures."""
        try:
            act()
        except ApiError as error:
            if error.status not in fine:
                if action not in self._broken:
                    self._broken.add(action)
                    self._tell(f"{action}: {error}")
                return False
        self._broken.discard(action)
        return True


def node_object(node: Node) -> Json:
    """Return the node as a machine of the group registers; its size excludes what DaemonSets take."""
    group = node.shape
    size = {"cpu": f"{group.cpu_m}m", "memory": f"{group.memory_mib}Mi", "pods": str(group.max_pods)}
    if group.gpu:
        size[GPU_RESOURCE] = str(group.gpu)
    standard = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": "zone-a",
    }
    labels = {NODE_GROUP: group.name, **standard, **group.labels, "eks.amazonaws.com/nodegroup": group.name}
    return {
        "metadata": {"name": node.name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [taint.document for taint in group.taints]},
        "status": {"allocatable": size, "capacity": size},
    }


def is_ready(item: Json) -> bool:
    """Return True if the node accepts pods; new nodes have a taint until the controllers have seen their condition."""
    if any(taint["key"].startswith("node.kubernetes.io/") for taint in at(item, "spec", "taints") or ()):
        return False
    conditions = at(item, "status", "conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
