"""The namespaces of Ray clusters, one for each cluster.

Ray's autoscaler may patch pods and RayClusters in the namespace of its head. In a shared namespace it could remove a
pod of another workload from its budget.

The namespaces are created before the Secrets of their pods, which are created before any pod, including the operator's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components.cluster.namespaces import restricted_namespace
from components.context import StackContext
from components.pods.egress import ca_bundle
from ebbtide.settings.sections.ray import RaySettings, namespace_of_ray


@dataclass(frozen=True, kw_only=True)
class RaySpacesArgs:
    stack: StackContext
    clusters: Mapping[str, RaySettings]


class RaySpaces(pulumi.ComponentResource):
    names: Mapping[str, pulumi.Output[str]]  # by cluster

    def __init__(self, name: str, args: RaySpacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:RaySpaces", name, None, opts)
        spaces = {
            cluster: restricted_namespace(
                f"{name}-{cluster}",
                namespace_of_ray(cluster),
                args.stack.customer,
                parent=self,
                timeouts=deletion_timeout(settings),
            )
            for cluster, settings in args.clusters.items()
        }
        self.names = {cluster: space.metadata.name for cluster, space in spaces.items()}
        for cluster, namespace in self.names.items():
            ca_bundle(f"{name}-{cluster}-ca-bundle", args.stack.egress, namespace, parent=self)
        self.register_outputs({})


def deletion_timeout(settings: RaySettings) -> pulumi.CustomTimeouts:
    """Pods of Ray have as long as their longest task to go, and what holds them goes after them."""
    return pulumi.CustomTimeouts(delete=f"{settings.deleted_within.total_seconds():.0f}s")
