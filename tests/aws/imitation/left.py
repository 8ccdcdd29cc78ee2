"""What is left in the imitation, asked as any client of AWS would: `python -m tests.aws.imitation.left URL REGION`.

By kind, and without what every account has from the start.
"""

import json
import sys
from importlib import import_module
from typing import Any

_KINDS = (
    ("ec2", "describe_vpcs", "Vpcs[?!IsDefault].VpcId"),
    ("ec2", "describe_subnets", "Subnets[?!DefaultForAz].SubnetId"),
    ("ec2", "describe_security_groups", "SecurityGroups[?GroupName!='default'].GroupId"),
    ("ec2", "describe_route_tables", "RouteTables[?!Associations[?Main]].RouteTableId"),
    ("ec2", "describe_internet_gateways", "InternetGateways[].InternetGatewayId"),
    ("ec2", "describe_nat_gateways", "NatGateways[?State!='deleted'].NatGatewayId"),
    ("ec2", "describe_addresses", "Addresses[].AllocationId"),
    ("ec2", "describe_vpc_endpoints", "VpcEndpoints[?State!='deleted'].VpcEndpointId"),
    ("ec2", "describe_flow_logs", "FlowLogs[].FlowLogId"),
    ("ec2", "describe_launch_templates", "LaunchTemplates[].LaunchTemplateName"),
    ("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups[].AutoScalingGroupName"),
    ("iam", "list_roles", "Roles[].RoleName"),
    ("iam", "list_policies", "Policies[?!starts_with(Arn, 'arn:aws:iam::aws:')].PolicyName"),
    ("eks", "list_clusters", "clusters"),
    ("kms", "list_keys", "Keys[].KeyId"),
    ("logs", "describe_log_groups", "logGroups[].logGroupName"),
    ("elasticache", "describe_replication_groups", "ReplicationGroups[].ReplicationGroupId"),
    ("elasticache", "describe_cache_parameter_groups", "CacheParameterGroups[].CacheParameterGroupName"),
    ("elasticache", "describe_cache_subnet_groups", "CacheSubnetGroups[].CacheSubnetGroupName"),
    ("dlm", "get_lifecycle_policies", "Policies[].PolicyId"),
)


def main(url: str, region: str) -> None:
    boto3: Any = import_module("boto3")
    search: Any = import_module("jmespath").search
    session = boto3.Session(aws_access_key_id="nobody", aws_secret_access_key="nobody", region_name=region)
    clients = {service: session.client(service, endpoint_url=url) for service, _, _ in _KINDS}
    found = {action: search(path, getattr(clients[service], action)()) for service, action, path in _KINDS}
    keys = clients["kms"]
    states = {key: keys.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] for key in found["list_keys"]}
    found["list_keys"] = [key for key, state in states.items() if state != "PendingDeletion"]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
