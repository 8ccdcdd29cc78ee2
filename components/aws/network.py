"""The network of a customer: a VPC with subnets per zone and NAT gateways, or an existing VPC.

Nodes run in the private subnets only. Each zone has a separate route table, so that a change from one NAT gateway to
one per zone replaces nothing: routes get another target, and the first gateway stays. S3, which stores the layers of
container images, is reached through a gateway endpoint, since a NAT gateway bills per gigabyte.

- `single`: one gateway serves all zones. A second one costs as much as a small node, and helps only if the gateway's
  zone is lost: the nodes of other zones could then pull no images.
- `per-zone`: survives the loss of a zone, and no traffic to the internet crosses zones.
- `none`: a closed network, which has no public subnets and no internet gateway either. AWS services are reached through
  interface endpoints (`components.aws.endpoints`).

In an existing VPC nothing is created, not even a tag: its owner may manage the tags elsewhere, and a destroy would
remove tags that others need from a shared subnet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.aws.ec2 import (
    DefaultSecurityGroup,
    Eip,
    InternetGateway,
    NatGateway,
    Route,
    RouteTable,
    RouteTableAssociation,
    Subnet,
    Vpc,
    VpcEndpoint,
)
from components.aws.endpoints import EndpointArgs, interface_endpoints
from components.aws.flow_logs import FlowLogArgs, flow_logs
from components.aws.subnets import plan_subnets, zones_of_the_account
from components.context import StackContext
from ebbtide.settings.sections.network import GivenVpc, Nat, NetworkSettings, called_services
from ebbtide.settings.sections.zones import is_id

_ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    stack: StackContext
    zones: Sequence[str]  # letters ("a" is us-east-1a in us-east-1) or ids
    settings: NetworkSettings
    session_manager: bool = False  # these two come from the cluster's section
    deletion_protection: bool = False
    karpenter: bool = False  # some groups are Karpenter's
    queues: bool = False  # some pools have their queues in SQS


class Network(pulumi.ComponentResource):
    """Everything that exists before the cluster and outlives it."""

    vpc_id: pulumi.Output[str]
    private_subnet_ids: Mapping[str, pulumi.Output[str]]  # by zone
    public_subnet_ids: Mapping[str, pulumi.Output[str]]  # by zone; none in a closed network and in an existing VPC

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Network", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        existing_vpc = args.settings.vpc
        if existing_vpc is None:
            self._build()
        else:
            self._move_into(existing_vpc)
        self.register_outputs({"vpc_id": self.vpc_id})

    def _move_into(self, vpc: GivenVpc) -> None:
        self.vpc_id = pulumi.Output.from_input(vpc.id)
        self.public_subnet_ids = {}
        self.private_subnet_ids = {
            zone: pulumi.Output.from_input(vpc.private_subnets[zone]) for zone in self._args.zones
        }

    def _build(self) -> None:
        self.vpc_id = self._vpc()
        self._zones = zones_of_the_account(self._args.stack.region, self._args.zones, parent=self)
        self._close_the_default_group()
        closed = self._args.settings.nat is Nat.NONE
        plan = plan_subnets(self._args.settings.cidr, self._args.zones)
        self.public_subnet_ids = {
            zone: self._subnet(zone, "public", subnets.public, "kubernetes.io/role/elb")
            for zone, subnets in plan.items()
            if not closed
        }
        self.private_subnet_ids = {
            zone: self._subnet(zone, "private", subnets.private, "kubernetes.io/role/internal-elb")
            for zone, subnets in plan.items()
        }
        tables = {
            zone: self._route_table(f"private-{zone}", {zone: id_}) for zone, id_ in self.private_subnet_ids.items()
        }
        public = [] if closed else [self._open_the_way_out(tables)]
        self._reach_s3([*public, *tables.values()])
        self._reach_aws()
        self._keep_flow_logs()

    def _vpc(self) -> pulumi.Output[str]:
        return Vpc(
            f"{self._name}-vpc",
            cidr_block=self._args.settings.cidr,
            enable_dns_hostnames=True,  # the private endpoint of the cluster is found by name
            enable_dns_support=True,
            tags=self._tags("vpc"),
            # Another CIDR means another VPC, to which no cluster can move. With this protection the preview fails,
            # instead of an `up` that has already created the new network while the old one is in use.
            opts=pulumi.ResourceOptions(parent=self, protect=self._args.deletion_protection),
        ).id

    def _close_the_default_group(self) -> None:
        """Empty the VPC's default security group. It is open, cannot be deleted, and applies where no group is named.

        This adopts the existing group; a destroy leaves it empty until the VPC is deleted.
        """
        DefaultSecurityGroup(
            f"{self._name}-default",
            vpc_id=self.vpc_id,
            ingress=[],
            egress=[],
            tags=self._tags("default-unused"),
            opts=self._child,
        )

    def _subnet(self, zone: str, kind: str, cidr: str, role: str) -> pulumi.Output[str]:
        return Subnet(
            f"{self._name}-{kind}-{zone}",
            vpc_id=self.vpc_id,
            cidr_block=cidr,
            availability_zone=None if is_id(zone) else self._zones[zone],
            availability_zone_id=self._zones[zone] if is_id(zone) else None,
            map_public_ip_on_launch=False,
            tags=self._tags(f"{kind}-{zone}")
            | {role: "1", f"kubernetes.io/cluster/{self._args.stack.customer}": "shared"},
            opts=self._child,
        ).id

    def _open_the_way_out(self, private: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
        """Route each zone's private route table to the internet. Return the public route table."""
        internet = InternetGateway(
            f"{self._name}-internet", vpc_id=self.vpc_id, tags=self._tags("internet"), opts=self._child
        )
        public = self._route_table("public", self.public_subnet_ids)
        to_internet = Route(
            f"{self._name}-to-internet",
            route_table_id=public,
            destination_cidr_block=_ANYWHERE,
            gateway_id=internet.id,
            opts=self._child,
        )
        first, *others = self._args.settings.gateway_zones(self._args.zones)
        # The first gateway has the same name as with `single`.
        gateways = {first: self._nat_gateway(f"{self._name}-nat", first, to_internet)}
        gateways |= {zone: self._nat_gateway(f"{self._name}-nat-{zone}", zone, to_internet) for zone in others}
        for zone, table in private.items():
            Route(
                f"{self._name}-out-{zone}",
                route_table_id=table,
                destination_cidr_block=_ANYWHERE,
                nat_gateway_id=gateways.get(zone, gateways[first]),
                opts=self._child,
            )
        return public

    def _nat_gateway(self, name: str, zone: str, to_internet: Route) -> pulumi.Output[str]:
        address = Eip(name, domain="vpc", tags=self._tags(name.removeprefix(f"{self._name}-")), opts=self._child)
        return NatGateway(
            name,
            allocation_id=address.id,
            subnet_id=self.public_subnet_ids[zone],
            tags=self._tags(f"nat-{zone}"),
            # A gateway fails if it is created before its subnet can reach the internet.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[to_internet]),
        ).id

    def _route_table(self, kind: str, subnet_ids: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
        table = RouteTable(f"{self._name}-{kind}", vpc_id=self.vpc_id, tags=self._tags(kind), opts=self._child)
        for zone, subnet_id in subnet_ids.items():
            RouteTableAssociation(
                f"{self._name}-{kind}-{zone}" if kind == "public" else f"{self._name}-{kind}",
                subnet_id=subnet_id,
                route_table_id=table.id,
                opts=self._child,
            )
        return table.id

    def _reach_s3(self, route_tables: Sequence[pulumi.Output[str]]) -> None:
        VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{self._args.stack.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=route_tables,
            tags=self._tags("s3"),
            opts=self._child,
        )

    def _reach_aws(self) -> None:
        args = self._args
        if args.settings.endpoints:
            endpoints = EndpointArgs(
                stack=args.stack,
                vpc_id=self.vpc_id,
                cidr=args.settings.cidr,
                subnet_ids=list(self.private_subnet_ids.values()),
                services=called_services(
                    session_manager=args.session_manager, karpenter=args.karpenter, queues=args.queues
                ),
            )
            interface_endpoints(self._name, endpoints, parent=self)

    def _keep_flow_logs(self) -> None:
        args = self._args
        if args.settings.flow_logs is not None:
            logs = FlowLogArgs(
                stack=args.stack,
                vpc_id=self.vpc_id,
                retention_days=args.settings.flow_logs.retention_days,
            )
            flow_logs(self._name, logs, parent=self)

    def _tags(self, part: str) -> dict[str, str]:
        return {"Name": f"{self._args.stack.customer}-{part}", **self._args.stack.tags}
