"""kube-scheduler's scores, calculated for kinds of nodes instead of every node.

Nodes of one shape with equal free resources and equal numbers of the workload's pods have the same score. So the nodes
that take a pod of a workload are indexed by kind, and only nodes that changed since the last pod are read again: the
cost of a pod depends on changes and kinds, not on the number of nodes. A draw decides between equal nodes.

Source: kubernetes 1.35, pkg/scheduler/framework/plugins: podtopologyspread (scoring.go; common.go leaves out pods that
stop), interpodaffinity (scoring.go: all pods of a node count, and a preference that both sides have counts twice on
every node), nodeaffinity (of one preference), noderesources (least_allocated.go, balanced_allocation.go),
tainttoleration.
"""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Node
from ebbtide.vocabulary.labels import NODE_GROUP

# The real scheduler's weights.
SPREAD, GATHER, PREFERRED, SOFT_TAINT = 2, 2, 2, 3

Takes = Callable[[GroupModel, WorkloadModel], bool]


class NodeKindScore(NamedTuple):
    """The common properties of nodes with equal scores; free sizes before the pod."""

    shape: str
    cpu_m: int
    memory_mib: int
    together: int  # pods of the workload that are not stopping; 0 if they are not spread
    company: int  # pods of the category; 0 if they do not gather
    unwanted: bool


class OpenNodes:
    """The nodes that take a pod of one workload; `zone`: of its disk, empty for any."""

    def __init__(self, workload: WorkloadModel, state: ClusterState, takes: Takes, zone: str = "") -> None:
        self._workload = workload
        self._state = state
        self._takes = takes
        self._zone = zone
        self._changed = dict(state.nodes)
        state.watchers.append(self._changed)
        self._kind_of: dict[str, NodeKindScore] = {}
        self._alike: dict[NodeKindScore, dict[str, Node]] = {}
        self.looked_at = 0  # nodes

    def best(self, rng: random.Random) -> Node | None:
        """The node with the highest score; None if none takes the pod."""
        if self._changed:
            self._catch_up()
        if not self._alike:
            return None
        kinds = list(self._alike)
        if len(kinds) > 1:
            scores = _scores(kinds, len(self._kind_of), self._workload, self._state)
            most = max(scores)
            kinds = [kind for kind, score in zip(kinds, scores, strict=True) if score == most]
        tied = [node for kind in kinds for node in self._alike[kind].values()]
        return tied[0] if len(tied) == 1 else rng.choice(tied)

    def _catch_up(self) -> None:
        self.looked_at += len(self._changed)
        for name, node in self._changed.items():
            before, now = self._kind_of.pop(name, None), self._kind(node)
            if before is not None:
                del self._alike[before][name]
                if not self._alike[before]:
                    del self._alike[before]
            if now is not None:
                self._kind_of[name] = now
                self._alike.setdefault(now, {})[name] = node
        self._changed.clear()

    def _kind(self, node: Node) -> NodeKindScore | None:
        workload, room = self._workload, node.room
        open_ = node.ready and not node.leaving and node.name in self._state.nodes
        if self._zone and node.zone != self._zone:
            return None
        if not open_ or not room.fits(workload) or not self._takes(node.shape, workload):
            return None
        together = company = 0
        if workload.spreads:
            together = room.by_workload.get(workload.name, 0) - node.stopping.get(workload.name, 0)
        if workload.gathers:
            company = room.by_category.get(workload.category, 0)
        return NodeKindScore(node.shape.name, room.cpu_m, room.memory_mib, together, company, node.unwanted)


def _scores(kinds: list[NodeKindScore], nodes: int, workload: WorkloadModel, state: ClusterState) -> list[int]:
    """The sum of those default plugins' scores that differ within a cluster, in integers as in the real scheduler."""
    weight = math.log(nodes + 2)
    raw = [round(kind.together * weight) + 2 for kind in kinds]
    most, least = max(raw), min(raw)
    lone, company = min(kind.company for kind in kinds), max(kind.company for kind in kinds)
    any_soft = any(kind.unwanted for kind in kinds)
    return [
        SPREAD * (100 * (most + least - spread) // most)
        + (GATHER * (100 * (kind.company - lone) // (company - lone)) if company > lone else 0)
        + (PREFERRED * 100 if _preferred(state.groups[kind.shape], workload) else 0)
        + (SOFT_TAINT * 100 if any_soft and not kind.unwanted else 0)
        + _resource_score(kind, workload, state.groups[kind.shape])
        for kind, spread in zip(kinds, raw, strict=True)
    ]


def _preferred(shape: GroupModel, workload: WorkloadModel) -> bool:
    return bool(workload.prefers) and shape.labels.get(NODE_GROUP) == workload.prefers


def _resource_score(kind: NodeKindScore, workload: WorkloadModel, shape: GroupModel) -> int:
    """Least allocated (mean of the free shares after placement) plus balance of the two."""
    free_cpu, free_memory = kind.cpu_m - workload.cpu_m, kind.memory_mib - workload.memory_mib
    cpu, memory = free_cpu * 100 // shape.cpu_m, free_memory * 100 // shape.memory_mib
    used_cpu, used_memory = 1 - free_cpu / shape.cpu_m, 1 - free_memory / shape.memory_mib
    return (cpu + memory) // 2 + int((1 - abs(used_cpu - used_memory) / 2) * 100)
