"""When requests of a window come: how many is data, when is drawn."""

from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from ebbtide.lab.simulator.services.counts import arrivals, within
from tests.builders.workloads.played import a_request_trace


def test_the_same_seed_gives_the_same_times_and_another_gives_others() -> None:
    trace = a_request_trace([100, 200], cv=2)

    assert list(arrivals(trace, 1, 0)) == list(arrivals(trace, 1, 0))
    assert list(arrivals(trace, 1, 0)) != list(arrivals(trace, 1, 1))


def test_counts_by_window_are_kept_and_what_a_small_factor_leaves_counts_in_the_next() -> None:
    trace = a_request_trace([10, 10, 0, None, 10, 30], cv=3)
    times = list(arrivals(trace, 0.25, 0))

    assert times == sorted(times)
    assert [sum(600 * at <= time < 600 * (at + 1) for time in times) for at in range(6)] == [3, 2, 0, 0, 3, 7]
    assert len(times) == 15


def test_a_missing_window_holds_nothing() -> None:
    assert not [at for at in arrivals(a_request_trace([500, None, 500]), 1, 0) if 600 <= at < 1200]


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_the_times_between_vary_as_the_trace_says(cv: float) -> None:
    times = within(0, 10_000, 20_000, cv, Random(3))
    gaps = [after - before for before, after in pairwise(times)]

    assert all(0 <= at < 10_000 for at in times)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.1)


def test_a_beginning_leaves_earlier_windows_out() -> None:
    assert min(arrivals(a_request_trace([50, 50, 50]), 1, 0, 600)) >= 600
