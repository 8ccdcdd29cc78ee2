"""The number of workers of a pool, case by case."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.scaler.workers.decision import Reason, WorkerDecision, decide_workers
from tests.builders.controllers import pool_policy, reading

CALM = pool_policy().stabilization_window

CASES: list[tuple[str, dict[str, Any], dict[str, Any], WorkerDecision]] = [
    ("a job wakes a worker at once", {"jobs": 1, "watched_for": timedelta()}, {}, WorkerDecision(1, Reason.GROW)),
    ("jobs share workers", {"jobs": 7}, {"jobs_per_worker": 3}, WorkerDecision(3, Reason.GROW)),
    ("pending pods are capacity", {"jobs": 4, "workers": 4}, {}, WorkerDecision(4, Reason.STEADY)),
    ("the maximum holds", {"jobs": 99, "workers": 9}, {}, WorkerDecision(10, Reason.GROW)),
    ("the minimum holds", {"jobs": 0}, {"min_workers": 2}, WorkerDecision(2, Reason.MINIMUM)),
    ("planned work raises", {"jobs": 1, "floor": 6, "workers": 1}, {}, WorkerDecision(6, Reason.FLOOR)),
    ("a floor never exceeds the maximum", {"floor": 60}, {}, WorkerDecision(10, Reason.FLOOR)),
    ("a chore needs one worker, not a fleet", {"chores": 1}, {}, WorkerDecision(1, Reason.CHORES)),
    (
        "a chore beside busy workers needs one more",
        {"jobs": 2, "chores": 3, "busy": 2, "workers": 2},
        {},
        WorkerDecision(3, Reason.CHORES),
    ),
    (
        "a recent peak holds the fleet",
        {"jobs": 1, "peak_jobs": 8, "workers": 8},
        {},
        WorkerDecision(8, Reason.STABILIZING),
    ),
    ("a lower peak lets some go", {"jobs": 1, "peak_jobs": 5, "workers": 8}, {}, WorkerDecision(5, Reason.SHRINK)),
    ("busy workers stay", {"jobs": 1, "busy": 6, "workers": 8}, {}, WorkerDecision(6, Reason.SHRINK)),
    ("all busy, none goes", {"jobs": 1, "busy": 8, "workers": 8}, {}, WorkerDecision(8, Reason.BUSY)),
    ("quiet for long enough means zero", {"workers": 3}, {}, WorkerDecision(0, Reason.ZERO)),
    ("a job in transit is not zero", {"jobs": 1, "workers": 3}, {}, WorkerDecision(1, Reason.SHRINK)),
    ("a chore in the window is not zero", {"peak_jobs": 1, "workers": 1}, {}, WorkerDecision(1, Reason.STABILIZING)),
    ("no safe stop, no shrinking", {"workers": 3}, {"safe_stop": False}, WorkerDecision(3, Reason.NO_SAFE_STOP)),
    ("too short a grace, no shrinking", {"workers": 3, "short_grace": True}, {}, WorkerDecision(3, Reason.SHORT_GRACE)),
    ("too short a grace, and growth", {"jobs": 5, "short_grace": True}, {}, WorkerDecision(5, Reason.GROW)),
    ("a rollout blocks shrinking", {"workers": 3, "settled": False}, {}, WorkerDecision(3, Reason.UNSETTLED)),
    ("a rollout does not block growth", {"jobs": 5, "settled": False}, {}, WorkerDecision(5, Reason.GROW)),
    ("untrusted may raise", {"trusted": False, "jobs": 5}, {}, WorkerDecision(5, Reason.GROW)),
    ("what is granted is no wish", {"jobs": 3, "workers": 1, "granted": 9}, {}, WorkerDecision(3, Reason.GROW)),
    ("no more than is granted", {"jobs": 9, "workers": 1, "granted": 4}, {}, WorkerDecision(4, Reason.GROW)),
    (
        "untrusted never lowers to what is granted",
        {"trusted": False, "workers": 5, "granted": 2},
        {},
        WorkerDecision(5, Reason.UNTRUSTED),
    ),
    (
        "planned work is told as such beside a few jobs",
        {"jobs": 3, "workers": 1, "floor": 2},
        {"jobs_per_worker": 4},
        WorkerDecision(2, Reason.FLOOR),
    ),
    ("a pod that is to come blocks shrinking", {"workers": 3, "missing": 1}, {}, WorkerDecision(3, Reason.UNSETTLED)),
    ("a pod that is to go does too", {"workers": 3, "missing": -1}, {}, WorkerDecision(3, Reason.UNSETTLED)),
    ("calm is over when it has lasted", {"workers": 3, "watched_for": CALM}, {}, WorkerDecision(0, Reason.ZERO)),
    ("untrusted never lowers", {"trusted": False, "workers": 3}, {}, WorkerDecision(3, Reason.UNTRUSTED)),
]


@pytest.mark.parametrize(("seen", "rules", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_workers(seen: dict[str, Any], rules: dict[str, Any], wanted: WorkerDecision) -> None:
    assert decide_workers(reading(**seen), pool_policy(**rules)) == wanted


def test_one_quiet_reading_does_not_shrink_the_fleet() -> None:
    decision = decide_workers(reading(jobs=0, workers=8, watched_for=timedelta(seconds=119)), pool_policy())

    assert decision == WorkerDecision(8, Reason.STABILIZING)


def test_a_fleet_above_a_lowered_maximum_shrinks_but_not_below_busy() -> None:
    decision = decide_workers(reading(jobs=20, busy=14, workers=20), pool_policy())

    assert decision == WorkerDecision(14, Reason.SHRINK)
