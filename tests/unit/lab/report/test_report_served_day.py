"""Which day of a replayed service is drawn, and that its series are those of the table."""

import re
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.charts.scales import Box
from ebbtide.lab.report.charts.services import (
    MINUTE_S,
    STEP_S,
    NoSuchDay,
    ServedDay,
    days_of,
    latency_axis,
    served_day,
    service_day_chart,
)
from ebbtide.lab.report.pages.services import day_hover, day_sheet
from ebbtide.lab.simulator.services.results import STEP_MINUTES, ServiceReplay
from tests.builders.workloads.served import a_served_replay
from tests.unit.lab.report.looking import paths, words_in


@cache
def replay() -> ServiceReplay:
    return a_served_replay()


@cache
def busiest() -> ServedDay:
    return served_day(replay())


def at(start: str) -> ServiceReplay:
    """The same, begun at another local time."""
    return replace(replay(), start=datetime.fromisoformat(start).replace(tzinfo=replay().start.tzinfo))


def chart(day: ServedDay | None = None) -> str:
    view = ChartView(ident="day", width=1076)
    return draw(service_day_chart(day or busiest(), view), view)


def test_the_busiest_day_is_drawn_unless_another_is_asked_for() -> None:
    assert [day.date for day in days_of(replay().start, 0, 3 * 86_400)] == ["1 Jun", "2 Jun", "3 Jun"]
    assert busiest().day.date == "2 Jun"
    assert served_day(replay(), 3).day.date == "3 Jun"


def test_a_part_of_a_day_is_not_the_busiest_although_it_has_the_most() -> None:
    """From noon on: the first half day has most of the requests."""
    first = replay().strategies["hpa-only"]
    sent = [50 * count if minute < 720 else count for minute, count in enumerate(first.series.sent)]
    rushed = replace(first, series=replace(first.series, sent=sent))
    halves = replace(at("2026-06-01T12:00"), strategies={"hpa-only": rushed})

    assert served_day(halves).day.date == "3 Jun"
    assert served_day(halves, 1).horizon == 12 * 3600
    assert sum(rate or 0 for rate in served_day(halves, 1).rate) > sum(rate or 0 for rate in served_day(halves).rate)


@pytest.mark.parametrize("number", [0, 4])
def test_a_day_that_was_not_played_is_one_line(number: int) -> None:
    with pytest.raises(NoSuchDay, match=rf"^--day: wanted 1 to 3, .* found {number} \(for example 1\)$"):
        served_day(replay(), number)


def test_the_days_together_are_the_table() -> None:
    days = [served_day(replay(), number) for number in (1, 2, 3)]

    for name, played in replay().strategies.items():
        pods = [day.strategies[name] for day in days]
        assert sum(sum(day.pod_hours) for day in pods) == pytest.approx(played.result.pod_hours)
        assert sum(sum(day.unanswered) for day in pods) == played.result.lost + played.result.turned_away
        assert max(max(day.asked) for day in pods) <= played.result.most_pods
    sent = sum(rate * STEP_S for day in days for rate in day.rate if rate is not None)
    assert sent == pytest.approx(replay().strategies["hpa-only"].result.sent)


def test_pods_are_by_the_minute_and_latency_by_five() -> None:
    for pods in busiest().strategies.values():
        assert len(pods.floor) == len(pods.asked) == len(pods.ready) == len(pods.pod_hours) == 24 * 60
        assert len(pods.p95_s) == len(pods.unanswered) == len(busiest().rate) == 24 * 60 / STEP_MINUTES


def test_the_floor_is_the_calendars_in_business_hours_and_min_else() -> None:
    """From half past seven on, since a node and a pod take their time."""
    (opens, closes) = busiest().open_spans[0]
    floor = busiest().strategies["calendar-floor"].floor
    minutes = range(len(floor))

    assert {floor[minute] for minute in minutes if opens <= minute * MINUTE_S < closes - MINUTE_S} == {6}
    assert {floor[minute] for minute in minutes if minute * MINUTE_S < opens - 1800 or minute * MINUTE_S > closes} == {
        2
    }
    assert set(busiest().strategies["hpa-only"].floor) == {2}


def test_where_the_trace_says_nothing_nothing_is_drawn() -> None:
    last = served_day(replay(), 3)
    rate_known = [rate is not None for rate in last.rate]

    assert last.gaps == ((12 * 3600.0, 18 * 3600.0),)
    assert rate_known == [True] * 144 + [False] * 72 + [True] * 72
    (load,) = paths(chart(last), "f-g1")
    (unbroken,) = paths(chart(), "f-g1")
    assert (load.count("M"), unbroken.count("M")) == (2, 1)


def test_a_day_on_which_clocks_change_is_as_long_as_it_was() -> None:
    spring = at("2026-03-28T00:00")

    assert [served_day(spring, number).horizon / 3600 for number in (1, 2)] == [24, 23]


def test_each_strategy_has_its_panels_on_one_scale() -> None:
    texts = [word.text for word in words_in(chart())]
    units = [f"{name}: {what}" for name in busiest().strategies for what in ("pods", "p95 latency")]

    assert [text for text in texts if ": " in text] == units
    assert texts.count("SLO 30 s") == 3
    assert {"00:00", "12:00"} <= set(texts)


def test_more_pods_are_drawn_higher_on_one_scale() -> None:
    few, many = (replace(busiest().strategies["hpa-only"], ready=[pods] * 1440) for pods in (2, 10))
    day = replace(busiest(), strategies={"few": few, "many": many})
    shown = [re.match(r"M\S+ (\S+)V([\d.]+)H", path) for path in paths(chart(day), "f-g5")]
    heights = [float(match[1]) - float(match[2]) for match in shown if match is not None]

    assert heights[0] == pytest.approx(heights[1] / 5, abs=0.5)
    assert heights[0] > 5


def test_a_lost_request_is_marked_and_where_none_is_lost_nothing_is() -> None:
    pods = busiest().strategies["hpa-only"]
    nothing, three = (replace(pods, unanswered=[lost, *([0] * 287)]) for lost in (0, 3))

    assert paths(chart(replace(busiest(), strategies={"calm": nothing})), "f-g3") == []
    (marks,) = paths(chart(replace(busiest(), strategies={"late": three})), "f-g3")
    assert marks.count("M") == 1
    assert "3 lost or turned away" in chart(replace(busiest(), strategies={"late": three}))


@given(
    latencies=st.lists(st.one_of(st.none(), st.floats(0.0011, 100_000)), min_size=1, max_size=20),
    slo=st.floats(0.0011, 100_000),
)
def test_every_latency_and_the_slo_have_room_on_the_axis_and_labels_are_few(
    latencies: list[float | None], slo: float
) -> None:
    pods = replace(busiest().strategies["hpa-only"], p95_s=latencies)
    scale = latency_axis(replace(busiest(), slo_s=slo, strategies={"one": pods}), "one")
    box = Box(left=0, top=0, width=100, height=100)
    drawn = sorted([slo, *(value for value in latencies if value)])
    heights = [scale.y(value, box) for value in drawn]

    assert scale.low == scale.ticks[0].at <= drawn[0] * 1.01
    assert max(drawn[-1], 1.2 * slo) <= scale.high * 1.01, "room for the word beside the SLO's line"
    assert 2 <= len(scale.ticks) <= 6
    assert all(lower >= higher - 1e-9 for lower, higher in pairwise(heights))


def test_the_hours_of_the_table_are_the_day() -> None:
    sheet = day_sheet(busiest())
    at = [column.name for column in sheet.columns].index("hpa-only: pod-hours")
    *hours, total = sheet.body

    assert [hour[0] for hour in hours] == [f"{hour:02}:00" for hour in range(24)]
    assert sum(float(hour[at]) for hour in hours) == pytest.approx(float(total[at]), abs=1.5)


def test_the_crosshair_says_what_is_drawn_at_each_five_minutes() -> None:
    shown = day_hover(busiest())
    names = [row.name for row in shown.rows]
    ready = busiest().strategies["hpa-only"].ready

    assert names[:4] == ["requests a second", "hpa-only: floor", "hpa-only: pods ready", "hpa-only: p95"]
    assert shown.labels[144] == "Tue 2 Jun 12:00"
    assert str(shown.rows[2].values[144]).startswith(f"{ready[144 * 5 + 4]} of ")
    assert all(len(row.values) == len(shown.places) == 288 for row in shown.rows)


def test_a_start_between_two_steps_moves_the_day_by_less_than_one() -> None:
    """The trace begins at seven past: steps begin at seven past too."""
    shown = served_day(at("2026-06-01T00:07"))

    assert f"{shown.start:%d %H:%M}" == "02 00:02"
    assert shown.horizon == 24 * 3600
