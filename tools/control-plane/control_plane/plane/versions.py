"""Which version of a program is wanted, and which one a file holds.

A file is asked by running it, which takes 0.1 s and tells a cut-off file too. The answer is kept beside the cache for
as long as the file's size and time stay, since whoever starts a control plane waits for it.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NUMBER = re.compile(r"\bv?(\d+\.\d+)\.\d+")
_PATIENCE = 60.0  # seconds; a busy machine reads 100 MB slowly


@dataclass(frozen=True, slots=True)
class Version:
    """Of a file. `minor` is "1.36", or empty where it tells none; `said` is then what it did instead."""

    minor: str
    said: str


class Versions:
    """What files have answered, kept in `memory`, a file; where that cannot be written each is asked anew."""

    def __init__(self, memory: Path | None) -> None:
        self._memory = memory
        self._known: dict[str, list[str]] = _read(memory) if memory is not None else {}

    def of(self, path: Path, arguments: Sequence[str]) -> Version:
        status = path.stat()
        key = f"{path} {status.st_mtime_ns} {status.st_size}"
        if key not in self._known:
            answer = _asked(path, arguments)
            if not answer.minor:
                return answer  # it may have been the machine's fault
            self._known[key] = [answer.minor, answer.said]
            self._keep()
        minor, said = self._known[key]
        return Version(minor, said)

    def _keep(self) -> None:
        if self._memory is None:
            return
        new = self._memory.with_name(f".{self._memory.name}.{os.getpid()}")
        with suppress(OSError):
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(self._known, indent=1))
            new.replace(self._memory)


def minor_of(version: str) -> str:
    found = _NUMBER.search(version)
    return found[1] if found else ""


def required(go_mod: Path, module: str) -> str:
    """The version of a module, or of `go` itself, that a go.mod file pins: v1.36.3, 1.26."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v?\d\S*)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{go_mod}: wanted a line that requires {module}, found none")
    return found[1]


def _asked(path: Path, arguments: Sequence[str]) -> Version:
    command = [str(path), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return Version("", f"did not tell its version in {_PATIENCE:.0f} s")
    except OSError as error:
        return Version("", f"cannot be run: {error.strerror}")
    told = done.stdout if done.returncode == 0 else ""
    found = _NUMBER.search(told)
    return Version(found[1], found[0]) if found else Version("", f"tells no version ({' '.join(arguments)})")


def _read(memory: Path) -> dict[str, list[str]]:
    try:
        known: Mapping[str, list[str]] = json.loads(memory.read_text())
        return {str(key): [str(minor), str(said)] for key, (minor, said) in known.items()}
    except (OSError, ValueError, AttributeError, TypeError):  # absent, or damaged: asked anew
        return {}
