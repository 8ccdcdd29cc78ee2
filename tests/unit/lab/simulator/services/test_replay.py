"""A trace on a service: what is played, what is held, and that equal seeds give equal figures."""

from datetime import datetime
from typing import Any

import pytest

from ebbtide.lab.simulator.services.backtest import Way
from ebbtide.lab.simulator.services.replay import ServiceOptions, replay_service, service_course
from ebbtide.lab.simulator.services.results import as_json
from ebbtide.lab.simulator.services.strategies import ServiceStrategy
from tests.builders.workloads.played import a_request_trace, clear_week
from tests.builders.workloads.services import services_stack

pytestmark = pytest.mark.whole

SLOW = (
    ("requestTakes: 150ms", "requestTakes: 2s"),
    ("p95: 400ms", "p95: 6s"),
    ("{ inFlight: 3, latency: 300ms }", "{ inFlight: 3 }"),
)
STACK = services_stack(*SLOW)
STEADY = a_request_trace([3000.0] * 40 + [None] * 6 + [3000.0] * 26)


def played(seed: int = 0) -> dict[str, Any]:
    options = ServiceOptions(seed=seed, rate=4.0, strategies=(ServiceStrategy.HPA_ONLY, ServiceStrategy.KEDA_DEFAULTS))
    document = as_json(replay_service(service_course(STACK, "embedder-small", STEADY, options), options))
    return {key: value for key, value in document.items() if key != "replay_seconds"}


def test_equal_seeds_give_equal_figures_and_another_gives_others() -> None:
    assert played() == played()
    assert played(1)["strategies"] != played()["strategies"]


def test_a_window_that_is_missing_takes_no_pods_away_and_loses_nothing_after_it() -> None:
    result = played()["strategies"]

    assert {name: its["lost"] for name, its in result.items()} == {"hpa-only": 0, "keda-defaults": 0}
    assert all(its["least_pods"] >= 3 for its in result.values())


def test_events_of_a_stack_file_without_open_are_played_as_they_are_and_no_open_is_found_for_it() -> None:
    """Of a rush each noon, which would be worth pods in business hours."""
    event = '{ at: "2030-06-01T12:00", for: 3h, min: 11 }'
    stack = services_stack(*SLOW, ("min: 2, max: 12", f"min: 2, max: 12, floor: calendar, events: [{event}]"))
    trace = a_request_trace(([300.0] * 66 + [3000.0] * 12 + [300.0] * 66) * 12)
    options = ServiceOptions(rate=0.4, days=1, strategies=(ServiceStrategy.HPA_ONLY, ServiceStrategy.CALENDAR_FLOOR))
    replayed = replay_service(service_course(stack, "embedder-small", trace, options), options)

    assert replayed.tested is not None
    assert replayed.tested.tuned[Way.CALENDAR].number > 2
    assert replayed.strategies["calendar-floor"].result == replayed.strategies["hpa-only"].result


def test_by_default_the_busiest_window_asks_for_four_fifths_of_max() -> None:
    course = service_course(STACK, "embedder-small", STEADY, ServiceOptions())

    assert course.service.need(course.factor * 5.0) == 10
    assert course.service.most == 12


@pytest.mark.parametrize(
    ("keys", "message"),
    [(", floor: forecast, margin: 2.5", "(the replay uses the stack file's, 2.50)"), ("", "on the forecast,")],
)
def test_a_forecast_is_played_with_the_margin_of_the_file_if_it_asks_for_one(keys: str, message: str) -> None:
    stack = services_stack(*SLOW, ("min: 2, max: 12", f"min: 2, max: 12{keys}"))
    rates = clear_week(days=12, noise=0).rates
    trace = a_request_trace([600 * (rate or 0) for rate in rates[::10]])
    options = ServiceOptions(days=1, rate=0.2, strategies=(ServiceStrategy.FORECAST_FLOOR,))
    replayed = replay_service(service_course(stack, "embedder-small", trace, options), options)

    assert message in " ".join(replayed.assumptions)
    assert list(replayed.strategies) == ["forecast-floor"]


def test_a_service_that_counts_no_requests_is_played_without_a_forecast() -> None:
    stack = services_stack(*SLOW[:2], ("{ inFlight: 3, latency: 300ms }", "{ cpu: 70% }"))
    options = ServiceOptions(rate=0.2, strategies=(ServiceStrategy.HPA_ONLY, ServiceStrategy.FORECAST_FLOOR))
    replayed = replay_service(service_course(stack, "embedder-small", STEADY, options), options)

    assert replayed.left_out == {
        "forecast-floor": "a forecast needs the metric inFlight or throughput, and the service has neither"
    }


def test_a_service_that_sleeps_answers_all_requests_while_it_is_awake_and_none_at_night() -> None:
    """From Monday's midnight on: open from 8 to 18, awake from `startsWithin` and the start of a node before."""
    stack = services_stack(
        ("requestTakes: 150ms", "requestTakes: 150ms\n    sleep: { when: outsideBusinessHours }"),
        ("{ inFlight: 3, latency: 300ms }, min: 2, max: 12", "{}, min: 2, max: 2"),
    )
    options = ServiceOptions(rate=0.5, start=datetime(2026, 11, 23), strategies=(ServiceStrategy.FIXED_REPLICAS,))  # noqa: DTZ001 - the stack's zone
    course = service_course(stack, "embedder-small", a_request_trace([300.0] * 144), options)
    replayed = replay_service(course, options)
    played = replayed.strategies["fixed-replicas"]
    hours = [sum(played.series.ready[hour * 60 : (hour + 1) * 60]) / 60 for hour in range(24)]

    assert hours[9:17] == [2.0] * 8
    assert hours[:7] == [0.0] * 7
    assert hours[19:] == [0.0] * 5
    assert played.result.lost / played.result.sent == pytest.approx(14 / 24, abs=0.02)
    assert "requests are lost meanwhile" in " ".join(replayed.assumptions)
