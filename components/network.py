"""The customer's network: one VPC, a public and a private subnet per zone, one way out.

Nodes live in the private subnets only. One NAT gateway serves all zones: a second one costs as much as a small node and
protects only against the loss of a zone, in which the other zones' nodes would wait for images. Each zone has a route
table of its own, so that adding gateways later replaces nothing. S3, which holds the layers of container images, is
reached through a gateway endpoint and not through the NAT gateway, which bills per gigabyte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi

from components.ec2 import (
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
from ebbtide.settings.types import ZONE_LETTERS

VPC_CIDR = "10.0.0.0/16"
_ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    public: str  # CIDR: load balancers and the NAT gateway
    private: str  # CIDR: nodes and pods


def plan_subnets(zones: Sequence[str]) -> dict[str, ZoneSubnets]:
    """One slot of the VPC per zone letter, so that adding, removing or reordering zones renumbers no other zone.

    The VPC has eight slots of 8,192 addresses: half of a slot is private, and its third quarter begins with 256 public.
    """
    slots = list(IPv4Network(VPC_CIDR).subnets(new_prefix=19))
    plan: dict[str, ZoneSubnets] = {}
    for zone in zones:
        private, rest = slots[ZONE_LETTERS.index(zone)].subnets(new_prefix=20)
        plan[zone] = ZoneSubnets(public=str(next(rest.subnets(new_prefix=24))), private=str(private))
    return plan


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    region: str
    zones: Sequence[str]  # letters: "a" is us-east-1a in us-east-1
    cluster_name: str
    tags: Mapping[str, str]


class Network(pulumi.ComponentResource):
    """Everything that exists before the cluster and outlives it."""

    vpc_id: pulumi.Output[str]
    private_subnet_ids: Mapping[str, pulumi.Output[str]]  # by zone
    public_subnet_ids: Mapping[str, pulumi.Output[str]]  # by zone

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Network", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        vpc = Vpc(
            f"{name}-vpc",
            cidr_block=VPC_CIDR,
            enable_dns_hostnames=True,  # the private endpoint of the cluster is found by name
            enable_dns_support=True,
            tags=self._tags("vpc"),
            opts=self._child,
        )
        self.vpc_id = vpc.id
        plan = plan_subnets(args.zones)
        self.public_subnet_ids = {
            zone: self._subnet(zone, "public", subnets.public, "kubernetes.io/role/elb")
            for zone, subnets in plan.items()
        }
        self.private_subnet_ids = {
            zone: self._subnet(zone, "private", subnets.private, "kubernetes.io/role/internal-elb")
            for zone, subnets in plan.items()
        }
        self._open_the_way_out()
        self.register_outputs({"vpc_id": self.vpc_id})

    def _subnet(self, zone: str, kind: str, cidr: str, role: str) -> pulumi.Output[str]:
        return Subnet(
            f"{self._name}-{kind}-{zone}",
            vpc_id=self.vpc_id,
            cidr_block=cidr,
            availability_zone=f"{self._args.region}{zone}",
            map_public_ip_on_launch=False,
            tags=self._tags(f"{kind}-{zone}")
            | {role: "1", f"kubernetes.io/cluster/{self._args.cluster_name}": "shared"},
            opts=self._child,
        ).id

    def _open_the_way_out(self) -> None:
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
        nat = self._nat_gateway(to_internet)
        private = [self._route_table(f"private-{zone}", {zone: id_}) for zone, id_ in self.private_subnet_ids.items()]
        for zone, table in zip(self.private_subnet_ids, private, strict=True):
            Route(
                f"{self._name}-out-{zone}",
                route_table_id=table,
                destination_cidr_block=_ANYWHERE,
                nat_gateway_id=nat.id,
                opts=self._child,
            )
        VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{self._args.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[public, *private],
            tags=self._tags("s3"),
            opts=self._child,
        )

    def _nat_gateway(self, to_internet: Route) -> NatGateway:
        zone, subnet_id = next(iter(self.public_subnet_ids.items()))
        address = Eip(f"{self._name}-nat", domain="vpc", tags=self._tags("nat"), opts=self._child)
        return NatGateway(
            f"{self._name}-nat",
            allocation_id=address.id,
            subnet_id=subnet_id,
            tags=self._tags(f"nat-{zone}"),
            # A gateway made before its subnet can reach the internet fails.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[to_internet]),
        )

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

    def _tags(self, part: str) -> dict[str, str]:
        return {"Name": f"{self._args.cluster_name}-{part}", **self._args.tags}
