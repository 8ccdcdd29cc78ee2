"""Karpenter's view of its nodes: their types, recent events on them, and which may take pods.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/state/cluster.go (`ConsolidationState`) and statenode.go
(`nominationWindow`), controllers/nodeclaim/podevents (`dedupeTimeout`).

A NodeClaim takes its cheapest type and a zone that have capacity. Those that turned out to have none are not offered
for 3 minutes. A NodeClaim for which none is left is deleted at once.

Source: aws/karpenter-provider-aws, pkg/cache/cache.go (`UnavailableOfferingsTTL`); kubernetes-sigs/karpenter 1.14.1,
controllers/nodeclaim/lifecycle/launch.go (`InsufficientCapacityError`).
"""

import random
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Protocol

from ebbtide.lab.simulator.cluster.autoscaler.reach import MachineControl
from ebbtide.lab.simulator.cluster.karpenter.model import DisruptionBudget, NodePoolModel, TypeModel
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline


class Launchable(Protocol):
    """A planned node: the types that fit its pods, and the zone of their disks or an empty text."""

    @property
    def types(self) -> Sequence[TypeModel]: ...

    @property
    def zone(self) -> str: ...


NOMINATED_S = 20.0  # twice the longest batch
POD_EVENTS_S = 10.0  # later events within this time are not recorded
REST_S = 300.0  # after which consolidation counts the cluster as changed
UNAVAILABLE_S = 180.0


class Fleet:
    def __init__(
        self, timeline: Timeline, state: ClusterState, pools: dict[str, NodePoolModel], rng: random.Random
    ) -> None:
        self._timeline = timeline
        self._state = state
        self._rng = rng
        self.pools = pools
        self._types = {kind.shape.name: (pool.name, kind) for pool in pools.values() for kind in pool.types}
        self.going: dict[str, Node] = {}  # chosen for removal: tainted, and deleted once a replacement is ready
        self._nominated: dict[str, float] = {}  # by node: until
        self._pod_events: dict[str, float] = {}
        self._order: dict[str, float] = {}  # names of NodeClaims are random
        self._unavailable: dict[tuple[str, str], float] = {}  # by shape and zone: until
        self._touched: dict[str, Node] = {}
        state.watchers.append(self._touched)
        self.changes = 0
        self._changed_at = 0.0

    def owns(self, node: Node) -> bool:
        return node.group in self._types

    def nodes(self) -> list[Node]:
        return [node for node in self._state.nodes.values() if node.group in self._types]

    def pool_of(self, node: Node) -> NodePoolModel:
        return self.pools[self._types[node.group][0]]

    def type_of(self, node: Node) -> TypeModel:
        return self._types[node.group][1]

    def set_budgets(self, pool: str, budgets: tuple[DisruptionBudget, ...]) -> None:
        self.pools[pool] = replace(self.pools[pool], budgets=budgets)
        self.mark_changed()

    def observe(self) -> None:
        """Record pods bound, stopping or deleted, and nodes that were launched, became ready or were terminated."""
        if not self._touched:
            return
        now = self._timeline.now
        for name, node in self._touched.items():
            if name not in self._state.nodes:
                self._pod_events.pop(name, None)
            elif node.pods or name in self._pod_events:  # otherwise the node itself became ready
                before = self._pod_events.get(name, now - POD_EVENTS_S)
                self._pod_events[name] = before if now - before < POD_EVENTS_S else now
        self._touched.clear()
        self.mark_changed()

    def mark_changed(self) -> None:
        """Nodes, pods or NodePools changed."""
        self.changes += 1
        self._changed_at = self._timeline.now

    def consolidation_state(self) -> int:
        """A number that grows with every change of nodes, pods and NodePools, and after five minutes without one.

        Pods' budgets and annotations do not count: a pass that found nothing is not repeated because of them.
        """
        if self._timeline.now >= self.rests_until:
            self.mark_changed()
        return self.changes

    @property
    def rests_until(self) -> float:
        return self._changed_at + REST_S

    def consolidatable_at(self, node: Node) -> float:
        since = self._pod_events.get(node.name, node.ready_at)
        return since + self.pool_of(node).consolidate_after_s

    def takes_moved_pods(self, node: Node) -> bool:
        """False within `consolidateAfter` of the node's last pod event: consolidation then plans no pod on it."""
        return not node.ready or not self.owns(node) or self._timeline.now >= self.consolidatable_at(node)

    def nominate(self, node: Node) -> None:
        self._nominated[node.name] = self._timeline.now + NOMINATED_S

    def nominated_until(self, node: Node) -> float:
        return self._nominated.get(node.name, 0.0)

    def is_offered(self, shape: GroupModel) -> bool:
        return not self._unavailable or bool(self._zones_offered(shape, shape.zones or ("",)))

    def _zones_offered(self, shape: GroupModel, zones: Sequence[str]) -> list[str]:
        now = self._timeline.now
        return [zone for zone in zones if self._unavailable.get((shape.name, zone), now) <= now]

    @property
    def offers_change_at(self) -> float | None:
        """The time at which a type without capacity is offered again; None if all are offered."""
        now = self._timeline.now
        return min((until for until in self._unavailable.values() if until > now), default=None)

    def launch(self, claim: "Launchable", machines: MachineControl) -> Node | None:
        """Launch the cheapest offered type that has capacity; None if no offered type has any."""
        for kind in sorted(claim.types, key=lambda kind: (kind.usd, kind.shape.name)):
            nodes = Counter(node.zone for node in self._state.nodes.values() if node.shape is kind.shape)
            zones = (claim.zone,) if claim.zone else sorted(kind.shape.zones, key=lambda zone: nodes[zone]) or ("",)
            for zone in self._zones_offered(kind.shape, zones):
                if machines.has_capacity(kind.shape, zone):
                    return machines.launch(kind.shape, zone=zone)
                self._unavailable[kind.shape.name, zone] = self._timeline.now + UNAVAILABLE_S
        return None

    def places(self) -> list[Node]:
        """Nodes on which pods can be planned: Karpenter's, including booting ones, and other nodes that are ready."""
        nodes = [
            node
            for node in self._state.nodes.values()
            if not node.leaving and (node.ready or node.group in self._types)
        ]
        return sorted(nodes, key=lambda node: (not node.ready, self._rank(node.name)))

    def _rank(self, name: str) -> float:
        if name not in self._order:
            self._order[name] = self._rng.random()
        return self._order[name]

    def left_of_limits(self, without: Container[str]) -> dict[str, dict[str, int]]:
        """Return the capacity that may still be launched, by NodePool and resource.

        Nodes that are being removed do not count, nor do those in `without`, which consolidation would remove. So a
        NodePool at its limit may replace a node, and exceeds the limit until the old node has ended.
        """
        nodes = self._state.nodes.values()
        staying = Counter(node.group for node in nodes if not node.leaving and node.name not in without)
        return {
            pool.name: {
                resource: limit - sum(kind.counts(resource) * staying[kind.shape.name] for kind in pool.types)
                for resource, limit in pool.limits.items()
            }
            for pool in self.pools.values()
            if pool.limits
        }

    def pods_to_move(self) -> list[Pod]:
        """Pods of nodes being removed that are not evicted yet, except pods with a budget of 0."""
        return [pod for node in self.going.values() for pod in node.pods.values() if self.movable(pod)]

    def movable(self, pod: Pod) -> bool:
        return (
            not pod.stopping and not pod.do_not_disrupt and self._state.deployments[pod.workload].max_unavailable != 0
        )
