"""Node-hours of the night by the reason that kept the node."""

from datetime import UTC, datetime

import pytest

from ebbtide.lab.simulator.outcome import Survivors
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import Category
from tests.builders.simulator import HOUR, a_pool, a_stack, a_workload

NOON = datetime(2026, 6, 1, 16, tzinfo=UTC)  # of a Monday in New York, where it closes 7 hours later
NIGHT_H = 13 - 0.25  # from 19:00 to 08:00 less the closing guard


def a_night(workers: int, hours: float = 24) -> dict[str, float]:
    """From noon on: a fixed pod, two services that nobody lets go, and some workers."""
    services = {"head": a_workload(Category.FIXED), "api": a_workload(Category.FLEXIBLE, replicas=2)}
    stack = a_stack({"train": a_pool(cpu="8")}, services)
    world = World(
        cluster_plan(stack, Strategy.FIXED_FLEXIBLE), [], WorldSetup(start=NOON, end_s=hours * HOUR, flags=FLAGS)
    )
    window = controller_config(stack, RedisEndpoint(host="here"), [2026]).window
    survivors = Survivors(world, window, {"head": "fixed", "api": "flexible", "train": "worker"})
    world.scale("train", workers)
    world.timeline.run_until(hours * HOUR)
    return survivors.node_hours()


def test_every_hour_of_a_node_in_the_window_has_one_reason() -> None:
    night = a_night(workers=0)

    assert sum(night.values()) == pytest.approx(2 * NIGHT_H, abs=0.01)  # one fixed node, one flexible
    assert night == pytest.approx(
        {"its group is at its minimum": NIGHT_H, "the budget of api is closed or used up": NIGHT_H}, abs=0.01
    )


def test_a_node_that_a_worker_holds_is_told_from_one_that_a_service_holds() -> None:
    night = a_night(workers=2)

    assert sum(night.values()) == pytest.approx(3 * NIGHT_H, abs=0.01)
    assert night["a worker is there, and workers are never moved"] == pytest.approx(NIGHT_H, abs=0.01)


def test_a_replay_that_ends_at_night_counts_until_its_end() -> None:
    assert a_night(workers=0, hours=10)["its group is at its minimum"] == pytest.approx(10 - 7, abs=0.01)
