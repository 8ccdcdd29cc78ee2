"""Laws of a day on generated stacks: whatever pods, jobs and disks they have, the promises hold."""

from collections import Counter
from dataclasses import replace
from datetime import datetime

import pytest

from controllers.scaler.loop import run
from ebbtide.prices import NoPrice
from ebbtide.settings.controller_document import controller_config
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.cluster import Pod
from ebbtide.simulator.replay.setup import RESYNC
from ebbtide.simulator.strategies.plans import Strategy, cluster_plan
from ebbtide.simulator.world.edges import Tally, ports_of
from ebbtide.simulator.world.rollouts import planned_rollouts
from ebbtide.simulator.world.schedules import job_plans
from ebbtide.simulator.world.workers import JobRun
from ebbtide.simulator.world.world import World, WorldSetup
from ebbtide.units.durations import DAY_S
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.windows import zone_of
from tests.builders.generated import stack_text

SEEDS = range(12)


def generated(seed: int) -> StackSettings:
    return stack_of_text(stack_text(seed), stack="generated", file="Pulumi.generated.yaml")


class Watched(World):
    """Notes what must not be."""

    def begin(self) -> None:
        self.homeless: list[str] = []
        self.zones: dict[tuple[str, int | None], set[str]] = {}

    def pod_running(self, pod: Pod) -> None:
        super().pod_running(pod)
        if pod.slot is not None and pod.node is not None:
            self.zones.setdefault((pod.workload, pod.slot), set()).add(pod.node.zone)

    def nodes_changed(self) -> None:
        super().nodes_changed()
        if not hasattr(self, "homeless"):
            return
        there = {node.name for node in self.cluster.nodes()}
        for plan in self.setup.jobs:
            for pod in self.cluster.pods(plan.workload):
                if pod.running_since is not None and pod.node is not None and pod.node.name not in there:
                    self.homeless.append(pod.name)


def played(settings: StackSettings, seed: int) -> Watched:
    """A Tuesday in which each pool gets a few jobs in the morning."""
    hours = settings.business_hours
    start = datetime(2027, 6, 1, tzinfo=zone_of(hours.timezone))
    config = replace(controller_config(settings, RedisEndpoint(host="replayed"), [2026, 2027, 2028]), resync=RESYNC)
    jobs = [JobRun(9 * 3600.0 + 60 * number, 900.0, pool) for pool in settings.workers for number in range(3)]
    setup = WorldSetup(
        start=start,
        end_s=DAY_S,
        seed=seed,
        flags=Strategy.FIXED_FLEXIBLE.flags,
        rollouts=planned_rollouts(settings.workloads, config.hours, start, DAY_S, seed),
        jobs=job_plans(settings, start, DAY_S),
    )
    world = Watched(cluster_plan(settings, Strategy.FIXED_FLEXIBLE), jobs, setup)
    world.begin()
    run(config, ports_of(world, Tally()))
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_on_any_stack_jobs_keep_their_nodes_and_disks_their_zones(seed: int) -> None:
    settings = generated(seed)
    try:
        world = played(settings, seed)
    except NoPrice:
        assert settings.region == "eu-north-1"
        return
    flexible = {name for name, spec in settings.workloads.items() if spec.category is Category.FLEXIBLE}

    assert world.homeless == []
    assert {eviction.workload for eviction in world.cluster.evictions} <= flexible
    assert all(len(zones) == 1 for zones in world.zones.values())
    assert world.runs.counts.failed == 0


def test_generated_stacks_have_what_pods_may_have() -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS:
        settings = generated(seed)
        pods = [*settings.workloads.values(), *settings.workers.values()]
        pods += [*settings.jobs.values(), *settings.cron_jobs.values()]
        found["jobs"] += bool(settings.jobs)
        found["cron jobs"] += bool(settings.cron_jobs)
        found["disks"] += any(workload.has_disks for workload in settings.workloads.values())
        found["volumes"] += any(pod.volumes for pod in pods)
        found["init containers"] += any("initContainers" in pod.pod for pod in pods)

    assert len(found) == 5
    assert min(found.values()) >= 2
