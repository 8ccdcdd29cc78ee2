"""A cluster on EKS, from the outside in: network, control plane, nodes, add-ons.

Each step depends on the previous one, because a destroy follows the same graph backwards: pods with volumes are deleted
before the volume controller, nodes before the network. The in-cluster half uses only `Foundation`, so that an existing
cluster can replace this one (`components.cluster.existing`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.provider import Provider as AwsProvider

from components.aws.add_ons import ClusterAddOns, ClusterAddOnsArgs
from components.aws.cluster import Cluster, ClusterArgs
from components.aws.network import Network, NetworkArgs
from components.aws.node_group import NodeGroup, NodeGroupArgs
from components.aws.node_shape import ami_type, node_shape, ranges
from components.aws.savings import group_tags, node_tags
from components.cluster.autoscaler import Autoscaler, autoscaler_args
from components.cluster.gpu_daemons import DevicePlugin, GpuExporter
from components.context import StackContext
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.pods import serving_needs
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.network import Nat
from ebbtide.settings.sections.redis import RedisKind
from infra.site import Foundation


def eks_foundation(
    settings: StackSettings, stack: StackContext, redis_password: pulumi.Input[str] | None
) -> Foundation:
    """Build a cluster on EKS and, if the stack file requests it, ElastiCache."""
    return _Eks(settings, stack).foundation(redis_password)


@dataclass(frozen=True)
class _Eks:
    settings: StackSettings
    stack: StackContext

    def foundation(self, redis_password: pulumi.Input[str] | None) -> Foundation:
        aws = AwsProvider("aws", region=self.settings.region)
        network = self._network(aws)
        cluster = self._cluster(aws, network)
        nodes = self._nodes(aws, network, cluster)
        needs = serving_needs(self.settings)
        charted = needs.vertical or needs.keda or needs.gateway or self.settings.karpenter_groups
        definitions = cluster.definitions() if charted else None
        ready = self._inside([aws, cluster.provider], cluster, nodes)
        if self.settings.karpenter_groups:
            ready = [*ready, *self._karpenter([aws, cluster.provider], network, cluster, definitions, ready)]
        cache_host = self._cache_host(aws, network, cluster, redis_password)
        return Foundation(
            cluster_name=cluster.name,
            provider=cluster.provider,
            ready=ready,
            aws=aws,
            cache_host=cache_host,
            definitions=definitions,
        )

    def _cache_host(
        self, aws: AwsProvider, network: Network, cluster: Cluster, token: pulumi.Input[str] | None
    ) -> pulumi.Output[str] | None:
        settings = self.settings
        if settings.redis.kind is not RedisKind.ELASTICACHE:
            return None
        # Imported here, since few stacks need this AWS package.
        from components.aws.elasticache import ElastiCache, ElastiCacheArgs, cache_windows

        args = ElastiCacheArgs(
            stack=self.stack,
            settings=settings.redis,
            vpc_id=network.vpc_id,
            subnet_ids=list(network.private_subnet_ids.values()),
            clients=cluster.security_group_id,
            token=token,
            windows=cache_windows(settings.business_hours),
        )
        return ElastiCache("elasticache", args, pulumi.ResourceOptions(providers=[aws], depends_on=[network])).host

    def _network(self, aws: AwsProvider) -> Network:
        settings = self.settings
        return Network(
            "network",
            NetworkArgs(
                stack=self.stack,
                zones=settings.cluster.zones,
                settings=settings.network,
                session_manager=settings.cluster.session_manager,
                deletion_protection=settings.cluster.deletion_protection,
                karpenter=bool(settings.karpenter_groups),
                queues=bool(settings.pools_on_sqs),
            ),
            pulumi.ResourceOptions(providers=[aws]),
        )

    def _cluster(self, aws: AwsProvider, network: Network) -> Cluster:
        settings = self.settings
        return Cluster(
            "cluster",
            ClusterArgs(
                stack=self.stack,
                settings=settings.cluster,
                subnet_ids=list(network.private_subnet_ids.values()),
            ),
            pulumi.ResourceOptions(providers=[aws], depends_on=[network]),
        )

    def _nodes(self, aws: AwsProvider, network: Network, cluster: Cluster) -> tuple[NodeGroup, ...]:
        zones = self.settings.cluster.zones
        return tuple(
            NodeGroup(
                f"{part}-{zone}",
                NodeGroupArgs(
                    stack=self.stack,
                    group=part,
                    kind=group.kind,
                    zone=zone,
                    cluster_name=cluster.name,
                    node_role_arn=cluster.node_role_arn,
                    subnet_id=network.private_subnet_ids[zone],
                    version=self.settings.cluster.version,
                    instance_types=managed.instance_types,
                    ami_type=ami_type(managed),
                    size=size,
                    shape=node_shape(name, managed),
                    tags=group_tags(name, group, self.settings),
                    node_tags=node_tags(name, group, self.settings),
                ),
                pulumi.ResourceOptions(providers=[aws], depends_on=[network, cluster]),
            )
            for name, group in self.settings.autoscaled_groups.items()
            for part, managed in parts_of(name, group).items()
            for zone, size in ranges(managed, zones).items()
        )

    def _inside(
        self, inside: list[pulumi.ProviderResource], cluster: Cluster, nodes: Sequence[NodeGroup]
    ) -> list[pulumi.Resource]:
        """Create the components that must exist before the customer's pods start, and as long as they run."""
        settings = self.settings
        add_ons = ClusterAddOns(
            "add-ons",
            ClusterAddOnsArgs(stack=self.stack, cluster_name=cluster.name, settings=settings.cluster),
            pulumi.ResourceOptions(providers=inside, depends_on=[*nodes]),
        )
        autoscaler = Autoscaler(
            "autoscaler",
            autoscaler_args(settings, self.stack),
            pulumi.ResourceOptions(providers=inside, depends_on=[add_ons]),
        )
        parts: list[pulumi.Resource] = [*nodes, add_ons, autoscaler]
        kinds_with_gpus = {group.kind for group in settings.node_groups.values() if group.has_gpus}
        if kinds_with_gpus:
            options = pulumi.ResourceOptions(providers=inside, depends_on=[*nodes])
            parts.append(DevicePlugin("device-plugin", self.stack, options))
            if settings.monitoring.prometheus is PrometheusKind.BUNDLED:
                GpuExporter("gpu-exporter", self.stack, options, on_spot=NodeKind.SPOT in kinds_with_gpus)
        return parts

    def _karpenter(
        self,
        inside: list[pulumi.ProviderResource],
        network: Network,
        cluster: Cluster,
        definitions: pulumi.ProviderResource | None,
        ready: Sequence[pulumi.Resource],
    ) -> list[pulumi.Resource]:
        """Create Karpenter and its NodePools. A destroy removes all of Karpenter's nodes while the controller runs."""
        # Imported here, since only these stacks need their AWS packages.
        from components.cluster.karpenter.controller import Karpenter, KarpenterArgs
        from components.cluster.karpenter.nodes import NodePools, NodePoolsArgs

        settings = self.settings
        zones = settings.cluster.zones
        subnets = {zone: network.private_subnet_ids[zone] for zone in zones}
        args = KarpenterArgs(
            stack=self.stack,
            settings=settings.cluster,
            cluster_name=cluster.name,
            subnet_ids=subnets,
            security_group_id=cluster.security_group_id,
            definitions=definitions,
            isolated=settings.network.vpc is None and settings.network.nat is Nat.NONE,
        )
        controller = Karpenter("karpenter", args, pulumi.ResourceOptions(providers=inside, depends_on=[*ready]))
        groups = settings.karpenter_groups
        pools = NodePoolsArgs(
            stack=self.stack,
            groups=groups,
            tags={name: node_tags(name, group, settings) for name, group in groups.items()},
            zones=zones,
            subnet_ids=subnets,
            security_group_id=cluster.security_group_id,
            instance_profile=controller.instance_profile,
        )
        options = pulumi.ResourceOptions(providers=inside, depends_on=[*ready, controller])
        return [controller, NodePools("node-pools", pools, options)]
