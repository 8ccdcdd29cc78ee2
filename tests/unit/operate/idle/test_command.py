"""`ebbtide idle` without a Prometheus that answers: what can still be read is shown."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from tests.builders.settings import shortest
from tests.unit.operate.idle.test_aws import answer_volumes, no_balancers, volume
from tests.unit.prices.stubbed_aws import StubbedAws

ENDED = 'owner: team-search, expires: "2026-01-01"'


AWAY = ("--prometheus", "http://127.0.0.1:9")
BUNDLED = "ebbtide:monitoring: { prometheus: bundled }"


def idle(folder: Path, *words: str, train: str = "", more: str = "", url: tuple[str, ...] = AWAY) -> Result:
    file = folder / "Pulumi.acme.yaml"
    file.write_text(shortest(train=train, more=f"aws:region: eu-west-1\n{more}"))
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["idle", str(file), *url, *words])


def test_what_has_expired_is_shown_without_prometheus(tmp_path: Path) -> None:
    result = idle(tmp_path, train=ENDED)

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 finding, at least $0.00 a month.")
    assert "team-search" in result.stdout
    assert "not known: Prometheus at http://127.0.0.1:9" in result.stdout


def test_aws_is_asked_with_the_option_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aws = StubbedAws()
    monkeypatch.setattr("ebbtide.prices.aws_client.new_client", aws.client)
    aws.refuses("ec2:describe_volumes", "eu-west-1", "UnauthorizedOperation")
    aws.refuses("elbv2:describe_load_balancers", "eu-west-1", "AccessDenied")

    without = idle(tmp_path, train=ENDED)
    result = idle(tmp_path, "--aws", train=ENDED)

    aws.assert_all_answers_given()
    assert "describe" not in without.output.lower()
    assert result.exit_code == 0, result.output
    assert "not known: volumes: ec2:DescribeVolumes" in result.stdout
    assert "not known: load balancers: elasticloadbalancing:DescribeLoadBalancers" in result.stdout


@pytest.mark.parametrize(
    ("more", "why"), [("", "acme has no Prometheus: wanted"), (BUNDLED, "no cluster: kubeconfig")], ids=["none", "away"]
)
def test_without_a_way_to_prometheus_what_needs_none_is_shown(
    more: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = StubbedAws()
    monkeypatch.setattr("ebbtide.prices.aws_client.new_client", aws.client)
    words = ("--kubeconfig", str(tmp_path / "missing"))
    answer_volumes(aws, [volume()])
    no_balancers(aws)
    found = idle(tmp_path, "--aws", *words, train=ENDED, more=more, url=())
    answer_volumes(aws)
    no_balancers(aws)
    nothing = idle(tmp_path, "--aws", *words, more=more, url=())
    unknown = idle(tmp_path, *words, more=more, url=())

    aws.assert_all_answers_given()
    assert (found.exit_code, nothing.exit_code, unknown.exit_code) == (0, 0, 2)
    assert [line.split()[0] for line in found.stdout.splitlines()[:4]] == ["2", "kind", "expired", "volume"]
    assert f"not known: {why}" in found.stdout
    assert nothing.stdout.startswith(f"no findings, $0.00 a month.\nnot known: {why}")
    assert unknown.stderr.startswith(why)
    assert unknown.stderr.count("\n") == 1


def test_a_mistyped_address_ends_the_command(tmp_path: Path) -> None:
    result = idle(tmp_path, train=ENDED, url=("--prometheus", "nowhere"))

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_without_boto3_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "ebbtide.prices.aws_client", raising=False)

    result = idle(tmp_path, "--aws")

    assert result.exit_code == 1
    assert result.stderr == "idle --aws needs boto3, which is not installed; pip install 'ebbtide[aws]'\n"
