from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.report.charts.scales import ChartStep, column_slices, thin

END = 1000.0

SERIES = st.lists(
    st.tuples(st.floats(0, END, exclude_max=True), st.integers(0, 50)),
    min_size=1,
    max_size=200,
    unique_by=lambda sample: sample[0],
).map(sorted)


def drawn_at(steps: Sequence[ChartStep], column: float) -> float:
    return steps[bisect_right(steps, column, key=lambda step: step.column) - 1].value


@given(samples=SERIES, columns=st.integers(1, 40))
def test_every_column_shows_its_smallest_and_its_largest_sample(samples: list[tuple[float, int]], columns: int) -> None:
    at, values = [instant for instant, _ in samples], [value for _, value in samples]
    steps = thin(at, values, end=END, columns=columns)
    for column, (begin, stop) in enumerate(column_slices(at, end=END, columns=columns)):
        if begin == stop:
            continue
        drawn = {drawn_at(steps, column)} | {step.value for step in steps if column <= step.column < column + 1}
        assert {min(values[begin:stop]), max(values[begin:stop])} <= drawn <= set(values[begin:stop])


@given(samples=SERIES, columns=st.integers(1, 40))
def test_every_column_is_left_with_the_value_that_holds_there(samples: list[tuple[float, int]], columns: int) -> None:
    at, values = [instant for instant, _ in samples], [value for _, value in samples]
    steps = thin(at, values, end=END, columns=columns)
    for column, (_, stop) in enumerate(column_slices(at, end=END, columns=columns)):
        assert drawn_at(steps, column + 0.999) == (values[stop - 1] if stop else 0)


@given(samples=SERIES, columns=st.integers(1, 40))
def test_the_steps_are_few_and_move_to_the_right(samples: list[tuple[float, int]], columns: int) -> None:
    steps = thin([at for at, _ in samples], [value for _, value in samples], end=END, columns=columns)

    assert steps[0].column == 0
    assert len(steps) <= 3 * columns + 1
    assert all(left.column < right.column and left.value != right.value for left, right in pairwise(steps))


def test_a_spike_among_thousands_of_samples_stays_and_is_wide_enough_to_see() -> None:
    at = [END * place / 5000 for place in range(5000)]
    values = [9 if place == 2503 else place % 2 for place in range(5000)]

    steps = thin(at, values, end=END, columns=100)

    spike = next(place for place, step in enumerate(steps) if step.value == 9)
    assert steps[spike + 1].column - steps[spike].column == pytest.approx(1 / 3)


def test_samples_past_the_end_are_left_out() -> None:
    assert thin([0.0, END, END + 5], [2, 7, 8], end=END, columns=10) == [ChartStep(0.0, 2)]


def test_a_series_without_samples_is_flat() -> None:
    assert thin([], [], end=END, columns=10) == [ChartStep(0.0, 0)]
