"""A month that has not ended, beside the same month when it has."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.lab.ledger.month import Amount, Month
from ebbtide.lab.ledger.running import Running, amounts_of, running_of
from ebbtide.settings import StackSettings
from ebbtide.text.counts import DASH
from tests.builders.monitoring.month import FIXED, KnownMonth, stack
from tests.builders.settings import loaded

OCTOBER = Month(year=2026, month=10, zone="Europe/Berlin")  # its last Sunday has 25 hours
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
    return running_of(known.recording(), acme, OCTOBER, until, {"fixed": Amount(2976, 1200)}), known


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
    assert "spot" not in amounts_of(month.paid.rows)
    assert month.until.astimezone(UTC) == datetime(2026, 10, 13, 10, tzinfo=UTC)
