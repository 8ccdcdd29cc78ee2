"""A virtual environment outside the repository that holds Ebbtide's wheel, without the editable installation.

Its dependencies are those of the tests' own environment, which it sees by a `.pth` file: to install the Pulumi SDKs
again takes minutes.
"""

import fcntl
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.builders.distributions import built_wheel
from tests.paths import ROOT


@dataclass(frozen=True)
class Environment:
    home: Path

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    def run(
        self, command: str, *arguments: str | Path, folder: Path, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.bin / command, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


def installed_wheel(folder: Path) -> Environment:
    """Build and install once in `folder`, which the processes of one test run share."""
    home, complete = folder / "environment", folder / "environment.complete"
    with (folder / "environment.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(home, ignore_errors=True)
            _install(home, built_wheel(ROOT, folder))
            complete.touch()
    return Environment(home)


def _install(home: Path, wheel: Path) -> None:
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    [packages] = home.glob("lib/python*/site-packages")
    # Paths in a .pth file are not searched for further .pth files, as that of the editable installation.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
