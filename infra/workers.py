"""The pods of the workers' namespace: worker pools and jobs."""

from typing import TypeVar

import pulumi

from components.pods.job import CronJob, Job, JobArgs
from components.pods.ray_driver import DrivenCluster
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.redis.queues import Redis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.pods.aws import AwsRights, QueueAccess
from ebbtide.settings.sections.workers import SourceKind, WorkerSettings
from infra.site import Site


def pools(site: Site, redis: Redis, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    settings = site.settings
    pools = {name: _with_own_queues(site, pool) for name, pool in settings.workers.items()}
    return [
        WorkerPool(
            name,
            WorkerPoolArgs(
                stack=site.stack,
                name=name,
                settings=pool,
                redis=redis.endpoint,
                redis_authority=redis.authority,
                broker=settings.broker_of(pool),
                region=settings.stated_region,
                drives=None if pool.ray is None else DrivenCluster(name=pool.ray, settings=settings.ray[pool.ray]),
                stopped_together=settings.stopped_together(pool),
                nodes=site.nodes_of(pool),
            ),
            site.with_role("worker", name, pool, WORKER_NAMESPACE, options),
        )
        for name, pool in pools.items()
    ]


def _with_own_queues(site: Site, pool: WorkerSettings) -> WorkerSettings:
    """Grant the pods of a pool on SQS its queues, beside what the file grants. A worker receives and completes
    messages; Celery also sends them, since a retried task is a new message. Existing roles and accounts keep theirs.
    """
    if not site.settings.gets_rights_on_queues(pool):
        return pool
    rights = pool.aws or AwsRights()
    needed = QueueAccess.BOTH if pool.source.kind is SourceKind.CELERY else QueueAccess.RECEIVE
    queues = dict(rights.queues)
    for queue in pool.source.queues:
        queues[queue] = needed if queues.get(queue, needed) is needed else QueueAccess.BOTH
    return pool.model_copy(update={"aws": rights.model_copy(update={"queues": queues})})


_AnyJob = TypeVar("_AnyJob", JobSettings, CronJobSettings)


def unscaled_workers(site: Site, options: pulumi.ResourceOptions) -> None:
    """Create the pods of the workers' namespace that no controller scales."""
    for name, job in site.settings.jobs.items():
        Job(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))
    for name, job in site.settings.cron_jobs.items():
        CronJob(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))


def _args(site: Site, name: str, settings: _AnyJob) -> JobArgs[_AnyJob]:
    return JobArgs(stack=site.stack, name=name, settings=settings, nodes=site.nodes_of(settings))
