"""The network's plan and what becomes of it."""

from ipaddress import IPv4Network
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from components.network import VPC_CIDR, Network, NetworkArgs, plan_subnets
from ebbtide.settings.types import ZONE_LETTERS
from tests.builders_stack import Recorded, run

ZONES = st.lists(st.sampled_from(ZONE_LETTERS), min_size=2, max_size=len(ZONE_LETTERS), unique=True)


def network(*zones: str) -> Recorded:
    args = NetworkArgs(region="us-east-1", zones=zones, cluster_name="acme", tags={"team": "ml"})
    return run(lambda: Network("network", args))


@given(zones=ZONES)
def test_subnets_lie_in_the_vpc_and_never_overlap(zones: list[str]) -> None:
    subnets = [IPv4Network(cidr) for zone in plan_subnets(zones).values() for cidr in (zone.public, zone.private)]

    assert all(subnet.subnet_of(IPv4Network(VPC_CIDR)) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))


@given(before=ZONES, after=ZONES)
def test_changing_the_zones_renumbers_no_zone_that_stays(before: list[str], after: list[str]) -> None:
    old, new = plan_subnets(before), plan_subnets(after)

    assert all(old[zone] == new[zone] for zone in set(before) & set(after))


def test_each_zone_has_both_subnets_with_the_tags_load_balancers_look_for() -> None:
    subnets = {subnet.name: subnet.inputs for subnet in network("a", "c").of("Subnet")}

    assert sorted(subnets) == ["network-private-a", "network-private-c", "network-public-a", "network-public-c"]
    assert subnets["network-private-c"]["availabilityZone"] == "us-east-1c"
    assert subnets["network-private-a"]["tags"]["kubernetes.io/role/internal-elb"] == "1"
    assert subnets["network-public-a"]["tags"]["kubernetes.io/role/elb"] == "1"
    assert all(subnet["tags"]["kubernetes.io/cluster/acme"] == "shared" for subnet in subnets.values())


def test_private_subnets_share_one_way_out_and_reach_s3_without_it() -> None:
    seen = network("a", "b", "c")
    nat = seen.named("network-nat", "NatGateway")
    outward = {route.name for route in seen.of("Route") if "natGatewayId" in route.inputs}

    assert outward == {"network-out-a", "network-out-b", "network-out-c"}
    assert "network-to-internet" in seen.before(nat)
    assert len(seen.named("network-s3").inputs["routeTableIds"]) == 4
    assert len(seen.of("RouteTableAssociation")) == 6
