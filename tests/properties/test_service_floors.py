"""Laws of a service's floor, across clock changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.workloads.floors.calendar import floor_at
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import FloorPolicy, PlannedEvent, PlannedNight
from tests.counts import examples
from tests.properties.test_mornings import CHANGES


@st.composite
def calendars(draw: st.DrawFn) -> tuple[datetime, FloorPolicy, BusinessHours]:
    zone, noon = draw(st.sampled_from(CHANGES))
    start, length = draw(st.integers(0, 1439)), draw(st.integers(30, 1440))
    days = draw(st.sets(st.integers(0, 6)))
    hours = BusinessHours(timezone=zone, week=tuple(WeeklyInterval(day, start, start + length) for day in days))
    events = tuple(
        PlannedEvent(
            day=noon.date() + timedelta(days=draw(st.integers(-2, 2))),
            at=draw(st.integers(0, 1439)),
            lasting=timedelta(minutes=draw(st.integers(1, 3000))),
            pods=draw(st.integers(1, 40)),
        )
        for _ in range(draw(st.integers(0, 3)))
    )
    policy = FloorPolicy(
        name="embedder",
        namespace="ebbtide",
        keda=draw(st.booleans()),
        least=draw(st.integers(0, 5)),
        most=draw(st.integers(6, 12)),
        lead=timedelta(minutes=draw(st.sampled_from([0, 7, 700]))),
        open=draw(st.none() | st.integers(1, 15)),
        events=events,
        overnight=tuple(
            PlannedNight(
                at=draw(st.integers(0, 1439)),
                lasting=timedelta(minutes=draw(st.integers(1, 1440))),
                pods=draw(st.integers(1, 15)),
            )
            for _ in range(draw(st.integers(0, 2)))
        ),
    )
    return noon + timedelta(minutes=draw(st.integers(-3000, 3000))), policy, hours


@given(calendars())
@settings(max_examples=examples(150), deadline=None)
def test_a_floor_lies_between_min_and_max(case: tuple[datetime, FloorPolicy, BusinessHours]) -> None:
    now, policy, hours = case

    assert policy.least <= floor_at(now, policy, hours).pods <= policy.most


@given(calendars(), st.integers(0, 999))
@settings(max_examples=examples(150), deadline=None)
def test_a_floor_holds_until_it_says_and_is_another_then(
    case: tuple[datetime, FloorPolicy, BusinessHours], part: int
) -> None:
    now, policy, hours = case
    said = floor_at(now, policy, hours)
    until = said.until or now + timedelta(days=3)
    within, then = (floor_at(when, policy, hours) for when in (now + (until - now) * part // 1000, until))

    assert (within.pods, within.reason) == (said.pods, said.reason)
    assert said.until is None or (then.pods, then.reason) != (said.pods, said.reason)


@given(calendars())
@settings(max_examples=examples(150), deadline=None)
def test_one_more_event_never_lowers_a_floor(case: tuple[datetime, FloorPolicy, BusinessHours]) -> None:
    now, policy, hours = case
    at = now.astimezone(UTC)
    more = PlannedEvent(day=at.date(), at=at.hour * 60, lasting=timedelta(hours=30), pods=7)
    higher = floor_at(now, replace(policy, events=(*policy.events, more)), hours)

    assert higher.pods >= floor_at(now, policy, hours).pods
