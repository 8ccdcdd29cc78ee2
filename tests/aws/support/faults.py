"""Slips of a component, put in by hand, each with who catches it first: a policy, the provider, or nobody.

No stack file leads to them, so nothing but a policy or the provider can see them before AWS does. What `ebbtide check`
refuses in a stack file is in `tests/unit/settings`.
"""

from dataclasses import dataclass
from typing import Any

from tests.builders.policies import GONE

ENUMERATION, LENGTH, ORDER, NAME, FORMAT = "enumeration", "length or range", "order or combination", "name", "format"
_NODES, _ROLE = "NodeGroup flexible-a-nodes", "Role cluster-node"
_TEMPLATE, _VPC = "LaunchTemplate flexible-a-template", "Vpc network-vpc"
_DEPLOYER = "AccessPolicyAssociation cluster-deployer-admin"
_CACHE, _CACHED = "ReplicationGroup elasticache-queues", "ElastiCache with a standby"


@dataclass(frozen=True, slots=True)
class Fault:
    words: str
    kind: str
    resource: str
    path: str
    value: Any
    policy: str = ""  # its id; "" where none sees it
    at: str = ""  # the property at which the provider says it; "" where it does not
    stack: str = "demo"


FAULTS = (
    Fault("`ONDEMAND`", ENUMERATION, _NODES, "capacityType", "ONDEMAND", "EB017", "capacity_type"),
    Fault("an AMI type cut short", ENUMERATION, _NODES, "amiType", "AL2023_x86_64", at="ami_type"),
    Fault("an access scope that EKS lacks", ENUMERATION, _DEPLOYER, "accessScope.type", "everything"),
    Fault(
        "65 hops",
        LENGTH,
        _TEMPLATE,
        "metadataOptions.httpPutResponseHopLimit",
        65,
        "EB036",
        "metadata_options.http_put_response_hop_limit",
    ),
    Fault("a role of 65 letters", LENGTH, _ROLE, "name", "r" * 65, at="name"),
    Fault("port 70000", LENGTH, _CACHE, "port", 70000, stack=_CACHED),
    Fault("a minimum of nodes above the maximum", ORDER, _NODES, "scalingConfig.minSize", 50, "EB043"),
    Fault(
        "a node group's name beside the beginning of one",
        ORDER,
        _NODES,
        "nodeGroupName",
        "flexible",
        at="node_group_name",
    ),
    Fault(
        "several zones without failover",
        ORDER,
        _CACHE,
        "automaticFailoverEnabled",
        False,
        at="the whole",
        stack=_CACHED,
    ),
    Fault(
        "a snapshot window that ends before it begins", ORDER, _CACHE, "snapshotWindow", "04:00-02:00", stack=_CACHED
    ),
    Fault("`instanceType` for `instanceTypes`", NAME, _NODES, "instanceType", ["m7i.large"], at="instance_type"),
    Fault("`desired` for `desiredSize`", NAME, _NODES, "scalingConfig.desired", 1, at="scaling_config.desired"),
    Fault("a node group without a role", NAME, _NODES, "nodeRoleArn", GONE, at="node_role_arn"),
    Fault("a role with a space in its name", NAME, _ROLE, "name", "acme node", at="name"),
    Fault("tags as one text", FORMAT, _TEMPLATE, "tags", "team=ml", "EB035", "tags"),
    Fault("a number in letters", FORMAT, _NODES, "scalingConfig.maxSize", "many", at="scaling_config.max_size"),
    Fault("a VPC larger than AWS makes", FORMAT, _VPC, "cidrBlock", "10.0.0.0/8", at="cidr_block"),
    Fault(
        "a trust policy in Python's quotes",
        FORMAT,
        _ROLE,
        "assumeRolePolicy",
        "{'Version': '2012-10-17'}",
        at="assume_role_policy",
    ),
    Fault("user data that is not in base64", FORMAT, _TEMPLATE, "userData", "#!/bin/sh"),
)
