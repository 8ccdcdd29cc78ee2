"""Inputs whose change makes the provider replace a resource instead of updating it, and the order of a replacement.

Sources: pulumi-kubernetes `provider/pkg/provider/diff.go` (July 2026) for objects of the cluster, where a new name or
namespace always replaces; the arguments that hashicorp/terraform-provider-aws marks as forcing a new resource, for AWS:
`ForceNew` or `RequiresReplace` in the resource's file below internal/service, such as elasticache/subnet_group.go and
ec2/vpc_security_group_ingress_rule.go. The latter also replaces a rule whose kind of source changes, from a range of
addresses to a group. No list of paths can express that, and Ebbtide's rules never do it.

Usually the new resource is created before the old one is deleted. If both have the same name, the Kubernetes provider
deletes first (`provider/pkg/provider/provider.go`, `Diff`). The AWS provider deletes first if the name was set although
it could be generated, changed or not (pulumi-terraform-bridge `pkg/tfbridge/schema.go`,
`nameRequiresDeleteBeforeReplace`).

Trap: a type that is not listed counts as never replaced. Tests compare the list with all types that a stack registers.
"""

from collections.abc import Mapping, Sequence

from ebbtide.recording.resources import Resource
from ebbtide.recording.values import value_at

_METADATA = ("metadata.name", "metadata.namespace")
_KUBERNETES: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "StatefulSet": (
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
    ),
    "Job": ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    "Service": ("spec.clusterIP",),
    "Secret": ("type", "data", "stringData"),
    "ConfigMap": ("data", "binaryData"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "StorageClass": ("parameters", "provisioner"),
}
_MUTABLE = {"Secret": "enableSecretMutable", "ConfigMap": "enableConfigMapMutable"}
"""Options of the provider that make it update the data of these objects in place."""

_AWS: Mapping[str, tuple[str, ...]] = {
    "autoscaling/tag:Tag": ("autoscalingGroupName", "tag.key"),
    "cloudwatch/logGroup:LogGroup": ("name", "namePrefix"),
    "dlm/lifecyclePolicy:LifecyclePolicy": (),
    "ec2/eip:Eip": ("domain",),
    "ec2/flowLog:FlowLog": (
        "vpcId",
        "logDestination",
        "logDestinationType",
        "iamRoleArn",
        "trafficType",
        "maxAggregationInterval",
    ),
    "ec2/defaultSecurityGroup:DefaultSecurityGroup": ("vpcId",),
    "ec2/internetGateway:InternetGateway": (),
    "ec2/launchTemplate:LaunchTemplate": ("name", "namePrefix"),
    "ec2/natGateway:NatGateway": ("subnetId", "allocationId", "connectivityType"),
    "ec2/route:Route": ("routeTableId", "destinationCidrBlock"),
    "ec2/routeTable:RouteTable": ("vpcId",),
    "ec2/routeTableAssociation:RouteTableAssociation": ("subnetId",),
    "ec2/securityGroup:SecurityGroup": ("name", "namePrefix", "vpcId", "description"),
    "ec2/subnet:Subnet": ("vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId"),
    "ec2/vpc:Vpc": ("cidrBlock",),
    "ec2/vpcEndpoint:VpcEndpoint": ("vpcId", "serviceName", "vpcEndpointType"),
    "eks/accessEntry:AccessEntry": ("clusterName", "principalArn", "type"),
    "eks/accessPolicyAssociation:AccessPolicyAssociation": ("clusterName", "policyArn", "principalArn", "accessScope"),
    "eks/addon:Addon": ("clusterName", "addonName"),
    "eks/cluster:Cluster": (
        "name",
        "roleArn",
        "bootstrapSelfManagedAddons",
        "encryptionConfig",
        "kubernetesNetworkConfig.ipFamily",
        "kubernetesNetworkConfig.serviceIpv4Cidr",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "outpostConfig",
    ),
    "eks/nodeGroup:NodeGroup": (
        "amiType",
        "capacityType",
        "clusterName",
        "diskSize",
        "instanceTypes",
        "launchTemplate.id",
        "launchTemplate.name",
        "nodeGroupName",
        "nodeGroupNamePrefix",
        "nodeRoleArn",
        "remoteAccess",
        "subnetIds",
    ),
    "eks/podIdentityAssociation:PodIdentityAssociation": ("clusterName", "namespace", "serviceAccount"),
    "elasticache/parameterGroup:ParameterGroup": ("name", "family", "description"),
    "elasticache/replicationGroup:ReplicationGroup": (
        "replicationGroupId",
        "atRestEncryptionEnabled",
        "dataTieringEnabled",
        "globalReplicationGroupId",
        "kmsKeyId",
        "networkType",
        "port",
        "snapshotArns",
        "snapshotName",
        "subnetGroupName",
    ),
    "elasticache/subnetGroup:SubnetGroup": ("name",),
    "iam/role:Role": ("name", "namePrefix", "path"),
    "iam/rolePolicy:RolePolicy": ("name", "namePrefix", "role"),
    "iam/rolePolicyAttachment:RolePolicyAttachment": ("role", "policyArn"),
    "kms/key:Key": ("customerMasterKeySpec", "keyUsage", "multiRegion"),
    "vpc/securityGroupIngressRule:SecurityGroupIngressRule": ("securityGroupId",),
}


def is_listed(type_: str) -> bool:
    """True if the replacing inputs of this type are known, as they are for every Kubernetes type."""
    return not type_.startswith("aws:") or type_.removeprefix("aws:") in _AWS


def forcing_paths(type_: str, mutable: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Paths of the inputs whose change replaces a resource of this type."""
    if type_.startswith("aws:"):
        return _AWS.get(type_.removeprefix("aws:"), ())
    if not type_.startswith("kubernetes:"):
        return ()
    kind = type_.split(":")[-1]
    if kind in mutable:
        return (*_METADATA, "type") if kind == "Secret" else _METADATA
    return (*_METADATA, *_KUBERNETES.get(kind, ()))


def mutable_kinds(resources: Sequence[Resource]) -> frozenset[str]:
    """The kinds whose data every Kubernetes provider of the stack updates in place."""
    options = [r.inputs for r in resources if r.type == "pulumi:providers:kubernetes"]
    return frozenset(kind for kind, option in _MUTABLE.items() if all(i.get(option) in (True, "true") for i in options))


def replacing_paths(before: Resource, after: Resource, mutable: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The changed paths that replace the resource; none if it is updated or unchanged."""
    if before.type != after.type:  # matched by an alias
        return ("kind",)
    return tuple(
        path
        for path in forcing_paths(after.type, mutable)
        if path not in after.ignore_changes and value_at(before.inputs, path) != value_at(after.inputs, path)
    )


def goes_first(before: Resource, after: Resource) -> bool:
    """True if a replacement deletes the old resource before it creates the new one, so that for a while none exists."""
    if after.type.startswith("kubernetes:"):
        names = [[value_at(side.inputs, path) for path in _METADATA] for side in (before, after)]
        return names[0][0] is not None and names[0] == names[1]
    return after.type.startswith("aws:") and bool(after.inputs.get("name"))
