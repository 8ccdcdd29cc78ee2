"""Reading AWS's answers, which are written by hand in the documented shapes (`tests.unit.prices.stubbed_aws`)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices.aws_answers import (
    SpotPoint,
    StrangeAnswer,
    cache_prices,
    list_prices,
    plan_rates,
    products,
    service_prices,
    spot_means,
    spot_points,
)
from tests.unit.prices.stubbed_aws import (
    NOW,
    SERVICES,
    START,
    cache_product,
    node_product,
    plan_rate,
    product,
    service_product,
    spot_point,
)


def test_a_node_has_its_price_on_demand_and_not_a_reserved_one() -> None:
    assert list_prices(products([node_product("m7i.2xlarge", 0.4494)])) == {"m7i.2xlarge": 0.4494}


@pytest.mark.parametrize(
    "other",
    [
        node_product("m7i.2xlarge", 9.0, usagetype="EU-UnusedBox:m7i.2xlarge"),
        node_product("m7i.2xlarge", 9.0, usagetype="EU-DedicatedUsage:m7i.2xlarge"),
        node_product("m7i.2xlarge", 9.0, locationType="AWS Local Zone"),
        node_product("m7i.2xlarge", 0.0),
        node_product("u-6tb1.metal", 54.6),
    ],
)
def test_products_other_than_known_nodes_in_the_region_are_ignored(other: str) -> None:
    assert list_prices(products([other, node_product("m7i.4xlarge", 0.9)])) == {"m7i.4xlarge": 0.9}


@pytest.mark.parametrize("prefix", ["", "EU-", "EUC1-", "USW2-", "APS2-"])
def test_usage_types_are_known_by_any_regions_prefix(prefix: str) -> None:
    listed = [node_product("m7i.2xlarge", 0.5, usagetype=f"{prefix}BoxUsage:m7i.2xlarge")]

    assert list_prices(products(listed)) == {"m7i.2xlarge": 0.5}


def test_two_prices_for_one_type_are_refused() -> None:
    listed = [node_product("m7i.2xlarge", 0.4494), node_product("m7i.2xlarge", 0.5)]

    with pytest.raises(StrangeAnswer, match=r"m7i\.2xlarge has several prices \(0\.4494, 0\.5 USD\)"):
        list_prices(products(listed))


def test_another_unit_is_refused() -> None:
    listed = product({"instanceType": "m7i.2xlarge", "usagetype": "BoxUsage:m7i.2xlarge"}, 0.4, "Month")

    with pytest.raises(StrangeAnswer, match="priced per 'month', wanted a price per 'hrs'"):
        list_prices(products([listed]))


def test_services_have_the_units_of_the_tables() -> None:
    prices = service_prices(products(service_product(*row[1:]) for row in SERVICES))

    assert {item.item: usd for item, usd in prices.items()} == pytest.approx(
        {
            "control_plane_standard": 0.10,
            "control_plane_extended_support": 0.60,
            "nat_gateway": 0.048,  # and not the regional one, whose name ends alike
            "nat_gateway_data": 0.048,
            "public_ipv4": 0.005,
            "interface_endpoint": 0.011,
            "gp3_storage": 0.088,
            "gp3_iops_over_3000": 0.0055,
            "gp3_throughput_over_125": 0.044,  # 45.056 USD per GiB/s and month
            "customer_managed_key": 1.0,
        }
    )


def test_cache_nodes_differ_by_engine() -> None:
    engines = ("Redis", "Valkey", "Memcached")
    listed = [cache_product("cache.t4g.small", engine, 0.036 + at / 1000) for at, engine in enumerate(engines)]

    assert cache_prices(products(listed)) == {"cache.t4g.small:redis": 0.036, "cache.t4g.small:valkey": 0.037}


@pytest.mark.parametrize("text", ["{", "[]", '{"product": {}}', '{"product": {"attributes": {}}, "terms": 3}', "3"])
def test_a_product_of_another_form_is_reported(text: str) -> None:
    with pytest.raises(StrangeAnswer, match="another form than documented"):
        products([text])


def test_plan_rates_are_those_without_upfront_for_linux_and_shared() -> None:
    windows = [{"name": "productDescription", "value": "Windows"}]
    dedicated = [{"name": "tenancy", "value": "dedicated"}]
    upfront = plan_rate("m7i.2xlarge", 0.2)
    upfront["savingsPlanOffering"]["paymentOption"] = "All Upfront"
    answers = [
        plan_rate("m7i.2xlarge", 0.33),
        plan_rate("m7i.2xlarge", 0.29, plan="EC2Instance", years=3),
        plan_rate("m7i.2xlarge", 0.9, properties=windows),
        plan_rate("m7i.2xlarge", 0.9, properties=dedicated),
        plan_rate("m7i.2xlarge", 0.9, plan="SageMaker"),
        plan_rate("m7i.2xlarge", 0.9, usageType="EU-UnusedBox:m7i.2xlarge"),
        upfront,
    ]

    rates = {(rate.plan, rate.term_years): rate.usd for rate in plan_rates(answers)}

    assert rates == {("compute", 1): 0.33, ("ec2_instance", 3): 0.29}


def test_a_plan_rate_of_another_form_is_reported() -> None:
    with pytest.raises(StrangeAnswer, match="a Savings Plan rate has another form"):
        plan_rates([{"rate": "0.3"}])


def test_a_spot_price_counts_for_as_long_as_it_held() -> None:
    changes = [
        spot_point("m7i.2xlarge", 0.10, START - timedelta(days=3)),  # held when the month began, and for 20 days of it
        spot_point("m7i.2xlarge", 0.40, START + timedelta(days=20)),
        spot_point("m7i.2xlarge", 0.50, START, zone="eu-west-1b"),
    ]

    means = spot_means(spot_points(changes), START, NOW)

    # zone a: (20 x 0.10 + 10 x 0.40) / 30 = 0.20; zone b: 0.50; their mean is 0.35
    assert means == pytest.approx({"m7i.2xlarge": 0.35})


@given(prices=st.lists(st.tuples(st.floats(0.01, 10), st.integers(-90, 29)), min_size=1, max_size=8))
def test_a_mean_lies_between_the_lowest_and_the_highest(prices: list[tuple[float, int]]) -> None:
    points = [
        SpotPoint(instance_type="m7i.large", zone="a", since=START + timedelta(days=day), usd=usd)
        for usd, day in prices
    ]

    mean = spot_means(points, START, NOW)["m7i.large"]

    assert min(usd for usd, _ in prices) - 1e-9 <= mean <= max(usd for usd, _ in prices) + 1e-9
