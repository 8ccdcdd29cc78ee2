"""Failures of machines: boots that fail or take long, image pulls, and interrupted spot nodes.

They have a separate random generator, so a replay without accidents draws the same numbers as before.

A spot node gets notice two minutes ahead. From then on it takes no pods, and its pods are evicted as far as their
budgets allow. A refused eviction is tried again until the machine ends, which kills the remaining pods. Some notices
are missed (`missed_notices`). At its end the managed group launches a replacement; Karpenter launches one only for pods
that wait. (EKS may launch it earlier, when EC2 sees a rising risk before the notice; that is not assumed.) A node that
the autoscaler is removing is interrupted later, if it stays.

Sources: Amazon EC2 User Guide, "Spot Instance interruption notices"; awsdocs/amazon-eks-user-guide,
nodes/managed-node-groups.adoc (EKS drains a spot node at the notice, on a best-effort basis);
aws/aws-node-termination-handler, issues 433 and 448 (how often a refused eviction is tried again).
"""

import math
import random
from typing import Protocol

from ebbtide.lab.simulator.cluster.model import Accidents, GroupModel, StopReason
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline

NOTICE_S = 120.0
RETRY_S = 5.0


class Machinery(Protocol):
    """The operations of an interruption on machines."""

    def launch(self, group: GroupModel, *, zone: str = "") -> Node: ...

    def close(self, node: Node) -> None: ...

    def terminate(self, node: Node) -> None: ...


class PodStopper(Protocol):
    def evict(self, pod: Pod, grace_s: float, why: StopReason) -> bool: ...

    def cut(self, pod: Pod) -> None: ...


class Boots:
    """The duration of each launch: the group's time is the median, and a failed launch never ends."""

    def __init__(self, accidents: Accidents, rng: random.Random) -> None:
        self._accidents = accidents
        self._rng = rng

    @property
    def may_be_late(self) -> bool:
        return self._accidents.failed_boots > 0 or self._accidents.slow_boots > 0

    def boot_s(self, group: GroupModel) -> float:
        if self._rng.random() < self._accidents.failed_boots:
            return math.inf
        return group.boot_s * math.exp(self._rng.gauss(0.0, self._accidents.slow_boots))


class Interruptions:
    def __init__(self, timeline: Timeline, state: ClusterState, accidents: Accidents, rng: random.Random) -> None:
        self._timeline = timeline
        self._state = state
        self._rates = accidents.interruptions_per_hour
        self._missed = accidents.missed_notices
        self._rng = rng
        self.machines: Machinery | None = None
        self.pods: PodStopper | None = None
        self.count = 0
        if accidents.capacity is not None:
            for group, zones in accidents.capacity.interrupted.items():
                for zone, instants in zones.items():
                    for at in instants:
                        timeline.at(at, lambda group=group, zone=zone: self._notice_all(group, zone))

    def launched(self, node: Node) -> None:
        rate = self._rates.get(node.group, 0.0)
        if rate > 0:
            self._timeline.after(self._rng.expovariate(rate) * 3600, lambda: self._notice(node))

    def _notice_all(self, group: str, zone: str) -> None:
        for node in list(self._state.nodes.values()):
            if node.group == group and node.zone == zone and not node.lacking:
                self._notice(node)

    def _notice(self, node: Node) -> None:
        if node.name not in self._state.nodes or self.machines is None or self.pods is None:
            return
        if node.leaving:
            self._timeline.after(NOTICE_S, lambda: self._notice(node))
            return
        self.count += 1
        self.machines.close(node)
        if self._missed and self._rng.random() < self._missed:
            self._interrupt(node)
            return
        self._drain(node, self.pods, list(node.pods.values()), self._timeline.now + NOTICE_S)
        self._timeline.after(NOTICE_S, lambda: self._interrupt(node))

    def _drain(self, node: Node, evictor: PodStopper, pods: list[Pod], until: float) -> None:
        now = self._timeline.now
        refused = [
            pod
            for pod in pods
            if pod.name in node.pods
            and not evictor.evict(pod, min(pod.spec.grace_s, until - now), StopReason.INTERRUPTED)
        ]
        if refused and now + RETRY_S < until:
            self._timeline.after(RETRY_S, lambda: self._drain(node, evictor, refused, until))

    def _interrupt(self, node: Node) -> None:
        if self.machines is not None and self.pods is not None and node.name in self._state.nodes:
            for pod in list(node.pods.values()):
                self.pods.cut(pod)
            self.machines.terminate(node)
            if node.group in self._state.autoscaled:
                self.machines.launch(node.shape, zone=node.zone)
