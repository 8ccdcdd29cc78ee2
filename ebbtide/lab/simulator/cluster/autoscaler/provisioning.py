"""Launches that do not become nodes in time, and the back-off of their group.

A machine that is still no node `max_node_provision_s` after its launch is removed, unless its group would fall below
its minimum. Until then it counts as booting, so nothing else is launched for its pods. If it belonged to the group's
latest scale-up, the group backs off: it does not grow for 5 minutes. The pause doubles, up to 30 minutes, with each
failure after a pause. It is reset by 3 hours without a failure, and by a scale-up whose nodes all become ready.

Source: kubernetes/autoscaler 1.35.2, clusterstate/clusterstate.go (updateScaleRequests), core/static_autoscaler.go
(removeOldUnregisteredNodes), utils/backoff/exponential_backoff.go, defaults in config/flags/flags.go.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ebbtide.lab.simulator.cluster.model import AutoscalerFlags
from ebbtide.lab.simulator.cluster.state import ClusterState, Node

FIRST_PAUSE_S = 300.0
LONGEST_PAUSE_S = 1800.0
FORGOTTEN_AFTER_S = 3 * 3600.0


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
        self._pauses: dict[str, _Pause] = {}
        self._latest: dict[str, float] = {}  # the latest launch, by group

    def update(self, now: float) -> None:
        """Remove launches that are too late. Costs nothing while no launch can fail."""
        if not self._state.uncertain:
            return
        for node in self._state.uncertain.values():
            self._latest[node.group] = max(self._latest.get(node.group, -math.inf), node.launched_at)
        for group in [name for name, pause in self._pauses.items() if pause.failed_at + FORGOTTEN_AFTER_S < now]:
            del self._pauses[group]
        arrived = [node for node in self._state.uncertain.values() if node.ready or node.name not in self._state.nodes]
        for node in arrived:
            del self._state.uncertain[node.name]
            if node.ready and all(other.group != node.group for other in self._state.uncertain.values()):
                self._pauses.pop(node.group, None)
        for node in [node for node in self._state.uncertain.values() if self._too_late(node, now)]:
            if self._latest.get(node.group, -math.inf) <= node.launched_at:
                self._pause(node.group, now)
            del self._state.uncertain[node.name]
            self._machines.terminate(node)

    def paused(self, group: str, now: float) -> bool:
        pause = self._pauses.get(group)
        return pause is not None and now <= pause.until

    def next_timer(self, now: float) -> float | None:
        """The time at which the next launch is too late or the next pause ends."""
        times = [
            node.launched_at + self._patience
            for node in self._state.uncertain.values()
            if self._machines.counts[node.group] > node.shape.min
        ]
        times += [pause.until + 1e-6 for pause in self._pauses.values()]
        return min((t for t in times if t > now), default=None)

    def _too_late(self, node: Node, now: float) -> bool:
        return (
            not node.ready
            and not node.leaving
            and now >= node.launched_at + self._patience
            and self._machines.counts[node.group] > node.shape.min
        )

    def _pause(self, group: str, now: float) -> None:
        before = self._pauses.get(group)
        lasts = FIRST_PAUSE_S if before is None else before.lasts
        if before is not None and before.until < now:
            lasts = min(2 * lasts, LONGEST_PAUSE_S)
        self._pauses[group] = _Pause(lasts, now + lasts, now)
