"""The policy pack as the real engine runs it: beside a program, in a process of its own, spoken to over gRPC."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandError, ConfigValue

from tests.engine.project import STACKS, Project, Told
from tests.paths import ROOT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

EACH = pytest.mark.parametrize("name", STACKS)
PACK = str(ROOT / "ebbtide" / "policies" / "pack")
CANARY = "canary-7d21"


def judged(project: Project, name: str) -> Told:
    """A preview with the pack. Raises: `CommandError` where a mandatory policy is broken."""
    return project.preview(name, policy_packs=[PACK])


def advice(told: Told) -> set[str]:
    return {line.split()[2] for line in told.output.splitlines() if line.strip().startswith("- [advisory]")}


@EACH
def test_a_shipped_stack_breaks_no_policy_before_anything_of_it_exists(name: str, tmp_path: Path) -> None:
    """The cluster is not there yet, so the engine knows no outputs of what stands in it."""
    project = Project(tmp_path)
    project.ship(name)

    told = judged(project, name)

    assert "✅ ebbtide@v" in told.output
    assert advice(told) == set()


@EACH
def test_a_shipped_stack_breaks_no_policy_once_it_is_up(name: str, running: Callable[[str], Project]) -> None:
    told = judged(running(name), name)

    assert "✅ ebbtide@v" in told.output
    assert advice(told) == set()


def other_autoscaler(config: dict[str, Any]) -> None:
    config["ebbtide:images"] = {"autoscaler": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"}


def test_a_dangerous_stack_is_refused_by_the_rule_that_it_breaks(running: Callable[[str], Project]) -> None:
    """By the preview, which `pulumi up` runs first: policies on a whole stack are asked when a run has ended."""
    project = running("demo")
    project.edit("demo", other_autoscaler)

    with pytest.raises(CommandError) as refused:
        judged(project, "demo")

    assert "[mandatory]  EB025  (kubernetes:apps/v1:Deployment: autoscaler-deployment)" in str(refused.value)
    assert "the autoscaler has version 1.33, and the cluster 1.35" in str(refused.value)


def test_an_update_of_a_dangerous_stack_ends_with_its_own_preview(tmp_path: Path) -> None:
    """As the workflow runs it: nothing is made."""
    project = Project(tmp_path)
    project.ship("demo")
    project.edit("demo", other_autoscaler)

    said = project.cli("demo", "up", "--refresh", "--yes", "--policy-pack", PACK)

    assert said.returncode != 0
    assert "[mandatory]  EB025" in said.stdout
    assert list(project.cloud.things()) == []


def test_a_warning_is_advice_and_stops_nothing(running: Callable[[str], Project]) -> None:
    project = running("demo")
    project.edit("demo", lambda config: config["ebbtide:workloads"]["dashboards"].update(replicas=1))

    told = judged(project, "demo")

    assert advice(told) == {"EB019"}
    assert "Deployment ebbtide/dashboards: flexible with one replica" in told.output


def test_no_line_shows_a_secret(running: Callable[[str], Project]) -> None:
    """The engine shows a pack all secrets in the clear."""
    project = running("demo")
    project.edit("demo", other_autoscaler)
    project.stack("demo").set_config("ebbtide:redisPassword", ConfigValue(CANARY, secret=True))

    with pytest.raises(CommandError) as refused:
        judged(project, "demo")

    assert "EB025" in str(refused.value)
    assert CANARY not in str(refused.value)
