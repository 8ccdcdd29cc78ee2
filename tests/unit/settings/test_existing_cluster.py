"""A stack file for an existing cluster: accepted and refused keys."""

import json
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.process_documents import controller_config, has_workloads, workloads_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.existing import CLUSTER_ID, onprem
from tests.builders.settings import SHORTEST, loaded, problem_of, problems_of, shortest


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
    ("line", "words"),
    [
        ("ebbtide:network: { nat: nonsense }", ("key.not-on-existing-cluster", "ebbtide:network:")),
        ("ebbtide:nodeGroups: { gpu: { max: 0 } }", ("key.not-on-existing-cluster",)),
        ("ebbtide:nodeGroups: none", ("key.not-on-existing-cluster", "ebbtide:nodeGroups:")),
        ("ebbtide:costs: { expectedNodeHours: { gpu: 3 } }", ("key.not-on-existing-cluster",)),
        ("ebbtide:redis: { keepOnDestroy: true }", ("key.not-on-existing-cluster",)),
        ("ebbtide:redis: { kind: elasticache }", ("elasticache.existing-cluster",)),
    ],
)
def test_a_section_that_would_do_nothing_is_refused_once(line: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(onprem(more=line), tmp_path).tells(*words)


def test_labels_divide_the_costs_of_an_existing_cluster_too(tmp_path: Path) -> None:
    assert loaded(onprem(more="ebbtide:costs: { labels: [team] }"), tmp_path).costs.labels == ("team",)


@pytest.mark.parametrize("key", ['version: "1.35"', "zones: [a, b]", "zones: [a]", "version: 1.30"])
def test_a_key_for_whoever_makes_the_cluster_is_refused_once(key: str, tmp_path: Path) -> None:
    problem = problem_of(onprem(key), tmp_path)

    assert problem.tells("key.not-on-existing-cluster", f"ebbtide:cluster.{key.split(':')[0]}:")


@pytest.mark.parametrize(
    "key",
    [
        "context: onprem",
        f'clusterId: "{CLUSTER_ID}"',
        "nodeSelectors: { gpu: { a: b } }",
        "nodeShapes: { gpu: { cpu: 8, memory: 32Gi, max: 2 } }",
        "rayOperator: existing",
        "rayOperator: bundled",
    ],
)
def test_a_key_of_an_existing_cluster_is_refused_on_eks(key: str, tmp_path: Path) -> None:
    assert problem_of(shortest(more=f"ebbtide:cluster: {{ {key} }}"), tmp_path).tells("key.of-existing-cluster")


def test_the_context_must_be_named(tmp_path: Path) -> None:
    problem = problem_of(SHORTEST + "  ebbtide:cluster: { kind: existing }\n", tmp_path)

    assert problem.tells("context.missing", "ebbtide:cluster.context:", "found nothing")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("clusterId: abc", ("cluster-id.form", "found 'abc'")),
        ("nodeSelectors: { gpu: {} }", ("node-labels.type", "nodeSelectors.gpu:")),
        ("nodeSelectors: { gpu: { pool: 3 } }", ("type.text", "nodeSelectors.gpu.pool:", "found 3")),
        ('nodeSelectors: { gpu: { "bad key": a } }', ("node-labels.key",)),
        ('nodeSelectors: { gpu: { pool: "a b" } }', ("node-labels.value",)),
        ("nodeSelectors: { GPU: { pool: gpu } }", ("name.form",)),
        ("rayOperator: installed", ("choice.unknown", "rayOperator:", "bundled or existing")),
    ],
)
def test_a_wrong_value_is_named(key: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(onprem(key), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("gpu-lage", ("nodes.unknown", "found 'gpu-lage'", "did you mean gpu-large?")),
        ("fixed", ("nodes.fixed", "found 'fixed'")),
    ],
)
def test_a_pool_names_nodes_that_are_known_and_take_it(nodes: str, words: tuple[str, ...], tmp_path: Path) -> None:
    text = onprem("nodeSelectors: { gpu-large: { pool: h100 } }", train=f"nodeGroup: {nodes}")

    assert problem_of(text, tmp_path).tells(*words)


def test_all_is_told_at_once(tmp_path: Path) -> None:
    text = onprem('version: "1.35", clusterId: abc', more="ebbtide:network: {}")

    assert [problem.path for problem in problems_of(text, tmp_path)] == [
        "ebbtide:cluster.clusterId",
        "ebbtide:cluster.version",
        "ebbtide:network",
    ]


def test_a_region_without_prices_is_no_matter(tmp_path: Path) -> None:
    text = onprem(f'clusterId: "{CLUSTER_ID}"', more="aws:region: eu-south-9")

    assert "region.no-prices" not in {caution.code for caution in warnings_of(loaded(text, tmp_path))}


def test_a_stack_that_could_land_on_another_cluster_is_worth_a_word(tmp_path: Path) -> None:
    about = [caution for caution in warnings_of(loaded(onprem(), tmp_path)) if caution.code == "cluster-id.not-set"]
    sure = loaded(onprem(f'clusterId: "{CLUSTER_ID}"'), tmp_path)

    assert len(about) == 1
    assert "ebbtide probe" in about[0].text
    assert not any("clusterId" in caution.place for caution in warnings_of(sure))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nodePools: { fixed: [general] }", ("nodes.fixed", "nodePools.fixed", "a set of nodes without fixed pods")),
        ("nodePools: { gpuu: [general] }", ("nodes.unknown", "nodePools.gpuu", "gpu")),
        ("nodePools: { gpu: [a], flexible: [b, a] }", ("node-pools.twice", "nodePools.flexible", "also in gpu")),
        ("nodePools: { gpu: [a, a] }", ("list.twice", "nodePools.gpu")),
        ("nodePools: { gpu: [A] }", ("node-pools.name", "nodePools.gpu[0]", "for example general")),
        ("nodePools: { gpu: [a] }, parallelDrains: 0", ("number.too-small", "parallelDrains")),
        ("parallelDrains: 5", ("key.not-on-existing-cluster", "parallelDrains")),
    ],
)
def test_a_wrong_node_pool_is_refused(line: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(onprem(line), tmp_path).tells(*words)


def test_node_pools_of_all_sets_have_business_hours(tmp_path: Path) -> None:
    line = "nodeSelectors: { large: { pool: h100 } }, nodePools: { large: [h100], flexible: [spot, general] }"
    settings = loaded(onprem(line), tmp_path)
    document = workloads_config(settings, lambda _: "")

    assert settings.budgeted_node_pools == ("general", "h100", "spot")
    assert {pool.drains for pool in document.node_pools} == {5}
    assert document.budgets == controller_config(settings, RedisEndpoint(host="redis")).budgets
    assert document.drain_guard > settings.controller.closing_guard
    assert has_workloads(settings)
    assert load(WorkloadsConfig, dump(document)) == document


def test_a_stack_without_node_pools_keeps_its_document(tmp_path: Path) -> None:
    text = dump(workloads_config(loaded(onprem(), tmp_path), lambda _: ""))

    assert not {"nodePools", "drainGuard", "budgets"} & set(json.loads(text))
