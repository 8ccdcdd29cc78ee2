"""The commitment of least cost, against brute force, and its cost when the load changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.savings.commitment import (
    NodeUsage,
    best_commitment,
    break_even_load,
    floor_commitment,
    outcome,
    regret,
)

HOURS = 6


def a_line(*nodes: float, price: float = 1.0, rate: float = 0.7) -> NodeUsage:
    return NodeUsage(price=price, rate=rate, nodes=nodes)


def line_of(price: float, kept: float, nodes: list[float]) -> NodeUsage:
    return a_line(*nodes, price=price, rate=price * kept)


some_lines = st.lists(
    st.builds(
        line_of,
        st.sampled_from([0.4, 1.0, 2.5]),
        st.sampled_from([0.45, 0.5, 0.72, 0.9]),
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0]), min_size=HOURS, max_size=HOURS),
    ),
    min_size=1,
    max_size=3,
)


def by_brute_force(lines: list[NodeUsage], most: float) -> float:
    return min(outcome(lines, most * step / 300).usd for step in range(301))


@given(some_lines)
def test_no_commitment_on_a_fine_grid_costs_less_than_the_best_one(lines: list[NodeUsage]) -> None:
    everything = sum(line.rate * max(line.nodes) for line in lines)

    assert outcome(lines, best_commitment(lines)).usd <= by_brute_force(lines, everything) + 1e-9


@given(some_lines)
def test_the_best_commitment_is_the_smallest_of_least_cost(lines: list[NodeUsage]) -> None:
    best = best_commitment(lines)

    assert best == 0 or outcome(lines, best * 0.999).usd > outcome(lines, best).usd


@given(some_lines, st.floats(0, 40), st.floats(0, 40), st.floats(0, 1))
def test_cost_is_convex_in_the_commitment(lines: list[NodeUsage], one: float, other: float, share: float) -> None:
    between = share * one + (1 - share) * other

    mean = share * outcome(lines, one).usd + (1 - share) * outcome(lines, other).usd
    assert outcome(lines, between).usd <= mean + 1e-9


@given(some_lines)
def test_up_to_the_floor_nothing_of_a_commitment_is_ever_lost(lines: list[NodeUsage]) -> None:
    floor = floor_commitment(lines)

    assert outcome(lines, floor).utilisation == pytest.approx(1)
    assert outcome(lines, floor * 1.01 + 0.01).utilisation < 1


@given(some_lines, st.sampled_from([0.5, 1.0, 2.0]))
def test_the_best_commitment_is_never_regretted_and_one_above_all_usage_always_is(
    lines: list[NodeUsage], load: float
) -> None:
    best = best_commitment(lines)

    assert regret(lines, best * load, load) == pytest.approx(0, abs=1e-9)
    assert regret(lines, load * sum(line.rate * max(line.nodes) for line in lines) + 1, load) > 0  # more than all


def test_a_node_that_runs_in_three_of_four_hours_is_worth_a_plan_of_thirty_per_cent_and_one_in_two_of_four_is_not() -> (
    None
):
    assert best_commitment([a_line(1, 1, 1, 0)]) == pytest.approx(0.7)
    assert best_commitment([a_line(1, 1, 0, 0)]) == 0


def test_the_highest_saving_is_covered_first_whatever_the_order_of_the_lines() -> None:
    dear = a_line(1, price=2.0, rate=1.6)  # 20 % off
    good = a_line(1, price=1.0, rate=0.5)  # 50 % off

    for lines in ([dear, good], [good, dear]):
        assert outcome(lines, 0.5).usd == pytest.approx(0.5 + 2.0)


def test_unused_commitment_is_lost() -> None:
    cost = outcome([a_line(2, 0)], 1.4)

    assert (cost.utilisation, cost.usd, cost.on_demand) == pytest.approx((0.5, 1.4, 1.0))
    assert cost.saved == pytest.approx(-0.4)


def test_a_fully_used_commitment_breaks_even_when_the_load_falls_to_its_rate() -> None:
    assert break_even_load([a_line(4, 4)], 4 * 0.7) == pytest.approx(0.7)


def test_a_commitment_that_only_a_larger_load_would_pay_for_says_so() -> None:
    assert break_even_load([a_line(1, 1)], 2 * 0.7) == pytest.approx(1.4)


def test_no_usage_needs_no_commitment() -> None:
    nothing = [a_line(0, 0)]

    assert (best_commitment(nothing), floor_commitment(nothing)) == (0, 0)
    assert outcome(nothing, 0).coverage == 0
