"""The controller's process as in its pod: with its account's token, and only the packages of its image."""

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
        """The page, or an empty text without an answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.read().decode()
        except (URLError, OSError):
            return ""

    def metric(self, name: str) -> float:
        """The sum of the metric's samples; 0 without one."""
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
    """Start the process, by default with its account's token. If it ends before the block, the error has its output."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    kubeconfig = kubeconfig or plane.kubeconfig_as(NAMESPACE, CONTROLLER)
    environment = {**_image_environment(), "POD_NAME": "bench", "POD_NAMESPACE": NAMESPACE}
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "config.json", Path(folder) / "log"
        file.write_text(dump(config), encoding="utf-8")
        program = [str(interpreter()), "-m", "controllers"]
        # Compile the bytecode as in the image: in the process that would take 14 MiB.
        subprocess.run([*program, "--help"], env=environment, stdout=subprocess.DEVNULL, check=True)
        command = [*program, "--config", str(file), "--kubeconfig", str(kubeconfig)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--listen", f"127.0.0.1:{port}"], stdout=output, stderr=output, cwd=folder, env=environment
            )
        try:
            yield ControllerProcess(process.pid, port)
            if process.poll() is not None:
                raise RuntimeError(f"the controller ended by itself: {log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(timeout=_LEAVE)


def until(done: Callable[[], object], event: str, timeout: float = 240.0) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting for {event} after {timeout:.0f} s")
        time.sleep(0.05)


def _image_environment() -> dict[str, str]:
    """This environment with the variables of the image, except the one against bytecode: the image has it compiled."""
    _, _, last_stage = (_ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")
    lines: list[str] = re.findall(r"^ENV (.*)$", last_stage, re.MULTILINE)
    settings = dict(setting.split("=", 1) for line in lines for setting in line.split())
    environment = {**os.environ, **settings, "PYTHONPATH": str(_ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE")
    return environment


def interpreter() -> Path:
    """An interpreter with only the packages of the controller's image, since libraries use what is installed."""
    home, lock = _ROOT / ".venvs" / "controller", _ROOT / "tools" / "locks" / "controller.txt"
    stamp = home / "built-from"
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # As in the image: the lock lacks packages that only the asynchronous client needs.
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", str(lock)], check=True)
        stamp.write_text(lock.read_text())
    return home / "bin" / "python"
