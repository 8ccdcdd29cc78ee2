"""The typed stack file: one frozen model per concern, validated once; all later code trusts the types.

Keys in the file are camelCase. Durations are `timedelta`, CPU is millicores, memory is MiB, dates are resolved. A
section's own rules are in its module, as types of fields or as `checks` of the model; rules across sections are in
`crosschecks`.
"""

from collections.abc import Mapping

from pydantic import Field

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.settings.sections.brokers import BrokerSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.checked import Settings
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.controller import ControllerSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.egress import EgressSettings
from ebbtide.settings.sections.exceptions import PolicyException
from ebbtide.settings.sections.images import ImageSettings
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.settings.sections.monitoring import MonitoringSettings
from ebbtide.settings.sections.network import NetworkSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings, shape_name
from ebbtide.settings.sections.ray import RaySettings
from ebbtide.settings.sections.redis import RedisSettings
from ebbtide.settings.sections.rollout import RolloutSettings
from ebbtide.settings.sections.secrets import SecretKeys
from ebbtide.settings.sections.serving.gateway import ServingSettings
from ebbtide.settings.sections.serving.services import ServiceSettings, served_workloads
from ebbtide.settings.sections.sleep import SleepTimes
from ebbtide.settings.sections.types import Name, ShortName
from ebbtide.settings.sections.workers import PoolSettings, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings


class StackSettings(Settings):
    """One customer's complete stack."""

    stack: str
    region: str
    customer: ShortName = Field(
        description="short name of the customer; also the cluster's name and a tag on every resource", examples=["acme"]
    )
    business_hours: BusinessHoursSettings
    network: NetworkSettings = NetworkSettings()
    cluster: ClusterSettings = ClusterSettings()
    node_groups: dict[ShortName, NodeGroupSettings]
    images: ImageSettings = ImageSettings()
    egress: EgressSettings = EgressSettings()
    redis: RedisSettings = RedisSettings()
    brokers: dict[ShortName, BrokerSettings] = Field(
        default={},
        description="existing message brokers with queues of pools, by name",
        examples=['{ jobs: { kind: rabbitmq, url: "amqps://mq.example.com:5671/prod", … } }'],
    )
    secrets: dict[Name, SecretKeys] = Field(
        default={},
        description="Secrets of the stack by name, each with its keys and an encrypted value for each of them; set "
        "with: pulumi config set --secret --path 'ebbtide:secrets.NAME.KEY'",
        examples=["{ api: { TOKEN: { secure: PLACEHOLDER } } }"],
    )
    controller: ControllerSettings = ControllerSettings()
    workloads: dict[Name, WorkloadSettings] = Field(default={})
    workers: dict[Name, WorkerSettings]
    jobs: dict[Name, JobSettings] = Field(default={})
    cron_jobs: dict[Name, CronJobSettings] = Field(default={})
    ray: dict[ShortName, RaySettings] = Field(default={})
    services: dict[ShortName, ServiceSettings] = Field(default={})
    adopted: dict[Name, AdoptedSettings] = Field(
        default={},
        description="rules for pods that charts, operators and other tools create in the team's own namespaces",
        examples=["{ hub: { namespace: jupyter, selector: { app: hub }, category: fixed, replicas: 1, … } }"],
    )
    serving: ServingSettings = ServingSettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    costs: CostSettings = CostSettings()
    rollout: RolloutSettings = RolloutSettings()
    exceptions: tuple[PolicyException, ...] = Field(
        default=(), description="exceptions from policies for single resources, each with a reason and a last day"
    )
    region_set: bool = False  # True if the file has aws:region; `region` then has no default
    redis_password_set: bool = False  # True if the file has ebbtide:redisPassword; its value is never read here

    @property
    def all_workloads(self) -> Mapping[str, WorkloadSettings]:
        """Return the workloads and the pods of services, by name."""
        return {**self.workloads, **dict(served_workloads(self.services))}

    @property
    def sleeps(self) -> Mapping[str, SleepTimes]:
        """Return the key `sleep` of workloads, pods of services, and rules for adopted pods, by name."""
        entries = {**self.all_workloads, **self.adopted}
        return {name: entry.sleep for name, entry in entries.items() if entry.sleep is not None}

    @property
    def autoscaled_groups(self) -> Mapping[str, NodeGroupSettings]:
        """Return the groups that the cluster autoscaler provides."""
        return {name: group for name, group in self.node_groups.items() if not group.by_karpenter}

    @property
    def karpenter_groups(self) -> Mapping[str, NodeGroupSettings]:
        """Return the groups that Karpenter provides."""
        return {name: group for name, group in self.node_groups.items() if group.by_karpenter}

    @property
    def by_type(self) -> "StackSettings":
        """Return the stack with a further group for each instance type of Karpenter's groups, for nodes in replays."""
        further = {
            shape_name(name, kind): group.of_type(kind)
            for name, group in self.karpenter_groups.items()
            for kind in group.types
        }
        return self.model_copy(update={"node_groups": {**self.node_groups, **further}}) if further else self

    def on_spot(self, pool: WorkerSettings) -> bool:
        """True if the pool runs on spot nodes of this stack. Nodes of existing clusters are unknown."""
        group = self.node_groups.get(pool.node_group)
        return group is not None and group.kind is NodeKind.SPOT

    def stopped_together(self, pool: WorkerSettings) -> bool:
        """True if all workers of a node stop together before it is reclaimed: a save fits the two minutes' notice."""
        return pool.must_save and self.on_spot(pool)

    def groups_of(self, pool: WorkerSettings) -> tuple[str, ...]:
        """Return the node groups of a pool's workers: its own, then its fallback."""
        return (pool.node_group, pool.fallback) if pool.fallback else (pool.node_group,)

    def broker_of(self, pool: PoolSettings) -> BrokerSettings | None:
        """Return the broker that holds the queues of the pool; None: Redis holds them."""
        return None if pool.source.broker is None else self.brokers[pool.source.broker]

    @property
    def pools_on_sqs(self) -> tuple[PoolSettings, ...]:
        """Return the pools, adopted ones too, whose queues are in SQS."""
        pools = [*self.workers.values(), *(rule.pool for rule in self.adopted.values() if rule.pool is not None)]
        return tuple(pool for pool in pools if (broker := self.broker_of(pool)) is not None and broker.on_sqs)

    def gets_rights_on_queues(self, pool: WorkerSettings) -> bool:
        """True if the stack grants the pool's pods their queues in SQS: no existing account or role does."""
        broker = self.broker_of(pool)
        existing = self.cluster.context or pool.service_account or (pool.aws and pool.aws.role)
        return broker is not None and broker.on_sqs and not existing

    @property
    def budgeted_node_pools(self) -> tuple[str, ...]:
        """Return the names of Karpenter's NodePools whose disruption budgets the workload controller writes."""
        existing = (name for names in self.cluster.node_pools.values() for name in names)
        return tuple(sorted(existing if self.cluster.context is not None else self.karpenter_groups))

    @property
    def stated_region(self) -> str:
        """Return the AWS region: that of the file, or of an existing cluster's ARN, if its context is one.

        "" for other existing clusters without `aws:region`: the default would be a guess.
        """
        if self.region_set or self.cluster.context is None:
            return self.region
        return "" if self.cluster.arn is None else self.cluster.arn["region"]

    @property
    def place(self) -> str:
        """Return the AWS region or the context of an existing cluster, for messages."""
        return self.region if self.cluster.context is None else f"context {self.cluster.context}"
