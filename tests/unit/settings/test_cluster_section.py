"""The cluster's section: access to the API, versions, and the message for each invalid value."""

from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.access import parse_private_range, parse_public_range
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS, AddOn, is_newer
from tests.builders.settings import loaded, problem_of, problems_of, shortest

PLATFORM = "arn:aws:iam::123456789012:role/platform"


def cluster(inside: str) -> str:
    return shortest(more=f"ebbtide:cluster: {{ {inside} }}")


def test_without_a_word_the_cluster_is_private_and_locked(tmp_path: Path) -> None:
    settings = loaded(shortest(), tmp_path).cluster

    assert settings.public_access == settings.private_access == ()
    assert settings.admins == settings.viewers == ()
    assert (settings.deletion_protection, settings.zonal_shift, settings.session_manager) == (True, True, False)
    assert (settings.support_type, settings.log_retention_days) == ("standard", 90)


@pytest.mark.parametrize(
    ("range_", "why"),
    [
        ("0.0.0.0/0", ("range.everybody",)),
        ("::/0", ("range.everybody",)),
        ("128.0.0.0/1", ("range.too-wide", "/8")),
        ("10.0.0.0/16", ("public-range.private",)),
        ("2001:db8::/32", ("range.not-ipv4", "IPv4")),
        ("203.0.113.7/24", ("range.first-address", "did you mean 203.0.113.0/24?")),
        ("203.0.113.7", ("range.first-address", "did you mean 203.0.113.7/32?")),
        ("127.0.0.0/8", ("range.reserved",)),
        ("our office", ("range.form", "found 'our office'", "(for example 203.0.113.0/24)")),
    ],
)
def test_a_range_that_may_not_be_public_says_why(range_: str, why: tuple[str, ...], tmp_path: Path) -> None:
    problem = problem_of(cluster(f'publicAccess: ["{range_}"]'), tmp_path)

    assert "ebbtide:cluster.publicAccess[0]: " in problem
    assert problem.tells(*why)


def test_addresses_of_the_internet_are_no_private_network(tmp_path: Path) -> None:
    assert problem_of(cluster('privateAccess: ["203.0.113.0/24"]'), tmp_path).tells("private-range.public")


def test_the_examples_of_private_and_public_ranges_are_accepted(tmp_path: Path) -> None:
    for key in ("privateAccess", "publicAccess"):
        problem = problem_of(cluster(f"{key}: [our office]"), tmp_path)
        example = problem.partition("(for example ")[2].partition(")")[0]

        assert loaded(cluster(f'{key}: ["{example}"]'), tmp_path)


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_no_range_is_public_and_private_and_none_is_wide(address: int, prefix: int) -> None:
    network = IPv4Network((address, prefix), strict=False)
    taken = [parse for parse in (parse_public_range, parse_private_range) if accepts(parse, str(network))]

    assert len(taken) <= 1
    assert not taken or network.prefixlen >= 8


def accepts(parse: Callable[[object], str], text: str) -> bool:
    try:
        return parse(text) == text
    except PydanticCustomError:
        return False


def test_more_ranges_than_eks_takes_are_refused(tmp_path: Path) -> None:
    ranges = ", ".join(f'"203.0.113.{last}/32"' for last in range(41))

    assert problem_of(cluster(f"publicAccess: [{ranges}]"), tmp_path).tells("ranges.too-many", "40")


@pytest.mark.parametrize(
    "principal",
    [
        PLATFORM,
        "arn:aws:iam::123456789012:user/ops/anna",
        f"arn:aws:iam::123456789012:role/{'p' * 100}/{'r' * 64}",
        "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_0123456789abcdef",
    ],
)
def test_roles_and_users_may_come_in(principal: str, tmp_path: Path) -> None:
    assert loaded(cluster(f'admins: ["{principal}"]'), tmp_path).cluster.admins == (principal,)


@pytest.mark.parametrize(
    ("principal", "why"),
    [
        ("arn:aws:sts::123456789012:assumed-role/platform/anna", ("principal.session", PLATFORM)),
        ("arn:aws:iam::123456789012:root", ("principal.root",)),
        ("arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/X", ("principal.service-role",)),
        ("arn:aws:iam::12345:role/platform", ("principal.form",)),
        ("platform", ("principal.form",)),
        (f"arn:aws:iam::123456789012:role/teams/{'r' * 65}", ("principal.form", "65 letters")),
        ("arn:aws-us-gov:iam::123456789012:role/platform", ("principal.other-partition",)),
        ("arn:aws-cn:sts::123456789012:assumed-role/platform/anna", ("principal.other-partition",)),
    ],
)
def test_what_cannot_hold_an_entry_is_told_what_can(principal: str, why: tuple[str, ...], tmp_path: Path) -> None:
    problem = problem_of(cluster(f'viewers: ["{principal}"]'), tmp_path)

    assert "ebbtide:cluster.viewers[0]: " in problem
    assert problem.tells(*why)


def test_nobody_is_admin_and_viewer(tmp_path: Path) -> None:
    problem = problem_of(cluster(f'admins: ["{PLATFORM}"], viewers: ["{PLATFORM}"]'), tmp_path)

    assert problem.tells("principal.admin-and-viewer", "ebbtide:cluster.viewers:")


@pytest.mark.parametrize(
    ("days", "hint"),
    [
        ("91", ("log-retention.days", "did you mean 120?")),
        ('"90"', ("log-retention.days", "without quotes")),
        ("true", ("log-retention.days", "(for example 90)")),
    ],
)
def test_logs_are_kept_for_times_that_cloudwatch_takes(days: str, hint: tuple[str, ...], tmp_path: Path) -> None:
    problem = problem_of(cluster(f"logRetentionDays: {days}"), tmp_path)

    assert problem.tells("log-retention.days", "1", "3", "5")
    assert problem.tells(*hint)


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("1.99", ("kubernetes-version.unknown",)),
        ("2.0", ("kubernetes-version.unknown",)),
        ("1.28", ("kubernetes-version.too-old",)),
        ("1.37.2", ("kubernetes-version.patch", "did you mean 1.37?")),
    ],
)
def test_a_version_that_eks_does_not_have_is_one_line(version: str, hint: tuple[str, ...], tmp_path: Path) -> None:
    problem = problem_of(cluster(f'version: "{version}"'), tmp_path)

    assert f"ebbtide:cluster.version: wanted one of {', '.join(KUBERNETES_VERSIONS)}" in problem
    assert problem.tells(*hint)


def test_a_file_without_a_version_stays_where_its_cluster_is(tmp_path: Path) -> None:
    unnamed = loaded(shortest(), tmp_path)
    versioned = loaded(cluster('version: "1.35"'), tmp_path)
    day = date(2026, 11, 26)

    assert unnamed.cluster.version == "1.35"
    assert [caution.code for caution in warnings_of(unnamed, day) if caution.place == "cluster.version"] == [
        "kubernetes-version.unset"
    ]
    assert not any(caution.place == "cluster.version" for caution in warnings_of(versioned, day))


ALL_ADD_ONS = {add_on.value: "v1.2.3-eksbuild.1" for add_on in AddOn} | {"kube-proxy": "v1.37.0-eksbuild.1"}
AUTOSCALER = "registry.example.com/cluster-autoscaler:v1.37.0"


def newer(*, add_ons: Mapping[str, str], autoscaler: str | None) -> str:
    images = f"ebbtide:images: {{ autoscaler: {autoscaler} }}" if autoscaler else ""
    versions = ", ".join(f"{name}: {version}" for name, version in add_ons.items())
    return shortest(more=f'ebbtide:cluster: {{ version: "1.37", addOnVersions: {{ {versions} }} }}\n{images}')


@pytest.mark.parametrize(
    ("add_ons", "autoscaler"),
    [
        ({}, None),
        (ALL_ADD_ONS, None),
        ({}, AUTOSCALER),
        ({name: version for name, version in ALL_ADD_ONS.items() if name != "coredns"}, AUTOSCALER),
    ],
)
def test_a_newer_version_is_refused_until_the_file_names_what_belongs_to_it(
    add_ons: Mapping[str, str], autoscaler: str | None, tmp_path: Path
) -> None:
    problem = problem_of(newer(add_ons=add_ons, autoscaler=autoscaler), tmp_path)

    assert "ebbtide:cluster.version: wanted one of 1.33, 1.34, 1.35, 1.36" in problem
    assert problem.tells("kubernetes-version.unknown", "found '1.37'", "images.autoscaler", "addOnVersions")
    assert ("coredns" in problem) is ("coredns" not in add_ons)


def test_a_newer_version_that_is_complete_has_one_warning(tmp_path: Path) -> None:
    settings = loaded(newer(add_ons=ALL_ADD_ONS, autoscaler=AUTOSCALER), tmp_path)
    about = [
        caution.code for caution in warnings_of(settings, date(2026, 11, 26)) if caution.place == "cluster.version"
    ]

    assert settings.cluster.version == "1.37"
    assert about == ["kubernetes-version.newer"]


def test_the_first_version_that_counts_as_newer_follows_the_last_of_the_table() -> None:
    last = int(KUBERNETES_VERSIONS[-1].removeprefix("1."))

    assert [minor for minor in range(100) if is_newer(f"1.{minor}")] == list(range(last + 1, 100))


def test_an_add_on_version_is_taken_as_eks_writes_it(tmp_path: Path) -> None:
    settings = loaded(cluster("addOnVersions: { coredns: v1.12.1-eksbuild.2 }"), tmp_path).cluster

    assert settings.add_on_versions == {AddOn.COREDNS: "v1.12.1-eksbuild.2"}


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (
            "core-dns: v1.12.1-eksbuild.2",
            ("add-on.name", "found the key 'core-dns'", "(for example coredns)", "did you mean coredns?"),
        ),
        ("coredns: v1.12.1", ("add-on.version",)),
        (
            "kube-proxy: v1.34.6-eksbuild.2",
            ("add-on.kube-proxy-version", "found v1.34.6-eksbuild.2", "1.35"),
        ),
    ],
)
def test_an_add_on_version_that_cannot_be_is_refused(version: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(cluster(f'version: "1.35", addOnVersions: {{ {version} }}'), tmp_path).tells(*words)


def test_every_fault_of_the_section_is_told_at_once(tmp_path: Path) -> None:
    text = cluster(
        'version: "1.99", publicAccess: ["0.0.0.0/0"], admins: [root], supportType: extnded, zonalShift: "yes"'
    )

    assert {problem.path for problem in problems_of(text, tmp_path)} == {
        "ebbtide:cluster.version",
        "ebbtide:cluster.publicAccess[0]",
        "ebbtide:cluster.admins[0]",
        "ebbtide:cluster.supportType",
        "ebbtide:cluster.zonalShift",
    }


@pytest.mark.parametrize(
    ("support", "day", "code", "tense"),
    [
        ("standard", date(2026, 11, 30), "kubernetes-version.upgraded-soon", "ends standard support of 1.34 on"),
        ("standard", date(2026, 12, 3), "kubernetes-version.upgraded-soon", "ended standard support of 1.34 on"),
        ("standard", date(2026, 11, 30), "kubernetes-version.upgraded-soon", "; upgrade before that"),
        ("standard", date(2026, 12, 3), "kubernetes-version.upgraded-soon", "; upgrade now, before EKS does"),
        ("extended", date(2026, 11, 30), "kubernetes-version.dear-soon", "from then on"),
        ("extended", date(2027, 1, 10), "kubernetes-version.dear-soon", "since then"),
    ],
)
def test_the_end_of_standard_support_is_announced(
    support: str, day: date, code: str, tense: str, tmp_path: Path
) -> None:
    settings = loaded(cluster(f'version: "1.34", supportType: {support}'), tmp_path)

    (caution,) = [warning for warning in warnings_of(settings, day) if warning.place == "cluster.version"]

    assert (caution.code, tense in caution.text) == (code, True)
    assert not any(warning.place == "cluster.version" for warning in warnings_of(settings, date(2026, 5, 1)))
