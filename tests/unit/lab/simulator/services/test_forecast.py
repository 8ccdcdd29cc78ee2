"""What a forecast says, as far as its history goes, and that nothing which is counted wrongly moves a floor too far."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, Minutes, minutes_of
from ebbtide.lab.simulator.services.floors import ForecastTrigger
from ebbtide.lab.simulator.services.forecast import Forecast, pods_of
from ebbtide.lab.simulator.services.run import ServiceSight
from ebbtide.lab.simulator.services.strategies import Autoscaled, with_forecast
from ebbtide.lab.simulator.strategies.hpa import Hpa
from tests.builders.workloads.played import a_request_trace, a_service, clear_week, never
from tests.counts import examples

WEEK = clear_week(days=8, noise=0.0)
RUSH = 7 * DAY_MINUTES + 8 * 60  # at which load is seven times what it was, on the eighth day
AHEAD = timedelta(minutes=4)


def told(rates: Sequence[float | None], at: int) -> float | None:
    return Forecast(Minutes(rates[:at]), 0.5, AHEAD).at(at)


def test_a_rush_that_history_knows_is_seen_a_lead_ahead() -> None:
    early, in_time = told(WEEK.rates, RUSH - 15), told(WEEK.rates, RUSH - 1)

    assert early is not None
    assert in_time is not None
    assert early < 3
    assert in_time > 9


@pytest.mark.parametrize(("times", "forecast"), [(1.5, 1.4), (0.5, 0.6), (10, 2), (0, 0.17)])
def test_a_rush_of_a_day_that_is_busier_is_forecast_busier_and_at_most_doubled(times: float, forecast: float) -> None:
    today = [times * (rate or 0) for rate in WEEK.rates[7 * DAY_MINUTES : RUSH]]
    usual, result = told(WEEK.rates, RUSH), told([*WEEK.rates[: 7 * DAY_MINUTES], *today], RUSH)

    assert usual is not None
    assert result == pytest.approx(forecast * usual, rel=0.1)


def test_a_growth_that_history_does_not_know_is_carried_over_the_lead() -> None:
    rising = [4.0] * (7 * DAY_MINUTES) + [4 + minute / 10 for minute in range(60)]
    result = told(rising, len(rising))

    assert result == pytest.approx(4 + 63.5 / 10, rel=0.01)


def test_less_than_three_days_are_no_history() -> None:
    assert told(WEEK.rates, 3 * DAY_MINUTES - 30) is None
    assert told(WEEK.rates, 3 * DAY_MINUTES) is not None


def test_of_three_days_one_that_was_counted_twice_moves_nothing() -> None:
    begin, until = 5 * DAY_MINUTES, 6 * DAY_MINUTES
    lie = [2 * (rate or 0) if begin <= at < until else rate for at, rate in enumerate(WEEK.rates)]

    later = RUSH - 4 * DAY_MINUTES
    result, usual = told(lie[4 * DAY_MINUTES :], later), told(WEEK.rates[4 * DAY_MINUTES :], later)

    assert usual is not None
    assert result == pytest.approx(usual)


def test_a_day_that_is_missing_leaves_the_others() -> None:
    holes: list[float | None] = [*WEEK.rates]
    holes[3 * DAY_MINUTES : 4 * DAY_MINUTES] = [None] * DAY_MINUTES

    assert told(holes, RUSH + 1) == pytest.approx(told(WEEK.rates, RUSH + 1) or 0, rel=0.01)


def test_nothing_after_now_is_looked_at() -> None:
    future = [*WEEK.rates[:RUSH], *(1000.0 for _ in range(600))]

    assert Forecast(Minutes(future), 0.5, AHEAD).at(RUSH) == told(WEEK.rates, RUSH)


def test_pods_are_the_margins_share_more_and_never_above_max() -> None:
    def pods(rate: float | None) -> int:
        return pods_of(rate, margin=1.2, pod_rate=2.0, most=9)

    assert [pods(rate) for rate in (None, -3.0, 8.0, 1e9, float("inf"), float("nan"))] == [0, 0, 5, 9, 0, 0]


Lie: TypeAlias = Callable[[list[float], Random], Sequence[float | None]]

LIES: dict[str, Lie] = {
    "a day missing": lambda rates, _: [None if 3000 < place < 4440 else rate for place, rate in enumerate(rates)],
    "doubled counters": lambda rates, _: [2 * rate for rate in rates],
    "a counter reset": lambda rates, chance: [-50 * rate if chance.random() < 0.01 else rate for rate in rates],
    "a clock that jumps": lambda rates, _: rates[400:3000] + rates[:400] + rates[3000:],
    "noise": lambda rates, chance: [rate * chance.choice([0, 1, 1e6]) for rate in rates],
}


@pytest.mark.parametrize("lie", LIES)
def test_a_forecast_fed_with_lies_keeps_the_floor_between_the_calendar_and_max(lie: str) -> None:
    service = a_service(least=2, most=15)
    history = Minutes(LIES[lie]([rate or 0.0 for rate in WEEK.rates], Random(1)))
    begin = 6 * DAY_MINUTES
    forecast = ForecastTrigger(service, history, never, begin * 60.0, 1.3)
    way = Autoscaled(service, Hpa(with_forecast(service)), 3, lambda _now, _sent: 3, forecast)
    sent: list[int] = []
    pods: list[int] = [3]
    for minute in range(begin, len(WEEK.rates) - 400, 7):
        sent += [round(60 * max(0, rate or 0)) for rate in history.rates[len(sent) + begin : minute]]
        pods.append(way.decide(minute * 60.0, ServiceSight(pods[-1], pods[-1], [0.0], sent, minute * 60.0)))

    assert min(pods) == 3
    assert 3 < max(pods) <= 15, "nothing else asks for more than the calendar"


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.none() | st.floats(-1e3, 1e6), min_size=10, max_size=60), st.integers(1, 20))
def test_whatever_was_counted_a_forecast_keeps_its_limits(rates: list[float | None], most: int) -> None:
    minutes = Minutes([rate for rate in rates for _ in range(90)])
    pods = Forecast(minutes, 1.4, AHEAD).pods(len(minutes.rates), 1.5, most)

    assert 0 <= pods <= most


def test_minutes_are_interpolated_between_windows_and_a_hole_stays_one() -> None:
    rates = minutes_of(a_request_trace([600, 1200, None, 600]), 0.5).rates

    assert len(rates) == 40
    assert rates[20:30] == [None] * 10
    assert rates[30:40] == [0.5] * 10
    assert rates[4:6] == pytest.approx([0.5, 0.525], abs=0.03)
    assert rates[9] == pytest.approx(0.725, abs=0.01)
