"""AWS: nothing public that the stack file does not name; everything tagged, encrypted, and logs with a retention."""

from collections.abc import Mapping
from ipaddress import IPv4Network, ip_network

from ebbtide.policies.rule import Hits, Rule, Severity
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.state import StackState
from ebbtide.recording.values import mappings, texts, value_at, whole, words
from ebbtide.settings.pods import gateway_entrance
from ebbtide.settings.sections.entrance import load_balancer_name
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE
from ebbtide.units.addresses import SHARED
from ebbtide.vocabulary.labels import NAMESPACE

_CLUSTER = "aws:eks/cluster:Cluster"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
_SUBNET = "aws:ec2/subnet:Subnet"
_VOLUME = "aws:ebs/volume:Volume"
_CACHE = "aws:elasticache/replicationGroup:ReplicationGroup"
_BILLED = {"instance", "volume"}
_EBS = ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")
_SERVICE_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer-"
_INGRESS_SCHEME = "alb.ingress.kubernetes.io/scheme"
_PUBLIC = "internet-facing"

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
"""The AWS types that take tags, of those that a stack has or that a program beside it is likely to add.

A list, since asking the SDK's classes would load all of its packages. A test asks them.
"""


def _open_api(state: StackState) -> Hits:
    declared = set(state.settings.cluster.public_access)
    for cluster in state.of_type(_CLUSTER):
        access = value_at(cluster.inputs, "vpcConfig")
        ranges = words(value_at(access, "publicAccessCidrs")) or ("0.0.0.0/0",)  # what EKS takes where nothing is said
        if value_at(access, "endpointPublicAccess") is not False and (
            open_to := [r for r in ranges if r not in declared]
        ):
            yield cluster, f"its API is open to {', '.join(open_to)}, which cluster.publicAccess does not name"
    for rule, ranges in _ingress(state):
        for found in ranges:
            if _is_public(found) and found not in declared:
                yield rule, f"it lets {found} in, which cluster.publicAccess does not name"


_GROUPS = ("aws:ec2/securityGroup:SecurityGroup", "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")


def _ingress(state: StackState) -> list[tuple[Resource, list[str]]]:
    found: list[tuple[Resource, list[str]]] = []
    for resource in state.resources:
        inputs = resource.inputs
        if resource.type == "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
            found.append((resource, [texts(inputs)[key] for key in ("cidrIpv4", "cidrIpv6") if key in texts(inputs)]))
        elif resource.type == "aws:ec2/securityGroupRule:SecurityGroupRule" and inputs.get("type") == "ingress":
            found.append((resource, _blocks(inputs)))
        elif resource.type in _GROUPS:
            found.append((resource, [block for rule in mappings(inputs.get("ingress")) for block in _blocks(rule)]))
    return found


def _blocks(rule: Mapping[str, object]) -> list[str]:
    return [*words(rule.get("cidrBlocks")), *words(rule.get("ipv6CidrBlocks"))]


def _is_public(text: str) -> bool:
    try:
        network = ip_network(text, strict=False)
    except ValueError:  # not known before the update
        return False
    shared = isinstance(network, IPv4Network) and network.subnet_of(IPv4Network(SHARED))
    return not (network.is_private or shared)


def _public_balancer(state: StackState) -> Hits:
    declared = _declared_public(state)
    for resource in state.of_kind("Service", "Ingress"):
        annotations = texts(value_at(resource.inputs, "metadata.annotations"))
        if kind_of(resource) == "Ingress":
            if annotations.get(_INGRESS_SCHEME) == _PUBLIC:
                yield resource, "it creates a load balancer that is reachable from the internet"
            continue
        scheme = annotations.get(f"{_SERVICE_ANNOTATION}scheme")
        internal = scheme == "internal" or annotations.get(f"{_SERVICE_ANNOTATION}internal") == "true"
        balanced = value_at(resource.inputs, "spec.type") == "LoadBalancer"
        if (
            balanced
            and (namespace_of(resource), name_of(resource)) not in declared
            and (scheme == _PUBLIC or not (internal or state.existing))
        ):
            yield resource, "it creates a load balancer that is reachable from the internet"


def _declared_public(state: StackState) -> set[tuple[str, str]]:
    """The Services of what the stack file says `public: true` of, workloads and the gateway, by namespace and name."""
    given = {name: workload.expose for name, workload in state.settings.workloads.items()}
    declared = {(NAMESPACE, load_balancer_name(name, it)) for name, it in given.items() if it is not None and it.public}
    gateway = gateway_entrance(state.settings)
    if gateway is not None and gateway.public:
        declared.add((GATEWAY_NAMESPACE, state.settings.serving.balancer))
    return declared


def _public_nodes(state: StackState) -> Hits:
    for subnet in state.of_type(_SUBNET):
        if subnet.inputs.get("mapPublicIpOnLaunch") is True:
            yield subnet, "what starts in it gets a public address, which costs money and is reachable"


def _untagged(state: StackState) -> Hits:
    wanted = {CUSTOMER: state.settings.customer, **state.settings.costs.tags}
    for resource in state.resources:
        if resource.type in TAGGABLE and not resource.read:
            missing = _missing(wanted, resource.inputs.get("tags"))
            if missing:
                yield resource, f"without the cost tags {', '.join(missing)}"
        if resource.type == _TEMPLATE:
            specified = {str(it.get("resourceType")): it for it in mappings(resource.inputs.get("tagSpecifications"))}
            bare = sorted(kind for kind in _BILLED if _missing(wanted, value_at(specified.get(kind), "tags")))
            if bare:
                yield resource, f"what it starts carries no cost tags: {', '.join(bare)}"


def _missing(wanted: Mapping[str, str], tags: object) -> list[str]:
    given = texts(tags)
    return [key for key, value in wanted.items() if given.get(key) != value]


def _metadata_open(state: StackState) -> Hits:
    for template in state.of_type(_TEMPLATE):
        options = value_at(template.inputs, "metadataOptions")
        if value_at(options, "httpTokens") != "required":
            yield template, "instance metadata answers without a token, so a pod can take the node's role"
        elif (whole(value_at(options, "httpPutResponseHopLimit")) or 0) != 1:
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
    for resource, path in ((_VOLUME, "encrypted"), (_CACHE, "atRestEncryptionEnabled")):
        for kept in state.of_type(resource):
            if not _true(kept.inputs.get(path)):
                yield kept, "what it keeps is not encrypted"


def _true(value: object) -> bool:
    return value is True or value == "true"


def _without_retention(state: StackState) -> Hits:
    groups = state.of_type(_LOG_GROUP)
    for group in groups:
        if not whole(group.inputs.get("retentionInDays")):
            yield group, "its logs are kept and billed forever"
    names = [group.inputs.get("name") for group in groups]  # any value may stand there, an unhashable one too
    for cluster in state.of_type(_CLUSTER):
        expected = f"/aws/eks/{cluster.inputs.get('name')}/cluster"
        if words(cluster.inputs.get("enabledClusterLogTypes")) and expected not in names:
            yield cluster, f"EKS creates the log group {expected} itself, and keeps its logs forever"


RULES = (
    Rule(
        id="EB032",
        severity=Severity.BLOCKING,
        law="only public address ranges that the stack file names may connect",
        fix="name the range in cluster.publicAccess, or close it",
        source="security/iam, cluster endpoint",
        check=_open_api,
    ),
    Rule(
        id="EB033",
        severity=Severity.BLOCKING,
        law="no load balancer is internet-facing without being declared",
        fix="set the scheme to internal, write expose.public or serving.public in the stack file, or an exception that "
        "says who may come",
        source="security/network; networking/loadbalancing",
        check=_public_balancer,
    ),
    Rule(
        id="EB034",
        severity=Severity.BLOCKING,
        law="no subnet assigns public addresses automatically",
        fix="set mapPublicIpOnLaunch: false on the subnet",
        source="security/hosts, private subnets",
        check=_public_nodes,
    ),
    Rule(
        id="EB035",
        severity=Severity.WARNING,
        law="every AWS resource that takes tags carries the cost tags",
        fix="pass the tags of components.aws.savings.cost_tags to it",
        source="cost/awareness, tagging",
        check=_untagged,
    ),
    Rule(
        id="EB036",
        severity=Severity.BLOCKING,
        law="pods do not reach the node's credentials",
        fix="set httpTokens: required and httpPutResponseHopLimit: 1 in the launch template",
        source="security/iam, instance metadata",
        check=_metadata_open,
    ),
    Rule(
        id="EB037",
        severity=Severity.BLOCKING,
        law="every disk and volume is encrypted",
        fix="set encrypted: true",
        source="security/data, encryption at rest",
        check=_unencrypted,
    ),
    Rule(
        id="EB038",
        severity=Severity.WARNING,
        law="every log group has a retention time",
        fix="set retentionInDays, and make the cluster's log group before the cluster",
        source="mitodl/ol-infrastructure#5929; hashicorp/terraform-provider-aws#8562",
        check=_without_retention,
    ),
)
