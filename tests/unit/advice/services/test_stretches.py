"""Which hours of a history are played: all where they fit, else an even part with the busiest in it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.advice.services.stretches import Stretches, stretches
from ebbtide.simulator.services.counts import minutes_of
from ebbtide.simulator.services.run import Span
from tests.builders.workloads.played import a_request_trace

HOUR = 3600.0


def cut(counts: Sequence[float | None], most: int) -> Stretches:
    trace = a_request_trace(counts, window_s=HOUR)
    return stretches(trace, 1.0, minutes_of(trace, 1.0), Span(0, len(counts) * HOUR), most, seed=0)


def requests(found: Stretches) -> int:
    return sum(len(it.coming) for it in found.parts)


def test_all_hours_are_played_where_they_fit() -> None:
    found = cut([100.0] * 48, 10_000)

    assert found.complete
    assert [it.span for it in found.parts] == [Span(0, 48 * HOUR)]
    assert requests(found) == 4800


def test_the_busiest_hour_and_the_steepest_rise_are_never_left_out() -> None:
    counts: list[float | None] = [100.0] * 400
    counts[120:124] = [1000.0, 1100.0, 1200.0, 1150.0]

    found = cut(counts, 2000)

    assert not found.complete
    assert all(any(it.span.holds((hour + 0.5) * HOUR) for it in found.parts) for hour in (120, 122))


def test_each_hour_of_the_day_has_its_turn() -> None:
    found = cut([100.0] * 24 * 28, 100 * 24 * 7)

    by_hour = [0] * 24
    for it in found.parts:
        for hour in range(round(it.span.begin / HOUR), round(it.span.end / HOUR)):
            by_hour[hour % 24] += 1
    assert min(by_hour) >= 5
    assert max(by_hour) <= 9


def test_hours_of_which_nothing_is_known_are_not_played() -> None:
    counts: list[float | None] = [100.0, None] * 100

    found = cut(counts, 2000)

    assert all(round(it.span.begin / HOUR) % 2 == 0 and it.coming for it in found.parts)


def test_where_an_hour_is_too_much_parts_are_shorter() -> None:
    found = cut([6000.0] * 48, 18_000)

    assert min(it.span.end - it.span.begin for it in found.parts) == HOUR / 2


@given(st.lists(st.floats(0, 500), min_size=2, max_size=200), st.integers(200, 20_000))
def test_about_as_many_requests_are_played_as_may_be(counts: list[float], most: int) -> None:
    found = cut([*counts], most)

    assert found.hours <= found.of_hours + 1e-6
    assert requests(found) <= most * 1.5 + 2 * max(counts) + 50
    for one, other in zip(found.parts, found.parts[1:], strict=False):
        assert one.span.end < other.span.begin
    assert all(it.span.holds(at) for it in found.parts for at in it.coming)
