"""Launches for waiting pods.

Pods are batched: a pass begins 1 s after the last new pod, no later than 10 s after the first one. Pods that still
wait are planned again when their node registers, since the scheduler then updates them, and every 10 s. Pods of a node
that is being removed are planned in the same way from its taint on. Each plan *nominates* the nodes in it for 20 s,
booting ones included, so that consolidation leaves them alone.

Source: kubernetes-sigs/karpenter 1.14.1, controllers/provisioning/batcher.go, controller.go and provisioner.go.
"""

import random

from ebbtide.lab.simulator.cluster.autoscaler.reach import Reach
from ebbtide.lab.simulator.cluster.karpenter.fleet import Fleet
from ebbtide.lab.simulator.cluster.karpenter.packing import SchedulingSimulation
from ebbtide.lab.simulator.cluster.state import ClusterState
from ebbtide.lab.simulator.timeline import Handle, Timeline

BATCH_IDLE_S, BATCH_MAX_S = 1.0, 10.0
PASS_TAKES_S = (0.05, 0.3)
RETRY_S = 10.0
AFTER_THE_SCHEDULER = 3


class KarpenterProvisioner:
    def __init__(self, timeline: Timeline, state: ClusterState, reach: Reach, fleet: Fleet, rng: random.Random) -> None:
        self._timeline = timeline
        self._state = state
        self._reach = reach
        self._fleet = fleet
        self._rng = rng
        self._began = 0.0
        self._next: Handle | None = None
        self._retry: Handle | None = None

    def trigger(self) -> None:
        """A new pod waits: begin a batch, or extend it."""
        now = self._timeline.now
        if self._next is None:
            self._began = now
        else:
            self._timeline.cancel(self._next)
        due = min(now + BATCH_IDLE_S, self._began + BATCH_MAX_S) + self._rng.uniform(*PASS_TAKES_S)
        self._next = self._timeline.at(max(due, now), self._pass, AFTER_THE_SCHEDULER)

    def trigger_again(self) -> None:
        """A pod still waits: begin a batch. A batch that began with the pod is not extended."""
        if self._next is None:
            self.trigger()

    def _pass(self) -> None:
        self._next = None
        waiting = [pod for pod in self._state.unschedulable.values() if not pod.stopping]
        packing = SchedulingSimulation(self._fleet, self._reach.placement).put([*waiting, *self._fleet.pods_to_move()])
        for node, _ in packing.placed.values():
            if self._fleet.owns(node):
                self._fleet.nominate(node)
        machines = self._reach.machines
        launched = [node for claim in packing.claims if (node := self._fleet.launch(claim, machines)) is not None]
        if launched:
            self._fleet.mark_changed()
            registered_s = min(node.registered_at for node in launched) - self._timeline.now
            self._retry_after(min(max(0.0, registered_s), RETRY_S))
        elif packing.placed or packing.claims or self._fleet.going or self._fleet.offers_change_at is not None:
            self._retry_after(RETRY_S)

    def _retry_after(self, delay: float) -> None:
        if self._retry is not None:
            self._timeline.cancel(self._retry)
        self._retry = self._timeline.after(delay, self._again)

    def _again(self) -> None:
        self._retry = None
        if self._state.unschedulable or self._fleet.going:
            self.trigger_again()
