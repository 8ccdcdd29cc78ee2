"""Whole replays of stacks with jobs and cron jobs: what they do to nodes, money and the strategies beside."""

from dataclasses import replace
from datetime import datetime
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, ClusterSeries, Replay, Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.constant import fleet_groups
from ebbtide.lab.simulator.strategies.plans import MIXED
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.schedules import Busy
from ebbtide.lab.simulator.world.workers import runs_of
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.jobs import Concurrency
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, a_cron_job, a_job, a_one_off, a_pool, a_stack, a_trace, a_workload, with_jobs
from tests.counts import examples

MONDAY = datetime(2026, 6, 1)  # noqa: DTZ001 - local time of the customer
OPTIONS = ReplayOptions(days=1, start=MONDAY)
TRACE = a_trace([a_job(10 * HOUR, 600.0)])


@cache
def plain() -> StackSettings:
    return a_stack({"train": a_pool()}, {"head": a_workload(Category.FIXED)})


@cache
def quiet() -> Replay:
    return replay(plain(), TRACE, OPTIONS)


@cache
def nightly() -> Replay:
    """Twelve of the sixteen cores of a flexible node from two to four."""
    return replay(with_jobs(plain(), {}, {"report": a_cron_job(cpu="12", takes=2 * HOUR)}), TRACE, OPTIONS)


def flexible_at(series: ClusterSeries, hour: float) -> int:
    return [nodes for at, nodes in zip(series.at, series.nodes["flexible"], strict=True) if at <= hour * HOUR][-1]


def test_a_node_is_there_while_a_cron_job_runs_and_at_no_other_time() -> None:
    series = nightly().strategies["fixed-flexible"].series

    assert [flexible_at(series, hour) for hour in (1.9, 2.1, 3.9, 4.2)] == [0, 1, 1, 0]
    assert [flexible_at(quiet().strategies["fixed-flexible"].series, hour) for hour in (1.9, 2.1, 3.9)] == [0, 0, 0]


@pytest.mark.parametrize("strategy", [each for each in DEFAULT_STRATEGIES if each is not Strategy.ZERO_WAIT_BOUND])
def test_no_strategy_gets_by_on_fewer_nodes_than_without_the_job(strategy: Strategy) -> None:
    assert nightly().strategies[strategy].node_hours >= quiet().strategies[strategy].node_hours


def test_the_product_pays_for_the_two_hours_and_little_more() -> None:
    after, before = (result.strategies["fixed-flexible"].node_hours for result in (nightly(), quiet()))

    assert 2.0 < after - before < 2.2


def test_the_bound_pays_for_the_share_of_a_node_that_the_job_takes() -> None:
    after, before = (result.strategies["zero-wait-bound"].node_hours for result in (nightly(), quiet()))

    assert 1.4 < after - before < 1.7


def test_only_the_jobs_of_the_trace_are_drawn_as_running() -> None:
    beside = with_jobs(plain(), {}, {"report": a_cron_job("0 10 * * *", takes=HOUR)})
    replayed = replay(beside, TRACE, OPTIONS).strategies

    assert {max(result.series.running) for result in replayed.values()} == {1}


def test_a_constant_fleet_has_room_for_the_job_all_day() -> None:
    large = replay(with_jobs(plain(), {}, {"report": a_cron_job(cpu="14", takes=600.0)}), TRACE, OPTIONS)

    for strategy in ("fixed-fleet", "peak-fleet"):
        before, after = (it.strategies[strategy].node_hours_by_group["flexible"] for it in (quiet(), large))
        assert (before, after) == (24.0, 48.0)


def test_pods_of_one_name_are_told_apart() -> None:
    """A service and a job live in namespaces of their own."""
    replayed = replay(with_jobs(plain(), {"head": a_one_off(takes=600.0)}), TRACE, OPTIONS)

    assert flexible_at(replayed.strategies["fixed-flexible"].series, 0.1) == 1


def test_a_replay_says_what_it_takes_for_granted_about_jobs() -> None:
    assert any("A run takes its runTakes: report 2h" in sentence for sentence in nightly().assumptions)
    assert not any("cron jobs" in sentence for sentence in quiet().assumptions)


def test_jobs_go_where_their_group_went() -> None:
    stack = with_jobs(plain(), {}, {"report": a_cron_job()})
    small = with_jobs(plain(), {}, {"report": a_cron_job(cpu="30")})

    assert cluster_plan(stack, Strategy.KEDA_DEFAULTS).jobs[0].node_selector == {"ebbtide.dev/node-group": MIXED}
    assert "flexible" in {group.name for group in cluster_plan(small, Strategy.KEDA_DEFAULTS).groups}


def test_a_fleet_has_room_for_the_jobs_of_each_instant_and_not_for_the_sum_of_all() -> None:
    stack = with_jobs(plain(), {"a": a_one_off(cpu="1"), "b": a_one_off(cpu="2")})
    plan = cluster_plan(stack, Strategy.FIXED_FLEET)

    def guests(*parts: tuple[str, float, float]) -> list[list[tuple[int, int]]]:
        busy = [Busy(workload=f"job {name}", begin=begin, end=end, pods=1) for name, begin, end in parts]
        values = {group.name: group.guests for group in fleet_groups(stack, plan, busy)}
        assert values["fixed"] == ()
        return sorted(sorted((size.cpu, pods) for size, pods in each) for each in values["flexible"])

    assert guests(("a", 0, 10), ("b", 10, 20)) == [[(1000, 1)], [(2000, 1)]]
    assert guests(("a", 0, 10), ("b", 9, 20)) == [[(1000, 1), (2000, 1)]]
    assert guests(("a", 0, 10), ("a", 5, 20)) == [[(1000, 2)]]
    assert guests() == []


@settings(max_examples=examples(8), deadline=None)
@given(
    minute=st.integers(0, 59),
    takes=st.sampled_from([60.0, 3000.0, 3 * HOUR]),
    pods=st.integers(1, 4),
    concurrency=st.sampled_from(Concurrency),
    seed=st.integers(0, 99),
)
def test_whatever_the_cron_job_no_job_is_interrupted_and_no_fleet_is_smaller(
    minute: int, takes: float, pods: int, concurrency: Concurrency, seed: int
) -> None:
    job = a_cron_job(
        f"{minute} */2 * * *",
        takes=takes,
        longest=4 * HOUR,
        completions=pods,
        parallelism=pods,
        concurrency=concurrency,
    )
    few = (Strategy.FIXED_FLEXIBLE, Strategy.FIXED_FLEET, Strategy.PEAK_FLEET, Strategy.ZERO_WAIT_BOUND)
    replayed = replay(with_jobs(plain(), {}, {"report": job}), TRACE, replace(OPTIONS, seed=seed, strategies=few))
    product = replayed.strategies["fixed-flexible"]

    assert (product.jobs_interrupted, product.evictions_in_window, product.evictions_in_business_hours) == (0, 0, 0)
    for strategy in few:
        assert (
            priced(replayed.strategies[strategy].usd_on_demand)
            >= priced(quiet().strategies[strategy].usd_on_demand) - 1e-9
        )


def test_a_job_whose_spot_node_goes_is_not_told_and_its_run_has_failed() -> None:
    """Nobody moves its pod, so nobody tells it; what is left of the run must not end on a node that is gone."""
    cheap = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("m7i.4xlarge",), max=3)
    report = a_cron_job("0 * * * *", cpu="12", takes=0.75 * HOUR, longest=HOUR).model_copy(
        update={"node_group": "cheap"}
    )
    stack = plain().model_copy(update={"node_groups": {**plain().node_groups, "cheap": cheap}})
    setup = replay_setup_of(with_jobs(stack, {}, {"report": report}), TRACE, OPTIONS)
    accidents = Accidents(interruptions_per_hour={"cheap": 1.0})
    at = WorldSetup(start=setup.start, end_s=setup.end_s, jobs=setup.runs, accidents=accidents)
    world = World(cluster_plan(setup.settings, Strategy.FIXED_FLEXIBLE), runs_of(setup.jobs), at)
    controlled(setup.config, world, ActionCounts())
    counts = world.runs.counts

    assert counts.failed > 0
    assert counts.succeeded > 0
    assert 0 <= counts.begun - counts.succeeded - counts.stopped - counts.failed <= 1
