"""The report of a reconcile, and the state that a stopped loop leaves."""

from datetime import timedelta

import pytest

from controllers.ports import BudgetReport, PoolReport, SetBudget, Unknown
from ebbtide.vocabulary.windows import BusinessHours
from tests.builders.controllers import CALM, NIGHT, Bench, budgets, config, pool_policy, seconds


def test_a_reconcile_reports_observations_and_target_of_a_pool() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 3, busy=1)
    bench.pass_time(seconds(6))
    bench.queues["train"].enqueue(4)

    bench.reconcile()

    assert bench.pool_report() == PoolReport(
        name="train",
        reading=bench.queues["train"].snapshot(),
        workers=3,
        wanted=5,
        reason="demand-above-capacity",
        running=3,
        idle=2,
    )


def test_a_pending_pod_is_not_an_idle_one() -> None:
    bench = Bench(config(pool_policy()))
    bench.cluster.add_pool("train", 2)

    bench.reconcile()

    assert (bench.pool_report().pending, bench.pool_report().running, bench.pool_report().idle) == (2, 0, 0)


def test_what_cannot_be_decided_wants_nothing() -> None:
    bench = Bench(config(pool_policy()))
    bench.demand.override["train"] = Unknown("Redis is away")

    bench.reconcile()

    report = bench.pool_report()
    assert (report.workers, report.wanted, report.note) == (0, None, "demand unknown, holding: Redis is away")


def test_what_concerns_no_single_object_is_trouble_while_it_lasts() -> None:
    bench = Bench(config(pool_policy(), budgets=budgets("api")))
    bench.cluster.down = "the watch is broken"
    bench.reconcile()
    assert bench.report.trouble == ("cluster unknown, holding: the watch is broken",)
    assert (bench.pool_report().workers, bench.budget_report().max_unavailable) == (None, None)
    bench.cluster.down = None

    bench.reconcile()

    assert bench.report.trouble == ()


def test_the_window_is_reported_with_its_end() -> None:
    bench = Bench(config(), start=NIGHT)

    bench.reconcile()

    window = bench.report.window_open, bench.report.window_reason, bench.report.window_until
    assert window == (True, "disruption-window-open", NIGHT + timedelta(hours=8, minutes=45))


def test_a_flip_counts_as_settled_only_when_value_and_status_are_seen() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.cluster.status_lags = True
    bench.reconcile()
    assert bench.budget_report() == BudgetReport(
        name="api", max_unavailable=0, wanted=1, reason="disruption-window-open", settled=False
    )
    bench.reconcile()
    assert not bench.budget_report().settled
    bench.cluster.settle_budget("api")

    bench.reconcile()

    assert bench.budget_report().settled


def test_a_budget_that_does_not_settle_in_ten_seconds_is_told_once() -> None:
    bench = Bench(config(budgets=budgets("api"), resync=timedelta(hours=1)), start=NIGHT)
    bench.cluster.add_budget("api", settled=False)

    assert bench.reconcile() == seconds(10)
    bench.pass_time(seconds(30))

    assert [message for _, _, message in bench.journal.notes] == ["its status has not caught up within 10 s"]
    assert bench.cluster.writes == []  # an opening waits for it


def test_a_stop_closes_every_budget_but_those_that_the_next_config_has() -> None:
    bench = Bench(config(pool_policy(), budgets=budgets("api", "web")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.cluster.add_budget("web")
    bench.staff("train", 2)
    bench.reconcile()
    bench.cluster.writes.clear()

    bench.loop.stop(bench.clock.now(), keep=frozenset({"web"}))

    assert bench.cluster.writes == [SetBudget(budget="api", max_unavailable=0, version=None, reason="controller-stops")]
    assert (bench.cluster.budget("web"), bench.cluster.replicas("train")) == (1, 2)


@pytest.mark.parametrize(
    ("shown", "turned", "lag", "closed"),
    [
        (1, False, 0, True),  # open, and never looked at by this process
        (0, False, 0, False),
        (None, False, 0, False),
        (0, True, 60, True),  # opened a moment ago, which the cache does not show yet
        (0, True, 0, True),
    ],
)
def test_a_stop_closes_what_is_shown_open_or_was_opened(
    shown: int | None, turned: bool, lag: int, closed: bool
) -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    if shown is not None:
        bench.cluster.add_budget("api", shown)
    bench.cluster.objects_lag = seconds(lag)
    if turned:
        bench.reconcile()
    bench.cluster.writes.clear()

    bench.loop.stop(bench.clock.now())

    closing = SetBudget(budget="api", max_unavailable=0, version=None, reason="controller-stops")
    assert bench.cluster.writes == closed * [closing]


def test_a_stop_closes_every_budget_when_the_cluster_is_unknown() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api", 1)
    bench.cluster.down = "no list"

    bench.loop.stop(bench.clock.now())

    assert bench.cluster.budget("api") == 0


def test_the_next_reconcile_is_never_at_once() -> None:
    """An edge that is now would have the loop turn without a breath."""
    bench = Bench(config(budgets=budgets("api"), resync=timedelta()), start=NIGHT)

    assert bench.reconcile() == timedelta(milliseconds=1)


def test_a_shrinking_pool_reports_its_reason() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 2)

    bench.pass_time(CALM + seconds(1))

    assert (bench.pool_report().wanted, bench.pool_report().reason) == (0, "empty-for-the-stabilization-window")


def test_a_window_that_never_changes_is_believed_forever() -> None:
    bench = Bench(config(hours=BusinessHours(timezone="UTC", week=())))

    for _ in range(3):
        bench.reconcile()
        bench.clock.advance(timedelta(hours=12))

    assert (bench.report.window_open, bench.report.window_until) == (True, None)


def test_the_window_is_calculated_again_when_it_changes_or_the_clock_goes_back() -> None:
    bench = Bench(config(), start=NIGHT)

    opens: list[bool] = []
    for hours in (0, 8, 10, -12, 0):
        bench.loop.reconcile(NIGHT + timedelta(hours=hours))
        opens.append(bench.report.window_open)

    assert opens == [True, True, False, False, True]
