"""Dashboards and the questions of commands name what exists, and the files are what Grafana imports.

Grafana itself cannot be run here: the documents are made by its own library, which reads them back.
"""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as grafana
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.monitoring.dashboards import dashboards, document_of
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import Metrics
from ebbtide.operate.top.facts import queries
from tests.builders.monitoring.expositions import of_the_exporter, of_the_scaler
from tests.builders.monitoring.promql import Use, series, uses
from tests.builders.settings import shortest

RECORDED = {one.value: {*one.value.split(":")[0].split("_")} for one in Recorded}
DOCUMENTS = [document_of(each, "acme", "Europe/Berlin") for each in dashboards("acme")]
PANELS = [panel for document in DOCUMENTS for panel in document["panels"]]
TARGETS = [target for panel in PANELS for target in panel["targets"]]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each metric that there is, without the one that a scrape adds."""
    texts = (of_the_scaler(tmp_path_factory.mktemp("scaler")), of_the_exporter())
    real = {name: found for text in texts for name, found in series(text).items()}
    return RECORDED | {name: {label for labels in found for label in labels} for name, found in real.items()}


def faults(use: Use, known: dict[str, set[str]]) -> list[str]:
    if use.metric not in known:
        return [f"no metric {use.metric}"]
    lacking = use.labels - known[use.metric] - {"customer"}
    return [f"{use.metric} has no {label}" for label in sorted(lacking)]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["expr"])
def test_each_panel_names_metrics_and_labels_that_exist(target: dict[str, Any], known: dict[str, set[str]]) -> None:
    used = uses(target["expr"])

    assert used
    assert [fault for use in used for fault in faults(use, known)] == []
    assert all(use.asked["customer"] == "acme" for use in used)


@pytest.mark.parametrize("name", queries(Metrics("acme")))
def test_what_top_asks_for_exists(name: str, known: dict[str, set[str]]) -> None:
    expression, metric = queries(Metrics("acme"))[name]

    assert [fault for use in uses(expression) for fault in faults(use, known)] == []
    assert f"ebbtide_{metric}" in known


def test_a_name_that_does_not_exist_is_found(known: dict[str, set[str]]) -> None:
    expression = 'sum by (pol) (ebbtide_pool_jobs{customer="acme"}) + ebbtide_pool_jbos{customer="acme"}'
    (first, second) = uses(expression)

    assert faults(first, known) == ["ebbtide_pool_jobs has no pol"]
    assert faults(second, known) == ["no metric ebbtide_pool_jbos"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["uid"])
def test_a_document_is_what_grafana_imports(document: dict[str, Any]) -> None:
    assert len(document["uid"]) <= 40, "Grafana's limit"
    assert document["templating"]["list"][0]["name"] == "datasource"
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] == "timeseries"
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False, "a gap is a gap"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, "Grafana's columns"
    corners = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert all(first != second for first, second in combinations(corners, 2))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["uid"])
def test_grafanas_types_read_a_document_back_unchanged(document: dict[str, Any]) -> None:
    register_default_plugins()
    dashboard = grafana.Dashboard.from_json(document)

    assert json.loads(JSONEncoder().encode(dashboard)) == document


def test_the_longest_name_of_a_customer_stays_within_grafanas_limit() -> None:
    longest = "a" * 24
    assert all(len(document_of(each, longest, "UTC")["uid"]) <= 40 for each in dashboards(longest))


def test_the_command_writes_a_file_of_each(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.acme.yaml"
    stack.write_text(shortest())
    result = CliRunner().invoke(app, ["dashboards", str(stack), "-o", str(tmp_path / "out")])

    assert result.exit_code == 0, result.output
    written = sorted((tmp_path / "out").iterdir())
    names = ["day", "money", "nodes", "queues", "serving"]
    assert [path.name for path in written] == [f"ebbtide-acme-{name}.json" for name in names]
    assert all(json.loads(path.read_text())["timezone"] == "Europe/Berlin" for path in written)
