"""Laws of jobs in whole worlds: the production loop, failing machines, gangs, spot nodes; whatever the seed.

What workers are seen to run, over time, has to be what jobs took and lost: so none is lost, and none runs twice at
once.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import ClusterSeries, Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.run import controlled
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.workers import JobRun, runs_of
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.simulator import HOUR, a_job, a_pool, a_saver, a_stack, a_trace
from tests.counts import count, examples

START = datetime(2026, 6, 1, tzinfo=UTC)
QUIET = Accidents()


@dataclass(frozen=True, slots=True)
class Played:
    runs: list[JobRun]
    series: ClusterSeries
    end_s: float

    @property
    def seen_s(self) -> float:
        """Worker-seconds in which a worker was seen to run."""
        ends = (*self.series.at[1:], self.end_s)
        return sum(n * (b - a) for n, a, b in zip(self.series.running, self.series.at, ends, strict=True))

    @property
    def work_s(self) -> float:
        """Worker-seconds that jobs took, with what was lost and the time in which they saved."""
        return sum(run.members * run.duration_s + run.lost_s + run.saving_s for run in self.runs)


EVERY = 240.0


def stack(saver: CheckpointSettings | None = None) -> StackSettings:
    """`saver`: of both pools, one on spot nodes."""
    pools = {
        "train": a_pool(most=6, checkpoints=saver).model_copy(update={"node_group": "cheap"}),
        "large": a_pool("large", cpu="12", memory="64Gi", gpu=4, most=5, checkpoints=saver),
    }
    groups = {
        "cheap": NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("m7i.2xlarge",), max=6),
        "gpu": NodeGroupSettings(kind=NodeKind.GPU, instance_types=("g5.12xlarge",), max=5),
    }
    plain = a_stack(pools, {})
    return plain.model_copy(update={"node_groups": {**plain.node_groups, **groups}})


def played(jobs: list[Job], accidents: Accidents, seed: int = 0, saver: CheckpointSettings | None = None) -> Played:
    """Two days, with jobs in the first hours: time enough for all of them."""
    strategy, its_stack = Strategy.FIXED_FLEXIBLE, stack(saver)
    trace = a_trace([*jobs, a_job(25 * HOUR, 1.0)])
    setup = replay_setup_of(its_stack, trace, ReplayOptions(start=START, rollouts=False))
    runs = runs_of(setup.jobs)
    world_setup = WorldSetup(
        start=setup.start,
        end_s=setup.end_s,
        seed=seed,
        flags=FLAGS,
        accidents=accidents,
    )
    world = World(cluster_plan(its_stack, strategy), runs, world_setup)
    controlled(setup.config, world, ActionCounts())
    return Played(runs, world.recorder.series(), setup.end_s)


JOBS = st.lists(
    st.builds(
        a_job,
        st.integers(0, 4 * 3600).map(float),
        st.sampled_from([0.1, 5.0, 600.0, 3600.0]),
        gpu=st.sampled_from([0.0, 0.0, 0.3, 4.0, 9.0, 16.0, 20.0]),
        cpu=st.just(4),
    ),
    max_size=15,
)
ACCIDENTS = st.builds(
    Accidents,
    failed_boots=st.sampled_from([0.0, 0.2]),
    slow_boots=st.sampled_from([0.0, 0.5]),
    image_pull_s=st.sampled_from([0.0, 45.0]),
    interruptions_per_hour=st.sampled_from([{}, {"cheap": 0.3}, {"cheap": 0.2, "gpu": 0.1}]),
)


CASES = given(JOBS, ACCIDENTS, st.integers(0, 9999))


def every_job_ends_once(jobs: list[Job], accidents: Accidents, seed: int) -> None:
    result = played(jobs, accidents, seed)

    assert len(result.runs) == len(jobs) + 1
    for run in result.runs:
        assert run.started_at is not None
        assert run.done_at is not None
        assert run.submitted_at <= run.started_at <= run.done_at - run.duration_s + 1e-6
        assert (run.lost_s > 0) <= (run.interruptions > 0)
        assert run.interruptions == 0 or accidents.interruptions_per_hour


def workers_run_what_jobs_took(jobs: list[Job], accidents: Accidents, seed: int) -> None:
    result = played(jobs, accidents, seed)

    if all(run.members == 1 for run in result.runs):
        assert result.seen_s == pytest.approx(result.work_s)
    else:
        assert result.seen_s >= result.work_s * (1 - 1e-9)


@settings(max_examples=examples(25), deadline=None)
@CASES
def test_every_job_ends_once_whatever_fails(jobs: list[Job], accidents: Accidents, seed: int) -> None:
    every_job_ends_once(jobs, accidents, seed)


@settings(max_examples=examples(15), deadline=None)
@CASES
def test_workers_run_for_as_long_as_jobs_took_and_lost_and_members_wait_besides(
    jobs: list[Job], accidents: Accidents, seed: int
) -> None:
    workers_run_what_jobs_took(jobs, accidents, seed)


SAVERS = st.builds(a_saver, every=st.just(EVERY), required=st.booleans(), always=st.booleans())
MISSED = st.sampled_from([0.0, 0.0, 0.5, 1.0])
WITH_SAVES = given(JOBS, ACCIDENTS, MISSED, SAVERS, st.integers(0, 9999))


def no_more_than_an_interval_is_lost(
    jobs: list[Job], accidents: Accidents, missed: float, saver: CheckpointSettings, seed: int
) -> None:
    accidents = replace(accidents, missed_notices=missed)
    result = played(jobs, accidents, seed, saver)

    for run in result.runs:
        assert run.done_at is not None
        assert run.lost_s <= run.interruptions * EVERY * run.members + 1e-6
        told = not accidents.interruptions_per_hour or (saver.required and not missed and run.pool == "train")
        assert not told or run.lost_s == 0
    if all(run.members == 1 for run in result.runs):
        assert result.seen_s == pytest.approx(result.work_s)
    else:
        assert result.seen_s >= result.work_s * (1 - 1e-9)


@settings(max_examples=examples(25), deadline=None)
@WITH_SAVES
def test_a_job_with_checkpoints_loses_an_interval_at_most_and_nothing_when_it_is_told(
    jobs: list[Job], accidents: Accidents, missed: float, saver: CheckpointSettings, seed: int
) -> None:
    no_more_than_an_interval_is_lost(jobs, accidents, missed, saver, seed)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=count(3000, 300), deadline=None)
@CASES
def test_both_laws_hold_in_very_many_worlds(jobs: list[Job], accidents: Accidents, seed: int) -> None:
    every_job_ends_once(jobs, accidents, seed)
    workers_run_what_jobs_took(jobs, accidents, seed)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=count(3000, 300), deadline=None)
@WITH_SAVES
def test_the_law_of_lost_work_holds_in_very_many_worlds(
    jobs: list[Job], accidents: Accidents, missed: float, saver: CheckpointSettings, seed: int
) -> None:
    no_more_than_an_interval_is_lost(jobs, accidents, missed, saver, seed)


def test_a_gang_on_the_stack_waits_for_all_its_nodes_and_runs_on_them_together() -> None:
    gang = played([a_job(60, HOUR, gpu=20, cpu=20)], QUIET).runs[0]

    assert (gang.pool, gang.members, gang.interruptions) == ("large", 5, 0)
    assert gang.started_at is not None
    assert 60 + 120 < gang.started_at < 60 + 600  # a node's boot at least; none of its nodes was there


def test_gangs_that_come_together_run_one_after_the_other_and_none_starves() -> None:
    """Each needs the whole group: side by side they would hold half of it each, for ever."""
    runs = played([a_job(60 + i, HOUR, gpu=20, cpu=20) for i in range(4)], QUIET).runs[:4]

    ends = [run.done_at for run in runs]
    assert all(
        before is not None and run.started_at is not None and run.started_at >= before
        for before, run in zip(ends, runs[1:], strict=False)
    )
    assert ends[-1] is not None


def test_a_gang_larger_than_its_pool_is_no_job_of_the_scene() -> None:
    setup = replay_setup_of(stack(), a_trace([a_job(0, gpu=24, cpu=24), a_job(1)]), ReplayOptions(start=START))

    assert dict(setup.assignment.unfit) == {"too-many-gang-members": 1}
    assert len(setup.jobs) == 1


def test_jobs_of_a_tenth_of_a_second_and_of_thirty_days_are_replayed_and_ties_too() -> None:
    pool = a_pool(longest=31 * 24 * HOUR)
    jobs = [a_job(60, 30 * 24 * HOUR), *(a_job(60, 0.1) for _ in range(3))]
    options = ReplayOptions(days=1, start=START, rollouts=False, strategies=(Strategy.FIXED_FLEXIBLE,))

    replayed = replay(a_stack({"train": pool}, {}), a_trace(jobs), options).strategies["fixed-flexible"]

    assert (replayed.jobs_done, replayed.jobs_unfinished, replayed.jobs_interrupted) == (3, 1, 0)
    assert max(replayed.wait_quantiles_s) < 600
