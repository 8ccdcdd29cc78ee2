"""`ebbtide idle` without a Prometheus that answers: what can still be read is shown."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from tests.builders.settings import shortest
from tests.unit.prices.stubbed_aws import StubbedAws

ENDED = 'owner: team-search, expires: "2026-01-01"'


def idle(folder: Path, *words: str, train: str = "") -> Result:
    file = folder / "Pulumi.acme.yaml"
    file.write_text(shortest(train=train, more="aws:region: eu-west-1"))
    away = ("--prometheus", "http://127.0.0.1:9")
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["idle", str(file), *away, *words])


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


def test_without_boto3_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "ebbtide.prices.aws_client", raising=False)

    result = idle(tmp_path, "--aws")

    assert result.exit_code == 1
    assert result.stderr == "idle --aws needs boto3, which is not installed; pip install 'ebbtide[aws]'\n"
