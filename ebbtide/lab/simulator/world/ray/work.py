"""The tasks of a driver, and the groups of a Ray cluster. Plain values.

Units: seconds, millicores, MiB, whole GPUs.
"""

from dataclasses import dataclass, field

from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.vocabulary.workloads import Sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a task's part on one worker, or of a worker."""

    cpu_m: int
    memory_mib: int
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayWork:
    """The tasks of one driver, which requests at most `at_once` of them at a time.

    A task over several workers (a gang) has a part of this size on each of its `members`; they start together.
    """

    group: str  # from `workload_of_group`
    size: Size
    task_s: float
    tasks: int = 1
    at_once: int = 1
    members: int = 1

    @property
    def work_s(self) -> float:
        """Worker-seconds of all its tasks."""
        return self.tasks * self.members * self.task_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGroupPlan:
    """Workers of one size: their limits, and the time after which an idle one is removed."""

    worker: WorkloadModel
    size: Size  # for tasks of Ray
    min: int
    max: int
    idle_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPlan:
    """One Ray cluster: its head, groups and sleep, and the pools whose workers drive it."""

    name: str
    head: WorkloadModel
    groups: tuple[RayGroupPlan, ...]
    drivers: tuple[str, ...] = ()
    sleep: Sleep = field(default_factory=Sleep)

    @property
    def pods(self) -> tuple[WorkloadModel, ...]:
        return (self.head, *(group.worker for group in self.groups))


def workload_of_group(cluster: str, group: str) -> str:
    """The workload name of a group's workers; names of a stack file have no blank or slash."""
    return f"ray {cluster}/{group}"


def key_of_group(cluster: str, workload: str) -> str:
    """The group's key in the stack file, from its workload name."""
    return workload.removeprefix(workload_of_group(cluster, ""))


def workload_of_head(cluster: str) -> str:
    return f"ray {cluster}"
