"""KEDA's loop on the modelled cluster: when it comes, when it goes, whom it kills."""

from datetime import UTC, datetime

from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.keda import keda_controlled
from ebbtide.lab.simulator.strategies.plans import STOCK
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from tests.builders.simulator import HOUR, a_pool, a_stack

START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def kedas_world(jobs: list[tuple[float, float]], until: float, *, least: int = 0) -> tuple[World, list[JobRun]]:
    """Jobs as (submitted, lasts) on one pool, until a second."""
    pool = a_pool().model_copy(update={"min": least})
    stack = a_stack({"train": pool}, {})
    runs = [JobRun(at, lasts, "train") for at, lasts in jobs]
    setup = WorldSetup(start=START, end_s=until, flags=STOCK.autoscaler, safe_stop=False)
    world = World(cluster_plan(stack, Strategy.KEDA_DEFAULTS), runs, setup)
    keda_controlled(controller_config(stack, RedisEndpoint(host="here"), [2026]), world, ActionCounts())
    return world, runs


def test_the_first_job_waits_for_the_next_look_and_gets_one_worker() -> None:
    assert kedas_world([(31.0, HOUR)], 59.9)[0].cluster.replicas("train") == 0
    assert kedas_world([(31.0, HOUR)], 60.1)[0].cluster.replicas("train") == 1


def test_it_then_grows_by_the_autoscalers_steps_to_one_worker_for_each_job() -> None:
    jobs = [(31.0, HOUR)] * 9

    assert [kedas_world(jobs, at)[0].cluster.replicas("train") for at in (75.1, 90.1, 105.1)] == [4, 8, 9]


def test_the_pool_goes_to_zero_at_the_first_look_after_the_cooldown() -> None:
    # Done about 10 s after the worker began; the last look that saw it is within 30 s before that.
    world, [run] = kedas_world([(0.0, 10.0)], 900.0)
    assert run.done_at is not None
    last_seen = run.done_at - run.done_at % 30

    assert kedas_world([(0.0, 10.0)], last_seen + 329.0)[0].cluster.replicas("train") == 1
    assert kedas_world([(0.0, 10.0)], last_seen + 331.0)[0].cluster.replicas("train") == 0
    assert world.cluster.replicas("train") == 0


def test_a_minimum_is_kept() -> None:
    assert kedas_world([], 900.0, least=2)[0].cluster.replicas("train") == 2


def test_a_victim_that_is_busy_is_killed_after_half_a_minute_and_its_job_starts_again() -> None:
    short_and_long = [(0.0, 400.0)] * 8 + [(0.0, 3 * HOUR)] * 2

    _, runs = kedas_world(short_and_long, 8 * HOUR)

    assert sum(run.interruptions for run in runs) > 0
    assert all(run.interruptions == 0 for run in runs[:8])  # the short ones are done before anybody may leave
    assert [run.lost_s > 0 for run in runs] == [run.interruptions > 0 for run in runs]
    assert all(run.done_at is not None for run in runs)
