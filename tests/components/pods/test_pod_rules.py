"""Placement, quantities and grace, as plain values."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.pods.rules import PodIdentity, affinity, home, spread
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.types import parse_cpu, parse_memory
from ebbtide.settings.sections.workers import grace_seconds
from ebbtide.text.quantities import cpu_quantity, memory_quantity
from ebbtide.vocabulary.labels import Category
from tests.builders.components import worker_settings


def identity(category: Category = Category.FLEXIBLE) -> PodIdentity:
    return PodIdentity(name="api", category=category, customer="acme")


@pytest.mark.parametrize("category", Category)
def test_a_selector_holds_the_name_alone_and_finds_its_own_pods(category: Category) -> None:
    pod = identity(category)

    assert pod.selector == {"ebbtide.dev/workload": "api"}
    assert pod.selector.items() <= pod.labels.items()


def test_fixed_pods_keep_all_others_off_their_nodes_in_every_namespace() -> None:
    rules = affinity(Category.FIXED)

    assert rules.get("pod_anti_affinity") == {
        "required_during_scheduling_ignored_during_execution": [
            {
                "label_selector": {
                    "match_expressions": [
                        {"key": "ebbtide.dev/category", "operator": "In", "values": ["flexible", "worker"]}
                    ]
                },
                "namespace_selector": {},
                "topology_key": "kubernetes.io/hostname",
            }
        ]
    }


@pytest.mark.parametrize("category", [Category.FLEXIBLE, Category.WORKER])
def test_the_many_carry_no_anti_affinity(category: Category) -> None:
    assert affinity(category).keys() == {"pod_affinity"}


def test_only_on_fixed_nodes_pods_are_of_the_class_of_dns() -> None:
    assert home(NodeKind.FIXED).get("priority_class_name") == "system-cluster-critical"
    for kind in (NodeKind.FLEXIBLE, NodeKind.GPU, NodeKind.SPOT):
        assert home(kind) == {"node_selector": {"ebbtide.dev/node-kind": kind.value}}


@pytest.mark.parametrize("category", Category)
def test_no_spread_is_a_hard_one(category: Category) -> None:
    constraints = spread(identity(category), revision_label="pod-template-hash")

    assert {constraint["when_unsatisfiable"] for constraint in constraints} == {"ScheduleAnyway"}


@pytest.mark.parametrize(("amount", "text"), [(500, "500m"), (1000, "1"), (2500, "2500m"), (16000, "16")])
def test_cpu_is_written_as_the_server_writes_it(amount: int, text: str) -> None:
    assert cpu_quantity(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(512, "512Mi"), (1024, "1Gi"), (1536, "1536Mi"), (1024**2, "1Ti")])
def test_memory_is_written_as_the_server_writes_it(amount: int, text: str) -> None:
    assert memory_quantity(amount) == text


@given(st.integers(1, 10_000_000))
def test_quantities_keep_the_amount(amount: int) -> None:
    assert parse_cpu(cpu_quantity(amount)) == amount
    assert parse_memory(memory_quantity(amount)) == amount


@given(st.integers(1, 30 * 24 * 3600))
def test_a_stopped_worker_always_has_time_for_its_longest_job(seconds: int) -> None:
    grace = grace_seconds(worker_settings(longest_job=timedelta(seconds=seconds)))

    assert seconds + 120 <= grace < seconds + 180
    assert grace % 60 == 0
