"""Pulumi's project file sets keys for every stack, as Pulumi reads it: a stack's key replaces the whole key."""

from pathlib import Path

import pytest

from ebbtide.settings import StackInvalid, load_stack
from tests.builders.based import BASE, PRODUCTION, STACK, BasedProject
from tests.builders.settings import SHORTEST

IMAGES = "  ebbtide:images: { default: { registry: mirror.example.com, pullSecrets: [regcred] } }\n"


@pytest.fixture
def project(tmp_path: Path) -> BasedProject:
    made = BasedProject(tmp_path)
    made.write(STACK, SHORTEST)
    return made


def configure(project: BasedProject, config: str, name: str = "ebbtide") -> None:
    project.write("Pulumi.yaml", f"name: {name}\nruntime: python\nconfig:\n{config}")


def where(project: BasedProject) -> tuple[str, str, int | None]:
    problem = project.problem()
    return problem.code, problem.file.removeprefix(f"{project.root}/"), problem.line


@pytest.mark.parametrize(
    "config",
    [
        IMAGES,
        IMAGES.replace("ebbtide:", ""),
        IMAGES.replace("default", "value"),
        IMAGES.replace("{ default", '{ type: object, description: "a mirror", default'),
    ],
)
def test_every_form_of_a_key_reaches_the_stack(project: BasedProject, config: str) -> None:
    configure(project, config)

    assert project.settings().images.registry == "mirror.example.com"
    assert project.as_pulumi_passes() == project.settings()


def test_a_stacks_key_replaces_the_whole_key(project: BasedProject) -> None:
    configure(project, IMAGES)
    project.write(STACK, f"{SHORTEST}  ebbtide:images: {{ registry: own.example.com }}\n")

    images = project.settings().images

    assert (images.registry, images.pull_secrets) == ("own.example.com", ())
    assert project.as_pulumi_passes() == project.settings()


def test_the_region_may_be_the_projects(project: BasedProject) -> None:
    configure(project, "  aws:region: eu-central-1\n  aws:profile: { value: ours }\n")

    assert project.settings().region == "eu-central-1"
    assert project.as_pulumi_passes() == project.settings()


def test_the_bases_of_all_stacks_may_be_named_by_the_project(project: BasedProject) -> None:
    configure(project, "  ebbtide:base: [bases/production.yaml]\n")
    project.write(BASE, PRODUCTION)
    project.write(STACK, "config: { ebbtide:customer: acme }")

    assert project.settings().workers["train"].max == 4
    assert project.as_pulumi_passes() == project.settings()


def test_a_fault_names_the_line_of_the_project_file(project: BasedProject) -> None:
    configure(project, IMAGES.replace("[regcred]", "[reg cred]"))

    assert where(project) == ("pull-secret.name", "Pulumi.yaml", 4)


@pytest.mark.parametrize(
    "config", ["  ebbtide:wokers: x\n", "  ebbtide:workers.train.max: 3\n", "  other:flag: true\n"]
)
def test_a_key_that_the_program_would_refuse_is_refused(project: BasedProject, config: str) -> None:
    configure(project, config)

    assert where(project) == ("key.unknown", "Pulumi.yaml", 4)


def test_in_a_project_of_another_name_a_bare_key_is_that_projects(project: BasedProject) -> None:
    configure(project, "  images: { default: x }\n", name="platform")

    assert where(project) == ("key.unknown", "Pulumi.yaml", 4)
    assert project.problem().path == "platform:images"


def test_a_key_of_a_base_and_of_the_project_is_refused_in_every_reader(project: BasedProject) -> None:
    configure(project, IMAGES)
    project.write(BASE, "config:\n  ebbtide:images: { registry: base.example.com }\n")
    project.write(STACK, SHORTEST + "  ebbtide:base: bases/production.yaml\n")

    assert where(project) == ("base.in-project", BASE, 2)
    assert "Pulumi.yaml:4" in str(project.problem())
    with pytest.raises(StackInvalid) as refused:
        project.as_pulumi_passes()
    assert [problem.code for problem in refused.value.problems] == ["base.in-project"]


@pytest.mark.parametrize(
    "text", ["config: stacks", "config:", "config: {}", "name: ebbtide\nmain: &a infra\nx: *a", "", "[]", "\t"]
)
def test_a_project_file_without_keys_sets_none(project: BasedProject, text: str) -> None:
    alone = project.settings()
    project.write("Pulumi.yaml", text)

    assert project.settings() == alone


def test_only_stack_files_of_its_folder_have_the_projects_keys(project: BasedProject) -> None:
    configure(project, IMAGES)
    project.write("other/Pulumi.acme.yaml", SHORTEST)

    assert load_stack(str(project.root / "other" / "Pulumi.acme.yaml")).images.registry is None
    assert load_stack(str(project.root / STACK)).images.registry == "mirror.example.com"


def test_an_object_without_value_is_refused_as_pulumi_does(project: BasedProject) -> None:
    configure(project, "  ebbtide:images: { registry: mirror.example.com }\n")

    assert where(project) == ("file.form", "Pulumi.yaml", 4)
    assert "'registry'" in project.problem().found
