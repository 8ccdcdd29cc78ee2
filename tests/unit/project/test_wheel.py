"""The wheel of `ebbtide[provision]` in a virtual environment outside the repository: from `init` to `preview`.

The environment holds the wheel alone, without the editable installation. Its dependencies are those of the tests' own
environment, which it sees by a `.pth` file: to install the Pulumi SDKs again takes minutes.
"""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.distributions import built_wheel
from tests.paths import ROOT

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


class Environment:
    def __init__(self, home: Path) -> None:
        self.bin = home / "bin"

    def run(self, command: str, *arguments: str | Path, folder: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.bin / command, *arguments], cwd=folder, capture_output=True, text=True, timeout=100, check=False
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    wheel = built_wheel(ROOT, tmp_path_factory.mktemp("wheels"))
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    [packages] = home.glob("lib/python*/site-packages")
    # Paths in a .pth file are not searched for further .pth files, as that of the editable installation.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return Environment(home)


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
    [packages] = installed.bin.parent.glob("lib/python*/site-packages")
    assert done.stdout == f"{packages} True ['clusterName', 'controllerConfig', 'ownership']\n"


def test_its_policy_pack_finds_the_rules(installed: Environment, repository: Path) -> None:
    """The SDK would serve until it is ended: here it only receives the policies."""
    pack = "pulumi_policy.PolicyPack = lambda name, policies: print(name, len(policies) > 10)"
    code = f"import pulumi_policy, runpy; {pack}; runpy.run_path('policies', run_name='__main__')"

    done = installed.run("python", "-c", code, folder=repository)

    assert (done.stdout, done.stderr) == ("ebbtide True\n", "")
