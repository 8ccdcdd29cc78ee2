"""Report how a worker reacts to stop signals: its signal handlers, and the container's first process.

Kubernetes signals only the first process of a container. A shell there passes no signal on, and `dumb-init --rewrite`
passes on another one.
"""

import re
import signal
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

WARM = "warm"  # the job ends, then the worker
COLD = "cold"  # the worker ends its job
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)
_SHELLS = ("sh", "ash", "dash", "bash", "zsh", "ksh", "busybox")
_REWRITTEN = re.compile(rf"(?:-r|--rewrite=)?{signal.SIGTERM:d}:(\d+)")


def stop_report(own: Callable[[Any], str | None], proc: Path = Path("/proc")) -> dict[str, Any]:
    """Return the handlers by signal, a shell that keeps SIGTERM to itself, and the signal that replaces SIGTERM.

    `own` returns `WARM` or `COLD` for a handler of the worker itself, else None. The key of the shell
    or of the signal is absent if there is none.
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
    rewritten = [match for match in map(_REWRITTEN.fullmatch, arguments) if match]
    if status["Name"] == "dumb-init" and rewritten:
        number = int(rewritten[0][1])
        return {"stop_signal": signal.Signals(number).name if number in {*signal.Signals} else str(number)}
    return {}


def _status(process: Path) -> Mapping[str, str]:
    lines = (process / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
