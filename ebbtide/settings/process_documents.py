"""Build the config documents of the controller, the workload controller and the exporter from a stack's settings.

Pure, except that the current year decides which holidays are listed. `ebbtide.vocabulary` holds the documents' types.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from ebbtide.prices import NoPrice, on_demand
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.pods import every_pod, idle_prometheus
from ebbtide.settings.sections.adopted import adopted_budget, deployment_of
from ebbtide.settings.sections.checkpoints import Interruptible
from ebbtide.settings.sections.monitoring import PROMETHEUS_PORT
from ebbtide.settings.sections.pods.kubernetes import own_namespace, started_by
from ebbtide.settings.sections.ray import SleepSettings, namespace_of_ray
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, RedisKind
from ebbtide.settings.sections.serving.scale import EventSettings
from ebbtide.settings.sections.serving.services import VariantSettings, pod_name
from ebbtide.settings.sections.workers import PoolSettings
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.vocabulary.controller_config import (
    BudgetPolicy,
    ControllerConfig,
    Floor,
    Morning,
    PoolPolicy,
    RedisEndpoint,
)
from ebbtide.vocabulary.exporter import AdoptedRule, ExporterConfig, LabelValues, Price
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, Category
from ebbtide.vocabulary.workloads import (
    FloorPolicy,
    NodePoolPolicy,
    PlannedEvent,
    PlannedNight,
    RayPolicy,
    Sleep,
    SleepPolicy,
    Wake,
    WorkloadsConfig,
)

RESYNC = timedelta(seconds=2)
"""Events wake the controller sooner; the resync covers lost events."""


def controller_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ControllerConfig:
    """Return the controller's config. `years` are those whose holidays are resolved; default: this one and the next
    two.

    A pool's Deployment and a workload's budget have the name of the pool and of the workload. The controller opens
    `budgets`, including those of pools with checkpoints. Fixed budgets, including Ebbtide's own, are in `never_opened`,
    so that the closer closes them after a maintenance. All are sorted by name, since Pulumi passes the file sorted.
    """
    return ControllerConfig(
        customer=settings.customer,
        hours=settings.business_hours.hours(years),
        closing_guard=settings.controller.closing_guard,
        node_startup=settings.controller.node_startup,
        resync=RESYNC,
        redis=redis,
        pools=tuple(sorted(_pools(settings), key=lambda pool: pool.name)),
        budgets=_opened_budgets(settings),
        never_opened=(
            *_budgets(settings, Category.FIXED),
            *_bundled_budgets(settings),
            *_adopted_budgets(settings, Category.FIXED),
        ),
    )


def _opened_budgets(settings: StackSettings) -> tuple[BudgetPolicy, ...]:
    return (
        *_budgets(settings, Category.FLEXIBLE),
        *_pool_budgets(settings),
        *_adopted_budgets(settings, Category.FLEXIBLE),
    )


def _budgets(settings: StackSettings, category: Category) -> tuple[BudgetPolicy, ...]:
    """Return the budgets of a category, except on spot nodes, where Pulumi keeps them open."""
    workloads = {
        name: workload
        for name, workload in sorted(settings.all_workloads.items())
        if workload.opens is (category is Category.FLEXIBLE) and not workload.on_spot
    }
    spaces = {name: own_namespace(name) for name, workload in workloads.items() if workload.starts_pods}
    budgets = [BudgetPolicy(name=name, namespace=spaces.get(name, NAMESPACE)) for name in workloads]
    started = [BudgetPolicy(name=started_by(name), namespace=space) for name, space in spaces.items()]
    return (*budgets, *started)


def _pool_budgets(settings: StackSettings) -> Iterator[BudgetPolicy]:
    """Yield the budgets of pools whose workers can pause. On spot nodes, where they must, Pulumi keeps them open."""
    for name, pool in sorted(settings.workers.items()):
        if pool.checkpoints is not None and not settings.stopped_together(pool):
            always = pool.checkpoints.interruptible is Interruptible.ALWAYS
            yield BudgetPolicy(name=name, namespace=WORKER_NAMESPACE, always=always)


def _adopted_budgets(settings: StackSettings, category: Category) -> Iterator[BudgetPolicy]:
    """Yield the budgets of adopted pods. Those of workers never open, like those of pools without checkpoints."""
    for name, rule in sorted(settings.adopted.items()):
        if rule.category is category:
            pdb, minimum = adopted_budget(name, rule), rule.open_minimum
            yield BudgetPolicy(name=name, namespace=rule.namespace, object_name=pdb, open_minimum=minimum)


def _bundled_budgets(settings: StackSettings) -> tuple[BudgetPolicy, ...]:
    names = [CONTROLLER, *([IN_CLUSTER_REDIS] if settings.redis.kind is RedisKind.IN_CLUSTER else [])]
    return tuple(BudgetPolicy(name=name, namespace=NAMESPACE) for name in names)


def _pools(settings: StackSettings) -> Iterator[PoolPolicy]:
    for name, pool in settings.workers.items():
        yield _pool(name, pool, settings, safe_stop=pool.safe_stop)
    for name, rule in settings.adopted.items():
        if rule.pool is not None:
            policy = _pool(name, rule.pool, settings, safe_stop=rule.pool.safe_stop)
            yield replace(policy, namespace=rule.namespace, deployment=deployment_of(name, rule), adopted=True)


def _pool(name: str, pool: PoolSettings, settings: StackSettings, *, safe_stop: bool) -> PoolPolicy:
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
        safe_stop=safe_stop,
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


HUB_TOKENS = "/etc/ebbtide-hubs"
DASHBOARD_PORT = 8265
"""Port of the jobs API of a Ray head."""


def head_service(cluster: str) -> str:
    """Return the name that KubeRay gives the head's Service."""
    return f"{cluster}-head-svc.{namespace_of_ray(cluster)}.svc"


def sleep_of(sleep: SleepSettings) -> Sleep:
    return Sleep(when=sleep.when, after=sleep.after, wake=frozenset(sleep.wake))


def workloads_config(
    settings: StackSettings, token_file: Callable[[str], str], years: Sequence[int] | None = None
) -> WorkloadsConfig:
    """Return the workload controller's config. `years` as for the controller."""
    node_pools, sleepers = settings.budgeted_node_pools, tuple(sleep_policies(settings))
    return WorkloadsConfig(
        namespace=NAMESPACE,
        hours=settings.business_hours.hours(years),
        ray=tuple(
            RayPolicy(
                name=name,
                namespace=namespace_of_ray(name),
                head=f"http://{head_service(name)}:{DASHBOARD_PORT}",
                token_file=token_file(name),
                pools=tuple(sorted(pool for pool, workers in settings.workers.items() if workers.ray == name)),
            )
            for name in settings.ray
        ),
        pool_namespace=WORKER_NAMESPACE,
        floors=tuple(floors_of(settings)),
        sleepers=sleepers,
        prometheus=idle_prometheus(settings) if any(policy.idle_after for policy in sleepers) else "",
        node_pools=tuple(NodePoolPolicy(name=name, drains=settings.cluster.parallel_drains) for name in node_pools),
        drain_guard=drain_guard(settings) if node_pools else timedelta(),
        budgets=_opened_budgets(settings) if node_pools else (),
    )


def drain_guard(settings: StackSettings) -> timedelta:
    """Return the time before opening at which NodePools close.

    A drain under way ends while pods' budgets are still open: its replacement starts, and its pods leave one by one,
    for which the closing guard is long enough.
    """
    guard = settings.controller.closing_guard
    return guard + settings.controller.node_startup + guard


def has_workloads(settings: StackSettings) -> bool:
    """True if the stack needs the workload controller."""
    return bool(settings.ray or settings.budgeted_node_pools) or any((*floors_of(settings), *sleep_policies(settings)))


def sleepers_of(settings: StackSettings) -> Iterator[SleepPolicy]:
    """Yield the workloads and variants that sleep, by name."""
    return (policy for policy in sleep_policies(settings) if not policy.never)


def sleep_policies(settings: StackSettings) -> Iterator[SleepPolicy]:
    """Yield the workloads and variants with `sleep`, also with `when: never`, by name, since Pulumi passes the file
    sorted.

    The closing guard is long enough for the start of a node and a pod, unless the file states a longer start.
    """
    leads = {
        pod_name(name, variant): lead_of(settings, pods)
        for name, service in settings.services.items()
        for variant, pods in service.variants.items()
    }
    guard, startup = settings.controller.closing_guard, settings.controller.node_startup
    for name, workload in sorted(settings.all_workloads.items()):
        if (sleep := workload.sleep) is not None:
            hub = sleep.hub if sleep.sleeps else None
            yield SleepPolicy(
                name=name,
                namespace=own_namespace(name) if workload.starts_pods else NAMESPACE,
                kind="StatefulSet" if workload.kind is WorkloadKind.STATEFUL_SET else "Deployment",
                replicas=workload.replicas,
                asleep=sleep.replicas if sleep.sleeps else 0,
                lead=max(guard, leads.get(name, startup)),
                after=sleep.delay,
                manual=Wake.MANUAL in sleep.wake,
                overnight=tuple(
                    PlannedNight(at=night.minutes, lasting=night.for_, pods=workload.replicas)
                    for night in sleep.overnight
                ),
                idle_after=sleep.idle_for,
                hub=f"http://{name}.{NAMESPACE}.svc:{min(workload.ports.items())[1]}" if hub else "",
                hub_token_file=f"{HUB_TOKENS}/{name}/{hub.key}" if hub else None,
                never=not sleep.sleeps,
            )


def asked_ports(settings: StackSettings) -> list[int]:
    """Return the ports of Prometheus' pods and Service, and of hubs: the workload controller asks what is idle."""
    idle = [policy for policy in sleepers_of(settings) if policy.idle_after is not None]
    urls = [idle_prometheus(settings), *(policy.hub for policy in idle if policy.hub)]
    return sorted({PROMETHEUS_PORT, *(urlsplit(url).port or 80 for url in urls)}) if idle else []


def floors_of(settings: StackSettings) -> Iterator[FloorPolicy]:
    """Yield the variants whose minimum follows the calendar, by name, since Pulumi passes the file sorted."""
    for name, service in sorted(settings.services.items()):
        for variant, pods in sorted(service.variants.items()):
            if pods.scale.planned:
                yield floor_policy(settings, pod_name(name, variant), pods)


def lead_of(settings: StackSettings, variant: VariantSettings) -> timedelta:
    """Return the time from requesting a pod to its first request, including the start of a node."""
    return settings.controller.node_startup + variant.starts_within


def floor_policy(settings: StackSettings, pods: str, variant: VariantSettings) -> FloorPolicy:
    """Return the calendar of a variant's pods; `pods` is their name."""
    scale = variant.scale
    return FloorPolicy(
        name=pods,
        namespace=NAMESPACE,
        keda=bool(scale.metrics.external),
        least=scale.min,
        most=scale.max,
        lead=lead_of(settings, variant),
        open=scale.open,
        events=tuple(_event(event) for event in scale.events),
        overnight=tuple(
            PlannedNight(at=night.minutes, lasting=night.for_, pods=night.min) for night in scale.overnight
        ),
    )


def _event(event: EventSettings) -> PlannedEvent:
    at = event.at
    return PlannedEvent(day=at.date(), at=at.hour * 60 + at.minute, lasting=event.for_, pods=event.min)


def exporter_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ExporterConfig:
    """Return the exporter's config. `years` as for the controller."""
    hours = settings.business_hours.hours(years)
    return ExporterConfig(
        namespace=NAMESPACE,
        hpa_namespaces=tuple(sorted({NAMESPACE, *(entry.namespace for entry in every_pod(settings))})),
        prices=tuple(_prices(settings)),
        tls_endpoints=(f"{redis.host}:{redis.port}",) if redis.tls else (),
        timezone=hours.timezone,
        holidays_until=hours.holidays_known_until,
        adopted=tuple(
            AdoptedRule(
                name=name,
                namespace=rule.namespace,
                selector=tuple(LabelValues(key=key, values=values) for key, values in sorted(rule.selector.items())),
            )
            for name, rule in sorted(settings.adopted.items())
        ),
        workload_namespaces=tuple(
            sorted({NAMESPACE, *(own_namespace(name) for name, pod in settings.workloads.items() if pod.starts_pods)})
        ),
        sleepers=tuple(policy.subject for policy in sleep_policies(settings)),
    )


def _prices(settings: StackSettings) -> Iterator[Price]:
    """Yield the prices of the instance types in the file. Types without a price are left out."""
    types = {kind.name: kind for group in settings.node_groups.values() for kind in group.types}
    for name, kind in sorted(types.items()):
        try:
            yield Price(instance_type=name, dollars_per_hour=on_demand(settings.region, kind))
        except NoPrice:
            continue
