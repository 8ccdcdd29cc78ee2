"""What the autoscaler can do to a cluster, whatever cluster it is: the modelled one, or a real API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ebbtide.simulator.cluster.model import GroupModel
from ebbtide.simulator.cluster.scheduler import Placement
from ebbtide.simulator.cluster.state import Node, Pod


class MachineControl(Protocol):
    """The machines of all groups."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Launched and not gone, by group; every group has its number, and the mapping is always up to date."""
        ...

    def launch(self, group: GroupModel, *, zone: str = "") -> object:
        """`zone`: one of the group's; empty for whichever is next."""
        ...

    def close(self, node: Node) -> None:
        """It takes no more pods: it is being removed."""
        ...

    def reopen(self, node: Node) -> None:
        """Its removal was given up."""
        ...

    def terminate(self, node: Node) -> None: ...


class Evictor(Protocol):
    def evict(self, pod: Pod, grace_s: float) -> bool:
        """Ask the pod to leave; False when its budget refuses, to be asked again later.

        A pod that stops anyway, or does not run yet, is never refused.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """With the filters that the autoscaler shares with the scheduler."""

    machines: MachineControl
    lifecycle: Evictor
    placement: Placement
