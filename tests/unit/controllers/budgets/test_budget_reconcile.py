"""Reconciles of one budget while caches or its status lag, or while it is missing."""

from datetime import timedelta

from controllers.doubt import TRUST, Doubt
from controllers.ports import Outcome, SetBudget
from controllers.scaler.budgets import BudgetReason
from ebbtide.vocabulary.controller_config import BudgetPolicy
from tests.builders.controllers import NIGHT, Bench, budgets, config, pool_policy, seconds

LAG = seconds(4)


def bench_by_night(*, lag: timedelta = timedelta(), open_already: bool = False) -> Bench:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api", int(open_already))
    bench.clock.advance(seconds(10))
    bench.cluster.objects_lag = lag
    return bench


def tried(bench: Bench) -> list[int]:
    return [action.max_unavailable for _, action, _ in bench.journal.actions if isinstance(action, SetBudget)]


def test_a_budget_that_is_opened_is_opened_once_however_long_the_cache_takes_to_show_it() -> None:
    bench = bench_by_night(lag=LAG)

    bench.pass_time(LAG * 2)

    assert tried(bench) == [1]
    assert bench.cluster.budget("api") == 1


def test_a_close_waits_for_nothing_and_the_next_opening_until_the_close_is_seen() -> None:
    bench = bench_by_night(lag=LAG, open_already=True)
    bench.doubt = Doubt("clock skew")
    bench.reconcile()
    assert tried(bench) == [0]
    bench.doubt = TRUST

    bench.pass_time(LAG - seconds(1))
    assert tried(bench) == [0]  # its version could not be known
    bench.pass_time(LAG)

    assert tried(bench) == [0, 1]
    assert [outcome for _, _, outcome in bench.journal.actions] == [Outcome.DONE] * 2


def test_a_close_does_not_wait_until_an_opening_is_seen() -> None:
    bench = bench_by_night(lag=LAG)
    bench.reconcile()
    bench.doubt = Doubt("clock skew")
    bench.clock.advance(seconds(1))

    bench.reconcile()

    assert tried(bench) == [1, 0]
    assert bench.cluster.budget("api") == 0


def test_a_budget_that_is_not_there_is_told() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)

    bench.reconcile()

    report = bench.budget_report()
    assert (report.max_unavailable, report.wanted, report.reason) == (None, 0, BudgetReason.MISSING)
    assert report.note == "not in the cluster"
    assert [(subject, message) for _, subject, message in bench.journal.notes] == [("budget api", "not in the cluster")]


def test_nothing_is_opened_while_the_cluster_cannot_be_read() -> None:
    bench = bench_by_night()
    bench.cluster.down = "the watch is broken"

    bench.pass_time(seconds(30))

    assert tried(bench) == []
    assert not bench.budget_report().settled


def test_a_status_that_does_not_catch_up_within_ten_seconds_is_told_and_each_flip_has_its_own_ten() -> None:
    bench = bench_by_night()
    bench.cluster.status_lags = True
    bench.reconcile()
    bench.pass_time(seconds(9.9), step=seconds(3.3))
    assert bench.budget_report().note == ""
    bench.cluster.settle_budget("api")
    bench.reconcile()

    bench.clock.advance(timedelta(minutes=1))
    bench.doubt = Doubt("clock skew")
    bench.reconcile()
    bench.reconcile()
    assert bench.budget_report().note == "clock skew"
    bench.pass_time(seconds(10), step=seconds(5))

    assert bench.budget_report().note == "its status has not caught up within 10 s"


def test_a_write_that_failed_is_tried_again_after_a_second() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue()
    bench.cluster.refuse = Outcome.FAILED

    assert bench.reconcile() == seconds(1)


def test_a_budget_that_may_be_open_by_day_is_opened_by_day_and_closed_on_the_way_out() -> None:
    always = BudgetPolicy(name="train", namespace="workers", always=True)
    bench = Bench(config(budgets=(*budgets("api"), always)))
    for name in ("api", "train"):
        bench.cluster.add_budget(name)
    bench.clock.advance(seconds(10))

    bench.reconcile()
    assert [(it.budget, it.max_unavailable, it.reason) for it in writes(bench)] == [("train", 1, BudgetReason.ALWAYS)]

    bench.loop.stop(bench.clock.now())
    assert [(it.budget, it.max_unavailable) for it in writes(bench)] == [("train", 1), ("train", 0)]


def writes(bench: Bench) -> list[SetBudget]:
    return [action for _, action, _ in bench.journal.actions if isinstance(action, SetBudget)]
