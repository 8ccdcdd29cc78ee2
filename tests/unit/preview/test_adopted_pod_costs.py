"""The nodes that adopted pods need, in the estimate of a month."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.preview.cost.comparison import compare_costs
from tests.builders.settings import loaded, shortest

GROUPS = "ebbtide:nodeGroups: { fixed: { min: 2, max: 4 }, flexible: { instanceTypes: [m7i.4xlarge], max: 10 } }"
THREE_TO_A_NODE = "namespace: team, cpu: 5, memory: 2Gi"


def said(folder: Path, *rules: str, costs: str = "{}") -> str:
    entries = ", ".join(
        f"r{number}: {{ selector: {{ app: r{number} }}, {THREE_TO_A_NODE}, {rule} }}"
        for number, rule in enumerate(rules)
    )
    version = 'ebbtide:cluster: { version: "1.36" }'
    text = f"{version}\n{GROUPS}\nebbtide:costs: {costs}\nebbtide:adopted: {{ {entries} }}"
    return compare_costs(None, loaded(shortest(more=text), folder), date(2026, 6, 1)).confidence


def test_workers_and_flexible_pods_together_need_nodes_of_their_group(tmp_path: Path) -> None:
    found = said(tmp_path, "category: worker, usually: 2", "category: flexible, replicas: 2")

    assert (
        "; adopted pods need 2 nodes of flexible at all times (r0, r1), 1,460 node-hours a month, included in its line"
        in found
    )


@pytest.mark.parametrize("rule", ["category: fixed, replicas: 2", "category: worker, usually: 0"])
def test_pods_within_the_minimum_of_a_group_cost_nothing_more(rule: str, tmp_path: Path) -> None:
    assert "adopted" not in said(tmp_path, rule)


def test_a_stated_usage_below_their_need_is_told(tmp_path: Path) -> None:
    found = said(tmp_path, "category: worker, usually: 1", costs="{ expectedNodeHours: { flexible: 300 } }")

    assert "1 node of flexible at all times (r0), 730 node-hours a month, more than the 300 that" in found


def test_a_chart_that_sleeps_is_not_there_at_all_times(tmp_path: Path) -> None:
    sleep = "sleep: { when: outsideBusinessHours, scale: { kind: Deployment, name: hub } }"

    assert "adopted" not in said(tmp_path, f"category: flexible, replicas: 2, {sleep}")


def test_an_adopted_pool_is_named_with_its_minimum(tmp_path: Path) -> None:
    pool = "pool: { source: { queues: [scan] }, min: 2, max: 4, longestJob: 1h }"

    assert "adopted pods need 1 node of flexible at all times (r0)" in said(tmp_path, f"category: worker, {pool}")
