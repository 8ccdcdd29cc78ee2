"""kube-scheduler: the choice of a node for a pod, and retries of pods that fit nowhere.

A pod that no node takes waits for an event that could help it, and is then tried at once. Without any node the real
scheduler has no such event: it retries on a back-off that doubles from 1 to 10 s, on a one-second tick. So a cluster
that starts without nodes places its pods seconds after its nodes are ready.
"""

import math
import random
from collections import deque
from collections.abc import Callable

from ebbtide.lab.simulator.cluster.model import GroupModel, WorkloadModel
from ebbtide.lab.simulator.cluster.scoring import OpenNodes
from ebbtide.lab.simulator.cluster.state import ClusterState, Node, Pod, PodKind
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.vocabulary.labels import NODE_GROUP

AFTER_THE_CONTROLLERS = 2
BETWEEN_NEW_PODS_S = 0.03  # at most
BETWEEN_SETS_S, SETS_BEGIN_S = 0.015, 0.05
"""The time between creations in recorded runs of the real controllers."""
LONGEST_BACKOFF_S = 10.0


def group_takes(group: GroupModel, workload: WorkloadModel) -> bool:
    """Check node selector, affinity, groups and taints, which are equal on all nodes of a group."""
    if any(group.labels.get(key) != value for key, value in workload.node_selector.items()):
        return False
    if workload.groups is not None and group.name not in workload.groups:
        return False
    if workload.one_of is not None and group.labels.get(NODE_GROUP) not in workload.one_of:
        return False
    return all(taint.tolerated_by(workload.tolerations) for taint in group.taints if taint.repels)


class Placement:
    """The filters, with a cache of the results that never change."""

    def __init__(self) -> None:
        self._takes: dict[tuple[str, str], bool] = {}

    def takes(self, group: GroupModel, workload: WorkloadModel) -> bool:
        key = (group.name, workload.name)
        if (answer := self._takes.get(key)) is None:
            answer = self._takes[key] = group_takes(group, workload)
        return answer


class Scheduler:
    def __init__(self, timeline: Timeline, state: ClusterState, placement: Placement, rng: random.Random) -> None:
        self._timeline = timeline
        self._state = state
        self._placement = placement
        self._rng = rng
        self._open: dict[PodKind, OpenNodes] = {}
        self._active: deque[Pod] = deque()
        self._parked: dict[PodKind, dict[str, Pod]] = {}  # by kind and name: pods that fit nowhere, until an event
        self._attempts = 0  # that failed
        self._failures: dict[str, int] = {}  # by pod: failed attempts while the cluster has no node
        self._pass_planned = False
        self.tick = rng.random()  # when each second of the wall clock begins: pods are retried then
        self._new: dict[str, list[Pod]] = {}
        self.bind: Callable[[Pod, Node], None] | None = None
        self.on_unschedulable: Callable[[], None] | None = None
        self.on_refused_again: Callable[[], None] | None = None  # a retried pod fits nowhere again

    def created(self, pod: Pod) -> None:
        if not self._new:
            self._timeline.after(0.0, self._receive, AFTER_THE_CONTROLLERS)
        self._new.setdefault(pod.workload, []).append(pod)

    def _receive(self) -> None:
        """Pods of one instant are created one after the other; the pods of several sets are interleaved."""
        several = len(self._new) > 1
        for number, pods in enumerate(self._new.values()):
            delay = number * BETWEEN_SETS_S + self._rng.uniform(0.0, SETS_BEGIN_S) if several else 0.0
            for pod in pods:
                self._timeline.after(delay, self._retrier(pod), AFTER_THE_CONTROLLERS)
                delay += self._rng.uniform(0.0, BETWEEN_NEW_PODS_S)
        self._new = {}

    def _retrier(self, pod: Pod) -> Callable[[], None]:
        return lambda: self._retry(pod)

    def _retry(self, pod: Pod) -> None:
        self._active.append(pod)
        self._plan_pass()

    def withdrawn(self, pod: Pod) -> None:
        self._parked.get(pod.kind, {}).pop(pod.name, None)
        self._failures.pop(pod.name, None)
        self._state.unschedulable.pop(pod.name, None)

    def room_freed(self, node: Node) -> None:
        """A node became ready, or a pod left it: retry the pods that now fit."""
        if not node.ready or node.leaving:
            return
        retried: list[Pod] = []
        sets = 0
        for (name, zone), pods in self._parked.items():
            workload = self._state.deployments[name].spec
            if zone and zone != node.zone:
                continue
            if pods and self._placement.takes(node.shape, workload) and node.room.fits(workload):
                retried += pods.values()
                sets += 1
                pods.clear()
        if retried:
            # In the order in which they last failed, over all sets.
            self._active.extend(sorted(retried, key=lambda pod: pod.failed_last) if sets > 1 else retried)
            self._plan_pass()

    def _plan_pass(self) -> None:
        if not self._pass_planned:
            self._pass_planned = True
            self._timeline.after(0.0, self._pass, AFTER_THE_CONTROLLERS)

    def _pass(self) -> None:
        self._pass_planned = False
        hopeless: set[PodKind] = set()  # binding only takes resources: a kind that failed in this pass fails again
        now = self._timeline.now
        registered = any(node.ready or node.registered_at <= now for node in self._state.nodes.values())
        while self._active:
            pod = self._active.popleft()
            if pod.stopping:
                continue
            node = None if pod.kind in hopeless else self._choose(pod)
            if node is not None and self.bind is not None:
                self._failures.pop(pod.name, None)
                self._state.unschedulable.pop(pod.name, None)
                self.bind(pod, node)
                continue
            hopeless.add(pod.kind)
            self._attempts += 1
            pod.failed_last = self._attempts
            if registered:
                self._parked.setdefault(pod.kind, {})[pod.name] = pod
            else:
                self._back_off(pod)
            if pod.name not in self._state.unschedulable:
                self._state.unschedulable[pod.name] = pod
                if self.on_unschedulable:
                    self.on_unschedulable()
            elif self.on_refused_again:
                self.on_refused_again()

    def _back_off(self, pod: Pod) -> None:
        failures = self._failures.get(pod.name, 0)
        self._failures[pod.name] = failures + 1
        over = self._timeline.now + min(2.0 ** min(failures, 10), LONGEST_BACKOFF_S)
        tick = math.floor(over - self.tick + 1e-6) + 1 + self.tick  # the first tick after it is over
        self._timeline.at(tick, self._retrier(pod))

    def _choose(self, pod: Pod) -> Node | None:
        nodes = self._open.get(pod.kind)
        if nodes is None:
            nodes = self._open[pod.kind] = OpenNodes(pod.spec, self._state, self._placement.takes, pod.zone)
        return nodes.best(self._rng)
