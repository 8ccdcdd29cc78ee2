"""Ray's pods in each strategy's cluster: where they may go, what moves them, who pays for the head."""

from datetime import timedelta

import pytest

from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions
from ebbtide.lab.simulator.strategies.plans import MIXED
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import RayHead, SleepSettings
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.workloads import SleepWhen
from tests.builders.simulator import HOUR, a_driver, a_driver_job, a_ray_group, a_stack, a_trace, a_workload, with_ray


def stack(*, head_cpu: str = "1", sleeps: bool = False) -> StackSettings:
    """A fixed service takes half of a fixed node."""
    plain = a_stack({"drive": a_driver()}, {"db": a_workload(Category.FIXED)})
    groups = {"cpu": a_ray_group(), "cheap": a_ray_group(spot=True, most=7)}
    rest = SleepSettings(when=SleepWhen.IDLE, after=timedelta(hours=1)) if sleeps else None
    result = with_ray(plain, groups, longest_task=90.0, sleep=rest)
    head = RayHead.model_validate({"cpu": head_cpu, "memory": "4Gi"})
    return result.model_copy(update={"ray": {"flow": result.ray["flow"].model_copy(update={"head": head})}})


def test_only_a_group_on_spot_may_be_evicted_as_a_whole_and_none_by_the_autoscaler() -> None:
    (flow,) = cluster_plan(stack(), Strategy.FIXED_FLEXIBLE).ray
    budgets = {group.worker.name: group.worker.pdb_max_unavailable for group in flow.groups}

    assert budgets == {"ray flow/cheap": 7, "ray flow/cpu": 0}
    assert [group.worker.safe_to_evict for group in flow.groups] == [False, None]
    assert {group.worker.grace_s for group in flow.groups} == {90.0 + 120.0}
    assert (flow.head.pdb_max_unavailable, flow.head.category, flow.drivers) == (0, "fixed", ("drive",))


def test_a_head_brings_the_container_of_rays_autoscaler() -> None:
    (flow,) = cluster_plan(stack(), Strategy.FIXED_FLEXIBLE).ray

    assert (flow.head.cpu_m, flow.head.memory_mib) == (1000 + 200, 4096 + 512)


@pytest.mark.parametrize(("head_cpu", "groups"), [("1", {MIXED, "gpu"}), ("20", {MIXED, "fixed", "gpu"})])
def test_fixed_nodes_are_mixed_with_others_only_if_the_head_fits_there(head_cpu: str, groups: set[str]) -> None:
    plan = cluster_plan(stack(head_cpu=head_cpu), Strategy.WORKER_AUTOSCALING)

    assert {group.name for group in plan.groups} == groups


@pytest.mark.parametrize("strategy", ["fixed-fleet", "zero-wait-bound"])
def test_the_head_takes_a_part_of_the_fixed_nodes_and_in_the_bound_none_where_it_may_sleep(strategy: str) -> None:
    trace, options = a_trace([a_driver_job(9 * HOUR)]), ReplayOptions(days=1, rollouts=False)

    def fixed_hours(*, head_cpu: str, sleeps: bool = False) -> float:
        replayed = replay(stack(head_cpu=head_cpu, sleeps=sleeps), trace, options)
        return replayed.strategies[strategy].node_hours_by_group["fixed"]

    assert fixed_hours(head_cpu="1") == 24.0
    assert fixed_hours(head_cpu="3") > 24.0
    assert (fixed_hours(head_cpu="3", sleeps=True) == 24.0) == (strategy == "zero-wait-bound")
