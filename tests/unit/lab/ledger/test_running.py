"""A month that has not ended, beside the same month when it has."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.lab.ledger.month import Amount, Month, bounds_of
from ebbtide.lab.ledger.month_before import MonthBefore, by_group, month_before
from ebbtide.lab.ledger.pattern import Pattern
from ebbtide.lab.ledger.running import Running, running_of
from ebbtide.settings import StackSettings
from ebbtide.text.counts import DASH
from ebbtide.text.money import about_dollars, dollar_range
from tests.builders.monitoring.month import FIXED, KnownMonth, stack
from tests.builders.settings import loaded

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")  # its last Sunday has 25 hours
SEPTEMBER = MonthBefore(
    month=Month(year=2026, month=9, zone="Europe/Berlin"), amounts={"fixed": Amount(2976, 1200)}, recorded_share=1.0
)
COSTS = "expectedNodeHours: { fixed: 2200, flexible: 1000, spot: 100 }"


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> StackSettings:
    return loaded(stack(costs=COSTS), tmp_path_factory.mktemp("stack"))


def running(
    acme: StackSettings, hours: int, *, holes: tuple[tuple[float, float], ...] = ()
) -> tuple[Running, KnownMonth]:
    """The month after `hours`: nothing is recorded later."""
    known = KnownMonth(month=OCTOBER, holes=[*holes, (hours + 0.1, 800)])
    until = OCTOBER.begin + timedelta(hours=hours)
    return running_of(known.recording(), acme, OCTOBER, until, SEPTEMBER), known


@pytest.mark.parametrize("days", [9, 14, 20, 28])
def test_the_months_end_is_within_the_range_and_close_to_the_models_figure(acme: StackSettings, days: int) -> None:
    month, known = running(acme, days * 24 + 7)

    assert not month.paid.gaps
    assert month.at_end_usd is not None
    low, high = month.at_end_usd
    assert low <= known.usd() <= high
    assert month.model_usd == pytest.approx(known.usd(), rel=0.06)
    to_date = sum(amount.usd for amount in month.to_date.values())
    assert to_date < 0.98 * known.usd()
    assert [month.at_end["fixed"].hours] == pytest.approx([4 * OCTOBER.hours], rel=0.001)


def test_a_gap_before_now_widens_the_range(acme: StackSettings) -> None:
    whole, torn = (running(acme, 500, holes=holes)[0] for holes in ((), ((200.0, 230.0),)))

    assert whole.at_end_usd is not None
    assert torn.at_end_usd is not None
    assert torn.at_end_usd[1] - torn.at_end_usd[0] > 1.1 * (whole.at_end_usd[1] - whole.at_end_usd[0])
    assert any(note.startswith("1 gap, 30 hours: $") for note in torn.notes)
    rows = {row[0]: row for row in torn.sheets["dollars"].body}
    assert rows["total"][1] == dollar_range(*torn.to_date_usd)
    assert rows["gaps"][1:] == [dollar_range(*bounds_of((), torn.paid.gaps))] * 2 + [DASH] * 2
    assert "gaps" not in {row[0] for row in whole.sheets["dollars"].body}
    assert torn.model_usd is not None
    assert torn.at_end_usd[0] <= torn.model_usd <= torn.at_end_usd[1]


def test_wide_gaps_until_now_are_led_by_the_models_figure(acme: StackSettings) -> None:
    """A volume was lost after the third day."""
    whole, torn = (running(acme, 500, holes=holes)[0] for holes in ((), ((72.0, 230.0),)))
    figure, truth = torn.to_date_model_usd or 0.0, sum(row.usd for row in whole.paid.rows)
    cost = f"about {about_dollars(figure)} by a model of the gaps (range: {dollar_range(*torn.to_date_usd)})"

    assert figure == pytest.approx(truth, rel=0.15)
    assert f"nodes cost {cost} at list prices" in torn.headline
    assert torn.as_json()["to_date_model_usd"] == pytest.approx(figure, abs=1e-4)
    few = running(acme, 500, holes=((24.0, 480.0),))[0]
    assert few.to_date_model_usd is None
    assert f"nodes cost {dollar_range(*few.to_date_usd)} at list prices" in few.headline


def test_a_day_to_come_with_an_hour_more_costs_an_hour_more() -> None:
    """On the last Sunday of October clocks go back: from its begin the month has 169 hours, each of one dollar."""
    hours = range(24 * 24)
    hourly = {("fixed", hour): Amount(1.0, 1.0) for hour in hours}
    pattern = Pattern(month=OCTOBER, hourly=hourly, recorded=dict.fromkeys(hours, 1.0))

    assert pattern.extremes((OCTOBER.begin + timedelta(days=24)).timestamp()) == pytest.approx((169, 169))


def test_nodes_that_run_now_have_not_left(acme: StackSettings) -> None:
    """By noon many nodes run. If they counted as departures, a gap of minutes could have had as many."""
    morning, noon = (running(acme, hours, holes=((205.0, 205.3),))[0].paid.gaps[0] for hours in (341, 348))

    assert noon.high_usd < 1.1 * morning.high_usd


@pytest.mark.parametrize(("hours", "days"), [(9, 0), (6 * 24 + 20, 6)])
def test_before_a_week_was_recorded_there_is_no_forecast(acme: StackSettings, hours: int, days: int) -> None:
    month, _ = running(acme, hours)

    assert (month.at_end_usd, month.at_end, month.model_usd) == (None, {}, None)
    assert month.outlook == f"At the month's end: not enough data, wanted 7 recorded days, found {days}."
    assert month.as_json()["at_end_usd"] is None
    assert "not enough data" in month.as_page()


def test_the_figures_stand_beside_the_expected_ones_and_last_months(acme: StackSettings) -> None:
    month, _ = running(acme, 500)
    rows = {row[0]: row for row in month.sheets["node-hours"].body}

    assert [*rows] == ["fixed", "flexible", "spot", "total"]
    assert rows["fixed"][3:] == ["2,200", "2,976"]
    assert rows["flexible"][3:] == ["1,000", DASH]
    fixed = month.expected["fixed"].usd / 2200
    assert fixed == pytest.approx(KnownMonth(month=OCTOBER).prices[FIXED][0][1], rel=0.05)
    unknown = replace(month, last="Prometheus keeps 10 d")
    assert "Last month is not known: Prometheus keeps 10 d" in unknown.notes
    assert unknown.sheets["dollars"].body[0][4] == DASH


def test_a_group_that_did_not_run_is_expected_at_its_list_price(tmp_path: Path) -> None:
    settings = loaded(stack(costs="expectedNodeHours: { spot: 10 }"), tmp_path)
    known = KnownMonth(month=OCTOBER, scale=0, holes=[(300.1, 800)])
    month = running_of(known.recording(), settings, OCTOBER, OCTOBER.begin + timedelta(hours=300), "unknown")

    assert 0 < month.expected["spot"].usd < 10
    assert "spot" not in by_group(month.paid.rows)
    low, high = bounds_of([month.expected["spot"]])
    assert low < month.expected["spot"].usd < high
    assert month.until.astimezone(UTC) == datetime(2026, 10, 13, 10, tzinfo=UTC)


def test_the_headline_names_its_prices_and_spot_is_a_range(acme: StackSettings) -> None:
    month, _ = running(acme, 500)
    rows = {row[0]: row for row in month.sheets["dollars"].body}

    assert month.headline.endswith(" at list prices, before commitments and discounts")
    for column in (1, 2, 3):  # to date, at the month's end, expected
        assert " to " in rows["spot"][column]
        assert " to " not in rows["fixed"][column]
        assert " to " in rows["total"][column]
    assert (
        "Spot prices are not recorded: from half the typical price to double, and never more than the on-demand price."
        in month.notes
    )
    spot = month.as_json()["to_date"]["spot"]
    assert spot["low_usd"] < spot["usd"] < spot["high_usd"]


@pytest.mark.parametrize("factor", [0.55, 1.9])
def test_the_months_end_is_within_the_range_at_any_spot_price(tmp_path: Path, factor: float) -> None:
    """Only spot nodes, the same on each day, so that nothing else makes the range wide."""
    settings = loaded(stack(costs=COSTS), tmp_path)
    known = KnownMonth(month=OCTOBER, spot_factor=factor, holes=[(400.1, 800)])
    recording = known.recording()
    only = {key: times for key, times in recording.sightings.seen.items() if key.capacity_type == "spot"}
    nodes = replace(recording, sightings=replace(recording.sightings, seen=only))
    month = running_of(nodes, settings, OCTOBER, OCTOBER.begin + timedelta(hours=400), "not read")

    assert month.at_end_usd is not None
    low, high = month.at_end_usd
    typical = sum(amount.usd for amount in month.at_end.values())
    assert low < 0.7 * typical
    assert high > 1.6 * typical
    assert low <= known.usd_of("spot") <= high


def october(tmp_path: Path, acme: StackSettings, *holes: tuple[float, float]) -> MonthBefore | str:
    known = KnownMonth(month=OCTOBER, every=240, holes=holes)
    return month_before(tmp_path, acme, OCTOBER, known.recording)


def test_a_last_month_of_a_few_recorded_minutes_is_not_known(tmp_path: Path, acme: StackSettings) -> None:
    """The recording began ten minutes before November."""
    before = october(tmp_path, acme, (-1, OCTOBER.hours - 1 / 6))

    assert isinstance(before, str)
    assert re.fullmatch(r"[0-9]+ min [0-9]+ s of the 745 hours of 2026-10 were recorded, wanted 50 %", before)


def test_a_last_month_with_gaps_says_how_much_of_it_was_recorded(tmp_path: Path, acme: StackSettings) -> None:
    torn = october(tmp_path, acme, (100, 340))
    complete = october(tmp_path, acme)

    assert isinstance(torn, MonthBefore)
    assert isinstance(complete, MonthBefore)
    assert torn.notes == [
        "Last month: 21 d 1 h of the 745 hours of 2026-10 were recorded. Gaps of last month are in no figure."
    ]
    assert complete.recorded_share == 1
    assert not complete.notes
    assert torn.amounts["fixed"].hours == pytest.approx(complete.amounts["fixed"].hours * 505 / 745, rel=0.01)
    month, _ = running(acme, 500)
    assert torn.notes[0] in replace(month, last=torn).notes
