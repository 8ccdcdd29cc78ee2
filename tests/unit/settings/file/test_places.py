"""Where a fault of a service is: in which file and line, and at whose key, the service's or a variant's."""

from pathlib import Path

import pytest

from ebbtide.settings import StackInvalid
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.load import file_of_text, read_stack
from ebbtide.settings.patch import exchanged
from tests.builders.based import BASE, PRODUCTION, STACK, BasedProject

SERVICE = """\
  ebbtide:services:
    api:
      image: "example.com/api:1"
      cpu: 1
      memory: 2Gi
      ports: { http: 8000 }
      port: http
      longestRequest: 60s
      probes: { readiness: { http: /healthz, port: http } }
"""
VARIANTS = """\
      route: { host: api.example.com }
      variants:
        small: {}
        large:
          cpu: 2
          when: { model: large }
"""
MORE = "stacks/bases/more.yaml"


@pytest.fixture
def project(tmp_path: Path) -> BasedProject:
    made = BasedProject(tmp_path)
    made.write(BASE, PRODUCTION + SERVICE + VARIANTS)
    made.stack()
    return made


def places(project: BasedProject) -> list[tuple[str, str, int | None, str]]:
    """Code, file, line and path of each problem."""
    with pytest.raises(StackInvalid) as refused:
        project.settings()
    return [
        (problem.code, problem.file.removeprefix(f"{project.root}/"), problem.line, problem.path.partition(":")[2])
        for problem in refused.value.problems
    ]


def test_the_files_are_sound(project: BasedProject) -> None:
    assert project.settings().services["api"].variants.keys() == {"small", "large"}


def test_a_key_that_two_variants_have_from_their_service_is_told_once(project: BasedProject) -> None:
    project.write(BASE, (PRODUCTION + SERVICE + VARIANTS).replace("memory: 2Gi", "memory: some"))

    assert places(project) == [("memory.form", BASE, 15, "services.api.memory")]


def test_a_key_of_one_variant_is_told_at_the_variant(project: BasedProject) -> None:
    project.write(BASE, (PRODUCTION + SERVICE + VARIANTS).replace("cpu: 2", "cpu: some"))

    assert places(project) == [("cpu.form", BASE, 24, "services.api.variants.large.cpu")]


def test_a_services_key_is_told_for_the_variant_that_has_none_of_its_own(project: BasedProject) -> None:
    project.stack("  ebbtide:services:\n    api: { cpu: none }\n")

    assert places(project) == [("cpu.form", STACK, 5, "services.api.cpu")]


def test_a_part_of_an_inherited_key_is_told_where_the_service_has_the_key(project: BasedProject) -> None:
    project.stack("  ebbtide:services:\n    api:\n      probes: { readiness: { port: other } }\n")

    assert places(project) == [("probe.no-such-port", STACK, 6, "services.api.probes.readiness.port")]


def test_a_missing_part_of_an_inherited_key_names_the_file_that_has_the_rest(project: BasedProject) -> None:
    project.write(BASE, (PRODUCTION + SERVICE + VARIANTS).replace("memory: 2Gi", "gpu: 0"))
    with pytest.raises(StackInvalid) as refused:
        project.settings()

    missing = [problem for problem in refused.value.problems if problem.code == "key.missing"]
    assert [problem.path for problem in missing] == [
        "ebbtide:services.api.variants.large.memory",
        "ebbtide:services.api.variants.small.memory",
    ]
    assert {problem.line for problem in missing} == {2}
    assert [problem.hint.replace(f"{project.root}/", "") for problem in missing] == [
        f"ebbtide:services.api.variants.large is in {BASE}:23",
        f"ebbtide:services.api.variants.small is in {BASE}:22",
    ]


def test_a_key_that_a_service_without_variants_lacks_is_missing_in_the_service(project: BasedProject) -> None:
    project.write(BASE, PRODUCTION + SERVICE.replace("      memory: 2Gi\n", ""))

    assert places(project) == [("key.missing", STACK, 2, "services.api.memory")]


def test_an_unknown_key_of_a_service_and_one_of_a_variant_are_told_where_they_are(project: BasedProject) -> None:
    project.stack("  ebbtide:services:\n    api:\n      cpus: 1\n      variants:\n        small: { cpuz: 2 }\n")

    assert places(project) == [
        ("key.unknown", STACK, 6, "services.api.cpus"),
        ("key.unknown", STACK, 8, "services.api.variants.small.cpuz"),
    ]


def test_a_variants_key_that_the_service_has_by_mistake_is_told_at_the_service(project: BasedProject) -> None:
    project.write(BASE, (PRODUCTION + SERVICE + VARIANTS).replace("small: {}", "small: { weight: 1 }"))
    project.stack("  ebbtide:services:\n    api:\n      weight: 1\n      variants: { large: { when: null } }\n")

    assert places(project) == [
        ("key.unknown", STACK, 6, "services.api.weight"),
        ("variants.weight-missing", STACK, 6, "services.api.weight"),
    ]


def test_of_the_bases_the_last_one_that_has_the_value_is_named(project: BasedProject) -> None:
    project.write(MORE, "config:\n  ebbtide:services: { api: {\n    memory: less,\n    gpu: -1 } }\n")
    project.write(BASE, PRODUCTION.replace("config:\n", "config:\n  ebbtide:base: bases/more.yaml\n") + SERVICE)

    assert places(project) == [("number.too-small", MORE, 4, "services.api.gpu")]


def test_a_file_that_variants_have_from_their_service_is_told_once(project: BasedProject) -> None:
    volume = "      volumes: { conf: { files: { x: { file: conf/x.ini } }, at: /conf } }\n"
    project.write(BASE, PRODUCTION + SERVICE + volume + VARIANTS)

    assert places(project) == [("file.missing", BASE, 20, "services.api.volumes.conf.files.x.file")]


@pytest.mark.parametrize(
    ("full", "empty", "told"),
    [
        ("cpu: 2", "cpu:", ["stack:15: ebbtide:services.api.cpu"]),
        ("cpu: 1", "cpu:", ["stack:23: ebbtide:services.api.variants.small.cpu"]),
        ("port: http\n", "port:\n", ["stack:18: ebbtide:services.api.port"]),
    ],
)
def test_an_empty_key_of_a_variant_is_told_at_the_service_and_one_of_the_service_at_its_variants(
    full: str, empty: str, told: list[str]
) -> None:
    text = (PRODUCTION + "  ebbtide:customer: acme\n" + SERVICE + VARIANTS).replace(full, empty)
    file = file_of_text(text, stack="acme", file="stack", reader=no_files)

    with pytest.raises(StackInvalid) as refused:
        file.settings()

    assert [str(problem).partition(": wanted")[0] for problem in refused.value.problems] == told


def test_a_key_of_other_values_is_told_where_the_file_has_it(project: BasedProject) -> None:
    file = read_stack("acme", project.root)
    config = exchanged(file.merged.config, ("ebbtide:services", "api", "memory"), "some")

    with pytest.raises(StackInvalid) as refused:
        file.settings(config)

    assert [(problem.path, problem.line) for problem in refused.value.problems] == [("ebbtide:services.api.memory", 15)]
