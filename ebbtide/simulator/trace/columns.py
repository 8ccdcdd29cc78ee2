"""The columns of an export of jobs: which one holds what, by the names that common exports give them.

Three exports are recognized by their columns, since they need rules of their own: Slurm's `sacct --parsable2`, the
tasks of Celery's Flower, and RQ jobs as the documented command prints them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

SUBMITTED, STARTED, FINISHED, DURATION_S, DURATION = (
    "submitted_at",
    "started_at",
    "finished_at",
    "duration_s",
    "duration",
)
QUEUE, CPU, MEMORY_GIB, MEMORY, GPU, TASKS = "queue", "cpu", "memory_gib", "memory", "gpu", "tasks"
TRES, STATE, JOB_ID = "tres", "state", "job_id"

NAMES: Mapping[str, Sequence[str]] = {
    SUBMITTED: (SUBMITTED, "submitted", "submit_time", "submit", "enqueued_at", "queued_at", "created_at", "created"),
    STARTED: (STARTED, "started", "start_time", "start"),
    FINISHED: (FINISHED, "finished", "ended_at", "ended", "completed_at", "completed", "end_time", "end"),
    DURATION_S: (DURATION_S,),
    DURATION: (
        DURATION,
        "duration_seconds",
        "runtime",
        "runtime_s",
        "elapsed",
        "elapsed_s",
        "duration_ms",
        "runtime_ms",
    ),
    QUEUE: (QUEUE, "queue_name", "origin", "partition"),
    CPU: (CPU, "cpus", "cores", "num_cpus", "ncpus", "vcpus"),
    MEMORY_GIB: (MEMORY_GIB,),
    MEMORY: (MEMORY, "mem", "memory_bytes", "memory_mib", "memory_mb", "memory_gb", "reqmem"),
    GPU: (GPU, "gpus", "num_gpus", "gpu_count"),
    TASKS: (TASKS,),
}
"""Recognized names of each field, the most exact one first; case does not count, and `-` and a space are `_`."""
UNITS_IN_NAMES = {"kib": "KiB", "kb": "KB", "mib": "MiB", "mb": "MB", "gib": "GiB", "gb": "GB"}
"""The unit of plain numbers by the last word of the column's name; they are bytes otherwise."""


class Export(StrEnum):
    TABLE = "a table"
    SACCT = "Slurm's sacct"
    FLOWER = "Celery Flower's tasks"
    RQ = "RQ jobs"


_SIGNS: Mapping[Export, frozenset[str]] = {
    Export.SACCT: frozenset({"jobid", "submit", "state"}),
    Export.FLOWER: frozenset({"uuid", "received", "routing_key"}),
    Export.RQ: frozenset({"origin", "enqueued_at", "ended_at"}),
}
_OF_EXPORT: Mapping[Export, Mapping[str, Sequence[str]]] = {
    Export.SACCT: {JOB_ID: ("jobid",), STATE: ("state",), TRES: ("alloctres", "reqtres")},
    Export.FLOWER: {SUBMITTED: ("sent", "received"), FINISHED: ("succeeded", "failed"), QUEUE: ("routing_key",)},
}
"""Fields with several columns: the first one with a value counts, row by row."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of each field that the file has."""

    export: Export
    of: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.of.values() for name in names))

    def renamed(self) -> Iterator[str]:
        """Yield `field=column` for the columns that are not named after their field."""
        return (f"{field}={names[0]}" for field, names in self.of.items() if names[0] != field)


def columns_of(header: Sequence[str], stated: Mapping[str, str]) -> Columns:
    """Find the column of each field; `stated` names some of them. A start is used with an end, or not at all."""
    by_word = {_word(name): name for name in reversed(header)}
    export = next((export for export, signs in _SIGNS.items() if signs <= by_word.keys()), Export.TABLE)
    found: dict[str, tuple[str, ...]] = {}
    for field, words in NAMES.items():
        known = [by_word[word] for word in words if word in by_word]
        if known:
            found[field] = (known[0],)
    for field, words in _OF_EXPORT.get(export, {}).items():
        found[field] = tuple(by_word[word] for word in words if word in by_word)
    found.update({field: (name,) for field, name in stated.items()})
    for exact, others in ((DURATION_S, (DURATION, STARTED, FINISHED)), (MEMORY_GIB, (MEMORY,))):
        unused = (exact,) if stated.keys() & {*others} else others if exact in found else ()
        for field in unused:
            found.pop(field, None)
    if DURATION in stated or not (STARTED in found and FINISHED in found):
        found.pop(STARTED, None)
        found.pop(FINISHED, None)
    return Columns(export, {field: names for field, names in found.items() if names})


def missing_fields(columns: Columns) -> Iterator[str]:
    """Yield the required fields without a column."""
    yield from (field for field in (SUBMITTED, QUEUE) if field not in columns.of)
    if not {DURATION_S, DURATION, STARTED} & columns.of.keys():
        yield f"{DURATION_S} (or {STARTED} and {FINISHED})"


def _word(name: str) -> str:
    return re.sub(r"[-\s]+", "_", name.strip().lower())
