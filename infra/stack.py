"""Which components a customer gets, and in which order they come and go.

Built from the outside in: network, control plane, nodes, what keeps nodes alive and counted, then workloads, and last
the controller that sizes them. Each step depends on the one before, because a destroy runs the same graph backwards:
workloads must be gone before the autoscaler, pods with volumes before the volume controller, nodes before the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pulumi
from pulumi_aws.provider import Provider as AwsProvider

from components.add_ons import ClusterAddOns, ClusterAddOnsArgs
from components.autoscaler import Autoscaler, autoscaler_args
from components.cluster import Cluster, ClusterArgs
from components.controller import Controller, ControllerArgs
from components.device_plugin import DevicePlugin, DevicePluginArgs
from components.evictions import Evictions, EvictionsArgs
from components.namespaces import Namespaces, NamespacesArgs
from components.network import Network, NetworkArgs
from components.node_group import NodeGroup, NodeGroupArgs
from components.node_shape import ami_type, node_shape, ranges
from components.ownership import OwnershipTable
from components.redis import Redis, RedisArgs, redis_endpoint
from components.savings import cost_tags, group_tags, node_tags
from components.worker_pool import WorkerPool, WorkerPoolArgs
from components.workload import Workload, WorkloadArgs
from ebbtide.settings.controller_document import controller_config
from ebbtide.settings.grace import grace_seconds
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import home_kind
from ebbtide.vocabulary.controller_config import ControllerConfig, dump
from ebbtide.vocabulary.labels import NodeKind

_Password: TypeAlias = pulumi.Input[str] | None


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What the program exports."""

    cluster_name: pulumi.Output[str]
    ownership: OwnershipTable
    controller_document: str


def compose(settings: StackSettings, *, redis_password: _Password = None) -> Stack:
    """Build the whole stack of one customer."""
    parts = _Composition(settings, cost_tags(settings), OwnershipTable())
    foundation = parts.foundation()
    config = parts.customer(foundation, parts.platform(foundation), redis_password)
    return Stack(cluster_name=foundation.cluster.name, ownership=parts.ownership, controller_document=dump(config))


@dataclass(frozen=True, kw_only=True)
class _Foundation:
    """What everything inside the cluster stands on."""

    aws: AwsProvider
    network: Network
    cluster: Cluster
    nodes: tuple[NodeGroup, ...]


@dataclass(frozen=True)
class _Composition:
    settings: StackSettings
    tags: Mapping[str, str]
    ownership: OwnershipTable

    def foundation(self) -> _Foundation:
        settings = self.settings
        aws = AwsProvider("aws", region=settings.region)
        network = Network(
            "network",
            NetworkArgs(
                region=settings.region, zones=settings.cluster.zones, cluster_name=settings.customer, tags=self.tags
            ),
            pulumi.ResourceOptions(providers=[aws]),
        )
        cluster = Cluster(
            "cluster",
            ClusterArgs(
                name=settings.customer,
                region=settings.region,
                version=settings.cluster.version,
                subnet_ids=list(network.private_subnet_ids.values()),
                tags=self.tags,
            ),
            pulumi.ResourceOptions(providers=[aws], depends_on=[network]),
        )
        return _Foundation(aws=aws, network=network, cluster=cluster, nodes=self._nodes(aws, network, cluster))

    def _nodes(self, aws: AwsProvider, network: Network, cluster: Cluster) -> tuple[NodeGroup, ...]:
        zones = self.settings.cluster.zones
        return tuple(
            NodeGroup(
                f"{name}-{zone}",
                NodeGroupArgs(
                    group=name,
                    kind=group.kind,
                    zone=zone,
                    cluster_name=cluster.name,
                    node_role_arn=cluster.node_role_arn,
                    subnet_id=network.private_subnet_ids[zone],
                    version=self.settings.cluster.version,
                    instance_types=group.instance_types,
                    ami_type=ami_type(group),
                    size=size,
                    shape=node_shape(name, group),
                    tags=group_tags(name, group, self.settings),
                    node_tags=node_tags(name, group, self.settings),
                    ownership=self.ownership,
                ),
                pulumi.ResourceOptions(providers=[aws], depends_on=[network, cluster]),
            )
            for name, group in self.settings.node_groups.items()
            for zone, size in ranges(group, zones).items()
        )

    def platform(self, on: _Foundation) -> list[pulumi.Resource]:
        """What must run before a pod of the customer can, and for as long as one does."""
        settings = self.settings
        inside: list[pulumi.ProviderResource] = [on.aws, on.cluster.provider]
        add_ons = ClusterAddOns(
            "add-ons",
            ClusterAddOnsArgs(name=settings.customer, cluster_name=on.cluster.name, tags=self.tags),
            pulumi.ResourceOptions(providers=inside, depends_on=[*on.nodes]),
        )
        autoscaler = Autoscaler(
            "autoscaler",
            autoscaler_args(settings, self.tags),
            pulumi.ResourceOptions(providers=inside, depends_on=[add_ons]),
        )
        parts: list[pulumi.Resource] = [*on.nodes, add_ons, autoscaler]
        if any(group.kind is NodeKind.GPU for group in settings.node_groups.values()):
            plugin = DevicePluginArgs(customer=settings.customer)
            options = pulumi.ResourceOptions(providers=inside, depends_on=[*on.nodes])
            parts.append(DevicePlugin("device-plugin", plugin, options))
        return parts

    def customer(self, on: _Foundation, platform: list[pulumi.Resource], redis_password: _Password) -> ControllerConfig:
        """The namespaces and all that lives in them; what the controller was told about it."""
        settings, provider = self.settings, on.cluster.provider
        endpoint = redis_endpoint(settings.redis)

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(providers=[provider], depends_on=[*platform, *resources])

        spaces = Namespaces("namespaces", NamespacesArgs(customer=settings.customer), after())
        system, workers = spaces.system.metadata.name, spaces.workers.metadata.name
        redis = Redis(
            "redis",
            RedisArgs(
                settings=settings.redis,
                namespace=system,
                worker_namespace=workers,
                customer=settings.customer,
                password=redis_password,
            ),
            after(spaces),
        )
        sized = [
            *self._workloads(system, after(spaces, redis)),
            *self._pools(workers, after(spaces, redis)),
        ]
        if settings.workers:
            graces = {name: grace_seconds(pool.longest_job) for name, pool in settings.workers.items()}
            Evictions("evictions", EvictionsArgs(namespace=workers, graces=graces), after(spaces))
        config = controller_config(settings, endpoint)
        Controller(
            "controller",
            ControllerArgs(
                config=config,
                image=settings.controller.image,
                namespace=system,
                worker_namespace=workers,
                replicas=settings.controller.replicas,
            ),
            # Last to come and first to go: on its way out it closes the budgets, which must still be there.
            after(spaces, redis, *sized),
        )
        return config

    def _workloads(self, namespace: pulumi.Input[str], options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        return [
            Workload(
                name,
                WorkloadArgs(
                    name=name,
                    namespace=namespace,
                    settings=workload,
                    customer=self.settings.customer,
                    node_kind=home_kind(workload.category, workload.gpu),
                    ownership=self.ownership,
                ),
                options,
            )
            for name, workload in self.settings.workloads.items()
        ]

    def _pools(self, namespace: pulumi.Input[str], options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        return [
            WorkerPool(
                name,
                WorkerPoolArgs(
                    name=name,
                    namespace=namespace,
                    settings=pool,
                    customer=self.settings.customer,
                    redis=redis_endpoint(self.settings.redis),
                    ownership=self.ownership,
                ),
                options,
            )
            for name, pool in self.settings.workers.items()
        ]
