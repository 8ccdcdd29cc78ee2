"""What spot nodes with checkpoints would save: the product on another stack, beside the product on this one."""

from datetime import datetime
from functools import cache
from typing import Any

import pytest

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Replay, Strategy, as_json
from ebbtide.lab.simulator.strategies.on_spot import moved_to_spot
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.prices import on_demand, spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, a_job, a_pool, a_saver, a_stack, a_trace

pytestmark = pytest.mark.whole

START = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - local time of the customer
TODAY, SPOT = "fixed-flexible", "fixed-flexible-spot"


@cache
def plain() -> StackSettings:
    return a_stack({"train": a_pool(), "large": a_pool("large", gpu=1, most=4)})


@cache
def week(**failures: float) -> Replay:
    jobs = [a_job(1800.0 * i, lasts=2 * HOUR + 600 * (i % 9), gpu=i % 4 == 0) for i in range(240)]
    return replay(
        plain(),
        a_trace(jobs),
        ReplayOptions(
            days=5,
            start=START,
            strategies=(Strategy.FIXED_FLEXIBLE, Strategy.FIXED_FLEXIBLE_SPOT),
            rollouts=False,
            failures=Failures(**failures),
        ),
    )


def test_workers_move_to_spot_twins_of_their_groups_and_services_stay() -> None:
    moved = moved_to_spot(plain())

    assert {name: pool.node_group for name, pool in moved.workers.items()} == {
        "train": "flexible-spot",
        "large": "gpu-spot",
    }
    assert {name: group.kind for name, group in moved.node_groups.items() if name not in plain().node_groups} == {
        "flexible-spot": NodeKind.SPOT,
        "gpu-spot": NodeKind.SPOT,
    }
    assert all(moved.stopped_together(pool) for pool in moved.workers.values())
    assert moved_to_spot(moved) == moved


def test_a_pool_keeps_its_interval_saves_within_a_notice_and_stays_where_it_cannot_pause() -> None:
    slow = a_pool(checkpoints=a_saver(every=900, within=600))
    stock = a_pool("stock").model_copy(update={"safe_stop": False})
    moved = moved_to_spot(a_stack({"slow": slow, "stock": stock})).workers

    assert moved["stock"] == stock
    its = moved["slow"].checkpoints
    assert its is not None
    assert (its.required, its.every.total_seconds(), its.save_within.total_seconds()) == (True, 900, 100)


def test_spot_nodes_cost_their_typical_price_and_gpu_pods_alone_may_use_those_with_gpus() -> None:
    plan = cluster_plan(moved_to_spot(plain()), Strategy.FIXED_FLEXIBLE_SPOT)
    groups = {group.name: group for group in plan.groups}

    assert plan.rates["gpu-spot-8x32x1"].usd_per_hour(1) == spot_typical("us-east-1", "g5.2xlarge")
    assert plan.rates["gpu"].usd_per_hour(1) > on_demand("us-east-1", "g5.2xlarge") / 2
    assert groups["gpu-spot-8x32x1"].taints == groups["gpu"].taints != ()
    assert groups["flexible-spot"].taints == ()
    assert (plan.workers["train"].safe_to_evict, plan.workers["train"].pdb_max_unavailable) == (False, 10)


def test_with_spot_and_checkpoints_the_same_jobs_are_done_for_less_and_nothing_is_lost() -> None:
    today, spot = (week(spot_interruptions=100).strategies[name] for name in (TODAY, SPOT))

    assert priced(spot.usd) < 0.75 * priced(today.usd)  # fixed nodes and services are on demand in both
    assert today.jobs_done + today.jobs_unfinished == spot.jobs_done + spot.jobs_unfinished == 240
    assert spot.jobs_interrupted == spot.resumes > 0
    assert (spot.lost_work_s, spot.lost_work_share) == (0, 0)
    assert spot.saving_s > 0
    assert spot.completion_p95_s <= 1.1 * today.completion_p95_s
    assert (today.jobs_interrupted, today.resumes, today.saving_s) == (0, 0, 0)


def test_interruptions_of_which_nobody_is_told_cost_an_interval_each_at_most() -> None:
    spot = week(spot_interruptions=100, missed_notices=1.0).strategies[SPOT]

    assert 0 < spot.lost_work_s <= 300 * spot.jobs_interrupted
    assert 0 < spot.lost_work_share < 0.1


def test_without_a_word_spot_nodes_are_taken_back_at_the_published_rate() -> None:
    result: Any = as_json(week())

    assert result["failures"] == {"spot_interruptions": 1.0}
    assert {"resumes", "saving_s", "lost_work_share", "completion_p95_s"} <= result["strategies"][SPOT].keys()
    assert week().strategies[TODAY].usd == week(spot_interruptions=100).strategies[TODAY].usd


def test_it_is_said_how_often_nodes_are_interrupted_and_how_jobs_save() -> None:
    assumptions = "\n".join(week(spot_interruptions=2).assumptions)

    assert (
        "Each job of train, large opens a checkpoint and saves after every 300 s of work, which takes 10 s"
        in assumptions
    )
    assert "A node of gpu-spot-8x32x1 is interrupted after" in assumptions


@pytest.mark.parametrize(("required", "lost"), [(True, False), (False, True)])
def test_only_where_checkpoints_are_required_workers_on_spot_nodes_are_told(required: bool, lost: bool) -> None:
    moved = moved_to_spot(plain())
    pool = moved.workers["train"].model_copy(update={"checkpoints": a_saver(required=required)})
    stack = moved.model_copy(update={"workers": {"train": pool}})
    jobs = [a_job(60.0 * i, lasts=5 * HOUR) for i in range(10)]  # by day: no budget of a window is open
    options = ReplayOptions(
        days=1,
        start=datetime(2026, 6, 1, 8, 30),  # noqa: DTZ001 - local time of the customer
        strategies=(Strategy.FIXED_FLEXIBLE,),
        rollouts=False,
        failures=Failures(spot_interruptions=4000),
    )
    replayed = replay(stack, a_trace(jobs), options).strategies[TODAY]

    assert replayed.jobs_interrupted > 0
    assert (replayed.lost_work_s > 0) == lost
    assert replayed.lost_work_s <= 300 * replayed.jobs_interrupted
