"""The lifecycle of a pod: created, bound, running, stopping, deleted. The kubelet's and the API server's part.

A stopping pod occupies its node until it is deleted. A pod that never ran is deleted at once, since it has no process.
A pod with a `perPod` disk gets the first one that no other pod of its set uses; the disk is created in the zone where
that pod first runs. `Watchers` are called in a fixed order.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.lab.simulator.cluster.model import StopReason
from ebbtide.lab.simulator.cluster.state import ClusterState, Deployment, Listener, Node, Pod, count
from ebbtide.lab.simulator.timeline import Handle, Timeline

PROCESS_EXIT_S = 0.5
"""The time that a pod without a listener takes to stop."""


@dataclass(slots=True, kw_only=True)
class Watchers:
    """Callbacks for changes of pods; set once all parts exist."""

    created: Callable[[Pod], None]  # the scheduler places it
    withdrawn: Callable[[Pod], None]  # deleted before it had a node
    room_freed: Callable[[Node], None]
    lacking: Callable[[Deployment], None]  # the ReplicaSet controller reconciles
    changed: Callable[[], None]  # the autoscaler's view is outdated


class Lifecycle:
    def __init__(self, timeline: Timeline, state: ClusterState, listener: Listener | None) -> None:
        self._timeline = timeline
        self._state = state
        self._listener = listener
        self._kills: dict[str, Handle] = {}
        self._exits: dict[str, Handle] = {}
        self._starts: dict[str, Handle] = {}
        self.watchers: Watchers | None = None
        self.image_pull_s = 0.0

    def create(self, deployment: Deployment) -> None:
        deployment.born += 1
        spec = deployment.spec
        pod = Pod(f"{spec.name}-{deployment.born}", spec.name, self._timeline.now, spec)
        pod.do_not_disrupt = spec.do_not_disrupt
        pod.deletion_cost = pod.cost_seen = spec.deletion_cost
        if spec.disks:
            taken = {other.slot for other in deployment.pods.values()}
            pod.slot = next(slot for slot in itertools.count() if slot not in taken)
            pod.zone = deployment.disks.get(pod.slot, "")
        deployment.pods[pod.name] = deployment.changed[pod.name] = pod
        deployment.staying += 1
        self._notify.created(pod)
        self._notify.changed()

    def bind(self, pod: Pod, node: Node) -> None:
        pod.node = node
        if pod.slot is not None:
            pod.zone = self._state.deployments[pod.workload].disks.setdefault(pod.slot, node.zone)
        node.pods[pod.name] = pod
        node.room.take(pod.spec)
        self._state.touch(node)
        self._starts[pod.name] = self._timeline.after(self._startup_s(pod, node), lambda: self._run(pod))
        self._notify.changed()

    def _startup_s(self, pod: Pod, node: Node) -> float:
        if not self.image_pull_s or pod.workload in node.images:
            return pod.spec.startup_s
        node.images.add(pod.workload)
        return pod.spec.startup_s + self.image_pull_s

    def stop(self, pod: Pod, why: StopReason, grace_s: float) -> None:
        """Delete a pod with a grace period. If it is already stopping, this can only shorten its time."""
        if pod.stopping:
            self._shorten(pod, grace_s)
            return
        deployment = self._state.deployments[pod.workload]
        ran = pod.running_since is not None
        deployment.healthy -= ran
        deployment.staying -= 1
        deployment.changed[pod.name] = pod
        pod.stopping = True
        if pod.node is not None:
            count(pod.node.stopping, pod.workload, 1)
            self._state.touch(pod.node)
        if ran:
            self._kills[pod.name] = self._timeline.after(grace_s, lambda: self._gone(pod, killed=True))
            exit_s = self._listener.pod_stopping(pod, why) if self._listener else PROCESS_EXIT_S
            if exit_s is not None and exit_s <= grace_s and pod.name in self._kills:
                self._exits[pod.name] = self._timeline.after(exit_s, lambda: self.exited(pod))
        else:
            self._gone(pod, killed=False)
        self._notify.lacking(deployment)
        self._notify.changed()

    def complete(self, pod: Pod) -> None:
        """A running pod has completed. Its resources on the node are free at once."""
        deployment = self._state.deployments[pod.workload]
        deployment.healthy -= 1
        deployment.staying -= 1
        self._gone(pod, killed=False)

    def cut(self, pod: Pod) -> None:
        """Kill a pod whose machine has failed."""
        deployment = self._state.deployments[pod.workload]
        if not pod.stopping:
            deployment.healthy -= pod.running_since is not None
            deployment.staying -= 1
        self._gone(pod, killed=True)
        self._notify.lacking(deployment)

    def evict(self, pod: Pod, grace_s: float, why: StopReason = StopReason.EVICTED) -> bool:
        """Evict as the Eviction API does: the budget counts only for a healthy pod."""
        allowed = self._state.deployments[pod.workload].disruptions_allowed
        if pod.healthy and allowed is not None and allowed < 1:
            return False
        self.stop(pod, why, grace_s)
        return True

    def _shorten(self, pod: Pod, grace_s: float) -> None:
        kill = self._kills.get(pod.name)
        if kill and kill.at > self._timeline.now + grace_s:
            self._timeline.cancel(kill)
            self._kills[pod.name] = self._timeline.after(grace_s, lambda: self._gone(pod, killed=True))

    def exited(self, pod: Pod) -> None:
        """The process of a stopping pod ended. A deleted pod is no error."""
        if pod.stopping and pod.name in self._kills:
            self._gone(pod, killed=False)

    @property
    def _notify(self) -> Watchers:
        if self.watchers is None:
            raise RuntimeError("the cluster's parts are not connected")
        return self.watchers

    def _run(self, pod: Pod) -> None:
        del self._starts[pod.name]
        pod.running_since = self._timeline.now
        deployment = self._state.deployments[pod.workload]
        deployment.healthy += 1
        deployment.changed[pod.name] = pod
        self._notify.changed()
        if self._listener:
            self._listener.pod_running(pod)

    def _gone(self, pod: Pod, *, killed: bool) -> None:
        for planned in (self._kills, self._exits, self._starts):
            if handle := planned.pop(pod.name, None):
                self._timeline.cancel(handle)
        deployment = self._state.deployments[pod.workload]
        del deployment.pods[pod.name]
        deployment.changed[pod.name] = None
        if pod.node is None:
            self._notify.withdrawn(pod)
        else:
            del pod.node.pods[pod.name]
            pod.node.room.give_back(pod.spec)
            if pod.stopping:
                count(pod.node.stopping, pod.workload, -1)
            self._state.touch(pod.node)
            self._notify.room_freed(pod.node)
        if pod.slot is not None:
            self._notify.lacking(deployment)  # a new pod waits for the disk
        self._notify.changed()
        if self._listener:
            self._listener.pod_gone(pod, killed)
