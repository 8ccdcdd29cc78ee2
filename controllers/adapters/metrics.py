"""What Prometheus is told, in its text format 0.0.4; the client library would cost more memory than these lines.

A value that is not known is left out, never told as 0: an alert on "no demand" must not fire because Redis is away.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

from controllers.ports import Known, PoolName, ReconcileReport, Untrusted

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_PARTS = ("waiting", "in_transit", "running", "stale", "due_soon")
Sample: TypeAlias = tuple[Mapping[str, str], float | None]


class Meter:
    """Keeps the last report of the process that acts, and adds up what one report cannot say."""

    def __init__(self) -> None:
        self.report: ReconcileReport | None = None  # None: this process does not act
        self._known_at: dict[PoolName, datetime] = {}
        self._worker_hours: dict[PoolName, float] = {}
        self._reconciles, self._reconcile_seconds = 0, 0.0

    def reconciled(self, report: ReconcileReport) -> None:
        if (before := self.report) is not None:
            hours = max(0.0, (report.at - before.at).total_seconds() / 3600)
            for pool in before.pools:
                so_far = self._worker_hours.get(pool.name, 0.0)
                self._worker_hours[pool.name] = so_far + hours * (pool.running + pool.terminating + pool.unreachable)
        self._known_at |= {pool.name: report.at for pool in report.pools if isinstance(pool.reading, Known)}
        self.report = report

    def timed(self, seconds: float) -> None:
        self._reconciles, self._reconcile_seconds = self._reconciles + 1, self._reconcile_seconds + seconds

    def readings(self, now: datetime) -> dict[PoolName, tuple[str, float | None]]:
        """How each pool's queues were last read, and the seconds since they were last known (None: never)."""
        pools = self.report.pools if self.report else ()
        ages = {name: (now - at).total_seconds() for name, at in self._known_at.items()}
        return {pool.name: (pool.reading.kind, ages.get(pool.name)) for pool in pools}

    def text(self, now: datetime) -> str:
        readings = self.readings(now).items()
        ages = _by("pool", [(name, age) for name, (_, age) in readings])
        families = [
            family("worker_hours_total", "of pods that ran or were ending", _by("pool", self._worker_hours.items())),
            family("reconciles_total", "reconciles of all objects", [({}, self._reconciles)]),
            family("reconcile_seconds_total", "time spent in reconciles", [({}, self._reconcile_seconds)]),
            family("pool_reading", "how read", [({"pool": name, "state": state}, 1) for name, (state, _) in readings]),
            family("pool_reading_age_seconds", "since the queues were last known", ages),
        ]
        return "".join([*families, *(_of(self.report) if self.report else ())])


def family(name: str, meaning: str, samples: Iterable[Sample]) -> str:
    """All samples of one name; nothing at all where nothing is known."""
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"ebbtide_{name}{_labels(labels)} {float(value)!r}\n" for labels, value in samples if value is not None]
    return f"# HELP ebbtide_{name} {meaning}\n# TYPE ebbtide_{name} {kind}\n{''.join(lines)}" if lines else ""


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _by(label: str, values: Iterable[tuple[str, float | None]]) -> list[Sample]:
    return [({label: name}, value) for name, value in values]


def _of(report: ReconcileReport) -> Iterator[str]:
    until = report.window_until.timestamp() if report.window_until else None
    yield family("window_open", "whether flexible pods may be moved", [({}, report.window_open)])
    yield family("window_next_change_timestamp_seconds", "when it opens or closes", [({}, until)])
    yield family("last_reconcile_timestamp_seconds", "when the last reconcile was", [({}, report.at.timestamp())])
    yield family("troubles", "conditions that concern no single object", [({}, len(report.trouble))])
    for kind, things in (("pool", report.pools), ("budget", report.budgets)):
        reasons = [({kind: thing.name, "reason": thing.reason}, 1) for thing in things]
        yield family(f"{kind}_reason", f"why the {kind} gets what it gets", reasons)
    for name in ("max_unavailable", "wanted", "settled"):
        values = _by("budget", [(budget.name, getattr(budget, name)) for budget in report.budgets])
        yield family(f"budget_{name}", f"{name} of a flexible workload's budget", values)
    for name in ("workers", "wanted", "floor", "pending", "running", "terminating", "failing", "unreachable", "idle"):
        values = _by("pool", [(pool.name, getattr(pool, name)) for pool in report.pools])
        yield family(f"pool_{name}", f"{name}: worker pods of a pool", values)
    seen = [(it.name, it.reading.seen if isinstance(it.reading, Untrusted) else it.reading) for it in report.pools]
    seen = [(name, known) for name, known in seen if isinstance(known, Known)]
    jobs = [({"pool": name, "part": part}, getattr(known, part)) for name, known in seen for part in _PARTS]
    yield family("pool_jobs", "jobs of a pool's queues by part", jobs)
    waits = [(name, known.oldest_wait.total_seconds()) for name, known in seen if known.oldest_wait is not None]
    yield family("pool_oldest_wait_seconds", "how long the head of the queue has waited", _by("pool", waits))
    unused = [(name, not known.seen_before) for name, known in seen]
    yield family("pool_never_seen", "1 if these queues were never used", _by("pool", unused))
