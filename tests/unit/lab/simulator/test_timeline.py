"""The order of virtual time."""

from collections.abc import Callable

import pytest

from ebbtide.lab.simulator.timeline import Timeline


def writer(told: list[str], word: str) -> Callable[[], None]:
    return lambda: told.append(word)


def test_events_run_by_time_then_priority_then_in_the_order_they_were_planned() -> None:
    timeline, told = Timeline(), list[str]()
    timeline.at(2, writer(told, "late"))
    timeline.at(1, writer(told, "second"), priority=1)
    timeline.at(1, writer(told, "third"), priority=1)
    timeline.at(1, writer(told, "first"))

    timeline.run_until(5)

    assert told == ["first", "second", "third", "late"]
    assert timeline.now == 5


def test_an_event_sees_its_own_instant_and_may_plan_more_for_it() -> None:
    timeline, seen = Timeline(), list[float]()

    def plan_more() -> None:
        timeline.after(0, lambda: seen.append(timeline.now))

    timeline.at(3, plan_more)

    timeline.run_until(3)

    assert seen == [3]


def test_what_is_planned_for_later_waits() -> None:
    timeline, told = Timeline(), list[str]()
    timeline.after(10, writer(told, "later"))

    timeline.run_until(9.9)

    assert told == []
    assert timeline.next_time() == 10


def test_a_cancelled_event_never_runs_and_is_not_waited_for() -> None:
    timeline, told = Timeline(), list[str]()
    handle = timeline.at(1, writer(told, "never"))
    timeline.cancel(handle)
    timeline.cancel(handle)

    assert timeline.next_time() is None
    timeline.run_until(2)
    assert told == []


def test_the_past_cannot_be_planned() -> None:
    timeline = Timeline()
    timeline.run_until(5)

    with pytest.raises(ValueError, match="nothing can be planned for 4 s"):
        timeline.at(4, lambda: None)
