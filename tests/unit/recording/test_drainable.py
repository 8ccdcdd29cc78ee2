"""Drains: the rules about raw pods, compared with the simulated autoscaler's, and the meaning of selectors."""

from itertools import product
from typing import Any

import pytest

from ebbtide.lab.simulator.cluster.autoscaler.removal import SYSTEM_CATEGORY, BudgetsLeft, blocker
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, WorkloadModel
from ebbtide.lab.simulator.cluster.state import Deployment, Pod
from ebbtide.provisioning_labels import SAFE_TO_EVICT
from ebbtide.recording.drainable import AutoscalerRules, Pin, covers, local_volumes, pins

BOTH = (False, True)


def raw_pod(*, safe: bool | None = None, system: bool = False, scratch: bool = False, **labels: str) -> dict[str, Any]:
    annotations = {} if safe is None else {SAFE_TO_EVICT: str(safe).lower()}
    namespace = "kube-system" if system else "ebbtide"
    volumes: list[Any] = [{"name": "scratch", "emptyDir": {}}] if scratch else []
    metadata = {"namespace": namespace, "annotations": annotations, "labels": labels}
    return {"metadata": metadata, "spec": {"volumes": volumes}}


@pytest.mark.parametrize(
    ("safe", "system", "scratch", "has_budget", "local_pins", "system_pins"),
    list(product((None, False, True), BOTH, BOTH, BOTH, BOTH, BOTH)),
)
def test_the_simulated_autoscaler_keeps_the_same_pods(
    safe: bool | None, system: bool, scratch: bool, has_budget: bool, local_pins: bool, system_pins: bool
) -> None:
    spec = WorkloadModel(
        name="w",
        category=SYSTEM_CATEGORY if system else "flexible",
        cpu_m=1,
        memory_mib=1,
        empty_dir=scratch,
        safe_to_evict=safe,
    )
    budgets = BudgetsLeft(
        {"w": Deployment(spec=spec, replicas=1, healthy=1, max_unavailable=1 if has_budget else None)}
    )
    flags = AutoscalerFlags(skip_nodes_with_local_storage=local_pins, skip_nodes_with_system_pods=system_pins)
    rules = AutoscalerRules(local_storage_pins=local_pins, system_pods_pin=system_pins)

    simulated = blocker([Pod(name="w-0", workload="w", spec=spec, created_at=0.0)], flags, budgets, now=0.0)
    found = list(pins(raw_pod(safe=safe, system=system, scratch=scratch), rules, bare=False, has_budget=has_budget))

    assert (simulated is not None) is bool(found)


def test_a_bare_pod_pins_unless_it_is_declared_safe() -> None:
    rules = AutoscalerRules()

    assert list(pins(raw_pod(), rules, bare=True, has_budget=True)) == [Pin.BARE]
    assert list(pins(raw_pod(safe=True), rules, bare=True, has_budget=True)) == []


def test_a_volume_in_memory_is_not_local() -> None:
    in_memory = {"spec": {"volumes": [{"name": "fast", "emptyDir": {"medium": "Memory"}}]}}

    assert local_volumes(in_memory) == []
    assert local_volumes(raw_pod(scratch=True)) == ["emptyDir scratch"]


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "api"}}, True),
        ({"matchLabels": {"app": "web"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["api"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_budget_covers_by_its_selector_in_its_namespace(selector: Any, covered: bool) -> None:
    budget: dict[str, Any] = {"metadata": {"namespace": "ebbtide"}, "spec": {"selector": selector}}
    elsewhere = {**budget, "metadata": {"namespace": "other"}}

    assert covers(budget, raw_pod(app="api")) is covered
    assert not covers(elsewhere, raw_pod(app="api"))
