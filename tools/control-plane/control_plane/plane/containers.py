"""Processes that stand for containers: each leads its own session and process group, which ends as one.

Thread-safe, because a kubelet's thread manages them while others read or kill. A process id is only signalled under the
lock under which it is reaped: after that it may be another's.

The trap: a group outlives its starter if that is killed. A reaper, which holds the other end of a pipe, ends it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import RLock

_REAPER = Path(__file__).with_name("reaper.py")
_END_LIMIT = 10.0  # seconds to wait for a killed process


class What(StrEnum):
    STARTED = "started"
    NOT_STARTED = "could not be started"
    TOLD_TO_STOP = "told to stop"
    OUT_OF_GRACE = "killed after its grace"
    WITHOUT_POD = "killed because its pod was gone"
    STRUCK = "killed from outside"
    EXITED = "exited"  # for any reason; the entry before shows if it was requested


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    at: float  # monotonic, which all processes of a machine share
    pod: str
    what: What
    pid: int = 0
    code: int | None = None  # of an exit; negative: the signal


class Container:
    """One pod's process, which can be restarted."""

    def __init__(self, pod: str, home: "Containers") -> None:
        self.pod = pod
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self.trouble = ""  # why it could not be started
        self.code: int | None = None  # of its last exit

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it. A failure raises nothing: `trouble` has the reason, for the pod's status."""
        with self._home.lock:
            if self._home.closed or self._process is not None:
                return
            try:
                self._process = self._home.launch(self.pod, command, environment)
            except OSError as error:
                self.trouble = str(error)
                self._home.tell(self.pod, What.NOT_STARTED)
                return
            self.trouble, self._killed = "", False
            self._home.tell(self.pod, What.STARTED, self._process.pid)

    def stop(self) -> None:
        """Send SIGTERM to the first process only, as in a container."""
        with self._home.lock:
            if self._process is not None:
                self._home.tell(self.pod, What.TOLD_TO_STOP, self._process.pid)
                self._process.send_signal(signal.SIGTERM)

    def kill(self, why: What) -> None:
        """Send SIGKILL to the entire group if it still runs."""
        with self._home.lock:
            if self._process is not None and self._process.poll() is None and not self._killed:
                self._killed = True
                self._home.tell(self.pod, why, self._process.pid)
                _kill_group(self._process.pid)

    def reap(self) -> bool:
        """Return True if it has exited since the last call; the rest of its group ends with it."""
        with self._home.lock:
            if self._process is None or self._process.poll() is None:
                return False
            self.end()
            return True

    def end(self) -> None:
        """Kill it and wait."""
        with self._home.lock:
            if self._process is not None:
                _kill_group(self._process.pid)
                self.code = self._process.wait(_END_LIMIT)
                self._home.forget(self._process.pid)
                self._home.tell(self.pod, What.EXITED, self._process.pid, self.code)
                self._process = None


class Containers:
    """All processes of one kubelet, their history, and their end."""

    def __init__(self, log_folder: Path | None) -> None:
        self.lock = RLock()
        self.closed = False
        self._logs = log_folder
        self._history: list[Happening] = []
        self._all: list[Container] = []
        self._folder = tempfile.mkdtemp(prefix="ebbtide-kubelet-")  # the reaper removes one
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_REAPER), self._folder],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def new(self, pod: str) -> Container:
        container = Container(pod, self)
        with self.lock:
            self._all.append(container)
        return container

    def drop(self, container: Container) -> None:
        with self.lock:
            container.end()
            self._all.remove(container)

    def history(self) -> tuple[Happening, ...]:
        with self.lock:
            return tuple(self._history)

    def close(self) -> None:
        """End every process, and prevent further starts."""
        with self.lock:
            self.closed = True
            for container in self._all:
                container.end()
        if self._reaper.stdin is not None:
            self._reaper.stdin.close()
        self._reaper.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- for containers, under the lock ---------------------------------------------------------------------------

    def launch(self, pod: str, command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        log = Path(os.devnull) if self._logs is None else self._logs / f"{pod}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._tell_reaper(f"+{process.pid}")
        return process

    def forget(self, pid: int) -> None:
        self._tell_reaper(f"-{pid}")

    def tell(self, pod: str, what: What, pid: int = 0, code: int | None = None) -> None:
        self._history.append(Happening(at=time.monotonic(), pod=pod, what=what, pid=pid, code=code))

    def _tell_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(f"{line}\n")
        self._reaper.stdin.flush()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # none is left; on macOS: only zombies are left
        os.killpg(leader, signal.SIGKILL)
