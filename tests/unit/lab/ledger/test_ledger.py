"""The ledger of a made-up month: who caused it, what others would have cost, and how it is written."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.month import Alternative, Ledger, Month, plain
from ebbtide.lab.ledger.page import render_page
from ebbtide.lab.ledger.sheets import view_of
from ebbtide.prices import PricingAssumption, hourly
from ebbtide.settings import StackSettings
from tests.builders.monitoring.month import FIXED, FLEXIBLE, REGION, KnownMonth, stack
from tests.builders.settings import loaded, shortest

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")
LOOKS = 240.0  # seconds between two samples: four times fewer than the exporter has, and enough for these sums
SOON, LATE = datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def whole(acme: StackSettings) -> Ledger:
    return ledger_of(KnownMonth(month=OCTOBER, every=LOOKS).recording(), acme, OCTOBER, SOON)


def named(ledger: Ledger, name: str) -> Alternative:
    return next(entry for entry in ledger.alternatives if entry.name == name)


def test_every_recorded_dollar_has_a_cause(whole: Ledger) -> None:
    by_cause = {(share.group, share.workload): share.usd for share in whole.shares}

    assert sum(by_cause.values()) == pytest.approx(whole.recorded_usd)
    assert by_cause["flexible", "train"] == pytest.approx(by_cause["flexible", "idle"])
    assert by_cause["spot", "requests not recorded"] > 0
    assert {share.workload for share in whole.shares if share.idle} == {"idle"}
    assert {share.namespace for share in whole.shares if share.workload == "train"} == {"ebbtide-workers"}


def test_the_fleet_before_costs_the_prices_that_the_month_has(whole: Ledger) -> None:
    fleet = named(whole, "fixed fleet before")
    known = KnownMonth(month=OCTOBER, every=LOOKS)
    listed = sum(
        count
        * sum(
            usd * (min(until, known.end) - max(since, known.begin)) / 3600
            for (since, usd), until in zip(steps, (*(at for at, _ in steps[1:]), known.end), strict=True)
        )
        for count, steps in ((3, known.prices[FIXED]), (12, known.prices[FLEXIBLE]))
    )

    assert (fleet.low_usd, fleet.high_usd) == pytest.approx((listed, listed))
    assert saved(whole, fleet.name) == pytest.approx((listed - whole.high_usd, listed - whole.low_usd))
    plan = hourly(REGION, FLEXIBLE, PricingAssumption.COMPUTE_1Y) / hourly(REGION, FLEXIBLE)
    text = next(text for text in fleet.assumptions if "compute-1y-no-upfront" in text)
    assert float(text.partition("$")[2].split()[0].replace(",", "")) == pytest.approx(listed * plan, rel=0.01)


def saved(ledger: Ledger, name: str) -> tuple[float, float]:
    found = ledger.saved[name]
    assert found is not None, named(ledger, name).why
    return found


def test_in_a_gap_budgets_that_never_open_save_between_nothing_and_the_bounds_of_the_gap(
    acme: StackSettings, whole: Ledger
) -> None:
    """The gap covers two nights, whose saving was not recorded."""
    torn = ledger_of(KnownMonth(month=OCTOBER, every=LOOKS, holes=[(100, 148)]).recording(), acme, OCTOBER, SOON)
    low, high = saved(torn, "budgets never open")
    true_low, true_high = saved(whole, "budgets never open")
    (gap,) = torn.gaps

    assert "(api 270 hours)" in named(torn, "budgets never open").assumptions[2]  # 20 hours of sleep are in the gap
    assert low < true_low
    assert true_high < high < true_high + gap.high_usd - gap.low_usd


def test_a_model_that_misses_the_month_makes_the_range_of_a_difference_as_wide(
    acme: StackSettings, whole: Ledger
) -> None:
    """The model has a tenth fewer workers, and costs a tenth less with budgets that open and with those that do not."""
    known = KnownMonth(month=OCTOBER, every=LOOKS).recording()
    fewer = {"train": tuple((at, round(0.9 * workers)) for at, workers in known.wanted["train"])}
    ledger = ledger_of(replace(known, wanted=fewer), acme, OCTOBER, SOON)

    low, high = saved(ledger, "budgets never open")
    true_low, true_high = saved(whole, "budgets never open")
    assert low < true_low < true_high < high
    assert high - low > 0.2 * ledger.recorded_usd
    assert any("misses the month itself" in text for text in named(ledger, "budgets never open").assumptions)


def test_that_nothing_slept_costs_the_hours_that_were_recorded_and_not_the_calendars(
    acme: StackSettings, whole: Ledger
) -> None:
    """One node at most; while workers need it anyway nothing is saved. In the other month no operator woke it."""
    known = KnownMonth(month=OCTOBER, every=LOOKS)
    one_more = (*known.naps, (known.begin + 68 * 3600, 1.0), (known.begin + 78 * 3600, 0.0))
    more = replace(known.recording(), asleep={"deployment ebbtide/api": tuple(sorted(one_more))})
    usd, nights = known.prices[FLEXIBLE][0][1], len(known.naps) // 2

    def hours_and_dollars(ledger: Ledger) -> tuple[int, float, float]:
        text = named(ledger, "nothing sleeps").assumptions[2]
        model = re.search(r"costs \$([\d,]+) with .*, and \$([\d,]+) with .*api (\d+) hours", text)
        assert model is not None, text
        awake, asleep, hours = (int(number.replace(",", "")) for number in model.groups())
        return hours, awake, asleep

    hours, awake, asleep = hours_and_dollars(whole)
    more_hours, still_awake, longer = hours_and_dollars(ledger_of(more, acme, OCTOBER, SOON))
    assert (hours, more_hours) == (10 * nights, 10 * nights + 10)
    assert 0.3 * hours * usd < awake - asleep < hours * usd
    assert 0.5 * 10 * usd - 1 < asleep - longer < 2 * 10 * usd  # of rounded dollars; its pods may be on two nodes
    assert still_awake == awake
    low, high = saved(whole, "nothing sleeps")
    assert low <= awake - asleep <= high or awake - asleep == pytest.approx(low, abs=1)


def test_sleep_that_was_not_recorded_is_not_guessed_and_without_sleepers_there_is_no_such_line(
    acme: StackSettings, tmp_path: Path
) -> None:
    recording = replace(KnownMonth(month=OCTOBER, every=LOOKS).recording(), asleep={})
    awake = ledger_of(recording, loaded(stack(sleep="{ when: never }"), tmp_path), OCTOBER, SOON)

    entry = named(ledger_of(recording, acme, OCTOBER, SOON), "nothing sleeps")
    assert (entry.low_usd, entry.why) == (None, "not enough data: ebbtide_workload_state shows no sleep in 2026-10")
    assert "nothing sleeps" not in {entry.name for entry in awake.alternatives}


def test_workers_at_the_peak_need_the_nodes_of_the_peak(whole: Ledger) -> None:
    """Three workers fill a node, and the peak of the month had nine flexible nodes and some on spot."""
    assert named(whole, "workers at the peak").high_usd == pytest.approx(
        named(whole, "peak fleet").high_usd or 0, rel=0.4
    )
    assert any("train 3" in text for text in named(whole, "workers at the peak").assumptions)


def test_of_a_month_that_was_hardly_recorded_nothing_is_said_to_be_saved(acme: StackSettings) -> None:
    known = KnownMonth(month=OCTOBER, every=LOOKS, holes=[(0, 500)])
    ledger = ledger_of(known.recording(), acme, OCTOBER, SOON)

    assert set(ledger.saved.values()) == {None}
    assert all(entry.why.startswith("not enough data") for entry in ledger.alternatives)


def test_without_recorded_workers_the_replays_are_unknown(acme: StackSettings) -> None:
    recording = replace(KnownMonth(month=OCTOBER, every=LOOKS).recording(), wanted={})
    ledger = ledger_of(recording, acme, OCTOBER, SOON)

    assert named(ledger, "budgets never open").why == named(ledger, "workers at the peak").why != ""
    assert ledger.saved["peak fleet"] is not None


def test_an_existing_cluster_without_node_shapes_has_a_ledger_that_names_what_it_lacks(tmp_path: Path) -> None:
    cluster = "{ kind: existing, context: x, nodeSelectors: { fixed: { pool: a }, flexible: { pool: b } } }"
    acme = loaded(shortest(more=f"aws:region: us-east-1\nebbtide:cluster: {cluster}"), tmp_path)
    ledger = ledger_of(KnownMonth(month=OCTOBER, every=LOOKS, holes=[(100, 148)]).recording(), acme, OCTOBER, SOON)

    assert any("4 fixed (m7i.2xlarge)" in text for text in named(ledger, "peak fleet").assumptions)
    assert "nodeShapes" in named(ledger, "budgets never open").why
    assert any("No max is known for nodes of fixed, flexible, spot" in note for note in ledger.notes)


def test_a_month_read_after_ten_days_is_incomplete_if_it_has_gaps(acme: StackSettings, whole: Ledger) -> None:
    complete, torn = (
        replace(KnownMonth(month=OCTOBER, every=LOOKS, holes=holes).recording(), wanted={}) for holes in ((), [(0, 30)])
    )

    assert whole.incomplete == ""
    assert ledger_of(complete, acme, OCTOBER, LATE).incomplete == ""
    assert ledger_of(torn, acme, OCTOBER, SOON).incomplete == ""
    assert "10 days" in ledger_of(torn, acme, OCTOBER, LATE).incomplete


def test_the_json_is_plain_and_has_the_totals(whole: Ledger) -> None:
    document = json.loads(json.dumps(plain(whole)))

    assert document["month"]["name"] == "2026-10"
    assert document["low_usd"] == pytest.approx(whole.low_usd, abs=1e-3)
    assert document["saved"]["fixed fleet before"] == pytest.approx(whole.saved["fixed fleet before"], abs=1e-3)
    assert sum(row["usd"] for row in document["paid"]) == pytest.approx(whole.recorded_usd, abs=0.1)


def test_the_page_names_the_gaps_and_the_assumptions(acme: StackSettings) -> None:
    recording = replace(KnownMonth(month=OCTOBER, holes=[(100, 148)]).recording(), wanted={})
    page = render_page(view_of(ledger_of(recording, acme, OCTOBER, SOON))).replace("\N{NO-BREAK SPACE}", " ")

    assert "Not recorded: 2026-10-05 01:59 to 2026-10-07 02:00 UTC" in page
    assert "the nodes of costs.before ran all month" in page
    assert "default-src 'none'" in page
