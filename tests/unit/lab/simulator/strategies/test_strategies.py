"""Which groups a strategy has, and where its pods go."""

import re

import pytest

from components.aws.node_shape import group_options
from components.cluster.autoscaler_settings import autoscaler_flags
from components.pods.rules import HOST, PodIdentity, affinity, spread
from ebbtide.lab.simulator.cluster.scheduler import group_takes
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Strategy
from ebbtide.lab.simulator.strategies.constant import fleet_groups
from ebbtide.lab.simulator.strategies.plans import FLAGS, MIXED, mixed_group, without_spot_price
from ebbtide.lab.simulator.strategies.table import STRATEGIES, cluster_plan
from ebbtide.prices import GroupRate, PricingAssumption, hourly, spot_typical
from ebbtide.provisioning_labels import Architecture, NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND, Category
from tests.builders.simulator import a_pool, a_stack, a_workload


def test_the_product_keeps_the_groups_of_the_stack() -> None:
    plan = cluster_plan(a_stack(), Strategy.FIXED_FLEXIBLE)

    assert [(group.name, group.min, group.max, group.initial) for group in plan.groups] == [
        ("fixed", 1, 3, 1),
        ("flexible", 0, 20, 0),
        ("gpu", 0, 4, 0),
    ]
    homes = {workload.name: workload.node_selector for workload, _ in plan.workloads}
    assert homes == {"head": {NODE_KIND: "fixed"}, "api": {NODE_KIND: "flexible"}}
    assert plan.workers["train"].node_selector == {NODE_GROUP: "flexible"}


def test_a_mixed_group_of_the_flexible_shape_takes_in_all_but_gpus() -> None:
    stack = a_stack({"train": a_pool(), "vision": a_pool("vision", gpu=1)})

    plan = cluster_plan(stack, Strategy.CLUSTER_AUTOSCALING)

    mixed, gpu = plan.groups
    flexible = next(g for g in cluster_plan(stack, Strategy.FIXED_FLEXIBLE).groups if g.name == "flexible")
    assert (mixed.name, mixed.min, mixed.max, mixed.cpu_m) == (MIXED, 1, 23, flexible.cpu_m)
    assert gpu.name == "gpu"
    assert plan.rates[MIXED].above_usd == hourly("us-east-1", "m7i.4xlarge")
    selectors = [workload.node_selector for workload, _ in plan.workloads]
    assert selectors == [{NODE_GROUP: MIXED}] * 2
    assert plan.workers["train"].node_selector == {NODE_GROUP: MIXED}
    assert plan.workers["vision"].node_selector == {NODE_GROUP: "gpu"}


def test_a_service_goes_to_the_gpu_groups_with_the_memory_that_it_asks_for() -> None:
    large = NodeGroupSettings(kind=NodeKind.GPU, instance_types=("g6e.2xlarge",), max=4)
    services = {name: a_workload(Category.FLEXIBLE) for name in ("any", "much")}
    for name, gpu in (("any", Gpu()), ("much", Gpu.model_validate({"memory": "40Gi"}))):
        services[name] = services[name].model_copy(update={"gpu": gpu})
    stack = a_stack(workloads=services)
    stack = stack.model_copy(update={"node_groups": {**stack.node_groups, "gpu-large": large}})

    plan = cluster_plan(stack, Strategy.FIXED_FLEXIBLE)

    takers = {pod.name: {group.name for group in plan.groups if group_takes(group, pod)} for pod, _ in plan.workloads}
    assert takers == {"any": {"gpu", "gpu-large"}, "much": {"gpu-large"}}
    residents = {group.name: len(group.residents) for group in fleet_groups(stack, plan)}
    assert residents == {"fixed": 0, "flexible": 0, "gpu": 1, "gpu-large": 1}


@pytest.mark.parametrize("strategy", [Strategy.FIXED_FLEXIBLE, Strategy.CLUSTER_AUTOSCALING])
def test_a_pod_goes_to_nodes_of_its_processor_under_every_strategy(strategy: Strategy) -> None:
    """The larger group is the ARM one, and the mixed group takes amd64 ones in all the same."""
    arm = NodeGroupSettings(kind=NodeKind.FLEXIBLE, instance_types=("m7g.8xlarge",), max=4)
    bound = {arch.value: a_workload(Category.FLEXIBLE).model_copy(update={"arch": arch}) for arch in Architecture}
    stack = a_stack(workloads=bound)
    stack = stack.model_copy(update={"node_groups": {**stack.node_groups, "graviton": arm}})

    plan = cluster_plan(stack, strategy)

    takers = {pod.name: {group.name for group in plan.groups if group_takes(group, pod)} for pod, _ in plan.workloads}
    separate = STRATEGIES[strategy].topology is not mixed_group
    usual, either = ("flexible", {"flexible", "graviton"}) if separate else (MIXED, {MIXED})
    assert takers == {"amd64": {usual}, "arm64": {"graviton"}, "any": either}


def test_a_plan_covers_the_minimum_of_each_group_and_of_the_mixed_one() -> None:
    stack = a_stack().model_copy(update={"costs": CostSettings(pricing_assumption=PricingAssumption.COMPUTE_1Y)})

    own = cluster_plan(stack, Strategy.FIXED_FLEXIBLE).rates
    mixed = cluster_plan(stack, Strategy.CLUSTER_AUTOSCALING).rates[MIXED]

    assert {name: rate.floor for name, rate in own.items()} == {"fixed": 1, "flexible": 0, "gpu": 0}
    assert own["fixed"].floor_usd < own["fixed"].above_usd
    assert mixed.floor == 1
    assert mixed.floor_usd == hourly("us-east-1", "m7i.4xlarge", PricingAssumption.COMPUTE_1Y)
    assert mixed.above_usd == hourly("us-east-1", "m7i.4xlarge")


def with_spot(region: str = "us-east-1") -> StackSettings:
    spot = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("m7i.4xlarge",), min=2, max=4)
    costs = CostSettings(pricing_assumption=PricingAssumption.COMPUTE_1Y)
    stack = a_stack()
    changes = {"node_groups": {**stack.node_groups, "spot": spot}, "costs": costs, "region": region}
    return stack.model_copy(update=changes)


def test_spot_nodes_cost_the_typical_spot_price_and_no_plan_covers_them() -> None:
    plan = cluster_plan(with_spot(), Strategy.FIXED_FLEXIBLE)
    usd = spot_typical("us-east-1", "m7i.4xlarge")

    assert usd < hourly("us-east-1", "m7i.4xlarge", PricingAssumption.COMPUTE_1Y)
    for rates in (plan.money.assumed, plan.money.on_demand, plan.money.with_spot):
        assert rates is not None
        assert rates["spot"] == GroupRate(floor=0, floor_usd=usd, above_usd=usd)
    assert plan.money.on_demand["flexible"].above_usd == hourly("us-east-1", "m7i.4xlarge")
    assert without_spot_price(with_spot()) == {}


def test_a_spot_group_whose_saving_is_unknown_is_billed_on_demand_and_named() -> None:
    spot = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("p5.4xlarge",), max=4)
    stack = a_stack().model_copy(update={"node_groups": {**a_stack().node_groups, "spot": spot}})
    plan = cluster_plan(stack, Strategy.FIXED_FLEXIBLE)

    [part] = without_spot_price(stack)
    assert plan.money.assumed[part].above_usd == hourly("us-east-1", "p5.4xlarge")


def test_a_group_whose_pods_do_not_fit_the_mixed_shape_stays() -> None:
    stack = a_stack(workloads={"head": a_workload(Category.FIXED, cpu="17", memory="8Gi")})

    plan = cluster_plan(stack, Strategy.CLUSTER_AUTOSCALING)

    assert [group.name for group in plan.groups] == [MIXED, "fixed", "gpu"]
    assert plan.workloads[0][0].node_selector == {NODE_KIND: "fixed"}


@pytest.mark.parametrize("strategy", DEFAULT_STRATEGIES)
def test_every_budget_starts_closed_and_all_but_kedas_workers_may_end_their_longest_job(strategy: Strategy) -> None:
    plan = cluster_plan(a_stack(), strategy)

    models = [workload for workload, _ in plan.workloads] + list(plan.workers.values())
    assert {model.pdb_max_unavailable for model in models} == {0}
    assert (plan.workers["train"].grace_s > 8 * 3600) is STRATEGIES[strategy].flags.safe_stop


def test_stock_workers_have_the_grace_period_of_kubernetes() -> None:
    plan = cluster_plan(a_stack({"train": a_pool()}), Strategy.KARPENTER_DEFAULTS)

    assert {name: worker.grace_s for name, worker in plan.workers.items()} == {"train": 30}


def test_pods_gather_and_spread_in_the_model_as_the_products_rules_say() -> None:
    plan = cluster_plan(a_stack(), Strategy.FIXED_FLEXIBLE)

    models = [workload for workload, _ in plan.workloads] + list(plan.workers.values())
    for model in models:
        category = Category(model.category)
        by_host = [rule["topology_key"] for rule in spread(_pod(model.name, category), revision_label="revision")]
        assert model.gathers is ("pod_affinity" in affinity(category))
        assert model.spreads is (HOST in by_host)


def test_the_pods_of_others_bring_no_preference() -> None:
    plan = cluster_plan(a_stack(), Strategy.KEDA_DEFAULTS)

    assert [(model.gathers, model.spreads) for model in plan.workers.values()] == [(False, True)] * len(plan.workers)


def _pod(name: str, category: Category) -> PodIdentity:
    return PodIdentity(name=name, category=category, customer="acme")


def test_the_modelled_autoscaler_is_told_what_the_product_tells_it() -> None:
    flags = autoscaler_flags(a_stack())

    assert FLAGS.unremovable_recheck_s == seconds(flags["unremovable-node-recheck-timeout"])
    assert FLAGS.scale_down_delay_after_add_s == seconds(flags["scale-down-delay-after-add"])
    assert FLAGS.scale_down_delay_local == (flags["scale-down-delay-type-local"] == "true")
    assert str(FLAGS.max_drain_parallelism) == flags["max-drain-parallelism"]
    assert FLAGS.expander == flags["expander"]
    assert not {"scale-down-unneeded-time", "scale-down-utilization-threshold"} & set(flags)


@pytest.mark.parametrize("kind", list(NodeKind))
def test_each_modelled_group_has_the_options_of_its_tags(kind: NodeKind) -> None:
    options = group_options(kind, gpus=kind is NodeKind.GPU)
    types = ("g5.2xlarge" if kind is NodeKind.GPU else "m7i.xlarge",)
    group = NodeGroupSettings(kind=kind, instance_types=types, min=1, max=2)
    stack = a_stack().model_copy(update={"node_groups": {"it": group}})

    [modelled] = cluster_plan(stack, Strategy.FIXED_FLEXIBLE).groups

    tagged = (options.get("scaledownunneededtime"), options.get("scaledownutilizationthreshold"))
    unneeded, threshold = modelled.scale_down_unneeded_s, modelled.utilization_threshold
    assert unneeded == (seconds(tagged[0]) if tagged[0] else None)
    assert threshold == (float(tagged[1]) if tagged[1] else None)
    if kind is NodeKind.GPU:
        assert options["scaledowngpuutilizationthreshold"] == tagged[1]


def test_a_modelled_spot_group_with_gpus_waits_as_long_as_its_tags_say() -> None:
    group = NodeGroupSettings(kind=NodeKind.SPOT, instance_types=("g5.2xlarge",), max=2)
    stack = a_stack().model_copy(update={"node_groups": {"it": group}})

    [modelled] = cluster_plan(stack, Strategy.FIXED_FLEXIBLE).groups

    assert modelled.scale_down_unneeded_s == seconds(group_options(group.kind, gpus=True)["scaledownunneededtime"])


def test_who_runs_keda_with_its_defaults_sets_no_tags_either() -> None:
    groups = cluster_plan(a_stack(), Strategy.KEDA_DEFAULTS).groups

    assert {(group.scale_down_unneeded_s, group.utilization_threshold) for group in groups} == {(None, None)}


def seconds(text: str) -> float:
    """A duration as Go writes it."""
    return sum(float(amount) * {"h": 3600, "m": 60, "s": 1}[unit] for amount, unit in re.findall(r"(\d+)([hms])", text))
