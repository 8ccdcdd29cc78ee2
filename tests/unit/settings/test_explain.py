"""`ebbtide explain`: each value of a stack with the file and line that it comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.recording.record import record
from ebbtide.settings import explain
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.file.keys import ENCRYPTED, KEYS
from ebbtide.settings.file.problems import Location, path_text
from ebbtide.settings.load import StackFile, file_of_text, read_stack
from ebbtide.settings.patch import exchanged
from tests.builders.based import BASE, ON_PRODUCTION, PRODUCTION, STACK, BasedProject
from tests.paths import ROOT

FULL = ROOT / "tests" / "golden" / "files" / "stacks"
GPU = "stacks/bases/gpu.yaml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BasedProject:
    made = BasedProject(tmp_path)
    made.write("Pulumi.yaml", "name: ebbtide\nconfig:\n  images: { default: { registry: mirror.example.com } }\n")
    made.write(BASE, PRODUCTION)
    made.write(GPU, 'config:\n  ebbtide:workers:\n    train: { max: 6, gpu: 1, env: { "A.B": x, C: "{ 22:00" } }\n')
    made.write(
        STACK,
        ON_PRODUCTION.replace("bases/production.yaml", "[bases/production.yaml, bases/gpu.yaml]")
        + "  ebbtide:workers:\n    train: { memory: 8Gi }\n",
    )
    monkeypatch.chdir(tmp_path)
    return made


def explained(*path: str) -> str:
    shown = CliRunner().invoke(app, ["explain", "acme", *path])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def refusal(*path: str) -> str:
    refused = CliRunner().invoke(app, ["explain", "acme", *path])
    assert (refused.exit_code, refused.stdout) == (1, "")
    return refused.stderr.rstrip("\n")


def test_the_text_is_the_stack_as_one_file(project: BasedProject) -> None:
    """Pulumi's own keys apart: the text without its comments is a stack file with the same values."""
    below_config = "".join(f"  {line}\n" for line in explained().splitlines())

    whole = file_of_text(f"config:\n{below_config}", stack="acme", file=STACK, reader=no_files)

    assert whole.settings() == project.settings()


def test_every_value_has_its_file_and_line(project: BasedProject) -> None:
    lines = [line.split("#") for line in explained().splitlines() if "#" in line]
    places = {text.split(":")[-2].strip(): place.strip() for text, place in lines if not text.lstrip().startswith("C:")}

    assert places["registry"] == "Pulumi.yaml:3"
    assert places["timezone"] == f"{BASE}:2"
    assert places["cpu"] == f"{BASE}:8"
    assert places["max"] == places["gpu"] == places["A.B"] == f"{GPU}:3"
    assert places["memory"] == f"{STACK}:5"


def test_one_value_is_shown_with_those_that_it_replaces(project: BasedProject) -> None:
    project.write(GPU, "config:\n  ebbtide:workers:\n    train: { max: 6, memory: 9Gi }\n")

    for path in ("workers.train.memory", "ebbtide:workers.train.memory"):
        assert explained(path).splitlines() == [
            f"memory: 8Gi  # {STACK}:5",
            f"# replaces 9Gi of {GPU}:3",
            f"# replaces 16Gi of {BASE}:9",
        ]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("workers.train.env.A.B", f"A.B: x  # {GPU}:3"),
        ("workers.train.source.queues[0]", f"- train  # {BASE}:5"),
        ("images", "images:\n"),
        ("businessHours.week", "week:\n"),
    ],
)
def test_a_path_leads_through_keys_with_dots_and_into_lists(project: BasedProject, path: str, line: str) -> None:
    assert line in explained(path) + "\n"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("workers.trian.max", f"{STACK}:5: workers.trian.max: wanted a key of ebbtide:workers, found 'trian'; did you"),
        ("wokers", f"{STACK}: wokers: wanted a key of the stack, found 'wokers'; did you mean ebbtide:workers?"),
        ("workers.train.source.queues[1]", "found '[1]'"),
        ("workers.train.max.x", "wanted a key of ebbtide:workers.train.max, found 'x'"),
        (".", "found '.'"),
    ],
)
def test_a_path_that_does_not_exist_is_one_line_with_the_nearest_key(
    project: BasedProject, path: str, told: str
) -> None:
    refused = refusal(path)

    assert told in refused
    assert "\n" not in refused


def test_no_secret_and_no_foreign_value_is_shown(project: BasedProject) -> None:
    canaries = {
        "ebbtide:secrets": {"api": {"TOKEN": {"secure": "canary"}}},
        "ebbtide:redisPassword": "canary",
        "ebbtide:redisPasswrd": "canary",
        "ebbtide:digestKey": {"secure": "canary"},
        "ebbtide:redis": {"kind": "url", "url": "redis://user:canary@example.com:6379"},
        "aws:secretKey": "canary",
        "other:key": {"secure": "canary"},
        "ebbtide:egress": {"allow": [{"secure": "canary"}]},
    }
    project.write(STACK, yaml.safe_dump({"config": {"ebbtide:base": "bases/production.yaml", **canaries}}))

    shown = explained()

    assert "canary" not in shown
    assert shown.count("[secret]") == 8 - 1
    for path in (*canaries, "secrets.api.TOKEN", "redis.url"):
        assert "canary" not in explained(path)


@pytest.mark.parametrize("path", [STACK, BASE, "Pulumi.yaml"])
def test_files_that_cannot_be_merged_have_their_own_messages(project: BasedProject, path: str) -> None:
    project.write(path, "config: [")

    assert refusal().startswith(f"{path}:1: wanted YAML")


def test_a_part_of_a_stack_is_followed_by_the_defaults_of_the_keys_that_it_leaves_out(project: BasedProject) -> None:
    shown = explained("workers.train")

    assert "# default: min: 0\n" in shown
    assert "# default: stabilizationWindow: 2m\n" in shown
    assert "# default: max:" not in shown
    assert "# default:" not in explained("workers.train.max") + explained()


def test_a_key_that_a_stack_leaves_out_has_its_default(project: BasedProject) -> None:
    assert explained("workers.train.min") == "# default: min: 0\n"
    assert explained("workers.train.drainWithin") == "# drainWithin: not set\n"
    assert "wanted a key of ebbtide:workers.train, found 'mni'" in refusal("workers.train.mni")


@pytest.mark.parametrize(("group", "gib"), [("gpu", 100), ("flexible", 50)])
def test_defaults_of_a_node_group_are_those_of_its_kind(project: BasedProject, group: str, gib: int) -> None:
    text = (project.root / STACK).read_text(encoding="utf-8")
    project.write(STACK, f"{text}  ebbtide:nodeGroups: {{ {group}: {{ max: 3 }} }}\n")

    assert explained(f"nodeGroups.{group}.diskSize") == f"# default: diskSize: {gib}\n"
    assert project.settings().node_groups[group].disk_size == gib


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("redis.memory", ["# default: memory: 2Gi"]),
        ("redis.nodeType", ["# nodeType: not set"]),  # of another kind
        ("monitoring.discovery", ["# discovery: not set"]),  # without a Prometheus
        ("workers.train.longestJob.x", []),
        ("workers.train.source.separator", ["# separator: not set"]),  # of Celery
        ("images.redis", ["# redis: not set (default: this release's Valkey)"]),
        ("rollout", ["# ebbtide:rollout: not set, so these defaults apply:", "# default: wave: rest"]),
        ("jobs", ["# ebbtide:jobs: not set"]),
        ("redisPassword", ["# ebbtide:redisPassword: not set"]),
        (
            "network.flowLogs",
            ["# flowLogs: not set (default: none); with it, these defaults apply:", "# default: retentionDays: 14"],
        ),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_key_or_section_that_the_stack_leaves_out_has_what_applies(path: str, lines: list[str]) -> None:
    if lines:
        assert explained(path).splitlines() == lines
    else:
        assert "wanted a key of" in refusal(path)


def test_defaults_have_the_notation_of_the_file(project: BasedProject) -> None:
    text = (project.root / STACK).read_text(encoding="utf-8")
    head = (
        "{ image: 'rayproject/ray:2.1', head: { cpu: 1, memory: 4Gi }, groups: { a: { cpu: 1, memory: 2Gi, max: 1 } } }"
    )
    project.write(STACK, f"{text}  ebbtide:monitoring: {{ prometheus: bundled }}\n  ebbtide:ray: {{ hpo: {head} }}\n")

    assert explained("ray.hpo.head.spill") == "# default: spill: 20Gi\n"
    assert explained("monitoring.retention") == "# default: retention: 45d\n"
    assert "# default: keyPrefix" not in explained("workers.train.source")


def test_groups_that_the_stack_does_not_name_have_their_defaults(project: BasedProject) -> None:
    whole = explained("nodeGroups")

    assert "# default: flexible: { instanceTypes: [m7i.4xlarge, m6i.4xlarge], max: 20, kind: flexible }\n" in whole
    assert "# default: gpu: " in whole  # train needs one
    assert "# default: spot: " not in whole
    assert explained("nodeGroups.spot").startswith("# spot: not set; with it, these defaults apply:\n")
    assert "wanted a key of ebbtide:nodeGroups, found 'spott'" in refusal("nodeGroups.spott")


@pytest.mark.parametrize("path", ["secrets", "redisPassword"])
def test_nothing_is_said_about_keys_of_secrets(project: BasedProject, path: str) -> None:
    assert "default" not in refusal(f"{path}.anything")


def mappings(value: Any, at: Location = ()) -> Iterator[Location]:
    if isinstance(value, dict):
        yield at
        for key, inner in cast("dict[str, Any]", value).items():
            yield from mappings(inner, (*at, key))
    if isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from mappings(inner, (*at, index))


def printed_defaults(stack: StackFile, at: Location) -> Iterator[tuple[Location, object]]:
    """Every default that `explain` prints for the mapping there, as read from its text."""
    for line in explain.explained(stack, path_text(at)):
        if line.startswith("# default: "):
            for key, value in yaml.safe_load(line.removeprefix("# default: ")).items():
                yield (*at, key), value


@pytest.mark.parametrize("file", [FULL / "full-eks.yaml", FULL / "full-existing.yaml"])
def test_every_default_that_is_printed_can_be_written_and_changes_nothing(file: Path) -> None:
    stack = read_stack(str(file))
    config = dict(stack.merged.config)
    for at in mappings(stack.merged.config):
        if at and at[0] in KEYS and at[0] not in ENCRYPTED:
            for place, default in printed_defaults(stack, at):
                config = exchanged(config, place, default)

    assert config != stack.merged.config
    assert record(stack.settings(config)) == record(stack.settings())
