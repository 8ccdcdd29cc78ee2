"""Runs the missing replays of a sweep, and stores each as it ends."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from ebbtide.lab.sweep.calls import Failed, ended
from ebbtide.lab.sweep.cluster import ray_cluster
from ebbtide.lab.sweep.plan import SweepPlan
from ebbtide.lab.sweep.store import ResultStore
from ebbtide.lab.sweep.task import play

Progress = Callable[[int, int], None]
"""Called with the number of replays that are done, and the number that failed."""


@dataclass(slots=True)
class SweepOutcome:
    """`errors`: messages of failed replays, by key."""

    done: int = 0
    errors: dict[str, str] = field(default_factory=dict[str, str])
    interrupted: bool = False


def run(plan: SweepPlan, store: ResultStore, *, processes: int, ray: str | None, progress: Progress) -> SweepOutcome:
    """`ray`: an address; it replaces `processes`. Raises `StoreError`, `NoCluster`."""
    outcome = SweepOutcome()
    progress(0, 0)
    if not plan.tasks:
        return outcome
    try:
        with nullcontext() if ray is None else ray_cluster(ray) as cluster:
            for replay in ended(play, plan.calls, processes=processes, ray=cluster):
                task = plan.tasks[replay.number]
                store.add(task, replay.outcome)
                if isinstance(replay.outcome, Failed):
                    outcome.errors[task.key] = replay.outcome.why
                else:
                    outcome.done += 1
                progress(outcome.done, len(outcome.errors))
    except KeyboardInterrupt:
        outcome.interrupted = True
    else:
        store.gather()
    return outcome
