"""Workers that may pause, on nodes that stay: production's own budgets let them be moved, and nothing is lost."""

from datetime import datetime
from functools import cache

import pytest

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from tests.builders.simulator import HOUR, a_job, a_pool, a_saver, a_stack, a_trace

NOON = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - local time of the customer


@cache
def night(*, saves: bool = True, always: bool = False, strategy: Strategy = Strategy.FIXED_FLEXIBLE) -> StrategyResult:
    """Three workers fill a node; of each three jobs two end in the evening, and one runs until the next noon."""
    jobs = [a_job(60.0 + i, lasts=(20 if i % 3 == 0 else 4) * HOUR, cpu=4) for i in range(9)]
    options = ReplayOptions(days=1, start=NOON, strategies=(strategy,), rollouts=False)
    saver = a_saver(always=always) if saves else None
    stack = a_stack({"train": a_pool(longest=24 * HOUR, checkpoints=saver)}, {})
    return replay(stack, a_trace(jobs), options).strategies[strategy.value]


def test_the_night_moves_workers_that_may_pause_and_loses_no_work() -> None:
    stays, moves = night(saves=False), night()

    assert (stays.jobs_interrupted, stays.evictions_in_window) == (0, 0)
    assert moves.jobs_interrupted == moves.resumes == moves.evictions_in_window > 0
    assert (moves.lost_work_s, moves.evictions_in_business_hours) == (0, 0)
    assert moves.jobs_done == stays.jobs_done == 9
    assert moves.node_hours < 0.85 * stays.node_hours
    assert moves.saving_s == pytest.approx(10 * (3 * 239 + 6 * 47 + moves.resumes), abs=10 * moves.resumes)


def test_no_worker_is_moved_before_the_window_opens_unless_it_may_always_be() -> None:
    """Business ends at 19:00; the short jobs end at 16:00."""
    usual, always = night(), night(always=True)

    assert always.evictions_in_business_hours > 0 == usual.evictions_in_business_hours
    assert always.lost_work_s == 0
    assert always.node_hours < usual.node_hours


def test_where_budgets_never_open_workers_stay_and_nodes_are_said_to_be_kept_by_one() -> None:
    kept, never = night(), night(strategy=Strategy.WORKER_AUTOSCALING)

    assert never.jobs_interrupted == 0
    assert not any("workers are never moved" in reason for reason in kept.survivors)
    assert any("workers are never moved" in reason for reason in night(saves=False).survivors)


def test_kedas_stock_workers_have_no_checkpoints() -> None:
    keda = night(strategy=Strategy.KEDA_DEFAULTS)

    assert (keda.resumes, keda.saving_s) == (0, 0)
