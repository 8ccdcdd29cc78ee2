"""The settings, the cluster and the context that all parts of a stack share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulumi

from components.aws.savings import cost_tags
from components.cluster.namespaces import Namespaces
from components.context import StackContext
from components.pods.entrance import Balancing
from components.pods.rules import NodeRequirement, labelled_memory, one_of_groups
from ebbtide.settings.capacity.placement import takes
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.aws import AwsRights
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings


@dataclass(frozen=True, kw_only=True)
class Foundation:
    cluster_name: pulumi.Input[str]
    provider: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource] = ()
    """Resources that must exist for as long as the customer has pods, such as nodes and add-ons."""
    aws: pulumi.ProviderResource | None = None
    """The AWS provider; only on EKS."""
    cache_host: pulumi.Input[str] | None = None
    """The address of ElastiCache, if the stack file requests it."""
    definitions: pulumi.ProviderResource | None = None
    """The provider for CustomResourceDefinitions, on EKS. It takes over definitions that a removed part left behind."""
    transformations: Sequence[pulumi.ResourceTransformation] = ()
    """Applied to every object of the in-cluster half, on a cluster whose owner chose the node labels."""


@dataclass(frozen=True, kw_only=True)
class Site:
    settings: StackSettings
    cluster: Foundation
    stack: StackContext

    def within(self, spaces: Namespaces) -> "Site":
        """Return the same site with components in these namespaces."""
        names = {"namespace": spaces.system.metadata.name, "worker_namespace": spaces.workers.metadata.name}
        return replace(self, stack=replace(self.stack, **names))

    @property
    def on_eks(self) -> bool:
        return self.cluster.aws is not None

    @property
    def balancing(self) -> Balancing:
        """Load balancers find subnets by tags. An existing VPC has no such tags, so its subnets are listed."""
        vpc = self.settings.network.vpc
        subnets = () if vpc is None else [vpc.private_subnets[zone] for zone in self.settings.cluster.zones]
        return Balancing(tags=cost_tags(self.settings), subnets=subnets)

    def after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return options for a component that depends on the cluster and these resources."""
        return pulumi.ResourceOptions(
            providers=[self.cluster.provider],
            depends_on=[*self.cluster.ready, *resources],
            transformations=[*self.cluster.transformations],
        )

    def with_role(
        self, kind: str, name: str, pod: PodSettings, namespace: str, options: pulumi.ResourceOptions
    ) -> pulumi.ResourceOptions:
        """Return options that also depend on the AWS role of the component's pods, if the stack file requests one."""
        return options if pod.aws is None else self.with_rights(kind, name, pod.aws, namespace, options)

    def with_rights(
        self, kind: str, name: str, rights: AwsRights, namespace: str, options: pulumi.ResourceOptions
    ) -> pulumi.ResourceOptions:
        """As `with_role`. EKS injects credentials only when it creates a pod, so the role must exist before."""
        if self.cluster.aws is None:
            return options
        # Imported here, since a stack on an existing cluster runs without pulumi_aws.
        from components.aws.iam import PodAccount, PodRole, PodRoleArgs

        account = PodAccount(cluster_name=self.settings.customer, namespace=namespace, service_account=name)
        # Fewer than 57 characters, since AWS allows 64 and Pulumi adds 8.
        role = PodRole(
            f"{kind}-{name}-role",
            PodRoleArgs(stack=self.stack, account=account, rights=rights),
            pulumi.ResourceOptions(providers=[self.cluster.aws], depends_on=[*self.cluster.ready]),
        )
        return following(options, role)

    def nodes_of(self, pod: PodSettings) -> NodeRequirement | None:
        """Require the two groups of a pool with a fallback, or nodes whose GPUs have the memory that a pod requests.

        Other pools and jobs of a stack on EKS need no requirement: they select one node group, whose memory `check`
        compares.
        """
        if isinstance(pod, WorkerSettings) and pod.fallback:
            return one_of_groups(self.settings.groups_of(pod))
        if pod.gpu.memory is None:
            return None
        if not self.on_eks:
            return labelled_memory(pod.gpu.memory)
        if not isinstance(pod, WorkloadSettings):
            return None
        return one_of_groups(name for name, group in self.settings.node_groups.items() if takes(group, pod))


def following(options: pulumi.ResourceOptions, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
    """Return the options with further dependencies."""
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[*resources]))
