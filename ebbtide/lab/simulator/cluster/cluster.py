"""The interface of the modelled cluster. It connects the parts, which do not know each other's internals."""

import random
from collections.abc import Mapping, Sequence

from ebbtide.lab.simulator.cluster.accidents import Boots, Interruptions
from ebbtide.lab.simulator.cluster.autoscaler import ModelledAutoscaler, Reach, RetainedNode
from ebbtide.lab.simulator.cluster.karpenter import DisruptionBudget, ModelledKarpenter, NodePoolModel
from ebbtide.lab.simulator.cluster.lifecycle import Lifecycle, Watchers
from ebbtide.lab.simulator.cluster.model import (
    Accidents,
    AutoscalerFlags,
    Eviction,
    GroupModel,
    StopReason,
    WorkloadModel,
)
from ebbtide.lab.simulator.cluster.nodes import Machines
from ebbtide.lab.simulator.cluster.replicasets import ReplicaSets
from ebbtide.lab.simulator.cluster.scheduler import Placement, Scheduler
from ebbtide.lab.simulator.cluster.state import ClusterState, Deployment, Listener, Node, Pod
from ebbtide.lab.simulator.timeline import Timeline


class ClusterModel:
    """Nodes and pods, with the controllers that move them. Changes take effect as events, never inside the call."""

    def __init__(
        self,
        timeline: Timeline,
        groups: Sequence[GroupModel],
        flags: AutoscalerFlags | None,
        *,
        seed: int = 0,
        listener: Listener | None = None,
        cache_lag_s: float = 0.0,
        accidents: Accidents | None = None,
        node_pools: Sequence[NodePoolModel] = (),
        first_pass_s: float | None = None,
        clock_second: float | None = None,
    ) -> None:
        """`flags` None: no cluster autoscaler, the initial nodes of `groups` stay. `cache_lag_s`: the delay until the
        ReplicaSet controller reads a deletion cost. `node_pools`: Karpenter's, none by default. `clock_second`: when a
        second of the wall clock begins, at which the scheduler retries pods; random by default.
        """
        rng = random.Random(seed)
        placement = Placement()
        shapes = {kind.shape.name: kind.shape for pool in node_pools for kind in pool.types}
        self._state = ClusterState({group.name: group for group in groups} | shapes)
        if shapes:
            self._state.autoscaled = {group.name: group for group in groups}
        self._machines = Machines(timeline, self._state, listener, rng)
        self._lifecycle = Lifecycle(timeline, self._state, listener)
        self._replicasets = ReplicaSets(timeline, self._lifecycle, rng, cache_lag_s)
        self._scheduler = Scheduler(timeline, self._state, placement, rng)
        if clock_second is not None:
            self._scheduler.tick = clock_second
        self._scheduler.bind = self._lifecycle.bind
        reach = Reach(machines=self._machines, lifecycle=self._lifecycle, placement=placement)
        self._autoscaler = None
        if flags is not None:
            self._autoscaler = ModelledAutoscaler(
                timeline, self._state, reach, flags, rng, clock_second=self._scheduler.tick
            )
        self.karpenter = None
        if node_pools:
            self.karpenter = ModelledKarpenter(timeline, self._state, reach, node_pools, rng, first_pass_s=first_pass_s)
            self._scheduler.on_refused_again = self.karpenter.pod_refused_again
        self._machines.on_open = self._scheduler.room_freed
        self._machines.on_change = self._changed
        self._scheduler.on_unschedulable = self._unschedulable
        self._lifecycle.watchers = Watchers(
            created=self._scheduler.created,
            withdrawn=self._scheduler.withdrawn,
            room_freed=self._scheduler.room_freed,
            lacking=self._replicasets.reconcile_soon,
            changed=self._changed,
        )
        if accidents is not None:
            self._add_accidents(timeline, accidents, random.Random(f"{seed} accidents"))
        for group in groups:
            for _ in range(group.initial):
                self._machines.launch(group, boot_s=0.0)

    def _add_accidents(self, timeline: Timeline, accidents: Accidents, rng: random.Random) -> None:
        self._machines.boots = Boots(accidents, rng)
        if accidents.capacity is not None:
            self._machines.capacity = accidents.capacity
            self._state.by_zone = frozenset(accidents.capacity.without)
        self._lifecycle.image_pull_s = accidents.image_pull_s
        interruptions = Interruptions(timeline, self._state, accidents, rng)
        interruptions.machines, interruptions.pods = self._machines, self._lifecycle
        self._machines.on_launch = interruptions.launched

    def deploy(self, workload: WorkloadModel, replicas: int) -> None:
        if workload.name in self._state.deployments:
            raise ValueError(f"{workload.name}: deployed already")
        deployment = Deployment(workload, max_unavailable=workload.pdb_max_unavailable)
        self._state.deployments[workload.name] = deployment
        self.scale(workload.name, replicas)

    def scale(self, workload: str, replicas: int) -> None:
        deployment = self._state.deployments[workload]
        deployment.replicas = replicas
        self._replicasets.reconcile_soon(deployment)
        self._changed()

    def complete(self, pod: Pod) -> None:
        """A pod completes, as a job's does: the replicas fall by one, so it is not replaced."""
        self._state.deployments[pod.workload].replicas -= 1
        self._lifecycle.complete(pod)

    def withdraw(self, pod: Pod) -> None:
        """Delete a pod without a replacement. A pod that is already stopping is no error."""
        if not pod.stopping:
            self._state.deployments[pod.workload].replicas -= 1
            self._lifecycle.stop(pod, StopReason.SCALED_IN, pod.spec.grace_s)

    def replicas(self, workload: str) -> int:
        """The requested replicas."""
        return self._state.deployments[workload].replicas

    def set_budget(self, workload: str, max_unavailable: int) -> None:
        self._state.deployments[workload].max_unavailable = max_unavailable
        self._changed()

    def set_node_budgets(self, pool: str, budgets: tuple[DisruptionBudget, ...]) -> None:
        if self.karpenter:
            self.karpenter.set_budgets(pool, budgets)

    def annotate(self, pod: str, deletion_cost: int) -> None:
        """Set a pod's deletion cost. A pod that no longer exists is no error, as in a real race."""
        deployment = self._state.deployments.get(pod.rpartition("-")[0])
        if deployment and (existing := deployment.pods.get(pod)):
            deployment.changed[pod] = existing
            self._replicasets.annotate(existing, deletion_cost)

    def set_do_not_disrupt(self, pod: Pod, value: bool) -> None:  # noqa: FBT001 - the annotation's value
        """Set the pod's annotation `karpenter.sh/do-not-disrupt`, or remove it."""
        pod.do_not_disrupt = value
        self._changed()

    def pods(self, workload: str) -> tuple[Pod, ...]:
        """All pods, including terminating ones, oldest first."""
        return tuple(self._state.deployments[workload].pods.values())

    def pod(self, workload: str, name: str) -> Pod | None:
        """The pod, or None if it does not exist."""
        return self._state.deployments[workload].pods.get(name)

    def changed_pods(self, workload: str) -> Mapping[str, Pod | None]:
        """The pods that changed since the last call, by name, new ones in the order of creation; None: deleted."""
        deployment = self._state.deployments[workload]
        changed, deployment.changed = deployment.changed, {}
        return changed

    def pod_exited(self, pod: Pod) -> None:
        self._lifecycle.exited(pod)

    def nodes(self) -> tuple[Node, ...]:
        """All billed nodes, including booting and leaving ones, oldest first."""
        return tuple(node for node in self._state.nodes.values() if not node.lacking)

    def node_counts(self) -> Mapping[str, int]:
        """Nodes of every group from launch to termination; those being drained count."""
        return self._machines.existing

    def billed_seconds(self) -> Mapping[str, float]:
        """Node-seconds by group up to now, from launch to termination, including boot and drain."""
        return self._machines.billed_seconds()

    @property
    def evictions(self) -> list[Eviction]:
        of_autoscaler = self._autoscaler.evictions if self._autoscaler else []
        return [*of_autoscaler, *self.karpenter.evictions] if self.karpenter else of_autoscaler

    def retained_seconds(self) -> Mapping[RetainedNode, float]:
        """Node-seconds up to now by the reason that retained the node. For a span of time, take the difference."""
        of_autoscaler = self._autoscaler.retained_seconds() if self._autoscaler else {}
        return {**of_autoscaler, **self.karpenter.retained_seconds()} if self.karpenter else of_autoscaler

    def unremovable_reasons(self) -> tuple[str, ...]:
        """Distinct reasons for which the autoscaler retained a node up to now, sorted."""
        return self._autoscaler.reasons() if self._autoscaler else ()

    def _changed(self) -> None:
        self._state.version += 1
        if self._autoscaler:
            self._autoscaler.state_changed()
        if self.karpenter:
            self.karpenter.state_changed()

    def _unschedulable(self) -> None:
        if self._autoscaler:
            self._autoscaler.pod_unschedulable()
        if self.karpenter:
            self.karpenter.pod_unschedulable()
