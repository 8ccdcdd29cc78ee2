"""Adopted pods need nodes like the stack's own: room, the nights that they cost, and the summary."""

from pathlib import Path

import pytest

from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.node_sets import sets_without_shape
from ebbtide.settings.capacity.packing import lasting_pods, nodes_at_maximum
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.summary import summary
from tests.builders.existing import onprem
from tests.builders.settings import loaded, shortest

BIG = "cpu: 7, memory: 4Gi"  # one on each node of 8 vCPUs


def stack(folder: Path, rule: str, groups: str = "") -> StackSettings:
    more = (
        'ebbtide:cluster: { version: "1.36" }\n'
        f"ebbtide:adopted: {{ hub: {{ namespace: jupyter, selector: {{ component: hub }}, {rule} }} }}\n"
        f"ebbtide:nodeGroups: {{ flexible: {{ instanceTypes: [m7i.2xlarge], max: 6 }}{groups} }}"
    )
    return loaded(shortest(more=more), folder)


def codes(settings: StackSettings) -> dict[str, str]:
    return {caution.code: caution.place for caution in warnings_of(settings)}


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        ("category: flexible, replicas: 3", 3),
        ("category: flexible, pods: 2", 2),
        ("category: worker, usually: 2", 2),
        ("category: worker, usually: 0", 0),
        ("category: fixed, replicas: 1", 0),
    ],
)
def test_pods_of_a_rule_stay_on_their_nodes(tmp_path: Path, rule: str, nodes: int) -> None:
    assert lasting_pods(stack(tmp_path, f"{rule}, {BIG}")).opened["flexible"] == nodes


POOL = "pool: { source: { queues: [etl] }, min: 1, max: 5, longestJob: 1h, safeStop: true }"


def test_a_pool_needs_nodes_between_its_minimum_and_its_maximum(tmp_path: Path) -> None:
    settings = stack(tmp_path, f"{POOL}, {BIG}")
    without = loaded(
        shortest(more="ebbtide:nodeGroups: { flexible: { instanceTypes: [m7i.2xlarge], max: 6 } }"), tmp_path
    )

    assert lasting_pods(settings).opened["flexible"] == 1
    assert nodes_at_maximum(settings)["flexible"] == nodes_at_maximum(without)["flexible"] + 5


def test_a_group_that_is_too_small_for_them_is_named(tmp_path: Path) -> None:
    settings = stack(tmp_path, f"category: worker, usually: 6, {BIG}")

    assert nodes_at_maximum(settings)["flexible"] > 6  # the pool's workers need nodes, too
    assert codes(settings)["node-group.too-small"] == "nodeGroups.flexible.max"


@pytest.mark.parametrize(
    ("rule", "groups", "code", "path"),
    [
        ("category: flexible, replicas: 1", "", "workload.one-replica", "adopted.hub.replicas"),
        ("category: flexible, pods: 1", "", "workload.one-replica", "adopted.hub.pods"),
        (
            "category: fixed, replicas: 1, gpu: 1",
            ", gpu: { instanceTypes: [g5.2xlarge], max: 2 }",
            "workload.fixed-elsewhere",
            "adopted.hub.category",
        ),
    ],
)
def test_a_rule_with_bad_nights_is_warned_of(tmp_path: Path, rule: str, groups: str, code: str, path: str) -> None:
    assert codes(stack(tmp_path, f"{rule}, cpu: 1, memory: 1Gi", groups))[code] == path


@pytest.mark.parametrize("rule", ["category: flexible, replicas: 2", "category: fixed, replicas: 1"])
def test_other_rules_are_not(tmp_path: Path, rule: str) -> None:
    found = codes(stack(tmp_path, f"{rule}, cpu: 1, memory: 1Gi"))

    assert {code for code, path in found.items() if path.startswith("adopted")} == set()


def test_the_summary_has_a_line_for_each_rule(tmp_path: Path) -> None:
    lines = summary(stack(tmp_path, "category: worker, usually: 6, cpu: 2, memory: 8Gi"))

    pool = summary(stack(tmp_path, f"{POOL}, cpu: 2, memory: 8Gi"))

    assert "adopted  hub: 1 to 5 workers of jupyter with component=hub, 2 CPU, 8Gi" in pool
    assert "adopted  hub: usually 6 worker pods of jupyter with component=hub, 2 CPU, 8Gi" in lines


def test_a_replay_on_an_existing_cluster_needs_the_shapes_of_their_nodes(tmp_path: Path) -> None:
    rule = "{ namespace: jupyter, selector: { app: hub }, category: fixed, replicas: 1, cpu: 1, memory: 1Gi }"
    text = onprem("nodeSelectors: { flexible: { pool: batch }, fixed: { pool: base } }")
    settings = loaded(f"{text}  ebbtide:adopted: {{ hub: {rule} }}\n", tmp_path)

    assert "fixed" in sets_without_shape(settings)
