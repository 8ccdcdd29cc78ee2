"""Availability zones: public facts, and both notations."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.zones import WITHOUT_EKS, is_id, usual_letters, zone_findings
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, shortest


def stack(zones: str, region: str = "us-east-1") -> str:
    cluster = f"ebbtide:cluster: {{ zones: {zones} }}" if zones else ""
    return shortest(more=f"aws:region: {region}\n{cluster}")


@pytest.mark.parametrize(
    ("region", "zones", "code", "parts"),
    [
        (
            "us-east-1",
            "[a, h]",
            "zone.not-in-region",
            ("zones[1]:", "a, b, c, d, e, f", "found 'h'", "(for example a)"),
        ),
        ("ap-northeast-1", "[a, e]", "zone.not-in-region", ("a zone of ap-northeast-1: a, c, d", "found 'e'")),
        ("eu-central-1", "[a, b, d]", "zone.not-in-region", ("zones[2]:", "found 'd'")),
        (
            "us-east-1",
            "[use1-az1, use1-az7]",
            "zone.not-in-region",
            ("use1-az1, use1-az2, use1-az4", "found 'use1-az7'"),
        ),
        ("us-east-1", "[use1-az1, usw2-az1]", "zone.not-in-region", ("found 'usw2-az1'", "(for example use1-az1)")),
        ("us-east-1", "[use1-az1, use1-az3]", "zone.without-eks", ("zones[1]:", "found 'use1-az3'")),
        ("us-east-1", "[a, use1-az1]", "zones.mixed", ("cluster.zones:", "(for example [a, b])")),
        ("us-east-1", "[a, i]", "zone.letter", ("from a to h, or its id, such as use1-az1", "found 'i'")),
        (
            "eu-central-1",
            "[euc1-az1, euc1-az9]",
            "zone.not-in-region",
            ("a zone of eu-central-1: euc1-az1, euc1-az2, euc1-az3", "found 'euc1-az9'"),
        ),
        ("us-east-1", "[use1-az1, use1-az0]", "zone.not-in-region", ("found 'use1-az0'",)),
        ("us-east-1", "[use1-az1, use1-az10]", "zone.letter", ("found 'use1-az10'",)),
        ("mx-central-1", "[mxc1-az1, mxc1-az9]", "zone.letter", ("found 'mxc1-az9'",)),  # for which there is no subnet
        ("us-east-1", "[use1-az1, use1-az1]", "list.twice", ("cluster.zones",)),
    ],
)
def test_a_zone_that_nobody_has_is_refused_with_those_that_there_are(
    region: str, zones: str, code: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    assert problem_of(stack(zones, region), tmp_path).tells(code, *parts)


@pytest.mark.parametrize(
    ("region", "zones"),
    [
        ("us-east-1", "[a, f]"),
        ("us-east-1", "[use1-az1, use1-az6]"),
        ("ap-northeast-1", "[c, d]"),
        ("ap-northeast-1", "[a, b]"),  # of accounts that had it before
        ("ap-northeast-1", "[apne1-az1, apne1-az3]"),
        ("us-west-1", "[b, c]"),
        ("mx-central-1", "[a, h]"),  # of which nothing is known here
        ("mx-central-1", "[mxc1-az1, mxc1-az8]"),
    ],
)
def test_a_zone_that_somebody_has_or_may_have_is_taken(region: str, zones: str, tmp_path: Path) -> None:
    assert list(loaded(stack(zones, region), tmp_path).cluster.zones) == zones.strip("[]").split(", ")


def test_default_zones_that_new_accounts_lack_are_told_until_somebody_names_them(tmp_path: Path) -> None:
    def warnings_about(zones: str, region: str) -> list[str]:
        cautions = warnings_of(loaded(stack(zones, region), tmp_path))
        return [caution.text for caution in cautions if caution.code == "zones.of-old-accounts"]

    (text,) = warnings_about("", "ap-northeast-1")
    assert "[a, b]" in text
    assert "a, c, d" in text
    assert "which newer accounts do not have in ap-northeast-1" in text
    assert "(ids will do: apne1-az1)" in text
    assert (
        warnings_about("[a, b]", "ap-northeast-1")
        == warnings_about("", "us-east-1")
        == warnings_about("", "ca-central-1")
        == []
    )


def test_a_cluster_of_others_has_zones_of_its_own(tmp_path: Path) -> None:
    text = f"{onprem()}  aws:region: ap-northeast-1\n"

    assert [caution for caution in warnings_of(loaded(text, tmp_path)) if caution.code == "zones.of-old-accounts"] == []


@pytest.mark.parametrize("region", ["us-east-1", "us-west-1", "ap-northeast-1", "ca-central-1", "eu-west-2"])
def test_each_region_has_two_zones_in_which_every_account_may_make_a_cluster(region: str) -> None:
    letters = usual_letters(region)

    assert len(letters) >= 2
    assert zone_findings(letters, region, ()) == []


def test_ids_are_told_from_letters() -> None:
    assert all(map(is_id, WITHOUT_EKS))
    assert not any(map(is_id, ("a", "us-east-1a", "az1", "use1-az10")))
