"""The loop on fakes: what a turn does, what it leaves alone, and when it wants the next one."""

from datetime import timedelta

import pytest

from controllers.ports import Known, Mark, Outcome, PodPhase, Ports, Scale, SetBudget, Unknown, Untrusted
from controllers.scaler.loop import RETRY, Loop, run
from ebbtide.vocabulary.controller_config import Floor
from tests.builders.controllers import CALM, NIGHT, NOON, Bench, budgets, config, pool_policy, seconds
from tests.fakes import FakeQueue, ScriptedWaker

AFTER_CALM = CALM + seconds(2)


def test_a_job_wakes_a_worker_in_the_same_reconcile() -> None:
    bench = Bench(config(pool_policy()))
    bench.reconcile()
    bench.queues["train"].enqueue()

    bench.reconcile()

    assert bench.cluster.replicas("train") == 1


def test_an_empty_pool_goes_to_zero_after_the_stabilization_window_and_not_before() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 3)
    bench.reconcile()

    bench.pass_time(CALM - seconds(1))
    assert bench.cluster.replicas("train") == 3
    bench.pass_time(seconds(3))
    assert bench.cluster.replicas("train") == 0


def test_idle_pods_go_and_the_busy_one_stays() -> None:
    bench = Bench(config(pool_policy()))
    busy, *_ = bench.staff("train", 4, busy=1)

    bench.pass_time(AFTER_CALM)

    assert bench.cluster.pods("train", PodPhase.RUNNING) == [busy]
    assert bench.cluster.removed_busy == []


def test_a_job_in_transit_with_no_worker_left_asks_for_one() -> None:
    bench = Bench(config(pool_policy()))
    bench.demand.override["train"] = Known(waiting=0, in_transit=1, running=0)

    bench.reconcile()

    assert bench.cluster.replicas("train") == 1


def test_a_job_in_transit_keeps_its_worker() -> None:
    bench = Bench(config(pool_policy()))
    pod, *_ = bench.staff("train", 1)
    bench.pass_time(CALM - seconds(1))
    bench.queues["train"].enqueue()
    bench.queues["train"].pop(pod)

    bench.pass_time(AFTER_CALM * 2)

    assert bench.cluster.replicas("train") == 1


@pytest.mark.parametrize("what", ["demand", "cluster"])
def test_what_is_unknown_changes_nothing(what: str) -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 3)
    bench.queues["train"].enqueue(9)
    if what == "demand":
        bench.demand.override["train"] = Unknown("Redis is away")
    else:
        bench.cluster.down = "the API is away"

    bench.pass_time(AFTER_CALM)

    assert bench.cluster.writes == []


def test_what_a_team_hides_is_held_and_closed_and_nothing_else() -> None:
    bench = Bench(config(pool_policy(), pool_policy(name="loader"), budgets=budgets("api", "hub")))
    bench.staff("loader", 2)
    bench.reconcile()
    bench.cluster.writes.clear()
    bench.cluster.unknown = dict.fromkeys(("loader", "hub"), "team: forbidden")
    bench.queues["train"].enqueue()

    bench.pass_time(AFTER_CALM)

    written = [write for write in bench.cluster.writes if isinstance(write, Scale)]
    assert {write.pool for write in written} == {"train"}
    assert bench.cluster.replicas("loader") == 2
    assert not any(isinstance(write, SetBudget) and write.max_unavailable for write in bench.cluster.writes)


def test_an_open_budget_of_a_namespace_that_cannot_be_read_is_closed_once_by_day() -> None:
    bench = Bench(config(budgets=budgets("api", "hub")))
    bench.cluster.add_budget("api", 0)
    bench.cluster.add_budget("hub", 1)
    bench.cluster.unknown = {"hub": "team: forbidden"}

    bench.pass_time(seconds(30))

    assert bench.cluster.budget("hub") == 0
    assert len(bench.cluster.writes) == 1


def test_a_blind_spell_starts_the_calm_window_anew() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 1)
    bench.pass_time(CALM - seconds(1))
    bench.demand.override["train"] = Unknown("Redis is away")
    bench.reconcile()
    bench.demand.override.clear()

    bench.pass_time(CALM - seconds(1))

    assert bench.cluster.replicas("train") == 1


def test_an_untrusted_empty_never_lowers_but_untrusted_jobs_raise() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 2)
    bench.demand.override["train"] = Untrusted("a new server", Known(waiting=0, in_transit=0, running=0))
    bench.pass_time(AFTER_CALM)
    assert bench.cluster.replicas("train") == 2

    bench.demand.override["train"] = Untrusted("a new server", Known(waiting=5, in_transit=0, running=0))
    bench.reconcile()
    assert bench.cluster.replicas("train") == 5


def test_a_marked_pod_that_takes_a_job_is_unmarked() -> None:
    bench = Bench(config(pool_policy()))
    pod, *_ = bench.staff("train", 1)
    bench.cluster.act(Mark(pool="train", pod=pod, idle=True, reason="by an earlier controller"))
    bench.take_job("train", pod)

    bench.reconcile()

    assert bench.cluster.marked("train") == set()


def test_replicas_fall_only_after_the_mark_is_seen() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 1)
    bench.cluster.pods_lag = seconds(3)

    bench.pass_time(AFTER_CALM + seconds(10))

    mark, scale = bench.cluster.writes
    assert isinstance(mark, Mark)
    assert isinstance(scale, Scale)
    at = {type(action): at for at, action, _ in bench.journal.actions}
    assert at[Scale] - at[Mark] >= seconds(3)


def test_a_lowering_is_bound_to_the_version_that_it_was_decided_on() -> None:
    bench = Bench(config(pool_policy()))
    bench.staff("train", 1)

    bench.pass_time(AFTER_CALM)

    lowering = bench.cluster.writes[-1]
    assert isinstance(lowering, Scale)
    assert lowering.replicas == 0
    assert bench.cluster.act(lowering) is Outcome.STALE  # it changed the object, so the same write is refused now


def test_a_growth_seen_late_is_neither_repeated_nor_undone() -> None:
    bench = Bench(config(pool_policy()))
    bench.cluster.objects_lag = seconds(4)
    bench.clock.advance(seconds(10))
    bench.queues["train"].enqueue(7)
    bench.reconcile()
    bench.queues["train"].waiting = 3

    bench.pass_time(seconds(8))

    assert [action for action in bench.cluster.writes if isinstance(action, Scale)] == [
        Scale(pool="train", replicas=7, version="2", reason="demand-above-capacity")
    ]


def test_stale_entries_require_one_janitor_and_not_forever() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].stale = 5
    bench.reconcile()
    assert bench.cluster.replicas("train") == 1
    bench.queues["train"].join(*bench.cluster.start_all("train"))

    bench.pass_time(timedelta(minutes=14), step=seconds(4))

    assert bench.cluster.replicas("train") == 0
    assert bench.journal.notes[-1][2].startswith("stale entries or overdue jobs are left that no worker has cleared")


def test_a_job_that_dies_among_busy_workers_brings_a_free_one_which_leaves_when_it_is_over() -> None:
    bench = Bench(config(pool_policy()))
    first, second = bench.staff("train", 2, busy=2)
    bench.queues["train"].stale = 1  # of a third, which was killed

    bench.reconcile()

    [janitor] = bench.cluster.start_all("train")
    bench.queues["train"].join(janitor)
    bench.queues["train"].stale = 0
    bench.take_job("train", janitor)
    bench.pass_time(seconds(30))
    assert bench.cluster.replicas("train") == 3
    bench.queues["train"].finish(janitor)
    bench.pass_time(3 * CALM)
    assert (bench.cluster.replicas("train"), bench.cluster.removed) == (2, [janitor])
    assert bench.queues["train"].running == {first, second}


def test_a_floor_is_up_before_its_work_and_gone_after() -> None:
    night_work = Floor(at=23 * 60 + 30, lasting=timedelta(minutes=20), workers=2)
    bench = Bench(config(pool_policy(floors=(night_work,))), start=NIGHT)

    bench.pass_time(timedelta(minutes=25) - seconds(5), step=seconds(5))
    assert bench.cluster.replicas("train") == 0
    bench.pass_time(seconds(5))
    assert bench.cluster.replicas("train") == 2
    for pod in bench.cluster.start_all("train"):
        bench.queues["train"].join(pod)
    bench.pass_time(timedelta(minutes=26), step=seconds(5))
    assert bench.cluster.replicas("train") == 0


def test_a_pool_without_safe_stop_is_never_shrunk_and_says_so_once() -> None:
    bench = Bench(config(pool_policy(safe_stop=False)))
    bench.staff("train", 2)

    bench.pass_time(AFTER_CALM)

    assert bench.cluster.writes == []
    assert [note[1:] for note in bench.journal.notes] == [("pool train", "no-safe-stop-declared")]


def test_nothing_is_written_when_nothing_changes() -> None:
    bench = Bench(config(pool_policy(), budgets=budgets("api")))
    bench.staff("train", 1, busy=1)
    bench.cluster.add_budget("api")

    bench.pass_time(timedelta(minutes=30), step=seconds(5))

    assert bench.cluster.writes == []
    assert bench.journal.notes == []


def test_a_condition_is_reported_when_it_begins_and_when_it_ends() -> None:
    bench = Bench(config(pool_policy()))
    bench.demand.override["train"] = Unknown("Redis is away")
    bench.pass_time(seconds(20))
    bench.demand.override.clear()
    bench.pass_time(seconds(20))

    assert [message for _, _, message in bench.journal.notes] == [
        "demand unknown, holding: Redis is away",
        "no longer: demand unknown, holding: Redis is away",
    ]


def test_a_pool_that_is_not_in_the_cluster_is_reported_and_left_alone() -> None:
    bench = Bench(config(pool_policy()))
    bench.demand.queues["ghost"] = FakeQueue(waiting=3)
    loop = Loop(config(pool_policy(name="ghost")), bench.ports)

    loop.reconcile(NOON)

    assert bench.cluster.writes == []
    assert [message for _, _, message in bench.journal.notes] == ["its Deployment is not in the cluster"]


def test_budgets_open_at_closing_time_and_close_the_guard_before_opening() -> None:
    bench = Bench(config(budgets=budgets("api"), resync=timedelta(hours=24)), start=NOON)
    bench.cluster.add_budget("api")
    bench.cluster.add_budget("ray-head")  # fixed: the config does not name it

    for _ in range(4):
        bench.clock.advance(bench.reconcile())

    flips = [(at.strftime("%H:%M"), action) for at, action, _ in bench.journal.actions]
    assert [(at, action.max_unavailable) for at, action in flips if isinstance(action, SetBudget)] == [
        ("19:00", 1),
        ("07:45", 0),
    ]
    assert bench.cluster.budget("ray-head") == 0


def test_an_opening_carries_the_version_seen_and_a_close_carries_none() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.reconcile()
    bench.clock.advance(timedelta(hours=10))
    bench.reconcile()

    opening, closing = bench.cluster.writes
    assert isinstance(opening, SetBudget)
    assert isinstance(closing, SetBudget)
    assert (opening.version, closing.version) == ("1", None)


def test_closing_time_holds_even_when_the_cluster_cannot_be_read() -> None:
    bench = Bench(config(budgets=budgets("api")), start=NIGHT)
    bench.cluster.add_budget("api")
    bench.reconcile()
    bench.cluster.down = "the watch is broken"
    bench.clock.advance(timedelta(hours=10))

    bench.pass_time(seconds(30))

    assert bench.cluster.budget("api") == 0
    assert len(bench.cluster.writes) == 2  # opened once, closed once


def test_a_budget_of_which_nothing_is_known_is_closed_once_though_the_cluster_cannot_be_read() -> None:
    """After a restart by day: who ended before may have left it open."""
    bench = Bench(config(budgets=budgets("api")))
    bench.cluster.add_budget("api", 1)
    bench.cluster.down = "the watch is broken"

    bench.pass_time(seconds(30))

    assert bench.cluster.budget("api") == 0
    assert len(bench.cluster.writes) == 1


@pytest.mark.parametrize("down", [None, "the watch is broken"])
def test_on_the_way_out_open_budgets_are_closed_and_replicas_stay(down: str | None) -> None:
    bench = Bench(config(pool_policy(), budgets=budgets("api")), start=NIGHT)
    bench.staff("train", 2, busy=2)
    bench.cluster.add_budget("api")

    def go_blind() -> None:
        bench.cluster.down = down

    waker = ScriptedWaker(bench.clock, [(seconds(1), go_blind)])
    ports = Ports(demand=bench.demand, cluster=bench.cluster, clock=bench.clock, waker=waker, journal=bench.journal)
    run(bench.config, ports)

    assert bench.cluster.budget("api") == 0
    assert bench.cluster.replicas("train") == 2


def test_a_reconcile_schedules_the_next_one_at_the_first_instant_that_matters() -> None:
    bench = Bench(config(pool_policy(), resync=timedelta(hours=1)))
    bench.staff("train", 1)

    assert bench.reconcile() == seconds(5)  # the pop window
    bench.clock.advance(seconds(5))
    assert bench.reconcile() == CALM - seconds(5)
    bench.clock.advance(CALM - seconds(5))
    assert bench.reconcile() == RETRY  # marked, and the mark is to be seen
    bench.clock.advance(RETRY)
    bench.reconcile()
    assert bench.cluster.replicas("train") == 0


def test_a_quiet_reconcile_waits_for_the_resync_and_a_failed_one_does_not() -> None:
    bench = Bench(config(pool_policy(), resync=seconds(30)))
    assert bench.reconcile() == seconds(30)

    bench.queues["train"].enqueue()
    bench.cluster.refuse = Outcome.FAILED
    assert bench.reconcile() == RETRY


def test_a_refused_write_waits_for_the_resync() -> None:
    bench = Bench(config(pool_policy(), resync=seconds(30)))
    bench.queues["train"].enqueue()
    bench.cluster.refuse = Outcome.REFUSED

    assert bench.reconcile() == seconds(30)


def test_a_failed_write_is_tried_again() -> None:
    bench = Bench(config(pool_policy()))
    bench.queues["train"].enqueue()
    bench.cluster.refuse = Outcome.FAILED
    bench.reconcile()
    bench.cluster.refuse = None

    bench.reconcile()

    assert bench.cluster.replicas("train") == 1


def test_the_end_of_the_holiday_list_is_noted() -> None:
    hours = config().hours
    ended = type(hours)(timezone="UTC", week=hours.week, holidays_known_until=NOON.date() - timedelta(days=1))
    bench = Bench(config(hours=ended))

    bench.reconcile()

    assert [subject for _, subject, _ in bench.journal.notes] == ["calendar"]
