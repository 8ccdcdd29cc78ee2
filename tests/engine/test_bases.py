"""Bases and the project's configuration on the real engine: the program receives what `ebbtide check` reads."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from pulumi.automation import CommandError

from ebbtide.preview.plan import read_plan
from ebbtide.settings import StackSettings, load_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import settings_of_texts
from tests.engine.project import Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NAME = "demo"
LATER = {
    "later": {
        "source": {"kind": "rq", "queues": ["later"]},
        "image": "registry.example.com/later:1",
        "max": 4,
        "cpu": 2,
        "memory": "4Gi",
        "longestJob": "1h",
    }
}


@pytest.fixture
def project(running: Callable[[str], Project]) -> Project:
    return running(NAME)


def write_base(project: Project, name: str, config: Mapping[str, Any]) -> None:
    file = project.folder / "stacks" / "bases" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump({"config": dict(config)}))


def configure(project: Project, config: Mapping[str, Any]) -> None:
    file = project.folder / "Pulumi.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "config": dict(config)}))


def moved(project: Project, *keys: str) -> dict[str, Any]:
    """Take these keys out of the stack file."""
    taken: dict[str, Any] = {}
    project.edit(NAME, lambda config: taken.update({key: config.pop(key) for key in keys}))
    return taken


def checked(project: Project) -> StackSettings:
    return load_stack(NAME, project.folder)


def received(project: Project) -> StackSettings:
    """Settings of the values that the engine hands to the program."""
    plan = read_plan(project.plan(NAME))
    assert plan.config
    return settings_of_texts(plan.config, stack=NAME, file=plan.file, reader=files_in(project.folder / "stacks"))


def split(project: Project) -> None:
    """Move most of the stack file into two bases; the later one has another value of a key in both."""
    shared = moved(project, "ebbtide:businessHours", "ebbtide:cluster", "ebbtide:nodeGroups")
    workers = moved(project, "ebbtide:workers")["ebbtide:workers"]
    replaced = {name: {**pool, "max": pool["max"] + 1} for name, pool in workers.items()}
    write_base(project, "production", {**shared, "ebbtide:workers": replaced})
    write_base(project, "sizes", {"ebbtide:workers": {name: {"max": pool["max"]} for name, pool in workers.items()}})
    bases = ["bases/production.yaml", "bases/sizes.yaml"]
    project.edit(NAME, lambda config: config.update({"ebbtide:base": bases}))


def test_a_stack_file_split_into_two_bases_is_the_same_stack(project: Project) -> None:
    whole = checked(project)
    split(project)

    assert checked(project) == received(project) == whole
    assert project.up(NAME).touched == {}


def test_a_change_in_a_base_reaches_the_stack(project: Project) -> None:
    split(project)
    write_base(project, "sizes", {"ebbtide:workers": {name: {"max": 3} for name in checked(project).workers}})

    told = project.up(NAME)

    assert {pool.max for pool in checked(project).workers.values()} == {3}
    assert told.named()["controller-config"] == "update"
    assert checked(project) == received(project)


def test_null_removes_at_the_top_and_within_a_section(project: Project) -> None:
    whole = checked(project)
    network = {"ebbtide:egress": {"allow": ["203.0.113.7/32"]}}
    assert (
        "ebbtide:egress" not in yaml.safe_load((project.folder / "stacks" / "Pulumi.demo.yaml").read_text())["config"]
    )
    write_base(project, "more", {**network, "ebbtide:workers": LATER})

    def build_on_it(config: dict[str, Any]) -> None:
        config["ebbtide:base"] = "bases/more.yaml"
        config["ebbtide:workers"]["later"] = None
        config["ebbtide:egress"] = None

    project.edit(NAME, build_on_it)

    assert checked(project) == received(project) == whole
    assert project.up(NAME).touched == {}


def test_configuration_of_the_project_is_read_as_the_engine_reads_it(project: Project) -> None:
    whole = checked(project)
    taken = moved(project, "aws:region", "ebbtide:businessHours", "ebbtide:costs")
    configure(
        project,
        {
            "aws:region": taken["aws:region"],
            "businessHours": {"default": taken["ebbtide:businessHours"]},
            "ebbtide:costs": {"default": taken["ebbtide:costs"]},
            "ebbtide:workers": {"default": LATER},  # the stack's own key replaces it, whole
        },
    )

    assert checked(project) == received(project) == whole
    assert project.up(NAME).touched == {}


def test_a_key_of_the_project_and_of_a_base_ends_a_preview_with_one_message(project: Project) -> None:
    split(project)
    configure(project, {"ebbtide:workers": {"default": LATER}})

    with pytest.raises(CommandError) as refused:
        project.preview(NAME)

    assert "stacks/bases/production.yaml" in str(refused.value)
    assert "Pulumi.yaml" in str(refused.value)
    assert "Traceback" not in str(refused.value)
