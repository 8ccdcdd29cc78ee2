"""Two compared estimates: lines, totals, hours, and confidence."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.preview.cost.comparison import _node_hours_open, business_hours_a_month, compare_costs
from ebbtide.preview.document import Amounts, CostComparison, CostLine
from ebbtide.preview.groups import cost_total
from ebbtide.preview.render.cost import always_and_at_max, money_text, total_text
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.existing import onprem
from tests.builders.preview import customer
from tests.builders.settings import loaded, shortest
from tests.builders.stack import group_settings

DAY = date(2026, 6, 1)

STEADY = """
    ebbtide:nodeGroups:
      fixed: { min: 3, max: 3 }
      flexible: { min: 4, max: 4 }
    ebbtide:costs: { expectedNodeHours: { fixed: 2190, flexible: 2920 } }
"""
USAGE = "ebbtide:costs: { expectedNodeHours: { fixed: 1460, flexible: 900 } }"


def compared(before: str | None, after: str, folder: Path) -> CostComparison:
    return compare_costs(None if before is None else loaded(before, folder), loaded(after, folder), day=DAY)


def by_name(comparison: CostComparison) -> dict[str, CostLine]:
    return {line.name: line for line in comparison.lines}


def test_lines_are_joined_by_name_whatever_their_number(tmp_path: Path) -> None:
    per_zone = compared(shortest(), shortest(more="ebbtide:network: { nat: per-zone }"), tmp_path)

    gateways = by_name(per_zone)["NAT gateway (2)"]
    assert gateways.before == Amounts(always=32.85, at_min=32.85, at_max=32.85, at_usage=32.85)
    assert gateways.after == Amounts(always=65.70, at_min=65.70, at_max=65.70, at_usage=65.70)
    assert gateways.note == "1 before"
    assert "NAT gateway" not in by_name(per_zone)


def test_a_group_that_comes_and_one_that_goes(tmp_path: Path) -> None:
    gpu, spot = ("ebbtide:nodeGroups: { gpu: {} }", "ebbtide:nodeGroups: { spot: { max: 4 } }")
    lines = compared(shortest(more=gpu), shortest(more=spot), tmp_path).lines

    assert [line.name for line in lines if line.before is None] == ["spot"]
    assert [line.name for line in lines if line.after is None] == ["gpu"] == [lines[-1].name]


def test_totals_add_up_and_one_open_line_leaves_them_open(tmp_path: Path) -> None:
    half = "ebbtide:costs: { expectedNodeHours: { fixed: 1460 } }"
    comparison = compared(shortest(more=USAGE), shortest(more=half), tmp_path)

    assert comparison.before is not None
    assert comparison.before.at_usage == pytest.approx(1438.50, abs=0.01)  # the first of docs/evidence/bills.md
    assert comparison.after is not None
    assert comparison.after.at_max == pytest.approx(13_754.60, abs=0.01)
    assert comparison.after.at_usage is None
    assert comparison.confidence.endswith("no usage is stated for flexible (costs.expectedNodeHours)")


def test_a_new_customer_has_no_before(tmp_path: Path) -> None:
    comparison = compared(None, shortest(more=STEADY), tmp_path)

    assert comparison.before is None
    assert {line.before for line in comparison.lines} == {None}
    assert comparison.open_usd[0] is comparison.closed_usd[0] is None
    assert comparison.open_usd[1] is not None


def test_a_region_without_prices_leaves_everything_open_and_is_named(tmp_path: Path) -> None:
    comparison = compared(shortest(), shortest(more="aws:region: ap-east-2"), tmp_path)

    assert comparison.after == Amounts(always=73.0, at_min=73.0, at_max=73.0, at_usage=73.0)
    assert comparison.without[1][:3] == ("fixed", "flexible", "node disks")
    assert "without fixed, flexible, node disks, " in comparison.confidence
    assert "ebbtide prices update --region ap-east-2" in comparison.confidence


def test_no_difference_is_claimed_of_sums_that_lack_a_line(tmp_path: Path) -> None:
    cache = "ebbtide:redisPassword: {{ secure: AAA }}\nebbtide:redis: {{ kind: elasticache, nodeType: {0} }}"
    unpriced, priced = (cache.format(node) for node in ("cache.r6gd.xlarge", "cache.t4g.small"))

    dearer = compared(shortest(more=priced), shortest(more=unpriced), tmp_path)

    assert "(+" not in money_text(dearer)
    assert money_text(dearer).startswith("at least ")
    assert money_text(dearer).endswith(", without ElastiCache node (no price now)")
    assert "(+" in money_text(compared(shortest(), shortest(more=priced), tmp_path))


def test_an_existing_cluster_is_not_free(tmp_path: Path) -> None:
    comparison = compare_costs(None, loaded(onprem(), tmp_path), DAY)

    assert comparison.lines == ()
    assert comparison.after == Amounts(always=None, at_min=None, at_max=None, at_usage=None)
    assert comparison.confidence == "not estimated: the cost of an existing cluster's nodes is not known here"


def test_a_changed_assumption_is_told_and_dates_and_confidence_follow_it(tmp_path: Path) -> None:
    plan = "ebbtide:costs: { pricingAssumption: compute-1y-no-upfront }"
    comparison = compared(shortest(), shortest(more=plan), tmp_path)

    assert by_name(comparison)["fixed"].note == "on-demand before"
    assert by_name(comparison)["fixed"].assumption == "about compute-1y-no-upfront for 2, the rest on-demand"
    assert comparison.prices_of == (date(2025, 4, 24), date(2026, 7, 20))
    assert "plan rates derived from the discounts of reserved instances" in comparison.confidence
    assert compared(None, shortest(more=STEADY), tmp_path).confidence == "list prices before tax"


def test_business_hours_of_a_mean_month_are_counted_over_a_year_with_its_holidays(tmp_path: Path) -> None:
    plain = loaded(shortest(), tmp_path).business_hours
    berlin = loaded(shortest(hours="holidays: { country: DE, subdivision: BE }"), tmp_path).business_hours

    assert business_hours_a_month(plain, 2026) == pytest.approx(261 * 10 / 12)
    assert business_hours_a_month(berlin, 2026) == pytest.approx(254 * 10 / 12)  # seven holidays on working days


def test_a_fleet_that_never_changes_is_split_by_the_hours(tmp_path: Path) -> None:
    longer = shortest(more=STEADY).replace("08:00-18:00", "08:00-20:00")
    comparison = compared(longer, shortest(more=STEADY), tmp_path)

    assert comparison.open_hours == pytest.approx((261, 217.5))
    assert comparison.closed_hours == pytest.approx((469, 512.5))
    whole = 3 * 294.336 + 4 * 588.672 + 28 + 73 + 32.85 + 3.65 + 1 + 0.64  # the third of docs/evidence/bills.md
    assert comparison.open_usd == pytest.approx((whole * 261 / 730, whole * 217.5 / 730))
    assert comparison.closed_usd == pytest.approx((whole * 469 / 730, whole * 512.5 / 730))


def test_usage_that_the_file_does_not_place_has_bounds_and_no_split(tmp_path: Path) -> None:
    comparison = compared(None, shortest(more=USAGE), tmp_path)

    assert comparison.open_usd == comparison.closed_usd == (None, None)
    # all 900 flexible node-hours fit into either: 588.67 + 8 + 111.14 by the hours, with 725.76 + 4.93 or without
    assert "of the stated usage 211 to 942 USD fall into business hours" in comparison.confidence


@given(
    least=st.integers(0, 5),
    more=st.integers(1, 20),
    hours=st.floats(1, 729),
    by_day=st.floats(0, 1),
    night=st.floats(0, 1),
)
def test_no_spread_of_nodes_over_day_and_night_is_out_of_bounds(
    least: int, more: int, hours: float, by_day: float, night: float
) -> None:
    group: NodeGroupSettings = group_settings(min=least, max=least + more)
    opened, closed = (least + by_day * more) * hours, (least + night * more) * (730 - hours)

    low, high = _node_hours_open(group, opened + closed, hours)

    assert low - 1e-6 <= opened <= high + 1e-6
    assert low >= least * hours - 1e-6
    assert high <= (least + more) * hours + 1e-6


OLD = 'ebbtide:cluster: { version: "1.33", supportType: extended }'
NEXT = 'ebbtide:cluster: { version: "1.34", supportType: extended }'
IN_EXTENDED = date(2026, 7, 30)  # EKS ends standard support of 1.33 the day before


def test_a_version_in_extended_support_costs_six_times_as_much_and_an_upgrade_shows_the_difference(
    tmp_path: Path,
) -> None:
    upgrade = compare_costs(
        loaded(shortest(more=OLD), tmp_path), loaded(shortest(more=NEXT), tmp_path), day=IN_EXTENDED
    )

    line = by_name(upgrade)["EKS control plane"]
    assert line.before == Amounts(always=438.0, at_min=438.0, at_max=438.0, at_usage=438.0)  # 730 hours of $0.60
    assert line.after == Amounts(always=73.0, at_min=73.0, at_max=73.0, at_usage=73.0)
    assert line.note == "extended support of 1.33 since 2026-07-29 before"
    assert "always (-365)" in money_text(upgrade)


@pytest.mark.parametrize(
    ("keys", "day", "usd"),
    [
        (OLD, date(2026, 7, 29), 73.0),  # the last day of standard support
        (OLD.replace("extended", "standard"), IN_EXTENDED, 73.0),  # EKS upgrades the cluster
        (OLD, IN_EXTENDED, 438.0),
    ],
)
def test_extended_support_costs_from_the_day_after_standard_support(
    tmp_path: Path, keys: str, day: date, usd: float
) -> None:
    estimate = compare_costs(None, loaded(shortest(more=keys), tmp_path), day=day)

    after = by_name(estimate)["EKS control plane"].after
    assert after is not None
    assert after.always == pytest.approx(usd)


def test_a_tier_of_the_control_plane_is_named_since_no_table_has_its_price(tmp_path: Path) -> None:
    text = shortest(more='ebbtide:cluster: { version: "1.36", controlPlaneTier: tier-xl }')

    assert "without the control plane's tier-xl" in compare_costs(None, loaded(text, tmp_path), day=DAY).confidence


_FLEXIBLE = "aws:region: eu-west-1\nebbtide:nodeGroups: {{ flexible: {{ instanceTypes: [{0}], min: 2, max: 4 }} }}"
PRICED, UNPRICED = (_FLEXIBLE.format(name) for name in ("m5.2xlarge", "m8ine.2xlarge"))


def test_a_type_that_loses_its_price_is_no_saving(tmp_path: Path) -> None:
    lost = compared(shortest(more=PRICED), shortest(more=UNPRICED), tmp_path)
    gained = compared(shortest(more=UNPRICED), shortest(more=PRICED), tmp_path)

    assert lost.before is not None
    assert lost.after is not None
    assert lost.before.always is not None
    assert lost.after.always is not None
    assert lost.before.always - lost.after.always > 500, "the plain sums compare unequal things"
    for comparison, side in ((lost, "now"), (gained, "before")):
        assert "→" not in money_text(comparison)
        assert f"without flexible (no price {side})" in money_text(comparison)
        assert "→" not in "".join(always_and_at_max(comparison))
        before, after = comparison.compared
        assert before == after


def test_the_rest_of_a_stack_whose_type_has_no_price_is_still_compared(tmp_path: Path) -> None:
    rest = "ebbtide:network: { nat: per-zone }"
    lost = compared(shortest(more=PRICED), shortest(more=f"{UNPRICED}\n{rest}"), tmp_path)

    before, after = lost.compared
    assert before is not None
    assert after is not None
    assert before.always is not None
    assert after.always is not None
    assert after.always - before.always == pytest.approx(730 * (0.048 + 0.005))  # a gateway and its address
    assert "→" in money_text(lost)


def test_many_stacks_are_compared_by_what_has_a_price_on_both_sides(tmp_path: Path) -> None:
    lost = compared(shortest(more=PRICED), shortest(more=UNPRICED), tmp_path)
    stack = customer(cost=lost)

    total = cost_total((stack, replace(stack, stack="other")))

    assert total is not None
    assert total.before == total.after
    assert total.incomplete
    assert "→" not in total_text(total)


TWO_GPUS = """
    ebbtide:nodeGroups:
      a10: { kind: gpu, instanceTypes: [g5.2xlarge], max: 8 }
      l4: { kind: gpu, instanceTypes: [g6.2xlarge], max: 8PRIORITY }
    ebbtide:workloads:
      triton: { category: flexible, image: 'example.com/triton:1', replicas: 3, cpu: 4, memory: 16Gi, gpu: 1 }
"""


def test_the_line_that_puts_pods_on_cheaper_nodes_is_shown(tmp_path: Path) -> None:
    """Three nodes at 1.212 USD an hour, or at 0.9776 USD: 513 USD in 730 hours."""
    dear, cheap = (shortest(more=TWO_GPUS.replace("PRIORITY", priority)) for priority in ("", ", priority: 10"))

    (sentence,) = [line for line in compared(cheap, dear, tmp_path).cheaper if "gpu" not in line and "l4" in line]

    assert sentence.startswith(
        "write priority: 10 at nodeGroups.l4: the nodes that always run cost about 513 USD a month less ("
    )
    assert not any("l4" in line for line in compared(dear, cheap, tmp_path).cheaper)


def test_less_than_three_percent_is_not_worth_a_line(tmp_path: Path) -> None:
    """The service saves 513 USD a month, which is little beside the 40 nodes of the minimum of another group."""
    many = "      flexible: { instanceTypes: [m7i.8xlarge], min: 40, max: 40 }\n    ebbtide:workloads:"
    text = TWO_GPUS.replace("PRIORITY", "").replace("    ebbtide:workloads:", many)

    assert compared(None, shortest(more=text), tmp_path).cheaper == ()
