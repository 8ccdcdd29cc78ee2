"""Faster time, and the thread that runs a model's timeline in it."""

import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from control_plane.night.paced import Paced
from control_plane.night.scaled import ScaledClock

START = datetime(2026, 6, 2, 22, 0, tzinfo=UTC)
IN_BERLIN = START.astimezone(timezone(timedelta(hours=2)))


def test_two_clocks_of_one_beginning_agree_although_one_is_made_later() -> None:
    began = time.monotonic() - 10

    first = ScaledClock(START, 240, began)
    second = ScaledClock(IN_BERLIN, 240, began)

    one, other, same = first.now(), second.now(), first.now()
    assert START + timedelta(seconds=2400) <= one <= other <= same
    assert other.tzinfo is UTC
    assert first.real(2400) == 10


def test_before_its_beginning_it_shows_what_is_before_the_start() -> None:
    clock = ScaledClock(START, 60, time.monotonic() + 3600)

    assert clock.seconds() < 0
    assert clock.now() < START


@pytest.mark.parametrize(("start", "speed"), [(START.replace(tzinfo=None), 60), (START, 0), (START, -1)])
def test_a_start_without_a_zone_and_time_that_stands_still_are_refused(start: datetime, speed: float) -> None:
    with pytest.raises(ValueError, match="wanted"):
        ScaledClock(start, speed)


class CallLog:
    """What ran, and in which thread; `done` when a last thing has run."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.done = threading.Event()

    def note(self, what: str) -> None:
        self.seen.append((what, threading.current_thread().name))

    def last(self) -> None:
        self.note("last")
        self.done.set()


def test_planned_and_called_things_run_in_one_thread_in_their_order() -> None:
    notes, paced = CallLog(), Paced(ScaledClock(START, 3600), "model")

    def call() -> None:
        notes.note("called")
        paced.timeline.after(60.0, notes.last)

    paced.timeline.at(0.0, lambda: notes.note("planned"))
    paced.call(call)
    with paced:
        assert notes.done.wait(30)

    assert notes.seen == [("planned", "model"), ("called", "model"), ("last", "model")]


def test_a_call_finds_the_timeline_up_to_date() -> None:
    notes, clock = CallLog(), ScaledClock(START, 3600, time.monotonic() - 1)
    with Paced(clock, "model") as paced:
        paced.timeline.at(3000.0, lambda: notes.note("due"))
        paced.call(notes.last)
        assert notes.done.wait(30)
        assert paced.timeline.now >= 3600

    assert notes.seen == [("due", "model"), ("last", "model")]


def test_an_error_in_the_thread_is_raised_where_the_context_ends() -> None:
    paced = Paced(ScaledClock(START, 3600), "model")

    def fail() -> None:
        raise LookupError("in the thread")

    paced.call(fail)
    with pytest.raises(LookupError, match="in the thread"), paced:
        paced.ended.wait(30)

    assert paced.failed
