"""The columns of a job export: fields are recognized by the column names of common exports and public traces.

Some exports need special rules and are recognized by their columns: Slurm's `sacct --parsable2`, the tasks of Celery's
Flower, RQ jobs as the documented command prints them, and three families of public traces.
Sources of the public names: the READMEs of HeliosData, AcmeTrace and Alibaba's clusterdata (v2020, v2023).
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
TRES, GRES, NODES, STATE, JOB_ID = "tres", "gres", "nodes", "state", "job_id"

NAMES: Mapping[str, Sequence[str]] = {
    SUBMITTED: (
        SUBMITTED,
        "submitted",
        "submit_time",
        "submission_time",
        "submitted_time",
        "submit",
        "enqueued_at",
        "queued_at",
        "created_at",
        "created",
    ),
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
        "elapsedraw",
        "duration_ms",
        "runtime_ms",
    ),
    QUEUE: (QUEUE, "queue_name", "origin", "partition", "vc"),
    CPU: (
        CPU,
        "cpus",
        "cores",
        "num_cpus",
        "cpu_num",
        "num_cpu",
        "cpu_count",
        "num_cores",
        "n_cpus",
        "alloccpus",
        "ncpus",
        "reqcpus",
        "vcpus",
        "cpu_milli",
        "plan_cpu",
    ),
    MEMORY_GIB: (MEMORY_GIB,),
    MEMORY: (
        MEMORY,
        "mem",
        "memory_bytes",
        "memory_mib",
        "memory_mb",
        "memory_gb",
        "reqmem",
        "mem_per_pod_gb",
        "plan_mem",
    ),
    GPU: (GPU, "gpus", "gpu_milli", "num_gpus", "num_gpu", "gpu_num", "gpu_count", "n_gpus", "plan_gpu"),
    TASKS: (TASKS,),
    STATE: (STATE, "status", "job_state", "pod_phase"),
}
"""Recognized names of each field, the most exact one first; case is ignored, and `-` and a space count as `_`."""
UNITS_IN_NAMES = {"kib": "KiB", "kb": "KB", "mib": "MiB", "mb": "MB", "gib": "GiB", "gb": "GB", "plan_mem": "GB"}
"""The unit of plain numbers by the column's name, or by its last word; they are bytes otherwise."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The unit of a public trace's column: a cell divided by `parts`, times the cell of the column `times`."""

    parts: float = 1.0
    times: str = ""


_SCALES: Mapping[str, ColumnUnit] = {
    "cpu_milli": ColumnUnit(1000),
    "gpu_milli": ColumnUnit(1000, "num_gpu"),
    "mem_per_pod_gb": ColumnUnit(times="node_num"),
    "plan_cpu": ColumnUnit(100, "inst_num"),
    "plan_gpu": ColumnUnit(100, "inst_num"),
    "plan_mem": ColumnUnit(times="inst_num"),
}


class Export(StrEnum):
    TABLE = "a table"
    SACCT = "Slurm's sacct"
    FLOWER = "Celery Flower's tasks"
    RQ = "RQ jobs"
    CLUSTER_LOG = "a cluster log of Helios or Acme"
    OPENB = "Alibaba's openb pods"


_SACCT_ALONE = frozenset({"jobid", "alloctres", "reqtres", "alloccpus", "elapsedraw", "nnodes", "reqmem"})
_SIGNS: Sequence[tuple[Export, frozenset[str]]] = (
    (Export.FLOWER, frozenset({"uuid", "received", "routing_key"})),
    (Export.RQ, frozenset({"origin", "enqueued_at", "ended_at"})),
    (Export.CLUSTER_LOG, frozenset({"gpu_num", "vc"})),
    (Export.CLUSTER_LOG, frozenset({"gpu_num", "node_num", "submit_time"})),
    (Export.OPENB, frozenset({"gpu_milli", "creation_time", "deletion_time"})),
)
_OF_EXPORT: Mapping[Export, Mapping[str, Sequence[str]]] = {
    Export.SACCT: {
        JOB_ID: ("jobid",),
        TRES: ("alloctres", "reqtres"),
        GRES: ("allocgres", "reqgres"),
        CPU: ("alloccpus", "ncpus", "reqcpus"),
        NODES: ("nnodes", "allocnodes"),
    },
    Export.FLOWER: {SUBMITTED: ("sent", "received"), FINISHED: ("succeeded", "failed"), QUEUE: ("routing_key",)},
    Export.CLUSTER_LOG: {QUEUE: ("vc", "type")},  # their column `queue` is the wait in seconds
    Export.OPENB: {
        SUBMITTED: ("creation_time",),
        STARTED: ("scheduled_time",),
        FINISHED: ("deletion_time",),
        QUEUE: ("qos",),
    },
}
"""Fields with several columns: the first one with a value counts, row by row."""
_COUNTED = (
    r"(?:n|num|number|count|no|of|total|per|is|has|needs?|needed|uses?|wants?|with|req|requests?|requested|required|demand|alloc|allocs|allocated|plan|planned|"
    r"limits?|quota|amount|quantity|qty|cnt|cards?|slots?|jobs?|tasks?|nodes?|pods?|workers?|instances?|containers?|resources?|nvidiacom|amdcom|milli)*"
)
_AMOUNTS: Mapping[str, re.Pattern[str]] = {
    CPU: re.compile(rf"{_COUNTED}(?:(?:v?cpu|core|processor|tres)s?)+{_COUNTED}"),
    GPU: re.compile(rf"{_COUNTED}(?:gpu|accelerator|tres|gres)s?{_COUNTED}"),
}
_NO_AMOUNTS = frozenset({"totalcpu", "accelerator"})
"""The CPU time that a job of sacct used, and the name of a model."""
_HINTS: Mapping[str, re.Pattern[str]] = {
    CPU: re.compile("cpu|(?<!s)core|gpu|tres|gres|accel"),
    MEMORY: re.compile("mem|ram(?![a-z])|rss"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of each field that the file has."""

    export: Export
    of: Mapping[str, tuple[str, ...]]
    scales: Mapping[str, ColumnUnit]  # by column; `times` as the file spells it
    unused: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        factors = (scale.times for scale in self.scales.values() if scale.times)
        return tuple(dict.fromkeys([*(name for names in self.of.values() for name in names), *factors]))

    def renamed(self) -> Iterator[str]:
        """Yield `field=column` for the columns that are not named after their field."""
        return (f"{field}={names[0]}{self.scale(names[0])}" for field, names in self.of.items() if names[0] != field)

    def scale(self, column: str) -> str:
        """Return the arithmetic of a column, such as `/1000*num_gpu`; nothing for most."""
        scale = self.scales.get(column, ColumnUnit())
        return (f"/{scale.parts:g}" if scale.parts > 1 else "") + (f"*{scale.times}" if scale.times else "")

    def hints(self, field: str) -> tuple[str, ...]:
        """Return the unused columns that may say something about CPUs and GPUs (`cpu`), or about memory."""
        return tuple(name for name in self.unused if _HINTS[field].search(_word(name)))

    def unread_amounts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield CPU or GPU if no column of it was recognized, with the unused columns that may hold it."""
        for field, pattern in _AMOUNTS.items():
            if not self.of.keys() & ({field, TRES} | ({GRES} if field == GPU else set[str]())):
                names = tuple(name for name in self.unused if _is_amount(name, pattern))
                if names:
                    yield field, names


def columns_of(header: Sequence[str], stated: Mapping[str, str], filters: Sequence[str] = ()) -> Columns:
    """Find the column of each field; `stated` names some of them. A start is used with an end, or not at all.

    Columns in `filters` choose rows, so they do not count as unused.
    """
    by_word = {_word(name): name for name in reversed(header)}
    export = next((export for export, signs in _SIGNS if signs <= by_word.keys()), Export.TABLE)
    if "submit" in by_word and by_word.keys() & _SACCT_ALONE:
        export = Export.SACCT
    found: dict[str, tuple[str, ...]] = {}
    for field, words in NAMES.items():
        known = [by_word[word] for word in words if word in by_word]
        if known:
            found[field] = (known[0],)
    for field, words in _OF_EXPORT.get(export, {}).items():
        known = [by_word[word] for word in words if word in by_word]
        found[field] = tuple(known[:1] if export is Export.CLUSTER_LOG else known)
    found.update({field: (name,) for field, name in stated.items()})
    for exact, others in ((DURATION_S, (DURATION, STARTED, FINISHED)), (MEMORY_GIB, (MEMORY,))):
        unused = (exact,) if stated.keys() & {*others} else others if exact in found else ()
        for field in unused:
            found.pop(field, None)
    if DURATION in stated or not (STARTED in found and FINISHED in found):
        found.pop(STARTED, None)
        found.pop(FINISHED, None)
    of = {field: names for field, names in found.items() if names}
    used = {name for names in of.values() for name in names}
    scales = {
        name: ColumnUnit(scale.parts, by_word.get(scale.times, scale.times))
        for name in used
        if (scale := _SCALES.get(_word(name))) is not None
    }
    used.update((*(scale.times for scale in scales.values()), *filters))
    return Columns(export, of, scales, tuple(dict.fromkeys(name for name in header if name and name not in used)))


def missing_fields(columns: Columns) -> Iterator[str]:
    """Yield the required fields without a column."""
    yield from (field for field in (SUBMITTED, QUEUE) if field not in columns.of)
    if not {DURATION_S, DURATION, STARTED} & columns.of.keys():
        yield f"{DURATION_S} (or {STARTED} and {FINISHED})"
    if columns.export is Export.SACCT:
        if JOB_ID not in columns.of:
            yield "JobID (without it steps count as jobs)"
        if not {STATE, STARTED} & columns.of.keys():
            yield "State (without it, and without Start and End, jobs that have not ended count)"


def _word(name: str) -> str:
    return re.sub(r"[-\s]+", "_", name.strip().lower())


def _is_amount(name: str, pattern: re.Pattern[str]) -> bool:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters not in _NO_AMOUNTS and pattern.fullmatch(letters) is not None
