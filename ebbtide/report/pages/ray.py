"""Ray groups of a replay, as rows and as sentences."""

from collections.abc import Iterator

from ebbtide.report.charts.over_time import ray_groups
from ebbtide.report.charts.palette import strategy_inks
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.words import DASH, count, duration, percent, several
from ebbtide.simulator.results import RayGroupResult, Replay

_COLUMNS = (
    "worker-hours",
    "busy",
    "idle hours",
    "most workers",
    "tasks",
    "task wait p50",
    "task wait p95",
    "tasks interrupted",
    "lost task work",
)


def ray_sheet(replay: Replay) -> Sheet:
    """A row for each group under each strategy that has workers."""
    return Sheet(
        caption="Workers and tasks of Ray, by strategy and group",
        over="strategy, group",
        columns=_COLUMNS,
        rows=[
            SheetRow(f"{name}, {key}", _cells(group))
            for name in strategy_inks(replay.strategies)
            for key, group in ray_groups(replay.strategies[name]).items()
        ],
    )


def _cells(group: RayGroupResult) -> list[str]:
    return [
        f"{group.worker_hours:,.1f}",
        _busy(group),
        f"{group.worker_hours - group.busy_hours:,.1f}",
        count(group.most_workers),
        count(group.tasks_done),
        duration(group.wait_p50_s),
        duration(group.wait_p95_s),
        count(group.tasks_interrupted),
        duration(group.lost_task_s),
    ]


def _busy(group: RayGroupResult) -> str:
    return percent(group.busy_hours / group.worker_hours) if group.worker_hours else DASH


def ray_lines(replay: Replay, strategy: str | None) -> Iterator[str]:
    """Each cluster of a strategy, for a reader without the tables."""
    result = replay.strategies.get(strategy or "")
    if result is None:
        return
    for name, cluster in result.ray.items():
        yield f"Ray {name} ({strategy}): head awake for {count(cluster.head_hours)} of {24 * replay.days} hours."
        for key, group in cluster.groups.items():
            yield (
                f"Ray {name}/{key}: {group.worker_hours:,.1f} worker-hours, {_busy(group)} busy, at most "
                f"{several(group.most_workers, 'worker')}; {several(group.tasks_done, 'task')}, waits p50 "
                f"{duration(group.wait_p50_s)}, p95 {duration(group.wait_p95_s)}; {duration(group.lost_task_s)} of "
                "task work lost."
            )


def ray_note(strategy: str) -> str:
    return f"{strategy}: workers with at least one task, and idle ones; a cluster that sleeps has none."
