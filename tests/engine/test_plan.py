"""`ebbtide preview --plan` with what the real CLI writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import ConfigValue
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from tests.engine.previewed import commit, previewed, told
from tests.engine.project import Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

CANARY = ("canary-5e1c", "canary-8b02")
PASSWORD = "ebbtide:redisPassword"
OTHER = "a plan of another version"


@pytest.fixture(scope="module")
def applied(first_up: Callable[[str], Project], tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = first_up("demo").copy(tmp_path_factory.mktemp("applied") / "copy")
    project.stack("demo").set_config(PASSWORD, ConfigValue(CANARY[0], secret=True))
    project.up("demo")
    return project


@pytest.fixture
def merged(applied: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Applied as it is, and committed: a change comes next."""
    project = applied.copy(tmp_path / "copy")
    commit(project)
    monkeypatch.chdir(project.folder)
    return project


def change_much(config: dict[str, Any]) -> None:
    config["ebbtide:nodeGroups"]["flexible"]["instanceTypes"] = ["m6i.4xlarge"]
    config["ebbtide:businessHours"]["week"] = {"mon-fri": "09:10-18:05"}
    del config["ebbtide:workloads"]["dashboards"]


def change_a_category(config: dict[str, Any]) -> None:
    config["ebbtide:workloads"]["ray-head"]["category"] = "flexible"


def change_a_label(config: dict[str, Any]) -> None:
    config["ebbtide:nodeGroups"]["flexible"]["max"] = 44
    config["ebbtide:costs"]["tags"]["cost-center"] = "other"


@pytest.mark.parametrize("edit", [change_much, change_a_category, change_a_label])
def test_the_engine_intends_what_the_files_alone_have_shown(
    edit: Callable[[dict[str, Any]], None], merged: Project
) -> None:
    merged.edit("demo", edit)
    plan = merged.plan("demo")

    offline, _ = previewed()
    planned, _ = previewed("--plan", str(plan))

    assert told(planned) == told(offline)
    assert [danger["what"] for danger in planned["dangers"]] == [danger["what"] for danger in offline["dangers"]]
    counted = {**dict.fromkeys(planned["counts"], 0), **json.loads(plan.read_text())["changeSummary"]}
    assert planned["counts"] == {kind: counted[kind] for kind in planned["counts"]}
    assert len(planned["changes"]) > 3


def test_a_new_password_is_a_change_that_shows_nothing_of_either(merged: Project) -> None:
    merged.stack("demo").set_config(PASSWORD, ConfigValue(CANARY[1], secret=True))
    plan = merged.plan("demo")

    for format_ in ("text", "markdown", "json"):
        arguments = ["preview", "demo", "--plan", str(plan), "--format", format_, "--full"]
        said = CliRunner().invoke(app, arguments).output

        assert "redis-secret" in said
        assert not [canary for canary in CANARY if canary in said]


def test_a_plan_from_before_the_last_edit_is_refused_in_one_line(merged: Project) -> None:
    plan = merged.plan("demo")
    merged.edit("demo", change_much)

    page, _ = previewed("--plan", str(plan))

    assert page["problems"] == [
        f"{plan}: {OTHER}: businessHours, nodeGroups, workloads are not as the stack file says; ignored"
    ]
    assert ("replace", "NodeGroup") in {change[:2] for change in told(page)}


def test_a_plan_of_another_stack_is_refused_in_one_line(merged: Project) -> None:
    (merged.folder / "stacks" / "Pulumi.demo.yaml").rename(merged.folder / "stacks" / "Pulumi.other.yaml")
    plan = merged.plan("other")
    (merged.folder / "stacks" / "Pulumi.other.yaml").rename(merged.folder / "stacks" / "Pulumi.demo.yaml")

    said = CliRunner().invoke(app, ["preview", "demo", "--against", "HEAD", "--plan", str(plan)])

    assert f"{plan}: a plan of stack other, which is not previewed here; ignored" in " ".join(said.stdout.split())
    assert said.exit_code == 1


def test_a_preview_that_failed_is_no_plan(merged: Project) -> None:
    sound = (merged.folder / "stacks" / "Pulumi.demo.yaml").read_text()
    merged.edit("demo", lambda config: config["ebbtide:workers"]["prep"].update(cpu=99))
    plan = merged.plan("demo")
    (merged.folder / "stacks" / "Pulumi.demo.yaml").write_text(sound)

    page, said = previewed("--plan", str(plan))

    assert page["changes"] == []

    assert f"{plan}: the preview that wrote it failed, so it holds half of a plan; ignored" in said
