"""A driver in its pool: what of its tasks is left when its worker is told to stop, or is lost."""

from random import Random

import pytest

from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.gangs import largest_gangs
from ebbtide.lab.simulator.world.ray.drives import JOIN_S, Drive, DriveEdges
from ebbtide.lab.simulator.world.ray.lines import Line
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayWork, Size
from ebbtide.lab.simulator.world.saves import Saves
from ebbtide.lab.simulator.world.workers import JobRun, PoolEdges, PoolQueue, WorkerTimes
from ebbtide.settings.model import StackSettings
from tests.builders.simulator import HOUR, a_driver, a_pool, a_ray_group, a_stack, with_ray

SIZE = Size(cpu_m=1000, memory_mib=1024)
GROUP = RayGroupPlan(
    worker=WorkloadModel(name="ray flow/cpu", category="worker", cpu_m=1000, memory_mib=1024),
    size=SIZE,
    min=0,
    max=1,
    idle_after_s=120.0,
)
SAVES = Saves(every_s=60.0, takes_s=10.0)
FIVE = RayWork(group="ray flow/cpu", size=SIZE, task_s=100.0, tasks=5)
AT_ONCE = WorkerTimes(pop_s=0.0, window_s=(0.0, 0.0), idle_exit_s=0.0)


class Pool:
    """One Ray worker that stays, and drivers' workers that somebody else starts and kills."""

    def __init__(self, saves: Saves | None) -> None:
        self.timeline = Timeline()
        self.line = Line(self.timeline, GROUP, changed=lambda: None, exited=lambda _: None)
        self.line.started("ray-1")
        edges = PoolEdges(changed=lambda: None, exited=self.leave, drive=self.drive)
        self.queue = PoolQueue(self.timeline, Random(1), edges, times=AT_ONCE, saves=saves)
        self.job = JobRun(0.0, 500.0, "drive", ray=FIVE)
        self.queue.started("one")
        self.queue.enqueue(self.job)

    def drive(self, work: RayWork, kept: int, edges: DriveEdges) -> Drive:
        return Drive(self.timeline, self.line, work, edges, lambda _: None, kept)

    def leave(self, pod: str) -> None:
        self.queue.gone(pod)

    def ends(self) -> float:
        """With a second worker from now on."""
        self.queue.started("two")
        self.timeline.run_until(5000.0)
        assert self.job.done_at is not None
        return self.job.done_at


def test_a_driver_starts_with_its_first_task_and_ends_with_its_last_one() -> None:
    pool = Pool(None)
    pool.timeline.run_until(5000.0)

    assert (pool.job.started_at, pool.job.done_at) == (JOIN_S, JOIN_S + 500.0)
    assert (pool.job.interruptions, pool.job.saving_s) == (0, 0.0)


def test_told_to_stop_it_saves_and_keeps_the_tasks_that_have_ended() -> None:
    """Two have ended, and 40 s of the third are lost."""
    pool = Pool(SAVES)
    pool.timeline.run_until(JOIN_S + 240.0)
    assert pool.queue.stop("one") is None
    done_at = pool.ends()
    counts = pool.line.counts

    assert done_at == JOIN_S + 240.0 + SAVES.takes_s + JOIN_S + 300.0
    assert (counts.done, counts.lost_s, counts.redone_s) == (5, 40.0, 0.0)
    assert (pool.job.interruptions, pool.job.resumes, pool.job.saving_s, pool.job.lost_s) == (1, 1, 10.0, 0.0)


def test_lost_it_keeps_what_had_ended_by_its_last_save() -> None:
    """It ran for 225 s, so its last save was 180 s after its begin, when one task had ended."""
    pool = Pool(SAVES)
    pool.timeline.run_until(225.0)
    pool.queue.gone("one")
    done_at = pool.ends()
    counts = pool.line.counts

    assert done_at == 225.0 + JOIN_S + 400.0
    assert (counts.done, counts.lost_s, counts.redone_s) == (6, 15.0, 100.0)
    assert pool.job.lost_s == 45.0


def test_lost_without_checkpoints_it_begins_anew() -> None:
    pool = Pool(None)
    pool.timeline.run_until(JOIN_S + 240.0)
    pool.queue.gone("one")
    done_at = pool.ends()
    counts = pool.line.counts

    assert done_at == JOIN_S + 240.0 + JOIN_S + 500.0
    assert (counts.done, counts.lost_s, counts.redone_s) == (7, 40.0, 200.0)
    assert (pool.job.resumes, pool.job.lost_s) == (0, JOIN_S + 240.0)


def gpu_stack(*, driven: bool = True, vision: bool = True, most: int = 4) -> StackSettings:
    pools = {"drive": a_driver() if driven else a_pool("drive")}
    if vision:
        pools["vision"] = a_pool("vision", gpu=1, most=3, longest=HOUR)
    return with_ray(a_stack(pools, {}), {"gpu": a_ray_group(gpu=1, most=most), "cpu": a_ray_group()})


@pytest.mark.parametrize(
    ("stack", "largest"),
    [
        (gpu_stack(), {"ray flow/gpu": 4}),  # longer jobs than those of the pool beside it
        (gpu_stack(most=2), {"ray flow/gpu": 2}),
        (gpu_stack(most=9), {"ray flow/gpu": 4}),  # as many nodes as there may be
        (gpu_stack(driven=False), {"vision": 3}),
        (gpu_stack(driven=False, vision=False), {}),  # nobody asks anything of the group
    ],
)
def test_one_pool_or_group_of_a_node_group_runs_gangs(stack: StackSettings, largest: dict[str, int]) -> None:
    assert {name: most for name, most in largest_gangs(stack).items() if most} == largest
