"""What a driver asks of its Ray cluster, and what the workers of a group have. Plain values.

Units: seconds, millicores, MiB, whole GPUs.
"""

from dataclasses import dataclass, field

from ebbtide.simulator.cluster.model import WorkloadModel
from ebbtide.vocabulary.workloads import Sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of a task's part on one worker, or of a whole worker."""

    cpu_m: int
    memory_mib: int
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayWork:
    """What one driver asks for: so many tasks, of which at most `at_once` are asked for at a time.

    A task over several workers (a gang) has a part of this size on each of its `members`; they start together.
    """

    group: str  # as `workload_of_group` names it
    size: Size
    task_s: float
    tasks: int = 1
    at_once: int = 1
    members: int = 1

    @property
    def asked_s(self) -> float:
        """Worker-seconds of all its tasks."""
        return self.tasks * self.members * self.task_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGroupPlan:
    """Workers of one size: how many there may be, and when an idle one goes."""

    worker: WorkloadModel
    size: Size  # what Ray hands out of each
    min: int
    max: int
    idle_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPlan:
    """One Ray cluster: its head, its groups, when it sleeps, and the pools whose workers drive it."""

    name: str
    head: WorkloadModel
    groups: tuple[RayGroupPlan, ...]
    drivers: tuple[str, ...] = ()
    sleep: Sleep = field(default_factory=Sleep)

    @property
    def pods(self) -> tuple[WorkloadModel, ...]:
        return (self.head, *(group.worker for group in self.groups))


def workload_of_group(cluster: str, group: str) -> str:
    """What the modelled cluster calls the workers of a group; no name of a stack file has a blank or a slash."""
    return f"ray {cluster}/{group}"


def key_of_group(cluster: str, workload: str) -> str:
    """The other way round."""
    return workload.removeprefix(workload_of_group(cluster, ""))


def workload_of_head(cluster: str) -> str:
    return f"ray {cluster}"
