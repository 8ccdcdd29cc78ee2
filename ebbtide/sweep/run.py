"""Plays what a sweep still lacks, and keeps each replay as it ends."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from ebbtide.sweep.calls import Failed, ended
from ebbtide.sweep.cluster import ray_cluster
from ebbtide.sweep.plan import SweepPlan
from ebbtide.sweep.store import Store
from ebbtide.sweep.task import play

Progress = Callable[[int, int], None]
"""How many are done, and how many failed."""


@dataclass(slots=True)
class Ran:
    """`errors`: by key, of those that failed."""

    done: int = 0
    errors: dict[str, str] = field(default_factory=dict[str, str])
    interrupted: bool = False


def run(plan: SweepPlan, store: Store, *, processes: int, ray: str | None, progress: Progress) -> Ran:
    """`ray`: an address, and then `processes` says nothing. Raises `StoreError`, `NoCluster`."""
    ran = Ran()
    progress(0, 0)
    if not plan.tasks:
        return ran
    try:
        with nullcontext() if ray is None else ray_cluster(ray) as cluster:
            for each in ended(play, plan.calls, processes=processes, ray=cluster):
                task = plan.tasks[each.number]
                store.add(task, each.found)
                if isinstance(each.found, Failed):
                    ran.errors[task.key] = each.found.why
                else:
                    ran.done += 1
                progress(ran.done, len(ran.errors))
    except KeyboardInterrupt:
        ran.interrupted = True
    else:
        store.gather()
    return ran
