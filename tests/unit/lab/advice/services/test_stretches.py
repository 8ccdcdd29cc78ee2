"""Which hours of a history are played: all where they fit, else an even part with the busiest in it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.advice.services.stretches import Stretches, stretches
from ebbtide.lab.simulator.services.counts import minutes_of
from ebbtide.lab.simulator.services.run import TraceSpan
from tests.builders.workloads.played import a_request_trace

HOUR = 3600.0


def cut(counts: Sequence[float | None], most: int) -> Stretches:
    trace = a_request_trace(counts, window_s=HOUR)
    return stretches(trace, 1.0, minutes_of(trace, 1.0), TraceSpan(0, len(counts) * HOUR), most, seed=0)


def requests(chosen: Stretches) -> int:
    return sum(len(part.coming) for part in chosen.parts)


def test_all_hours_are_played_where_they_fit() -> None:
    chosen = cut([100.0] * 48, 10_000)

    assert chosen.complete
    assert [part.span for part in chosen.parts] == [TraceSpan(0, 48 * HOUR)]
    assert requests(chosen) == 4800


def test_the_busiest_hour_and_the_steepest_rise_are_never_left_out() -> None:
    counts: list[float | None] = [100.0] * 400
    counts[120:124] = [1000.0, 1100.0, 1200.0, 1150.0]

    chosen = cut(counts, 2000)

    assert not chosen.complete
    assert all(any(part.span.holds((hour + 0.5) * HOUR) for part in chosen.parts) for hour in (120, 122))


def test_each_hour_of_the_day_has_its_turn() -> None:
    chosen = cut([100.0] * 24 * 28, 100 * 24 * 7)

    by_hour = [0] * 24
    for part in chosen.parts:
        for hour in range(round(part.span.begin / HOUR), round(part.span.end / HOUR)):
            by_hour[hour % 24] += 1
    assert min(by_hour) >= 5
    assert max(by_hour) <= 9


def test_unknown_hours_are_not_played() -> None:
    counts: list[float | None] = [100.0, None] * 100

    chosen = cut(counts, 2000)

    assert all(round(part.span.begin / HOUR) % 2 == 0 and part.coming for part in chosen.parts)


def test_where_an_hour_is_too_much_parts_are_shorter() -> None:
    chosen = cut([6000.0] * 48, 18_000)

    assert min(part.span.end - part.span.begin for part in chosen.parts) == HOUR / 2


@given(st.lists(st.floats(0, 500), min_size=2, max_size=200), st.integers(200, 20_000))
def test_about_as_many_requests_are_played_as_may_be(counts: list[float], most: int) -> None:
    chosen = cut([*counts], most)

    assert chosen.hours <= chosen.of_hours + 1e-6
    assert requests(chosen) <= most * 1.5 + 2 * max(counts) + 50
    for part, other in zip(chosen.parts, chosen.parts[1:], strict=False):
        assert part.span.end < other.span.begin
    assert all(part.span.holds(at) for part in chosen.parts for at in part.coming)
