"""The operations of the autoscaler on a cluster, the modelled one or a real API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.cluster.scheduler import Placement
from ebbtide.lab.simulator.cluster.state import Node, Pod


class MachineControl(Protocol):
    """The machines of all groups."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Launched and not terminated machines of every group; always current."""
        ...

    def launch(self, group: GroupModel, *, zone: str = "") -> Node:
        """`zone`: one of the group's; empty for the next one."""
        ...

    def has_capacity(self, group: GroupModel, zone: str) -> bool:
        """True if a launch in this zone makes a machine now."""
        ...

    def close(self, node: Node) -> None:
        """Begin the removal: the node takes no more pods."""
        ...

    def reopen(self, node: Node) -> None:
        """Cancel the removal of the node."""
        ...

    def terminate(self, node: Node) -> None: ...


class Evictor(Protocol):
    def evict(self, pod: Pod, grace_s: float) -> bool:
        """Evict the pod; False if its budget refuses. A stopping or pending pod is never refused."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The operations, with the filters that autoscaler and scheduler share."""

    machines: MachineControl
    lifecycle: Evictor
    placement: Placement
