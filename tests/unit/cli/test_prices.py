"""`ebbtide prices` and `--prices`. A stand-in plays the `aws` command, with hand-written answers in AWS's shapes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.preview.cost.monthly import group_costs
from ebbtide.prices.book import files_of, read_book
from ebbtide.prices.rows import ListPrice
from ebbtide.prices.tables import ENVIRONMENT, shipped
from tests.builders.settings import loaded, shortest
from tests.unit.prices.aws_stand_in import PRICES, REGION, Said, StandInAws, answer_region, node_product, refused

pytestmark = pytest.mark.process


def ebbtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture(autouse=True)
def shipped_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command sets for the processes it starts ends with the test."""
    monkeypatch.setenv(ENVIRONMENT, "")


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInAws:
    stand_in = StandInAws(tmp_path / "bin")
    monkeypatch.setenv("PATH", stand_in.path)
    return stand_in


def update(folder: Path, *regions: str) -> Result:
    named = [word for region in regions for word in ("--region", region)]
    return ebbtide("prices", "update", *named, "--output", str(folder))


def test_an_update_writes_files_that_are_read_back(aws: StandInAws, tmp_path: Path) -> None:
    answer_region(aws)
    out = tmp_path / "prices"

    result = update(out, REGION)

    assert result.exit_code == 0, result.stderr
    book = read_book(lambda name: (out / name).read_text(encoding="utf-8"))
    assert {name: book.on_demand[REGION, name] for name in PRICES} == PRICES
    assert book.discount[REGION, "m7i", "compute", "1"] == 0.25
    assert book.spot_saving[REGION, "m7i.2xlarge"] == 0.6
    assert book.service[REGION, "vpc", "interface_endpoint"] == 0.011
    assert book.as_of(ListPrice, REGION) == datetime.now(UTC).date()
    assert [row for row in book.list_prices if row.region != REGION] == [
        row for row in shipped().list_prices if row.region != REGION
    ]
    assert files_of(book).keys() == {path.name for path in out.iterdir()}


def test_an_update_says_what_changed_and_how_to_use_it(aws: StandInAws, tmp_path: Path) -> None:
    answer_region(aws, prices={"m7i.2xlarge": 0.4, "g6.2xlarge": 1.1})

    text = update(tmp_path / "prices", REGION).stdout

    assert f"{REGION}: 2 instance types, 1 with another price than before" in text
    assert "m7i.2xlarge: 0.4494 -> 0.4 USD an hour (-11.0%)" in text
    assert "new: g6.2xlarge\n" in text
    assert "no longer listed by AWS, left out: t3.medium," in text
    assert f"ebbtide --prices {tmp_path}/prices" in text


def test_one_region_that_fails_leaves_everything_as_it_was(aws: StandInAws, tmp_path: Path) -> None:
    aws.says("describe-spot-price-history", "us-west-2", answers=[refused("UnauthorizedOperation")])
    answer_region(aws)
    answer_region(aws, "us-west-2")
    out = tmp_path / "prices"
    assert update(out, REGION).exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    result = update(out, REGION, "us-west-2")

    assert result.exit_code == 1
    assert "us-west-2: aws ec2 describe-spot-price-history in us-west-2: refused; wanted the right" in result.stderr
    assert "nothing was written" in result.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "prices"]


def test_a_region_that_aws_does_not_know_is_told(aws: StandInAws, tmp_path: Path) -> None:
    aws.says("get-products", answers=[Said({"PriceList": []})])

    result = update(tmp_path / "prices", "eu-wst-1")

    assert result.exit_code == 1
    assert "eu-wst-1: the price list has no instance type for it; is the name right?" in result.stderr


def test_an_answer_without_any_plan_is_not_taken_for_a_world_without_plans(aws: StandInAws, tmp_path: Path) -> None:
    aws.says("savingsplans", answers=[Said({"searchResults": []})])
    answer_region(aws)

    result = update(tmp_path / "prices", REGION)

    assert result.exit_code == 1
    assert f"{REGION}: found no Savings Plan rate in what AWS answered" in result.stderr


def test_without_a_login_one_line_and_one_question(aws: StandInAws, tmp_path: Path) -> None:
    aws.says(answers=[Said(stderr="Unable to locate credentials", code=253)])

    result = update(tmp_path / "prices", REGION, "us-west-2")

    assert result.exit_code == 1
    assert "aws has no credentials; log in first" in result.stderr
    assert "the prices in use stay: shipped with Ebbtide" in result.stderr
    assert len(aws.calls()) == 1


def test_without_the_command_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "aws is not on PATH; wanted the AWS CLI" in update(tmp_path / "prices", REGION).stderr


def test_somebodys_own_folder_is_not_overwritten(aws: StandInAws, tmp_path: Path) -> None:
    answer_region(aws)
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "thesis.tex").write_text("years of work")

    result = update(tmp_path / "prices", REGION)

    assert result.exit_code == 1
    assert "holds other files (thesis.tex)" in result.stderr


def test_every_question_reads_and_names_its_region(aws: StandInAws, tmp_path: Path) -> None:
    answer_region(aws)
    update(tmp_path / "prices", REGION)

    calls = aws.calls()

    assert {call[1].split("-")[0] for call in calls} == {"get", "describe"}
    assert all(any(REGION in word for word in call) for call in calls)
    (compute,) = (call for call in calls if "Compute Instance" in " ".join(call))
    filters = json.loads(compute[compute.index("--filters") + 1])
    assert {"Type": "TERM_MATCH", "Field": "tenancy", "Value": "Shared"} in filters


@pytest.mark.parametrize("arguments", [("update", "--region", "Ireland"), ("show", "Ireland")])
def test_what_is_no_region_is_wrong_use(arguments: tuple[str, ...]) -> None:
    result = ebbtide("prices", *arguments)

    assert result.exit_code == 2
    assert "wanted the name of an AWS region, found 'Ireland'" in " ".join(result.stderr.split())


def test_show_tells_regions_dates_and_sources() -> None:
    text = ebbtide("prices", "show").stdout

    assert "prices shipped with Ebbtide" in text
    assert "us-east-1          81  2026-07-20  2025-04-24" in text
    assert "spot_typical.csv: Spot Instance Advisor as kept by spotinfo" in text


def test_show_tells_the_prices_of_a_region() -> None:
    text = ebbtide("prices", "show", "us-east-1").stdout

    # less 26.5 % under a plan of one year
    assert "m7i.2xlarge          8    32         0.4032   0.2964" in text
    assert "eks control_plane_standard" in text


def test_show_of_a_region_without_prices_says_which_have_some() -> None:
    result = ebbtide("prices", "show", "eu-north-1")

    assert result.exit_code == 1
    assert result.stderr.startswith("no prices for region eu-north-1; there are prices for ap-southeast-2")


def replaced(folder: Path) -> Path:
    """Price files in which a node of us-east-1 costs a dollar."""
    out = folder / "mine"
    out.mkdir()
    for name, text in files_of(shipped()).items():
        (out / name).write_text(text.replace("m7i.2xlarge,8,32,0,,amd64,58,0.4032", "m7i.2xlarge,8,32,0,,amd64,58,1.0"))
    return out


@pytest.mark.parametrize("where", ["before", "behind", "joined"])
def test_prices_of_ones_own_may_be_named_before_or_behind_the_command(where: str, tmp_path: Path) -> None:
    folder, asked = str(replaced(tmp_path)), ("prices", "show", "us-east-1")
    lines = {
        "before": ("--prices", folder, *asked),
        "behind": (*asked, "--prices", folder),
        "joined": (*asked, f"--prices={folder}"),
    }

    text = ebbtide(*lines[where]).stdout

    assert f"prices {folder}" in text
    assert "1.0000" in next(line for line in text.splitlines() if line.startswith("m7i.2xlarge"))


def test_prices_of_ones_own_are_in_the_estimate_and_never_move_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = """
        ebbtide:nodeGroups:
          big: { kind: flexible, instanceTypes: [m7i.2xlarge], max: 4 }
          snug: { kind: flexible, instanceTypes: [c7i.8xlarge], max: 4 }
    """
    shipped_settings = loaded(shortest(more=more), tmp_path)
    monkeypatch.setenv(ENVIRONMENT, str(replaced(tmp_path)))

    settings = loaded(shortest(more=more), tmp_path)

    assert settings.workers["train"].node_group == shipped_settings.workers["train"].node_group == "big"
    bill = {line.name: line.usd_at_max for line in group_costs(settings)}
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


def test_a_page_of_products_may_be_followed_by_others(aws: StandInAws, tmp_path: Path) -> None:
    first = {"PriceList": [node_product("m7i.2xlarge", 0.4494)], "NextToken": "page-2"}
    aws.says("page-2", answers=[Said({"PriceList": [node_product("m7i.4xlarge", 0.8988)]})])
    aws.says("Compute Instance", answers=[Said(first)])
    answer_region(aws)

    assert update(tmp_path / "prices", REGION).exit_code == 0
    assert "m7i.4xlarge,16,64,0,,amd64,234,0.8988" in (tmp_path / "prices" / "ec2.csv").read_text()


def test_plan_rates_of_aws_are_told_from_those_that_stand_for_others(aws: StandInAws, tmp_path: Path) -> None:
    answer_region(aws)
    update(tmp_path / "prices", REGION)

    assert "approximate, from a similar reservation" in ebbtide("prices", "show", REGION).stdout
    assert "AWS's rates" in ebbtide("prices", "show", REGION, "--prices", str(tmp_path / "prices")).stdout
