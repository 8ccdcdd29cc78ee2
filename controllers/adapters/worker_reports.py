"""Comparison of workers' reports, which are JSON, with their pool: warnings that do not depend on the framework.

Any client may write to Redis, so a report may contain anything.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

_MAX_NUMBER = 1e9  # NaN and infinity exceed it, too
_LONGEST_NAME = 100
_SIGTERM = "SIGTERM"


@lru_cache(maxsize=4096)  # a report is read many times a second, and changes only with its worker
def parsed(text: str) -> Mapping[str, Any]:
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", report) if isinstance(report, dict) else {}


def number(report: Mapping[str, Any], name: str) -> float:
    """Return the number, or 0 if it is missing or not sensible."""
    value = report.get(name)
    return value if isinstance(value, int | float) and abs(value) <= _MAX_NUMBER else 0


def duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def other_queues(served: object, ours: Sequence[str]) -> Iterator[str]:
    if not isinstance(served, list) or not served:
        return
    names = {str(name)[:_LONGEST_NAME] for name in cast("list[object]", served)[:_LONGEST_NAME]}
    if names != {*ours}:
        yield (
            f"a worker serves {', '.join(sorted(names))}, and the pool counts {', '.join(ours)}: jobs of a "
            "queue that only one of them names wait without a worker, or run uncounted"
        )


def ends_by_itself(option: str) -> str:
    return (
        f"workers have {option} and end by themselves: Kubernetes starts their containers again after pauses of up to "
        "5 minutes; leave it out"
    )


def unsafe_stop(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons for which a worker does not stop safely; the pool declares `safeStop`."""
    signals = report.get("signals")
    if not isinstance(signals, dict):
        return
    handlers = cast("Mapping[str, object]", signals)
    stop = str(report.get("stop_signal", _SIGTERM))[:_LONGEST_NAME]
    handler = str(handlers.get(stop, "default"))[:_LONGEST_NAME]
    if shell := report.get("shell"):
        yield (
            f"safeStop is declared, and {str(shell)[:_LONGEST_NAME]} gets the SIGTERM and passes it on to no worker, "
            "which is killed with its job: write exec in front of the worker's program"
        )
    if handler == "warm":
        return
    why = {
        "cold": "cancels its job",
        "default": "kills it with its job",
        "ignored": "is ignored, so it is killed when its grace period ends",
    }.get(handler, f"goes to {handler}, not to the worker's own handler; does it call that one?")
    rewritten = "" if stop == _SIGTERM else f" that dumb-init makes of {_SIGTERM}"
    remapped = f" (REMAP_SIGTERM={str(report['remapped'])[:_LONGEST_NAME]})" if report.get("remapped") else ""
    yield f"safeStop is declared, and the {stop}{rewritten} of a stopping worker {why}{remapped}"
