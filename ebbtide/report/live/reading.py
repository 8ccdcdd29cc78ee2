"""Read the recorded values of a stack from Prometheus.

**Calm is not a gap**: without an open budget or an eviction there is no series. So such a query has a second half, a
series without a label that is 0 where the exporter or controller could see, and -1 where it could not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ebbtide.monitoring.client import Prometheus, Unknown
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import Metrics
from ebbtide.report.live.record import Band, Part, Record, Resource, Values
from ebbtide.settings.model import StackSettings
from ebbtide.settings.pods import every_pod
from ebbtide.simulator.billing import open_spans
from ebbtide.units.durations import format_duration

_LEAST_STEP = timedelta(minutes=2)  # holds two samples of a rule that is evaluated each minute
_STEPS = 720  # about what a picture can show
_GIB = 2.0**30
_UNNAMED = {"group": "no group", "workload": "other pods", "reason": "no reason"}


def step_of(since: timedelta) -> timedelta:
    """Whole minutes."""
    return max(_LEAST_STEP, timedelta(minutes=math.ceil(since / _STEPS / timedelta(minutes=1))))


@dataclass(frozen=True, slots=True)
class _Asking:
    prometheus: Prometheus
    of: Metrics
    start: datetime
    step: timedelta
    steps: int

    def by(self, label: str, series: Recorded, *, zero: str = "", over: str = "avg", unit: float = 1.0) -> Part:
        """Read a series by label; `zero` is an expression that is 0 in recorded steps."""
        per_step = f"{over}_over_time({series.of(self.of.customer)}[{self.span}])"
        expression = f"sum by ({label}) ({per_step})" if label else f"sum({per_step})"
        query = f"{expression} or {zero}" if zero else expression
        course = self.prometheus.over(query, self.start + self.step, self.step, stands_on=(), called=series)
        if isinstance(course, Unknown):
            return course
        by_name: dict[str, list[float | None]] = {}
        recorded = [False] * self.steps
        for line in course:
            values = by_name.setdefault(line.labels.get(label, ""), [None] * self.steps)
            for at, value in line.points:
                place = round((at - self.start) / self.step) - 1
                if 0 <= place < self.steps and value >= 0:
                    values[place], recorded[place] = value / unit, True
        if not any(recorded):
            return Unknown(f"{self.prometheus.where} has nothing for {series.value}")
        if zero and not any(by_name.get("", ())):
            by_name.pop("", None)
        named = {name or _UNNAMED.get(label, "all"): values for name, values in by_name.items()}
        return Band(
            values={name: _filled(values, recorded) for name, values in named.items()}, recorded=tuple(recorded)
        )

    def single(self, series: Mapping[str, Recorded]) -> Part:
        """Read series without labels as one band; unknown if any of them is."""
        values: dict[str, Values] = {}
        recorded = [False] * self.steps
        for name, entry in series.items():
            part = self.by("", entry)
            if isinstance(part, Unknown):
                return part
            values[name] = part.total
            recorded = [before or now for before, now in zip(recorded, part.recorded, strict=True)]
        return Band(values=values, recorded=tuple(recorded))

    def resource(self, paid: Recorded, requested: Recorded, used: Recorded, unit: float = 1.0) -> Resource:
        return Resource(
            paid=self.by("group", paid, unit=unit),
            requested=self.by("workload", requested, unit=unit),
            used=self.by("workload", used, unit=unit),
        )

    @property
    def span(self) -> str:
        return format_duration(self.step)

    def zero_of(self, metric: str, **labels: str) -> str:
        """Return an expression that is 0 where the metric exists."""
        return f"(0 * max(max_over_time({self.of(metric, **labels)}[{self.span}])))"

    def zero_of_exporter(self, kind: str) -> str:
        return f"(max(min_over_time({self.of('exporter_sees', what=kind)}[{self.span}])) - 1)"


def read_record(prometheus: Prometheus, settings: StackSettings, since: timedelta, until: datetime) -> Record:
    """Read full steps before `until`, an instant in the customer's zone."""
    step = step_of(since)
    steps = max(1, int(since / step))
    start = until - steps * step
    asking = _Asking(prometheus, Metrics(settings.customer), start, step, steps)
    hours = settings.business_hours.hours(range(start.year, until.year + 1))
    return Record(
        customer=settings.customer,
        source=prometheus.where,
        start=start,
        step=step.total_seconds(),
        steps=steps,
        open_spans=open_spans(hours, start, (steps * step).total_seconds()),
        nodes=asking.by("group", Recorded.NODES),
        dollars=asking.by("group", Recorded.DOLLARS),
        cpu=asking.resource(Recorded.PAID_CPU, Recorded.REQUESTED_CPU, Recorded.USED_CPU),
        memory=asking.resource(Recorded.PAID_MEMORY, Recorded.REQUESTED_MEMORY, Recorded.USED_MEMORY, _GIB),
        gpus=_gpus(asking, settings),
        workers=asking.single({"running": Recorded.WORKERS_RUNNING, "wanted": Recorded.WORKERS_WANTED}),
        jobs=asking.by("part", Recorded.JOBS),
        waits=asking.by("pool", Recorded.WAITS, over="max", zero=asking.zero_of("pool_jobs")),
        budgets=asking.by("reason", Recorded.BUDGETS_OPEN, zero=asking.zero_of("budget_max_unavailable")),
        evictions=asking.by("workload", Recorded.EVICTIONS, zero=asking.zero_of_exporter("pods")),
        unremovable=asking.by("reason", Recorded.UNREMOVABLE),
    )


def _gpus(asking: _Asking, settings: StackSettings) -> Resource | None:
    """Read GPUs: without GPU nodes there are no series, and steps without paid GPUs have no used ones."""
    nodes = f"(0 * max(max_over_time({Recorded.NODES.of(settings.customer)}[{asking.span}])))"
    paid = asking.by("group", Recorded.PAID_GPUS, zero=nodes)
    requested = asking.by("workload", Recorded.REQUESTED_GPUS, zero=asking.zero_of_exporter("pods"))
    used = asking.by("workload", Recorded.USED_GPUS)
    requests_gpus = any(entry.pod.gpu.count for entry in every_pod(settings))
    if not requests_gpus and (isinstance(paid, Unknown) or not paid.values):
        return None
    if isinstance(paid, Band) and isinstance(used, Band):
        none_there = [total == 0 for total in paid.total]
        used = Band(
            values={
                name: tuple(
                    0.0 if none and value is None else value for none, value in zip(none_there, values, strict=True)
                )
                for name, values in used.values.items()
            },
            recorded=tuple(is_recorded or none for is_recorded, none in zip(used.recorded, none_there, strict=True)),
        )
    return Resource(paid=paid, requested=requested, used=used)


def _filled(values: list[float | None], recorded: list[bool]) -> Values:
    """Set a name without a value to 0 in recorded steps."""
    return tuple((value or 0.0) if is_recorded else None for value, is_recorded in zip(values, recorded, strict=True))
