"""Instance types that the price tables lack, and sizes of existing nodes."""

from pathlib import Path

import pytest

from ebbtide.lab.simulator.strategies.plans import unpriced_groups
from ebbtide.prices import (
    NoPrice,
    allocatable,
    hourly,
    instance_type,
    instance_type_names,
    most_pods_by_eni,
    on_demand,
    usable,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import constant_groups, sets_without_shape, with_node_sets
from ebbtide.settings.capacity.placement import node_of, node_of_type
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest

SELECTORS = "nodeSelectors: { flexible: { pool: batch }, gpu: { pool: gpu }, large: { pool: large } }"


def groups(text: str) -> str:
    return shortest(more=f"ebbtide:nodeGroups: {{ {text} }}")


def test_the_formula_gives_what_the_tables_have() -> None:
    for kind in map(instance_type, instance_type_names()):
        expected = (kind.allocatable_cpu, kind.allocatable_memory)
        assert allocatable(kind.vcpu, kind.memory_mib, kind.arch, kind.default_pods) == expected, kind.name


def test_a_described_type_never_offers_more_than_a_known_one_of_its_size(tmp_path: Path) -> None:
    for kind in map(instance_type, instance_type_names()):
        assert most_pods_by_eni(kind.vcpu) >= kind.default_pods, kind.name
    text = "flexible: { instanceTypes: [m9i.4xlarge], shape: { cpu: 16, memory: 64Gi } }"
    described, known = loaded(groups(text), tmp_path).node_groups["flexible"].types[0], instance_type("m7i.4xlarge")

    assert (described.shape, described.max_pods) == (known.shape, known.max_pods)
    assert usable(described).cpu == usable(known).cpu
    assert 0 < usable(known).memory - usable(described).memory < 4096


def test_a_pool_goes_to_the_cheaper_group_by_the_price_in_the_file(tmp_path: Path) -> None:
    text = (
        "flexible: {{ max: 20 }}, "
        "new: {{ kind: flexible, max: 20, instanceTypes: [m9i.4xlarge], shape: {{ cpu: 16, memory: 64Gi{} }} }}"
    )
    dear, cheap = (groups(text.format(f", usdPerHour: {usd}")) for usd in (5, 0.1))

    assert loaded(dear, tmp_path).workers["train"].node_group == "flexible"
    settings = loaded(cheap, tmp_path)
    assert settings.workers["train"].node_group == "new"
    assert hourly("us-east-1", settings.node_groups["new"].types[0], "compute-3y-no-upfront") == 0.1
    unpriced = loaded(groups(text.format("")), tmp_path).node_groups["new"].types[0]
    with pytest.raises(NoPrice, match=r"m9i\.4xlarge"):
        on_demand("us-east-1", unpriced)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[m9i.4xlarge]", ("instance-type.unknown", "instanceTypes[0]:", "shape: { cpu: …, memory: … }")),
        ("[m9i.4xlarge], shape: { cpu: 16 }", ("key.missing", ":6:", "shape.memory:", "64Gi")),
        ("[m9i.4xlarge], shape: { memory: 64Gi }", ("key.missing", "shape.cpu:")),
        ("[m9i.4xlarge], shape: { cpu: 16500m, memory: 64Gi }", ("shape.cpu", "16500m")),
        ("[m9i.4xlarge], shape: { cpu: 16, memory: 64Gi, arch: any }", ("choice.unknown", "amd64 or arm64")),
        ("[m9i.4xlarge], shape: { cpu: 16, memory: 64Gi, gpu: 1 }", ("node-group.gpus",)),
        (
            "[m9i.4xlarge, m7i.4xlarge], shape: { cpu: 16, memory: 64Gi }",
            ("instance-type.with-shape", ":6:", "instanceTypes[1]:", "found 'm7i.4xlarge'", "remove shape"),
        ),
    ],
)
def test_a_fault_of_a_shape_is_one_message(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(groups(f"flexible: {{ instanceTypes: {text} }}"), tmp_path).tells(*words)


def test_each_unknown_type_of_a_list_is_named_at_its_place(tmp_path: Path) -> None:
    problems = problems_of(groups("flexible: { instanceTypes: [m7i.4xlarge, 3, m9i.4xlarge] }"), tmp_path)

    assert [str(problem).partition("instanceTypes")[2][:3] for problem in problems] == ["[1]", "[2]"]


def test_sets_of_existing_nodes_become_groups_of_a_replay(tmp_path: Path) -> None:
    shapes = "flexible: { cpu: 15800m, memory: 60Gi, max: 4, min: 1, reserved: { cpu: 300m } }"
    large = "large: { cpu: 30, memory: 200Gi, max: 8, min: 1, autoscaled: true, usdPerHour: 2 }"
    settings = loaded(onprem(f"{SELECTORS}, nodeShapes: {{ {shapes}, {large} }}"), tmp_path)
    replayed = with_node_sets(settings).node_groups

    assert settings.node_groups == {}
    assert {name: (group.kind, group.min, group.max) for name, group in replayed.items()} == {
        "flexible": (NodeKind.FLEXIBLE, 4, 4),  # without an autoscaler all nodes stay
        "large": (NodeKind.FLEXIBLE, 1, 8),
    }
    assert (node_of(replayed["flexible"]).cpu, node_of(replayed["flexible"]).memory) == (15_500, 60 * 1024)
    assert on_demand(settings.region, replayed["large"].types[0]) == 2


ARN = '"arn:aws:eks:eu-west-1:111122223333:cluster/prod"'


@pytest.mark.parametrize(
    ("context", "key", "region"),
    [
        (ARN, "", "eu-west-1"),
        (ARN, "aws:region: us-west-2", "us-west-2"),
        ("onprem", "", ""),
        ("onprem", "aws:region: us-west-2", "us-west-2"),
        ('"arn:aws:iam::111122223333:role/prod"', "", ""),
        (ARN.replace("cluster/", "pod/"), "", ""),
    ],
)
def test_prices_of_existing_nodes_are_those_of_the_region_that_the_file_names(
    tmp_path: Path, context: str, key: str, region: str
) -> None:
    shapes = "nodeShapes: { flexible: { instanceTypes: [m7i.4xlarge], max: 4 } }"
    text = onprem(f"{SELECTORS}, {shapes}", more=key).replace("context: onprem", f"context: {context}")
    settings = loaded(text, tmp_path)

    assert settings.stated_region == with_node_sets(settings).region == region
    assert [group.region for group in unpriced_groups(with_node_sets(settings))] == ([] if region else [""])


def test_a_type_without_a_price_names_the_region_of_the_arn_and_a_described_size_none(tmp_path: Path) -> None:
    """g6 is not sold in Ireland, and no price list has a size that the file describes."""
    shapes = "flexible: { cpu: 15800m, memory: 60Gi, max: 4 }, gpu: { instanceTypes: [g6.8xlarge], max: 4 }"
    text = onprem(f"{SELECTORS}, nodeShapes: {{ {shapes} }}").replace("context: onprem", f"context: {ARN}")

    unpriced = unpriced_groups(with_node_sets(loaded(text, tmp_path)))

    assert [(group.name, group.region) for group in unpriced] == [("flexible", ""), ("gpu", "eu-west-1")]


KARPENTER = "nodePools: { flexible: [general] }"


def test_the_largest_of_several_types_decides_what_fits_and_the_others_may_run(tmp_path: Path) -> None:
    shapes = "nodeShapes: { flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 4, min: 1 } }"
    settings = loaded(onprem(f"{SELECTORS}, {KARPENTER}, {shapes}"), tmp_path)
    group = with_node_sets(settings).node_groups["flexible"]

    assert [kind.name for kind in group.types] == ["m7i.4xlarge", "m7i.2xlarge"]
    assert (group.by_karpenter, group.min, group.max) == (True, 0, 4)  # Karpenter keeps no minimum
    assert node_of(group) == usable(instance_type("m7i.4xlarge"))
    assert constant_groups(settings) == ()
    assert with_node_sets(settings).budgeted_node_pools == ("general",)  # a set is no NodePool


def test_each_kubelet_of_an_existing_node_pool_reserves_what_its_own_type_needs(tmp_path: Path) -> None:
    shapes = "nodeShapes: { flexible: { instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 4 } }"
    settings = with_node_sets(loaded(onprem(f"{SELECTORS}, {KARPENTER}, {shapes}"), tmp_path))
    small = instance_type("m7i.2xlarge")

    assert node_of_type(settings.node_groups["flexible"], small) == usable(small)


def test_described_types_have_the_sizes_and_prices_of_the_file(tmp_path: Path) -> None:
    types = "{ D8s: { cpu: 7800m, memory: 29Gi, usdPerHour: 0.4 }, D16s: { cpu: 15800m, memory: 60Gi } }"
    shapes = f"nodeShapes: {{ flexible: {{ types: {types}, max: 4 }} }}"
    settings = loaded(onprem(f"{SELECTORS}, {KARPENTER}, {shapes}"), tmp_path)
    large, small = with_node_sets(settings).node_groups["flexible"].types

    assert (large.name, usable(large).cpu, large.usd_per_hour) == ("D16s", 15_800, None)
    assert (small.name, usable(small).memory, small.usd_per_hour) == ("D8s", 29 * 1024, 0.4)


@pytest.mark.parametrize(
    ("selector", "node_pools", "by_karpenter"),
    [
        ("{ pool: batch }", "", False),
        ("{ pool: batch }", ", nodePools: { flexible: [general] }", True),
        ("{ pool: batch }", ", nodePools: { gpu: [general] }", False),
        ("{ karpenter.sh/nodepool: general }", "", True),
        ("{ karpenter.k8s.aws/instance-family: m7i }", "", True),
        ("{ example.com/karpenter: batch }", "", False),
    ],
)
def test_karpenter_provides_sets_of_its_node_pools_or_with_its_labels(
    selector: str, node_pools: str, by_karpenter: bool, tmp_path: Path
) -> None:
    settings = loaded(onprem(f"nodeSelectors: {{ flexible: {selector} }}{node_pools}"), tmp_path)

    assert settings.cluster.by_karpenter("flexible") is by_karpenter


def test_known_types_have_a_price_only_in_a_region_that_the_file_names(tmp_path: Path) -> None:
    text = onprem(f"{SELECTORS}, nodeShapes: {{ flexible: {{ instanceTypes: [m7i.4xlarge], max: 4 }} }}")
    unknown = with_node_sets(loaded(text, tmp_path))
    known = with_node_sets(loaded(text.replace("config:\n", "config:\n  aws:region: eu-central-1\n"), tmp_path))

    assert on_demand(known.region, known.node_groups["flexible"].types[0]) == on_demand("eu-central-1", "m7i.4xlarge")
    with pytest.raises(NoPrice):
        on_demand(unknown.region, unknown.node_groups["flexible"].types[0])


@pytest.mark.parametrize(
    ("shape", "codes"),
    [
        ("instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 4", ["node-group.shapes"]),  # no set of Karpenter
        ("instanceTypes: [m7i.2xlarge, m6i.2xlarge], max: 4", []),
    ],
)
def test_several_sizes_need_karpenter(shape: str, codes: list[str], tmp_path: Path) -> None:
    text = onprem(f"{SELECTORS}, nodeShapes: {{ flexible: {{ {shape} }} }}")

    assert [problem.code for problem in problems_of(text, tmp_path)] == codes if codes else loaded(text, tmp_path)


def test_all_faults_of_a_set_with_types_are_reported_at_once(tmp_path: Path) -> None:
    shape = "instanceTypes: [m7i.2xlarge, m7i.4xlrge], cpu: 4, min: 5, max: 4"
    problems = problems_of(onprem(f"{SELECTORS}, {KARPENTER}, nodeShapes: {{ flexible: {{ {shape} }} }}"), tmp_path)

    assert [(problem.code, problem.path.rpartition(".flexible.")[2]) for problem in problems] == [
        ("node-shape.one-way", "cpu"),
        ("instance-type.unknown", "instanceTypes[1]"),
        ("min.above-max", "min"),
    ]


def test_a_set_that_pods_use_and_no_shape_describes_is_known(tmp_path: Path) -> None:
    shapes = "nodeShapes: { large: { cpu: 30, memory: 200Gi, max: 8 } }"
    settings = loaded(onprem(f"{SELECTORS}, {shapes}"), tmp_path)

    assert sets_without_shape(settings) == ("flexible",)
    assert sets_without_shape(loaded(onprem(f"{SELECTORS}, {shapes}", train="nodeGroup: large"), tmp_path)) == ()


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ("flexibel: { cpu: 15, memory: 60Gi, max: 4 }", ("nodes.unknown", "did you mean flexible?")),
        ("gpu: { cpu: 15, max: 4 }", ("key.missing", "nodeShapes.gpu.memory:")),
        ("gpu: { cpu: 15, memory: 60Gi, max: 4, min: 5 }", ("min.above-max", "nodeShapes.gpu.min:")),
        ("flexible: { cpu: 500m, memory: 60Gi, max: 4 }", ("pod.too-large", "a node of cluster.nodeShapes.flexible")),
    ],
)
def test_a_fault_of_a_set_is_one_message(shapes: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(onprem(f"{SELECTORS}, nodeShapes: {{ {shapes} }}"), tmp_path).tells(*words)


def test_few_described_types_of_a_spot_group_are_refused(tmp_path: Path) -> None:
    text = "spot: { instanceTypes: [m9i.4xlarge], shape: { cpu: 16, memory: 64Gi } }"

    assert problem_of(groups(text), tmp_path).tells("spot.few-types", "found 1: m9i.4xlarge")
