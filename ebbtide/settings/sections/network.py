"""The section of the network: a VPC that the stack creates with its gateways, or an existing one.

The owner of an existing VPC decides about its gateways, endpoints and logs, so those keys contradict it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, Strict
from pydantic_core import PydanticCustomError

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import text, text_schema
from ebbtide.settings.sections.types import ZONE_ID, ZONE_LETTERS, RetentionDays, parse_zone
from ebbtide.text.addresses import PRIVATE

CALLED: Mapping[str, str] = {
    "ec2": "a node finds its own name; the network and volume add-ons attach interfaces and volumes",
    "ecr.api": "the node authenticates to the image registry",
    "ecr.dkr": "the node pulls images; their layers come from S3, through the gateway endpoint",
    "eks": "the cluster autoscaler reads what an empty node group would look like",
    "eks-auth": "pods get their roles by Pod Identity",
    "sts": "pods that assume a role, and `aws eks get-token` inside the network",
    "autoscaling": "the cluster autoscaler reads and resizes groups",
    "logs": "agents that ship logs to CloudWatch",
}
"""AWS services that nodes and system pods call, which a network without a gateway must still reach.

Source: "Deploy private clusters with limited internet access", awsdocs/amazon-eks-user-guide,
`latest/ug/clusters/private-clusters.adoc`. Two of its points are not followed. It has an endpoint for load balancers,
whose only caller in the VPC would be a load balancer controller, and Ebbtide installs none. It has the cluster
autoscaler use its built-in list of instance types, but the autoscaler no longer reads a price list on the internet: it
asks EC2. (Source: kubernetes/autoscaler, `cluster-autoscaler/cloudprovider/aws/aws_util.go`.)
"""

FOR_SHELLS = ("ssm", "ssmmessages")
"""For shells on nodes. Only agents before 3.3.40 need `ec2messages`; all supported AMIs have newer ones.
(Source: AWS Systems Manager user guide, "Improve the security of EC2 instances by using VPC endpoints".)"""


FOR_KARPENTER = ("sqs", "ssm")
"""Karpenter reads interruptions from a queue, and the ids of node images from Systems Manager's parameters."""


FOR_QUEUES = ("sqs",)
"""The controller counts messages in SQS, without a proxy, and workers receive them."""


def called_services(*, session_manager: bool, karpenter: bool = False, queues: bool = False) -> tuple[str, ...]:
    """Return the last parts of the endpoints' names. `queues`: pools have their queues in SQS."""
    further = ((FOR_SHELLS, session_manager), (FOR_KARPENTER, karpenter), (FOR_QUEUES, queues))
    names = [name for services, needed in further if needed for name in services]
    return tuple(dict.fromkeys((*CALLED, *names)))


DEFAULT_CIDR = "10.0.0.0/16"
LARGEST, SMALLEST = 16, 20
"""Prefix lengths of a VPC: AWS' maximum, and the smallest with addresses for the pods of every zone."""

ZONES_SHARE = 16
"""Share of the VPC for each zone's private subnet: eight zones in half of it."""

KEPT_BY_AWS = 5  # of each subnet
ADDRESSES_PER_NODE = 17
"""Minimum: its own, and a block of sixteen for its pods, since addresses are assigned in blocks."""

_PRIVATE = tuple(map(IPv4Network, PRIVATE))
_PRIVATE_PATTERN = r"^(10\.\d{1,3}|172\.(1[6-9]|2\d|3[01])|192\.168)\.\d{1,3}\.\d{1,3}/(1[6-9]|20)$"
_VPC_ID, _SUBNET_ID = (rf"^{kind}-[0-9a-f]{{8}}([0-9a-f]{{9}})?$" for kind in ("vpc", "subnet"))


class Nat(StrEnum):
    NONE = "none"
    SINGLE = "single"
    PER_ZONE = "per-zone"


def parse_cidr(value: object) -> str:
    """Accept the VPC's address range, kept as text."""
    expected, example = f"a block of private addresses from /{LARGEST} to /{SMALLEST}", f'"{DEFAULT_CIDR}"'
    try:
        block = IPv4Network(value, strict=False) if isinstance(value, str) and "/" in value else None
    except ValueError:
        block = None
    if block is None:
        raise wanted("cidr.form", expected, example=example)
    if not any(block.subnet_of(private) for private in _PRIVATE):
        hint = "private addresses begin with 10., with 172.16. to 172.31. or with 192.168."
        raise wanted("cidr.public", expected, example=example, hint=hint)
    if not LARGEST <= block.prefixlen <= SMALLEST:
        too_large = block.prefixlen < LARGEST
        code = "cidr.too-large" if too_large else "cidr.too-small"
        hint = "AWS has no larger VPC" if too_large else "a smaller one has too few addresses for every zone's pods"
        raise wanted(code, expected, example=example, hint=hint)
    if str(block) != value:
        raise wanted(
            "cidr.first-address", f"{expected}, by its first address", example=example, hint=f"did you mean {block}?"
        )
    return str(block)


def _parse_zone_key(value: object) -> str:
    """Accept a zone as a key; the fault is located at the key, not at its value."""
    try:
        return parse_zone(value)
    except PydanticCustomError as fault:
        context = fault.context or {}
        actual, example, hint = f"the key {value!r}", str(context["example"]), str(context["hint"])
        raise wanted(str(context["code"]), str(context["wanted"]), found=actual, example=example, hint=hint) from None


def _each_zone_has_its_own(subnets: Mapping[str, str]) -> Mapping[str, str]:
    first: dict[str, str] = {}
    for zone, subnet in subnets.items():
        first_zone = first.setdefault(subnet, zone)
        if first_zone != zone:
            raise wanted("subnet.shared", "one subnet for each zone", found=f"{subnet} for {first_zone} and for {zone}")
    return subnets


Cidr: TypeAlias = Annotated[str, BeforeValidator(parse_cidr), text_schema(_PRIVATE_PATTERN)]
VpcId: TypeAlias = Annotated[str, *text(_VPC_ID, "vpc.id", "the id of a VPC", "vpc-0a1b2c3d")]
ZoneKey: TypeAlias = Annotated[
    str,
    BeforeValidator(_parse_zone_key),
    text_schema(f"^([{ZONE_LETTERS}]|{ZONE_ID})$"),
]
SubnetId: TypeAlias = Annotated[str, *text(_SUBNET_ID, "subnet.id", "the id of a subnet", "subnet-0a1b2c3d")]


class FlowLogSettings(Settings):
    """VPC flow logs in CloudWatch Logs."""

    retention_days: RetentionDays = Field(
        default=14, description="retention in days, one of the values that CloudWatch accepts", examples=["14"]
    )


class GivenVpc(Settings):
    """An existing VPC. The stack only adds the cluster and its nodes."""

    id: VpcId = Field(description="id of the VPC", examples=["vpc-0a1b2c3d"])
    private_subnets: Annotated[dict[ZoneKey, SubnetId], AfterValidator(_each_zone_has_its_own)] = Field(
        description="subnet for nodes and pods by zone; at least one for each zone of the cluster",
        examples=["{ a: subnet-0a1b2c3d, b: subnet-4e5f6071 }"],
    )


def _endpoints(values: dict[str, Any]) -> bool:
    return values.get("nat") is Nat.NONE


def _some_way_to_aws(nat: Nat, endpoints: bool) -> None:  # noqa: FBT001 - the fields of a check come by position
    if nat is Nat.NONE and not endpoints:
        raise wanted(
            "endpoints.needed",
            "true with nat: none, since no node could join without them",
            example="true",
            at="endpoints",
        )


class NetworkSettings(Settings):
    """The VPC of the cluster."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("nat", "endpoints"), _some_way_to_aws),)
    one_of: ClassVar[tuple[tuple[str, str], ...]] = tuple(
        (key, "vpc") for key in ("cidr", "nat", "endpoints", "flowLogs")
    )

    cidr: Cidr = Field(
        default=DEFAULT_CIDR,
        description="private address range of the VPC, /16 to /20; cannot change on a live stack",
        examples=[f'"{DEFAULT_CIDR}"'],
    )
    nat: Nat = Field(
        default=Nat.SINGLE,
        description="NAT gateways: none, single (one for all zones) or per-zone",
        examples=["single"],
    )
    endpoints: Annotated[bool, Strict()] = Field(
        default_factory=_endpoints,
        description="interface endpoints for the AWS services that nodes call; default: true with nat: none, "
        "else false",
        examples=["true"],
    )
    flow_logs: FlowLogSettings | None = Field(
        default=None, description="VPC flow logs; default: none", examples=["{ retentionDays: 14 }"]
    )
    vpc: GivenVpc | None = Field(
        default=None,
        description="an existing VPC, instead of a new one",
        examples=["{ id: vpc-0a1b2c3d, privateSubnets: { a: subnet-0a1b2c3d, b: subnet-4e5f6071 } }"],
    )

    def nodes_per_zone(self) -> int | None:
        """Return the maximum number of nodes per zone by addresses, or None for an existing VPC."""
        if self.vpc is not None:
            return None
        return (IPv4Network(self.cidr).num_addresses // ZONES_SHARE - KEPT_BY_AWS) // ADDRESSES_PER_NODE

    def gateway_zones(self, zones: Sequence[str]) -> tuple[str, ...]:
        """Return the zones with a NAT gateway; with `single` the first zone of the file."""
        if self.vpc is not None or self.nat is Nat.NONE:
            return ()
        return tuple(zones) if self.nat is Nat.PER_ZONE else tuple(zones[:1])
