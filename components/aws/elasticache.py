"""The queues in ElastiCache, with a standby in another zone.

- **One keyspace.** RQ moves a job between keys in one command, which a sharded cache refuses: cluster mode stays off,
  and serverless caches, which are sharded, are no choice.
- **It never evicts.** The default of AWS drops keys with an expiry when the memory is full, so the parameter group says
  `noeviction`. A quarter of each node stays free for snapshots and failover, as AWS reserves it.
- **Who may connect.** The cluster's security group, which nodes and their pods have, and only with the token. The group
  of the cache has rules of its own as resources, so that one more of the customer's is not taken away again.
- **A changed token** is added before the old one goes (`ROTATE`): workers that started with the old one go on.
- **A failover keeps the name.** `primary_endpoint_address` follows the primary; the address of a node would not. The
  copy to the standby is not synchronous: jobs of the last instants may be missing, which the controller distrusts as
  it does any other restart.
- **What the controller asks** is not among the commands that AWS withholds (ElastiCache User Guide, "Restricted
  commands": `config`, `debug`, `migrate`, `replicaof`, `save` and their like).

Sources: ElastiCache User Guide, "Supported engines" for the version and "Authenticating with AUTH" for the token;
API reference, `CreateReplicationGroup`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.elasticache import ParameterGroup, ReplicationGroup, SubnetGroup
from pulumi_aws.vpc import SecurityGroupIngressRule

from components.aws.cache_windows import CacheWindows
from components.aws.ec2 import SecurityGroup
from components.context import StackContext
from components.pods.redis_access import PORT
from ebbtide.settings.sections.redis import RedisSettings

ENGINE = "valkey"
ENGINE_VERSION = "8.1"  # as in the cluster
FAMILY = "valkey8"
SNAPSHOT_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class ElastiCacheArgs:
    stack: StackContext
    settings: RedisSettings
    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    clients: pulumi.Input[str | None]  # the security group of nodes and pods
    token: pulumi.Input[str] | None  # None in a preview without secrets: the settings demand one
    windows: CacheWindows | None


class ElastiCache(pulumi.ComponentResource):
    """A primary and its standbys, which only the cluster may reach."""

    host: pulumi.Output[str]

    def __init__(self, name: str, args: ElastiCacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:ElastiCache", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        cache = self._cache(self._subnets(), self._parameters(), self._guard())
        self.host = cache.primary_endpoint_address
        self.register_outputs({"host": self.host})

    def _cache(self, subnets: SubnetGroup, parameters: ParameterGroup, guard: SecurityGroup) -> ReplicationGroup:
        args, standby = self._args, self._args.settings.standbys > 0
        return ReplicationGroup(
            f"{self._name}-queues",
            description=f"Queues of {args.stack.customer}",
            engine=ENGINE,
            engine_version=ENGINE_VERSION,
            auto_minor_version_upgrade=False,  # another minor is another client's test: it comes with a release
            node_type=args.settings.cache_node,
            num_cache_clusters=1 + args.settings.standbys,
            automatic_failover_enabled=standby,
            multi_az_enabled=standby,
            parameter_group_name=parameters.name,
            port=PORT,
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            auth_token=pulumi.Output.secret("" if args.token is None else args.token),
            auth_token_update_strategy="ROTATE",
            subnet_group_name=subnets.name,
            security_group_ids=[guard.id],
            maintenance_window=args.windows.maintenance if args.windows else None,
            snapshot_window=args.windows.snapshot if args.windows else None,
            snapshot_retention_limit=SNAPSHOT_DAYS,
            # A name for each creation: AWS refuses to delete a cache into a snapshot that exists.
            final_snapshot_identifier=subnets.name.apply(lambda unique: f"{unique}-last")
            if args.settings.kept
            else None,
            tags=self._tags("queues"),
            opts=self._child,
        )

    def _subnets(self) -> SubnetGroup:
        return SubnetGroup(
            f"{self._name}-subnets",
            description=f"Private subnets of {self._args.stack.customer}",
            subnet_ids=self._args.subnet_ids,
            tags=self._tags("queues-subnets"),
            opts=self._child,
        )

    def _parameters(self) -> ParameterGroup:
        return ParameterGroup(
            f"{self._name}-parameters",
            description=f"Queues of {self._args.stack.customer}: nothing is evicted",
            family=FAMILY,
            parameters=[{"name": "maxmemory-policy", "value": "noeviction"}],
            tags=self._tags("queues-parameters"),
            opts=self._child,
        )

    def _guard(self) -> SecurityGroup:
        args = self._args
        guard = SecurityGroup(
            f"{self._name}-guard",
            description=f"Queues of {args.stack.customer}: from the cluster alone",
            vpc_id=args.vpc_id,
            tags=self._tags("queues"),
            opts=self._child,
        )
        SecurityGroupIngressRule(
            f"{self._name}-from-cluster",
            security_group_id=guard.id,
            description="Redis from nodes and pods",
            referenced_security_group_id=args.clients,
            ip_protocol="tcp",
            from_port=PORT,
            to_port=PORT,
            tags=self._tags("queues-from-cluster"),
            opts=self._child,
        )
        return guard

    def _tags(self, part: str) -> dict[str, str]:
        return {"Name": f"{self._args.stack.customer}-{part}", **self._args.stack.tags}
