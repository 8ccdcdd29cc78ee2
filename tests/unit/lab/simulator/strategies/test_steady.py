"""The nodes of the constant fleets: on demand, whatever kind and order of types the stack file has."""

from itertools import permutations
from pathlib import Path

import pytest

from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.constant import fleet_pools
from ebbtide.lab.simulator.strategies.plans import listed_usd, unpriced_groups, vcpus, without_spot_price
from ebbtide.lab.simulator.strategies.steady import steady_sentence, with_steady_nodes
from ebbtide.lab.simulator.strategies.table import STRATEGIES, cluster_plan
from ebbtide.lab.simulator.world.failures import spot_types
from ebbtide.prices import on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import StackSettings
from tests.builders.settings import loaded, shortest

TYPES = ("g5.2xlarge", "g6e.2xlarge", "g6.4xlarge")
SAVES = "checkpoints: { store: s3://acme-states, required: true }"
REPLAYED = (Strategy.FIXED_FLEXIBLE, Strategy.KARPENTER, Strategy.MANAGED_GROUPS, Strategy.KARPENTER_DEFAULTS)


def stack(
    folder: Path,
    *types: str,
    fallback: str = "",
    provisioner: str = "cluster-autoscaler",
    region: str = "us-east-1",
) -> StackSettings:
    spot = f"{{ kind: spot, instanceTypes: [{', '.join(types)}], max: 30, provisioner: {provisioner} }}"
    gpu = f"{{ instanceTypes: [g5.2xlarge], max: 8, provisioner: {provisioner} }}"
    pool = f"gpu: 1, nodeGroup: gpu-spot, {SAVES}{f', fallback: {fallback}' if fallback else ''}"
    groups = f"ebbtide:nodeGroups: {{ gpu: {gpu}, gpu-spot: {spot} }}\naws:region: {region}"
    return loaded(shortest(train=pool, more=groups), folder)


@pytest.mark.parametrize("provisioner", ["cluster-autoscaler", "karpenter"])
def test_another_order_of_the_types_is_the_same_fleet_at_the_same_price(tmp_path: Path, provisioner: str) -> None:
    def fleet(order: tuple[str, ...]) -> tuple[object, ...]:
        settings = stack(tmp_path, *order, provisioner=provisioner)
        steady = with_steady_nodes(settings)
        [shape] = [group for group in cluster_plan(settings, Strategy.FIXED_FLEET).groups if group.name == "gpu-spot"]
        return shape, listed_usd(steady, "gpu-spot"), vcpus(steady, "gpu-spot"), steady_sentence(settings)

    assert len({repr(fleet(order)) for order in permutations(TYPES)}) == 1


def test_the_fleet_has_the_cheapest_type_on_demand_of_a_group_without_a_fallback(tmp_path: Path) -> None:
    settings = stack(tmp_path, "g6e.2xlarge", "g5.2xlarge", "g6.4xlarge")
    plan = cluster_plan(settings, Strategy.FIXED_FLEET)

    assert plan.money.vcpus["gpu-spot"] == 8
    cheapest = min(on_demand("us-east-1", kind) for kind in TYPES)
    steady = with_steady_nodes(settings).node_groups["gpu-spot"]
    assert on_demand("us-east-1", steady.types[0]) == cheapest
    assert "gpu-spot has g5.2xlarge, its cheapest type that its pods fit" in steady_sentence(settings)


def test_a_type_that_the_pods_do_not_fit_or_that_has_no_price_is_not_the_fleets(tmp_path: Path) -> None:
    unpriced = stack(tmp_path, "g6.2xlarge", "g5.48xlarge", region="eu-west-1")  # 8 vCPUs, and more than 8 dollars
    types = "m7i.large, m7i.2xlarge, m6i.2xlarge, m6a.2xlarge, m7i-flex.2xlarge"
    spot = f"{{ kind: spot, instanceTypes: [{types}], max: 4, provisioner: karpenter }}"
    pool = f"nodeGroup: spot, {SAVES}"
    small = loaded(shortest(train=pool, more=f"ebbtide:nodeGroups: {{ spot: {spot} }}"), tmp_path)

    assert with_steady_nodes(unpriced).node_groups["gpu-spot"].instance_types == ("g5.48xlarge",)
    assert with_steady_nodes(small).node_groups["spot"].instance_types == ("m6a.2xlarge",)


def test_a_pool_with_a_fallback_has_the_nodes_of_its_fallback(tmp_path: Path) -> None:
    settings = stack(tmp_path, *TYPES, fallback="gpu")

    assert [pool.group for pool in fleet_pools(with_steady_nodes(settings), [])] == ["gpu"]
    assert steady_sentence(settings).endswith("; train has those of its fallback gpu")


def test_stacks_without_spot_nodes_are_unchanged(tmp_path: Path) -> None:
    settings = loaded(shortest(), tmp_path)

    assert with_steady_nodes(settings) is settings


@pytest.mark.parametrize("types", list(permutations(("g5.2xlarge", "g5.4xlarge", "g6.8xlarge"))))
@pytest.mark.parametrize("provisioner", ["cluster-autoscaler", "karpenter"])
def test_a_type_without_a_list_price_is_named_and_not_billed(
    tmp_path: Path, types: tuple[str, ...], provisioner: str
) -> None:
    settings = stack(tmp_path, *types, fallback="gpu", provisioner=provisioner, region="eu-west-1")
    bare = "gpu-spot/g6.8xlarge" if provisioner == "karpenter" else "gpu-spot-32x128x1"

    assert [(group.name, group.instance_type) for group in unpriced_groups(settings)] == [(bare, "g6.8xlarge")]
    assert without_spot_price(settings) == {}
    rates = cluster_plan(settings, Strategy.FIXED_FLEXIBLE).money.assumed
    assert sorted(name for name in rates if name.startswith("gpu-spot")) == (
        ["gpu-spot/g5.2xlarge", "gpu-spot/g5.4xlarge"]
        if provisioner == "karpenter"
        else ["gpu-spot-16x64x1", "gpu-spot-8x32x1"]
    )


@pytest.mark.parametrize("strategy", REPLAYED)
@pytest.mark.parametrize("provisioner", ["cluster-autoscaler", "karpenter"])
@pytest.mark.parametrize("fallback", ["", "gpu"])
def test_spot_nodes_of_every_provisioner_are_interrupted_and_may_lack_capacity(
    tmp_path: Path, strategy: Strategy, provisioner: str, fallback: str
) -> None:
    settings = stack(tmp_path, *TYPES, fallback=fallback, provisioner=provisioner)
    topology = STRATEGIES[strategy].topology(settings)
    shapes = {*topology.groups, *(kind.shape.name for pool in topology.node_pools for kind in pool.types)}
    on_spot = {name for name in shapes if settings.node_groups[topology.source_of[name]].kind is NodeKind.SPOT}

    assert len(on_spot) >= 2
    named = spot_types(settings)
    assert {name: named.get(name) for name in on_spot} == {name: topology.type_of(name).name for name in on_spot}
    assert {pool.spot for pool in topology.node_pools if pool.name == "gpu-spot"} <= {True}
