"""A small stack and small traces for the simulator's tests; only what a test is about has to be given."""

from collections.abc import Sequence
from datetime import timedelta

from ebbtide.settings.business_hours import BusinessHoursSettings
from ebbtide.settings.cluster import ClusterSettings
from ebbtide.settings.controller import ControllerSettings
from ebbtide.settings.costs import CostSettings
from ebbtide.settings.model import StackSettings
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.settings.redis import RedisSettings
from ebbtide.settings.workers import Source, WorkerSettings
from ebbtide.settings.workloads import WorkloadSettings
from ebbtide.simulator.traces import Job, Trace
from ebbtide.vocabulary.labels import Category, NodeKind
from ebbtide.vocabulary.windows import WeeklyInterval

OFFICE_WEEK = tuple(WeeklyInterval(weekday, 8 * 60, 19 * 60) for weekday in range(5))
HOUR = 3600.0


def a_pool(
    name: str = "train",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    gpu: int = 0,
    longest: float = 8 * HOUR,
    most: int = 10,
) -> WorkerSettings:
    return WorkerSettings.model_validate(
        {
            "source": Source(queues=(name,)),
            "image": "registry.example/worker:1",
            "max": most,
            "cpu": cpu,
            "memory": memory,
            "gpu": gpu,
            "longest_job": timedelta(seconds=longest),
            "node_group": "gpu" if gpu else "flexible",
        }
    )


def a_workload(category: Category, *, cpu: str = "2", memory: str = "4Gi", replicas: int = 1) -> WorkloadSettings:
    return WorkloadSettings.model_validate(
        {
            "category": category,
            "image": "registry.example/service:1",
            "replicas": replicas,
            "cpu": cpu,
            "memory": memory,
        }
    )


def a_stack(
    workers: dict[str, WorkerSettings] | None = None, workloads: dict[str, WorkloadSettings] | None = None
) -> StackSettings:
    """One group of each kind, office hours in New York."""
    return StackSettings(
        stack="test",
        region="us-east-1",
        customer="test",
        business_hours=BusinessHoursSettings(timezone="America/New_York", week=OFFICE_WEEK),
        cluster=ClusterSettings(),
        node_groups={
            "fixed": NodeGroupSettings(kind=NodeKind.FIXED, instance_types=("m7i.xlarge",), min=1, max=3),
            "flexible": NodeGroupSettings(kind=NodeKind.FLEXIBLE, instance_types=("m7i.4xlarge",), max=20),
            "gpu": NodeGroupSettings(kind=NodeKind.GPU, instance_types=("g5.2xlarge",), max=4),
        },
        redis=RedisSettings(),
        controller=ControllerSettings(image="registry.example/controller:1"),
        workloads=workloads if workloads is not None else _SERVICES,
        workers=workers if workers is not None else {"train": a_pool()},
        costs=CostSettings(),
    )


_SERVICES = {
    "head": a_workload(Category.FIXED, memory="8Gi"),
    "api": a_workload(Category.FLEXIBLE, replicas=3),
}


def a_job(at: float, lasts: float = 600.0, *, cpu: float = 2, memory: float = 4, gpu: float = 0) -> Job:
    return Job(at, lasts, "q", cpu, memory, gpu)


def a_trace(jobs: Sequence[Job]) -> Trace:
    return Trace("made-up", tuple(sorted(jobs, key=lambda job: job.submitted_at)))
