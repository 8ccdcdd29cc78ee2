"""The zones of an account: AWS' answer is compared with the file before anything is created."""

import pulumi
import pytest

from components.aws.node_shape import name_prefix
from components.aws.subnets import plan_subnets, refuse_other_zones
from components.cluster.autoscaler_settings import pattern
from ebbtide.provisioning_labels import NodeKind
from tests.builders.network import network

TOKYO = {"ap-northeast-1a": "apne1-az4", "ap-northeast-1c": "apne1-az1", "ap-northeast-1d": "apne1-az2"}
VIRGINIA = {f"us-east-1{letter}": f"use1-az{number}" for letter, number in zip("abcdef", "612435", strict=True)}


def refused(region: str, zones: list[str], found: dict[str, str]) -> str:
    with pytest.raises(pulumi.RunError) as error:
        refuse_other_zones(region, zones, found)
    return str(error.value)


def test_a_letter_that_the_account_does_not_have_is_refused_with_those_that_it_has() -> None:
    assert refused("ap-northeast-1", ["a", "b"], TOKYO) == (
        "ebbtide:cluster.zones: wanted zones of this account in ap-northeast-1 (AWS lists a, c, d), found b "
        "(for example [a, c]); nothing was changed"
    )


def test_an_id_that_the_account_does_not_have_is_refused_too() -> None:
    said = refused("ap-northeast-1", ["apne1-az1", "apne1-az3"], TOKYO)

    assert "found apne1-az3 (for example [apne1-az1, apne1-az2])" in said


def test_a_letter_that_leads_to_a_zone_without_eks_is_named_as_such() -> None:
    """In this account that is `d`."""
    dealt = {**VIRGINIA, "us-east-1d": "use1-az3", "us-east-1e": "use1-az4"}

    said = refused("us-east-1", ["a", "d"], dealt)
    assert "found d" in said
    assert "EKS creates no cluster in d" in said
    assert "a, b, c, e, f" in said


@pytest.mark.parametrize(
    ("region", "zones", "found"),
    [
        ("ap-northeast-1", ["a", "d"], TOKYO),
        ("ap-northeast-1", ["apne1-az4", "apne1-az2"], TOKYO),
        ("ap-northeast-1", ["a", "b"], {}),  # a rendering, which asks nobody
        ("us-east-1", ["a", "b"], {**VIRGINIA, "us-east-1-bos-1a": "use1-bos1-az1"}),  # with a local zone beside them
    ],
)
def test_what_the_account_has_is_taken(region: str, zones: list[str], found: dict[str, str]) -> None:
    refuse_other_zones(region, zones, found)


def test_subnets_are_made_by_the_id_where_the_file_has_ids() -> None:
    by_letter, by_id = (
        {
            (it.inputs.get("availabilityZone"), it.inputs.get("availabilityZoneId"), it.inputs["cidrBlock"])
            for it in network(*zones).of("Subnet")
        }
        for zones in (("a", "d"), ("use1-az1", "use1-az4"))
    )

    assert {zone for zone, _, _ in by_letter} == {"us-east-1a", "us-east-1d"}
    assert {id_ for _, id_, _ in by_letter} == {None}
    assert {zone for zone, _, _ in by_id} == {None}
    assert {id_ for _, id_, _ in by_id} == {"use1-az1", "use1-az4"}
    assert {block for *_, block in by_id} == {block for *_, block in by_letter}  # a is the first slot, and so is az1


def test_an_id_is_as_short_as_a_letter_in_names_that_aws_keeps_short() -> None:
    """The provider adds 26 characters, EKS allows 63, and the autoscaler identifies groups by their names."""
    longest = name_prefix("x" * 24, NodeKind.FLEXIBLE, "apne1-az4")

    assert longest.endswith("-4-")
    assert len(longest) + 26 <= 63
    assert pattern("flexible", ("use1-az1", "use1-az4")) == pattern("flexible", ("1", "4"))
    assert [*plan_subnets("10.0.0.0/16", ["use1-az8"])] == ["use1-az8"]
