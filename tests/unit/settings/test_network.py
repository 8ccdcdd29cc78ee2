"""The network's section: defaults and refusals."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.network import Nat, NetworkSettings
from ebbtide.settings.sections.types import ZONE_LETTERS
from tests.builders.settings import loaded, problem_of, problems_of, shortest

A, B, C = (f"{zone}: subnet-0000000{zone}" for zone in "abc")
ZONES = st.lists(st.sampled_from(ZONE_LETTERS), min_size=2, max_size=4, unique=True)


def file(network: str, *more: str) -> str:
    return shortest(more="\n".join((f"ebbtide:network: {{ {network} }}", *more)))


def codes_of(text: str, folder: Path) -> set[str]:
    return {caution.code for caution in warnings_of(loaded(text, folder))}


def vpc(*subnets: str) -> str:
    return f"vpc: {{ id: vpc-0a1b2c3d, privateSubnets: {{ {', '.join(subnets)} }} }}"


def test_a_file_without_the_section_has_one_gateway_and_nothing_to_pay_for_beside_it(tmp_path: Path) -> None:
    network = loaded(shortest(), tmp_path).network

    assert (network.cidr, network.nat, network.endpoints) == ("10.0.0.0/16", Nat.SINGLE, False)
    assert network.flow_logs is None
    assert network.vpc is None


def test_a_closed_network_has_endpoints_without_asking(tmp_path: Path) -> None:
    assert loaded(file("nat: none"), tmp_path).network.endpoints
    assert problem_of(file("nat: none, endpoints: false"), tmp_path).tells("endpoints.needed", "endpoints:")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("nat: per-zon", ("choice.unknown", "network.nat:", "found 'per-zon'")),
        ("endpoints: some", ("type.boolean", "network.endpoints:", "found 'some'")),
        ('cidr: "10.0.0.0"', ("cidr.form", "network.cidr:", "found '10.0.0.0'", "/16", "/20")),
        ('cidr: "10.0.3.0/16"', ("cidr.first-address", "did you mean 10.0.0.0/16?")),
        ('cidr: "10.0.0.0/12"', ("cidr.too-large",)),
        ('cidr: "10.0.0.0/24"', ("cidr.too-small",)),
        ('cidr: "172.32.0.0/16"', ("cidr.public", "10", "172.16", "172.31", "192.168")),
        ("cidr: 16", ("cidr.form", "network.cidr:", "found 16", "/16", "/20")),
        ("flowLogs: true", ("type.mapping", "network.flowLogs:", "found true", "(for example { retentionDays: 14 })")),
        ("flowLogs: { retentionDays: 10 }", ("log-retention.days", "flowLogs.retentionDays:")),
        ("vpc: vpc-0a1b2c3d", ("type.mapping", "network.vpc:")),
        (vpc(A, B).replace("vpc-0a1b2c3d", "vpc-123"), ("vpc.id", "network.vpc.id:", "found 'vpc-123'")),
        ("vpc: { id: vpc-0a1b2c3d }", ("key.missing", "network.vpc.privateSubnets:")),
        (vpc(A, "b: subnet-b"), ("subnet.id", "network.vpc.privateSubnets.b:", "found 'subnet-b'")),
        (
            vpc(A, "b: subnet-0000000a"),
            ("subnet.shared", "found subnet-0000000a for a and for b"),
        ),
        (
            vpc(A, "us-east-1b: subnet-0000000b"),
            ("zone.letter", "found the key 'us-east-1b'", "(for example a)", "did you mean b?"),
        ),
    ],
)
def test_a_network_that_cannot_be_is_refused(network: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(file(network), tmp_path).tells(*words)


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
    assert {problem.code for problem in problems} == {"keys.not-both"}


def test_a_closed_network_without_a_mirror_is_warned_about(tmp_path: Path) -> None:
    mirror = "ebbtide:images: { registry: 111122223333.dkr.ecr.us-east-1.amazonaws.com }"

    assert "nat.no-mirror" in codes_of(file("nat: none"), tmp_path)
    assert "nat.no-mirror" not in codes_of(file("nat: none", mirror), tmp_path)


def test_a_block_too_small_for_the_nodes_is_warned_about(tmp_path: Path) -> None:
    small, large = (file(f'cidr: "10.0.0.0/{prefix}"', "ebbtide:cluster: { zones: [a, b] }") for prefix in (20, 16))

    # 256 addresses less 5, by 17 each: 14 nodes; the default groups may have 3 + 10 there, and one more group 5
    spot = "  ebbtide:nodeGroups: { spot: { max: 10 } }\n"
    assert "cidr.too-few-addresses" not in codes_of(small, tmp_path)
    (caution,) = [
        caution for caution in warnings_of(loaded(small + spot, tmp_path)) if caution.code == "cidr.too-few-addresses"
    ]
    assert "14 nodes" in caution.text
    assert "cidr.too-few-addresses" not in codes_of(large + spot, tmp_path)


def test_more_than_four_zones_are_refused(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:cluster: { zones: [a, b, c, d, e] }")

    assert problem_of(text, tmp_path).tells("zones.too-many", "ebbtide:cluster.zones:")


@given(zones=ZONES, nat=st.sampled_from(Nat))
def test_the_first_zone_keeps_its_gateway_however_many_there_are(zones: list[str], nat: Nat) -> None:
    gateways = NetworkSettings(nat=nat).gateway_zones(zones)

    assert len(gateways) == {Nat.NONE: 0, Nat.SINGLE: 1, Nat.PER_ZONE: len(zones)}[nat]
    assert list(gateways) == zones[: len(gateways)]
