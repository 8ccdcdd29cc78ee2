"""The shipped tables: valid rows, since loading does not validate them, and the figures of earlier releases."""

import csv
from datetime import date

import pytest

from ebbtide.prices import (
    NoPrice,
    estimate_note,
    hourly,
    instance_type,
    instance_type_names,
    interruption_band,
    on_demand,
    price_date,
    priced_regions,
    service_price,
    spot_typical,
)
from ebbtide.prices.book import read_book
from ebbtide.prices.data_files import shipped_text
from ebbtide.prices.rows import AsOf, ListPrice, PlanDiscount, ServicePrice, SpotSaving, listed_sizes
from ebbtide.prices.tables import in_use
from tests.builders.prices import before

PRICES = {"k", "b", "v", "c"}
REGIONS = priced_regions()


def rows(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(text.splitlines())]


@pytest.mark.parametrize("region", REGIONS)
def test_every_price_of_a_region_is_valid_and_has_a_source(region: str) -> None:
    types = rows(shipped_text(f"regions/{region}.csv"))

    for row in types:
        name, saving = row["instance_type"], row["savings_over_on_demand_fraction"]
        key = {"region": region, "instance_type": name}
        ListPrice.model_validate({**key, **listed_sizes(name), "on_demand_usd_per_hour": row["on_demand_usd_per_hour"]})
        if saving:
            band = row["interruption_frequency_band"]
            SpotSaving.model_validate(
                {**key, "savings_over_on_demand_fraction": saving, "interruption_frequency_band": band}
            )
        assert (row["source"] in PRICES) is (estimate_note(region, name) == "")
    assert len({row["instance_type"] for row in types}) == len(types) == len(in_use(region).on_demand)


def test_the_other_tables_are_valid() -> None:
    texts = before() | {row.FILE: shipped_text(row.FILE) for row in (PlanDiscount, ServicePrice, AsOf)}

    book = read_book(texts.__getitem__)

    assert {entry.region for entry in book.dates if entry.file == ListPrice.FILE} == {*REGIONS}
    assert {row.region for row in book.discounts} == {*REGIONS}


def test_every_size_is_a_whole_number_above_zero() -> None:
    for row in rows(shipped_text("instance_types.csv")):
        kind = instance_type(row["instance_type"])
        assert min(kind.vcpu, kind.memory_mib, kind.allocatable_cpu, kind.allocatable_memory, kind.max_pods) > 0
        assert kind.arch in ("amd64", "arm64")
        assert (kind.gpu > 0) is bool(kind.gpu_model) is (kind.gpu_memory_mib > 0)
    assert len(instance_type_names()) == 1289


def test_sizes_of_earlier_releases_are_unchanged() -> None:
    now = {row["instance_type"]: row for row in rows(shipped_text("instance_types.csv"))}

    for row in rows(before(sizes=True)["instance_types.csv"]):
        assert row.items() <= now[row["instance_type"]].items()


def test_prices_of_earlier_releases_are_unchanged() -> None:
    tables = {name: rows(text) for name, text in before().items()}
    assert len(tables["ec2.csv"]) == len(tables["spot_typical.csv"]) == 383

    for row in tables["ec2.csv"]:
        assert on_demand(row["region"], row["instance_type"]) == float(row["on_demand_usd_per_hour"])
        assert not estimate_note(row["region"], row["instance_type"])
    for row in tables["spot_typical.csv"]:
        region, name, saving, band = row.values()
        assert spot_typical(region, name) == on_demand(region, name) * (1 - float(saving))
        assert interruption_band(region, name) == band
    for row in tables["savings_plans_approx.csv"]:
        discounts = in_use(row["region"]).discounts
        assert discounts[row["family"], row["plan"], row["term_years"]] == float(row["discount_fraction"])
    for row in tables["services.csv"]:
        assert service_price(row["region"], row["service"], row["item"]) == float(row["usd"])


def test_every_region_has_prices_of_common_types_and_the_eks_fee() -> None:
    for region in REGIONS:
        assert 0 < hourly(region, "t3.large", "compute-1y-no-upfront") < on_demand(region, "t3.large")
        assert spot_typical(region, "t3.large") < on_demand(region, "t3.large")
        assert service_price(region, "eks", "control_plane_standard") == 0.1


def test_a_service_without_a_price_says_how_to_give_it() -> None:
    with pytest.raises(NoPrice, match=r"no prices of services for region sa-east-1 .*update --region sa-east-1"):
        service_price("sa-east-1", "vpc", "nat_gateway")


@pytest.mark.parametrize(
    ("region", "name", "note"),
    [
        ("af-south-1", "m8i.large", "estimated from us-east-1"),
        ("ap-south-1", "i8ge.large", "roughly estimated from us-east-1"),
        ("us-east-1", "m8gb.metal-24xl", "estimated from the same size without .metal"),
        ("ap-northeast-2", "p4d.24xlarge", "estimated from its price of April 2025"),
        ("us-east-1", "m8i.large", ""),
        ("ap-east-2", "m8i.large", ""),
    ],
)
def test_an_estimate_is_distinguished_from_a_price(region: str, name: str, note: str) -> None:
    assert estimate_note(region, name) == note


def test_a_region_without_prices_has_the_oldest_date_of_the_tables() -> None:
    assert price_date("ap-east-2").on_demand == date(2025, 4, 24)
    assert price_date("sa-east-1").on_demand == date(2026, 2, 17)
