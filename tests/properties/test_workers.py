"""Laws of the worker decision."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from controllers.scaler.workers.decision import PoolReading, Reason, decide_workers
from controllers.scaler.workers.victims import POP_WINDOW, WorkerPod, plan_victims, spare_pods
from ebbtide.vocabulary.controller_config import PoolPolicy
from tests.builders.controllers import pool_policy

COUNTS = st.integers(0, 60)
SPELLS = st.sampled_from([timedelta(), timedelta(seconds=30), timedelta(minutes=10)])


@st.composite
def policies(draw: st.DrawFn) -> PoolPolicy:
    least = draw(st.integers(0, 10))
    return pool_policy(
        jobs_per_worker=draw(st.integers(1, 5)),
        min_workers=least,
        max_workers=draw(st.integers(max(1, least), 40)),
        stabilization_window=timedelta(minutes=2),
        safe_stop=draw(st.booleans()),
    )


@st.composite
def readings(draw: st.DrawFn) -> PoolReading:
    now = draw(COUNTS)
    workers = draw(COUNTS)
    return PoolReading(
        trusted=draw(st.booleans()),
        jobs=now,
        chores=draw(COUNTS),
        peak_jobs=now + draw(COUNTS),
        watched_for=draw(SPELLS),
        busy=draw(st.integers(0, workers)),
        workers=workers,
        floor=draw(st.integers(0, 20)),
        settled=draw(st.booleans()),
        missing=draw(st.integers(-2, 2)),
        held=draw(st.sampled_from([None, Reason.KEPT, Reason.DOUBT])),
        may_add=draw(st.none() | COUNTS),
    )


@given(readings(), st.integers(1, 50), policies())
def test_more_jobs_never_ask_for_fewer_workers(seen: PoolReading, extra: int, policy: PoolPolicy) -> None:
    more = replace(seen, jobs=seen.jobs + extra, peak_jobs=seen.peak_jobs + extra)

    assert decide_workers(more, policy).workers >= decide_workers(seen, policy).workers


@given(readings(), policies())
def test_never_below_the_busy_workers(seen: PoolReading, policy: PoolPolicy) -> None:
    assert decide_workers(seen, policy).workers >= seen.busy


@given(readings(), policies())
def test_untrusted_never_lowers(seen: PoolReading, policy: PoolPolicy) -> None:
    assert decide_workers(replace(seen, trusted=False), policy).workers >= seen.workers


@given(readings(), policies())
def test_growth_stays_within_the_maximum(seen: PoolReading, policy: PoolPolicy) -> None:
    assert decide_workers(seen, policy).workers <= max(seen.workers, policy.max_workers)


@given(readings(), policies())
def test_zero_means_that_nothing_was_seen_for_the_calm_window(seen: PoolReading, policy: PoolPolicy) -> None:
    if seen.workers > 0 and decide_workers(seen, policy).workers == 0:
        assert seen.trusted
        assert (seen.jobs, seen.peak_jobs, seen.chores, seen.busy, seen.floor) == (0, 0, 0, 0, 0)
        assert seen.watched_for >= policy.stabilization_window


@given(readings(), COUNTS, policies())
def test_what_is_held_is_never_lowered_whatever_the_cluster_grants(
    seen: PoolReading, granted: int, policy: PoolPolicy
) -> None:
    held = replace(seen, held=seen.held or Reason.KEPT, granted=granted)

    assert decide_workers(held, policy).workers >= held.workers


@given(readings(), st.integers(1, 60), policies())
def test_growth_stays_within_what_the_cluster_grants_and_the_limit_leaves(
    seen: PoolReading, granted: int, policy: PoolPolicy
) -> None:
    decided = decide_workers(replace(seen, granted=granted), policy).workers

    assert decided <= max(seen.workers, granted)
    if seen.may_add is not None:
        assert decided <= max(seen.workers + seen.may_add, 1)


@given(readings(), st.none() | st.integers(1, 60), policies())
def test_no_limit_keeps_a_pool_with_jobs_at_zero(seen: PoolReading, granted: int | None, policy: PoolPolicy) -> None:
    asleep = replace(seen, workers=0, jobs=max(seen.jobs, 1), granted=granted)

    assert decide_workers(asleep, policy).workers > 0


@st.composite
def pod_lists(draw: st.DrawFn) -> list[WorkerPod]:
    ages = st.sampled_from([None, timedelta(seconds=1), POP_WINDOW, timedelta(minutes=5)])
    pods: list[WorkerPod] = []
    for number in range(draw(st.integers(0, 12))):
        pending = draw(st.booleans())
        idle_for = None if pending else draw(ages)
        marked = not pending and draw(st.booleans())
        seen = draw(st.booleans())
        pods.append(WorkerPod(name=f"p{number}", pending=pending, marked=marked, mark_seen=seen, idle_for=idle_for))
    return pods


@given(pod_lists(), st.integers(0, 12), st.integers(0, 12))
def test_a_plan_touches_only_pods_that_are_proven_idle(pods: list[WorkerPod], excess: int, active_jobs: int) -> None:
    spare = spare_pods(pods, active_jobs)
    plan = plan_victims(pods, min(excess, spare.total), spare)
    by_name = {pod.name: pod for pod in pods}

    assert all(by_name[name].removable for name in plan.mark)
    assert all(by_name[name].idle_for is None for name in plan.unmark)
    assert plan.ready <= min(excess, spare.total)
    assert len(plan.mark) + plan.ready <= excess + sum(pod.marked for pod in pods)
