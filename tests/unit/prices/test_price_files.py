"""Directories of price files: read back as written, refused with a line per fault, and without effect on sizes."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices import (
    PricesInvalid,
    estimate_note,
    instance_type,
    on_demand,
    price_date,
    priced_regions,
    service_price,
    shipped_on_demand,
)
from ebbtide.prices.book import Book, files_of, read_book
from ebbtide.prices.rows import BANDS, UNITS, AsOf, ListPrice, PlanDiscount, ServicePrice, SpotSaving
from ebbtide.prices.tables import ENVIRONMENT, in_use, replacement
from tests.builders.prices import before

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.:-]{0,12}", fullmatch=True)
REGIONS = st.sampled_from(["us-east-1", "eu-west-1", "eu-north-1"])
SOURCES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"), max_size=30
)
USD = st.floats(1e-9, 1e6)
FRACTIONS = st.floats(0, 1, exclude_max=True)
SMALL = st.integers(0, 5000)


def dates_for(*tables: tuple[ListPrice | PlanDiscount | SpotSaving | ServicePrice, ...]) -> tuple[AsOf, ...]:
    figures = sorted({(row.FILE, row.region) for table in tables for row in table})
    return tuple(AsOf(file=file, region=region, as_of=date(2026, 11, 21), source="AWS") for file, region in figures)


LIST_PRICES = st.builds(
    ListPrice,
    region=REGIONS,
    instance_type=NAMES,
    vcpu=SMALL,
    memory_gib=SMALL,
    gpu=SMALL,
    gpu_model=SOURCES,
    arch=st.sampled_from(["amd64", "arm64"]),
    max_pods=SMALL,
    on_demand_usd_per_hour=USD,
)
DISCOUNTS = st.builds(
    PlanDiscount,
    region=REGIONS,
    family=NAMES,
    plan=st.sampled_from(["compute", "ec2_instance"]),
    term_years=st.sampled_from([1, 3]),
    payment=st.just("no_upfront"),
    discount_fraction=FRACTIONS,
    proxy=SOURCES,
)
SPOT = st.builds(
    SpotSaving,
    region=REGIONS,
    instance_type=NAMES,
    savings_over_on_demand_fraction=FRACTIONS,
    interruption_frequency_band=st.sampled_from(BANDS),
)
SERVICES = st.builds(
    ServicePrice,
    region=REGIONS,
    service=NAMES,
    item=NAMES,
    unit=st.sampled_from(UNITS),
    usd=USD,
    confidence=st.sampled_from(["high", "medium"]),
    source=SOURCES,
)


@st.composite
def books(draw: st.DrawFn) -> Book:
    list_prices = draw(st.lists(LIST_PRICES, min_size=1, max_size=4, unique_by=lambda row: row.key))
    discounts = draw(st.lists(DISCOUNTS, min_size=1, max_size=4, unique_by=lambda row: row.key))
    spot = draw(st.lists(SPOT, min_size=1, max_size=4, unique_by=lambda row: row.key))
    services = draw(st.lists(SERVICES, min_size=1, max_size=4, unique_by=lambda row: row.key))
    return Book(
        list_prices=tuple(list_prices),
        discounts=tuple(discounts),
        spot=tuple(spot),
        services=tuple(services),
        dates=dates_for(tuple(list_prices), tuple(discounts), tuple(spot), tuple(services)),
    )


@given(book=books())
def test_written_files_are_read_back_equal(book: Book) -> None:
    assert read_book(files_of(book).__getitem__) == book


def directory(folder: Path, **changed: str) -> Path:
    """The files of an earlier release in a folder, some with another text."""
    for name, text in before().items():
        (folder / name).write_text(changed.get(name.removesuffix(".csv"), text), encoding="utf-8")
    return folder


def text_of(name: str) -> str:
    return before()[f"{name}.csv"]


def problems_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    with pytest.raises(PricesInvalid) as refused:
        replacement()
    return [line.removeprefix(f"{folder}/") for line in refused.value.problems]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ec2", "17,0.0416", "17,cheap", "ec2.csv, line 2, on_demand_usd_per_hour: found 'cheap', wanted US"),
        ("ec2", "17,0.0416", "17,0", "ec2.csv, line 2, on_demand_usd_per_hour: found '0', wanted US dollars"),
        ("ec2", "17,0.0416", "17,nan", "ec2.csv, line 2, on_demand_usd_per_hour: found 'nan', wanted US dollars"),
        ("ec2", "17,0.0416", "17", "ec2.csv, line 2: found 8 cells, wanted 9, one for each column"),
        ("ec2", "t3.medium,2,", "t3.medium,two,", "ec2.csv, line 2, vcpu: found 'two', wanted a whole number"),
        ("ec2", "t3.large", "t3.medium", "ec2.csv, line 3: found us-east-1 t3.medium a second time, wanted each once"),
        ("ec2", "arch,", "", "ec2.csv: found no column arch (only region,"),
        ("ec2", "arch,", "arch,colour,", "ec2.csv: found the unknown column colour, wanted only region,"),
        ("services", "iops-month", "iops-week", "services.csv, line 2, unit: found 'iops-week', wanted one of"),
        ("savings_plans_approx", "0.277", "27.7", "savings_plans_approx.csv, line 2, discount_fraction: found '27.7'"),
        ("savings_plans_approx", "no_upfront", "some", "savings_plans_approx.csv, line 2, payment: found 'some'"),
        ("spot_typical", "<5%", "rarely", "spot_typical.csv, line 2, interruption_frequency_band: found 'rarely'"),
        ("dates", "2026-07-20", "July", "dates.csv, line 2, as_of: found 'July', wanted a date"),
        ("dates", "ec2.csv,us-east-1", "ec2.csv,eu-north-1", "dates.csv: found no line for ec2.csv in us-east-1"),
    ],
)
def test_a_fault_is_one_line_with_its_place(
    name: str, old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(name)
    folder = directory(tmp_path, **{name: text.replace(old, new, 1)})

    (problem,) = problems_of(folder, monkeypatch)

    assert problem.startswith(message)


def test_all_faults_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path, spot_typical="", services=text_of("services").splitlines()[0], dates=text_of("dates") + "x\n")
    (tmp_path / "ec2.csv").unlink()
    (tmp_path / "savings_plans_approx.csv").write_bytes(b"\xff\xfe")

    problems = problems_of(tmp_path, monkeypatch)

    assert [problem[:48] for problem in problems] == [
        "ec2.csv: found no such file, wanted one with the",
        "savings_plans_approx.csv: found bytes that are n",
        "spot_typical.csv: found no column region, instan",
        "services.csv: found no rows, wanted at least one",
        "dates.csv, line 22: found 1 cells, wanted 4, one",
    ]


def test_a_file_of_another_kind_is_not_reported_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = text_of("ec2").replace(",0.", ",free ")

    problems = problems_of(directory(tmp_path, ec2=prices), monkeypatch)

    assert len(problems) == 21
    assert problems[-1].startswith("ec2.csv: and ")


def test_a_missing_directory_names_the_wanted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = problems_of(tmp_path / "none", monkeypatch)

    assert "found no such directory, wanted one with ec2.csv, savings_plans_approx.csv" in problem


def test_a_spreadsheets_mark_and_line_ends_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path)
    (tmp_path / "ec2.csv").write_bytes(b"\xef\xbb\xbf" + text_of("ec2").replace("\n", "\r\n").encode() + b"\r\n")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert replacement() == read_book(before().__getitem__)


def test_the_replacement_changes_prices_and_their_dates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = text_of("ec2").replace("amd64,58,0.4032", "amd64,58,0.3", 1)
    directory(tmp_path, ec2=prices, dates=text_of("dates").replace("2026-07-20", "2026-11-20"))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert on_demand("us-east-1", "m7i.2xlarge") == 0.3
    assert price_date("us-east-1").on_demand == date(2026, 11, 20)
    assert shipped_on_demand("us-east-1", "m7i.2xlarge") == 0.4032


def test_a_directory_of_an_earlier_release_is_read_and_its_sizes_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in before(sizes=True).items():
        (tmp_path / name).write_text(text.replace("m7i.large,2,8192", "m7i.large,4,8192"), encoding="utf-8")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert on_demand("us-east-1", "m7i.2xlarge") == 0.4032
    assert price_date("eu-west-1").on_demand == date(2025, 4, 24)
    assert instance_type("m7i.large").vcpu == 2


def test_a_price_of_a_type_without_sizes_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(tmp_path, ec2=text_of("ec2") + "us-east-1,z9.large,2,8,0,,amd64,20,0.1\n")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert in_use("us-east-1").on_demand["z9.large"] == 0.1


def test_a_region_that_the_directory_lacks_has_its_shipped_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = priced_regions()
    directory(tmp_path)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert on_demand("sa-east-1", "m5.large") == shipped_on_demand("sa-east-1", "m5.large")
    assert price_date("sa-east-1").on_demand == date(2026, 2, 17)
    assert priced_regions() == regions


def test_the_eks_fee_of_a_directory_counts_in_regions_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fee = "us-east-1,eks,control_plane_standard,cluster-hour,0.1"
    assert fee in text_of("services")
    directory(tmp_path, services=text_of("services").replace(fee, f"{fee}1"))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert service_price("sa-east-1", "eks", "control_plane_standard") == 0.11


def test_a_price_of_a_directory_is_no_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimate_note("eu-west-1", "m8g.medium") == ""
    assert estimate_note("eu-west-1", "m8i-flex.large") in ("", "estimated from us-east-1")
    directory(tmp_path)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    assert not any(estimate_note("eu-west-1", name) for name in in_use("eu-west-1").on_demand)


def test_a_directory_in_place_of_a_file_is_reported_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory(tmp_path)
    (tmp_path / "instance_types.csv").mkdir()
    (tmp_path / "ec2.csv").unlink()
    (tmp_path / "ec2.csv").mkdir()

    assert problems_of(tmp_path, monkeypatch) == ["ec2.csv: cannot be read: Is a directory"]
