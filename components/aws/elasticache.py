"""The queues in ElastiCache, with a standby in another zone.

- **One keyspace.** RQ moves a job between keys in one command, which a sharded cache refuses. So cluster mode stays
  off, and serverless caches, which are sharded, are not supported.
- **No eviction.** AWS's default evicts keys with an expiry when the memory is full, so the parameter group sets
  `noeviction`. AWS reserves a quarter of each node's memory for snapshots and failover.
- **Clients.** Only members of the cluster's security group (nodes and their pods) can connect, and only with the token.
  The rules of the cache's security group are separate resources, so that `up` does not remove a rule that the customer
  adds.
- **A changed token** is added before the old one is removed (`ROTATE`), so running workers keep their connection.
- **Failover.** `primary_endpoint_address` follows the primary; the address of a node would not. Replication is
  asynchronous: jobs of the last moments may be missing, so the controller distrusts the queues, as after a restart.
- **Commands.** The controller uses none of the commands that AWS restricts (ElastiCache User Guide, "Restricted
  commands": `config`, `debug`, `migrate`, `replicaof`, `save` and similar).

**Maintenance window**: a closed hour of the week in UTC. It may not overlap with the window of the daily snapshot,
which is the following hour. A snapshot is taken every day, even on nights when people work: it uses a standby, so it
affects only a cache without one. AWS ignores clock changes, so a window chosen in winter is an hour later on the local
clock in summer; therefore the hours before and after are closed as well. Sunday night is preferred, because a customer
who is closed at all is closed then. Holidays are ignored: they change every year, and a changed window is a change of
the stack.

Sources: ElastiCache User Guide, "Supported engines" for the version and "Authenticating with AUTH" for the token;
API reference, `CreateReplicationGroup`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pulumi
from pulumi_aws.elasticache import ParameterGroup, ReplicationGroup, SubnetGroup
from pulumi_aws.vpc import SecurityGroupIngressRule

from components.aws.ec2 import SecurityGroup
from components.context import StackContext
from components.pods.redis_access import PORT
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.redis import RedisSettings
from ebbtide.vocabulary.windows import zone_of

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PREFERRED_DAYS = (6, 5, 0, 1, 2, 3, 4)
_PREFERRED_HOURS = (2, 3, 1, 4, 0, 23, 22, 5, 21, 20, 6, 19, *range(7, 19))
_WINTER, _SUMMER = datetime(2026, 1, 15), datetime(2026, 7, 15)  # noqa: DTZ001 - only to look up a zone's offset
_HOUR, _WEEK = 60, 7 * 24 * 60  # minutes
_MARGIN = 60


@dataclass(frozen=True, slots=True)
class CacheWindows:
    maintenance: str  # sun:01:00-sun:02:00
    snapshot: str  # 02:00-03:00


def cache_windows(hours: BusinessHoursSettings) -> CacheWindows | None:
    """Return None if no hour of the week has closed hours before and after it: then AWS chooses."""
    local = next((start for start in _candidates() if _closed(start - _MARGIN, start + _HOUR + _MARGIN, hours)), None)
    if local is None:
        return None
    start = (local - _offset(hours.timezone)) % _WEEK
    return CacheWindows(
        maintenance=f"{_weekly(start)}-{_weekly(start + _HOUR)}",
        snapshot=f"{_daily(start + _HOUR)}-{_daily(start + 2 * _HOUR)}",
    )


def _candidates() -> Iterator[int]:
    """Return possible starts in the order of preference, in minutes since the local week's Monday 00:00."""
    return ((day * 24 + hour) * _HOUR for day in _PREFERRED_DAYS for hour in _PREFERRED_HOURS)


def _closed(start: int, end: int, hours: BusinessHoursSettings) -> bool:
    """Return True if the interval overlaps with no business hours. An interval of Sunday night ends on Monday."""
    for interval in hours.week:
        opens = interval.weekday * 24 * _HOUR + interval.start
        closes = opens + interval.end - interval.start
        if any(start < closes + shift and opens + shift < end for shift in (-_WEEK, 0, _WEEK)):
            return False
    return True


def _offset(timezone: str) -> int:
    """Return the minutes ahead of UTC outside summer time."""
    zone = zone_of(timezone)
    offsets = [zone.utcoffset(when) or timedelta() for when in (_WINTER, _SUMMER)]
    return int(min(offsets).total_seconds()) // 60


def _weekly(minutes: int) -> str:
    return f"{_DAYS[minutes % _WEEK // (24 * _HOUR)]}:{_daily(minutes)}"


def _daily(minutes: int) -> str:
    hours, remainder = divmod(minutes % (24 * _HOUR), _HOUR)
    return f"{hours:02}:{remainder:02}"


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
    token: pulumi.Input[str] | None  # None in a preview without secrets; the settings require one
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
            auto_minor_version_upgrade=False,  # clients are tested with one minor; a release of Ebbtide changes it
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
            # Each creation has a new name: AWS refuses a final snapshot whose name exists.
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
