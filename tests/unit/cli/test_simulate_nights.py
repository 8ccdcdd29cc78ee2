"""`ebbtide simulate` of a stack without pools: text, JSON and page without a trace, and one line for each fault."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.simulate import command
from ebbtide.text.money import dollars

HUB = """config:
  ebbtide:customer: acme
  ebbtide:businessHours: { timezone: Europe/Berlin, week: { mon-fri: "08:00-18:00" } }
  ebbtide:cluster:
    kind: existing
    context: shared
    nodeSelectors: { fixed: { pool: services }, flexible: { karpenter.sh/nodepool: general } }
    nodePools: { flexible: [general] }
    nodeShapes:
      fixed: { cpu: 3800m, memory: 14Gi, max: 2, usdPerHour: 0.2 }
      flexible: { types: { large: { cpu: 8, memory: 32Gi, usdPerHour: 0.5 } }, max: 12 }
  ebbtide:adopted:
    hub: { namespace: jupyter, selector: { app: hub }, category: fixed, replicas: 1, cpu: 500m, memory: 1Gi }
    labels:
      namespace: labels
      selector: { app: labels }
      category: flexible
      replicas: 4
      cpu: 3500m
      memory: 12Gi
      sleep: { when: outsideBusinessHours, scale: { kind: Deployment, name: labels, replicas: kept } }
"""
POOL = """  ebbtide:workers:
    prep: { source: { queues: [prep] }, image: "a.b/prep:1", max: 8, cpu: 2, memory: 4Gi, longestJob: 2h }
"""


@pytest.fixture
def stack(tmp_path: Path) -> str:
    return _written(tmp_path, HUB)


def _written(folder: Path, text: str) -> str:
    path = folder / "Pulumi.hub.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def simulate(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(command, list(arguments), catch_exceptions=False)


def test_the_text_the_document_and_the_page_have_the_same_figures(stack: str, tmp_path: Path) -> None:
    document, page = tmp_path / "nights.json", tmp_path / "nights.html"
    result = simulate(stack, "--json", str(document), "--report", str(page))
    figures = json.loads(document.read_text(encoding="utf-8"))
    (flexible,) = (group for group in figures["groups"] if group["name"] == "flexible")
    saved = dollars(flexible["usd_without"] - flexible["usd"])

    assert result.exit_code == 0, result.output
    assert (flexible["nodes"], flexible["at_night"]) == (2, 0)
    assert f"At night up to 2 of 4 nodes go: {saved} less" in result.stdout
    assert saved in page.read_text(encoding="utf-8")
    assert f"{flexible['hours_fewer']:.0f}" in result.stdout
    assert "Assumptions: --full" in result.stdout


def test_the_json_document_alone_is_printed_on_request(stack: str) -> None:
    assert json.loads(simulate(stack, "--json", "-", "--days", "14").stdout)["days"] == 14


def test_options_about_jobs_are_refused_with_their_names(stack: str) -> None:
    result = simulate(stack, "--strategy", "karpenter", "--spot-interruptions", "1")

    assert result.exit_code == 2
    assert "--strategy, --spot-interruptions: for a replay of jobs" in " ".join(result.stderr.split())


def test_a_stack_with_pools_still_needs_a_trace(tmp_path: Path) -> None:
    result = simulate(_written(tmp_path, HUB + POOL))

    assert result.exit_code == 2
    assert "wanted a stack and --trace" in " ".join(result.stderr.split())


def test_a_trace_on_a_stack_without_pools_names_the_replay_that_it_has(stack: str) -> None:
    result = simulate(stack, "--trace", "openb2023-a")

    assert result.exit_code == 1
    assert "ebbtide simulate hub" in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    nodeShapes:", "    nodeShape:", "did you mean nodeShapes?"),
        ("      fixed: { cpu: 3800m, memory: 14Gi, max: 2, usdPerHour: 0.2 }\n", "", "found none for fixed"),
    ],
)
def test_a_stack_that_cannot_be_replayed_ends_in_one_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    result = simulate(_written(tmp_path, HUB.replace(old, new)))

    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output
