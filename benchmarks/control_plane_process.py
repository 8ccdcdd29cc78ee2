"""The controller's process as its pod runs it: its own account's token, and only what its image installs."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from control_plane.plane.driver import ControlPlane

from controllers.ports import Action, Outcome, ReconcileReport
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

_ROOT = Path(__file__).parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_LEAVE = 20.0  # seconds


@dataclass(frozen=True, slots=True)
class ControllerProcess:
    pid: int
    port: int

    def page(self, path: str) -> str:
        """Empty while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.read().decode()
        except (URLError, OSError):
            return ""

    def metric(self, name: str) -> float:
        """The sum of its samples; 0 while there is none."""
        lines = self.page("/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def cpu_seconds(self) -> float:
        fields: list[Any] = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_mib(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


class SilentJournal:
    report: ReconcileReport | None = None

    def reconciled(self, report: ReconcileReport) -> None:
        self.report = report

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None: ...

    def noted(self, at: datetime, subject: str, message: str) -> None: ...


@contextmanager
def controller(
    plane: ControlPlane, config: ControllerConfig, *, kubeconfig: Path | None = None
) -> Generator[ControllerProcess]:
    """Started at once, by default with its own account's token; ended with the block. What it said is in the error if
    it does not live until then.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    kubeconfig = kubeconfig or plane.kubeconfig_as(NAMESPACE, CONTROLLER)
    environment = {**_image_environment(), "POD_NAME": "bench", "POD_NAMESPACE": NAMESPACE}
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "config.json", Path(folder) / "log"
        file.write_text(dump(config), encoding="utf-8")
        program = [str(interpreter()), "-m", "controllers"]
        # As in the image: bytecode that a process must make first costs it 14 MiB.
        subprocess.run([*program, "--help"], env=environment, stdout=subprocess.DEVNULL, check=True)
        command = [*program, "--config", str(file), "--kubeconfig", str(kubeconfig)]
        with log.open("wb") as words:
            process = subprocess.Popen(
                [*command, "--listen", f"127.0.0.1:{port}"], stdout=words, stderr=words, cwd=folder, env=environment
            )
        try:
            yield ControllerProcess(process.pid, port)
            if process.poll() is not None:
                raise RuntimeError(f"the controller ended by itself: {log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(timeout=_LEAVE)


def until(done: Callable[[], object], what: str, patience: float = 240.0) -> None:
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting for {what} after {patience:.0f} s")
        time.sleep(0.05)


def _image_environment() -> dict[str, str]:
    """This one with what the image sets, but for the writing of bytecode: there it is written before."""
    _, _, last_stage = (_ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")
    lines: list[str] = re.findall(r"^ENV (.*)$", last_stage, re.MULTILINE)
    settings = dict(setting.split("=", 1) for line in lines for setting in line.split())
    environment = {**os.environ, **settings, "PYTHONPATH": str(_ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE")
    return environment


def interpreter() -> Path:
    """One that has what the controller's image installs and nothing else: a library uses what it finds."""
    home, lock = _ROOT / ".venvs" / "controller", _ROOT / "tools" / "locks" / "controller.txt"
    stamp = home / "built-from"
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # As in the image: what only the asynchronous client needs is not in the lock.
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", str(lock)], check=True)
        stamp.write_text(lock.read_text())
    return home / "bin" / "python"
