"""The memory of one pool's demand."""

from datetime import timedelta

from controllers.ports import Known
from controllers.scaler.workers.history import JANITOR_PATIENCE, DemandHistory
from tests.builders.controllers import NOON, seconds


def known(waiting: int = 0, *, stale: int = 0, idle: frozenset[str] = frozenset()) -> Known:
    return Known(waiting=waiting, in_transit=0, running=0, stale=stale, idle=idle)


def watch() -> DemandHistory:
    return DemandHistory(seconds(60), longest_gap=seconds(30))


def see_each(watched: DemandHistory, readings: list[tuple[int, Known]], *, staffed: bool = False) -> None:
    for at, reading in readings:
        watched.observe(NOON + seconds(at), reading, staffed=staffed)


def test_the_peak_is_the_highest_demand_of_the_stabilization_window() -> None:
    watched = watch()

    see_each(watched, [(0, known(9)), (20, known(4)), (40, known(6)), (60, known(1)), (79, known(2))])

    assert watched.peak_jobs == 9


def test_a_peak_leaves_the_window_when_it_has_been_gone_for_the_stabilization_window() -> None:
    watched = watch()

    see_each(watched, [(0, known(9)), (20, known(4)), (50, known(1)), (80, known(1))])

    assert watched.peak_jobs == 4  # it held until the reading at 50


def test_a_gap_in_the_readings_starts_the_watch_anew() -> None:
    watched = watch()

    see_each(watched, [(0, known(9)), (20, known()), (51, known())])

    assert watched.watched_for(NOON + seconds(51)) == timedelta()
    assert watched.peak_jobs == 0


def test_a_clock_that_goes_back_starts_the_watch_anew() -> None:
    watched = watch()

    see_each(watched, [(20, known()), (10, known())])

    assert watched.watched_for(NOON + seconds(10)) == timedelta()


def test_idleness_counts_from_the_first_reading_that_says_so_and_ends_with_a_job() -> None:
    watched = watch()
    both, one = frozenset({"a", "b"}), frozenset({"a"})

    see_each(watched, [(0, known(idle=both)), (5, known(idle=one)), (10, known(idle=both))])

    assert watched.idle_for("a", NOON + seconds(12)) == seconds(12)
    assert watched.idle_for("b", NOON + seconds(12)) == seconds(2)
    assert watched.idle_for("c", NOON + seconds(12)) is None


def test_stale_entries_keep_a_janitor_until_it_had_its_time() -> None:
    watched = watch()
    left = known(stale=1)
    patience = int(JANITOR_PATIENCE.total_seconds())

    see_each(watched, [(at, left) for at in range(0, patience, 20)], staffed=True)

    assert watched.chores(NOON + seconds(patience - 1), left) == 1
    assert watched.chores(NOON + seconds(patience), left) == 0


def test_patience_does_not_run_while_no_worker_is_there_to_clean() -> None:
    watched = watch()
    left = known(stale=1)

    see_each(watched, [(0, left), (20, left)], staffed=False)

    assert watched.chores(NOON + timedelta(days=1), left) == 1


def test_a_janitor_beside_busy_workers_is_part_of_the_peak() -> None:
    watched = watch()

    watched.observe(NOON, known(stale=1), staffed=False, janitor=3)
    watched.observe(NOON + seconds(10), known(), staffed=True)

    assert watched.peak_jobs == 3


def test_the_next_change_is_the_first_instant_that_may_allow_a_lowering() -> None:
    watched = watch()

    see_each(watched, [(0, known(3)), (10, known(idle=frozenset({"a"})))])

    assert watched.next_change(NOON + seconds(10)) == NOON + seconds(15)  # the pop window of pod a
    assert watched.next_change(NOON + seconds(15)) == NOON + seconds(60)  # watched for the calm time
    assert watched.next_change(NOON + seconds(60)) == NOON + seconds(70)  # the peak of 3 leaves the window


def test_before_any_reading_and_after_a_break_there_is_no_demand_and_nobody_idle() -> None:
    watched = watch()
    assert (watched.peak_jobs, watched.watched_for(NOON)) == (0, timedelta())

    see_each(watched, [(0, known(9)), (10, known(4, idle=frozenset({"a"})))])
    watched.forget()

    assert (watched.peak_jobs, watched.idle_for("a", NOON + seconds(10))) == (0, None)
    assert watched.next_change(NOON + seconds(10)) is None


def test_idleness_does_not_outlive_a_gap_in_the_readings() -> None:
    watched = watch()
    idle = known(idle=frozenset({"a"}))

    see_each(watched, [(0, idle), (40, idle)])  # what the worker did for 40 s nobody saw

    assert watched.idle_for("a", NOON + seconds(42)) == seconds(2)


def test_two_readings_of_one_instant_are_no_break() -> None:
    watched = watch()

    see_each(watched, [(0, known(9)), (20, known(1)), (20, known(1))])

    assert (watched.peak_jobs, watched.watched_for(NOON + seconds(20))) == (9, seconds(20))


def test_a_peak_that_comes_again_is_held_from_its_last_reading_alone() -> None:
    watched = watch()

    see_each(watched, [(0, known(9)), (10, known(4)), (20, known(9)), (30, known(4))])

    assert watched.next_change(NOON + seconds(60)) == NOON + seconds(90)
    assert watched.peak_jobs == 9


def test_steady_demand_and_steady_workers_bring_no_change_by_themselves() -> None:
    watched = watch()

    see_each(watched, [(0, known(3)), (20, known(3)), (40, known(3))], staffed=True)
    for at in (0, 20, 40):
        watched.observe_replicas(NOON + seconds(at), 3)

    assert watched.next_change(NOON + seconds(60)) is None


def test_growth_counts_workers_that_any_writer_added_within_a_minute() -> None:
    watched = watch()

    grown = [
        watched.observe_replicas(NOON + seconds(at), to) for at, to in ((0, 2), (10, 5), (20, 4), (30, 6), (70, 6))
    ]

    assert grown == [0, 3, 3, 5, 2]
    assert watched.next_change(NOON + seconds(70)) == NOON + seconds(90)


def test_more_stale_entries_restart_the_patience_and_fewer_do_not() -> None:
    watched = watch()
    patience = int(JANITOR_PATIENCE.total_seconds())
    steps = [(at, known(stale=1 if at < 20 else 3 if at < 60 else 2)) for at in range(0, patience + 20, 20)]

    see_each(watched, steps, staffed=True)

    assert not watched.is_out_of_patience(NOON + seconds(patience + 19))
    assert watched.is_out_of_patience(NOON + seconds(patience + 20))
    assert watched.next_change(NOON + seconds(patience + 10)) == NOON + seconds(patience + 20)


def test_entries_that_were_cleared_leave_no_patience_behind() -> None:
    watched = watch()
    patience = int(JANITOR_PATIENCE.total_seconds())

    see_each(watched, [(0, known(stale=1)), (20, known()), (40, known(stale=1))], staffed=True)

    assert not watched.is_out_of_patience(NOON + seconds(patience + 39))
    see_each(watched, [(60, known())])
    assert not watched.is_out_of_patience(NOON + timedelta(days=1))
    assert watched.next_change(NOON + seconds(120)) is None


def test_jobs_that_are_due_soon_need_a_worker_to_move_them() -> None:
    due = Known(waiting=0, in_transit=0, running=0, due_soon=1)

    assert watch().chores(NOON, due, janitor=4) == 1
