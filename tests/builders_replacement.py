"""Which changed inputs make the provider replace a resource instead of updating it, and what two recordings say of it.

Sources: pulumi-kubernetes `provider/pkg/provider/diff.go` (July 2026) for objects of the cluster, where a name or a
namespace always forces; the arguments of terraform-provider-aws 6 that are marked "Forces new resource", for AWS. Types
that are not listed here fail the tests, so that nobody forgets one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ebbtide.preview.resources import Resource
from tests.builders_mutants import sound_config

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
    "Service": ("spec.clusterIP",),
    "Secret": ("type", "data", "stringData"),
    "ConfigMap": ("data", "binaryData"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "StorageClass": ("parameters", "provisioner"),
}
_MUTABLE = {"Secret": "enableSecretMutable", "ConfigMap": "enableConfigMapMutable"}
"""With this on the provider, the data of such an object is updated in place."""

_AWS: Mapping[str, tuple[str, ...]] = {
    "autoscaling/tag:Tag": ("autoscalingGroupName", "tag.key"),
    "cloudwatch/logGroup:LogGroup": ("name", "namePrefix"),
    "ec2/eip:Eip": ("domain",),
    "ec2/flowLog:FlowLog": ("vpcId", "logDestination", "iamRoleArn", "trafficType", "maxAggregationInterval"),
    "ec2/internetGateway:InternetGateway": (),
    "ec2/launchTemplate:LaunchTemplate": ("name", "namePrefix"),
    "ec2/natGateway:NatGateway": ("subnetId", "allocationId", "connectivityType"),
    "ec2/route:Route": ("routeTableId", "destinationCidrBlock"),
    "ec2/routeTable:RouteTable": ("vpcId",),
    "ec2/routeTableAssociation:RouteTableAssociation": ("subnetId",),
    "ec2/securityGroup:SecurityGroup": ("name", "namePrefix", "vpcId", "description"),
    "ec2/subnet:Subnet": ("vpcId", "cidrBlock", "availabilityZone"),
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
    "iam/role:Role": ("name", "namePrefix", "path"),
    "iam/rolePolicy:RolePolicy": ("name", "namePrefix", "role"),
    "iam/rolePolicyAttachment:RolePolicyAttachment": ("role", "policyArn"),
    "kms/key:Key": ("customerMasterKeySpec", "keyUsage", "multiRegion"),
}


_SIZE = {"image": "registry.example.com/ml/one:1", "cpu": 1, "memory": "2Gi"}


def one_of_each() -> dict[str, Any]:
    """What stands below `config:` of a small customer with a pod of each kind."""
    pools = sound_config("shortest")["ebbtide:workers"]
    return {
        **sound_config("shortest"),
        "ebbtide:cluster": {"zones": ["a", "b"]},
        "ebbtide:nodeGroups": {
            "fixed": {"instanceTypes": ["m7i.2xlarge"], "min": 2, "max": 6},
            "flexible": {"instanceTypes": ["m7i.4xlarge", "m6i.4xlarge"], "max": 20},
        },
        "ebbtide:workloads": {
            "head": {**_SIZE, "category": "fixed"},
            "store": {**_SIZE, "category": "fixed", "kind": "stateful-set"},
            "api": {**_SIZE, "category": "flexible", "replicas": 3},
        },
        "ebbtide:workers": {**pools, "prep": {**pools["train"], "source": {"queues": ["prep"]}}},
    }


def replaced(before: Sequence[Resource], after: Sequence[Resource]) -> list[str]:
    """`name: path` for every resource of both whose change could not be made in place."""
    mutable = _mutable_kinds(after)
    old = {resource.urn: resource for resource in before}
    return [
        f"{new.name}: {path}"
        for new in after
        if new.custom and new.urn in old and not new.type.startswith("pulumi:")
        for path in forcing_paths(new.type, mutable)
        if path not in new.ignore_changes and _at(old[new.urn].inputs, path) != _at(new.inputs, path)
    ]


def gone(before: Sequence[Resource], after: Sequence[Resource]) -> set[str]:
    """The names of what an update would delete."""
    kept = {resource.urn for resource in after}
    return {resource.name for resource in before if resource.custom and resource.urn not in kept}


def forcing_paths(type_: str, mutable: frozenset[str] = frozenset()) -> tuple[str, ...]:
    if type_.startswith("aws:"):
        return _AWS[type_.removeprefix("aws:")]
    kind = type_.split(":")[-1]
    own = ("type",) if kind == "Secret" and kind in mutable else () if kind in mutable else _KUBERNETES.get(kind, ())
    return (*_METADATA, *own)


def _mutable_kinds(resources: Sequence[Resource]) -> frozenset[str]:
    options = [r.inputs for r in resources if r.type == "pulumi:providers:kubernetes"]
    return frozenset(kind for kind, option in _MUTABLE.items() if all(i.get(option) in (True, "true") for i in options))


def _at(inputs: object, path: str) -> Any:
    for part in path.split("."):
        inputs = cast("Mapping[str, Any]", inputs).get(part) if isinstance(inputs, Mapping) else None
    return inputs
