"""The required version of a program, and the version of a file.

A file's version is found by running it, which takes 0.1 s and also detects a partial file. The answer is cached while
the file's size and time stay the same, since each start of a control plane waits for it.
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
    """A file's version. `minor` is "1.36", or empty if it reports none; `description` is then its behaviour."""

    minor: str
    description: str


class Versions:
    """Versions of files, cached in a file; without write access each file is run again."""

    def __init__(self, cache: Path | None) -> None:
        self._cache = cache
        self._answers: dict[str, list[str]] = _read(cache) if cache is not None else {}

    def of(self, path: Path, arguments: Sequence[str]) -> Version:
        status = path.stat()
        key = f"{path} {status.st_mtime_ns} {status.st_size}"
        if key not in self._answers:
            answer = _version(path, arguments)
            if not answer.minor:
                return answer  # not cached, since the machine may be the cause
            self._answers[key] = [answer.minor, answer.description]
            self._write()
        minor, description = self._answers[key]
        return Version(minor, description)

    def _write(self) -> None:
        if self._cache is None:
            return
        new = self._cache.with_name(f".{self._cache.name}.{os.getpid()}")
        with suppress(OSError):
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(self._answers, indent=1))
            new.replace(self._cache)


def minor_of(version: str) -> str:
    match = _NUMBER.search(version)
    return match[1] if match else ""


def required(go_mod: Path, module: str) -> str:
    """Return the version of a module, or of `go` itself, that a go.mod file pins: v1.36.3, 1.26."""
    match = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v?\d\S*)", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{go_mod}: wanted a line that requires {module}, found none")
    return match[1]


def _version(path: Path, arguments: Sequence[str]) -> Version:
    command = [str(path), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return Version("", f"did not tell its version in {_PATIENCE:.0f} s")
    except OSError as error:
        return Version("", f"cannot be run: {error.strerror}")
    match = _NUMBER.search(done.stdout if done.returncode == 0 else "")
    return Version(match[1], match[0]) if match else Version("", f"tells no version ({' '.join(arguments)})")


def _read(cache: Path) -> dict[str, list[str]]:
    try:
        answers: Mapping[str, list[str]] = json.loads(cache.read_text())
        return {str(key): [str(minor), str(description)] for key, (minor, description) in answers.items()}
    except (OSError, ValueError, AttributeError, TypeError):  # missing, or damaged
        return {}
