"""Metrics of the scaler in Prometheus' text format 0.0.4. The client library would cost more memory than this module.

An unknown value is omitted, never reported as 0: an alert on "no demand" must not fire because Redis is unavailable.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from controllers.ports import Known, PoolName, ReconcileReport, Untrusted

if TYPE_CHECKING:
    from controllers.adapters.broker_demand import BrokerDemand

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_PARTS = ("waiting", "in_transit", "running", "stale", "due_soon")
_BUDGET = {
    "max_unavailable": "maxUnavailable of a flexible workload's budget",
    "wanted": "maxUnavailable that the controller wants",
    "settled": "1 if the budget and its status match the last decision",
}
_POOL = {
    "workers": "Replicas of the pool's Deployment",
    "wanted": "Replicas that the controller wants",
    "floor": "Planned minimum of replicas",
    "pending": "Worker pods without a node or still starting",
    "running": "Running worker pods",
    "terminating": "Terminating worker pods",
    "failing": "Worker pods that crash in a loop or cannot pull their image",
    "unreachable": "Worker pods on unreachable nodes",
    "idle": "Running worker pods without a job",
}
Sample: TypeAlias = tuple[Mapping[str, str], float | None]


class Meter:
    """Stores the leader's last report, and accumulates the counters."""

    def __init__(self) -> None:
        self.report: ReconcileReport | None = None  # None: this process is not the leader
        self._known_at: dict[PoolName, datetime] = {}
        self._worker_hours: dict[PoolName, float] = {}
        self._reconciles, self._reconcile_seconds = 0, 0.0

    def reconciled(self, report: ReconcileReport) -> None:
        if (previous := self.report) is not None:
            hours = max(0.0, (report.at - previous.at).total_seconds() / 3600)
            for pool in previous.pools:
                so_far = self._worker_hours.get(pool.name, 0.0)
                self._worker_hours[pool.name] = so_far + hours * (pool.running + pool.terminating + pool.unreachable)
        self._known_at |= {pool.name: report.at for pool in report.pools if isinstance(pool.reading, Known)}
        self.report = report

    def timed(self, seconds: float) -> None:
        self._reconciles, self._reconcile_seconds = self._reconciles + 1, self._reconcile_seconds + seconds

    def readings(self, now: datetime) -> dict[PoolName, tuple[str, float | None]]:
        """Return the state of each pool's last reading, and the seconds since the last known one (None: never)."""
        pools = self.report.pools if self.report else ()
        ages = {name: (now - at).total_seconds() for name, at in self._known_at.items()}
        return {pool.name: (pool.reading.kind, ages.get(pool.name)) for pool in pools}

    def text(self, now: datetime) -> str:
        readings = self.readings(now).items()
        ages = _by("pool", [(name, age) for name, (_, age) in readings])
        states = [({"pool": name, "state": state}, 1) for name, (state, _) in readings]
        families = [
            family(
                "worker_hours_total",
                "Cumulative worker pod-hours, including terminating pods",
                _by("pool", self._worker_hours.items()),
            ),
            family("reconciles_total", "Reconciliations", [({}, self._reconciles)]),
            family(
                "reconcile_seconds_total", "Cumulative duration of reconciliations", [({}, self._reconcile_seconds)]
            ),
            family("pool_reading", "State of the last queue reading (known, unknown, untrusted)", states),
            family("pool_reading_age_seconds", "Time since the last known queue reading", ages),
        ]
        return "".join([*families, *(_report_families(self.report) if self.report else ())])


def family(name: str, meaning: str, samples: Iterable[Sample]) -> str:
    """Render all samples of one metric; empty if no value is known."""
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"ebbtide_{name}{_labels(labels)} {float(value)!r}\n" for labels, value in samples if value is not None]
    return f"# HELP ebbtide_{name} {meaning}\n# TYPE ebbtide_{name} {kind}\n{''.join(lines)}" if lines else ""


def broker_families(brokers: "Sequence[BrokerDemand]") -> Iterator[str]:
    ages = _by("broker", [(broker.name, broker.answer_age) for broker in brokers])
    yield family("broker_answer_age_seconds", "Time since the broker last answered for each of its queues", ages)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _by(label: str, values: Iterable[tuple[str, float | None]]) -> list[Sample]:
    return [({label: name}, value) for name, value in values]


def _report_families(report: ReconcileReport) -> Iterator[str]:
    until = report.window_until.timestamp() if report.window_until else None
    yield family("window_open", "1 if the disruption window is open", [({}, report.window_open)])
    yield family(
        "window_next_change_timestamp_seconds",
        "Time at which the disruption window opens or closes next",
        [({}, until)],
    )
    yield family("last_reconcile_timestamp_seconds", "Time of the last reconciliation", [({}, report.at.timestamp())])
    yield family("troubles", "Active conditions that concern no single object", [({}, len(report.trouble))])
    for kind, things in (("pool", report.pools), ("budget", report.budgets)):
        reasons = [({kind: thing.name, "reason": thing.reason}, 1) for thing in things]
        yield family(f"{kind}_reason", f"Reason of the last decision for the {kind}", reasons)
    for name, meaning in _BUDGET.items():
        values = _by("budget", [(budget.name, getattr(budget, name)) for budget in report.budgets])
        yield family(f"budget_{name}", meaning, values)
    for name, meaning in _POOL.items():
        values = _by("pool", [(pool.name, getattr(pool, name)) for pool in report.pools])
        yield family(f"pool_{name}", meaning, values)
    readings = [
        (pool.name, pool.reading.seen if isinstance(pool.reading, Untrusted) else pool.reading) for pool in report.pools
    ]
    counted = [(name, reading) for name, reading in readings if isinstance(reading, Known)]
    jobs = [({"pool": name, "part": part}, getattr(counts, part)) for name, counts in counted for part in _PARTS]
    yield family("pool_jobs", "Jobs in the queues of a pool", jobs)
    waits = [(name, wait.total_seconds()) for name, counts in counted if (wait := counts.oldest_wait) is not None]
    yield family("pool_oldest_wait_seconds", "Wait of the oldest job in the queues of a pool", _by("pool", waits))
    unused = [(name, not counts.seen_before) for name, counts in counted]
    yield family("pool_never_seen", "1 if the queues of the pool were never used", _by("pool", unused))
