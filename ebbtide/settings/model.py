"""The typed stack file: one frozen model per concern, parsed once; everything after trusts the types.

Keys in the file are camelCase. Durations are `timedelta`, CPU is millicores, memory is MiB, dates are resolved. What
one section can know of itself is checked in the section's own module, by the field's type or by the model's `checks`;
what takes two sections is in `crosschecks`.
"""

from pydantic import Field

from ebbtide.settings.business_hours import BusinessHoursSettings
from ebbtide.settings.checked import Settings
from ebbtide.settings.cluster import ClusterSettings
from ebbtide.settings.controller import ControllerSettings
from ebbtide.settings.costs import CostSettings
from ebbtide.settings.egress import EgressSettings
from ebbtide.settings.exceptions import PolicyException
from ebbtide.settings.images import ImageSettings
from ebbtide.settings.network import NetworkSettings
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.settings.redis import RedisSettings
from ebbtide.settings.types import Name, ShortName
from ebbtide.settings.workers import WorkerSettings
from ebbtide.settings.workloads import WorkloadSettings


class StackSettings(Settings):
    """One customer's stack, whole."""

    stack: str
    region: str
    customer: ShortName = Field(
        description="the customer's short name: the cluster's name, and a tag on all that takes tags", examples=["acme"]
    )
    business_hours: BusinessHoursSettings
    network: NetworkSettings = NetworkSettings()
    cluster: ClusterSettings = ClusterSettings()
    node_groups: dict[ShortName, NodeGroupSettings]
    images: ImageSettings = ImageSettings()
    egress: EgressSettings = EgressSettings()
    redis: RedisSettings = RedisSettings()
    controller: ControllerSettings = ControllerSettings()
    workloads: dict[Name, WorkloadSettings] = Field(default={})
    workers: dict[Name, WorkerSettings]
    costs: CostSettings = CostSettings()
    exceptions: tuple[PolicyException, ...] = Field(
        default=(), description="policies that do not count for a resource, each with a reason and a last day"
    )
    redis_password_set: bool = False  # whether ebbtide:redisPassword is there; its value is never read here

    @property
    def place(self) -> str:
        """Where it runs, in a word or two: a region of AWS, or the context that leads to a cluster."""
        return self.region if self.cluster.context is None else f"context {self.cluster.context}"
