"""The lines of `ebbtide status` about NodePools."""

from datetime import timedelta
from typing import Any, cast

import pytest

from controllers.adapters.kube_api import KubeApi
from controllers.workloads.nodes.budgets import NodeBudgetReason
from ebbtide.operate import node_pools as module
from ebbtide.operate.node_pools import NodePoolRow, budgets_text, node_pools_of, nodes_text
from ebbtide.operate.status import NoStatus
from ebbtide.operate.wording import REASONS
from ebbtide.vocabulary.workloads import NodePoolPolicy, WorkloadsConfig
from tests.builders.controllers import OFFICE

CONFIG = WorkloadsConfig(
    namespace="ebbtide",
    hours=OFFICE,
    node_pools=(NodePoolPolicy(name="general", drains=5), NodePoolPolicy(name="gpu", drains=5)),
    drain_guard=timedelta(minutes=35),
)
API = cast("KubeApi", object())


POOLS = {
    "general": {
        "spec": {
            "limits": {"nodes": "20"},
            "disruption": {
                "budgets": [
                    {"nodes": "0", "reasons": ["Underutilized", "Drifted"]},
                    {"nodes": "100%", "reasons": ["Empty"]},
                ]
            },
        },
        "status": {"resources": {"nodes": "3"}},
    }
}


def reports(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def read(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return {"workloads": answer}

    def find(_: object, path: str) -> object:
        return POOLS.get(path.rpartition("/")[2])

    monkeypatch.setattr(module, "from_pods", read)
    monkeypatch.setattr(module, "find", find)


def test_each_node_pool_has_a_state_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"kind": "NodePool", "name": "general", "state": "held", "why": "another-manager", "note": "flux manages it"}
    reports(monkeypatch, [held, {"kind": "RayCluster", "name": "gpu", "state": "awake", "why": "busy"}])
    pools = node_pools_of(API, "ebbtide", CONFIG)

    assert pools.rows == [
        NodePoolRow(
            "general",
            "held",
            "3 of 20",
            "Underutilized, Drifted 0; Empty 100%",
            f"{REASONS['another-manager']}; flux manages it",
        ),
        NodePoolRow("gpu", "unknown", "", "", ""),
    ]


def test_a_controller_that_does_not_answer_leaves_them_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    reports(monkeypatch, NoStatus("no pod runs"))
    pools = node_pools_of(API, "ebbtide", CONFIG)

    assert ([row.state for row in pools.rows], pools.unread) == (["unknown", "unknown"], "no pod runs")


def test_a_stack_without_node_pools_asks_nobody() -> None:
    assert node_pools_of(API, "ebbtide", None).rows == ()


def test_other_limits_and_budgets_of_others_are_shown() -> None:
    pool = {
        "spec": {
            "limits": {"cpu": "64"},
            "disruption": {"budgets": [{"nodes": "1", "schedule": "0 9 * * *", "duration": "8h"}]},
        }
    }

    assert nodes_text(pool) == "0 (cpu 64 at most)"
    assert budgets_text(pool) == "all 1 (0 9 * * * UTC for 8h)"
    assert budgets_text({}) == "all 10%, Karpenter's default"


def test_every_reason_has_words() -> None:
    assert {*NodeBudgetReason} <= {*REASONS}
