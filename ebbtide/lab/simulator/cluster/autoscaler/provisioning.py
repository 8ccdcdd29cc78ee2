"""Launches that do not become nodes in time, and the back-off of their group.

A machine that is still no node `max_node_provision_s` after its launch is removed, unless its group would fall below
its minimum. Until then it counts as booting, so nothing else is launched for its pods. If it belonged to the group's
latest scale-up, the group backs off: it does not grow for `first_backoff_s`. The pause doubles, up to 30 minutes, with
each failure after a pause. It is reset by 3 hours without a failure, and by a scale-up whose nodes all become ready.

A launch without capacity does not wait that long. The autoscaler reads the Auto Scaling groups once a minute, and with
them the activities that failed. It then reduces the group to its existing machines, and the group backs off. A managed
group has one Auto Scaling group for each zone, so only the zone pauses.

Source: kubernetes/autoscaler 1.35.2, clusterstate/clusterstate.go (updateScaleRequests,
handleInstanceCreationErrors), core/static_autoscaler.go (removeOldUnregisteredNodes, deleteCreatedNodesWithErrors),
utils/backoff/exponential_backoff.go, defaults in config/flags/flags.go; cloudprovider/aws/auto_scaling_groups.go
(isNodeGroupAvailable) and aws_manager.go (refreshInterval).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ebbtide.kube.autoscaler import LONGEST_BACKOFF
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, GroupModel
from ebbtide.lab.simulator.cluster.state import ClusterState, Node

LONGEST_PAUSE_S = LONGEST_BACKOFF.total_seconds()
FORGOTTEN_AFTER_S = 3 * 3600.0
REFRESH_S = 60.0


class Terminator(Protocol):
    @property
    def counts(self) -> Mapping[str, int]: ...

    def terminate(self, node: Node) -> None: ...


@dataclass(slots=True)
class _Pause:
    lasts: float
    until: float
    failed_at: float


class Provisioning:
    def __init__(self, state: ClusterState, machines: Terminator, flags: AutoscalerFlags) -> None:
        self._state = state
        self._machines = machines
        self._patience = flags.max_node_provision_s
        self._first_pause = flags.first_backoff_s
        self._pauses: dict[_Growing, _Pause] = {}
        self._latest: dict[_Growing, float] = {}  # the latest launch

    def update(self, now: float) -> None:
        """Remove launches that are too late. Costs nothing while no launch can fail."""
        if not self._state.uncertain:
            return
        for node in self._state.uncertain.values():
            growing = self._growing(node)
            self._latest[growing] = max(self._latest.get(growing, -math.inf), node.launched_at)
        for growing in [key for key, pause in self._pauses.items() if pause.failed_at + FORGOTTEN_AFTER_S < now]:
            del self._pauses[growing]
        arrived = [node for node in self._state.uncertain.values() if node.ready or node.name not in self._state.nodes]
        for node in arrived:
            del self._state.uncertain[node.name]
            growing = self._growing(node)
            if node.ready and all(self._growing(other) != growing for other in self._state.uncertain.values()):
                self._pauses.pop(growing, None)
        for node in [node for node in self._state.uncertain.values() if self._too_late(node, now)]:
            growing = self._growing(node)
            if self._latest.get(growing, -math.inf) <= node.launched_at:
                self._pause(growing, now)
            del self._state.uncertain[node.name]
            self._machines.terminate(node)

    def paused(self, group: str, now: float, zone: str = "") -> bool:
        """True if the group does not grow in this zone; an empty zone is the entire group."""
        pause = self._pauses.get((group, zone))
        return pause is not None and now <= pause.until

    def paused_zones(self, group: GroupModel, now: float) -> frozenset[str]:
        """Return the zones in which the group does not grow: all if the entire group pauses."""
        if not self._pauses:
            return frozenset()
        zones = group.zones or ("",)
        return frozenset(zone for zone in zones if self.paused(group.name, now, zone) or self.paused(group.name, now))

    def next_timer(self, now: float) -> float | None:
        """The time at which the next launch is too late or the next pause ends."""
        times = [
            self._given_up_at(node)
            for node in self._state.uncertain.values()
            if self._machines.counts[node.group] > node.shape.min
        ]
        times += [pause.until + 1e-6 for pause in self._pauses.values()]
        return min((t for t in times if t > now), default=None)

    def _too_late(self, node: Node, now: float) -> bool:
        return (
            not node.ready
            and not node.leaving
            and now >= self._given_up_at(node)
            and self._machines.counts[node.group] > node.shape.min
        )

    def _given_up_at(self, node: Node) -> float:
        if node.lacking:
            return (node.launched_at // REFRESH_S + 1) * REFRESH_S
        return node.launched_at + self._patience

    def _growing(self, node: Node) -> "_Growing":
        return node.group, node.zone if node.group in self._state.by_zone else ""

    def _pause(self, growing: "_Growing", now: float) -> None:
        before = self._pauses.get(growing)
        lasts = self._first_pause if before is None else before.lasts
        if before is not None and before.until < now:
            lasts = min(2 * lasts, LONGEST_PAUSE_S)
        self._pauses[growing] = _Pause(lasts, now + lasts, now)


_Growing: TypeAlias = tuple[str, str]
"""A group and the zone that pauses; an empty zone is the entire group."""
