"""The bounds of a month's gaps, beside a made-up month whose true dollars are known."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.ledger.bounds import PACE_MARGIN, Pace
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.ledger.paid import Paid, paid_of
from ebbtide.lab.ledger.rates import rates_of
from ebbtide.settings import StackSettings
from tests.builders.existing import onprem
from tests.builders.monitoring.month import FIXED, KnownMonth, bounds, paid_for, stack
from tests.builders.settings import loaded

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")
WHOLE = KnownMonth(month=OCTOBER)
QUIET = KnownMonth(month=OCTOBER, scale=0)
DAY = (200.0, 224.0)
AWAKE = ", sleep: { when: outsideBusinessHours }"


def model(paid: Paid) -> float:
    return sum(row.usd for row in paid.rows) + sum(gap.model_usd or 0.0 for gap in paid.gaps)


def with_max(tmp_path: Path, nodes: int) -> StackSettings:
    return loaded(stack().replace("[m7i.4xlarge], max: 24", f"[m7i.4xlarge], max: {nodes}"), tmp_path)


def test_a_max_that_was_lowered_since_bounds_no_earlier_gap(tmp_path: Path) -> None:
    """Twenty nodes came and left in a gap, and the file says six by now."""
    known = replace(QUIET, holes=[DAY], bursts=[(201, 223, 20)], max_nodes={"flexible": ((0, 20), (600, 6))})

    paid = paid_for(known, with_max(tmp_path, 6))

    assert bounds(paid)[0] <= known.usd() <= bounds(paid)[1]
    unknown = paid_for(replace(known, max_nodes={}), with_max(tmp_path, 6))
    assert bounds(unknown)[1] < known.usd()
    assert any("rests on today's max of fixed, flexible, spot" in note for note in unknown.notes)
    assert any("rests on today's max of fixed, spot" in note for note in paid.notes)


@pytest.mark.parametrize("steps", [((0, 6), (224.1, 20)), ((0, 20), (224.1, 6))])
def test_a_max_that_changed_within_a_gap_counts_at_its_higher_value(
    tmp_path: Path, steps: tuple[tuple[float, float], ...]
) -> None:
    known = replace(QUIET, holes=[DAY], bursts=[(201, 223, 20)], max_nodes={"flexible": steps})

    assert known.usd() <= bounds(paid_for(known, with_max(tmp_path, 6)))[1]


def test_the_bound_is_never_below_the_nodes_that_ran(tmp_path: Path) -> None:
    """Ten nodes stay on both sides of the gap, although the max is two; twelve more left in it."""
    bursts = [(100.0, 400.0, 10), (100.0, 223.0, 12)]
    known = replace(QUIET, holes=[DAY], bursts=bursts, max_nodes={"flexible": ((0, 2),)})

    low, high = bounds(paid_for(known, with_max(tmp_path, 2)))

    assert low <= known.usd() <= high


def sixty_gaps(seed: int) -> list[tuple[float, float]]:
    """Gaps of 3 to 20 minutes, one in each twelfth of the month's hours or so: 1.6 % of the month."""
    chance = random.Random(seed)
    return [
        (begin, begin + chance.uniform(3, 20) / 60) for begin in (12 * at + chance.uniform(0, 11) for at in range(60))
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_sixty_short_gaps_cost_little_certainty(acme: StackSettings, seed: int) -> None:
    known = replace(WHOLE, holes=sixty_gaps(seed))
    paid = paid_for(known, acme)
    low, high = bounds(paid)

    assert len(paid.gaps) > 45
    assert low * 0.999 <= known.usd() <= high
    assert high - low < 0.04 * known.usd()
    assert model(paid) == pytest.approx(known.usd(), rel=0.002)


def test_the_model_takes_the_same_hours_of_other_days_for_a_gap_of_days(acme: StackSettings) -> None:
    known = replace(WHOLE, holes=[(34, 270)])  # it begins in the morning, when many nodes run
    paid = paid_for(known, acme)

    assert bounds(paid)[0] <= known.usd() <= bounds(paid)[1]
    assert model(paid) == pytest.approx(known.usd(), rel=0.05)
    (gap,) = paid.gaps
    assert gap.low_usd < (gap.model_usd or 0) < gap.high_usd


def test_nodes_that_came_and_left_while_nothing_more_was_wanted_are_in_the_bound(tmp_path: Path) -> None:
    """At night, on a group that workers alone use: they drain for hours, and a rollout has new ones beside them."""
    acme = loaded(stack().replace(AWAKE, ""), tmp_path)
    night = 24 * 9 + 1.0
    known = replace(WHOLE, holes=[(night, night + 3)], bursts=[(night + 0.5, night + 2.8, 20)])
    recording = known.recording()
    quiet = replace(recording, wanted={"train": ((known.begin, 0.0),)})

    paid = paid_of(acme, OCTOBER, quiet, rates_of(acme, quiet))

    assert bounds(paid)[0] <= known.usd() <= bounds(paid)[1]
    assert any("A larger burst that came and left within one gap is not in it." in note for note in paid.notes)


def test_a_type_without_a_price_is_named(tmp_path: Path) -> None:
    sets = "nodeSelectors: { flexible: { pool: batch } }, nodePools: { flexible: [general] }"
    types = "{ D16s: { cpu: 16, memory: 64Gi } }"
    odd = loaded(onprem(f"{sets}, nodeShapes: {{ flexible: {{ types: {types}, max: 9 }} }}"), tmp_path)

    notes = paid_for(replace(WHOLE, holes=[DAY]), odd).notes

    assert "No price is known for D16s of flexible: the upper bound of gaps leaves them out." in notes
    assert not paid_for(WHOLE, odd).notes


def test_a_node_without_a_type_that_ran_in_a_gap_is_named(acme: StackSettings) -> None:
    """Fargate's node runs for thirty hours from the begin of the fourth day."""
    notes = paid_for(replace(WHOLE, fargate=True, holes=[(80, 90)]), acme).notes

    assert "In gaps, 10 node-hours of unknown instance types have no price and are in no bound." in notes


def test_the_pace_is_the_most_within_any_such_time_and_never_below_one_a_minute() -> None:
    pace = Pace(joins=[0.0, 30.0, 50.0, 1000.0, 1020.0, 4000.0], departures=[])

    assert pace.most("joins", 60) == 3 * PACE_MARGIN
    assert pace.most("joins", 10) == 3 * PACE_MARGIN  # rounded up to a minute
    assert pace.most("joins", 1020) == 5 * PACE_MARGIN + 7
    assert pace.most("departures", 300) == 5


HOLES = st.lists(st.tuples(st.floats(0, 740), st.floats(0.05, 90)), max_size=6)


@given(holes=HOLES, seed=st.integers(0, 5), lowered=st.floats(1, 700), recorded=st.booleans())
@settings(max_examples=25, deadline=None)
def test_with_any_holes_and_changes_of_the_max_the_truth_is_in_the_range(
    acme: StackSettings, holes: list[tuple[float, float]], seed: int, lowered: float, recorded: bool
) -> None:
    steps = {"flexible": ((0.0, 30.0), (lowered, 24.0)), "fixed": ((0.0, 4.0),)}
    known = KnownMonth(
        month=OCTOBER,
        seed=seed,
        holes=[(begin, begin + length) for begin, length in holes],
        every=240.0,
        max_nodes=steps if recorded else {},
    )

    paid = paid_for(known, acme)

    assert bounds(paid)[0] * 0.998 <= known.usd() <= bounds(paid)[1] * 1.002
    assert all(gap.low_usd <= (gap.model_usd or 0.0) <= gap.high_usd for gap in paid.gaps)
    assert FIXED in {row.instance_type for row in paid.rows}
