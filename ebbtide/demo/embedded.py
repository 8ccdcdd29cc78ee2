"""A server for demo and tests: a real process on loopback with its own directory and log."""

import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class EmbeddedServer(ABC):
    """Runs from `with` to its end; a failed start leaves neither process nor directory."""

    name: ClassVar[str]
    failed: ClassVar[type[RuntimeError]]  # raised with one line for the user
    start_limit: ClassVar[float]  # seconds
    end_limit: ClassVar[float] = 0.0  # seconds from SIGTERM to SIGKILL; 0: killed at once

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        self.host = HOST
        self.port = 0

    def __enter__(self) -> Self:
        self.port = self._choose_port()
        self._directory = Path(tempfile.mkdtemp(prefix=f"ebbtide-{self.name.lower()}-"))
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._process = _launched(self._command(self._directory), self._directory / "log")
            self._wait_until_it_answers(self._process)
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _choose_port(self) -> int:
        """Return a port. Raises `failed`, also if there is no program to start."""

    @abstractmethod
    def _command(self, directory: Path) -> Sequence[str]:
        """Write the program's files, and return the command."""

    @abstractmethod
    def _answers(self) -> bool: ...

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the process by its pid, and remove its directory."""
        if self._process is not None:
            if self.end_limit:
                self._process.terminate()
            try:
                self._process.wait(self.end_limit)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def kill(self) -> None:
        """Kill the process, as happens to a pod whose node is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _wait_until_it_answers(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self.start_limit
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise self.failed(f"{self.name} did not start on port {self.port}: {self._last_line()}")
            time.sleep(0.01)

    def _last_line(self) -> str:
        if self._directory is None:
            return "no log"
        lines = (self._directory / "log").read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no output")


def _launched(command: Sequence[str], log_file: Path) -> "subprocess.Popen[bytes]":
    with log_file.open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal reaches only the demo, which then stops the server
        )
