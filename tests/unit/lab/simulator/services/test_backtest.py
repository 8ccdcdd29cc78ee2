"""A forecast is offered where it proved itself on a week that it was not tuned on, and else refused with figures."""

from dataclasses import replace

import pytest

from ebbtide.lab.simulator.services.backtest import (
    AIMED,
    KEPT,
    Judged,
    TooLittle,
    Way,
    _Course,
    backtest,
    sliding_max,
    verdict,
)
from ebbtide.lab.simulator.services.counts import DAY_MINUTES, Minutes
from ebbtide.lab.simulator.services.served import PlayedMetric, ServiceModel
from ebbtide.lab.simulator.strategies.hpa import HpaMetric, HpaPolicy, TargetKind
from tests.builders.workloads.played import BEHAVIOR, a_service, clear_week, never, nine_to_seven, shuffled

pytestmark = pytest.mark.whole

SERVICE = a_service(most=20)


def judged(kept: float, hours: float) -> Judged:
    return Judged(number=1, kept_requests=kept, kept_minutes=kept, pod_hours=hours, relative=1)


SEEDS = (1, 2, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_with_a_clear_week_is_offered_a_forecast(seed: int) -> None:
    result = backtest(SERVICE, clear_week(days=12, seed=seed), nine_to_seven(SERVICE), never, "made-up")

    assert result.offered, result.reason
    assert result.tuned[Way.FORECAST].kept_requests >= KEPT
    for rival in result.equal.values():
        assert rival is None or rival.pod_hours > result.tuned[Way.FORECAST].pod_hours
    assert result.tuned[Way.REACTIVE].kept_requests < 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_history_shuffled_is_refused_one_with_the_figures(seed: int) -> None:
    result = backtest(SERVICE, shuffled(clear_week(days=12, seed=seed), seed), nine_to_seven(SERVICE), never, "made-up")

    assert not result.offered
    assert result.reason.startswith("Refused: the forecast's floor keeps 9")


def test_a_history_with_holes_is_judged_on_what_is_known() -> None:
    rates = clear_week(days=12).rates
    rates[2 * DAY_MINUTES : 3 * DAY_MINUTES] = [None] * DAY_MINUTES
    rates[9 * DAY_MINUTES + 500 : 9 * DAY_MINUTES + 900] = [None] * 400

    assert backtest(SERVICE, Minutes(rates), nine_to_seven(SERVICE), never, "made-up").offered


def test_too_short_a_history_is_said_in_one_line() -> None:
    with pytest.raises(TooLittle) as error:
        backtest(SERVICE, clear_week(days=1), nine_to_seven(SERVICE), never, "monday")

    assert "trace monday: wanted at least 12 days" in str(error.value)
    assert "found 1 (" in str(error.value)


@pytest.mark.parametrize(
    ("forecast", "calendar", "headroom", "offered"),
    [
        (judged(0.996, 100), judged(0.999, 120), judged(0.995, 110), True),
        (judged(0.994, 10), None, None, False),
        (judged(0.996, 100), judged(0.995, 100.5), None, False),
        (judged(0.996, 100), None, judged(0.995, 99), False),
        (judged(0.996, 100), None, None, True),
    ],
)
def test_an_offer_keeps_enough_and_costs_less_than_each_rival_that_does(
    forecast: Judged, calendar: Judged | None, headroom: Judged | None, offered: bool
) -> None:
    result, reason = verdict(forecast, {Way.CALENDAR: calendar, Way.HEADROOM: headroom})

    assert result is offered
    assert reason.startswith("Offered" if offered else "Refused")


@pytest.mark.parametrize("way", [Way.FORECAST, Way.CALENDAR, Way.HEADROOM])
def test_a_higher_floor_never_has_more_requests_beyond_capacity_and_never_fewer_pods(way: Way) -> None:
    course = _Course(SERVICE, shuffled(clear_week(days=5)), nine_to_seven(SERVICE), never)
    span = range(3 * DAY_MINUTES, 5 * DAY_MINUTES)
    values = [course.judged(way, number, span) for number in course.numbers(way)[:20:3]]

    assert [it.kept_requests for it in values] == sorted(it.kept_requests for it in values)
    assert [it.pod_hours for it in values] == sorted(it.pod_hours for it in values)


@pytest.mark.parametrize("way", [Way.FORECAST, Way.CALENDAR, Way.HEADROOM])
@pytest.mark.parametrize("clear", [True, False])
def test_a_number_is_the_smallest_that_keeps_enough_or_as_much_as_any(way: Way, *, clear: bool) -> None:
    history = clear_week(days=4)
    course = _Course(SERVICE, history if clear else shuffled(history), nine_to_seven(SERVICE), never)
    span = range(3 * DAY_MINUTES, 4 * DAY_MINUTES)
    kept = {number: course.judged(way, number, span).kept_requests for number in course.numbers(way)}
    goal = min(AIMED, max(kept.values()))

    assert course.tuned(way, span) == next(number for number, its in kept.items() if its >= goal)


@pytest.mark.parametrize("way", list(Way))
def test_no_way_looks_ahead(way: Way) -> None:
    """Pods are there a lead after they are asked for, by what was counted until then."""
    now, lead = 3 * DAY_MINUTES + 470, 3
    history = clear_week(days=4)
    other = Minutes([*history.rates[:now], *(50.0 for _ in history.rates[now:])])
    one, two = (_Course(SERVICE, it, nine_to_seven(SERVICE), never) for it in (history, other))

    for minute in range(now - 30, now + lead):
        assert one.pods(way, 1.0, minute) == two.pods(way, 1.0, minute)


def with_steps(seconds: float) -> ServiceModel:
    up = replace(BEHAVIOR.up, policies=(HpaPolicy(seconds, percent=50), HpaPolicy(seconds, pods=1)))
    return replace(SERVICE, behavior=replace(BEHAVIOR, up=up))


def test_a_forecast_rises_in_the_steps_of_its_service_and_a_calendars_floor_jumps() -> None:
    """Each is there for the rush of 8 o'clock by steps of 15 s, or of ten minutes."""
    span = range(4 * DAY_MINUTES, 5 * DAY_MINUTES)
    numbers = {Way.FORECAST: 1.5, Way.CALENDAR: 12}

    def kept(way: Way, seconds: float) -> float:
        course = _Course(with_steps(seconds), clear_week(days=5), eight_to_seven, never)
        return course.judged(way, numbers[way], span).kept_requests

    assert kept(Way.FORECAST, 600) < kept(Way.FORECAST, 15)
    assert kept(Way.CALENDAR, 600) > kept(Way.FORECAST, 600)


def eight_to_seven(minute: int, pods: int) -> int:
    return pods if 8 * 60 <= minute % DAY_MINUTES < 21 * 60 else SERVICE.least


def test_a_service_that_counts_no_requests_is_refused_a_forecast() -> None:
    by_cpu = replace(SERVICE, metrics=(PlayedMetric("cpu", HpaMetric(TargetKind.USE, 70)),))
    result = backtest(by_cpu, clear_week(days=12), nine_to_seven(by_cpu), never, "made-up")

    assert not result.offered
    assert result.reason == "Refused: a forecast needs the metric inFlight or throughput, and the service has neither"


def test_days_like_today_are_what_a_quiet_weekend_is_forecast_by() -> None:
    """What a forecast costs on a Saturday that is like the one before: it knows of it with the calendar alone."""

    def quiet(minute: int) -> bool:
        return minute // DAY_MINUTES % 7 >= 5

    rates = [2.0 if quiet(minute) else rate for minute, rate in enumerate(clear_week(days=13).rates)]
    saturday = range(12 * DAY_MINUTES, 13 * DAY_MINUTES)
    with_calendar, without = (
        _Course(SERVICE, Minutes(rates), nine_to_seven(SERVICE), closed).judged(Way.FORECAST, 1.5, saturday)
        for closed in (quiet, never)
    )

    assert with_calendar.pod_hours < 0.8 * without.pod_hours
    assert with_calendar.kept_requests >= KEPT


def test_the_highest_of_the_last_few() -> None:
    assert sliding_max([1, 5, 2, 2, 3, 0], 3) == [1, 5, 5, 5, 3, 3]
