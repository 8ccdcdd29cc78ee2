"""The customer's half of a stack: the namespaces and all that lives in them, on whatever cluster there is.

Nothing here knows who made the cluster. Workloads come after their namespaces and Redis, and last the controller that
sizes them; a destroy runs the same graph backwards.
"""

from dataclasses import dataclass
from typing import TypeAlias

import pulumi

from components.controller import Controller, ControllerArgs
from components.egress import Egress, egress_of
from components.evictions import Evictions, EvictionsArgs
from components.images import ImageSource, image_source
from components.namespaces import Namespaces, NamespacesArgs
from components.network_policies import NetworkPolicies, NetworkPoliciesArgs
from components.ownership import OwnershipTable
from components.redis import IMAGE as REDIS_IMAGE
from components.redis import Redis, RedisArgs
from components.worker_pool import WorkerPool, WorkerPoolArgs
from components.workload import Workload, WorkloadArgs
from ebbtide.settings.controller import CONTROLLER_IMAGE
from ebbtide.settings.controller_document import controller_config
from ebbtide.settings.grace import grace_seconds
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import home_kind
from ebbtide.settings.redis import RedisKind
from infra.foundation import Foundation

Password: TypeAlias = pulumi.Input[str] | None


def customer_half(
    settings: StackSettings, on: Foundation, ownership: OwnershipTable, password: Password
) -> pulumi.Output[str]:
    """Build the customer's half; what the controller was told about it."""
    return _Half(settings, on, ownership).build(password)


@dataclass(frozen=True)
class _Half:
    settings: StackSettings
    on: Foundation
    ownership: OwnershipTable

    @property
    def _images(self) -> ImageSource:
        return image_source(self.settings.images)

    @property
    def _egress(self) -> Egress:
        return egress_of(self.settings)

    def build(self, password: Password) -> pulumi.Output[str]:
        settings = self.settings
        parts = NamespacesArgs(customer=settings.customer, egress=self._egress)
        spaces = Namespaces("namespaces", parts, self._after())
        system, workers = spaces.system.metadata.name, spaces.workers.metadata.name
        redis = Redis(
            "redis",
            RedisArgs(
                settings=settings.redis,
                namespace=system,
                worker_namespace=workers,
                customer=settings.customer,
                password=password,
                image=self._images.chosen(settings.images.redis, REDIS_IMAGE),
                images=self._images,
                on_ebs=self.on.aws is not None,
                cache_host=self.on.cache_host,
            ),
            self._after(spaces),
        )
        policies = self._policies(spaces, redis.endpoint.port)
        graces = {name: grace_seconds(pool.longest_job) for name, pool in settings.workers.items()}
        evictions = Evictions("evictions", EvictionsArgs(namespace=workers, graces=graces), self._after(spaces))
        sized = [
            *self._workloads(system, self._after(spaces, redis, policies)),
            *self._pools(workers, redis, self._after(spaces, redis, policies, evictions)),
        ]
        return Controller(
            "controller",
            ControllerArgs(
                config=controller_config(settings, redis.endpoint),
                image=self._controller_image(),
                namespace=system,
                worker_namespace=workers,
                replicas=settings.controller.replicas,
                redis_host=self.on.cache_host,
                redis_authority=redis.authority,
                images=self._images,
                egress=self._egress,
            ),
            # Last to come and first to go: on its way out it closes the budgets, which must still be there.
            self._after(spaces, redis, policies, *sized),
        ).document

    def _after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            providers=[self.on.provider],
            depends_on=[*self.on.ready, *resources],
            transformations=[*self.on.transformations],
        )

    def _policies(self, spaces: Namespaces, redis_port: int) -> NetworkPolicies:
        settings, way_out = self.settings, self._egress
        args = NetworkPoliciesArgs(
            namespace=spaces.system.metadata.name,
            worker_namespace=spaces.workers.metadata.name,
            redis_port=redis_port,
            redis_inside=settings.redis.kind is RedisKind.IN_CLUSTER,
            allow=settings.egress.allow,
            proxies=[address for address in (way_out.http_proxy, way_out.https_proxy) if address is not None],
        )
        return NetworkPolicies("network-policies", args, self._after(spaces))

    def _controller_image(self) -> str:
        own = self.settings.controller.image
        return self._images.chosen(None if own == CONTROLLER_IMAGE else own, CONTROLLER_IMAGE)

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
                    images=self._images,
                    egress=self._egress,
                ),
                options,
            )
            for name, workload in self.settings.workloads.items()
        ]

    def _pools(
        self, namespace: pulumi.Input[str], redis: Redis, options: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        return [
            WorkerPool(
                name,
                WorkerPoolArgs(
                    name=name,
                    namespace=namespace,
                    settings=pool,
                    customer=self.settings.customer,
                    redis=redis.endpoint,
                    redis_host=self.on.cache_host,
                    redis_authority=redis.authority,
                    ownership=self.ownership,
                    images=self._images,
                    egress=self._egress,
                ),
                options,
            )
            for name, pool in self.settings.workers.items()
        ]
