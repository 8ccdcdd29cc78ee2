"""What a month's nodes cost: a made-up month beside its true dollars."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.ledger.build import ledger_of, usage_of_month
from ebbtide.lab.ledger.lives import NodeKey, Sightings, gaps_between, lives_of
from ebbtide.lab.ledger.month import LedgerError, Month, month_named
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.paid import Paid, paid_of
from ebbtide.lab.ledger.rates import rates_of
from ebbtide.lab.ledger.sheets import NO_GROUP, view_of
from ebbtide.prices import PricingAssumption, hourly, on_demand, spot_typical
from ebbtide.settings import StackSettings
from ebbtide.text.counts import DASH
from tests.builders.existing import onprem
from tests.builders.monitoring.month import FARGATE_HOURS, FIXED, FLEXIBLE, REGION, KnownMonth, bounds, paid_for, stack
from tests.builders.settings import loaded

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")  # its last Sunday has 25 hours
WHOLE = KnownMonth(month=OCTOBER)
_GROUPS = ("fixed", "flexible", "spot")


def spot_bounds(paid: Paid) -> tuple[float, float]:
    low, high = bounds(paid)
    return low - sum(row.less_usd for row in paid.rows), high + sum(row.more_usd for row in paid.rows)


def test_the_dollars_of_a_recorded_month_are_its_true_ones(acme: StackSettings) -> None:
    """Two prices change in it, a node has the name of an earlier one, and a third of the nodes run on spot."""
    paid = paid_for(WHOLE, acme)

    assert not paid.gaps
    assert bounds(paid) == pytest.approx((WHOLE.usd(), WHOLE.usd()), rel=0.001)
    for group in ("fixed", "flexible", "spot"):
        dollars = sum(row.usd for row in paid.rows if row.group == group)
        assert dollars == pytest.approx(WHOLE.usd_of(group), rel=0.005), group
    assert {row.day for row in paid.rows} == {OCTOBER.day_of(OCTOBER.begin).replace(day=day) for day in range(1, 32)}


@pytest.mark.parametrize("factor", [0.51, 1.35, 1.99])
@pytest.mark.parametrize("holes", [(), ((100, 148),)])
def test_a_month_with_other_spot_prices_lies_in_the_stated_range(
    acme: StackSettings, factor: float, holes: Sequence[tuple[float, float]]
) -> None:
    known = replace(WHOLE, spot_factor=factor, holes=holes)

    low, high = spot_bounds(paid_for(known, acme))

    assert low < known.usd() < high
    on_demand_only = WHOLE.usd() - WHOLE.usd_of("spot")
    assert holes or low > on_demand_only + 0.49 * WHOLE.usd_of("spot")


def test_only_spot_nodes_have_a_range(acme: StackSettings) -> None:
    rows = paid_for(WHOLE, acme).rows

    assert {row.group for row in rows if row.less_usd or row.more_usd} == {"spot"}


def test_a_spot_price_is_at_most_the_on_demand_price_and_at_least_a_tenth_of_it(acme: StackSettings) -> None:
    rates = rates_of(acme, WHOLE.recording())
    dear, cheap = replace(rates, spot_share={FLEXIBLE: 0.7}), replace(rates, spot_share={FLEXIBLE: 0.15})

    assert dear.spot_bounds(FLEXIBLE) == (0.35, 1.0)
    assert cheap.spot_bounds(FLEXIBLE) == (0.1, 0.3)
    assert replace(rates, spot_share={}).spot_bounds(FLEXIBLE) == (0.1, 1.0)
    assert replace(rates, spot_share={}, stated={FLEXIBLE}).spot_bounds(FLEXIBLE) == (1.0, 1.0)


def test_boots_of_the_month_are_apart(acme: StackSettings) -> None:
    born = sum(run.created >= WHOLE.begin for run in WHOLE.runs)

    assert sum(row.boots for row in paid_for(WHOLE, acme).rows) == born


HOLES = st.lists(st.tuples(st.floats(0, 740), st.floats(0.05, 90)), max_size=4)


@given(holes=HOLES, seed=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_with_missing_days_the_truth_lies_in_the_stated_range(
    acme: StackSettings, holes: list[tuple[float, float]], seed: int
) -> None:
    hours = [(begin, begin + length) for begin, length in holes]
    known = KnownMonth(month=OCTOBER, seed=seed, holes=hours, every=240.0)

    low, high = bounds(paid_for(known, acme))

    assert low * 0.998 <= known.usd() <= high * 1.002


def test_a_gap_of_two_days_is_named_and_has_a_range(acme: StackSettings) -> None:
    (gap,) = paid_for(replace(WHOLE, holes=[(200, 248)]), acme).gaps

    assert round((gap.end - gap.begin).total_seconds() / 3600) == 48
    on_both_sides = 48 * (4 * WHOLE.prices[FIXED][0][1] + WHOLE.prices[FLEXIBLE][1][1])
    assert on_both_sides < gap.low_usd < 1.1 * on_both_sides
    all_at_max = 48 * (4 * WHOLE.prices[FIXED][0][1] + 24 * WHOLE.prices[FLEXIBLE][0][1])
    assert all_at_max < gap.high_usd < 1.5 * all_at_max  # and the nodes on spot


def test_a_price_that_changed_in_a_gap_is_within_its_bounds(acme: StackSettings) -> None:
    known = KnownMonth(month=OCTOBER, scale=0, holes=[(229, 250)])
    before, (_, after) = known.prices[FLEXIBLE]
    read_at = known.begin + 250 * 3600 + 500  # prices are read every ten minutes
    recording = replace(known.recording(), prices={**known.prices, FLEXIBLE: (before, (read_at, after))})

    low, high = bounds(paid_of(acme, OCTOBER, recording, rates_of(acme, recording)))

    assert low <= known.usd() <= high


def test_the_most_of_a_gap_has_the_dearest_type_of_a_group_also_if_it_never_ran(
    acme: StackSettings, tmp_path: Path
) -> None:
    dearer = "m7a.4xlarge"
    other = loaded(stack().replace("[m7i.4xlarge], max: 24", f"[m7i.4xlarge, {dearer}], max: 24"), tmp_path)

    gaps = [paid_for(replace(WHOLE, holes=[(200, 248)]), settings).gaps[0] for settings in (acme, other)]

    more = 48 * (hourly(REGION, dearer) - hourly(REGION, FLEXIBLE))
    assert 20 * more < gaps[1].high_usd - gaps[0].high_usd < 24 * more


def test_an_exporter_that_restarts_leaves_no_gap(acme: StackSettings) -> None:
    restarts = [(hour, hour + 0.07) for hour in range(5, 700, 40)]

    paid = paid_for(replace(WHOLE, holes=restarts), acme)

    assert not paid.gaps
    assert bounds(paid) == pytest.approx((WHOLE.usd(), WHOLE.usd()), rel=0.002)


def test_two_nodes_of_one_name_are_two_lives() -> None:
    lives = [life for life in lives_of(WHOLE.sightings()) if life.key.node == "ip-10-0-0-9"]

    assert len(lives) == 2
    assert 300 < lives[1].begin - lives[0].end < 500


def lives(seen: dict[str, list[float]], born: list[float]) -> list[tuple[str, float | None, float, float]]:
    """Lives of one node by group, where the exporter looks once a minute for two hours."""
    keys = {group: NodeKey(node="a", group=group, category="", instance_type="", capacity_type="") for group in seen}
    sightings = Sightings(
        looks=[60.0 * place for place in range(120)],
        seen={keys[group]: times for group, times in seen.items()},
        created={"a": born},
    )
    return [(life.key.group, life.created, life.begin, life.end) for life in lives_of(sightings)]


def minutes(first: int, last: int) -> list[float]:
    return [60.0 * minute for minute in range(first, last + 1)]


def test_a_node_that_was_away_while_the_exporter_looked_did_not_run_then() -> None:
    seen = {"flexible": [*minutes(10, 20), *minutes(60, 70)]}

    assert lives(seen, [570.0]) == [("flexible", 570.0, 570.0, 1230.0), ("flexible", None, 3600.0, 4230.0)]
    short = {"flexible": [*minutes(10, 20), *minutes(24, 30)]}
    assert lives(short, [570.0]) == [("flexible", 570.0, 570.0, 1830.0)]


def test_a_node_whose_label_changes_is_paid_once() -> None:
    seen = {"": minutes(10, 20), "flexible": minutes(21, 30)}

    assert lives(seen, [570.0]) == [("", 570.0, 570.0, 1230.0), ("flexible", None, 1260.0, 1830.0)]
    assert lives(dict(reversed(seen.items())), [570.0]) == lives(seen, [570.0])


def test_a_month_whose_nodes_lacked_labels_at_first_costs_the_same(acme: StackSettings) -> None:
    """Each node was recorded for up to three minutes before its labels were known, and has one life."""
    bare = replace(WHOLE, bare=180.0)
    paid, known = paid_for(bare, acme), paid_for(WHOLE, acme)

    assert bounds(paid) == pytest.approx((WHOLE.usd(), WHOLE.usd()), rel=0.001)
    assert [(row.group, row.instance_type, row.boots) for row in paid.rows] == [
        (row.group, row.instance_type, row.boots) for row in known.rows
    ]


def test_a_stretch_without_a_type_belongs_to_the_same_node_before_or_after_it_and_to_no_other() -> None:
    def lives(bare: list[float], typed: list[float], born: list[float]) -> list[tuple[str, float, float]]:
        keys = [
            NodeKey(node="a", group="", category="", instance_type=kind, capacity_type="") for kind in ("", FLEXIBLE)
        ]
        sightings = Sightings(
            looks=[60.0 * place for place in range(120)],
            seen=dict(zip(keys, (bare, typed), strict=True)),
            created={"a": born},
        )
        return [(life.key.instance_type, life.begin, life.end) for life in lives_of(sightings)]

    one = [(FLEXIBLE, 570.0, 1830.0)]
    assert lives(minutes(10, 12), minutes(13, 30), [570.0]) == one
    assert lives(minutes(25, 30), minutes(10, 24), [570.0]) == one
    assert lives([660.0, 780.0, *minutes(20, 30)], [600.0, 720.0, *minutes(14, 19)], [570.0]) == one
    assert lives(minutes(10, 12), minutes(15, 30), [570.0, 840.0]) == [("", 570.0, 750.0), (FLEXIBLE, 840.0, 1830.0)]
    assert lives(minutes(10, 12), minutes(40, 50), [570.0]) == [("", 570.0, 750.0), (FLEXIBLE, 2400.0, 3030.0)]


def test_nodes_without_a_type_are_a_line_with_their_hours_and_without_dollars(acme: StackSettings) -> None:
    known = replace(WHOLE, fargate=True)
    ledger = ledger_of(known.recording(), acme, OCTOBER, datetime(2026, 11, 3, tzinfo=UTC))

    assert ledger.recorded_usd == pytest.approx(WHOLE.usd(), rel=0.001)
    lines = {row[0]: row for row in view_of(ledger).sheets["paid"].rows}
    name, usd, hours, *_ = lines["instance type unknown"]
    assert (name, usd) == ("instance type unknown", DASH)
    assert hours == pytest.approx(FARGATE_HOURS, abs=0.1)
    assert NO_GROUP not in lines
    assert NO_GROUP not in render_page(view_of(ledger))
    assert any(note.startswith("30 node-hours of unknown instance types") for note in ledger.notes)
    assert all(entry.low_usd is not None for entry in ledger.alternatives if entry.name == "peak fleet")


def test_nodes_without_a_type_have_the_price_of_their_own_set(tmp_path: Path) -> None:
    """Nodes of one's own have no label with a type. The set of spot nodes states no price."""
    shapes = ", ".join(
        f"{name}: {{ cpu: 8, memory: 32Gi, max: 9, usdPerHour: {usd} }}"
        for name, usd in (("fixed", 1), ("flexible", 2))
    )
    sets = "nodeSelectors: { fixed: { pool: a }, flexible: { pool: b } }"
    existing = loaded(onprem(f"{sets}, nodeShapes: {{ {shapes} }}"), tmp_path)
    recording = replace(WHOLE.recording(), prices={})
    untyped = {replace(key, instance_type=""): times for key, times in recording.sightings.seen.items()}
    recording = replace(recording, sightings=replace(recording.sightings, seen=untyped))

    paid = paid_of(existing, OCTOBER, recording, rates_of(existing, recording))

    usd = {group: {round(row.usd / row.hours, 4) for row in paid.rows if row.group == group} for group in _GROUPS}
    assert usd == {"fixed": {1.0}, "flexible": {2.0}, "spot": {0.0}}


def test_a_name_that_comes_back_with_another_type_has_the_price_of_each(acme: StackSettings) -> None:
    known = replace(WHOLE, renamed=True)

    assert bounds(paid_for(known, acme)) == pytest.approx((known.usd(), known.usd()), rel=0.001)


def test_five_minutes_of_silence_are_no_gap_and_more_are() -> None:
    assert gaps_between([0.0, 300.0, 601.0, 700.0], 0.0, 900.0) == ((300.0, 601.0),)


def test_a_plan_pays_for_the_minimum_and_is_a_line_of_its_own(tmp_path: Path) -> None:
    plan = PricingAssumption.COMPUTE_1Y
    acme = loaded(stack(costs=f"pricingAssumption: {plan}"), tmp_path)
    paid = paid_for(WHOLE, acme)
    saved = 1 - hourly(REGION, FIXED, plan) / hourly(REGION, FIXED)
    three_of_four = 0.75 * sum(row.usd for row in paid.rows if row.group == "fixed")

    assert paid.plan_usd == pytest.approx(-saved * three_of_four, rel=0.01)


def test_a_type_without_a_price_ends_the_ledger(acme: StackSettings) -> None:
    known = WHOLE.recording()
    odd = {replace(key, instance_type="x9.huge"): seen for key, seen in known.sightings.seen.items()}
    recording = replace(known, sightings=replace(known.sightings, seen=odd))

    with pytest.raises(LedgerError) as told:
        ledger_of(recording, acme, OCTOBER, datetime(2026, 11, 3, tzinfo=UTC))

    (line,) = str(told.value).splitlines()
    assert line.startswith("x9.huge ran in ")


def test_prices_of_the_tables_apply_where_none_was_recorded(acme: StackSettings) -> None:
    rates = rates_of(acme, replace(WHOLE.recording(), prices={}))

    assert rates.listed_usd(FLEXIBLE, WHOLE.begin) == WHOLE.prices[FLEXIBLE][0][1]


def test_spot_nodes_with_gpus_are_billed_by_their_own_type(tmp_path: Path) -> None:
    """Types of one group have several prices; one without a known saving is named."""
    types = ("g6e.2xlarge", "g5.4xlarge", "p5.4xlarge")
    known = replace(WHOLE, every=240.0).recording()
    seen = {
        replace(key, instance_type=types[index % 3]) if key.capacity_type == "spot" else key: times
        for index, (key, times) in enumerate(known.sightings.seen.items())
    }
    recording = replace(known, prices={}, sightings=replace(known.sightings, seen=seen))
    costs = "before: { spot: { nodes: 2, instanceType: p5.4xlarge } }"
    text = stack(costs=costs).replace("m7i.4xlarge, m6a.4xlarge, m6i.4xlarge, m7i-flex.4xlarge", ", ".join(types))

    ledger = ledger_of(recording, loaded(text, tmp_path), OCTOBER, datetime(2026, 11, 3, tzinfo=UTC))

    hour = {kind: {round(row.usd / row.hours, 4) for row in ledger.paid if row.instance_type == kind} for kind in types}
    spot = {kind: round(spot_typical(REGION, kind), 4) for kind in types[:2]}
    assert hour == {**{kind: {usd} for kind, usd in spot.items()}, types[2]: {round(on_demand(REGION, types[2]), 4)}}
    assert "No typical spot saving is known for p5.4xlarge: priced on demand." in ledger.notes
    (peak,) = (entry for entry in ledger.alternatives if entry.name == "peak fleet")
    (nodes,) = (text for text in peak.assumptions if text.startswith("nodes:"))
    cheapest, dearest = nodes.split(", or ")  # of several instants with most spot nodes
    assert "p5.4xlarge" not in cheapest
    assert "p5.4xlarge on spot" in dearest
    (before,) = (entry for entry in ledger.alternatives if entry.name == "fixed fleet before")
    assert "no typical spot saving is known for p5.4xlarge" in before.assumptions
    assert before.high_usd == pytest.approx(2 * OCTOBER.hours * on_demand(REGION, types[2]))
    assert (before.low_usd or 0) < (before.high_usd or 0)


def test_each_described_type_of_existing_nodes_has_its_own_price(tmp_path: Path) -> None:
    large, small = "{ cpu: 16, memory: 64Gi, usdPerHour: 2 }", "{ cpu: 8, memory: 32Gi, usdPerHour: 1 }"
    sets = "nodeSelectors: { flexible: { pool: batch } }, nodePools: { flexible: [general] }"
    types = f"{{ {FLEXIBLE}: {large}, {FIXED}: {small} }}"
    existing = loaded(onprem(f"{sets}, nodeShapes: {{ flexible: {{ types: {types}, max: 9 }} }}"), tmp_path)
    known = WHOLE.recording()
    ran = {replace(key, group="flexible"): value for key, value in known.sightings.seen.items()}
    rates = rates_of(existing, replace(known, prices={}, sightings=replace(known.sightings, seen=ran)))

    assert [rates.listed_usd(kind, WHOLE.begin) for kind in (FLEXIBLE, FIXED)] == [2, 1]


def test_a_type_that_no_described_set_lists_has_its_own_price(tmp_path: Path) -> None:
    sets = "nodeSelectors: { flexible: { pool: batch } }, nodePools: { flexible: [general] }"
    types = "{ D16s: { cpu: 16, memory: 64Gi, usdPerHour: 2 } }"
    text = onprem(f"{sets}, nodeShapes: {{ flexible: {{ types: {types}, max: 9 }} }}")
    existing = loaded(text.replace("config:\n", f"config:\n  aws:region: {REGION}\n"), tmp_path)
    known = WHOLE.recording()
    ran = {replace(key, group="flexible"): value for key, value in known.sightings.seen.items()}

    rates = rates_of(existing, replace(known, prices={}, sightings=replace(known.sightings, seen=ran)))

    assert rates.listed_usd(FLEXIBLE, WHOLE.begin) == on_demand(REGION, FLEXIBLE)


def test_no_region_is_assumed_for_an_existing_cluster(tmp_path: Path) -> None:
    recording = replace(WHOLE.recording(), prices={})

    with pytest.raises(LedgerError) as invalid:
        rates_of(loaded(onprem(), tmp_path), recording)

    assert str(invalid.value).splitlines()[0] == (
        f"{FIXED} ran in fixed: no price: usdPerHour in ebbtide:cluster.nodeShapes gives their price, and aws:region "
        "that of their instanceTypes"
    )


def test_recorded_prices_need_no_region(tmp_path: Path) -> None:
    ledger = ledger_of(WHOLE.recording(), loaded(onprem(), tmp_path), OCTOBER, datetime(2026, 11, 3, tzinfo=UTC))

    assert ledger.region == ""
    spot_types = {row.instance_type for row in ledger.paid if row.capacity_type == "spot"}
    assert spot_types
    assert f"No typical spot saving is known for {', '.join(sorted(spot_types))}: priced on demand." in ledger.notes


@pytest.mark.parametrize("text", ["2026-13", "2026-1", "november", "1999-01", "2026-11-01"])
def test_other_text_is_no_month(text: str) -> None:
    assert month_named(text, "UTC") is None


def test_a_month_begins_and_ends_at_local_midnight() -> None:
    assert OCTOBER.hours == 31 * 24 + 1
    assert OCTOBER.after.after.after == Month(year=2027, month=1, zone="Europe/Berlin")


def test_the_usage_of_karpenters_nodes_states_their_types(tmp_path: Path) -> None:
    several = f"flexible: {{ instanceTypes: [{FLEXIBLE}, {FIXED}], provisioner: karpenter,"
    text = stack().replace(f"flexible: {{ instanceTypes: [{FLEXIBLE}],", several)
    recording = replace(WHOLE, every=240.0).recording()

    usage = usage_of_month(recording, loaded(text, tmp_path), OCTOBER)

    assert not any(usage.nodes["flexible"])
    assert not any(usage.nodes[f"flexible/{FIXED}"])
    plain = usage_of_month(recording, loaded(stack(), tmp_path), OCTOBER)
    assert usage.nodes[f"flexible/{FLEXIBLE}"] == pytest.approx(plain.nodes["flexible"])
    assert sum(plain.nodes["flexible"]) > 0
