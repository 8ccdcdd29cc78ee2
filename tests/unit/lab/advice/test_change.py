"""Services replayed on both sides of a change, with the same load and the strategies of the stack files."""

from functools import partial

import pytest

from ebbtide.lab.advice.change import replayable, simulated_services
from ebbtide.lab.simulator.services.backtest import FEWEST_WHOLE_DAYS
from ebbtide.preview.document import SimulatedService, SimulatedServices, Unreplayable
from ebbtide.preview.render.simulation import over, services_notes, services_sheet, simulated_total
from tests.builders.preview import served
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.services import services_stack

DAY = a_request_trace([90.0] * 48 + [500.0] * 36 + [90.0] * 60)
SLOW = (
    ("requestTakes: 150ms", "requestTakes: 20s"),
    ("p95: 400ms", "p95: 30s"),
    ("{ inFlight: 3, latency: 300ms }", "{ inFlight: 3 }"),
)
PLAIN = services_stack(*SLOW)
changed = partial(services_stack, *SLOW)


def line(found: SimulatedServices, name: str = "embedder-small") -> SimulatedService:
    return next(it for it in found.services if it.name == name)


def test_a_floor_is_played_against_the_autoscaler_alone() -> None:
    found = line(
        simulated_services(PLAIN, changed(("min: 2, max: 12", "min: 2, max: 12, floor: calendar, open: 9")), DAY)
    )

    assert found.strategy == ("hpa-only", "calendar-floor")
    old, new = found.pod_hours
    assert old is not None
    assert new is not None
    assert new > 1.2 * old
    assert found.p95_s[0] is not None
    assert found.p95_s[1] is not None
    assert found.p95_s[1] < found.p95_s[0]


def test_a_planned_event_is_played_too() -> None:
    event = '{ at: "2026-06-01T12:00", for: 3h, min: 11 }'
    found = line(
        simulated_services(
            PLAIN, changed(("min: 2, max: 12", f"min: 2, max: 12, floor: calendar, events: [{event}]")), DAY
        )
    )

    assert found.strategy[1] == "calendar-floor"
    assert found.pod_hours[0] is not None
    assert found.pod_hours[1] is not None
    assert found.pod_hours[1] > found.pod_hours[0] + 3


def test_both_sides_get_the_same_requests_although_max_changes() -> None:
    """Without a rate the busiest window would need 80 % of max, which is six times as much."""
    found = line(simulated_services(PLAIN, changed(("min: 2, max: 12", "min: 2, max: 72")), DAY))

    old, new = found.pod_hours
    assert old is not None
    assert new == pytest.approx(old, rel=0.2)


def test_what_does_not_change_has_the_same_figures() -> None:
    found = simulated_services(PLAIN, changed(("cpu: 1\n", "cpu: 2\n")), DAY)

    assert line(found).pod_hours[0] == line(found).pod_hours[1]
    assert services_sheet(found).rows[0][1:3] == ("hpa-only", f"{line(found).pod_hours[1]:,.0f}")


def test_a_service_that_cannot_be_played_says_why_and_the_others_are_shown() -> None:
    found = simulated_services(PLAIN, PLAIN, DAY)
    ranker = line(found, "ranker")

    assert ranker.pod_hours == (None, None)
    assert "before the change: acme, services.ranker: wanted requestTakes" in ranker.note
    assert ranker.note in services_notes(found)[-1]
    assert simulated_total(found) == "3 services"


def test_a_forecast_without_history_is_told() -> None:
    short = changed(
        ("min: 2, max: 12", "min: 2, max: 12, floor: forecast"),
        ("ebbtide:monitoring: { prometheus: bundled }", "ebbtide:monitoring: { prometheus: bundled, retention: 30d }"),
    )

    with pytest.raises(Unreplayable, match=f"wanted at least {FEWEST_WHOLE_DAYS} days"):
        simulated_services(None, short, DAY)


def test_without_a_side_before_only_the_other_is_shown() -> None:
    found = simulated_services(None, PLAIN, DAY)
    row = next(row for row in services_sheet(found).rows if row[0] == "embedder-small")

    assert line(found).pod_hours[0] is None
    assert all("→" not in str(cell) for cell in row[1:3])


@pytest.mark.parametrize(
    ("days", "trace_days", "said"), [(7, 14.0, "7 of 14 days of x"), (14, 14.0, "14 days of x"), (1, 1.0, "1 day of x")]
)
def test_how_much_of_the_trace_is_played_is_said(days: float, trace_days: float, said: str) -> None:
    assert over(SimulatedServices(trace="x", days=days, trace_days=trace_days, services=())) == said


def test_a_row_shows_both_sides_of_each_figure() -> None:
    found = SimulatedServices(trace="x", days=1, trace_days=1, services=(served(),))
    sheet = services_sheet(found)
    (row,) = sheet.rows

    assert row[2:] == ("351 → 381", "77", "200 ms → 1.25 s", "4.38%", "1,200")
    assert len(row) == len(sheet.columns)
    assert simulated_total(found) == "351 → 381 pod-hours"


def test_only_services_that_say_what_a_request_takes_are_for_requests() -> None:
    assert replayable(PLAIN)
    assert not replayable(services_stack(("    requestTakes: 150ms\n", "")))
