"""Karpenter as a strategy: its NodePools, where pods go, its windows, and pods that end with their job."""

from functools import cache
from pathlib import Path

import pytest

from ebbtide.lab.advice.savings.advice import savings_advice
from ebbtide.lab.advice.savings.usage import usage_of
from ebbtide.lab.report.pages.sentences import provisioner_line
from ebbtide.lab.simulator.cluster.karpenter.model import DEFAULT_BUDGETS, DisruptionBudget
from ebbtide.lab.simulator.cluster.scheduler import group_takes
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Replay, Strategy
from ebbtide.lab.simulator.setup import replay_setup_of, with_known_nodes
from ebbtide.lab.simulator.strategies.karpenter import BY_DAY, budgets_of, controlled_with_windows, stack_nodes
from ebbtide.lab.simulator.strategies.table import StrategyResults, cluster_plan, other_provisioner
from ebbtide.lab.simulator.trace.jobs import Job, Trace
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.failures import Failures, accidents_of
from ebbtide.lab.simulator.world.world import ClusterPlan, World
from ebbtide.prices import instance_type, on_demand, usable
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.existing import onprem
from tests.builders.settings import loaded
from tests.builders.simulator import a_pool, a_ray_group, a_stack, a_workload, with_ray

OURS, DEFAULTS = Strategy.KARPENTER, Strategy.KARPENTER_DEFAULTS
BOTH = (OURS, DEFAULTS)


def types(plan: ClusterPlan, pool: str) -> set[str]:
    (chosen,) = (each for each in plan.node_pools if each.name == pool)
    return {kind.shape.name.partition("/")[2] for kind in chosen.types}


def stack_with_gpus() -> StackSettings:
    stack = a_stack({"train": a_pool(), "vision": a_pool("vision", gpu=1)})
    gpu = NodeGroupSettings(kind=NodeKind.GPU, instance_types=("g5.2xlarge",), max=4)
    return stack.model_copy(update={"node_groups": {**stack.node_groups, "gpu": gpu}})


@pytest.mark.parametrize("strategy", BOTH)
def test_flexible_and_gpu_groups_become_node_pools_and_fixed_ones_stay(strategy: Strategy) -> None:
    plan = cluster_plan(stack_with_gpus(), strategy)

    assert [group.name for group in plan.groups] == ["fixed"]
    assert [pool.name for pool in plan.node_pools] == ["flexible", "gpu"]
    assert plan.rates["gpu/g5.2xlarge"].usd_per_hour(1) == on_demand("us-east-1", "g5.2xlarge")


def test_our_nodes_are_those_of_the_stack_file_and_those_of_the_defaults_have_any_size() -> None:
    stack = stack_with_gpus()
    ours, defaults = (cluster_plan(stack, strategy) for strategy in BOTH)

    assert {pool.name: types(ours, pool.name) for pool in ours.node_pools} == {
        name: set(stack.node_groups[name].instance_types) for name in ("flexible", "gpu")
    }
    assert {pool.name: pool.limits for pool in ours.node_pools}["gpu"] == {"nodes": 4, "cpu_m": 4 * 8000}
    assert {"m7i.large", "c7i.2xlarge", "r7i.4xlarge", "m7i.24xlarge"} <= types(defaults, "flexible")
    assert "m6i.large" not in types(defaults, "flexible")
    assert "g5.12xlarge" in types(defaults, "gpu")
    assert {name.partition(".")[0] for name in types(defaults, "gpu")} == {"g5"}


@pytest.mark.parametrize(("price", "usd"), [(", usdPerHour: 1.5", 1.5), ("", 8.0)])
def test_a_described_node_costs_its_price_or_else_counts_by_its_cpus(price: str, usd: float, tmp_path: Path) -> None:
    shapes = f"nodeShapes: {{ flexible: {{ cpu: 8, memory: 32Gi, max: 5, autoscaled: true{price} }} }}"
    stack = loaded(onprem(f"nodeSelectors: {{ flexible: {{ pool: batch }} }}, {shapes}"), tmp_path)

    (pool,) = cluster_plan(with_known_nodes(stack), DEFAULTS).node_pools

    assert [kind.usd for kind in pool.types] == [usd]


def on_existing(tmp_path: Path, flexible: str, node_pools: str = "flexible: [general]") -> StackSettings:
    """A stack whose pods may use Karpenter's nodes, with the flexible set as in `flexible`."""
    selectors = "nodeSelectors: { flexible: { karpenter.sh/nodepool: general } }"
    pools = f", nodePools: {{ {node_pools} }}" if node_pools else ""
    return with_known_nodes(loaded(onprem(f"{selectors}{pools}, nodeShapes: {{ flexible: {flexible} }}"), tmp_path))


def test_a_set_that_karpenter_provides_is_a_node_pool_with_the_types_of_its_shape(tmp_path: Path) -> None:
    stack = on_existing(tmp_path, "{ instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 5, min: 2 }")
    plan = cluster_plan(stack, Strategy.FIXED_FLEXIBLE)
    (pool,) = plan.node_pools
    memory = {kind.shape.name: kind.shape.memory_mib for kind in pool.types}

    assert plan.groups == ()
    assert memory == {f"flexible/{name}": usable(instance_type(name)).memory for name in stack_types(stack)}
    assert pool.limits == {"nodes": 5, "cpu_m": 5 * 16_000}
    assert cluster_plan(stack, Strategy.MANAGED_GROUPS).groups[0].cpu_m == usable(instance_type("m7i.4xlarge")).cpu
    assert types(cluster_plan(stack, OURS), "flexible") == {"m7i.2xlarge", "m7i.4xlarge"}


def test_the_head_of_ray_may_run_on_any_type_of_a_fixed_set_that_karpenter_provides(tmp_path: Path) -> None:
    selectors = "nodeSelectors: { fixed: { karpenter.sh/nodepool: system }, flexible: { pool: batch } }"
    fixed = "fixed: { instanceTypes: [m7i.xlarge, m7i.2xlarge], max: 3 }"
    shapes = f"nodeShapes: {{ {fixed}, flexible: {{ cpu: 8, memory: 32Gi, max: 5 }} }}"
    stack = with_known_nodes(with_ray(loaded(onprem(f"{selectors}, {shapes}"), tmp_path), {"cpu": a_ray_group()}))
    (ray,) = cluster_plan(stack, Strategy.FIXED_FLEXIBLE).ray

    assert {"fixed/m7i.xlarge", "fixed/m7i.2xlarge"} <= (ray.head.groups or set())


def stack_types(stack: StackSettings) -> tuple[str, ...]:
    return stack.node_groups["flexible"].instance_types


@pytest.mark.parametrize(
    ("node_pools", "budgets", "sentence"),
    [
        ("flexible: [general]", BY_DAY, "Ebbtide writes the disruption budgets of the NodePools of flexible"),
        ("", DEFAULT_BUDGETS, "disruption budgets of the NodePools of flexible are their owner's and unknown"),
    ],
)
def test_budgets_that_are_not_handed_over_are_assumed_to_be_karpenters_default(
    node_pools: str, budgets: object, sentence: str, tmp_path: Path
) -> None:
    stack = on_existing(tmp_path, "{ cpu: 8, memory: 32Gi, max: 5 }", node_pools)
    assumptions = stack_nodes(stack).assumptions

    assert [pool.budgets for pool in cluster_plan(stack, Strategy.FIXED_FLEXIBLE).node_pools] == [budgets]
    assert [text for text in assumptions if sentence in text]
    assert len([text for text in assumptions if "NodeClass" in text]) == 1


@pytest.mark.parametrize(("node_pools", "writes"), [("flexible: [general]", True), ("", False)])
def test_only_budgets_that_ebbtide_writes_follow_the_window(
    node_pools: str, writes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = on_existing(tmp_path, "{ cpu: 8, memory: 32Gi, max: 5 }", node_pools)
    jobs = (Job(submitted_at=0.0, duration_s=60.0, queue="", cpu=3.0, memory_gib=8.0, gpu=0.0),)
    setup = replay_setup_of(stack, Trace(name="one", jobs=jobs), ReplayOptions())
    run = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE)
    world, written = World(run.plan, [], run.world), list[tuple[DisruptionBudget, ...]]()

    def record(_pool: str, budgets: tuple[DisruptionBudget, ...]) -> None:
        written.append(budgets)

    monkeypatch.setattr(world.cluster, "set_node_budgets", record)
    controlled_with_windows(run.config, world, ActionCounts(), run.plan, stack)

    assert (BY_DAY in written, budgets_of(5) in written) == (writes, writes)


@pytest.mark.parametrize("strategy", BOTH)
def test_pods_go_to_the_shapes_of_their_group(strategy: Strategy) -> None:
    plan = cluster_plan(stack_with_gpus(), strategy)
    takers = {
        pod.name: {shape.name.partition("/")[0] for shape in plan.shapes if group_takes(shape, pod)}
        for pod in plan.pods
    }

    assert takers == {"head": {"fixed"}, "api": {"flexible"}, "train": {"flexible"}, "vision": {"gpu"}}


def test_our_budgets_begin_closed_and_those_of_the_defaults_never_close() -> None:
    ours, defaults = (cluster_plan(stack_with_gpus(), strategy) for strategy in BOTH)

    assert {pool.budgets for pool in ours.node_pools} == {BY_DAY}
    assert {pool.budgets for pool in defaults.node_pools} == {DEFAULT_BUDGETS}
    assert {(pod.pdb_max_unavailable, pod.do_not_disrupt) for pod in ours.workers.values()} == {(0, False)}
    assert {(pod.pdb_max_unavailable, pod.do_not_disrupt) for pod in defaults.workers.values()} == {(None, True)}
    assert {pod.name: pod.pdb_max_unavailable for pod, _ in defaults.workloads} == {"head": 0, "api": 1}


def test_both_run_only_if_they_are_named() -> None:
    assert set(BOTH).isdisjoint(DEFAULT_STRATEGIES)


def a_job(at: float) -> Job:
    return Job(submitted_at=at, duration_s=1800.0, queue="", cpu=3.0, memory_gib=8.0, gpu=0.0)


@cache
def played() -> Replay:
    """Three days with jobs at all hours, which leave services on large nodes when they end."""
    jobs = tuple(a_job(900.0 * number) for number in range(250))
    stack = a_stack(workloads={f"api-{number}": a_workload(Category.FLEXIBLE) for number in range(4)})
    options = ReplayOptions(days=3, strategies=(Strategy.FIXED_FLEXIBLE, *BOTH), rollouts=False)
    return replay(stack, Trace(name="steady", jobs=jobs), options)


@pytest.mark.parametrize("strategy", BOTH)
def test_no_job_is_interrupted_and_all_are_done(strategy: Strategy) -> None:
    result = played().strategies[strategy]

    assert (result.jobs_interrupted, result.lost_work_s) == (0, 0)
    assert result.jobs_done >= 246
    assert result.jobs_done + result.jobs_unfinished == 250


def test_ours_moves_pods_at_night_alone_and_the_defaults_at_any_time() -> None:
    ours, defaults = (played().strategies[strategy] for strategy in BOTH)

    assert ours.evictions_in_business_hours == 0
    assert ours.evictions_in_window > 0
    assert defaults.evictions_in_business_hours > 0


def test_a_pod_for_each_job_waits_for_its_start_and_ours_are_reused() -> None:
    ours, defaults = (played().strategies[strategy] for strategy in BOTH)

    assert ours.wait_p50_s <= defaults.wait_p50_s
    assert all(name in ("fixed",) or hours > 0 for name, hours in defaults.node_hours_by_group.items())


def test_the_same_replay_gives_the_same_figures() -> None:
    first = played().strategies
    played.cache_clear()

    assert played().strategies == first


LISTED = ("m7i.xlarge", "m7i.2xlarge", "m7i.4xlarge")


def with_karpenter(**changes: object) -> StackSettings:
    """The stack with flexible nodes from its own Karpenter."""
    stack = a_stack()
    update = {"provisioner": Provisioner.KARPENTER, "instance_types": LISTED, "min": 0, **changes}
    flexible = stack.node_groups["flexible"].model_copy(update=update)
    return stack.model_copy(update={"node_groups": {"fixed": stack.node_groups["fixed"], "flexible": flexible}})


def test_a_group_with_karpenter_is_a_node_pool_of_its_list_in_the_products_own_replay() -> None:
    plan = cluster_plan(with_karpenter(max=7), Strategy.FIXED_FLEXIBLE)

    (pool,) = plan.node_pools
    assert [group.name for group in plan.groups] == ["fixed"]
    assert (pool.name, pool.limits, pool.budgets) == ("flexible", {"nodes": 7, "cpu_m": 7 * 16000}, BY_DAY)
    assert types(plan, "flexible") == set(LISTED)
    assert plan.rates["flexible/m7i.2xlarge"].usd_per_hour(1) == on_demand("us-east-1", "m7i.2xlarge")


def test_karpenter_and_the_product_are_one_on_a_stack_with_karpenter() -> None:
    product, ours = (cluster_plan(with_karpenter(), strategy) for strategy in (Strategy.FIXED_FLEXIBLE, OURS))

    assert product == ours


def test_the_other_provisioner_is_the_one_that_the_stack_does_not_have() -> None:
    managed = cluster_plan(with_karpenter(), Strategy.MANAGED_GROUPS)

    assert other_provisioner(a_stack()) is OURS
    assert other_provisioner(with_karpenter()) is Strategy.MANAGED_GROUPS
    assert (managed.node_pools, [group.name for group in managed.groups]) == ((), ["fixed", "flexible"])
    assert cluster_plan(a_stack(), Strategy.MANAGED_GROUPS) == cluster_plan(a_stack(), Strategy.FIXED_FLEXIBLE)


def test_small_nodes_reserve_what_the_kubelet_of_the_largest_reserves() -> None:
    mixed, alone = (
        cluster_plan(with_karpenter(instance_types=names), Strategy.FIXED_FLEXIBLE)
        for names in (("m7i.2xlarge", "m7i.4xlarge"), ("m7i.2xlarge",))
    )
    small, own = (
        next(shape for shape in plan.shapes if shape.name == "flexible/m7i.2xlarge") for plan in (mixed, alone)
    )

    assert (own.cpu_m - small.cpu_m, own.memory_mib - small.memory_mib) == (20, 11 * (110 - 58))


def test_a_spot_group_with_karpenter_is_a_spot_node_pool_whose_nodes_are_interrupted_by_type() -> None:
    stack = with_karpenter()
    spot = NodeGroupSettings(
        kind=NodeKind.SPOT, instance_types=("m7i.2xlarge", "m6i.xlarge"), max=4, provisioner=Provisioner.KARPENTER
    )
    stack = stack.model_copy(update={"node_groups": {**stack.node_groups, "spot": spot}})
    plan = cluster_plan(stack, Strategy.FIXED_FLEXIBLE)
    accidents = accidents_of(Failures(spot_interruptions=1.0), stack)

    assert {pool.name: pool.spot for pool in plan.node_pools} == {"flexible": False, "spot": True}
    assert plan.rates["spot/m6i.xlarge"].above_usd < on_demand("us-east-1", "m6i.xlarge")
    assert accidents is not None
    assert {"spot/m6i.xlarge", "spot/m7i.2xlarge"} <= accidents.interruptions_per_hour.keys()


@cache
def played_with_karpenter() -> Replay:
    jobs = tuple(a_job(900.0 * number) for number in range(150))
    workloads = {f"api-{number}": a_workload(Category.FLEXIBLE) for number in range(4)}
    stack = with_karpenter()
    stack = stack.model_copy(update={"workloads": {**stack.workloads, **workloads}})
    strategies = (Strategy.FIXED_FLEXIBLE, Strategy.ZERO_WAIT_BOUND, Strategy.FIXED_FLEET, Strategy.MANAGED_GROUPS)
    options = ReplayOptions(days=2, strategies=strategies, rollouts=False)
    return replay(stack, Trace(name="steady", jobs=jobs), options)


def test_the_stacks_own_karpenter_moves_pods_at_night_alone() -> None:
    result = played_with_karpenter().strategies[Strategy.FIXED_FLEXIBLE]

    assert (result.jobs_interrupted, result.evictions_in_business_hours) == (0, 0)
    assert result.evictions_in_window > 0


def test_the_bound_mixes_the_types_of_the_list() -> None:
    product, bound = (
        played_with_karpenter().strategies[name] for name in (Strategy.FIXED_FLEXIBLE, Strategy.ZERO_WAIT_BOUND)
    )

    assert product.usd is not None
    assert bound.usd is not None
    assert bound.usd <= product.usd
    assert any(name.startswith("flexible/") for name in bound.node_hours_by_group)


def test_savings_advice_knows_the_types_that_ran() -> None:
    replayed, stack = played_with_karpenter(), with_karpenter()
    advice = savings_advice(stack, usage_of(replayed, stack))

    assert advice.on_demand_usd is not None
    assert not advice.unpriced
    assert provisioner_line(replayed) in advice.assumptions
    assert provisioner_line(replayed).startswith("With the cluster autoscaler for all groups the same load costs $")
