"""The commands on a stack with an existing cluster: those that work offline, and those that refuse."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.settings import StackSettings
from tests.builders.existing import onprem, written
from tests.builders.settings import loaded
from tests.paths import ROOT


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, list(words))


def documented(tmp_path: Path) -> StackSettings:
    """The stack file that docs/how-to/existing-cluster.md shows."""
    page = (ROOT / "docs" / "how-to" / "existing-cluster.md").read_text(encoding="utf-8")
    return loaded(page.split("```yaml\n")[1].split("```")[0], tmp_path)


def test_the_documented_stack_is_one_that_works(tmp_path: Path) -> None:
    settings = documented(tmp_path)

    assert {name: pool.node_group for name, pool in settings.workers.items()} == {
        "prep": "flexible",
        "train": "gpu-large",
    }
    assert settings.place == "context onprem-gpu"


def test_a_summary_shows_where_pods_go(tmp_path: Path) -> None:
    result = run("check", written(onprem("nodeSelectors: { gpu: { pool: gpu, size: l } }"), tmp_path))

    assert result.exit_code == 0
    assert "  cluster  existing, context onprem\n" in result.output
    assert "  nodes    gpu: pool=gpu, size=l\n" in result.output


def test_a_rendering_needs_no_cluster_and_claims_no_cost(tmp_path: Path) -> None:
    result = run("render", written(onprem(), tmp_path), "--output", str(tmp_path / "out"))

    assert result.exit_code == 0, result.output
    assert result.output.startswith("stack onprem (acme, context onprem)")
    assert "not estimated: the cost of an existing cluster's nodes is not known here" in result.output
    assert (tmp_path / "out" / "kubernetes" / "60-workloads.yaml").is_file()


@pytest.mark.parametrize("words", [("simulate", "STACK", "--trace", "openb2023-a"), ("demo", "--stack", "STACK")])
def test_a_replay_says_that_it_needs_the_shapes_of_nodes(words: tuple[str, ...], tmp_path: Path) -> None:
    stack = written(onprem(), tmp_path)

    result = run(*(stack if word == "STACK" else word for word in words))

    assert result.exit_code == 1
    assert "wanted the size of the existing cluster's nodes in ebbtide:cluster.nodeShapes, found none" in result.output
    assert "(for example nodeShapes: { " in result.output
