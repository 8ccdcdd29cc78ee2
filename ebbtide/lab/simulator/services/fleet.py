"""The pods of a service: requested, starting, ready, stopping, ended; and the nodes that boot for them.

Pods fill nodes one after the other, and an unneeded node stays for the cluster autoscaler's ten minutes. A pod is
billed from its request to its end, since its node is paid for all the time.

The queue is in the pod, first come, first served, with `at_once` requests at a time. So the end of a request is known
when it arrives. `slots` are the times at which each of a pod's places is free again.
"""

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ebbtide.lab.simulator.services.served import PodModel

NODE_STAYS_S = 600.0
"""`--scale-down-unneeded-time` of the cluster autoscaler."""


@dataclass(slots=True, eq=False)
class Replica:
    requested_at: float
    ready_at: float
    slots: list[float]  # a heap of instants
    active: int = 0  # active requests, including waiting ones


@dataclass(slots=True, eq=False)
class ReplicaFleet:
    pod: PodModel
    ready: list[Replica] = field(default_factory=list[Replica])  # by age
    starting: list[Replica] = field(default_factory=list[Replica])  # by readiness
    pod_s: float = 0.0  # of ended pods
    _ending: list[float] = field(default_factory=list[float])  # a heap of the ends of stopping pods
    _nodes: list[float] = field(default_factory=list[float])  # the time from which each takes pods
    _spare_since: float | None = None

    @property
    def replicas(self) -> int:
        return len(self.ready) + len(self.starting)

    @property
    def next_ready(self) -> float:
        return self.starting[0].ready_at if self.starting else math.inf

    def begin(self, now: float, replicas: int) -> None:
        """Begin with ready pods on booted nodes."""
        self._nodes = [now] * math.ceil(replicas / self.pod.per_node)
        self.ready = [Replica(now, now, [now] * self.pod.at_once) for _ in range(replicas)]

    def become_ready(self, now: float) -> None:
        while self.starting and self.starting[0].ready_at <= now:
            self.ready.append(self.starting.pop(0))

    def scale(self, now: float, replicas: int) -> None:
        """Stop pods that are not ready first, then the youngest, as the ReplicaSet controller ranks them."""
        self._tend_nodes(now)
        while self.replicas < replicas:
            self._add(now)
        while self.replicas > replicas:
            self._end(self.starting.pop() if self.starting else self.ready.pop(), now)

    def hours(self, now: float) -> float:
        """Pod-hours until now; stopping pods count to their end."""
        active_s = sum(now - replica.requested_at for replica in (*self.ready, *self.starting))
        return (self.pod_s + active_s) / 3600

    def _add(self, now: float) -> None:
        node = (self.replicas + len(self._ending)) // self.pod.per_node
        if node >= len(self._nodes):
            self._nodes.append(now + self.pod.node_boot_s)
        ready_at = max(now, self._nodes[min(node, len(self._nodes) - 1)]) + self.pod.starts_s
        self.starting.append(Replica(now, ready_at, [ready_at] * self.pod.at_once))
        self.starting.sort(key=lambda replica: replica.ready_at)

    def _end(self, replica: Replica, now: float) -> None:
        end = now if replica.ready_at > now else max(now + self.pod.stop_s, *replica.slots)
        self.pod_s += end - replica.requested_at
        heappush(self._ending, end)

    def _tend_nodes(self, now: float) -> None:
        while self._ending and self._ending[0] <= now:
            heappop(self._ending)
        needed = math.ceil((self.replicas + len(self._ending)) / self.pod.per_node)
        if needed >= len(self._nodes):
            self._spare_since = None
        elif self._spare_since is None:
            self._spare_since = now
        elif now - self._spare_since >= NODE_STAYS_S:
            del self._nodes[needed:]
            self._spare_since = None
