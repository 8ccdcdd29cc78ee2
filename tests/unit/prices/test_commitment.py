"""A plan is paid for whether it is used or not, and covers a group's floor alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.prices import GroupRate, NoPrice, PricingAssumption, group_rate, hourly

PLAN = PricingAssumption.COMPUTE_1Y
RATE = GroupRate(floor=2, floor_usd=0.3, above_usd=0.4)


@pytest.mark.parametrize(("nodes", "usd"), [(0, 0.6), (1, 0.6), (2, 0.6), (3, 1.0), (5, 1.8), (2.5, 0.8)])
def test_one_hour_by_hand(nodes: float, usd: float) -> None:
    """Two nodes are paid for in any case: 2 x 0.30; each more costs 0.40."""
    assert RATE.usd_per_hour(nodes) == pytest.approx(usd)


def test_the_floor_has_the_plans_rate_and_the_rest_the_list_price() -> None:
    rate = group_rate("us-east-1", "m7i.2xlarge", PLAN, floor=3)

    assert rate == GroupRate(floor=3, floor_usd=hourly("us-east-1", "m7i.2xlarge", PLAN), above_usd=0.4032)
    assert rate.floor_usd < rate.above_usd


def test_without_a_floor_all_is_on_demand() -> None:
    assert group_rate("us-east-1", "m7i.2xlarge", PLAN, floor=0).usd_per_hour(2) == pytest.approx(0.8064)


def test_on_demand_has_one_price_for_all_nodes() -> None:
    assert group_rate("us-east-1", "m7i.2xlarge", "on-demand", floor=2).usd_per_hour(3) == pytest.approx(1.2096)


def test_a_type_without_a_price_has_no_rate_even_under_a_plan() -> None:
    with pytest.raises(NoPrice):
        group_rate("ap-east-2", "m7i.2xlarge", PLAN, floor=1)


@given(nodes=st.integers(0, 50), floor=st.integers(0, 20))
def test_a_plan_on_nodes_that_always_run_never_costs_more(nodes: int, floor: int) -> None:
    covered = GroupRate(floor=floor, floor_usd=0.3, above_usd=0.4)
    bare = GroupRate(floor=0, floor_usd=0.4, above_usd=0.4)

    assert covered.usd_per_hour(nodes + floor) <= bare.usd_per_hour(nodes + floor) + 1e-9
