"""AWS: resources carry the cost tags, storage is encrypted, node credentials are closed, and logs have a retention."""

from collections.abc import Mapping

from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.recording.state import StackState
from ebbtide.recording.values import mappings, texts, value_at, whole_number, words

_CLUSTER = "aws:eks/cluster:Cluster"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
_VOLUME = "aws:ebs/volume:Volume"
_CACHE = "aws:elasticache/replicationGroup:ReplicationGroup"
_BILLED = {"instance", "volume"}
_EBS = ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")

TAGGABLE = frozenset(
    f"aws:{name}"
    for name in (
        "cloudwatch/logGroup:LogGroup",
        "cloudwatch/metricAlarm:MetricAlarm",
        "dlm/lifecyclePolicy:LifecyclePolicy",
        "dynamodb/table:Table",
        "ebs/volume:Volume",
        "ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "ec2/eip:Eip",
        "ec2/flowLog:FlowLog",
        "ec2/instance:Instance",
        "ec2/internetGateway:InternetGateway",
        "ec2/launchTemplate:LaunchTemplate",
        "ec2/natGateway:NatGateway",
        "ec2/routeTable:RouteTable",
        "ec2/securityGroup:SecurityGroup",
        "ec2/subnet:Subnet",
        "ec2/vpc:Vpc",
        "ec2/vpcEndpoint:VpcEndpoint",
        "ecr/repository:Repository",
        "efs/fileSystem:FileSystem",
        "eks/accessEntry:AccessEntry",
        "eks/addon:Addon",
        "eks/cluster:Cluster",
        "eks/nodeGroup:NodeGroup",
        "eks/podIdentityAssociation:PodIdentityAssociation",
        "elasticache/parameterGroup:ParameterGroup",
        "elasticache/replicationGroup:ReplicationGroup",
        "elasticache/subnetGroup:SubnetGroup",
        "iam/role:Role",
        "kms/key:Key",
        "lb/loadBalancer:LoadBalancer",
        "rds/cluster:Cluster",
        "rds/instance:Instance",
        "s3/bucket:Bucket",
        "secretsmanager/secret:Secret",
        "sns/topic:Topic",
        "sqs/queue:Queue",
        "vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    )
)
"""AWS types with tags that a stack has, or that a program that extends it is likely to have.

A list, since inspecting the SDK's classes would load all its packages; a test does that.
"""


def _untagged(state: StackState) -> Hits:
    cost_tags = {CUSTOMER: state.settings.customer, **state.settings.costs.tags}
    for resource in state.resources:
        if resource.type in TAGGABLE and not resource.read:
            missing = _missing(cost_tags, resource.inputs.get("tags"))
            if missing:
                yield resource, f"without the cost tags {', '.join(missing)}"
        if resource.type == _TEMPLATE:
            specified = {
                str(specification.get("resourceType")): specification
                for specification in mappings(resource.inputs.get("tagSpecifications"))
            }
            bare = sorted(kind for kind in _BILLED if _missing(cost_tags, value_at(specified.get(kind), "tags")))
            if bare:
                yield resource, f"resources that it starts carry no cost tags: {', '.join(bare)}"


def _missing(cost_tags: Mapping[str, str], tags: object) -> list[str]:
    present = texts(tags)
    return [key for key, value in cost_tags.items() if present.get(key) != value]


def _metadata_open(state: StackState) -> Hits:
    for template in state.of_type(_TEMPLATE):
        options = value_at(template.inputs, "metadataOptions")
        if value_at(options, "httpTokens") != "required":
            yield template, "instance metadata answers without a token, so a pod can take the node's role"
        elif (whole_number(value_at(options, "httpPutResponseHopLimit")) or 0) != 1:
            yield template, "instance metadata answers pods too: its hop limit is not 1"


def _unencrypted(state: StackState) -> Hits:
    for template in state.of_type(_TEMPLATE):
        disks = [value_at(device, "ebs.encrypted") for device in mappings(template.inputs.get("blockDeviceMappings"))]
        if not disks or not all(_true(encrypted) for encrypted in disks):
            yield template, "the disks of its nodes are not encrypted"
    for volume_class in state.of_kind("StorageClass"):
        of_ebs = volume_class.inputs.get("provisioner") in _EBS
        if of_ebs and not _true(value_at(volume_class.inputs, "parameters.encrypted")):
            yield volume_class, "volumes of this class are not encrypted"
    for type_, path in ((_VOLUME, "encrypted"), (_CACHE, "atRestEncryptionEnabled")):
        for resource in state.of_type(type_):
            if not _true(resource.inputs.get(path)):
                yield resource, "its data is not encrypted"


def _true(value: object) -> bool:
    return value is True or value == "true"


def _without_retention(state: StackState) -> Hits:
    groups = state.of_type(_LOG_GROUP)
    for group in groups:
        if not whole_number(group.inputs.get("retentionInDays")):
            yield group, "its logs are kept and billed forever"
    names = [group.inputs.get("name") for group in groups]  # any value is possible, also an unhashable one
    for cluster in state.of_type(_CLUSTER):
        expected = f"/aws/eks/{cluster.inputs.get('name')}/cluster"
        if words(cluster.inputs.get("enabledClusterLogTypes")) and expected not in names:
            yield cluster, f"EKS creates the log group {expected} itself, and keeps its logs forever"


RULES = (
    Rule(
        code="EB035",
        severities=(Severity.WARNING,),
        title="every AWS resource that takes tags carries the cost tags",
        remedy="pass the tags of components.aws.savings.cost_tags to it",
        source="cost/awareness, tagging",
        check=_untagged,
    ),
    Rule(
        code="EB036",
        severities=(Severity.BLOCKING,),
        title="pods do not reach the node's credentials",
        remedy="set httpTokens: required and httpPutResponseHopLimit: 1 in the launch template",
        source="security/iam, instance metadata",
        check=_metadata_open,
    ),
    Rule(
        code="EB037",
        severities=(Severity.BLOCKING,),
        title="every disk and volume is encrypted",
        remedy="set encrypted: true",
        source="security/data, encryption at rest",
        check=_unencrypted,
    ),
    Rule(
        code="EB038",
        severities=(Severity.WARNING,),
        title="every log group has a retention time",
        remedy="set retentionInDays, and make the cluster's log group before the cluster",
        source="mitodl/ol-infrastructure#5929; hashicorp/terraform-provider-aws#8562",
        check=_without_retention,
    ),
)
