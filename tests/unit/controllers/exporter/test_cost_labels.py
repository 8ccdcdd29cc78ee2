"""Pods' values of the labels that a stack file names, from its text to the exporter's series."""

from pathlib import Path

from controllers.exporter.cost_labels import CostLabels
from controllers.exporter.exposition import ClusterObjects, text
from controllers.exporter.objects import pod
from controllers.exporter.tally import Tally
from ebbtide.settings.capacity.process_documents import exporter_config
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.exporter import MOST_LABEL_VALUES, ExporterConfig
from tests.builders.monitoring import cluster_objects as objects
from tests.builders.monitoring.expositions import of_the_exporter
from tests.builders.monitoring.promql import series
from tests.builders.settings import loaded, shortest

REDIS = RedisEndpoint(host="redis", port=6379)


def document(folder: Path, more: str = "") -> ExporterConfig:
    """Return the exporter's document of a stack file."""
    return load(ExporterConfig, dump(exporter_config(loaded(shortest(more=more), folder), REDIS, years=[2026])))


def info(config: ExporterConfig, *owners: str, **labels: str) -> dict[str, str]:
    """The labels of one pod in `ebbtide_pod_info`."""
    item = objects.pod()
    item["metadata"] |= {"labels": labels, "ownerReferences": [{"kind": owner} for owner in owners]}
    seen = ClusterObjects(nodes=None, pods=[pod(item)], hpas=None, cronjobs=None, workloads=None)
    book = CostLabels()
    exposed = text(seen, Tally(), {}, cost_labels=lambda labels: book.of(labels, config.cost_labels))
    (found,) = series(exposed)["ebbtide_pod_info"]
    return {name: value for name, value in found.items() if name.startswith("label_")}


def test_a_pod_has_the_values_of_the_labels_that_the_stack_file_names(tmp_path: Path) -> None:
    config = document(tmp_path, "ebbtide:costs: { labels: [team, example.com/cost-center] }")

    assert info(config, **{"team": "search", "example.com/cost-center": "", "app": "x"}) == {
        "label_team": "search",
        "label_example_com_cost_center": "no value",
    }


def test_the_process_writes_the_labels_of_its_document() -> None:
    (found,) = series(of_the_exporter(cost_labels=("team",)))["ebbtide_pod_info"]

    assert found["label_team"] == "no value"


def test_pods_of_daemonsets_have_their_labels_too(tmp_path: Path) -> None:
    config = document(tmp_path, "ebbtide:costs: { labels: [team] }")

    assert info(config, "DaemonSet", team="platform") == {"label_team": "platform"}


def test_without_labels_in_the_file_document_and_series_are_as_before(tmp_path: Path) -> None:
    config = document(tmp_path)

    assert "costLabels" not in dump(config)
    assert info(config, team="search") == {}


def test_a_label_with_a_value_for_each_job_has_a_bounded_number_of_series() -> None:
    """The first values stay; a further label has its own bound."""
    book = CostLabels()
    names = [f"run-{number}" for number in range(MOST_LABEL_VALUES + 30)]

    first = [book.of({"run": name, "team": "ml"}, ["run", "team"]) for name in names]
    again = [book.of({"run": name}, ["run"]) for name in reversed(names)]

    assert len({one["label_run"] for one in (*first, *again)}) == MOST_LABEL_VALUES + 1
    assert [one["label_run"] for one in first] == [one["label_run"] for one in reversed(again)]
    assert first[-1] == {"label_run": "other values", "label_team": "ml"}


def test_a_value_that_kubernetes_would_refuse_is_escaped_and_cut() -> None:
    item = objects.pod()
    item["metadata"]["labels"] = {"team": 'a"}\n\\'}
    seen = ClusterObjects(nodes=None, pods=[pod(item)], hpas=None, cronjobs=None, workloads=None)

    exposed = text(seen, Tally(), {}, cost_labels=lambda labels: CostLabels().of(labels, ["team"]))

    assert 'label_team="a\\"}\\n\\\\"' in exposed
    assert CostLabels().of({"team": "x" * 5000}, ["team"]) == {"label_team": "x" * 63}
