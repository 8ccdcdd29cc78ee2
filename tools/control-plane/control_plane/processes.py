"""The control plane's processes: each in a group of its own with a log, all ended by id.

A Ctrl-C in the terminal reaches only whoever started us, who then stops them; if that never happens, the reaper does.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_REAPER = Path(__file__).with_name("reaper.py")


class NotStarted(RuntimeError):
    """A program ended or stayed silent; the message holds its last words."""


@dataclass(slots=True)
class _Running:
    command: Sequence[str]
    process: "subprocess.Popen[bytes]"


class Processes:
    """Starts, freezes and ends programs by name. `folder` is theirs and goes with the last of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, _Running] = {}
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_REAPER), str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def start(self, name: str, command: Sequence[str]) -> None:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        self._running[name] = _Running(command, process)
        self._tell_reaper(f"+{process.pid}")

    def stop(self, name: str, *, patience: float = 0.0) -> None:
        """End it by id: at once, or with `patience` seconds to leave by itself."""
        process = self._running.pop(name).process
        if patience:
            process.terminate()
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
        else:
            process.kill()
        process.wait()
        self._tell_reaper(f"-{process.pid}")

    def restart(self, name: str) -> None:
        command = self._running[name].command
        self.stop(name)
        self.start(name, command)

    def send(self, name: str, what: signal.Signals) -> None:
        self._running[name].process.send_signal(what)

    def pid(self, name: str) -> int:
        return self._running[name].process.pid

    def names(self) -> list[str]:
        return list(self._running)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def require_alive(self, deadline: float, doing: str) -> None:
        """Raise `NotStarted` when a program has ended, or when the deadline (monotonic) has passed."""
        for name, running in self._running.items():
            if running.process.poll() is not None:
                raise NotStarted(f"{name} ended by itself while {doing}: {self._last_words(name)}")
        if time.monotonic() > deadline:
            said = "; ".join(f"{name}: {self._last_words(name)}" for name in self._running)
            raise NotStarted(f"gave up {doing}: {said}")

    def close(self) -> None:
        """End all, last started first, and remove the folder."""
        for running in self._running.values():  # all at once: none of them has anything to save
            running.process.kill()
        for name in reversed(self.names()):
            self.stop(name)
        if self._reaper.stdin is not None:
            self._reaper.stdin.close()
        self._reaper.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(f"{line}\n")
        self._reaper.stdin.flush()

    def _last_words(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")
