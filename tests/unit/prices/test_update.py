"""A newer book from AWS's prices of a region."""

from collections.abc import Mapping
from datetime import date

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.prices import instance_type_names
from ebbtide.prices.aws_answers import ITEMS, PlanRate
from ebbtide.prices.aws_questions import Figures
from ebbtide.prices.book import Book, files_of, read_book
from ebbtide.prices.rows import ListPrice, PlanDiscount, ServicePrice, SpotSaving
from ebbtide.prices.tables import shipped
from ebbtide.prices.update import changed, updated
from tests.builders.prices import before
from tests.counts import examples

TODAY = date(2026, 11, 21)
SERVICES = dict.fromkeys(ITEMS, 0.5)
DIRECTORY = read_book(before().__getitem__)


def figures(
    region: str = "eu-west-1",
    on_demand: Mapping[str, float] | None = None,
    plans: tuple[PlanRate, ...] = (),
    spot: Mapping[str, float] | None = None,
) -> Figures:
    return Figures(
        region=region,
        on_demand=on_demand or {"m7i.2xlarge": 0.4},
        plans=plans,
        spot=spot or {},
        services=SERVICES,
        caches={"cache.t4g.small:valkey": 0.02},
    )


def newer(prices_of_aws: Figures) -> Book:
    region = prices_of_aws.region
    return updated(DIRECTORY, {region: shipped(region)}, [prices_of_aws], TODAY)


def compute(name: str, usd: float) -> PlanRate:
    return PlanRate(instance_type=name, plan="compute", term_years=1, usd=usd)


def test_a_region_that_was_read_has_todays_figures() -> None:
    book = newer(figures(spot={"m7i.2xlarge": 0.1}, plans=(compute("m7i.2xlarge", 0.3),)))
    prices = book.prices_of("eu-west-1")

    assert prices.on_demand["m7i.2xlarge"] == 0.4
    assert prices.spot_saving["m7i.2xlarge"] == 0.75
    assert prices.discounts["m7i", "compute", "1"] == 0.25
    assert prices.service["elasticache", "cache.t4g.small:valkey"] == 0.02
    for row in (ListPrice, PlanDiscount, SpotSaving, ServicePrice):
        assert prices.as_of(row) == TODAY


def test_other_regions_keep_their_figures_and_their_dates() -> None:
    book = newer(figures())

    for row in (row for row in DIRECTORY.list_prices if row.region != "eu-west-1"):
        assert row in book.list_prices
    assert book.prices_of("us-east-1").as_of(ListPrice) == date(2026, 7, 20)


def test_a_region_that_had_no_prices_gets_some() -> None:
    assert newer(figures("eu-north-1")).regions == DIRECTORY.regions | {"eu-north-1"}


def test_an_update_of_the_shipped_prices_has_the_updated_regions_alone() -> None:
    book = updated(Book(), {"eu-north-1": shipped("eu-north-1")}, [figures("eu-north-1")], TODAY)

    assert {row.region for table in (book.list_prices, book.services, book.dates) for row in table} == {"eu-north-1"}


def test_a_type_keeps_its_interruption_band() -> None:
    before_update = shipped("eu-north-1").interruption_band["m7i.2xlarge"]
    book = newer(figures("eu-north-1", spot={"m7i.2xlarge": 0.1}))

    assert book.prices_of("eu-north-1").interruption_band == {"m7i.2xlarge": before_update}


def test_a_type_that_aws_no_longer_lists_is_left_out_and_named() -> None:
    prices_of_aws = figures(on_demand={"m7i.2xlarge": 0.4, "g6.2xlarge": 1.1})

    change = changed(DIRECTORY.prices_of("eu-west-1"), prices_of_aws)

    assert [*newer(prices_of_aws).prices_of("eu-west-1").on_demand] == ["m7i.2xlarge", "g6.2xlarge"]
    assert "t3.large" in change.gone
    assert change.new == ("g6.2xlarge",)
    assert change.moved["m7i.2xlarge"] == (0.4494, 0.4)


def test_a_family_has_the_least_discount_of_its_sizes_and_a_wide_spread_has_a_note() -> None:
    prices = {"m7i.2xlarge": 0.4, "m7i.4xlarge": 0.8}
    prices_of_aws = figures(on_demand=prices, plans=(compute("m7i.2xlarge", 0.3), compute("m7i.4xlarge", 0.72)))

    assert newer(prices_of_aws).prices_of("eu-west-1").discounts["m7i", "compute", "1"] == 0.1
    (note,) = (note for note in changed(DIRECTORY.prices_of("eu-west-1"), prices_of_aws).notes if "m7i" in note)
    assert note == "m7i, compute plan of 1 years: discounts differ by size, 10.0% to 25.0%; the least is taken"


def test_spot_above_the_list_price_saves_nothing() -> None:
    book = newer(figures(spot={"m7i.2xlarge": 0.5, "m7i.4xlarge": 0.1}))

    assert {
        row.instance_type: row.savings_over_on_demand_fraction for row in book.spot if row.region == "eu-west-1"
    } == {"m7i.2xlarge": 0.0}


@settings(max_examples=examples(25))  # each writes and reads all rows of the directory as well
@given(
    prices=st.dictionaries(st.sampled_from(instance_type_names()), st.floats(1e-4, 200), min_size=1, max_size=6),
    spot=st.dictionaries(st.sampled_from(instance_type_names()), st.floats(1e-4, 200), max_size=6),
    plans=st.lists(st.tuples(st.sampled_from(instance_type_names()), st.floats(1e-4, 200)), max_size=6),
)
@example(prices={"m7i.large": 200.0}, spot={"m7i.large": 1e-4}, plans=[("m7i.large", 1e-4)])  # nearly free
def test_an_update_is_read_back_equal(
    prices: dict[str, float], spot: dict[str, float], plans: list[tuple[str, float]]
) -> None:
    prices_of_aws = figures(on_demand=prices, spot=spot, plans=tuple(compute(name, usd) for name, usd in plans))

    book = newer(prices_of_aws)

    assert read_book(files_of(book).__getitem__) == book
