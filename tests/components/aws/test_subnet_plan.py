"""The ranges of subnets, for any block and zones."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from components.aws.subnets import plan_subnets
from ebbtide.settings.sections.network import ZONES_SHARE, parse_cidr
from ebbtide.settings.sections.types import ZONE_LETTERS

ZONES = st.lists(st.sampled_from(ZONE_LETTERS), min_size=2, max_size=4, unique=True)
PRIVATE = st.sampled_from([IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")])


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """Any valid block of a stack file."""
    room, prefix = draw(PRIVATE), draw(st.integers(16, 20))
    offset = draw(st.integers(0, 2 ** (prefix - room.prefixlen) - 1))
    return parse_cidr(f"{IPv4Address(int(room.network_address) + (offset << (32 - prefix)))}/{prefix}")


def subnets(cidr: str, zones: Sequence[str]) -> list[IPv4Network]:
    plan = plan_subnets(cidr, zones).values()
    return [IPv4Network(subnet) for zone in plan for subnet in (zone.public, zone.private)]


@given(cidr=blocks(), zones=ZONES)
def test_subnets_lie_in_the_vpc_and_never_overlap(cidr: str, zones: list[str]) -> None:
    planned = subnets(cidr, zones)

    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in planned)
    assert not any(one.overlaps(other) for one, other in combinations(planned, 2))


@given(cidr=blocks(), before=ZONES, after=ZONES)
def test_changing_the_zones_renumbers_no_zone_that_stays(cidr: str, before: list[str], after: list[str]) -> None:
    old, new = plan_subnets(cidr, before), plan_subnets(cidr, after)

    assert all(old[zone] == new[zone] for zone in set(before) & set(after))


@given(cidr=blocks(), zones=ZONES)
def test_every_subnet_has_room_for_what_lives_there(cidr: str, zones: list[str]) -> None:
    plan = plan_subnets(cidr, zones).values()

    assert all(IPv4Network(zone.private).num_addresses >= 256 for zone in plan)
    assert all(IPv4Network(zone.public).prefixlen <= 27 for zone in plan)  # a load balancer's smallest


@given(cidr=blocks(), zones=ZONES)
def test_a_private_subnet_is_the_share_that_settings_reckon_with(cidr: str, zones: list[str]) -> None:
    private = [IPv4Network(zone.private) for zone in plan_subnets(cidr, zones).values()]

    assert {subnet.num_addresses * ZONES_SHARE for subnet in private} == {IPv4Network(cidr).num_addresses}


def test_the_default_block_keeps_the_addresses_it_always_had() -> None:
    plan = plan_subnets("10.0.0.0/16", ("a", "b"))

    assert (plan["a"].private, plan["a"].public) == ("10.0.0.0/20", "10.0.16.0/24")
    assert (plan["b"].private, plan["b"].public) == ("10.0.32.0/20", "10.0.48.0/24")
