"""Reasons to leave a pool or a budget alone: another writer, an operator, a doubt, a lost right to write."""

from datetime import timedelta

import pytest

from controllers.doubt import TRUST, Doubt
from controllers.ports import Mark, Outcome, PodPhase
from ebbtide.vocabulary.controller_config import Floor
from ebbtide.vocabulary.holds import Hold
from tests.builders.controllers import CALM, NIGHT, NOON, Bench, budgets, config, pool_policy, seconds

AFTER_CALM = CALM + seconds(2)
PAUSE = Hold(None, "paused: a long run", pause=True)


@pytest.mark.parametrize("jobs", [0, 9])
@pytest.mark.parametrize("why", ["rival", "pause"])
def test_a_pool_with_another_writer_or_a_pause_gets_no_write_of_any_kind(why: str, jobs: int) -> None:
    bench = Bench(config(pool_policy()))
    pod, *_ = bench.staff("train", 3, busy=1)
    bench.cluster.act(Mark(pool="train", pod=pod, idle=True, reason="by an earlier controller"))
    bench.cluster.writes.clear()
    if why == "rival":
        bench.cluster.set_conflicting_manager("train", "keda-operator")
    else:
        bench.cluster.hold_pool("train", PAUSE)
    bench.queues["train"].enqueue(jobs)

    bench.pass_time(AFTER_CALM)

    assert bench.cluster.writes == []
    assert ("keda-operator" if why == "rival" else PAUSE.why) in bench.pool_report().note
    assert bench.pool_report().wanted == 3


def test_when_the_other_writer_is_gone_the_pool_is_scaled_again() -> None:
    bench = Bench(config(pool_policy()))
    bench.cluster.set_conflicting_manager("train", "keda-operator")
    bench.queues["train"].enqueue(2)
    bench.reconcile()
    bench.cluster.set_conflicting_manager("train")

    bench.reconcile()

    assert bench.cluster.replicas("train") == 2


def test_a_pool_kept_until_an_instant_is_raised_but_not_lowered_before_it() -> None:
    bench = Bench(config(pool_policy(), resync=timedelta(hours=1)))
    bench.staff("train", 2)
    until = NOON + timedelta(minutes=30)
    bench.cluster.hold_pool("train", Hold(until, "kept until 12:30"))
    bench.queues["train"].enqueue(4)
    bench.reconcile()
    assert bench.cluster.replicas("train") == 4
    bench.queues["train"].waiting = 0

    bench.pass_time(timedelta(minutes=29), step=seconds(10))
    assert bench.cluster.replicas("train") == 4
    assert bench.pool_report().reason == "kept-up-by-an-operator"
    assert bench.reconcile() == until - bench.clock.now()

    bench.pass_time(timedelta(minutes=2))
    assert bench.cluster.replicas("train") < 4


@pytest.mark.parametrize("hold", [PAUSE, Hold(NIGHT + timedelta(hours=1), "kept until midnight")])
def test_a_held_budget_is_closed_in_the_middle_of_the_night(hold: Hold) -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.reconcile()
    assert bench.cluster.budget("api") == 1
    bench.cluster.hold_budget("api", hold)

    bench.reconcile()

    assert bench.cluster.budget("api") == 0
    assert (bench.budget_report().reason, bench.budget_report().note) == ("held-by-an-operator", hold.why)


def test_a_hold_with_an_end_ends_by_itself_and_on_time() -> None:
    bench = Bench(config(budgets=budgets("api"), resync=timedelta(hours=9)), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.cluster.hold_budget("api", Hold(NIGHT + timedelta(hours=1), "kept until midnight"))

    assert bench.reconcile() == timedelta(hours=1)
    bench.clock.advance(timedelta(hours=1))
    bench.reconcile()

    assert bench.cluster.budget("api") == 1


def test_in_doubt_budgets_close_nothing_is_lowered_and_raising_goes_on() -> None:
    bench = Bench(config(pool_policy(), pool_policy(name="embed"), budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.staff("train", 3)
    bench.reconcile()
    bench.doubt = Doubt("our clock and Redis are 90 s apart")
    bench.queues["embed"].enqueue(2)

    bench.pass_time(AFTER_CALM)

    assert (bench.cluster.budget("api"), bench.budget_report().reason) == (0, "clock-or-config-in-doubt")
    assert (bench.cluster.replicas("train"), bench.pool_report().reason) == (3, "clock-or-config-in-doubt")
    assert bench.cluster.replicas("embed") == 2
    assert bench.report.trouble == ("nothing is opened or lowered: our clock and Redis are 90 s apart",)


def skew(*minutes: int) -> Doubt:
    """Other clocks that are so many minutes ahead of this process's."""
    return Doubt("clock skew: the clocks differ", tuple(timedelta(minutes=lead) for lead in minutes))


@pytest.mark.parametrize("minutes", [(600,), (-300,), (-300, 20), (0, 600)])
def test_by_any_clock_that_says_day_budgets_and_window_are_closed_and_a_condition_says_why(
    minutes: tuple[int, ...],
) -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api", 1)
    bench.doubt = skew(*minutes)

    bench.reconcile()

    report = bench.budget_report()
    assert (bench.cluster.budget("api"), report.reason, report.note) == (0, "business-hours", skew().why)
    assert (bench.report.window_open, bench.report.window_reason) == (False, "business-hours")
    assert (bench.clock.now(), "budget api", skew().why) in bench.journal.notes


def test_closed_by_every_clock_a_budget_has_no_condition() -> None:
    bench = Bench(config(budgets=budgets("api")))
    bench.cluster.add_budget("api")
    bench.doubt = skew(600)
    bench.reconcile()
    assert (bench.budget_report().reason, bench.budget_report().note) == ("business-hours", "")
    assert not bench.report.window_open


def test_open_by_every_clock_a_budget_is_closed_by_doubt_until_it_ends() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api", 1)
    bench.clock.advance(seconds(10))
    bench.doubt = skew(30)
    bench.reconcile()
    assert (bench.cluster.budget("api"), bench.budget_report().note) == (0, skew().why)
    assert bench.report.window_open

    bench.doubt = TRUST
    bench.pass_time(seconds(15))
    assert (bench.cluster.budget("api"), bench.budget_report().note) == (1, "")


@pytest.mark.parametrize("minutes", [(40,), (-200,), (-30, 40)])
def test_a_floor_that_any_clock_asks_for_is_raised_and_a_condition_says_why(minutes: tuple[int, ...]) -> None:
    """The floor is from 23:30 to 1:00, and from 19:30 to 20:00."""
    late = Floor(at=23 * 60 + 30, lasting=timedelta(minutes=90), workers=4)
    early = Floor(at=19 * 60 + 30, lasting=timedelta(minutes=30), workers=4)
    bench = Bench(config(pool_policy(floors=(late, early))), start=NIGHT)
    bench.reconcile()
    assert bench.pool_report().floor == 0
    bench.doubt = skew(*minutes)

    bench.reconcile()

    report = bench.pool_report()
    assert (bench.cluster.replicas("train"), report.floor, report.reason) == (4, 4, "below-the-planned-floor")
    assert report.note == skew().why
    bench.doubt = TRUST
    bench.reconcile()
    assert (bench.pool_report().floor, bench.pool_report().note) == (0, "")


def test_while_clocks_disagree_the_loop_waits_as_long_as_ever() -> None:
    """An end by another clock may be in the past of this one."""
    late = Floor(at=22 * 60 + 30, lasting=timedelta(minutes=25), workers=4)  # until 22:55
    bench = Bench(config(pool_policy(floors=(late,)), budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.doubt = skew(-20, -300)
    bench.reconcile()
    bench.pass_time(seconds(30))
    assert bench.pool_report().floor == 4

    assert bench.reconcile() == bench.config.resync


def test_after_a_doubt_the_stabilization_window_begins_again() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 1)
    bench.pass_time(CALM - seconds(1))
    bench.doubt = Doubt("a clock jumped")
    bench.reconcile()
    bench.doubt = TRUST

    bench.pass_time(CALM - seconds(1))

    assert bench.cluster.replicas("train") == 1


def test_a_fenced_write_is_not_remembered_as_done() -> None:
    bench = Bench(config(pool_policy(), budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.queues["train"].enqueue(2)
    bench.cluster.fenced = True
    bench.reconcile()
    assert {outcome for _, _, outcome in bench.journal.actions} == {Outcome.FENCED}
    bench.cluster.fenced = False

    bench.reconcile()

    assert (bench.cluster.replicas("train"), bench.cluster.budget("api")) == (2, 1)


def test_a_pool_without_safe_stop_is_not_shrunk_even_to_zero() -> None:
    bench = Bench(config(pool_policy(safe_stop=False)))
    bench.staff("train", 1)

    bench.pass_time(AFTER_CALM * 5)

    assert bench.cluster.pods("train", PodPhase.RUNNING) != []
    assert bench.pool_report().note == "no-safe-stop-declared"
