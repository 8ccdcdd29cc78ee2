"""Laws of the whole loop, on fakes whose caches lag."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.ports import SetBudget
from controllers.scaler.workers.decision import Reason
from tests.builders.controllers import NOON, OFFICE, Bench, RandomWorld, budgets, config, pool_policy, seconds
from tests.counts import examples


def random_bench(seed: int) -> tuple[Bench, RandomWorld]:
    slow = pool_policy(name="train", stabilization_window=seconds(8))
    quick = pool_policy(name="embed", stabilization_window=seconds(3), jobs_per_worker=3)
    bench = Bench(config(slow, quick))
    bench.queues["embed"].names_idle = seed % 4 > 0
    world = RandomWorld(bench, seed)
    bench.cluster.pods_lag = seconds(world.random.choice([0, 0, 0.05, 1, 4]))
    bench.cluster.objects_lag = seconds(world.random.choice([0, 0, 0.05, 1, 4]))
    return bench, world


QUICK = {0, 1, 5}  # in 5 a pod that popped a job a moment ago still reports idle
BLOCKS = [pytest.param(block, marks=() if block in QUICK else pytest.mark.whole) for block in range(10)]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_thousand_random_runs_never_remove_a_busy_worker(block: int) -> None:
    lowered = 0
    for seed in range(block * 100, block * 100 + 100):
        bench, world = random_bench(seed)
        for _ in range(90):
            before = bench.cluster.replicas("embed")
            world.step()
            if world.random.random() < 0.02:
                bench.restart()
            if world.random.random() < 0.8:
                bench.reconcile()
            lowered += bench.cluster.replicas("embed") < before
        assert bench.cluster.removed_busy == [], f"seed {seed}"

    assert lowered > 10  # the runs do shrink: otherwise the law would say nothing


@given(st.integers(0, 2**32))
@settings(max_examples=examples(25), deadline=None)
def test_a_restart_at_any_instant_wants_the_same_in_the_end(seed: int) -> None:
    """Two controllers on the same history, one of them restarted: timers differ for a while, the outcome does not."""
    replicas: list[int] = []
    for restarts in (False, True):
        bench, world = random_bench(seed)
        bench.cluster.pods_lag = bench.cluster.objects_lag = seconds(0)
        for _ in range(30):
            world.step()
            bench.reconcile()
        if restarts:
            bench.restart()
        bench.pass_time(seconds(30))
        replicas.append(bench.cluster.replicas("train"))

    assert replicas[0] == replicas[1]


@given(st.lists(st.integers(1, 5 * 3600), min_size=1, max_size=60), st.integers(0, 100))
@settings(max_examples=examples(60), deadline=None)
def test_budgets_never_open_in_business_hours_and_fixed_ones_are_never_named(pauses: list[int], seed: int) -> None:
    bench = Bench(config(budgets=budgets("api"), resync=timedelta(hours=6)), start=NOON + timedelta(hours=seed))
    bench.cluster.add_budget("api")
    bench.cluster.add_budget("ray-head")
    for pause in pauses:
        bench.clock.advance(seconds(pause))
        bench.reconcile()

    for at, action, _ in bench.journal.actions:
        assert isinstance(action, SetBudget)
        assert action.budget == "api"
        assert action.max_unavailable == 0 or not OFFICE.is_open(at)
    assert bench.cluster.budget("ray-head") == 0


@given(st.lists(st.tuples(st.floats(0.1, 40), st.integers(0, 9)), min_size=5, max_size=40), st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_a_growth_limit_holds_in_every_sliding_minute(arrivals: list[tuple[float, int]], limit: int) -> None:
    bench = Bench(config(pool_policy(growth_per_minute=limit, max_workers=40)))
    raised: list[tuple[datetime, int]] = []
    for pause, jobs in arrivals:
        bench.clock.advance(seconds(pause))
        bench.queues["train"].enqueue(jobs)
        before = bench.cluster.replicas("train")
        bench.reconcile()
        raised.append((bench.clock.now(), bench.cluster.replicas("train") - before))

    for now, _ in raised:
        assert sum(more for at, more in raised if timedelta() <= now - at < timedelta(minutes=1)) <= limit
    assert bench.cluster.replicas("train") > 0 or not any(jobs for _, jobs in arrivals)


@pytest.mark.parametrize("block", range(4))
def test_a_refused_pool_never_loses_a_pod_by_asking_for_less(block: int) -> None:
    """A quota that comes and goes, caches that lag, and a cluster that tells what each lowered ask has cost."""
    lowered = 0
    for seed in range(block * 25, block * 25 + 25):
        bench, world = random_bench(seed)
        bench.cluster.set_quota("train", 2)
        for _ in range(150):
            world.step()
            bench.queues["train"].enqueue(world.random.random() < 0.2)
            if world.random.random() < 0.01:
                bench.cluster.set_quota("train", world.random.choice([1, 3, 6, None]))
            gone, told = len(bench.cluster.removed), len(bench.journal.actions)
            bench.reconcile()
            if any(action.reason == Reason.REFUSED for _, action, _ in bench.journal.actions[told:]):
                lowered += 1
                assert not [pod for pod in bench.cluster.removed[gone:] if pod.startswith("train")], f"seed {seed}"
        assert bench.cluster.removed_busy == [], f"seed {seed}"

    assert lowered > 5
