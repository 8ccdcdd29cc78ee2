"""Tasks in front of a group of Ray workers: who starts when, and what a lost or stopping worker does to them."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.lab.simulator.timeline import Timeline
from ebbtide.lab.simulator.world.ray.drives import JOIN_S, Drive, DriveEdges
from ebbtide.lab.simulator.world.ray.lines import EXIT_S, Line, Task, workers_lacking
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayWork, Size

WORKER = Size(cpu_m=4000, memory_mib=16384, gpu=1)
GROUP = RayGroupPlan(
    worker=WorkloadModel(name="ray flow/cpu", category="worker", cpu_m=4000, memory_mib=16384, gpu=1),
    size=WORKER,
    min=0,
    max=8,
    idle_after_s=120.0,
)


def work(
    cores: int = 1, lasts: float = 10.0, *, gpu: int = 0, members: int = 1, tasks: int = 1, at_once: int = 1
) -> RayWork:
    size = Size(cpu_m=1000 * cores, memory_mib=1024, gpu=gpu)
    return RayWork(group="ray flow/cpu", size=size, task_s=lasts, members=members, tasks=tasks, at_once=at_once)


@dataclass
class Scene:
    """A group whose workers somebody else starts and kills."""

    workers: int = 1
    timeline: Timeline = field(default_factory=Timeline)
    begun: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    ended: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    left: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def __post_init__(self) -> None:
        self.line = Line(self.timeline, GROUP, changed=lambda: None, exited=self._exited)
        for number in range(self.workers):
            self.line.started(f"w{number}")

    def _exited(self, pod: str) -> None:
        self.left.append((pod, self.timeline.now))
        self.line.gone(pod)

    def ask(self, name: str, its: RayWork) -> Task:
        return self.line.request(
            its,
            began=lambda: self.begun.append((name, self.timeline.now)),
            ended=lambda _: self.ended.append((name, self.timeline.now)),
        )

    def at(self, seconds: float) -> None:
        self.timeline.run_until(seconds)


def test_tasks_share_a_worker_as_far_as_it_has_room_and_the_next_one_waits() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.ask(name, work(2))
    scene.at(30)

    assert scene.begun == [("a", 0), ("b", 0), ("c", 10)]
    assert scene.ended[-1] == ("c", 20)


def test_a_small_task_does_not_pass_a_large_one_that_came_first() -> None:
    scene = Scene()
    scene.ask("a", work(3))
    scene.ask("large", work(4))
    scene.ask("small", work(1))
    scene.at(30)

    assert scene.begun == [("a", 0), ("large", 10), ("small", 20)]


def test_gpus_are_handed_out_beside_cores() -> None:
    scene = Scene()
    scene.ask("a", work(1, gpu=1))
    scene.ask("b", work(1, gpu=1))
    scene.at(15)

    assert scene.begun == [("a", 0), ("b", 10)]


def test_a_gang_starts_when_all_its_members_have_a_place() -> None:
    scene = Scene(workers=2)
    scene.ask("a", work(4, lasts=5))
    scene.ask("gang", work(4, members=2))
    scene.at(30)

    assert scene.begun == [("a", 0), ("gang", 5)]
    assert scene.line.counts.done_s == 5 + 2 * 10


def test_a_worker_that_is_told_to_stop_ends_its_task_takes_nothing_new_and_goes() -> None:
    scene = Scene()
    scene.ask("a", work(1))
    scene.at(4)
    lasts = scene.line.stop("w0")
    scene.ask("b", work(1))
    scene.at(30)

    assert lasts is None
    assert scene.ended == [("a", 10)]
    assert scene.left == [("w0", 10 + EXIT_S)]
    assert scene.begun == [("a", 0)]


def test_an_idle_worker_that_is_told_to_stop_says_when_it_exits() -> None:
    assert Scene().line.stop("w0") == EXIT_S


def test_a_task_whose_worker_is_lost_runs_again_before_what_came_later() -> None:
    scene = Scene()
    scene.ask("a", work(4))
    scene.ask("b", work(4))
    scene.at(4)
    scene.line.gone("w0")
    scene.line.started("w1")
    scene.at(40)

    assert scene.begun == [("a", 0), ("a", 4), ("b", 14)]
    assert (scene.line.counts.interrupted, scene.line.counts.lost_s) == (1, 4.0)
    assert scene.line.counts.waits == [0.0, 14.0]


def test_a_gang_that_loses_one_worker_begins_anew_and_loses_what_all_members_ran() -> None:
    scene = Scene(workers=3)
    scene.ask("gang", work(4, members=2))
    scene.at(6)
    scene.line.gone("w0")
    scene.at(30)

    assert scene.ended == [("gang", 16)]
    assert scene.line.counts.lost_s == 12.0


def test_a_cancelled_task_frees_its_place_and_one_that_waits_leaves_the_line() -> None:
    scene = Scene()
    first, second = scene.ask("a", work(4)), scene.ask("b", work(4))
    scene.ask("c", work(4))
    scene.at(3)
    scene.line.cancel(second)
    scene.line.cancel(first)
    scene.at(20)

    assert scene.begun == [("a", 0), ("c", 3)]
    assert (scene.line.counts.cancelled, scene.line.counts.lost_s) == (2, 3.0)


@pytest.mark.parametrize(
    ("asked", "there", "coming", "lacking"),
    [
        ([], 0, 0, 0),
        ([work(1)] * 4, 0, 0, 1),
        ([work(1)] * 5, 0, 0, 2),
        ([work(1)] * 5, 1, 0, 1),  # four run, one waits
        ([work(1)] * 5, 0, 2, 0),
        ([work(4, members=3)], 1, 1, 1),
        ([work(1, gpu=1)] * 3, 0, 1, 2),
        ([work(1)] * 400, 0, 0, 8),
    ],
)
def test_the_autoscaler_counts_the_workers_that_would_give_each_task_a_place(
    asked: list[RayWork], there: int, coming: int, lacking: int
) -> None:
    scene = Scene(workers=there)
    for its in asked:
        scene.ask("a", its)
    scene.at(0)

    assert workers_lacking(scene.line, coming) == lacking


def drive(scene: Scene, its: RayWork, kept: int = 0) -> Drive:
    edges = DriveEdges(
        began=lambda: scene.begun.append(("first", scene.timeline.now)),
        ended=lambda: scene.ended.append(("driver", scene.timeline.now)),
    )
    result = Drive(scene.timeline, scene.line, its, edges, lambda by: scene.left.append(("attached", by)), kept)
    result.begin()
    return result


def test_a_driver_asks_for_the_next_task_when_one_has_ended() -> None:
    scene = Scene(workers=2)
    drive(scene, work(4, tasks=5, at_once=2))
    scene.at(100)

    assert scene.ended == [("driver", JOIN_S + 30)]
    assert scene.left == [("attached", 1), ("attached", -1)]
    assert max(scene.line.counts.waits) == 0


def test_a_driver_that_goes_cancels_its_tasks_and_keeps_those_that_had_ended_by_its_last_save() -> None:
    scene = Scene()
    its = drive(scene, work(4, tasks=5))
    scene.at(JOIN_S + 25)
    its.withdraw()

    assert its.keep(JOIN_S + 12) == 1
    assert (scene.line.counts.lost_s, scene.line.counts.redone_s) == (5.0, 10.0)
    assert scene.line.running == len(scene.line.waiting) == 0


def test_a_driver_that_goes_before_it_joined_asks_for_nothing() -> None:
    scene = Scene()
    drive(scene, work(1)).withdraw()
    scene.at(100)

    assert scene.begun == []


WORKS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.builds(
            work,
            st.integers(1, 4),
            st.sampled_from([0.0, 3.0, 40.0]),
            gpu=st.integers(0, 1),
            members=st.integers(1, 3),
            tasks=st.integers(1, 4),
            at_once=st.integers(1, 4),
        ),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(WORKS, st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=6))
def test_whatever_workers_are_lost_every_task_is_done_once_and_no_worker_holds_more_than_it_has(
    asked: list[tuple[int, RayWork]], fates: list[tuple[int, bool]]
) -> None:
    """A lost or stopped worker is replaced, so that the line always comes to its end."""
    scene = Scene(workers=3)
    for at, its in asked:
        scene.timeline.at(at, lambda its=its: drive(scene, its) and None)

    def strike(number: int, hard: bool) -> None:
        ready = scene.line.ready
        if ready:
            pod = ready[0].pod
            if hard or scene.line.stop(pod) is not None:
                scene.line.gone(pod)
            scene.line.started(f"new{number}")

    for number, (at, hard) in enumerate(fates):
        scene.timeline.at(at, lambda number=number, hard=hard: strike(number, hard))
    while (upcoming := scene.timeline.next_time()) is not None:
        scene.at(upcoming)
        for worker in scene.line.workers.values():
            assert min(worker.cpu_m, worker.memory_mib, worker.gpu) >= 0
            assert (worker.idle_since is None) == bool(worker.tasks)
    counts = scene.line.counts

    assert len([name for name, _ in scene.ended if name == "driver"]) == len(asked)
    assert counts.done == sum(its.tasks for _, its in asked)
    assert counts.done_s == pytest.approx(sum(its.work_s for _, its in asked))
    assert (counts.redone_s, counts.cancelled) == (0, 0)
    for worker in scene.line.ready:
        assert (worker.cpu_m, worker.memory_mib, worker.gpu) == (WORKER.cpu_m, WORKER.memory_mib, WORKER.gpu)
