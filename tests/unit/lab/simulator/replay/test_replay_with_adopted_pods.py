"""Replays of stacks with adopted pods: fixed, flexible, and workers that nothing moves."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest

from ebbtide.lab.simulator.cluster import Eviction
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Replay, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan, world_setup_of
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.workers import runs_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import AdoptedSettings
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace

MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - local time of the customer
TRACE = a_trace([a_job(10 * HOUR + 60.0 * n, 3600.0, cpu=4) for n in range(20)] + [a_job(47 * HOUR, 60.0)])
OPENS, CLOSES = 8, 19  # o'clock


def a_rule(category: str, **keys: Any) -> AdoptedSettings:
    size = {"cpu": "6", "memory": "8Gi", "gpu": 0}
    return AdoptedSettings.model_validate(
        {"namespace": "team", "selector": {"app": category}, "category": category, **size, **keys}
    )


def stack(**rules: AdoptedSettings) -> StackSettings:
    return a_stack({"train": a_pool()}, {}).model_copy(update={"adopted": rules})


def evictions(settings: StackSettings) -> list[Eviction]:
    """From ten o'clock on. The pods come an hour later, when jobs leave room for one of them on each node."""
    jobs = [a_job(0.0, 3 * HOUR, cpu=4) for _ in range(6)]
    setup = replay_setup_of(settings, a_trace(jobs), ReplayOptions(days=1, start=MONDAY.replace(hour=10)))
    strategy = Strategy.FIXED_FLEXIBLE
    plan = cluster_plan(settings, strategy)
    later = replace(plan, workloads=tuple((pods, 0) for pods, _ in plan.workloads))
    world = World(later, runs_of(setup.jobs), world_setup_of(setup, strategy))
    for pods, count in plan.workloads:
        world.timeline.at(HOUR, lambda name=pods.name, count=count: world.cluster.scale(name, count))
    controlled(setup.config, world, ActionCounts())
    return world.cluster.evictions


@cache
def two_days(settings_of: str) -> Replay:
    rules = {"": {}, "users": {"users": a_rule("worker", usually=3)}, "hub": {"hub": a_rule("fixed", replicas=1)}}
    return replay(stack(**rules[settings_of]), TRACE, ReplayOptions(days=2, start=MONDAY))


def fixed_flexible(settings_of: str) -> StrategyResult:
    return two_days(settings_of).strategies[Strategy.FIXED_FLEXIBLE]


@pytest.mark.parametrize("count", ["replicas", "pods"])
def test_flexible_pods_are_moved_at_night_and_fixed_ones_and_workers_never(count: str) -> None:
    moved = evictions(
        stack(
            web=a_rule("flexible", cpu="3", **{count: 2}),
            hub=a_rule("fixed", cpu="3", replicas=1),
            users=a_rule("worker", cpu="1", usually=1),
        )
    )

    assert moved
    assert {eviction.workload for eviction in moved} == {"web"}
    assert {(10 + eviction.at // HOUR) % 24 for eviction in moved}.isdisjoint(range(OPENS, CLOSES))


def test_workers_keep_their_nodes_at_night_and_the_result_says_whose() -> None:
    alone, with_users = fixed_flexible(""), fixed_flexible("users")
    reason = "adopted worker pods of users are there, and they are never moved"

    assert with_users.survivors[reason] > 0
    assert reason not in alone.survivors
    assert (with_users.usd or 0) > (alone.usd or 0)


@pytest.mark.parametrize("strategy", DEFAULT_STRATEGIES)
def test_every_strategy_pays_for_them(strategy: Strategy) -> None:
    without, with_users = (two_days(rules).strategies[strategy] for rules in ("", "users"))

    assert with_users.node_hours > without.node_hours
    assert with_users.jobs_unfinished == without.jobs_unfinished == 0


def test_fixed_pods_need_fixed_nodes() -> None:
    hub = cluster_plan(stack(hub=a_rule("fixed", cpu="3", replicas=2)), Strategy.FIXED_FLEXIBLE)

    ((pods, replicas),) = hub.workloads
    assert (pods.groups, replicas, pods.pdb_max_unavailable) == (frozenset({"fixed"}), 2, 0)


def test_the_pool_of_a_rule_runs_the_jobs_of_its_queue() -> None:
    pool = {"source": {"queues": ["etl"]}, "max": 4, "longest_job": timedelta(hours=2), "safe_stop": True}
    jobs = a_trace([a_job(600.0 * n, 600.0, queue="etl") for n in range(12)])
    loader = AdoptedSettings.model_validate(
        {"namespace": "team", "selector": {"app": "loader"}, "cpu": "4", "memory": "8Gi", "gpu": 0, "pool": pool}
    )
    result = replay(
        stack(loader=loader), jobs, ReplayOptions(days=1, start=MONDAY, strategies=(Strategy.FIXED_FLEXIBLE,))
    ).strategies[Strategy.FIXED_FLEXIBLE]

    assert (result.jobs_done, result.jobs_interrupted, [*result.pools]) == (12, 0, ["loader"])
    assert result.scale_downs_to_zero


def test_they_are_never_deployed() -> None:
    setup = replay_setup_of(stack(web=a_rule("flexible", replicas=3)), TRACE, ReplayOptions(days=2, start=MONDAY))

    assert setup.rollouts == ()


def test_the_assumptions_name_them() -> None:
    text = " ".join(two_days("users").assumptions)

    assert "Adopted pods (users 3) run all the time" in text
    assert "Pods of users stay on their flexible nodes" in text
    assert "dopted" not in " ".join(two_days("").assumptions)


def test_an_adopted_pool_is_replayed_like_a_pool_of_the_stack() -> None:
    own = a_pool(cpu="6", memory="8Gi")
    keys = {"source": {"queues": ["train"]}, "max": 10, "longest_job": own.longest_job, "safe_stop": True}
    adopted = AdoptedSettings.model_validate(
        {"namespace": "team", "selector": {"app": "train"}, "cpu": "6", "memory": "8Gi", "pool": keys}
    )
    options = ReplayOptions(days=2, start=MONDAY)

    theirs = replay(a_stack({}, {}).model_copy(update={"adopted": {"train": adopted}}), TRACE, options)
    ours = replay(a_stack({"train": own}, {}), TRACE, options)
    assert theirs.strategies == ours.strategies
    assert theirs.assumptions == ours.assumptions


def test_a_chart_that_sleeps_needs_no_node_at_night() -> None:
    sleep = {"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "web"}}
    options = ReplayOptions(days=2, start=MONDAY, strategies=(Strategy.FIXED_FLEXIBLE,))
    awake, asleep = (
        replay(stack(web=a_rule("flexible", replicas=2, **keys)), TRACE, options) for keys in ({}, {"sleep": sleep})
    )

    hours = [it.strategies[Strategy.FIXED_FLEXIBLE].node_hours for it in (awake, asleep)]
    assert hours[1] < hours[0] - 10
    assert any(sentence.startswith("web: asleep by the workload") for sentence in asleep.assumptions)
    assert "Adopted pods (web 2) run all the time, except while they sleep," in " ".join(asleep.assumptions)
