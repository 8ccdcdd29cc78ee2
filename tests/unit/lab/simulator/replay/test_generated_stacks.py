"""Laws of a day on generated stacks: whatever pods, jobs and disks they have, the promises hold."""

from collections import Counter
from dataclasses import replace
from datetime import datetime

import pytest

from controllers.scaler.loop import run
from ebbtide.lab.simulator.cluster import Pod, StopReason
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import RESYNC, ReplayOptions
from ebbtide.lab.simulator.strategies.plans import FLAGS
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.world.edges import ActionCounts, ports_of
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.ray.drivers import driven_groups
from ebbtide.lab.simulator.world.ray.work import RayWork, workload_of_group
from ebbtide.lab.simulator.world.rollouts import planned_rollouts
from ebbtide.lab.simulator.world.schedules import job_plans
from ebbtide.lab.simulator.world.workers import JobRun
from ebbtide.lab.simulator.world.world import World, WorldSetup
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import zone_of
from ebbtide.vocabulary.workloads import SleepWhen
from tests.builders.generated import stack_text
from tests.builders.simulator import HOUR, a_driver_job, a_job, a_trace

pytestmark = pytest.mark.whole

SEEDS = range(12)
WITH_RAY = (2, 7, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22, 39)  # listed, since pytest would generate them to collect


def generated(seed: int) -> StackSettings:
    return stack_of_text(stack_text(seed), stack="generated", file="Pulumi.generated.yaml")


class Watched(World):
    """Notes what must not be."""

    def begin(self) -> None:
        self.homeless: list[str] = []
        self.broken: list[str] = []
        self.zones: dict[tuple[str, int | None], set[str]] = {}

    def pod_running(self, pod: Pod) -> None:
        super().pod_running(pod)
        if pod.slot is not None and pod.node is not None:
            self.zones.setdefault((pod.workload, pod.slot), set()).add(pod.node.zone)

    def pod_stopping(self, pod: Pod, why: StopReason) -> float | None:
        if pod.workload in self.ray and pod.name in self.busy_of_ray():
            self.broken.append(pod.name)
        return super().pod_stopping(pod, why)

    def busy_of_ray(self) -> set[str]:
        lines = [self.ray.line(group) for group in self.ray.groups]
        return {worker.pod for line in lines for worker in line.workers.values() if worker.tasks}

    def nodes_changed(self) -> None:
        super().nodes_changed()
        if not hasattr(self, "homeless"):
            return
        there = {node.name for node in self.cluster.nodes()}
        for plan in self.setup.jobs:
            for pod in self.cluster.pods(plan.workload):
                if pod.running_since is not None and pod.node is not None and pod.node.name not in there:
                    self.homeless.append(pod.name)


def drivers(settings: StackSettings) -> list[JobRun]:
    """One job for each group that a pool drives, with more tasks than fit at once."""
    result: list[JobRun] = []
    for group in driven_groups(settings.workers, settings.ray):
        work = RayWork(group=group.name, size=group.size, task_s=60.0, tasks=9, at_once=9)
        result.append(JobRun(9 * 3600.0, 540.0, group.pool, ray=work))
    return result


def played(settings: StackSettings, seed: int) -> Watched:
    """A Tuesday in which each pool gets a few jobs in the morning."""
    hours = settings.business_hours
    start = datetime(2027, 6, 1, tzinfo=zone_of(hours.timezone))
    config = replace(controller_config(settings, RedisEndpoint(host="replayed"), [2026, 2027, 2028]), resync=RESYNC)
    jobs = [
        JobRun(9 * 3600.0 + 60 * number, 900.0, pool)
        for pool, spec in settings.workers.items()
        if spec.ray is None
        for number in range(3)
    ]
    jobs += drivers(settings)
    setup = WorldSetup(
        start=start,
        end_s=DAY_S,
        seed=seed,
        flags=FLAGS,
        rollouts=planned_rollouts(settings.workloads, config.hours, start, DAY_S, seed),
        jobs=job_plans(settings, start, DAY_S),
    )
    world = Watched(cluster_plan(settings, Strategy.FIXED_FLEXIBLE), jobs, setup)
    world.begin()
    run(config, ports_of(world, ActionCounts()))
    return world


def test_the_listed_seeds_are_those_with_ray() -> None:
    assert [seed for seed in range(40) if generated(seed).ray] == [*WITH_RAY]


@pytest.mark.parametrize("seed", WITH_RAY)
def test_on_any_stack_with_ray_tasks_end_and_no_group_is_too_large_or_too_small(seed: int) -> None:
    settings = generated(seed)
    world = played(settings, seed)
    asked = Counter(run.ray.group for run in drivers(settings) if run.ray is not None)
    results = world.ray.results(DAY_S)

    assert world.broken == []
    nodes = world.cluster.node_counts()
    for cluster, spec in settings.ray.items():
        for key, group in spec.groups.items():
            name, home = workload_of_group(cluster, key), settings.node_groups[group.node_group]
            line, full = world.ray.line(name), nodes[group.node_group] == home.max
            assert full or line.counts.done == 9 * asked[name]
            assert full or len(line.workers) in (0, group.min)  # none where the cluster sleeps
            assert results[cluster].groups[key].most_workers <= group.max
        sleeps = spec.sleep.when is not SleepWhen.NEVER
        assert (results[cluster].head_hours < 24.0) <= sleeps


@pytest.mark.parametrize("seed", [7, 13, 16])
def test_every_strategy_replays_a_stack_with_ray_whatever_fails(seed: int) -> None:
    settings = generated(seed)
    jobs = [a_job(8 * HOUR + 300 * i, 300.0 + i * 60, cpu=0.5, memory=0.5) for i in range(6)]
    jobs += [a_driver_job(9 * HOUR + 300 * i, 300.0 + i * 60, tasks=1 + i, cpu=1) for i in range(6)]
    failures = Failures(spot_interruptions=20, failed_boots=0.05, missed_notices=0.2)
    options = ReplayOptions(days=1, strategies=tuple(Strategy), failures=failures)
    replayed = replay(settings, a_trace(jobs), options).strategies

    assert len(replayed) == len(Strategy)
    for name, result in replayed.items():
        assert result.jobs_unfinished == 0
        assert set(result.ray) == (set() if name == "zero-wait-bound" else set(settings.ray))


@pytest.mark.parametrize("seed", SEEDS)
def test_on_any_stack_jobs_keep_their_nodes_and_disks_their_zones(seed: int) -> None:
    settings = generated(seed)
    world = played(settings, seed)
    flexible = {name for name, spec in settings.workloads.items() if spec.category is Category.FLEXIBLE}

    assert world.homeless == []
    assert world.broken == []
    assert {eviction.workload for eviction in world.cluster.evictions} <= flexible
    assert all(len(zones) == 1 for zones in world.zones.values())
    assert world.runs.counts.failed == 0


def test_generated_stacks_have_what_pods_may_have() -> None:
    result: Counter[str] = Counter()
    for seed in SEEDS:
        settings = generated(seed)
        pods = [*settings.workloads.values(), *settings.workers.values()]
        pods += [*settings.jobs.values(), *settings.cron_jobs.values()]
        result["jobs"] += bool(settings.jobs)
        result["cron jobs"] += bool(settings.cron_jobs)
        result["disks"] += any(workload.has_disks for workload in settings.workloads.values())
        result["volumes"] += any(pod.volumes for pod in pods)
        result["init containers"] += any("initContainers" in pod.pod for pod in pods)

    assert len(result) == 5
    assert min(result.values()) >= 2
