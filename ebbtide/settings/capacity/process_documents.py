"""Build the config documents of the controller, the workload controller and the exporter from a stack's settings.

Pure, except that the current year decides which holidays are listed. `ebbtide.vocabulary` holds the documents' types.
Only calculated fields are named here: `from_settings` copies the others from the settings that they name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from ebbtide.prices import NoPrice, on_demand
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.pods import idle_prometheus
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import adopted_budget, deployment_of, label_selector
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.checkpoints import Interruptible
from ebbtide.settings.sections.monitoring import PROMETHEUS_PORT
from ebbtide.settings.sections.pods.kubernetes import own_namespace, started_by
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, RedisKind
from ebbtide.settings.sections.serving.scale import EventSettings
from ebbtide.settings.sections.serving.services import VariantSettings, pod_name
from ebbtide.settings.sections.workers import PoolSettings
from ebbtide.settings.sections.workloads import WorkloadKind
from ebbtide.vocabulary.controller_config import (
    BrokerEndpoint,
    BudgetPolicy,
    ControllerConfig,
    Floor,
    PoolPolicy,
    RedisEndpoint,
    SqsEndpoint,
)
from ebbtide.vocabulary.documents import from_settings
from ebbtide.vocabulary.exporter import AdoptedRule, ExporterConfig, GroupMax, LabelValues, Price
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, WORKLOADS, Category
from ebbtide.vocabulary.workloads import (
    FloorPolicy,
    NodePoolPolicy,
    PlannedEvent,
    PlannedNight,
    RayPolicy,
    SleepPolicy,
    Wake,
    WorkloadsConfig,
)

RESYNC = timedelta(seconds=2)
"""Events wake the controller sooner; the resync covers lost events."""


def controller_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ControllerConfig:
    """Return the controller's config with the holidays of `years`, by default of this year and the next two.

    A Deployment has the name of its pool, and a budget the name of its workload. The controller opens `budgets`,
    including those of pools with checkpoints. Fixed budgets, including Ebbtide's own, are in `never_opened`, so that
    the closer closes them after maintenance. All are sorted by name, since Pulumi passes the file sorted.
    """
    brokers = sorted(settings.brokers.items())
    return from_settings(
        ControllerConfig,
        settings,
        hours=settings.business_hours.hours(years),
        resync=RESYNC,
        redis=redis,
        brokers=[_broker(name, broker) for name, broker in brokers if not broker.on_sqs],
        sqs=[SqsEndpoint(name=name, region=settings.stated_region) for name, broker in brokers if broker.on_sqs],
        pools=sorted(_pools(settings), key=lambda pool: pool.name),
        budgets=_opened_budgets(settings),
        never_opened=(
            *_budgets(settings, Category.FIXED),
            *_bundled_budgets(settings),
            *_adopted_budgets(settings, Category.FIXED),
        ),
    )


def _broker(name: str, broker: BrokerSettings) -> BrokerEndpoint:
    return from_settings(
        BrokerEndpoint,
        broker,
        name=name,
        management=broker.management_url,
        password_env=broker_password_env(name),
    )


def broker_password_env(name: str) -> str:
    """Return the controller's variable with the password of the broker."""
    return f"BROKER_{name.upper().replace('-', '_')}_PASSWORD"


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
        yield _pool(name, pool, settings)
    for name, rule in settings.adopted.items():
        if rule.pool is not None:
            policy = _pool(name, rule.pool, settings)
            yield replace(policy, namespace=rule.namespace, deployment=deployment_of(name, rule), adopted=True)


def _pool(name: str, pool: PoolSettings, settings: StackSettings) -> PoolPolicy:
    return from_settings(
        PoolPolicy,
        pool,
        name=name,
        namespace=WORKER_NAMESPACE,
        deployment=name,
        floors=(from_settings(Floor, plan) for plan in settings.business_hours.overnight if plan.pool == name),
        adopted=False,
    )


HUB_TOKENS = "/etc/ebbtide-hubs"
DASHBOARD_PORT = 8265
"""Port of the jobs API of a Ray head."""


def head_service(cluster: str) -> str:
    """Return the name that KubeRay gives the head's Service."""
    return f"{cluster}-head-svc.{namespace_of_ray(cluster)}.svc"


def workloads_config(
    settings: StackSettings, token_file: Callable[[str], str], years: Sequence[int] | None = None
) -> WorkloadsConfig:
    """Return the workload controller's config. `years`: as in `controller_config`."""
    node_pools, sleepers = settings.budgeted_node_pools, tuple(sleep_policies(settings))
    return from_settings(
        WorkloadsConfig,
        settings,
        namespace=NAMESPACE,
        lease=WORKLOADS,
        hours=settings.business_hours.hours(years),
        ray=(
            from_settings(
                RayPolicy,
                cluster,
                name=name,
                namespace=namespace_of_ray(name),
                head=f"http://{head_service(name)}:{DASHBOARD_PORT}",
                token_file=token_file(name),
                pools=sorted(pool for pool, workers in settings.workers.items() if workers.ray == name),
            )
            for name, cluster in settings.ray.items()
        ),
        pool_namespace=WORKER_NAMESPACE,
        floors=floors_of(settings),
        sleepers=(policy for policy in sleepers if not policy.adopted),
        adopted_sleepers=(policy for policy in sleepers if policy.adopted),
        prometheus=idle_prometheus(settings) if any(policy.idle_after for policy in sleepers) else "",
        node_pools=(NodePoolPolicy(name=name, drains=settings.cluster.parallel_drains) for name in node_pools),
        drain_guard=drain_guard(settings) if node_pools else timedelta(),
        budgets=_opened_budgets(settings) if node_pools else (),
    )


def drain_guard(settings: StackSettings) -> timedelta:
    """Return the time before opening at which NodePools close.

    A drain under way must end while the pods' budgets are still open: the replacement node starts, then the pods leave
    one by one. The closing guard is long enough for the latter.
    """
    guard = settings.controller.closing_guard
    return guard + settings.controller.node_startup + guard


def has_workloads(settings: StackSettings) -> bool:
    """True if the stack needs the workload controller."""
    return bool(settings.ray or settings.budgeted_node_pools) or any((*floors_of(settings), *sleep_policies(settings)))


def sleepers_of(settings: StackSettings) -> Iterator[SleepPolicy]:
    """Yield the workloads, variants and adopted pods that sleep, by name."""
    return (policy for policy in sleep_policies(settings) if not policy.never)


def sleep_policies(settings: StackSettings) -> Iterator[SleepPolicy]:
    """Yield the workloads and variants with `sleep`, then the rules for adopted pods, also with `when: never`, by name,
    since Pulumi passes the file sorted.

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
            yield from_settings(
                SleepPolicy,
                sleep,
                name=name,
                namespace=own_namespace(name) if workload.starts_pods else NAMESPACE,
                kind="StatefulSet" if workload.kind is WorkloadKind.STATEFUL_SET else "Deployment",
                replicas=workload.replicas,
                asleep=sleep.replicas if sleep.sleeps else 0,
                lead=max(guard, leads.get(name, startup)),
                manual=Wake.MANUAL in sleep.wake,
                overnight=(from_settings(PlannedNight, night, pods=workload.replicas) for night in sleep.overnight),
                hub=f"http://{name}.{NAMESPACE}.svc:{min(workload.ports.items())[1]}" if hub else "",
                hub_token_file=f"{HUB_TOKENS}/{name}/{hub.key}" if hub else None,
                never=not sleep.sleeps,
                object_name=None,
                adopted=False,
                kept=False,
                selector=None,
            )
    yield from _adopted_sleepers(settings, max(guard, startup))


def _adopted_sleepers(settings: StackSettings, lead: timedelta) -> Iterator[SleepPolicy]:
    for name, rule in sorted(settings.adopted.items()):
        if (sleep := rule.sleep) is not None:
            yield from_settings(
                SleepPolicy,
                sleep,
                name=name,
                namespace=rule.namespace,
                kind=sleep.scale.kind.value,
                replicas=rule.count,
                asleep=sleep.replicas if sleep.sleeps else 0,
                lead=lead,
                manual=Wake.MANUAL in sleep.wake,
                overnight=(from_settings(PlannedNight, night, pods=rule.count) for night in sleep.overnight),
                hub="",
                hub_token_file=None,
                never=not sleep.sleeps,
                object_name=None if sleep.scale.name == name else sleep.scale.name,
                adopted=True,
                kept=sleep.keeps,
                selector=label_selector(rule.selector),
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
    return from_settings(
        FloorPolicy,
        variant.scale,
        name=pods,
        namespace=NAMESPACE,
        keda=bool(variant.scale.metrics.external),
        lead=lead_of(settings, variant),
        events=map(_event, variant.scale.events),
    )


def _event(event: EventSettings) -> PlannedEvent:
    at = event.at
    return from_settings(PlannedEvent, event, day=at.date(), at=at.hour * 60 + at.minute)


def exporter_config(
    settings: StackSettings, redis: RedisEndpoint, years: Sequence[int] | None = None
) -> ExporterConfig:
    """Return the exporter's config. `years`: as in `controller_config`."""
    sleepers = tuple(sleep_policies(settings))
    own = {NAMESPACE, *(own_namespace(name) for name, pod in settings.workloads.items() if pod.starts_pods)}
    return from_settings(
        ExporterConfig,
        settings,
        namespace=NAMESPACE,
        hpa_namespaces=tuple(sorted({NAMESPACE, *(pod.namespace for pod in declared_pods(settings))})),
        prices=_prices(settings),
        tls_endpoints=(f"{redis.host}:{redis.port}",) if redis.tls else (),
        holidays_until=settings.business_hours.hours(years).holidays_known_until,
        adopted=(
            from_settings(
                AdoptedRule,
                rule,
                name=name,
                selector=(LabelValues(key=key, values=values) for key, values in sorted(rule.selector.items())),
            )
            for name, rule in sorted(settings.adopted.items())
        ),
        workload_namespaces=tuple(sorted(own)),
        team_namespaces=tuple(sorted({policy.namespace for policy in sleepers} - own)),
        sleepers=tuple(policy.subject for policy in sleepers),
        group_max=(
            GroupMax(group=name, nodes=group.max)
            for name, group in sorted(with_node_sets(settings).node_groups.items())
        ),
    )


def _prices(settings: StackSettings) -> Iterator[Price]:
    """Yield the prices of the instance types in the file. Types without a price are left out."""
    types = {kind.name: kind for group in settings.node_groups.values() for kind in group.types}
    for name, kind in sorted(types.items()):
        try:
            yield Price(instance_type=name, dollars_per_hour=on_demand(settings.region, kind))
        except NoPrice:
            continue
