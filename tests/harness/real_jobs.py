"""What the harness's real workers run. Each job writes down its start and its end in a file, whatever Redis does."""

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path


def work(ledger: str, number: int, seconds: float) -> None:
    """Take some time. The host's name is the pod's."""
    _write(ledger, f"started {number} {socket.gethostname()}")
    time.sleep(seconds)
    _write(ledger, f"finished {number} {socket.gethostname()}")


def _write(ledger: str, text: str) -> None:
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{text} {time.monotonic()}\n".encode())
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Turn:
    """One time that a job was run."""

    number: int
    pod: str
    started: float  # monotonic, which all processes of a machine share
    finished: float | None = None


@dataclass(slots=True)
class Ledger:
    turns: list[Turn] = field(default_factory=list[Turn])

    @property
    def finished(self) -> set[int]:
        return {turn.number for turn in self.turns if turn.finished is not None}


def read_ledger(path: Path) -> Ledger:
    ledger = Ledger()
    for line in path.read_text().splitlines() if path.exists() else ():
        what, number, pod, at = line.split()
        if what == "started":
            ledger.turns.append(Turn(int(number), pod, float(at)))
            continue
        for turn in ledger.turns:
            if (turn.number, turn.pod, turn.finished) == (int(number), pod, None):
                turn.finished = float(at)
    return ledger
