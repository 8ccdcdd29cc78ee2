"""The controller's image, as far as it can be tested without a build: its files, and that it runs alone."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.paths import ROOT

LOCK = ROOT / "tools" / "locks" / "controller.txt"
_REQUIREMENT = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)
_MOST_MIB = 64
_ASYNC = {"aiohttp", "aiohttp-retry"}  # for the asynchronous half of the Kubernetes client, which is not in the image


def copied() -> list[str]:
    """Return the paths that the Dockerfile copies from the build context."""
    lines = re.findall(r"^(?:COPY|ADD) (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return [source for line in lines if not line.startswith("--from=") for source in line.split()[:-1]]


def context() -> set[str]:
    """The files that .dockerignore lets through: the last pattern that fits a file or a folder above it decides."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    let_through: set[str] = set()
    for folder in ("controllers", "ebbtide", "tools", "infra", "components", "tests"):
        for file in filter(Path.is_file, (ROOT / folder).rglob("*")):
            name = str(file.relative_to(ROOT))
            ignored = False
            for pattern in patterns:
                if any(_fits(part, pattern.removeprefix("!")) for part in _above(name)):
                    ignored = not pattern.startswith("!")
            if not ignored:
                let_through.add(name)
    return let_through


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(name.rsplit("/", 1)[-1], pattern[3:])
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def test_only_the_controller_the_vocabulary_and_the_lock_get_in() -> None:
    assert sorted(copied()) == ["controllers", "ebbtide/vocabulary", "tools/locks/controller.txt"]
    own = {str(file.relative_to(ROOT)) for top in ("controllers", "ebbtide/vocabulary") for file in modules(ROOT / top)}

    assert context() == own | {"tools/locks/controller.txt"}


def modules(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]


def test_the_lock_is_what_the_tests_run_with_and_what_the_extra_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    given = [line for line in LOCK.with_suffix(".in").read_text().splitlines() if line[0] != "#"]
    everything = dict(_REQUIREMENT.findall((ROOT / "tools" / "locks" / "dev.txt").read_text()))
    locked = dict(_REQUIREMENT.findall(LOCK.read_text()))

    assert given == extras["controller"]
    assert locked.items() <= everything.items()
    assert {"kubernetes", "redis", "tzdata"} <= locked.keys()


@pytest.mark.parametrize("python", ["3.11.2", "3.11.3", "3.12.0", "3.13.0"])
def test_the_lock_holds_what_its_packages_need_on_every_python_that_is_claimed(python: str) -> None:
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0], "extra": ""}
    locked = [Requirement(line.rstrip(" \\")) for line in LOCK.read_text().splitlines() if _REQUIREMENT.match(line)]
    there = {one.name for one in locked if one.marker is None or one.marker.evaluate(here)}
    needed = [Requirement(need) for name in sorted(there) for need in _needs(name)]

    wanted = {canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate(here)}
    assert (wanted - there - _ASYNC, len(wanted) > 10) == (set(), True)


def _needs(name: str) -> list[str]:
    """Nothing of a package that is for another Python than this one: it is not installed here."""
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def test_it_is_nobodys_process_and_writes_no_file() -> None:
    last_stage = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    before, user, after = last_stage.partition("\nUSER 65532:65532\n")

    assert user
    assert "PYTHONDONTWRITEBYTECODE=1" in before
    assert before.index("\nRUN python -m controllers --help") < before.index("PYTHONDONTWRITEBYTECODE=1")
    assert "RUN" not in after


def lay_out(folder: Path) -> None:
    for source in copied():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns("__pycache__"))


def run_alone(folder: Path, dependencies: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """With `folder` and `dependencies` on the path and nothing else that is installed here."""
    environment = {"PATH": os.defpath, "PYTHONPATH": f"{folder}:{dependencies}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-S", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def linked_dependencies(folder: Path) -> Path:
    """This environment's packages, but only the ones of the lock, and without what the image removes from them."""
    made = folder / "dependencies"
    made.mkdir()
    for line in filter(_REQUIREMENT.match, LOCK.read_text().splitlines()):
        wanted = Requirement(line.rstrip(" \\"))
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        own = distribution(wanted.name)
        for top in {Path(file).parts[0] for file in own.files or ()} - {"..", "__pycache__"}:
            if not (made / top).exists():
                (made / top).symlink_to(str(own.locate_file(top)))
    return made


@pytest.mark.process
def test_what_is_copied_runs_with_what_is_locked_and_nothing_else(tmp_path: Path) -> None:
    lay_out(tmp_path)
    dependencies = linked_dependencies(tmp_path)
    told = run_alone(tmp_path, dependencies, "-m", "controllers", "--help")
    closer = run_alone(tmp_path, dependencies, "-m", "controllers.closer", "--help")
    others = [
        run_alone(tmp_path, dependencies, "-m", f"controllers.{name}", "--help") for name in ("workloads", "exporter")
    ]
    without = run_alone(
        tmp_path, dependencies, "-c", "import controllers.scaler.main, sys; print('aiohttp' in sys.modules)"
    )

    assert "--config FILE" in told.stdout, told.stderr
    assert "--config FILE" in closer.stdout, closer.stderr
    for other in others:
        assert "--config FILE" in other.stdout, other.stderr
    assert without.stdout == "False\n", without.stderr


@pytest.mark.long
def test_the_installed_image_is_small(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Installs from the lock as the Dockerfile does; the base image is not counted."""
    target = tmp_path / "dependencies"
    options = ["--quiet", "--no-cache-dir", "--no-compile", "--no-deps", "--require-hashes"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "--requirement", str(LOCK)]
    subprocess.run(command, check=True)
    shutil.rmtree(target / "kubernetes" / "aio")
    for service in filter(Path.is_dir, (target / "botocore" / "data").iterdir()):
        if service.name not in ("sqs", "sts"):
            shutil.rmtree(service)
    lay_out(tmp_path)
    told = run_alone(tmp_path, target, "-m", "controllers", "--help")
    mib = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) / 2**20
    record_property("installed_mib", round(mib, 1))

    assert told.returncode == 0, told.stderr
    assert mib <= _MOST_MIB
