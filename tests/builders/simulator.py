"""A small stack and small traces for the simulator's tests; only what a test is about has to be given."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.controller import ControllerSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.jobs import Concurrency, CronJobSettings, JobSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.ray import RayGroup, RayHead, RaySettings, SleepSettings
from ebbtide.settings.sections.redis import RedisSettings
from ebbtide.settings.sections.workers import Source, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import WeeklyInterval
from ebbtide.vocabulary.workloads import SleepWhen

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
    checkpoints: CheckpointSettings | None = None,
    ray: str | None = None,
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
            "checkpoints": checkpoints,
            "ray": ray,
        }
    )


def a_driver(*, most: int = 5, longest: float = 24 * HOUR) -> WorkerSettings:
    """A pool whose jobs drive the Ray cluster `flow`."""
    return a_pool("drive", cpu="1", memory="2Gi", most=most, longest=longest, ray="flow")


def a_ray_group(
    *,
    most: int = 4,
    least: int = 0,
    cpu: int = 4,
    memory: str = "16Gi",
    gpu: int = 0,
    idle_after: float = 120.0,
    node_group: str = "",
    spot: bool = False,
) -> RayGroup:
    return RayGroup.model_validate(
        {
            "min": least,
            "max": most,
            "cpu": str(cpu),
            "memory": memory,
            "gpu": gpu,
            "idle_after": timedelta(seconds=idle_after),
            "node_group": node_group or ("gpu" if gpu else "flexible"),
            "spot": spot,
        }
    )


def with_ray(
    stack: StackSettings,
    groups: dict[str, RayGroup],
    *,
    longest_task: float = 24 * HOUR,
    sleep: SleepSettings | None = None,
) -> StackSettings:
    """The stack with a Ray cluster `flow`."""
    flow = RaySettings.model_validate(
        {
            "version": "2.60.0",
            "image": "registry.example/ray:2.60.0",
            "head": RayHead.model_validate({"cpu": "1", "memory": "4Gi"}),
            "groups": groups,
            "longest_task": timedelta(seconds=longest_task),
            "sleep": sleep or SleepSettings(when=SleepWhen.NEVER),
        }
    )
    return stack.model_copy(update={"ray": {"flow": flow}})


def a_saver(
    *, every: float = 300.0, within: float = 90.0, required: bool = False, always: bool = False
) -> CheckpointSettings:
    return CheckpointSettings.model_validate(
        {
            "store": "s3://states",
            "every": timedelta(seconds=every),
            "save_within": timedelta(seconds=within),
            "required": required,
            "interruptible": "always" if always else "inWindow",
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


def with_disks(workload: WorkloadSettings) -> WorkloadSettings:
    """A stateful set with a disk for each pod."""
    disk = Volume.model_validate({"per_pod": "10Gi", "at": "/data"})
    return workload.model_copy(update={"kind": WorkloadKind.STATEFUL_SET, "volumes": {"data": disk}})


def job_settings(
    *,
    cpu: str = "4",
    longest: float = 2 * HOUR,
    takes: float | None = None,
    completions: int = 1,
    parallelism: int = 1,
    retries: int = 0,
) -> dict[str, Any]:
    return {
        "image": "registry.example/report:1",
        "cpu": cpu,
        "memory": "8Gi",
        "longest_run": timedelta(seconds=longest),
        "run_takes": None if takes is None else timedelta(seconds=takes),
        "completions": completions,
        "parallelism": parallelism,
        "retries": retries,
        "node_group": "flexible",
    }


def a_one_off(**size: Any) -> JobSettings:
    return JobSettings.model_validate(job_settings(**size))


def a_cron_job(
    schedule: str = "0 2 * * *",
    *,
    concurrency: Concurrency = Concurrency.FORBID,
    start_within: float | None = None,
    suspended: bool = False,
    **size: Any,
) -> CronJobSettings:
    within = None if start_within is None else timedelta(seconds=start_within)
    clock = {"schedule": schedule, "concurrency": concurrency, "start_within": within, "suspended": suspended}
    return CronJobSettings.model_validate(job_settings(**size) | clock)


def with_jobs(
    stack: StackSettings, jobs: dict[str, JobSettings] | None = None, cron: dict[str, CronJobSettings] | None = None
) -> StackSettings:
    return stack.model_copy(update={"jobs": jobs or {}, "cron_jobs": cron or {}})


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


def a_job(
    at: float, lasts: float = 600.0, *, cpu: float = 2, memory: float = 4, gpu: float = 0, queue: str = "q"
) -> Job:
    return Job(at, lasts, queue, cpu, memory, gpu)


def a_driver_job(
    at: float, lasts: float = 600.0, *, tasks: int = 1, cpu: float = 2, gpu: float = 0, queue: str = "q"
) -> Job:
    return replace(a_job(at, lasts, cpu=cpu, gpu=gpu, queue=queue), tasks=tasks)


def a_trace(jobs: Sequence[Job]) -> Trace:
    return Trace("made-up", tuple(sorted(jobs, key=lambda job: job.submitted_at)))
