"""Stacks side by side over one trace: what a change of hours, sizes or groups does to node-hours, dollars and waits.

All are replayed from the same instant, the one that suits the first. Each aligned by itself, a change of business hours
would move the jobs along with the hours, and would show no effect at all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ebbtide.settings.model import StackSettings
from ebbtide.simulator.replay import replay
from ebbtide.simulator.results import Replay, StrategyResult, as_json
from ebbtide.simulator.setup import ReplayOptions
from ebbtide.simulator.trace.alignment import shifted_starts
from ebbtide.simulator.trace.traces import Trace

SCHEMA = 1

Play = Callable[[StackSettings, Trace, ReplayOptions], Replay]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One strategy on a stack, less the same on the first stack."""

    strategy: str
    node_hours: float
    usd: float
    wait_p50_s: float
    wait_p95_s: float
    wait_p99_s: float
    jobs_interrupted: int
    jobs_unfinished: int


def replay_each(
    stacks: Sequence[StackSettings], trace: Trace, options: ReplayOptions, play: Play = replay
) -> list[Replay]:
    """One replay for each stack, in their order. Raises what `replay` raises."""
    first = play(stacks[0], trace, options)
    same_start = replace(options, start=first.start)
    return [first, *(play(stack, trace, same_start) for stack in stacks[1:])]


def replay_shifted(
    stack: StackSettings, trace: Trace, options: ReplayOptions, shifts: Sequence[timedelta], play: Play = replay
) -> list[Replay]:
    """The stack's replay, and one more for each shift of its start. Raises what `replay` raises."""
    first = play(stack, trace, options)
    starts = shifted_starts(first.start, shifts)
    return [first, *(play(stack, trace, replace(options, start=start)) for start in starts)]


def differences(first: Replay, other: Replay) -> Iterator[Difference]:
    """For each strategy that both replays have."""
    for name, result in other.strategies.items():
        if name in first.strategies:
            yield _difference(name, first.strategies[name], result)


def _difference(name: str, before: StrategyResult, after: StrategyResult) -> Difference:
    return Difference(
        strategy=name,
        node_hours=after.node_hours - before.node_hours,
        usd=after.usd - before.usd,
        wait_p50_s=after.wait_p50_s - before.wait_p50_s,
        wait_p95_s=after.wait_p95_s - before.wait_p95_s,
        wait_p99_s=after.wait_p99_s - before.wait_p99_s,
        jobs_interrupted=after.jobs_interrupted - before.jobs_interrupted,
        jobs_unfinished=after.jobs_unfinished - before.jobs_unfinished,
    )


def comparison_json(replays: Sequence[Replay]) -> dict[str, Any]:
    """`stacks`: a document as of one replay for each; `differences`: of each further one to the first."""
    first = replays[0]
    return {
        "schema": SCHEMA,
        "trace": first.trace,
        "start": first.start.isoformat(),
        "stacks": [as_json(found) for found in replays],
        "differences": [
            {"stack": other.stack, "against": first.stack, "strategies": _as_json(first, other)}
            for other in replays[1:]
        ],
    }


def _as_json(first: Replay, other: Replay) -> dict[str, Any]:
    return {
        found.strategy: {
            "node_hours": found.node_hours,
            "usd": found.usd,
            "wait_p50_s": found.wait_p50_s,
            "wait_p95_s": found.wait_p95_s,
            "wait_p99_s": found.wait_p99_s,
            "jobs_interrupted": found.jobs_interrupted,
            "jobs_unfinished": found.jobs_unfinished,
        }
        for found in differences(first, other)
    }


def shifts_json(replays: Sequence[Replay]) -> dict[str, Any]:
    """The document of the replay itself, with those of its shifts beside it."""
    first = replays[0]
    return {
        **as_json(first),
        "shifts": [
            {"hours": (other.start - first.start).total_seconds() / 3600, "replay": as_json(other)}
            for other in replays[1:]
        ],
    }
