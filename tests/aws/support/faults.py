"""Faults put in by hand, each with who catches it first: `ebbtide check`, a policy of the preview, or the provider.

Those of the stack file are what an operator may write. Those of the program are what a slip in a component would send:
no file leads to them, so nothing but a policy or the provider can see them before AWS does.
"""

from dataclasses import dataclass
from typing import Any

from tests.aws.support.stacks import PASSWORD, base
from tests.builders.policies import GONE, Change, edited

ENUMERATION, LENGTH, ORDER, NAME, FORMAT = "enumeration", "length or range", "order or combination", "name", "format"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    words: str
    kind: str
    key: str  # the section, without `ebbtide:`
    value: Any  # instead of the base's
    by: str  # the code of `ebbtide check`


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFault:
    words: str
    kind: str
    change: Change
    stack: str
    policy: str  # its id; "" where none sees it
    at: str  # the property at which the provider says it; "" where it does not


def with_fault(fault: FileFault) -> dict[str, Any]:
    """The base's config with the fault in it; a mapping is merged, anything else replaces."""
    config = base()
    if fault.key in ("region", "customer"):
        config["aws:region" if fault.key == "region" else "ebbtide:customer"] = fault.value
    else:
        key = f"ebbtide:{fault.key}"
        config[key] = {**config.get(key, {}), **fault.value}
    return {**config, **PASSWORD} if fault.key == "redis" else config


def _file(key: str, value: Any, by: str, kind: str, words: str) -> FileFault:
    return FileFault(words=words, kind=kind, key=key, value=value, by=by)


def _group(**keys: Any) -> dict[str, Any]:
    return {"flexible": {"instanceTypes": ["m7i.4xlarge"], "max": 20, **keys}}


def _rights(**keys: Any) -> dict[str, Any]:
    return {"api": {**base()["ebbtide:workloads"]["api"], "aws": keys}}


_NODES, _GPU_NODES, _TEMPLATE = (
    "NodeGroup flexible-a-nodes",
    "NodeGroup gpu-a-nodes",
    "LaunchTemplate flexible-a-template",
)
_CLUSTER, _KEY, _LOGS = "Cluster cluster-control-plane", "Key cluster-secrets", "LogGroup cluster-logs"
_CACHE, _CACHED = "ReplicationGroup elasticache-queues", "ElastiCache with a standby"
_FLOWS, _FLOW_STACK = "FlowLog network-flow-logs", "example-berlin"
_SUBNET, _S3, _ROLE = "Subnet network-private-a", "VpcEndpoint network-s3", "Role cluster-node"
_VPC = "Vpc network-vpc"
_DNS = "Addon add-ons-coredns"
_DEPLOYER = "AccessPolicyAssociation cluster-deployer-admin"
_RULE = "SecurityGroupIngressRule elasticache-from-cluster"

FILE_FAULTS = (
    _file("cluster", {"logRetentionDays": 31}, "log-retention.days", ENUMERATION, "logs are kept for 31 days"),
    _file("cluster", {"supportType": "long"}, "choice.unknown", ENUMERATION, "`supportType: long`"),
    _file("cluster", {"controlPlaneTier": "xl"}, "choice.unknown", ENUMERATION, "`controlPlaneTier: xl`"),
    _file(
        "cluster",
        {"addOnVersions": {"core-dns": "v1.12.1-eksbuild.2"}},
        "add-on.name",
        ENUMERATION,
        "an add-on `core-dns`",
    ),
    _file("cluster", {"zones": ["eu-west-1a", "b"]}, "zone.letter", ENUMERATION, "a zone by its whole name"),
    _file("region", "cn-north-1", "region.other-partition", ENUMERATION, "a region of China"),
    _file("region", "us-gov-west-1", "region.other-partition", ENUMERATION, "a region of GovCloud"),
    _file(
        "nodeGroups",
        _group(instanceTypes=["m7i.5xlarge"]),
        "instance-type.unknown",
        ENUMERATION,
        "an instance type that AWS does not have",
    ),
    _file(
        "redis",
        {"kind": "elasticache", "nodeType": "m7g.large"},
        "cache-node.type",
        ENUMERATION,
        "a cache on an instance type of EC2",
    ),
    _file("customer", "c" * 25, "customer.name", LENGTH, "a customer of 25 letters"),
    _file(
        "nodeGroups",
        {"g" * 25: {"kind": "gpu", "instanceTypes": ["g5.2xlarge"], "max": 6}},
        "name.form",
        LENGTH,
        "a node group of 25 letters",
    ),
    _file("costs", {"tags": {f"tag-{n}": "x" for n in range(40)}}, "tags.too-many", LENGTH, "40 tags"),
    _file("costs", {"tags": {"k" * 129: "x"}}, "tag-key.form", LENGTH, "a tag key of 129 letters"),
    _file("costs", {"tags": {"team": "v" * 257}}, "tag-value.form", LENGTH, "a tag value of 257 letters"),
    _file("workloads", _rights(buckets={"b" * 64: "read"}), "bucket.form", LENGTH, "a bucket of 64 letters"),
    _file("redis", {"kind": "elasticache", "replicas": 6}, "number.too-large", LENGTH, "six standbys"),
    _file("nodeGroups", _group(diskSize=16385), "number.too-large", LENGTH, "a disk of 16385 GiB"),
    _file("nodeGroups", _group(min=30), "min.above-max", ORDER, "a minimum above the maximum"),
    _file("network", {"cidr": "10.0.0.5/16"}, "cidr.first-address", ORDER, "a network by an address in its middle"),
    _file(
        "cluster",
        {"publicAccess": ["203.0.113.7/24"]},
        "range.first-address",
        ORDER,
        "a range by an address in its middle",
    ),
    _file(
        "network", {"nat": "none", "endpoints": False}, "endpoints.needed", ORDER, "a closed network without endpoints"
    ),
    _file("costs", {"tags": {"aws:team": "x"}}, "tag-key.reserved-prefix", NAME, "a tag key that begins with `aws:`"),
    _file("workloads", _rights(buckets={"Acme_Data": "read"}), "bucket.form", NAME, "a bucket with capitals"),
    _file(
        "workloads", _rights(queues={"up loads": "receive"}), "sqs-queue.form", NAME, "a queue with a space in its name"
    ),
    _file("cluster", {"logRetention": 30}, "key.unknown", NAME, "`logRetention` for `logRetentionDays`"),
    _file("network", {"cidr": "10.0.0.0/8"}, "cidr.too-large", FORMAT, "a network larger than AWS makes"),
    _file(
        "network",
        {"vpc": {"id": "vpc-123", "privateSubnets": {"a": "subnet-0a1b2c3d", "b": "subnet-4e5f6071"}}},
        "vpc.id",
        FORMAT,
        "a VPC's id that is too short",
    ),
    _file(
        "cluster",
        {"admins": ["arn:aws:iam::1234:role/platform"]},
        "principal.form",
        FORMAT,
        "an admin's ARN with four digits",
    ),
    _file("cluster", {"version": "1.35.1"}, "kubernetes-version.patch", FORMAT, "a Kubernetes version with a patch"),
    _file(
        "workloads",
        _rights(policies=["AmazonS3ReadOnlyAccess"]),
        "aws-policy.form",
        FORMAT,
        "a policy by its name alone",
    ),
    _file("region", "eu-west", "region.form", FORMAT, "a region without its number"),
)


def _slip(
    shown: str, path: str, value: Any, policy: str, at: str, kind: str, words: str, stack: str = "demo"
) -> ProgramFault:
    return ProgramFault(words=words, kind=kind, change=edited(shown, path, value), stack=stack, policy=policy, at=at)


PROGRAM_FAULTS = (
    _slip(_NODES, "amiType", "AL2023_x86_64", "", "ami_type", ENUMERATION, "an AMI type cut short"),
    _slip(_NODES, "capacityType", "ONDEMAND", "EB017", "capacity_type", ENUMERATION, "`ONDEMAND`"),
    _slip(
        _GPU_NODES,
        "taints.0.effect",
        "NoSchedule",
        "EB026",
        "taint",
        ENUMERATION,
        "a taint's effect as Kubernetes writes it",
    ),
    _slip(
        _CLUSTER,
        "accessConfig.authenticationMode",
        "API_ONLY",
        "",
        "access_config.authentication_mode",
        ENUMERATION,
        "an authentication mode that EKS lacks",
    ),
    _slip(
        _CLUSTER,
        "enabledClusterLogTypes.0",
        "apiserver",
        "",
        "enabled_cluster_log_types",
        ENUMERATION,
        "a log of the control plane that EKS lacks",
    ),
    _slip(
        _CLUSTER,
        "upgradePolicy.supportType",
        "standard",
        "",
        "upgrade_policy.support_type",
        ENUMERATION,
        "the support type in small letters",
    ),
    _slip(
        _CLUSTER,
        "encryptionConfig.resources.0",
        "configmaps",
        "",
        "encryption_config.resources",
        ENUMERATION,
        "ConfigMaps to be encrypted",
    ),
    _slip(
        _CLUSTER, "controlPlaneScalingConfig.tier", "huge", "", "", ENUMERATION, "a control plane's tier that EKS lacks"
    ),
    _slip(
        _DNS,
        "resolveConflictsOnCreate",
        "PRESERVE",
        "",
        "resolve_conflicts_on_create",
        ENUMERATION,
        "an add-on made with `PRESERVE`, which is for updates",
    ),
    _slip(
        _S3, "vpcEndpointType", "gateway", "", "vpc_endpoint_type", ENUMERATION, "an endpoint's type in small letters"
    ),
    _slip(
        _TEMPLATE,
        "metadataOptions.httpTokens",
        "always",
        "EB036",
        "metadata_options.http_tokens",
        ENUMERATION,
        "`httpTokens: always`",
    ),
    _slip(
        _TEMPLATE,
        "metadataOptions.httpEndpoint",
        "on",
        "",
        "metadata_options.http_endpoint",
        ENUMERATION,
        "`httpEndpoint: on`",
    ),
    _slip(
        _TEMPLATE,
        "blockDeviceMappings.0.ebs.volumeType",
        "gp5",
        "",
        "block_device_mappings.ebs.volume_type",
        ENUMERATION,
        "a volume type that EBS lacks",
    ),
    _slip(
        _TEMPLATE,
        "blockDeviceMappings.0.ebs.encrypted",
        "yes",
        "EB037",
        "block_device_mappings.ebs.encrypted",
        ENUMERATION,
        "`encrypted: yes`",
    ),
    _slip(
        _TEMPLATE,
        "tagSpecifications.0.resourceType",
        "disk",
        "EB035",
        "tag_specifications.resource_type",
        ENUMERATION,
        "tags for a resource that EC2 lacks",
    ),
    _slip(_LOGS, "retentionInDays", 31, "", "retention_in_days", ENUMERATION, "logs kept for 31 days"),
    _slip(
        _FLOWS,
        "maxAggregationInterval",
        300,
        "",
        "max_aggregation_interval",
        ENUMERATION,
        "flow logs every five minutes",
        _FLOW_STACK,
    ),
    _slip(
        _FLOWS, "trafficType", "EVERYTHING", "", "traffic_type", ENUMERATION, "flow logs of `EVERYTHING`", _FLOW_STACK
    ),
    _slip(
        _FLOWS,
        "logDestinationType",
        "cloudwatch",
        "",
        "log_destination_type",
        ENUMERATION,
        "flow logs to `cloudwatch`",
        _FLOW_STACK,
    ),
    _slip(_CACHE, "engine", "keydb", "", "engine", ENUMERATION, "a cache of an engine that AWS lacks", _CACHED),
    _slip(
        _CACHE,
        "authTokenUpdateStrategy",
        "REPLACE",
        "",
        "auth_token_update_strategy",
        ENUMERATION,
        "a token's change by `REPLACE`",
        _CACHED,
    ),
    _slip(_DEPLOYER, "accessScope.type", "everything", "", "", ENUMERATION, "an access scope that EKS lacks"),
    _slip(
        "AccessEntry cluster-deployer", "type", "ROLE", "", "type", ENUMERATION, "an access entry's type that EKS lacks"
    ),
    _slip("Eip network-nat", "domain", "classic", "", "domain", ENUMERATION, "an address outside a VPC"),
    _slip(_VPC, "instanceTenancy", "shared", "", "instance_tenancy", ENUMERATION, "a tenancy that EC2 lacks"),
    _slip(_ROLE, "name", "r" * 65, "", "name", LENGTH, "a role of 65 letters"),
    _slip(_CLUSTER, "name", "c" * 101, "EB038", "name", LENGTH, "a cluster of 101 letters"),
    _slip(
        _NODES,
        "nodeGroupNamePrefix",
        "n" * 38,
        "",
        "node_group_name_prefix",
        LENGTH,
        "a node group whose name begins with 38 letters",
    ),
    _slip(_TEMPLATE, "name", "t" * 126, "", "name", LENGTH, "a launch template of 126 letters"),
    _slip(_CACHE, "replicationGroupId", "q" * 41, "", "replication_group_id", LENGTH, "a cache of 41 letters", _CACHED),
    _slip(
        "SecurityGroup elasticache-guard",
        "description",
        "d" * 256,
        "",
        "description",
        LENGTH,
        "a description of 256 letters",
        _CACHED,
    ),
    _slip(_LOGS, "name", "l" * 513, "EB038", "name", LENGTH, "a log group of 513 letters"),
    _slip(
        _KEY, "deletionWindowInDays", 31, "", "deletion_window_in_days", LENGTH, "a key that is deleted after 31 days"
    ),
    _slip(_KEY, "description", "d" * 8193, "", "description", LENGTH, "a key's description of 8,193 letters"),
    _slip(
        _CACHE,
        "snapshotRetentionLimit",
        36,
        "",
        "snapshot_retention_limit",
        LENGTH,
        "snapshots kept for 36 days",
        _CACHED,
    ),
    _slip(
        _TEMPLATE,
        "metadataOptions.httpPutResponseHopLimit",
        65,
        "EB036",
        "metadata_options.http_put_response_hop_limit",
        LENGTH,
        "65 hops",
    ),
    _slip(
        _NODES, "scalingConfig.maxSize", 0, "", "scaling_config.max_size", LENGTH, "a node group of at most no nodes"
    ),
    _slip(_CACHE, "port", 70000, "", "", LENGTH, "port 70000", _CACHED),
    _slip(_RULE, "fromPort", 70000, "", "from_port", LENGTH, "port 70000 in a rule", _CACHED),
    _slip(
        _CACHE, "snapshotWindow", "04:00-02:00", "", "", ORDER, "a snapshot window that ends before it begins", _CACHED
    ),
    _slip(
        _CACHE,
        "maintenanceWindow",
        "sun:03:00-sun:01:00",
        "",
        "",
        ORDER,
        "a maintenance window that ends before it begins",
        _CACHED,
    ),
    _slip(_SUBNET, "cidrBlock", "10.0.1.7/20", "", "cidr_block", ORDER, "a subnet by an address in its middle"),
    _slip(_NODES, "scalingConfig.minSize", 50, "EB043", "", ORDER, "a minimum of nodes above the maximum"),
    _slip(
        _NODES,
        "nodeGroupName",
        "flexible",
        "",
        "node_group_name",
        ORDER,
        "a node group's name beside the beginning of one",
    ),
    _slip(
        _NODES,
        "updateConfig.maxUnavailable",
        1,
        "",
        "update_config.max_unavailable",
        ORDER,
        "a number of nodes beside a share of them",
    ),
    _slip(_CACHE, "automaticFailoverEnabled", False, "", "the whole", ORDER, "several zones without failover", _CACHED),
    _slip(_RULE, "cidrIpv4", "10.0.0.0/16", "", "cidr_ipv4", ORDER, "two sources in one rule", _CACHED),
    _slip(_NODES, "instanceType", ["m7i.large"], "", "instance_type", NAME, "`instanceType` for `instanceTypes`"),
    _slip(_NODES, "nodeRoleArn", GONE, "", "node_role_arn", NAME, "a node group without a role"),
    _slip(_NODES, "scalingConfig.desired", 1, "", "scaling_config.desired", NAME, "`desired` for `desiredSize`"),
    _slip(_NODES, "scalingConfig", GONE, "EB007", "scaling_config", NAME, "a node group without sizes"),
    _slip(_CLUSTER, "name", "acme eks", "EB038", "name", NAME, "a cluster with a space in its name"),
    _slip(_TEMPLATE, "name", "flexible:a", "", "name", NAME, "a launch template with a colon in its name"),
    _slip(_LOGS, "name", "/aws/eks/acme:logs", "EB038", "name", NAME, "a log group with a colon in its name"),
    _slip(
        _CACHE,
        "replicationGroupId",
        "1queues",
        "",
        "replication_group_id",
        NAME,
        "a cache whose name begins with a digit",
        _CACHED,
    ),
    _slip(
        _CACHE,
        "replicationGroupId",
        "acme--queues",
        "",
        "replication_group_id",
        NAME,
        "a cache with two hyphens in a row",
        _CACHED,
    ),
    _slip(_ROLE, "name", "acme node", "", "name", NAME, "a role with a space in its name"),
    _slip(
        "SubnetGroup elasticache-subnets",
        "name",
        "Acme!",
        "",
        "",
        NAME,
        "a subnet group with an exclamation mark in its name",
        _CACHED,
    ),
    _slip("SecurityGroup elasticache-guard", "description", "naïve", "", "", NAME, "a description in French", _CACHED),
    _slip(_DNS, "addonVersion", "1.12", "", "addon_version", FORMAT, "an add-on's version without its build"),
    _slip(_NODES, "nodeRoleArn", "arn:aws:iam:role/node", "", "", FORMAT, "a role's ARN with parts left out"),
    _slip(
        _ROLE,
        "assumeRolePolicy",
        "{'Version': '2012-10-17'}",
        "",
        "assume_role_policy",
        FORMAT,
        "a trust policy in Python's quotes",
    ),
    _slip(
        "RolePolicy network-flow-logs",
        "policy",
        "- Effect: Allow",
        "",
        "policy",
        FORMAT,
        "a policy in YAML",
        _FLOW_STACK,
    ),
    _slip(_VPC, "cidrBlock", "10.0.0.0/8", "", "cidr_block", FORMAT, "a VPC larger than AWS makes"),
    _slip(_SUBNET, "cidrBlock", "10.0.1.0", "", "cidr_block", FORMAT, "a subnet without a length"),
    _slip(
        "Route network-out-a",
        "destinationCidrBlock",
        "anywhere",
        "",
        "destination_cidr_block",
        FORMAT,
        "a route to `anywhere`",
    ),
    _slip(_RULE, "cidrIpv4", "10.0.0.0", "", "cidr_ipv4", FORMAT, "a range without a length", _CACHED),
    _slip(
        _CLUSTER,
        "vpcConfig.publicAccessCidrs",
        ["203.0.113.7"],
        "",
        "vpc_config.public_access_cidrs",
        FORMAT,
        "a public range without a length",
    ),
    _slip(_DNS, "configurationValues", "replicaCount: 2", "EB042", "", FORMAT, "an add-on's configuration in YAML"),
    _slip(_DEPLOYER, "principalArn", "deployer", "", "principal_arn", FORMAT, "a principal by its name alone"),
    _slip(
        _DEPLOYER, "policyArn", "AmazonEKSViewPolicy", "", "policy_arn", FORMAT, "an access policy by its name alone"
    ),
    _slip(_CACHE, "snapshotWindow", "2-3", "", "snapshot_window", FORMAT, "a snapshot window without minutes", _CACHED),
    _slip(
        _CACHE,
        "maintenanceWindow",
        "Sunday",
        "",
        "maintenance_window",
        FORMAT,
        "a maintenance window without hours",
        _CACHED,
    ),
    _slip(_TEMPLATE, "userData", "#!/bin/sh", "", "", FORMAT, "user data that is not in base64"),
    _slip(_TEMPLATE, "tags", "team=ml", "EB035", "tags", FORMAT, "tags as one text"),
    _slip(_NODES, "scalingConfig.maxSize", "many", "", "scaling_config.max_size", FORMAT, "a number in letters"),
)
