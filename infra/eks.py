"""What EKS gives a stack to stand on, from the outside in: network, control plane, nodes, what keeps nodes alive.

Each step depends on the one before, because a destroy runs the same graph backwards: pods with volumes go before the
volume controller, nodes before the network. `Foundation` is all that the customer's half knows of it, so that a cluster
which was there already can take its place (`components.cluster.existing`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.provider import Provider as AwsProvider

from components import (
    Autoscaler,
    Cluster,
    ClusterAddOns,
    ClusterAddOnsArgs,
    ClusterArgs,
    DevicePlugin,
    DevicePluginArgs,
    GpuExporter,
    GpuExporterArgs,
    Network,
    NetworkArgs,
    NodeGroup,
    NodeGroupArgs,
    OwnershipTable,
    egress_of,
    image_source,
)
from components.aws.cache_windows import cache_windows
from components.aws.node_shape import ami_type, node_shape, ranges
from components.aws.savings import group_tags, node_tags
from components.cluster.autoscaler import autoscaler_args
from components.cluster.device_plugin import IMAGE as DEVICE_PLUGIN_IMAGE
from components.monitoring.gpu_exporter import IMAGE as GPU_EXPORTER_IMAGE
from ebbtide.labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.redis import RedisKind
from ebbtide.settings.serving_needs import serving_needs
from infra.foundation import Foundation


def eks_foundation(
    settings: StackSettings,
    tags: Mapping[str, str],
    ownership: OwnershipTable,
    redis_password: pulumi.Input[str] | None,
) -> Foundation:
    """A cluster of the customer's own on EKS, and the Redis beside it that AWS runs."""
    return _Eks(settings, tags, ownership).foundation(redis_password)


@dataclass(frozen=True)
class _Eks:
    settings: StackSettings
    tags: Mapping[str, str]
    ownership: OwnershipTable

    def foundation(self, redis_password: pulumi.Input[str] | None) -> Foundation:
        aws = AwsProvider("aws", region=self.settings.region)
        network = self._network(aws)
        cluster = self._cluster(aws, network)
        nodes = self._nodes(aws, network, cluster)
        ready = self._inside([aws, cluster.provider], cluster, nodes)
        cache_host = self._cache_host(aws, network, cluster, redis_password)
        needs = serving_needs(self.settings)
        return Foundation(
            cluster_name=cluster.name,
            provider=cluster.provider,
            ready=ready,
            aws=aws,
            cache_host=cache_host,
            definitions=cluster.definitions() if needs.vertical or needs.keda or needs.gateway else None,
        )

    def _cache_host(
        self, aws: AwsProvider, network: Network, cluster: Cluster, token: pulumi.Input[str] | None
    ) -> pulumi.Output[str] | None:
        settings = self.settings
        if settings.redis.kind is not RedisKind.ELASTICACHE:
            return None
        from components.aws.elasticache import ElastiCache, ElastiCacheArgs  # a package that few stacks need

        args = ElastiCacheArgs(
            customer=settings.customer,
            settings=settings.redis,
            vpc_id=network.vpc_id,
            subnet_ids=list(network.private_subnet_ids.values()),
            clients=cluster.security_group_id,
            token=token,
            windows=cache_windows(settings.business_hours),
            tags=self.tags,
        )
        return ElastiCache("elasticache", args, pulumi.ResourceOptions(providers=[aws], depends_on=[network])).host

    def _network(self, aws: AwsProvider) -> Network:
        settings = self.settings
        return Network(
            "network",
            NetworkArgs(
                region=settings.region,
                zones=settings.cluster.zones,
                cluster_name=settings.customer,
                tags=self.tags,
                settings=settings.network,
                session_manager=settings.cluster.session_manager,
                deletion_protection=settings.cluster.deletion_protection,
            ),
            pulumi.ResourceOptions(providers=[aws]),
        )

    def _cluster(self, aws: AwsProvider, network: Network) -> Cluster:
        settings = self.settings
        return Cluster(
            "cluster",
            ClusterArgs(
                name=settings.customer,
                region=settings.region,
                settings=settings.cluster,
                subnet_ids=list(network.private_subnet_ids.values()),
                tags=self.tags,
            ),
            pulumi.ResourceOptions(providers=[aws], depends_on=[network]),
        )

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

    def _inside(
        self, inside: list[pulumi.ProviderResource], cluster: Cluster, nodes: Sequence[NodeGroup]
    ) -> list[pulumi.Resource]:
        """What must run before a pod of the customer can, and for as long as one does."""
        settings = self.settings
        add_ons = ClusterAddOns(
            "add-ons",
            ClusterAddOnsArgs(
                name=settings.customer, cluster_name=cluster.name, settings=settings.cluster, tags=self.tags
            ),
            pulumi.ResourceOptions(providers=inside, depends_on=[*nodes]),
        )
        autoscaler = Autoscaler(
            "autoscaler",
            autoscaler_args(settings, self.tags, egress_of(settings)),
            pulumi.ResourceOptions(providers=inside, depends_on=[add_ons]),
        )
        parts: list[pulumi.Resource] = [*nodes, add_ons, autoscaler]
        if any(group.kind is NodeKind.GPU for group in settings.node_groups.values()):
            images = image_source(settings.images)
            image = images.chosen(settings.images.device_plugin, DEVICE_PLUGIN_IMAGE)
            plugin = DevicePluginArgs(customer=settings.customer, image=image, images=images)
            options = pulumi.ResourceOptions(providers=inside, depends_on=[*nodes])
            parts.append(DevicePlugin("device-plugin", plugin, options))
            if settings.monitoring.prometheus is PrometheusKind.BUNDLED:
                image = images.chosen(settings.images.gpu_exporter, GPU_EXPORTER_IMAGE)
                exporter = GpuExporterArgs(customer=settings.customer, image=image, images=images)
                GpuExporter("gpu-exporter", exporter, options)
        return parts
