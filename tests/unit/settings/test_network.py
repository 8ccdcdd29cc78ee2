"""The network's section: what it leaves to defaults, and what it refuses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.settings import warnings_of
from ebbtide.settings.network import Nat, NetworkSettings
from ebbtide.settings.types import ZONE_LETTERS
from tests.builders_settings import loaded, problem_of, problems_of, shortest

A, B, C = (f"{zone}: subnet-0000000{zone}" for zone in "abc")
ZONES = st.lists(st.sampled_from(ZONE_LETTERS), min_size=2, max_size=4, unique=True)


def file(network: str, *more: str) -> str:
    return shortest(more="\n".join((f"ebbtide:network: {{ {network} }}", *more)))


def vpc(*subnets: str) -> str:
    return f"vpc: {{ id: vpc-0a1b2c3d, privateSubnets: {{ {', '.join(subnets)} }} }}"


def test_a_file_without_the_section_has_one_gateway_and_nothing_to_pay_for_beside_it(tmp_path: Path) -> None:
    network = loaded(shortest(), tmp_path).network

    assert (network.cidr, network.nat, network.endpoints) == ("10.0.0.0/16", Nat.SINGLE, False)
    assert network.flow_logs is None
    assert network.vpc is None


def test_a_closed_network_has_endpoints_without_asking(tmp_path: Path) -> None:
    assert loaded(file("nat: none"), tmp_path).network.endpoints
    assert "endpoints: wanted true with nat: none" in problem_of(file("nat: none, endpoints: false"), tmp_path)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("nat: per-zon", "network.nat: wanted one of 'none', 'single', 'per-zone', found 'per-zon'"),
        ("endpoints: some", "network.endpoints: wanted true or false, found 'some'"),
        ('cidr: "10.0.0.0"', "network.cidr: wanted a block of private addresses from /16 to /20, found '10.0.0.0'"),
        ('cidr: "10.0.3.0/16"', "did you mean 10.0.0.0/16?"),
        ('cidr: "10.0.0.0/12"', "AWS makes no larger VPC"),
        ('cidr: "10.0.0.0/24"', "less has no room for the pods of every zone"),
        ('cidr: "172.32.0.0/16"', "private addresses begin with 10., with 172.16. to 172.31. or with 192.168."),
        ("cidr: 16", "network.cidr: wanted a block of private addresses from /16 to /20, found 16"),
        ("flowLogs: true", "network.flowLogs: wanted a mapping, found true (for example { retentionDays: 14 })"),
        ("flowLogs: { retentionDays: 10 }", "flowLogs.retentionDays: wanted a number of days that CloudWatch takes"),
        ("vpc: vpc-0a1b2c3d", "network.vpc: wanted a mapping"),
        ("vpc: { id: vpc-0a1b2c3d }", "network.vpc.privateSubnets: wanted this key"),
        (vpc(A, "b: subnet-b"), "network.vpc.privateSubnets.b: wanted the id of a subnet, found 'subnet-b'"),
        (
            vpc(A, "b: subnet-0000000a"),
            "a subnet of its own for each zone, found subnet-0000000a for a and for b",
        ),
        (vpc(A, "us-east-1b: subnet-0000000b"), "found the key 'us-east-1b' (for example a); did you mean b?"),
    ],
)
def test_a_network_that_cannot_be_is_refused(network: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(file(network), tmp_path)


def test_a_given_vpc_with_too_few_subnets_is_refused_in_one_line(tmp_path: Path) -> None:
    text = file(vpc(A), "ebbtide:cluster: { zones: [a, b, c] }")

    assert problem_of(text, tmp_path).startswith(
        ":6: ebbtide:network.vpc.privateSubnets: wanted a subnet for each zone of the cluster: a, b, c, "
        "found none for b and c"
    )


def test_a_given_vpc_may_have_more_subnets_than_the_cluster_has_zones(tmp_path: Path) -> None:
    network = loaded(file(vpc(A, B, C)), tmp_path).network

    assert network.vpc is not None
    assert set(network.vpc.private_subnets) == {"a", "b", "c"}


def test_a_given_vpc_leaves_its_ways_out_to_its_owner(tmp_path: Path) -> None:
    own = 'cidr: "10.0.0.0/16", nat: single, endpoints: false, flowLogs: {}'
    problems = problems_of(file(f"{own}, {vpc(A, B)}"), tmp_path)

    assert [problem.path.removeprefix("ebbtide:network.") for problem in problems] == [
        *("cidr", "endpoints", "flowLogs", "nat")
    ]
    assert {problem.wanted.partition(",")[0] for problem in problems} >= {"cidr or vpc", "nat or vpc"}


def test_a_closed_network_without_a_mirror_is_warned_about(tmp_path: Path) -> None:
    mirror = "ebbtide:images: { registry: 111122223333.dkr.ecr.us-east-1.amazonaws.com }"

    assert any("network.nat: with none" in warning for warning in warnings_of(loaded(file("nat: none"), tmp_path)))
    assert not any("network.nat" in warning for warning in warnings_of(loaded(file("nat: none", mirror), tmp_path)))


def test_a_block_too_small_for_the_nodes_is_warned_about(tmp_path: Path) -> None:
    small, large = (file(f'cidr: "10.0.0.0/{prefix}"', "ebbtide:cluster: { zones: [a, b] }") for prefix in (20, 16))

    # 256 addresses less 5, by 17 each: 14 nodes; the default groups may have 3 + 10 there, and one more group 5
    spot = "  ebbtide:nodeGroups: { spot: { max: 10 } }\n"
    assert not any("network.cidr" in warning for warning in warnings_of(loaded(small, tmp_path)))
    assert any("addresses for 14 nodes at most" in warning for warning in warnings_of(loaded(small + spot, tmp_path)))
    assert not any("network.cidr" in warning for warning in warnings_of(loaded(large + spot, tmp_path)))


def test_more_than_four_zones_are_refused(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:cluster: { zones: [a, b, c, d, e] }")

    assert "ebbtide:cluster.zones: wanted at most four zones" in problem_of(text, tmp_path)


@given(zones=ZONES, nat=st.sampled_from(Nat))
def test_the_first_zone_keeps_its_gateway_however_many_there_are(zones: list[str], nat: Nat) -> None:
    gateways = NetworkSettings(nat=nat).gateway_zones(zones)

    assert len(gateways) == {Nat.NONE: 0, Nat.SINGLE: 1, Nat.PER_ZONE: len(zones)}[nat]
    assert list(gateways) == zones[: len(gateways)]
