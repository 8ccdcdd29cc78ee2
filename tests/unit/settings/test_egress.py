"""The section of closed networks: faults that a pod would meet, and values that are never shown."""

import json
from pathlib import Path

import pytest

from ebbtide.settings.checks.cautions import warnings_of
from tests.builders.authority import AUTHORITY, LIKE_AMAZONS
from tests.builders.settings import loaded, problem_of, problems_of, shortest

CANARY = "hunter2canary"


def egress(**keys: object) -> str:
    return shortest(more=f"ebbtide:egress: {json.dumps(keys)}")


def test_a_closed_network_is_told_in_four_keys(tmp_path: Path) -> None:
    keys = {
        "httpsProxy": "http://proxy.example.com:3128/",
        "noProxy": [".corp.example.com", "10.20.0.0/16", "host.example.com"],
        "caBundle": AUTHORITY,
        "allow": ["10.1.0.0/16", "2001:db8::/32"],
    }

    settings = loaded(egress(**keys), tmp_path).egress

    assert settings.https_proxy == "http://proxy.example.com:3128"
    assert settings.no_proxy == (".corp.example.com", "10.20.0.0/16", "host.example.com")
    assert settings.ca_bundle == AUTHORITY
    assert settings.allow == ("10.1.0.0/16", "2001:db8::/32")


@pytest.mark.parametrize(
    "proxy",
    [
        f"http://user:{CANARY}@proxy:3128",
        f"user:{CANARY}@proxy:3128",
        f"http://{CANARY}@proxy:3128",
        f"http://pa/{CANARY}@proxy:3128",
        f"socks5://{CANARY}",
        f"http://{CANARY}:port",
        f"http://proxy:3128/{CANARY}",
        f"http://proxy:3128?{CANARY}",
        f"http://$({CANARY}):3128",
        CANARY,
        "http://",
        "http://proxy:0",
    ],
)
def test_a_proxy_is_an_address_and_what_else_it_holds_is_not_shown(proxy: str, tmp_path: Path) -> None:
    problem = problem_of(egress(httpProxy=proxy), tmp_path)

    assert "ebbtide:egress.httpProxy: " in problem
    assert CANARY not in problem


@pytest.mark.parametrize(
    "bundle",
    [
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
        AUTHORITY + f"-----BEGIN EC PRIVATE KEY-----\n{CANARY}",
        f"-----BEGIN CERTIFICATE-----\n{CANARY}\n-----END CERTIFICATE-----",
        AUTHORITY.replace("MIIB", "MIIC"),
        f"/etc/ssl/{CANARY}.pem",
        f"ü{CANARY}",
        "",
    ],
)
def test_a_bundle_is_certificates_and_nothing_else(bundle: str, tmp_path: Path) -> None:
    problem = problem_of(egress(caBundle=bundle), tmp_path)

    assert "ebbtide:egress.caBundle: " in problem
    assert CANARY not in problem


def test_a_bundle_may_hold_comments_in_any_language(tmp_path: Path) -> None:
    bundle = "# Főtanúsítvány\n" + AUTHORITY

    assert loaded(egress(caBundle=bundle), tmp_path).egress.ca_bundle == bundle


def test_a_bundle_too_large_for_the_cluster_is_refused(tmp_path: Path) -> None:
    problem = problem_of(egress(caBundle=AUTHORITY + "#" * 1_000_000), tmp_path)

    assert problem.tells("certificates.too-large", "1000000")


@pytest.mark.parametrize("broken", [("MIIB", "MIIC"), ("MIIB", "MÜIB"), ("-----END CERTIFICATE-----", "")])
def test_a_broken_certificate_behind_a_good_one_is_found(broken: tuple[str, str], tmp_path: Path) -> None:
    assert problem_of(egress(caBundle=AUTHORITY + AUTHORITY.replace(*broken)), tmp_path).tells("certificates.form")


@pytest.mark.parametrize(
    ("block", "hint"),
    [
        ("10.1.2.3/16", ("range.first-address", "did you mean 10.1.0.0/16?")),
        ("db.example.com", ("range.form",)),
        ("::ffff:10.1.0.0/112", ("range.form",)),
        ("169.254.169.254/32", ("range.metadata",)),
        ("fd00:ec2::254/128", ("range.metadata",)),
    ],
)
def test_a_range_that_would_not_do_what_it_says_is_refused(block: str, hint: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(egress(allow=[block]), tmp_path).tells(*hint)


def test_noproxy_alone_would_do_nothing(tmp_path: Path) -> None:
    problem = problem_of(egress(noProxy=["host.example.com"]), tmp_path)

    assert problem.tells("no-proxy.without-proxy", "ebbtide:egress.noProxy:", "found neither")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    problems = problems_of(egress(httpProxy="proxy", noProxy=["a b"], caBundle=1, allow=["x", "y"]), tmp_path)

    assert sorted(problem.path.removeprefix("ebbtide:egress.") for problem in problems) == [
        "allow[0]",
        "allow[1]",
        "caBundle",
        "httpProxy",
        "noProxy[0]",
    ]


@pytest.mark.parametrize(("bundle", "warned"), [(AUTHORITY, True), (AUTHORITY + LIKE_AMAZONS, False)])
def test_a_bundle_that_ends_trust_in_aws_is_worth_a_word(bundle: str, warned: bool, tmp_path: Path) -> None:
    warnings = warnings_of(loaded(egress(caBundle=bundle), tmp_path))

    assert ("ca-bundle.without-amazon" in {caution.code for caution in warnings}) is warned
