"""`ebbtide prices` and `--prices`. botocore's Stubber plays AWS, with hand-written answers in AWS's shapes."""

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.preview.cost.monthly import group_costs
from ebbtide.prices.book import files_of, read_book
from ebbtide.prices.rows import ListPrice
from ebbtide.prices.tables import ENVIRONMENT
from tests.builders.prices import before
from tests.builders.settings import loaded, shortest
from tests.unit.prices.stubbed_aws import (
    PRICES,
    REGION,
    StubbedAws,
    answer_nodes,
    answer_region,
    answer_rest,
    answer_services,
    node_product,
    nodes_question,
    price_list,
)


def ebbtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture(autouse=True)
def shipped_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment that a command sets for child processes."""
    monkeypatch.setenv(ENVIRONMENT, "")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> StubbedAws:
    stubbed = StubbedAws()
    monkeypatch.setattr("ebbtide.prices.aws_client.new_client", stubbed.client)
    return stubbed


def update(folder: Path, *regions: str) -> Result:
    named = [word for region in regions for word in ("--region", region)]
    return ebbtide("prices", "update", *named, "--output", str(folder))


def test_an_update_writes_files_that_are_read_back(aws: StubbedAws, tmp_path: Path) -> None:
    answer_region(aws)
    out = tmp_path / "prices"

    result = update(out, REGION)

    assert result.exit_code == 0, result.stderr
    book = read_book(lambda name: (out / name).read_text(encoding="utf-8"))
    prices = book.prices_of(REGION)
    assert prices.on_demand == PRICES
    assert prices.discounts["m7i", "compute", "1"] == 0.25
    assert prices.spot_saving["m7i.2xlarge"] == 0.6
    assert prices.service["vpc", "interface_endpoint"] == 0.011
    assert prices.as_of(ListPrice) == datetime.now(UTC).date()
    assert book.regions == {REGION}
    assert files_of(book).keys() == {path.name for path in out.iterdir()}


def test_an_update_lists_its_changes_and_how_to_use_it(aws: StubbedAws, tmp_path: Path) -> None:
    answer_region(aws, prices={"m7i.2xlarge": 0.4, "g6.2xlarge": 1.1})

    text = update(tmp_path / "prices", REGION).stdout

    assert f"{REGION}: 2 instance types, 1 with another price than before" in text
    assert "m7i.2xlarge: 0.4494 -> 0.4 USD an hour (-11.0%)" in text
    assert "new: g6.2xlarge\n" in text
    assert "no longer listed by AWS, left out: t3.micro, t3.small," in text
    assert f"ebbtide --prices {tmp_path}/prices" in text


def test_one_failed_region_leaves_all_files_unchanged(aws: StubbedAws, tmp_path: Path) -> None:
    answer_region(aws)
    out = tmp_path / "prices"
    assert update(out, REGION).exit_code == 0
    answer_region(aws)
    answer_nodes(aws, "us-west-2")
    answer_services(aws, "us-west-2")
    aws.refuses("ec2:describe_spot_price_history", "us-west-2", "UnauthorizedOperation")
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    result = update(out, REGION, "us-west-2")

    assert result.exit_code == 1
    assert "us-west-2: ec2:DescribeSpotPriceHistory in us-west-2: refused; wanted the right" in result.stderr
    assert "nothing was written" in result.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prices"]


def test_a_region_that_aws_does_not_know_is_reported(aws: StubbedAws, tmp_path: Path) -> None:
    answer_nodes(aws, "eu-wst-1", {})

    result = update(tmp_path / "prices", "eu-wst-1")

    assert result.exit_code == 1
    assert "eu-wst-1: the price list has no instance type for it; is the name right?" in result.stderr


def test_an_answer_without_any_plan_is_refused(aws: StubbedAws, tmp_path: Path) -> None:
    answer_nodes(aws, REGION)
    answer_rest(aws, REGION, rates=[])

    result = update(tmp_path / "prices", REGION)

    assert result.exit_code == 1
    assert f"{REGION}: found no Savings Plan rate in what AWS answered" in result.stderr


def test_without_a_login_one_line_and_one_question(aws: StubbedAws, tmp_path: Path) -> None:
    aws.refuses("pricing:get_products", "us-east-1", "ExpiredTokenException")

    result = update(tmp_path / "prices", REGION, "us-west-2")  # a second question would have no answer

    assert result.exit_code == 1
    assert "the AWS login is not valid (any more); log in again" in result.stderr.splitlines()[-1]
    assert "the prices in use stay: shipped with Ebbtide" in result.stderr


def test_without_the_extra_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "ebbtide.prices.aws_client", raising=False)

    result = update(tmp_path / "prices", REGION)

    assert result.exit_code == 1
    assert result.stderr == "prices update needs boto3, which is not installed; pip install 'ebbtide[aws]'\n"


def test_a_folder_with_other_files_is_not_overwritten(aws: StubbedAws, tmp_path: Path) -> None:
    answer_region(aws)
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "thesis.tex").write_text("years of work")

    result = update(tmp_path / "prices", REGION)

    assert result.exit_code == 1
    assert "holds other files (thesis.tex)" in result.stderr


@pytest.mark.parametrize("arguments", [("update", "--region", "Ireland"), ("show", "Ireland")])
def test_a_name_that_is_no_region_is_wrong_use(arguments: tuple[str, ...]) -> None:
    result = ebbtide("prices", *arguments)

    assert result.exit_code == 2
    assert "wanted the name of an AWS region, found 'Ireland'" in " ".join(result.stderr.split())


def test_show_lists_regions_dates_and_sources() -> None:
    text = ebbtide("prices", "show").stdout

    assert "prices shipped with Ebbtide" in text
    assert "us-east-1        1253         29  2026-07-20  2025-04-24" in text
    assert "sa-east-1         675         92  2026-02-17  2025-04-24  2025-06-28  -" in text
    assert "spot_typical.csv: Spot Instance Advisor as kept by spotinfo" in text


def test_show_lists_the_prices_of_a_region() -> None:
    text = ebbtide("prices", "show", "us-east-1").stdout

    # less 26.5 % under a plan of one year
    assert "m7i.2xlarge           8    32         0.4032   0.2964" in text
    assert "eks control_plane_standard" in text


def test_show_of_a_region_without_prices_says_which_have_some() -> None:
    result = ebbtide("prices", "show", "ap-east-2")

    assert result.exit_code == 1
    assert result.stderr.startswith("no prices for region ap-east-2; there are prices for af-south-1, ap-east-1")


def replaced(folder: Path) -> Path:
    """Price files in which a node of us-east-1 costs a dollar."""
    out = folder / "mine"
    out.mkdir()
    for name, text in before().items():
        (out / name).write_text(text.replace("m7i.2xlarge,8,32,0,,amd64,58,0.4032", "m7i.2xlarge,8,32,0,,amd64,58,1.0"))
    return out


@pytest.mark.parametrize("where", ["before", "after", "joined"])
def test_price_files_may_be_named_before_or_after_the_command(where: str, tmp_path: Path) -> None:
    folder, command = str(replaced(tmp_path)), ("prices", "show", "us-east-1")
    lines = {
        "before": ("--prices", folder, *command),
        "after": (*command, "--prices", folder),
        "joined": (*command, f"--prices={folder}"),
    }

    text = ebbtide(*lines[where]).stdout

    assert f"prices {folder}" in text
    assert "1.0000" in next(line for line in text.splitlines() if line.startswith("m7i.2xlarge"))


def test_price_files_change_the_estimate_and_never_move_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = """
        ebbtide:nodeGroups:
          big: { kind: flexible, instanceTypes: [m7i.2xlarge], max: 4 }
          snug: { kind: flexible, instanceTypes: [c7i.8xlarge], max: 4 }
    """
    shipped_settings = loaded(shortest(more=more), tmp_path)
    monkeypatch.setenv(ENVIRONMENT, str(replaced(tmp_path)))

    settings = loaded(shortest(more=more), tmp_path)

    assert settings.workers["train"].node_group == shipped_settings.workers["train"].node_group == "big"
    bill = {line.name: line.usd_at_max for line in group_costs(settings, date(2026, 6, 1))}
    assert bill["big"] == pytest.approx(4 * 730 * 1.0)


def test_faulty_prices_stop_every_command_with_a_line_for_each_fault(tmp_path: Path) -> None:
    folder = replaced(tmp_path)
    (folder / "ec2.csv").write_text((folder / "ec2.csv").read_text().replace(",0.0416\n", ",free\n", 1))
    (folder / "services.csv").unlink()

    result = ebbtide("prices", "show", "--prices", str(folder))

    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first.startswith(f"{folder}/ec2.csv, line 2, on_demand_usd_per_hour: found 'free', wanted US dollars")
    assert second.startswith(f"{folder}/services.csv: found no such file")


def test_a_page_of_products_may_be_followed_by_others(aws: StubbedAws, tmp_path: Path) -> None:
    first = price_list([node_product("m7i.2xlarge", 0.4494)], "page-2")
    second = price_list([node_product("m7i.4xlarge", 0.8988)])
    aws.answers("pricing:get_products", "us-east-1", first, nodes_question(REGION))
    aws.answers("pricing:get_products", "us-east-1", second, {**nodes_question(REGION), "NextToken": "page-2"})
    answer_rest(aws, REGION)

    assert update(tmp_path / "prices", REGION).exit_code == 0
    assert "m7i.4xlarge,16,64,0,,amd64,234,0.8988" in (tmp_path / "prices" / "ec2.csv").read_text()


def test_show_distinguishes_plan_rates_of_aws_from_derived_ones(aws: StubbedAws, tmp_path: Path) -> None:
    answer_region(aws)
    update(tmp_path / "prices", REGION)

    assert "approximate, from a similar reservation" in ebbtide("prices", "show", REGION).stdout
    assert "AWS's rates" in ebbtide("prices", "show", REGION, "--prices", str(tmp_path / "prices")).stdout
