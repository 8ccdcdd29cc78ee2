"""What a load needs at once, and what it costs on nodes of one size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.demand import NODE_OVERHEAD_S, Span, peak_at_once, spread_node_hours

HOUR = 3600.0

spans = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 30)).map(lambda two: (two[0] * HOUR, (two[0] + two[1]) * HOUR)),
    min_size=1,
    max_size=30,
).map(sorted)


def test_a_job_that_starts_as_another_ends_does_not_overlap_it() -> None:
    assert peak_at_once([(0.0, 10.0), (10.0, 20.0), (5.0, 12.0)]) == 2


@given(spans)
def test_the_peak_is_the_most_that_run_at_any_start(some: list[Span]) -> None:
    assert peak_at_once(some) == max(sum(start <= at < end for start, end in some) for at, _ in some)


def test_one_job_is_paid_from_the_launch_of_its_node_until_the_node_may_go() -> None:
    assert spread_node_hours([(0.0, HOUR)], 4) == pytest.approx(1 + NODE_OVERHEAD_S / HOUR)


def test_jobs_that_follow_each_other_keep_their_node() -> None:
    assert spread_node_hours([(0.0, HOUR), (HOUR + 60, 2 * HOUR)], 1) == pytest.approx(2 + NODE_OVERHEAD_S / HOUR)


def test_a_long_job_keeps_an_entire_large_node() -> None:
    """Two short jobs beside a long one: on half-size nodes one stays for the long job, and a second is used briefly."""
    some = [(0.0, HOUR), (0.0, 10 * HOUR), (0.0, HOUR)]

    assert spread_node_hours(some, 2) == pytest.approx(10 + 1 + 2 * NODE_OVERHEAD_S / HOUR)


def test_a_job_goes_to_the_emptiest_node_and_keeps_it() -> None:
    """Four jobs on two nodes with three places; when one has ended, the next job is placed beside the single one."""
    some = [(0.0, HOUR), (0.0, 10 * HOUR), (0.0, 10 * HOUR), (0.0, 3 * HOUR), (2 * HOUR, 12 * HOUR)]

    assert spread_node_hours(some, 3) == pytest.approx(10 + 12 + 2 * NODE_OVERHEAD_S / HOUR)


@given(spans, st.integers(1, 8))
def test_no_node_costs_less_than_its_share_of_the_work_nor_more_than_one_node_per_job(
    some: list[Span], copies: int
) -> None:
    work = sum(end - start for start, end in some) / HOUR

    hours = spread_node_hours(some, copies)

    assert work / copies < hours <= work + len(some) * NODE_OVERHEAD_S / HOUR + 1e-6
