"""One function called many times: what a call raises, or a process that it ends, belongs to that call alone."""

import os
import signal

import pytest

from ebbtide.lab.sweep.calls import Failed, ended, results

pytestmark = pytest.mark.whole


def double(number: int) -> int:
    return 2 * number


def fragile(number: int) -> int:
    if number == 1:
        raise ValueError("an odd\nfault")
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def test_results_come_in_the_order_asked_for() -> None:
    assert results(double, [(number,) for number in range(5)], processes=2) == [0, 2, 4, 6, 8]


def test_a_failure_and_a_killed_process_leave_the_other_calls_alone() -> None:
    values = {call.number: call.outcome for call in ended(fragile, [(number,) for number in range(6)], processes=2)}

    assert values[1] == Failed("an odd fault")
    assert values[2] == Failed("its process died: killed, or out of memory")
    assert [values[number] for number in (0, 3, 4, 5)] == [0, 6, 8, 10]


def test_what_a_call_raised_is_raised_for_whoever_wants_results() -> None:
    with pytest.raises(ValueError, match="an odd"):
        results(fragile, [(1,)])
