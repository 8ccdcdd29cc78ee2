"""The part of a stack that the controller acts on, as its config document. Pure, the year of the holidays aside."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.checkpoints import Interruptible
from ebbtide.settings.sections.pods.kubernetes import own_namespace, started_by
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, RedisKind
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.vocabulary.controller_config import (
    BudgetPolicy,
    ControllerConfig,
    Floor,
    Morning,
    PoolPolicy,
    RedisEndpoint,
)
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, Category

RESYNC = timedelta(seconds=2)
"""Events wake the controller sooner; the resync is for the ones that got lost."""


def controller_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ControllerConfig:
    """What the controller is told. `years` are those whose holidays are resolved; default: this one and the next two.

    A pool's Deployment has the pool's name, a workload's budget the workload's. The controller opens what is in
    `budgets`, those of pools with checkpoints among them. The fixed ones, our own parts among them, are listed as never
    opened, for the closer to close behind an operator's maintenance. All by name, whatever the order in the file:
    Pulumi hands it over sorted.
    """
    return ControllerConfig(
        customer=settings.customer,
        hours=settings.business_hours.hours(years),
        closing_guard=settings.controller.closing_guard,
        node_startup=settings.controller.node_startup,
        resync=RESYNC,
        redis=redis,
        pools=tuple(_pool(name, pool, settings) for name, pool in sorted(settings.workers.items())),
        budgets=(*_budgets(settings, Category.FLEXIBLE), *_pool_budgets(settings)),
        never_opened=(*_budgets(settings, Category.FIXED), *_own_budgets(settings)),
    )


def _budgets(settings: StackSettings, category: Category) -> tuple[BudgetPolicy, ...]:
    """Without those on spot nodes, which are Pulumi's and open all the time."""
    found = {
        name: it
        for name, it in sorted(settings.all_workloads.items())
        if it.opens is (category is Category.FLEXIBLE) and not it.on_spot
    }
    spaces = {name: own_namespace(name) for name, it in found.items() if it.starts_pods}
    own = [BudgetPolicy(name=name, namespace=spaces.get(name, NAMESPACE)) for name in found]
    started = [BudgetPolicy(name=started_by(name), namespace=space) for name, space in spaces.items()]
    return (*own, *started)


def _pool_budgets(settings: StackSettings) -> Iterator[BudgetPolicy]:
    """Of pools whose workers can pause. On spot nodes, where they must, it is Pulumi's and open all the time."""
    for name, pool in sorted(settings.workers.items()):
        if pool.checkpoints is not None and not settings.told_together(pool):
            always = pool.checkpoints.interruptible is Interruptible.ALWAYS
            yield BudgetPolicy(name=name, namespace=WORKER_NAMESPACE, always=always)


def _own_budgets(settings: StackSettings) -> tuple[BudgetPolicy, ...]:
    names = [CONTROLLER, *([IN_CLUSTER_REDIS] if settings.redis.kind is RedisKind.IN_CLUSTER else [])]
    return tuple(BudgetPolicy(name=name, namespace=NAMESPACE) for name in names)


def _pool(name: str, pool: WorkerSettings, settings: StackSettings) -> PoolPolicy:
    return PoolPolicy(
        name=name,
        namespace=WORKER_NAMESPACE,
        deployment=name,
        source=str(pool.source.kind),
        queues=pool.source.queues,
        jobs_per_worker=pool.jobs_per_worker,
        min_workers=pool.min,
        max_workers=pool.max,
        stabilization_window=pool.stabilization_window,
        longest_job=pool.longest_job,
        safe_stop=pool.safe_stop,
        floors=tuple(
            Floor(at=plan.minutes, lasting=plan.for_, workers=plan.workers)
            for plan in settings.business_hours.overnight
            if plan.pool == name
        ),
        morning=pool.morning and Morning(lasting=pool.morning.for_, workers=pool.morning.workers),
        growth_per_minute=pool.growth_per_minute,
        drain_within=pool.drain_within,
        celery=pool.source.celery_keys,
    )
