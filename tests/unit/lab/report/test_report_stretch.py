from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.scales import DAY, ChartWindow, Day, amounts_of, busiest_day, cut, peaks_of
from ebbtide.lab.simulator.results import ClusterSeries
from ebbtide.vocabulary.windows import zone_of

START = datetime(2026, 3, 2, tzinfo=zone_of("America/New_York"))  # a Monday
HORIZON = 5 * DAY

SAMPLES = st.lists(
    st.tuples(st.integers(1, int(HORIZON) - 1), st.integers(0, 50)), max_size=60, unique_by=lambda sample: sample[0]
).map(lambda samples: [(0, 7), *sorted(samples)])
CUTS = st.lists(st.integers(1, int(HORIZON) - 1), max_size=8, unique=True).map(
    lambda cuts: list(pairwise([0.0, *sorted(map(float, cuts)), HORIZON]))
)


def a_stretch(
    counts: Sequence[tuple[float, int]], *, open_spans: tuple[tuple[float, float], ...] = (), start: datetime = START
) -> ChartWindow:
    values = tuple(count for _, count in counts)
    series = ClusterSeries(at=tuple(at for at, _ in counts), nodes={"flexible": values}, waiting=values, running=values)
    return ChartWindow(start=start, horizon=HORIZON, open_spans=open_spans, series=series)


def held(samples: Sequence[tuple[float, int]], instant: float) -> int:
    return [value for at, value in samples if at <= instant][-1]


@given(samples=SAMPLES, spans=CUTS)
def test_amounts_of_neighbouring_spans_add_up_to_the_whole(
    samples: list[tuple[float, int]], spans: list[tuple[float, float]]
) -> None:
    at, values = [at for at, _ in samples], [value for _, value in samples]
    total = sum(value * (until - since) for value, (since, until) in zip(values, pairwise([*at, HORIZON]), strict=True))

    assert sum(amounts_of(at, values, spans)) == pytest.approx(total)


@given(samples=SAMPLES, spans=CUTS)
def test_a_peak_is_the_largest_value_that_holds_in_its_span(
    samples: list[tuple[float, int]], spans: list[tuple[float, float]]
) -> None:
    at, values = [at for at, _ in samples], [value for _, value in samples]

    for (begin, end), peak in zip(spans, peaks_of(at, values, spans), strict=True):
        inside = [value for instant, value in samples if begin <= instant < end]
        assert peak == max([held(samples, begin), *inside])


@given(samples=SAMPLES, begin=st.integers(0, int(HORIZON) - 2), length=st.integers(1, int(DAY)))
def test_a_cut_holds_the_same_values_at_the_same_instants(
    samples: list[tuple[float, int]], begin: int, length: int
) -> None:
    end = min(HORIZON, begin + length)
    part = cut(a_stretch(samples), Day(begin, end, "", ""))
    again = list(zip(part.series.at, part.series.nodes["flexible"], strict=True))

    assert part.horizon == end - begin
    for instant in (begin, (begin + end) / 2, end - 0.5):
        assert held(again, instant - begin) == held(samples, instant)


def test_a_cut_starts_on_the_customers_clock_and_keeps_its_business_hours() -> None:
    part = cut(
        a_stretch([(0, 1)], open_spans=((8 * 3600, 19 * 3600), (DAY + 8 * 3600, DAY + 19 * 3600))),
        Day(DAY, 2 * DAY, "", ""),
    )

    assert part.start == START.astimezone(UTC) + timedelta(days=1)
    assert part.start.tzinfo is START.tzinfo
    assert part.open_spans == ((8 * 3600, 19 * 3600),)


def test_the_day_to_look_at_is_the_working_day_with_the_most_nodes() -> None:
    busy_sunday = [(0.0, 2), (DAY + 3600, 9), (DAY + 7200, 2), (4 * DAY + 60, 30), (4 * DAY + 120, 2)]
    working = tuple((day * DAY + 8 * 3600, day * DAY + 19 * 3600) for day in range(4))

    day = busiest_day(a_stretch(busy_sunday, open_spans=working))

    assert day.date == "3 Mar"


def test_half_a_day_is_drawn_only_without_a_full_one() -> None:
    late = START.replace(hour=14)
    stretch = a_stretch([(0.0, 30), (3600.0, 2)], start=late)
    short = ChartWindow(start=late, horizon=3600.0, open_spans=(), series=stretch.series)

    assert [day.date for day in (busiest_day(stretch), busiest_day(short))] == ["3 Mar", "2 Mar"]
