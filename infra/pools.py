"""The worker pools of a stack."""

import pulumi

from components.pods.ray_driver import DrivenCluster
from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.redis.queues import Redis
from ebbtide.provisioning_labels import WORKER_NAMESPACE
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
                drives=None if pool.ray is None else DrivenCluster(name=pool.ray, settings=settings.ray[pool.ray]),
                stopped_together=settings.stopped_together(pool),
                nodes=site.nodes_of(pool),
            ),
            site.with_role("worker", name, pool, WORKER_NAMESPACE, options),
        )
        for name, pool in settings.workers.items()
    ]
