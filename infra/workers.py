"""The pods of the workers' namespace: worker pools and jobs."""

from typing import TypeVar

import pulumi

from components.pods.job import CronJob, Job, JobArgs
from components.pods.ray_driver import DrivenCluster
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.redis.queues import Redis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from infra.site import Site


def pools(site: Site, redis: Redis, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    settings = site.settings
    return [
        WorkerPool(
            name,
            WorkerPoolArgs(
                stack=site.stack,
                name=name,
                settings=pool,
                redis=redis.endpoint,
                redis_authority=redis.authority,
                broker=settings.brokers[pool.source.broker] if pool.source.broker else None,
                drives=None if pool.ray is None else DrivenCluster(name=pool.ray, settings=settings.ray[pool.ray]),
                stopped_together=settings.stopped_together(pool),
                nodes=site.nodes_of(pool),
            ),
            site.with_role("worker", name, pool, WORKER_NAMESPACE, options),
        )
        for name, pool in settings.workers.items()
    ]


_AnyJob = TypeVar("_AnyJob", JobSettings, CronJobSettings)


def unscaled_workers(site: Site, options: pulumi.ResourceOptions) -> None:
    """Create the pods of the workers' namespace that no controller scales."""
    for name, job in site.settings.jobs.items():
        Job(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))
    for name, job in site.settings.cron_jobs.items():
        CronJob(name, _args(site, name, job), site.with_role("job", name, job, WORKER_NAMESPACE, options))


def _args(site: Site, name: str, settings: _AnyJob) -> JobArgs[_AnyJob]:
    return JobArgs(stack=site.stack, name=name, settings=settings, nodes=site.nodes_of(settings))
