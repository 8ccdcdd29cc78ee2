"""`ebbtide render`: its output, its files, and its exit code."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from ebbtide.cli.render import command
from ebbtide.recording.output import controller_document
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from tests.builders.components import demo_stack
from tests.builders.settings import shortest
from tests.paths import STACK_FILES

DEMO = str(STACK_FILES / "Pulumi.demo.yaml")


@pytest.fixture(autouse=True)
def recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def already_recorded(settings: StackSettings) -> tuple[Resource, ...]:
        return demo_stack()

    monkeypatch.setattr("ebbtide.cli.render.record", already_recorded)


def render(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_text_shows_components_counts_owners_and_money() -> None:
    result = render(DEMO)

    assert result.exit_code == 0
    for part in (
        "train  WorkerPool",
        "resources",
        "controller",
        "cluster-autoscaler",
        "US dollars per month",
        "at max",
        "(shipped with Ebbtide)",
    ):
        assert part in result.stdout
    assert "…" not in result.stdout  # no name is cut


def test_json_lists_every_resource() -> None:
    result = render(DEMO, "--format", "json")

    assert {item["urn"] for item in json.loads(result.stdout)} == {resource.urn for resource in demo_stack()}


def test_a_graph_is_printed_alone() -> None:
    assert render(DEMO, "--graph").stdout.startswith("flowchart TD\n")


def test_output_holds_all_files(tmp_path: Path) -> None:
    result = render(DEMO, "--output", str(tmp_path / "out"))
    out = tmp_path / "out"

    assert result.exit_code == 0
    assert {path.name for path in out.iterdir()} == {
        "kubernetes",
        "APPLY.md",
        "resources.json",
        "graph.mmd",
        "controller-config.json",
    }
    assert {path.suffix for path in (out / "kubernetes").iterdir()} == {".yaml"}  # somebody may pipe them all
    told = [line for line in result.stdout.splitlines() if "Secrets" in line]
    both = "ebbtide/ebbtide-redis, ebbtide-workers/ebbtide-redis"
    assert told == [f"first create the Secrets that pods wait for ({out}/APPLY.md): {both}"]
    assert "create secret generic ebbtide-redis --namespace ebbtide-workers" in (out / "APPLY.md").read_text(
        encoding="utf-8"
    )
    assert load(ControllerConfig, (out / "controller-config.json").read_text()).customer == "demo"
    assert len(json.loads((out / "resources.json").read_text())) == len(demo_stack())
    config_map = next(
        found
        for found in yaml.safe_load_all((out / "kubernetes" / "40-config.yaml").read_text())
        if found and found["kind"] == "ConfigMap"
    )
    assert config_map["data"]["config.json"] == (out / "controller-config.json").read_text()


def test_output_that_cannot_be_written_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    result = render(DEMO, "--output", str(tmp_path))

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "holds other files" in result.stderr


def test_an_invalid_stack_shows_all_its_problems_and_no_traceback(tmp_path: Path) -> None:
    broken = tmp_path / "Pulumi.broken.yaml"
    broken.write_text(Path(DEMO).read_text().replace("customer: demo", "customer: Demo!\n  ebbtide:surprise: 1", 1))

    result = render(str(broken))

    assert result.exit_code == 1
    assert "ebbtide:customer" in result.stderr
    assert "ebbtide:surprise" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_stack_that_does_not_exist_and_wrong_use_end_differently() -> None:
    assert render("no-such-stack").exit_code == 1
    assert render(DEMO, "--format", "xml").exit_code == 2
    assert render().exit_code == 2


def test_help_gives_an_example() -> None:
    assert "Example: ebbtide render demo" in render("--help").stdout


def test_the_document_is_the_one_the_controller_gets() -> None:
    assert {pool.name for pool in load(ControllerConfig, controller_document(demo_stack())).pools} >= {"train"}


def test_a_region_without_prices_is_told_in_one_line(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.acme.yaml"
    stack.write_text(shortest(more="aws:region: ap-east-2"), encoding="utf-8")

    told = [line for line in render(str(stack)).stdout.splitlines() if "no price is known in ap-east-2" in line]

    assert len(told) == 1
    assert "flexible, " in told[0]
