"""Ray groups of a replay, as rows and as sentences."""

from collections.abc import Iterator

from ebbtide.lab.report.charts.over_time import ray_groups
from ebbtide.lab.report.charts.palette import strategy_inks
from ebbtide.lab.simulator.results import RayGroupResult, Replay
from ebbtide.text.counts import count, known, percent, several
from ebbtide.text.durations import duration
from ebbtide.text.sheet import DURATION, SHARE, TENTHS, Cell, Sheet, left, right

_COLUMNS = (
    *left("strategy, group"),
    *right("worker-hours", unit=TENTHS),
    *right("busy", unit=SHARE),
    *right("idle hours", unit=TENTHS),
    *right("most workers", "tasks"),
    *right("task wait p50", "task wait p95", unit=DURATION),
    *right("tasks interrupted"),
    *right("lost task work", unit=DURATION),
)


def ray_sheet(replay: Replay) -> Sheet:
    """A row for each group under each strategy that has workers."""
    return Sheet(
        caption="Workers and tasks of Ray, by strategy and group",
        columns=_COLUMNS,
        rows=[
            (f"{name}, {key}", *_cells(group))
            for name in strategy_inks(replay.strategies)
            for key, group in ray_groups(replay.strategies[name]).items()
        ],
    )


def _cells(group: RayGroupResult) -> list[Cell]:
    return [
        group.worker_hours,
        _busy(group),
        group.worker_hours - group.busy_hours,
        group.most_workers,
        group.tasks_done,
        group.wait_p50_s,
        group.wait_p95_s,
        group.tasks_interrupted,
        group.lost_task_s,
    ]


def _busy(group: RayGroupResult) -> float | None:
    return group.busy_hours / group.worker_hours if group.worker_hours else None


def ray_lines(replay: Replay, strategy: str | None) -> Iterator[str]:
    """Yield sentences about each cluster of a strategy, for a reader without the tables."""
    result = replay.strategies.get(strategy or "")
    if result is None:
        return
    for name, cluster in result.ray.items():
        yield f"Ray {name} ({strategy}): head awake for {count(cluster.head_hours)} of {24 * replay.days} hours."
        for key, group in cluster.groups.items():
            yield (
                f"Ray {name}/{key}: {group.worker_hours:,.1f} worker-hours, {known(_busy(group), percent)} busy, "
                f"at most {several(group.most_workers, 'worker')}; {several(group.tasks_done, 'task')}, waits p50 "
                f"{duration(group.wait_p50_s)}, p95 {duration(group.wait_p95_s)}; {duration(group.lost_task_s)} of "
                "task work lost."
            )


def ray_note(strategy: str) -> str:
    return f"{strategy}: workers with at least one task, and idle ones; a cluster that sleeps has none."
