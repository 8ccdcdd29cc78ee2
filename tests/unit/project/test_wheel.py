"""The wheel of `ebbtide[provision]` in a virtual environment outside the repository: from `init` to `preview`."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.installed import Environment

pytestmark = pytest.mark.process

PROGRAM = """
import json
from pathlib import Path
import yaml
from ebbtide.recording.record import record_directory
import infra
texts = yaml.safe_load(Path("stacks/Pulumi.example.yaml").read_text())["config"]
config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in texts.items()}
recording = record_directory(Path("program"), config, stack="example")
print(Path(infra.__file__).parents[1], len(recording.resources) > 100, sorted(recording.outputs))
"""


@pytest.fixture(scope="module")
def repository(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    done = installed.run("ebbtide", "init", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_the_wheel_locks_itself(repository: Path) -> None:
    [wheel] = (repository / "wheels").iterdir()
    [packages] = [line for line in (repository / "requirements.txt").read_text().splitlines() if "ebbtide[" in line]

    assert wheel.name.split("-")[1] in packages


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["check"], "example: OK"),
        (["render", "example"], "NodeGroup"),
        (["preview", "--all"], "example"),
        (["changed", "--all"], '["example"]'),
        (["new", "--help"], "CUSTOMER"),
        (["docs", "not-here#queues"], "## Queues"),
    ],
)
def test_a_command_works_in_the_new_repository(
    arguments: Sequence[str], shown: str, installed: Environment, repository: Path
) -> None:
    done = installed.run("ebbtide", *arguments, folder=repository)

    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_its_program_builds_a_stack_from_the_wheel_alone(installed: Environment, repository: Path) -> None:
    done = installed.run("python", "-c", PROGRAM, folder=repository)

    assert done.stderr == ""
    [packages] = installed.home.glob("lib/python*/site-packages")
    assert done.stdout == f"{packages} True ['clusterName', 'controllerConfig', 'ownership']\n"


def test_its_policy_pack_finds_the_rules(installed: Environment, repository: Path) -> None:
    """The SDK would serve until it is ended: here it only receives the policies."""
    pack = "pulumi_policy.PolicyPack = lambda name, policies: print(name, len(policies) > 10)"
    code = f"import pulumi_policy, runpy; {pack}; runpy.run_path('policies', run_name='__main__')"

    done = installed.run("python", "-c", code, folder=repository)

    assert (done.stdout, done.stderr) == ("ebbtide True\n", "")
