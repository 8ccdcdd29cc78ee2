"""Which pods are marked, unmarked and removed."""

from datetime import timedelta

from controllers.scaler.workers.victims import POP_WINDOW, Spare, VictimPlan, WorkerPod, plan_victims, spare_pods

LONG = timedelta(minutes=3)
JUST_NOW = timedelta(seconds=4.9)


def idle(name: str, idle_for: timedelta = LONG, *, marked: bool = False, mark_seen: bool = True) -> WorkerPod:
    return WorkerPod(name=name, idle_for=idle_for, marked=marked, mark_seen=mark_seen)


def busy(name: str, *, marked: bool = False, mark_seen: bool = True) -> WorkerPod:
    return WorkerPod(name=name, marked=marked, mark_seen=mark_seen)


def pending(name: str, *, marked: bool = False) -> WorkerPod:
    return WorkerPod(name=name, pending=True, marked=marked)


def plan(pods: list[WorkerPod], excess: int, active_jobs: int = 0) -> VictimPlan:
    return plan_victims(pods, excess, spare_pods(pods, active_jobs))


def test_an_idle_pod_is_marked_before_anything_is_lowered() -> None:
    assert plan([idle("a"), busy("b")], excess=1) == VictimPlan(mark=("a",), ready=0)


def test_a_marked_idle_pod_may_go() -> None:
    assert plan([idle("a", marked=True), busy("b")], excess=1) == VictimPlan(ready=1)


def test_a_mark_counts_only_once_the_cluster_shows_it() -> None:
    assert plan([idle("a", marked=True, mark_seen=False)], excess=1).ready == 0


def test_a_pod_idle_for_less_than_the_pop_window_is_no_candidate() -> None:
    assert plan([idle("a", JUST_NOW)], excess=1) == VictimPlan()


def test_a_busy_pod_is_never_marked() -> None:
    assert plan([busy("a"), busy("b")], excess=2) == VictimPlan()


def test_a_marked_pod_that_became_busy_is_unmarked_and_nothing_goes() -> None:
    assert plan([busy("a", marked=True), idle("b", marked=True)], excess=1) == VictimPlan(unmark=("a",), ready=0)


def test_nothing_goes_until_an_unmark_is_seen() -> None:
    pods = [busy("a", mark_seen=False), idle("b", marked=True)]

    assert plan(pods, excess=1).ready == 0


def test_nothing_goes_while_a_marked_pod_is_idle_for_too_short() -> None:
    assert plan([idle("a", JUST_NOW, marked=True), idle("b", marked=True)], excess=1).ready == 0


def test_pending_pods_go_first_and_are_marked_too_for_they_may_start_at_any_moment() -> None:
    assert plan([pending("a"), idle("b")], excess=1) == VictimPlan(mark=("a",))
    assert plan([pending("a", marked=True), idle("b")], excess=1) == VictimPlan(ready=1)


def test_the_longest_idle_are_chosen_and_no_more_than_needed() -> None:
    pods = [idle("a", timedelta(seconds=9)), idle("b", LONG), idle("c", timedelta(seconds=8))]

    assert plan(pods, excess=2).mark == ("b", "a")


def test_a_job_that_no_pod_explains_keeps_every_pod() -> None:
    pods = [idle("a", marked=True), pending("b"), busy("c")]

    assert spare_pods(pods, active_jobs=1) == Spare(pending=1, idle=1)
    assert spare_pods(pods, active_jobs=2) == Spare(pending=0, idle=0)


def test_a_pod_may_go_from_the_end_of_the_pop_window_on() -> None:
    assert plan([idle("a", POP_WINDOW)], excess=1).mark == ("a",)


def test_a_pod_of_which_nothing_is_known_is_busy_and_not_marked() -> None:
    assert plan([WorkerPod("a")], excess=0) == VictimPlan()


def test_a_pending_pod_that_says_idle_already_counts_once() -> None:
    assert spare_pods([WorkerPod("a", pending=True, idle_for=LONG)], active_jobs=0) == Spare(pending=1, idle=0)


def test_in_place_of_a_pod_that_became_busy_another_is_marked() -> None:
    assert plan([busy("a", marked=True), idle("b")], excess=1) == VictimPlan(mark=("b",), unmark=("a",))


def test_a_pod_that_is_marked_already_is_not_marked_again() -> None:
    assert plan([idle("a", marked=True), idle("b")], excess=2) == VictimPlan(mark=("b",), ready=1)


def test_a_mark_that_is_not_seen_yet_holds_back_none_of_those_that_are() -> None:
    pods = [idle("a", marked=True), idle("b", marked=True, mark_seen=False), busy("c")]

    assert plan(pods, excess=1).ready == 1
    assert plan(pods, excess=2).ready == 1
