"""A stack file builds on bases: what the merge gives, where each value is from, and what a base may not have."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.settings import StackInvalid
from ebbtide.settings.file.bases import MOST_LEVELS
from tests.builders.based import BASE, ON_PRODUCTION, PRODUCTION, STACK, BasedProject


@pytest.fixture
def project(tmp_path: Path) -> BasedProject:
    made = BasedProject(tmp_path)
    made.write(BASE, PRODUCTION)
    made.stack()
    return made


def where(project: BasedProject) -> tuple[str, str, int | None]:
    """Code, file and line of the only problem."""
    problem = project.problem()
    return problem.code, problem.file.removeprefix(f"{project.root}/"), problem.line


def test_a_stack_file_has_what_its_base_gives(project: BasedProject) -> None:
    project.stack("  ebbtide:workers: { train: { max: 9 } }\n")

    settings = project.settings()

    assert (settings.customer, settings.business_hours.timezone) == ("acme", "Europe/Berlin")
    assert (settings.workers["train"].max, settings.workers["train"].longest_job) == (9, timedelta(hours=12))
    assert project.as_pulumi_passes() == settings


def test_of_two_bases_the_later_one_wins_and_lists_replace(project: BasedProject) -> None:
    project.write("stacks/bases/gpu.yaml", "config: { ebbtide:workers: { train: { max: 7, gpu: 1 } } }")
    project.write(
        "stacks/bases/queues.yaml", "config: { ebbtide:workers: { train: { max: 8, source: { queues: [a, b] } } } }"
    )
    project.write(
        STACK,
        ON_PRODUCTION.replace("bases/production.yaml", "[bases/production.yaml, bases/gpu.yaml, bases/queues.yaml]"),
    )

    train = project.settings().workers["train"]

    assert (train.max, train.gpu.count) == (8, 1)
    assert list(train.source.queues) == ["a", "b"]
    assert project.as_pulumi_passes() == project.settings()


def test_a_base_of_two_bases_counts_once_and_overrides_neither(project: BasedProject) -> None:
    for name, key in (("eu", "max: 5"), ("gpu", "gpu: 1")):
        text = f"config: {{ ebbtide:base: bases/production.yaml, ebbtide:workers: {{ train: {{ {key} }} }} }}"
        project.write(f"stacks/bases/{name}.yaml", text)
    project.write(STACK, ON_PRODUCTION.replace("bases/production.yaml", "[bases/eu.yaml, bases/gpu.yaml]"))

    train = project.settings().workers["train"]

    assert (train.max, train.gpu.count) == (5, 1)


@pytest.mark.parametrize("null", ["", "null", "~", '""'])
def test_null_removes_a_section_of_a_base(project: BasedProject, null: str) -> None:
    project.write(BASE, f"{PRODUCTION}  ebbtide:monitoring: {{ prometheus: bundled }}\n")
    assert project.settings().monitoring.prometheus.value == "bundled"
    project.stack(f"  ebbtide:monitoring: {null}\n")

    assert project.settings().monitoring.prometheus.value != "bundled"
    assert project.as_pulumi_passes() == project.settings()


def test_null_removes_an_entry_within_a_section(project: BasedProject) -> None:
    project.write("stacks/bases/more.yaml", "config: { ebbtide:workers: { night: { max: 3 } } }")
    project.write(
        STACK,
        ON_PRODUCTION.replace("bases/production.yaml", "[bases/production.yaml, bases/more.yaml]")
        + "  ebbtide:workers: { night: null }\n",
    )

    assert list(project.settings().workers) == ["train"]
    assert project.as_pulumi_passes() == project.settings()


def test_a_null_of_a_misspelt_key_is_refused(project: BasedProject) -> None:
    project.stack("  ebbtide:workers:\n    trian: null\n")

    assert where(project) == ("base.nothing-to-remove", STACK, 5)
    assert project.problem().hint == "did you mean train?"


def test_a_stack_file_without_a_base_has_no_use_for_null(project: BasedProject) -> None:
    project.write(STACK, PRODUCTION + "  ebbtide:customer: acme\n  ebbtide:monitoring: null\n")

    assert where(project) == ("type.mapping", STACK, 12)


def test_a_fault_names_the_file_and_line_of_its_value(project: BasedProject) -> None:
    project.write(BASE, PRODUCTION.replace("max: 4", "max: -4"))

    assert where(project) == ("number.too-small", BASE, 7)

    project.stack("  ebbtide:workers:\n    train:\n      max: -5\n")

    assert where(project) == ("number.too-small", STACK, 6)


def test_a_value_in_a_list_of_a_base_has_its_line(project: BasedProject) -> None:
    project.write(BASE, PRODUCTION.replace("[train]", "[train,\n        3]"))

    assert where(project)[1:] == (BASE, 6)


def test_a_key_that_no_file_has_is_missing_in_the_stack_file(project: BasedProject) -> None:
    project.write(BASE, PRODUCTION.replace("      max: 4\n", ""))

    assert where(project) == ("key.missing", STACK, 2)
    assert f"ebbtide:workers.train is in {project.root}/{BASE}:4" in project.problem().hint

    project.stack("  ebbtide:workers:\n    train: { cpu: 2 }\n")

    assert where(project) == ("key.missing", STACK, 5)


def test_a_base_may_hold_files_that_lead_from_the_stack_files_folder(project: BasedProject) -> None:
    project.write("stacks/conf/train.ini", "mode=fast")
    project.write(BASE, PRODUCTION + "      volumes: { conf: { files: { x: { file: conf/train.ini } }, at: /conf } }\n")

    assert "mode=fast" in str(project.settings().workers["train"].volumes)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ebbtide:customer: other", "base.key"),
        ("ebbtide:secrets: { api: { TOKEN: { secure: x } } }", "base.key"),
        ("ebbtide:redisPassword: { secure: x }", "base.key"),
        ("ebbtide:digestKey: { secure: x }", "base.key"),
        ("ebbtide:exceptions: []", "base.key"),
        ("aws:region: eu-central-1", "base.key"),
        ("pulumi:tags: {}", "base.key"),
        ("other:key: { secure: x }", "base.key"),
        ("ebbtide:egress: { allow: { secure: x } }", "base.secret"),
        ("ebbtide:egress: { allow: [{ secure: x }] }", "base.secret"),
        ("ebbtide:wokers: {}", "key.unknown"),
        ("workers: {}", "key.unknown"),
    ],
)
def test_what_a_base_must_not_have_is_refused_with_its_line(project: BasedProject, line: str, code: str) -> None:
    project.write(BASE, f"{PRODUCTION}  {line}\n")

    assert where(project) == (code, BASE, 11)


@pytest.mark.parametrize("key", ["encryptionsalt", "environment", "base"])
def test_a_base_has_no_other_part_than_config(project: BasedProject, key: str) -> None:
    project.write(BASE, f"{PRODUCTION}{key}: x\n")

    assert where(project) == ("key.unknown", BASE, 11)


def test_an_environment_of_esc_is_refused_with_the_reason(project: BasedProject) -> None:
    project.write(STACK, f"{ON_PRODUCTION}environment: [prod]\n")

    assert where(project) == ("key.unknown", STACK, 4)
    assert "check and preview would not see its values" in project.problem().hint


@pytest.mark.parametrize(
    ("base", "code"),
    [
        ("bases/gone.yaml", "file.missing"),
        ("../stacks/bases/production.yaml", "file.outside"),
        ("/etc/hostname", "file.outside"),
        ("bases/link.yaml", "file.outside"),
        ("bases", "file.unreadable"),
        ("bases/pipe.yaml", "file.unreadable"),
        ("bases/null.yaml", "file.outside"),
        ("bases/loop.yaml", "file.unreadable"),
        ("bases/long.yaml", "file.unreadable"),
        ("bases/latin.yaml", "file.not-utf-8"),
        ("3", "base.form"),
        ("{}", "base.form"),
        ("null", "base.form"),
        ('""', "base.form"),
        ("[bases/production.yaml, 3]", "base.form"),
    ],
)
def test_a_base_that_cannot_be_read_is_one_line(project: BasedProject, base: str, code: str) -> None:
    (project.root / "outside.yaml").write_text(PRODUCTION)
    bases = project.root / "stacks" / "bases"
    (bases / "link.yaml").symlink_to("../../outside.yaml")
    (bases / "null.yaml").symlink_to("/dev/zero")
    (bases / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(bases / "pipe.yaml")
    (bases / "long.yaml").write_text("#" * (2 * 2**20 + 1))
    (bases / "latin.yaml").write_bytes(b"config: { a: \xff }")
    project.write(STACK, ON_PRODUCTION.replace("bases/production.yaml", base))

    assert where(project) == (code, STACK, 2)


def test_beside_a_base_that_cannot_be_read_the_faults_of_other_values_are_reported(project: BasedProject) -> None:
    project.write(
        STACK,
        "config:\n  ebbtide:base: bases/gone.yaml\n  ebbtide:customer: A_B\n  ebbtide:clusterr: {}\n"
        "  ebbtide:workers: { train: { source: { queues: [q] }, max: many } }\n",
    )

    with pytest.raises(StackInvalid) as raised:
        project.settings()

    assert [(problem.path, problem.line) for problem in raised.value.problems] == [
        ("ebbtide:base", 2),
        ("ebbtide:customer", 3),
        ("ebbtide:clusterr", 4),
        ("ebbtide:workers.train.max", 5),
    ]


def test_a_base_has_the_limits_of_a_stack_file(project: BasedProject) -> None:
    project.write(BASE, f"config: {{ ebbtide:network: {'[' * 30}{']' * 30} }}")

    assert where(project) == ("file.too-deep", BASE, 1)


def test_a_fault_in_the_text_of_a_base_has_its_line(project: BasedProject) -> None:
    project.write(BASE, PRODUCTION.replace("max: 4", "max: 012"))

    assert where(project) == ("yaml.ambiguous", BASE, 7)


def test_a_base_that_builds_on_itself_is_refused(project: BasedProject) -> None:
    project.write(BASE, f"{PRODUCTION}  ebbtide:base: [bases/more.yaml]\n")
    project.write("stacks/bases/more.yaml", "config:\n  ebbtide:base: ./bases/production.yaml\n")

    assert where(project) == ("base.cycle", "stacks/bases/more.yaml", 2)
    assert "bases/production.yaml → bases/more.yaml → bases/production.yaml" in str(project.problem())


def test_bases_of_bases_end_after_five_levels(project: BasedProject) -> None:
    def chain(levels: int) -> None:
        for level in range(1, levels):
            project.write(f"stacks/bases/{level}.yaml", f"config: {{ ebbtide:base: bases/{level + 1}.yaml }}")
        project.write(f"stacks/bases/{levels}.yaml", PRODUCTION)
        project.write(STACK, ON_PRODUCTION.replace("production", "1"))

    chain(MOST_LEVELS)
    assert project.settings().workers["train"].max == 4

    chain(MOST_LEVELS + 1)
    assert where(project) == ("base.levels", f"stacks/bases/{MOST_LEVELS}.yaml", 1)


def test_all_faults_of_all_files_are_reported_at_once(project: BasedProject) -> None:
    project.write(BASE, f"{PRODUCTION.replace('max: 4', 'max: -4')}  aws:region: eu-central-1\n")
    project.stack("  ebbtide:cluster: { version: 1 }\n")

    assert [problem.split(": ")[0] for problem in project.problems()] == [f"{STACK}:4", f"{BASE}:7", f"{BASE}:11"]
