"""What a replay costs, in counts: the same for each job, however many there are."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random

import pytest

from controllers.ports import ReconcileReport
from controllers.scaler.loop import run
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.run import play
from ebbtide.lab.simulator.strategies.table import StrategyResults, cluster_plan
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.edges import ActionCounts, SilentJournal, ports_of
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.vocabulary.controller_config import ControllerConfig
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace

JOBS_A_DAY = 40


@dataclass
class Counts(SilentJournal):
    turns: int = 0
    events: int = 0

    def reconciled(self, report: ReconcileReport) -> None:  # noqa: ARG002 - that it came is what counts
        self.turns += 1


def of_days(days: int) -> list[Job]:
    """Two bursts, the same ones on each day."""
    rng = Random(7)
    begins = [hour * HOUR + rng.uniform(0, 60) for hour in (9, 15) for _ in range(JOBS_A_DAY // 2)]
    day = [(begin, rng.uniform(60, 1800)) for begin in begins]
    return [a_job(begin + k * 24 * HOUR, lasts) for k in range(days) for begin, lasts in day]


def played(jobs: list[Job]) -> Counts:
    """No services: what is counted comes from the jobs."""
    setup = replay_setup_of(a_stack(workloads={}), a_trace(jobs), ReplayOptions())
    counts = Counts()

    def control(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
        run(config, replace(ports_of(world, tally), journal=counts))
        counts.events = world.timeline.events

    result = play(StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE), control)
    assert result.jobs_done == len(jobs)
    return counts


@cache
def few() -> Counts:
    return played(of_days(5))


@cache
def many() -> Counts:
    return played(of_days(20))


def test_a_job_makes_as_many_events_in_a_long_replay_as_in_a_short_one() -> None:
    assert many().events / 20 == pytest.approx(few().events / 5, rel=0.1)


def test_a_job_makes_as_many_turns_in_a_long_replay_as_in_a_short_one() -> None:
    assert many().turns / 20 == pytest.approx(few().turns / 5, rel=0.1)


def test_a_day_without_jobs_has_little_more_than_a_turn_an_hour() -> None:
    """The sweeps, and the hours that open and close."""
    one, with_quiet_days = played([a_job(0.0)]), played([a_job(0.0), a_job(11 * 24 * HOUR)])

    assert with_quiet_days.turns - 2 * one.turns < 11 * 30
    assert with_quiet_days.events - 2 * one.events < 11 * 30


def test_a_pool_with_a_drain_target_is_read_every_minute() -> None:
    """How long the head of a queue waits changes without an event."""
    targeted = {
        "train": a_pool().model_copy(update={"drain_within": timedelta(minutes=5), "job_takes": timedelta(minutes=1)})
    }
    setups = [replay_setup_of(a_stack(workers), a_trace([a_job(0.0)]), ReplayOptions()) for workers in (None, targeted)]

    assert [setup.config.resync for setup in setups] == [timedelta(hours=1), timedelta(minutes=1)]


@pytest.mark.parametrize("jobs", [10, 10_000])
def test_jobs_that_are_far_away_are_not_planned_yet(jobs: int) -> None:
    world_setup = WorldSetup(start=datetime(2026, 6, 1, tzinfo=UTC), end_s=1e6)
    runs = [JobRun(100.0 * i, 10.0, "train") for i in range(1, jobs)]

    world = World(cluster_plan(a_stack(), Strategy.FIXED_FLEXIBLE), runs, world_setup)

    assert world.timeline.pending < 20
