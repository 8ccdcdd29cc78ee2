"""The page on charts: `check` accepts its rules, each selects the pods of one imitated chart, and budgets are off."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, cast

import pytest
import yaml

from ebbtide.settings import warnings_of
from tests.builders import charts
from tests.builders.shown_stacks import blocks_of, stack_of
from tests.paths import ROOT

TODAY = date(2026, 11, 20)
PAGE = "how-to/charts.md"
EXAMPLE = ROOT / "examples" / "own-program" / "program" / "mlflow.yaml"
SELECTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "hub": ("jupyter", charts.jupyterhub("hub")),
    "proxy": ("jupyter", charts.jupyterhub("proxy")),
    "users": ("jupyter", charts.jupyterhub("singleuser-server")),
    "mlflow": ("mlflow", charts.MLFLOW),
    "scheduler": ("airflow", charts.airflow("scheduler")),
    "api-server": ("airflow", charts.airflow("api-server")),
    "dag-processor": ("airflow", charts.airflow("dag-processor")),
    "triggerer": ("airflow", charts.airflow("triggerer")),
    "tasks": ("airflow", charts.TASK),
    "database": ("postgres", charts.INSTANCE),
    "operator": ("cnpg-system", {"app.kubernetes.io/name": "cloudnative-pg"}),
}
UNSELECTED = [
    ("postgres", charts.BOOTSTRAP),
    ("jupyter", charts.jupyterhub("continuous-image-puller")),
    ("logging", charts.FLUENT_BIT),
]


@pytest.mark.parametrize("page", [PAGE, "how-to/adoption.md"])
def test_check_accepts_the_rules_and_warns_of_none(page: str) -> None:
    assert [caution for caution in warnings_of(stack_of(page), TODAY) if caution.place.startswith("adopted.")] == []


def rules_for(namespace: str, labels: Mapping[str, str]) -> set[str]:
    return {
        name
        for name, rule in stack_of(PAGE).adopted.items()
        if rule.namespace == namespace and all(labels.get(key) in values for key, values in rule.selector.items())
    }


def test_each_rule_selects_the_pods_of_its_chart() -> None:
    assert {name: rules_for(*pods) for name, pods in SELECTED.items()} == {
        name: {name} for name in stack_of(PAGE).adopted
    }


@pytest.mark.parametrize(("namespace", "labels"), UNSELECTED)
def test_no_rule_selects_pods_of_daemon_sets_and_of_bootstrap_jobs(namespace: str, labels: Mapping[str, str]) -> None:
    assert rules_for(namespace, labels) == set()


def mappings(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping of a block, with its path."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        yield path, entries
        for key, inner in entries.items():
            yield from mappings(inner, f"{path}.{key}")


MAPPINGS = [each for block in blocks_of(PAGE) for each in mappings(block)]


def test_the_values_switch_every_budget_off() -> None:
    of_charts = (".pdb", ".podDisruptionBudget", ".userScheduler", ".userPlaceholder")
    charts_switches = [entry["enabled"] for path, entry in MAPPINGS if path.endswith(of_charts)]
    operators_switches = [entry["enablePDB"] for _, entry in MAPPINGS if "enablePDB" in entry]

    assert charts_switches == [False] * (3 + 2 + 2)
    assert operators_switches == [False]


def test_the_rules_state_the_requests_of_the_values() -> None:
    """Notebooks excepted: KubeSpawner has its own keys and units for them."""
    requested = [entry["requests"] for _, entry in MAPPINGS if "requests" in entry]
    stated = [
        {"cpu": entry["cpu"], "memory": entry["memory"]}
        for path, entry in MAPPINGS
        if re.fullmatch(r"\.ebbtide:(adopted\.(?!users|operator)[^.]+|nodeGroups\.fixed\.reserved)", path)
    ]

    assert sorted(map(str, requested)) == sorted(map(str, stated))


def test_the_example_program_has_the_values_of_the_page() -> None:
    assert yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")) in blocks_of(PAGE)
