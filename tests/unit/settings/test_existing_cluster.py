"""A stack file for a cluster that is there already: what it may say, and what it may not."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders_existing import CLUSTER_ID, onprem
from tests.builders_settings import SHORTEST, loaded, problem_of, problems_of, shortest


def test_a_context_is_enough(tmp_path: Path) -> None:
    settings = loaded(onprem(), tmp_path)

    assert settings.place == "context onprem"
    assert settings.node_groups == {}
    assert settings.workers["train"].node_group == "flexible"


def test_a_pool_with_gpus_goes_to_the_gpu_nodes_and_another_where_it_says(tmp_path: Path) -> None:
    sets = "nodeSelectors: { gpu: { pool: gpu }, gpu-large: { pool: h100 } }"

    assert loaded(onprem(sets, train="gpu: 1"), tmp_path).workers["train"].node_group == "gpu"
    named = loaded(onprem(sets, train="gpu: 1, nodeGroup: gpu-large"), tmp_path)
    assert named.workers["train"].node_group == "gpu-large"


def test_a_pod_of_any_size_is_taken_since_nobody_knows_the_nodes(tmp_path: Path) -> None:
    assert loaded(onprem().replace("cpu: 4,", "cpu: 400,"), tmp_path).workers["train"].cpu == 400_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ebbtide:network: { nat: nonsense }", "ebbtide:network: wanted this key left out"),
        ("ebbtide:nodeGroups: { gpu: { max: 0 } }", "cluster.nodeSelectors says which ones pods go to"),
        ("ebbtide:nodeGroups: none", "ebbtide:nodeGroups: wanted this key left out"),
        ("ebbtide:costs: { expectedNodeHours: { gpu: 3 } }", "what its nodes cost is not known"),
        ("ebbtide:redis: { keepOnDestroy: true }", "the storage class of its volume decides that"),
        ("ebbtide:redis: { kind: elasticache }", "wanted in-cluster or url"),
    ],
)
def test_a_section_that_would_do_nothing_is_refused_once(line: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(onprem(more=line), tmp_path)


@pytest.mark.parametrize("key", ['version: "1.35"', "zones: [a, b]", "zones: [a]", "version: 1.30"])
def test_a_key_for_whoever_makes_the_cluster_is_refused_once(key: str, tmp_path: Path) -> None:
    said = problem_of(onprem(key), tmp_path)

    assert f"ebbtide:cluster.{key.split(':')[0]}: wanted this key left out" in said
    assert said.endswith("whoever runs the cluster decides that")


@pytest.mark.parametrize("key", ["context: onprem", f'clusterId: "{CLUSTER_ID}"', "nodeSelectors: { gpu: { a: b } }"])
def test_a_key_of_an_existing_cluster_is_refused_on_eks(key: str, tmp_path: Path) -> None:
    assert "wanted kind: existing beside this key" in problem_of(
        shortest(more=f"ebbtide:cluster: {{ {key} }}"), tmp_path
    )


def test_the_context_must_be_named(tmp_path: Path) -> None:
    said = problem_of(SHORTEST + "  ebbtide:cluster: { kind: existing }\n", tmp_path)

    assert "ebbtide:cluster.context: wanted the context of your kubeconfig, found nothing" in said


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("clusterId: abc", "wanted the UID of the namespace kube-system, found 'abc'"),
        ("nodeSelectors: { gpu: {} }", "nodeSelectors.gpu: wanted the labels of the nodes"),
        ("nodeSelectors: { gpu: { pool: 3 } }", "nodeSelectors.gpu.pool: wanted text, found 3"),
        ('nodeSelectors: { gpu: { "bad key": a } }', "wanted a label's key as Kubernetes writes it"),
        ('nodeSelectors: { gpu: { pool: "a b" } }', "wanted a label's value as Kubernetes writes it"),
        ("nodeSelectors: { GPU: { pool: gpu } }", "wanted a name of lower-case letters"),
    ],
)
def test_a_wrong_value_is_named(key: str, said: str, tmp_path: Path) -> None:
    assert said in problem_of(onprem(key), tmp_path)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("gpu-lage", "wanted a name in cluster.nodeSelectors, found 'gpu-lage'; did you mean gpu-large?"),
        ("fixed", "wanted a set of nodes without fixed pods, found 'fixed'"),
    ],
)
def test_a_pool_names_nodes_that_are_known_and_take_it(nodes: str, said: str, tmp_path: Path) -> None:
    text = onprem("nodeSelectors: { gpu-large: { pool: h100 } }", train=f"nodeGroup: {nodes}")

    assert said in problem_of(text, tmp_path)


def test_all_is_told_at_once(tmp_path: Path) -> None:
    text = onprem('version: "1.35", clusterId: abc', more="ebbtide:network: {}", train="nodeGroup: fixed")

    assert [problem.path for problem in problems_of(text, tmp_path)] == [
        "ebbtide:workers.train.nodeGroup",
        "ebbtide:cluster.clusterId",
        "ebbtide:cluster.version",
        "ebbtide:network",
    ]


def test_a_region_without_prices_is_no_matter(tmp_path: Path) -> None:
    text = onprem(f'clusterId: "{CLUSTER_ID}"', more="aws:region: eu-south-9")

    assert not any("prices" in line for line in warnings_of(loaded(text, tmp_path)))


def test_a_stack_that_could_land_on_another_cluster_is_worth_a_word(tmp_path: Path) -> None:
    about = [line for line in warnings_of(loaded(onprem(), tmp_path)) if "clusterId" in line]
    sure = loaded(onprem(f'clusterId: "{CLUSTER_ID}"'), tmp_path)

    assert len(about) == 1
    assert "ebbtide probe" in about[0]
    assert not any("clusterId" in line for line in warnings_of(sure))
