"""Report how a worker reacts to stop signals: its signal handlers, and the container's first process.

Kubernetes signals only the first process of a container. A shell there passes no signal on, `dumb-init --rewrite`
passes on another one, and `tini -g` and dumb-init without `--single-child` signal the worker's entire process group.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

WARM = "warm"  # the job ends, then the worker
COLD = "cold"  # the worker ends its job
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)
_SHELLS = ("sh", "ash", "dash", "bash", "zsh", "ksh", "busybox")
_REWRITTEN = re.compile(rf"(?:-r|--rewrite=)?{signal.SIGTERM:d}:(\d+)")

_WITH_VALUE = ("-r", "--rewrite", "-p", "-e")  # options of dumb-init and tini that a value follows


def ends_fork(number: int, worker: int) -> bool:
    """Let a process that a job has forked end by the signal, as without the worker's handler, which it inherits.

    Return False in the worker itself, whose process id is `worker`.
    """
    if os.getpid() == worker:
        return False
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return True


def stop_report(own: Callable[[Any], str | None], proc: Path = Path("/proc")) -> dict[str, Any]:
    """Return the handlers by signal, a shell that keeps SIGTERM to itself, the signal that replaces SIGTERM, and an
    init that signals the process group.

    `own` returns `WARM` or `COLD` for a handler of the worker itself, else None. The key of the shell,
    of the signal or of the init (`group`) is absent if there is none.
    """
    handlers = {number.name: _named(signal.getsignal(number), own) for number in _SIGNALS}
    return {"signals": handlers, **_first_process(proc)}


def _named(handler: Any, own: Callable[[Any], str | None]) -> str:
    if handler is None:
        return "not from Python"
    if not callable(handler):
        return {signal.SIG_DFL: "default", signal.SIG_IGN: "ignored"}.get(handler, "unknown")
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    return own(handler) or f"{getattr(handler, '__module__', '?')}.{name}"[:200]


@cache  # it stays the same, and Celery reports once a second
def _first_process(proc: Path) -> Mapping[str, str]:
    try:
        process = proc / "self"
        status = _status(process)
        while (parent := status["PPid"]) != "0":
            process = proc / parent
            status = _status(process)
        arguments = (process / "cmdline").read_text().split("\0")
        catches = int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1
    except (OSError, KeyError, ValueError):
        return {}
    if status["Name"] in _SHELLS and not catches:
        return {"shell": status["Name"]}
    if status["Name"].startswith("tini"):
        to_group = "TINI_KILL_PROCESS_GROUP" in os.environ or "g" in _options(arguments)
        return {"group": "tini -g"} if to_group else {}
    return _dumb_init(arguments) if status["Name"] == "dumb-init" else {}


def _dumb_init(arguments: Sequence[str]) -> Mapping[str, str]:
    report: dict[str, str] = {}
    if rewritten := [match for match in map(_REWRITTEN.fullmatch, arguments) if match]:
        number = int(rewritten[0][1])
        report["stop_signal"] = signal.Signals(number).name if number in {*signal.Signals} else str(number)
    single = "c" in _options(arguments) or os.environ.get("DUMB_INIT_SETSID") == "0"  # -c, --single-child
    return report if single else {**report, "group": "dumb-init without --single-child"}


def _options(arguments: Sequence[str]) -> str:
    """Return the options of an init as one text, without those of the program that it starts."""
    options = ""
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-"):
            break
        options += word
        if word in _WITH_VALUE:
            next(words, None)
    return options


def _status(process: Path) -> Mapping[str, str]:
    lines = (process / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
