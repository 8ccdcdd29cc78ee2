"""Proof 3: what the Eviction API grants of a rendered stack, by day and in the window, asked as the autoscaler does."""

from collections.abc import Iterator

import pytest
from control_plane.binaries import how_to_get, missing

from controllers.adapters.kube_api import ApiError
from ebbtide.vocabulary.labels import WORKER_NAMESPACE, Category
from tests.builders_control_plane import eventually
from tests.builders_evictions import PATIENCE, POOL, Town, end_of, path_of, town

pytestmark = pytest.mark.control_plane

GRANTED, REFUSED, FORBIDDEN = 201, 429, 403
OWN_GRACE = 168 * 3600 + 120  # of the demo's workers: their longest job, and two minutes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with town(tmp_path_factory.mktemp("town")) as found:
        yield found


# --- by day, and in the window ----------------------------------------------------------------------------------------


def test_by_day_no_running_pod_of_the_stack_may_be_evicted(demo: Town) -> None:
    demo.make_day()

    for category, pods in ((Category.FIXED, 7), (Category.FLEXIBLE, 19), (Category.WORKER, 3)):
        running = demo.pods(category)
        assert len(running) == pods
        assert demo.evict_all(running) == {REFUSED}


def test_in_the_window_flexible_pods_go_one_at_a_time(demo: Town) -> None:
    demo.make_night()
    first, second, third = demo.pods(Category.FLEXIBLE, "api")
    demo.plane.suspend("kwok")  # so that no replacement can get ready
    try:
        assert demo.evict(first) == GRANTED
        assert demo.evict_all([second, third]) == {REFUSED}
    finally:
        demo.plane.resume("kwok")

    eventually(
        lambda: demo.budget("api")["status"]["disruptionsAllowed"] == 1,
        what="the replacement to be ready",
        patience=PATIENCE,
    )
    assert demo.evict(second) == GRANTED


def test_in_the_window_fixed_pods_and_workers_still_stay(demo: Town) -> None:
    demo.make_night()

    assert demo.evict_all(demo.pods(Category.FIXED)) == {REFUSED}
    assert demo.evict_all(demo.pods(Category.WORKER)) == {REFUSED}


def test_when_the_day_begins_flexible_pods_stay_again(demo: Town) -> None:
    demo.make_night()
    demo.make_day()

    assert demo.evict_all(demo.pods(Category.FLEXIBLE)) == {REFUSED}


# --- pods that are not ready ------------------------------------------------------------------------------------------


def test_by_day_an_unready_flexible_pod_may_go_and_its_ready_siblings_may_not(demo: Town) -> None:
    demo.make_day()
    broken, *ready = demo.pods(Category.FLEXIBLE, "model-serving")
    demo.break_down(broken)

    assert demo.evict_all(ready) == {REFUSED}
    assert demo.evict(broken) == GRANTED


@pytest.mark.parametrize(("category", "workload"), [(Category.FIXED, "ray-head"), (Category.WORKER, POOL)])
def test_an_unready_pod_that_may_hold_state_or_a_job_stays(demo: Town, category: Category, workload: str) -> None:
    pod = demo.pods(category, workload)[0]
    demo.break_down(pod)
    try:
        assert demo.evict(pod) == REFUSED
    finally:
        demo.say(pod, ready=True)


# --- workers that were told to stop -----------------------------------------------------------------------------------


def test_evicting_a_stopping_worker_leaves_it_its_grace(demo: Town) -> None:
    worker = demo.stop_one_worker()
    end = end_of(worker)
    assert end[1] == OWN_GRACE

    answers = [demo.evict(worker, grace=grace) for grace in (None, OWN_GRACE, OWN_GRACE + 300, OWN_GRACE - 1, 60, 0)]

    assert answers == [GRANTED, GRANTED, GRANTED, FORBIDDEN, FORBIDDEN, FORBIDDEN]
    assert end_of(demo.plane.api.get(path_of(worker))) == end


def test_the_refusal_says_what_to_do(demo: Town) -> None:
    worker = demo.pods(Category.WORKER)[0]
    eviction = {"metadata": {"name": worker["metadata"]["name"]}, "deleteOptions": {"gracePeriodSeconds": 60}}

    with pytest.raises(ApiError, match=f"may need {OWN_GRACE} s to end its job: evict it with that grace, or with"):
        demo.plane.api.create(f"{path_of(worker)}/eviction", eviction)


def test_without_our_policy_the_api_server_would_shorten_it(demo: Town) -> None:
    binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/ebbtide-evictions"
    kept = demo.plane.api.get(binding)
    worker = demo.stop_one_worker()
    demo.plane.api.delete(binding)
    try:
        eventually(lambda: demo.evict(worker, grace=60) == GRANTED, what="the policy to be gone", patience=PATIENCE)
        assert end_of(demo.plane.api.get(path_of(worker)))[1] == 60
    finally:
        kept["metadata"] = {"name": kept["metadata"]["name"]}
        demo.plane.api.create(binding.rpartition("/")[0], kept)


def test_the_policy_is_for_workers_alone(demo: Town) -> None:
    flexible = demo.pods(Category.FLEXIBLE)[0]
    demo.make_day()

    assert flexible["metadata"]["namespace"] != WORKER_NAMESPACE
    assert demo.evict(flexible, grace=60) == REFUSED
