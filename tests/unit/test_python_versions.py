"""Which Python the project claims, who is refused, and that CI runs the oldest one.

The interpreters are stand-ins: small scripts that run this one under another version.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.paths import ROOT

_CLAIM = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
OLDEST = min(Version(one.version) for one in SpecifierSet(_CLAIM))
_STAND_IN = """#!/bin/sh
[ "$1" = -V ] && {{ echo "Python {version}"; exit; }}
shift
exec {real} -c 'import sys; code = sys.argv.pop(1); sys.version_info = ({parts}, "final", 0)
sys.executable = "{path}"; {more}
exec(code)' "$@"
"""


def stand_in(folder: Path, version: str, *, more: str = "") -> Path:
    folder.mkdir(parents=True)
    path = folder / f"python{version.rpartition('.')[0]}"
    parts = ", ".join(version.split("."))
    path.write_text(_STAND_IN.format(version=version, parts=parts, path=path, more=more, real=sys.executable))
    path.chmod(0o755)
    return path


def run(*command: str, path: str = os.defpath) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": path, "PYENV_ROOT": "/nowhere"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.parametrize("version", ["2.7.18", "3.10.13", "3.11.1", "3.14.0"])
def test_a_python_that_is_not_claimed_is_refused_in_one_line(version: str, tmp_path: Path) -> None:
    python = stand_in(tmp_path / "a", version)

    told = run("make", "setup", f"VENV={tmp_path}/venv", f"PYTHON={python}")

    line, make_s_own = told.stderr.splitlines()
    assert line == f"Ebbtide needs Python {OLDEST} or newer, but below 3.14; {python} is Python {version}"
    assert make_s_own.startswith("make: ***")
    assert not (tmp_path / "venv").exists()


@pytest.mark.process
def test_every_python_that_is_claimed_and_can_be_set_up_is_found_lowest_first(tmp_path: Path) -> None:
    made = [
        stand_in(tmp_path / "new", "3.13.0"),
        stand_in(tmp_path / "middle", "3.11.10"),
        stand_in(tmp_path / "debian", str(OLDEST)),
        stand_in(tmp_path / "old", "3.11.1"),
        stand_in(tmp_path / "newest", "3.14.0"),
        stand_in(tmp_path / "bare", "3.12.1", more='sys.modules["ensurepip"] = None'),
    ]

    told = run(".ci/pythons", path=":".join([*(str(python.parent) for python in made), os.defpath]))

    found = [line.split() for line in told.stdout.splitlines() if str(tmp_path) in line]
    assert found == [[str(OLDEST), str(made[2])], ["3.11.10", str(made[1])], ["3.13.0", str(made[0])]]


def test_the_workflow_brings_the_oldest_python_that_is_claimed() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tier"]
    [versions] = [step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {})]

    assert min(map(Version, versions.split())) == OLDEST


def test_the_image_is_built_on_a_python_that_is_claimed() -> None:
    for file in ("Dockerfile", ".github/workflows/release.yml"):
        [version] = re.findall(r"library/python:([0-9.]+)-", (ROOT / file).read_text())
        assert f"{version}.0" in SpecifierSet(_CLAIM)


def test_the_checks_are_for_the_oldest_minor_version() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    minor = f"{OLDEST.major}.{OLDEST.minor}"

    assert (tool["basedpyright"]["pythonVersion"], tool["ruff"]["target-version"]) == (minor, f"py3{OLDEST.minor}")
