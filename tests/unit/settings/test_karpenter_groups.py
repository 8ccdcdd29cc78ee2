"""Groups that Karpenter provides: defaults, what is refused, and several sizes in one group."""

from pathlib import Path

import pytest

from ebbtide.provisioning_labels import Provisioner
from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.placement import node_of
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest


def groups(text: str, *, cluster: str = "provisioner: karpenter") -> str:
    return shortest(more=f"ebbtide:cluster: {{ {cluster} }}\nebbtide:nodeGroups: {{ {text} }}")


def test_the_clusters_provisioner_is_the_default_of_all_groups_but_fixed_ones(tmp_path: Path) -> None:
    text = "gpu: { max: 4 }, other: { kind: flexible, max: 4, provisioner: cluster-autoscaler }"
    stack = loaded(groups(text), tmp_path)

    assert {name: group.provisioner.value for name, group in stack.node_groups.items()} == {
        "fixed": "cluster-autoscaler",
        "gpu": "karpenter",
        "other": "cluster-autoscaler",
    }
    assert set(loaded(groups("gpu: { max: 4 }"), tmp_path).karpenter_groups) == {"flexible", "gpu"}
    assert loaded(shortest(), tmp_path).karpenter_groups == {}


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("fixed: { provisioner: karpenter, max: 4 }", "node-group.fixed-provisioner", "nodeGroups.fixed.provisioner"),
        ("flexible: { min: 1, max: 4 }", "node-group.karpenter-min", "nodeGroups.flexible.min"),
        ("flexible: { provisioner: auto-mode }", "choice.planned", "nodeGroups.flexible.provisioner"),
        ("flexible: { provisioner: karpentr }", "choice.unknown", "nodeGroups.flexible.provisioner"),
        (
            "flexible: { instanceTypes: [m7i.2xlarge, r7i.xlarge, c7i.8xlarge, r7i.4xlarge] }",
            "node-group.no-largest",
            "nodeGroups.flexible.instanceTypes",
        ),
        (
            "flexible: { instanceTypes: [m7i.4xlarge, m7g.2xlarge] }",
            "node-group.no-largest",
            "nodeGroups.flexible.instanceTypes",
        ),
    ],
)
def test_what_karpenter_cannot_do_is_refused_once(text: str, code: str, at: str, tmp_path: Path) -> None:
    assert problem_of(groups(text), tmp_path).tells(code, at)


def test_families_stand_for_their_types_in_the_range_of_cpus(tmp_path: Path) -> None:
    stack = loaded(groups("flexible: { families: [m7i, m6i], cpu: 8-16, max: 4 }"), tmp_path)

    assert sorted(stack.node_groups["flexible"].instance_types) == [
        *("m6i.2xlarge", "m6i.4xlarge", "m7i.2xlarge", "m7i.4xlarge")
    ]
    one = loaded(groups("flexible: { families: [m7i], cpu: 16, max: 4 }"), tmp_path)
    assert one.node_groups["flexible"].instance_types == ("m7i.4xlarge",)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("flexible: { families: [m7i, m7x], cpu: 8-16 }", "node-group.no-types", "m7x"),
        ("flexible: { families: [m7i], cpu: 3 }", "node-group.no-types", "families"),
        ("flexible: { families: [m7i], cpu: 8, instanceTypes: [c7i.2xlarge] }", "node-group.no-types", "c7i"),
        ("flexible: { families: [m7i] }", "node-group.families", "cpu missing"),
        ("flexible: { families: [m7i], cpu: 4+ }", "node-group.families", "cpu 4+"),
        ("flexible: { cpu: 4-8 }", "node-group.families", "families []"),
    ],
)
def test_families_that_name_no_types_are_refused_once(text: str, code: str, words: str, tmp_path: Path) -> None:
    assert problem_of(groups(text), tmp_path).tells(code, "nodeGroups.flexible", words)


def test_families_need_karpenter(tmp_path: Path) -> None:
    text = groups("flexible: { families: [m7i], cpu: 16, max: 4 }", cluster="zones: [a, b]")

    assert problem_of(text, tmp_path).tells("node-group.families-without-karpenter", "nodeGroups.flexible.families")


def test_auto_mode_is_refused_for_the_cluster_with_its_reason(tmp_path: Path) -> None:
    text = shortest(more="ebbtide:cluster: { provisioner: auto-mode }")

    assert problem_of(text, tmp_path).tells("choice.planned", "cluster.provisioner", "21 days")


def test_the_nodes_of_an_existing_cluster_have_another_owner(tmp_path: Path) -> None:
    text = onprem().replace("kind: existing", "kind: existing, provisioner: karpenter")

    assert problem_of(text, tmp_path).tells("key.not-on-existing-cluster", "cluster.provisioner")


def test_a_pod_must_fit_the_largest_type_of_a_group(tmp_path: Path) -> None:
    types = "flexible: {{ instanceTypes: [c7i.xlarge, m7i.2xlarge, m7i.{}], max: 4 }}"
    stack = loaded(groups(types.format("4xlarge")), tmp_path)
    alone = loaded(groups("flexible: { instanceTypes: [m7i.4xlarge], max: 4 }"), tmp_path)
    large = 'ebbtide:workloads: { api: { category: flexible, image: "example.com/api:1", cpu: 15, memory: 50Gi } }'

    assert node_of(stack.node_groups["flexible"]) == node_of(alone.node_groups["flexible"])
    assert loaded(f"{groups(types.format('4xlarge'))}  {large}\n", tmp_path).node_groups
    problem = problem_of(f"{groups(types.format('xlarge'))}  {large}\n", tmp_path)
    assert problem.tells("pod.too-large", "workloads.api")


def test_one_group_with_several_sizes_still_takes_karpenter(tmp_path: Path) -> None:
    text = groups("flexible: { instanceTypes: [m7i.4xlarge, m7i.2xlarge] }", cluster="zones: [a, b]")

    assert problem_of(text, tmp_path).tells("node-group.shapes", "provisioner: karpenter")


def test_a_maximum_below_the_zones_is_karpenters_own_matter(tmp_path: Path) -> None:
    assert loaded(groups("gpu: { max: 1 }"), tmp_path).node_groups["gpu"].max == 1
    assert [it.code for it in problems_of(groups("gpu: { max: 1 }", cluster="zones: [a, b]"), tmp_path)] == [
        "node-group.max-below-zones"
    ]


def test_another_instance_type_keeps_the_provisioner(tmp_path: Path) -> None:
    group = loaded(groups("gpu: { max: 4 }"), tmp_path).node_groups["gpu"]

    assert group.with_types(("g6.4xlarge",)).provisioner is Provisioner.KARPENTER


def cautions(types: str, most: int, tmp_path: Path) -> dict[str, str]:
    """Cautions of a stack with four workers of 4 CPUs and 16 GiB."""
    text = groups(f"flexible: {{ instanceTypes: [{types}], max: {most} }}")
    return {it.code: it.text for it in warnings_of(loaded(text, tmp_path))}


def test_a_type_that_no_pod_fits_is_named(tmp_path: Path) -> None:
    found = cautions("m7i.xlarge, m7i.2xlarge, m7i.4xlarge", 20, tmp_path)

    assert found["node-group.type-without-pods"].startswith("no pod of the stack fits m7i.xlarge:")
    assert "node-group.type-without-pods" not in cautions("m7i.2xlarge, m7i.4xlarge", 20, tmp_path)


def test_a_maximum_that_suffices_only_for_large_nodes_is_named(tmp_path: Path) -> None:
    """Three workers fit on the larger node, and one on the smaller."""
    sizes, code = "m7i.2xlarge, m7i.4xlarge", "node-group.small-nodes"

    assert "its pods need 4 if Karpenter launches the smallest" in cautions(sizes, 3, tmp_path)[code]
    assert code not in cautions(sizes, 4, tmp_path)
    assert {code, "node-group.too-small"} & set(cautions(sizes, 1, tmp_path)) == {"node-group.too-small"}
