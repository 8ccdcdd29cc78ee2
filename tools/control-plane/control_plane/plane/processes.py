"""The control plane's processes: each in its own group with a log, all ended by id.

A Ctrl-C in the terminal reaches only the starting process, which then stops them; otherwise the reaper does.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from control_plane.plane.errors import Ended, NotStarted, last_words

__all__ = ["Ended", "NotStarted", "Processes"]

_LITTLE_SPACE = 1 << 20  # bytes; with less, a program cannot even log why it ends
_REAPER = Path(__file__).with_name("reaper.py")


@dataclass(slots=True)
class _Running:
    command: Sequence[str]
    process: "subprocess.Popen[bytes]"
    log_begins: int  # bytes that earlier runs have written
    killed: bool = False  # on purpose, so that its end is no error


class Processes:
    """Starts, freezes and ends programs by name. `folder` is theirs and is removed with the last of them."""

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
        """Start a program. Raises `NotStarted` if the file is no program of this machine, for example a partial one."""
        with self.log(name).open("ab") as log:
            log_begins = log.tell()
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise NotStarted(f"{name} cannot be run: {command[0]}: {error.strerror}") from error
        self._running[name] = _Running(command, process, log_begins)
        self._tell_reaper(f"+{process.pid}")

    def stop(self, name: str, *, patience: float = 0.0) -> None:
        """End it by id: at once, or after `patience` seconds to exit by itself."""
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

    def kill(self, name: str) -> None:
        """End it at once, and remember it for `restart`."""
        running = self._running[name]
        running.killed = True
        running.process.kill()
        running.process.wait()
        self._tell_reaper(f"-{running.process.pid}")

    def restart(self, name: str) -> None:
        command = self._running[name].command
        self.stop(name)
        self.start(name, command)

    def send(self, name: str, number: signal.Signals) -> None:
        self._running[name].process.send_signal(number)

    def pid(self, name: str) -> int:
        return self._running[name].process.pid

    def names(self) -> list[str]:
        return list(self._running)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def gone(self) -> list[str]:
        """Return the programs that do not run, for any reason."""
        return [name for name, running in self._running.items() if running.process.poll() is not None]

    def ended(self) -> dict[str, str]:
        """Return the programs that ended by themselves, with one line each."""
        return {name: self._how_it_ended(name) for name in self.gone() if not self._running[name].killed}

    def require_alive(self, doing: str) -> None:
        """Raise `Ended` when a program has ended by itself."""
        if gone := self.ended():
            how = "; ".join(f"{name} {how}" for name, how in gone.items())
            raise Ended(f"control plane, while {doing}: {how}{self._space()}")

    def require_in_time(self, deadline: float, doing: str) -> None:
        """Raise `NotStarted` when the deadline (monotonic) has passed."""
        if time.monotonic() > deadline:
            words = "; ".join(f"{name}: {last_words(self._last_line(name))}" for name in self._running)
            raise NotStarted(f"control plane: gave up {doing}: {words}{self._space()}")

    def close(self) -> None:
        """End all, last started first, and remove the folder."""
        for running in self._running.values():  # all at once, since none has data to save
            running.process.kill()
        for name in reversed(self.names()):
            self.stop(name)
        if self._reaper.stdin is not None:
            with suppress(OSError):
                self._reaper.stdin.close()
        self._reaper.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        with suppress(OSError):  # it was killed; `close` remains as protection
            self._reaper.stdin.write(f"{line}\n")
            self._reaper.stdin.flush()

    def _how_it_ended(self, name: str) -> str:
        code, words = self._running[name].process.returncode, last_words(self._last_line(name))
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended by itself with exit code {code}: {words}"

    def _space(self) -> str:
        return f" (no space is left for {self.folder})" if shutil.disk_usage(self.folder).free < _LITTLE_SPACE else ""

    def _last_line(self, name: str) -> str:
        with self.log(name).open("rb") as log:
            log.seek(self._running[name].log_begins)
            return log.read().decode(errors="replace")
