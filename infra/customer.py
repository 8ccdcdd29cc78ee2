"""The in-cluster half of a stack: namespaces, Redis, workloads, workers, controllers. It runs on any cluster.

Workloads are created after their namespaces and Redis, and the scaler that sizes them after the workloads; a destroy
follows the same graph backwards.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pulumi

from components.aws.savings import cost_tags
from components.cluster.evictions import Evictions, EvictionsArgs
from components.cluster.namespaces import Namespaces, OwnNamespace, RaySpaces
from components.cluster.network_policies import NetworkPolicies, NetworkPoliciesArgs
from components.context import StackContext
from components.controller.controller import Controller
from components.images import image_source
from components.monitoring.targets import bundled_calls, scraped_workers
from components.ownership import OwnershipTable
from components.pods.egress import egress_of
from components.pods.priorities import Priorities
from components.pods.secrets import Secrets, SecretsArgs, SecretsSource, StackSecrets
from components.redis.queues import Redis, RedisArgs
from components.redis.users import RedisAclUser
from ebbtide.settings.capacity.pods import secrets_by_namespace
from ebbtide.settings.capacity.process_documents import asked_ports, has_workloads
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.redis_rights import sender_rights
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.settings.sections.workers import grace_seconds
from ebbtide.vocabulary.controller_config import RedisEndpoint
from infra.adopted import adopted
from infra.controllers import scaler, workload_controller
from infra.monitoring import exporter, monitoring
from infra.ray_clusters import clusters_with_state, ray_clusters, ray_namespaces
from infra.services import services
from infra.site import Foundation, Site, following
from infra.workers import pools, unscaled_workers
from infra.workloads import snapshots, workload_namespaces, workloads

Password: TypeAlias = pulumi.Input[str] | None
NewToken: TypeAlias = Callable[[], str]


def stack_context(
    settings: StackSettings, ownership: OwnershipTable, secrets: StackSecrets | None = None
) -> StackContext:
    """Return the context of a stack. `secrets` is None if the values are unknown, as in a rendering."""
    return StackContext(
        customer=settings.customer,
        images=image_source(settings),
        egress=egress_of(settings),
        secrets=SecretsSource(keys=settings.secrets, known=secrets),
        ownership=ownership,
        region=settings.region,
        tags=cost_tags(settings),
    )


def customer_half(
    settings: StackSettings, cluster: Foundation, stack: StackContext, password: Password, new_token: NewToken
) -> tuple[StackContext, Controller]:
    """Build the in-cluster half. Return the context of its components, and the scaler."""
    site = Site(settings=settings, cluster=cluster, stack=stack)
    spaces = Namespaces("namespaces", site.stack, site.after())
    site = site.within(spaces)
    starters = workload_namespaces(site)
    ray = ray_namespaces(site)
    secrets = _secrets(site, [*starters.values(), *([ray] if ray else [])], site.after(spaces))
    redis = _redis(site, password, ray, site.after(spaces, *secrets))
    policies = _network_policies(site, spaces, starters, ray, redis.endpoint)
    graces = {name: grace_seconds(pool) for name, pool in settings.workers.items()}
    evictions = Evictions(
        "evictions", EvictionsArgs(namespace=site.stack.worker_namespace, graces=graces), site.after(spaces)
    )
    priorities = _priorities(site)
    before_pods = [spaces, *secrets, redis, policies, *priorities]
    sized = [
        *adopted(site, site.after()),
        *workloads(site, starters, site.after(*before_pods, *starters.values())),
        *pools(site, redis, site.after(*before_pods, evictions)),
    ]
    clusters: Sequence[pulumi.Resource] = []
    if ray is not None:
        state = [redis] if clusters_with_state(settings) else []
        clusters = ray_clusters(site, ray, redis, new_token, site.after(spaces, *secrets, policies, *state))
    workload_controller(site, ray, site.after(spaces, *secrets, policies, *clusters))
    gateway = services(site, site.after(spaces, policies, *sized))
    snapshots(site)
    unscaled_workers(site, site.after(*before_pods))
    # Created after the budgets and deleted before them, since the scaler closes budgets when it stops.
    controller = scaler(site, redis, site.after(spaces, redis, policies, *sized))
    exporters = exporter(site, redis, site.after(spaces, redis, policies))
    monitoring(site, site.after(spaces, controller, *exporters, *gateway))
    return site.stack, controller


def _secrets(
    site: Site, namespaces: Sequence[pulumi.Resource], options: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Return nothing for a stack without Secrets, so that an existing stack gets no new component."""
    if not site.settings.secrets:
        return []
    args = SecretsArgs(source=site.stack.secrets, wanted=secrets_by_namespace(site.settings))
    return [Secrets("secrets", args, following(options, *namespaces))]


def _redis(site: Site, password: Password, ray: RaySpaces | None, options: pulumi.ResourceOptions) -> Redis:
    with_state = clusters_with_state(site.settings)
    args = RedisArgs(
        stack=site.stack,
        settings=site.settings.redis,
        password=password,
        further={} if ray is None else {f"ray-{name}": ray.names[name] for name in with_state},
        users={
            name: RedisAclUser(rule=rule, rights=sender_rights(name, site.settings))
            for name, rule in site.settings.adopted.items()
            if rule.redis
        },
    )
    return Redis("redis", args, options)


def _network_policies(
    site: Site,
    spaces: Namespaces,
    starters: Mapping[str, OwnNamespace],
    ray: RaySpaces | None,
    redis: RedisEndpoint,
) -> NetworkPolicies:
    settings, egress = site.settings, site.stack.egress
    args = NetworkPoliciesArgs(
        stack=site.stack,
        redis_port=redis.port,
        redis_inside=settings.redis.kind is RedisKind.IN_CLUSTER,
        brokers={
            name: broker.port
            for name, pool in settings.workers.items()
            if (broker := settings.broker_of(pool)) is not None and not broker.on_sqs
        },
        counted_ports=[
            port
            for broker in settings.brokers.values()
            if not broker.on_sqs
            for port in (broker.port, broker.management_port)
        ],
        controller_on_aws=bool(settings.pools_on_sqs),
        allow=settings.egress.allow,
        proxies=[address for address in (egress.http_proxy, egress.https_proxy) if address is not None],
        starters={name: own.namespace.metadata.name for name, own in starters.items()},
        ray={} if ray is None else ray.names,
        workload_controller=has_workloads(settings),
        asked_ports=asked_ports(settings),
        drivers=[name for name, pool in settings.workers.items() if pool.ray is not None],
        ray_operator=settings.cluster.ray_operator is RayOperatorSource.BUNDLED,
        prometheus=settings.monitoring.namespace,
        exporter=settings.monitoring.prometheus is not PrometheusKind.NONE,
        redis_tls=redis.tls,
        own_prometheus=bundled_calls(settings),
        scraped=scraped_workers(settings),
    )
    after = site.after(spaces, *starters.values(), *([] if ray is None else [ray]))
    return NetworkPolicies("network-policies", args, after)


def _priorities(site: Site) -> list[pulumi.Resource]:
    values = [entry.pod.priority for entry in declared_pods(site.settings) if entry.pod.priority is not None]
    return [Priorities("priorities", values, site.settings.customer, site.after())] if values else []
