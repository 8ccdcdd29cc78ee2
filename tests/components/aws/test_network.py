"""The resources of the network's settings: subnets, gateways, and what is omitted."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.aws.network import Network, NetworkArgs
from components.context import StackContext
from ebbtide.recording.answers import identifier
from ebbtide.settings.sections.network import GivenVpc, Nat, NetworkSettings
from tests.builders.network import network
from tests.builders.stack import Recorded, run
from tests.counts import examples

pytestmark = pytest.mark.whole

GIVEN = GivenVpc(
    id="vpc-0a1b2c3d",
    private_subnets={"a": "subnet-0000000a", "b": "subnet-0000000b", "c": "subnet-0000000c"},
)


ZONES = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=4, unique=True)


def ways_out(seen: Recorded, zone: str) -> list[str]:
    """The gateways of a zone's private subnet for traffic outside the VPC."""
    gateways = {identifier(gateway.type, gateway.name): gateway.name for gateway in seen.of("NatGateway")}
    subnet = identifier("aws:ec2/subnet:Subnet", f"network-private-{zone}")
    tables = [
        link.inputs["routeTableId"] for link in seen.of("RouteTableAssociation") if link.inputs["subnetId"] == subnet
    ]
    routes = [route.inputs for route in seen.of("Route") if [route.inputs["routeTableId"]] == tables]
    assert all(route["destinationCidrBlock"] == "0.0.0.0/0" for route in routes)
    return [gateways[route["natGatewayId"]] for route in routes]


@given(zones=ZONES, nat=st.sampled_from(Nat))
@example(zones=list("abcd"), nat=Nat.PER_ZONE)
@settings(max_examples=examples(20), deadline=None)
def test_a_private_subnet_has_one_way_out_or_none_in_a_closed_network(zones: list[str], nat: Nat) -> None:
    seen = network(*zones, nat=nat)
    found = {zone: ways_out(seen, zone) for zone in zones}

    assert {len(ways) for ways in found.values()} == {0 if nat is Nat.NONE else 1}
    assert len({way for ways in found.values() for way in ways}) == len(seen.of("NatGateway"))


@pytest.mark.parametrize("nat", list(Nat))
def test_what_gets_no_group_of_its_own_neither_calls_nor_is_called(nat: Nat) -> None:
    (default,) = network("a", "b", nat=nat).of("DefaultSecurityGroup")

    assert default.inputs["vpcId"] == identifier("aws:ec2/vpc:Vpc", "network-vpc")
    assert (default.inputs["ingress"], default.inputs["egress"]) == ([], [])


def test_with_a_gateway_per_zone_no_traffic_leaves_through_another_zone() -> None:
    seen = network("b", "a", "d", nat="per-zone")
    placed = {gateway.name: gateway.inputs["subnetId"] for gateway in seen.of("NatGateway")}

    assert [ways_out(seen, zone) for zone in "bad"] == [["network-nat"], ["network-nat-a"], ["network-nat-d"]]
    assert placed == {
        name: identifier("aws:ec2/subnet:Subnet", f"network-public-{zone}")
        for name, zone in (("network-nat", "b"), ("network-nat-a", "a"), ("network-nat-d", "d"))
    }


def test_more_gateways_leave_everything_where_it_was_but_for_the_other_zones_routes() -> None:
    before = {resource.urn: resource for resource in network("a", "b", "c").all}
    after = {resource.urn: resource for resource in network("a", "b", "c", nat="per-zone").all}

    assert before.keys() <= after.keys()
    assert {r.name for urn, r in before.items() if r != after[urn]} == {"network-out-b", "network-out-c"}


@pytest.mark.parametrize("zones", ["ab", "dbca"])
def test_a_closed_network_has_no_way_out_at_all(zones: str) -> None:
    seen = network(*zones, nat="none")

    for kind in ("NatGateway", "InternetGateway", "Eip", "Route"):
        assert seen.of(kind) == []
    assert sorted(subnet.name for subnet in seen.of("Subnet")) == sorted(f"network-private-{zone}" for zone in zones)
    assert len(seen.named("network-s3").inputs["routeTableIds"]) == len(zones)


def test_closing_a_network_replaces_nothing_that_nodes_stand_on() -> None:
    open_, closed = network("a", "b", endpoints=True), network("a", "b", nat="none")
    removed = {r.name for r in open_.all} - {r.name for r in closed.all}

    assert {r.name: r.inputs for r in closed.of("Subnet")}.items() <= {
        r.name: r.inputs for r in open_.of("Subnet")
    }.items()
    assert removed == {
        *("network-internet", "network-to-internet", "network-nat", "network-public"),
        *(f"network-{part}-{zone}" for part in ("out", "public") for zone in "ab"),
    }


def test_the_vpc_of_a_live_stack_is_not_exchanged_by_accident(stack: Recorded) -> None:
    assert stack.named("network-vpc").protect
    assert not network("a", "b").named("network-vpc").protect  # without deletionProtection


def test_in_a_given_vpc_nothing_is_made() -> None:
    built: list[Network] = []
    args = NetworkArgs(
        stack=StackContext(customer="acme", region="us-east-1"), zones=("c", "a"), settings=NetworkSettings(vpc=GIVEN)
    )
    outputs: dict[str, str] = {}

    def program() -> None:
        given = Network("network", args)
        built.append(given)
        given.vpc_id.apply(lambda id_: outputs.update(vpc=id_))
        for zone, subnet in given.private_subnet_ids.items():
            subnet.apply(lambda id_, zone=zone: outputs.update({zone: id_}))

    assert [resource.name for resource in run(program).all] == ["network"]
    assert outputs == {"vpc": "vpc-0a1b2c3d", "c": "subnet-0000000c", "a": "subnet-0000000a"}
    assert built[0].public_subnet_ids == {}
