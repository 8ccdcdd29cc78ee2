"""Asks Prometheus for what it recorded of a stack.

**Nothing is no gap where all is calm**: without an open budget or an eviction there is no series. So each such question
has a second half, a series without a label that is 0 where somebody looked and -1 where nobody could.
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

    def by(self, label: str, series: Recorded, *, seen: str = "", over: str = "avg", unit: float = 1.0) -> Part:
        """`seen`: an expression that is 0 where somebody looked."""
        each = f"{over}_over_time({series.of(self.of.customer)}[{self.span}])"
        expression = f"sum by ({label}) ({each})" if label else f"sum({each})"
        asked = f"{expression} or {seen}" if seen else expression
        course = self.prometheus.over(asked, self.start + self.step, self.step, stands_on=(), called=series)
        if isinstance(course, Unknown):
            return course
        found: dict[str, list[float | None]] = {}
        looked = [False] * self.steps
        for one in course:
            values = found.setdefault(one.labels.get(label, ""), [None] * self.steps)
            for at, value in one.points:
                place = round((at - self.start) / self.step) - 1
                if 0 <= place < self.steps and value >= 0:
                    values[place], looked[place] = value / unit, True
        if not any(looked):
            return Unknown(f"{self.prometheus.where} has nothing for {series.value}")
        if seen and not any(found.get("", ())):
            found.pop("", None)
        named = {name or _UNNAMED.get(label, "all"): values for name, values in found.items()}
        return Band(values={name: _filled(values, looked) for name, values in named.items()}, seen=tuple(looked))

    def single(self, series: Mapping[str, Recorded]) -> Part:
        """Some that have no label, as one band; unknown where any is."""
        values: dict[str, Values] = {}
        looked = [False] * self.steps
        for name, one in series.items():
            part = self.by("", one)
            if isinstance(part, Unknown):
                return part
            values[name] = part.total
            looked = [before or now for before, now in zip(looked, part.seen, strict=True)]
        return Band(values=values, seen=tuple(looked))

    def resource(self, paid: Recorded, requested: Recorded, used: Recorded, unit: float = 1.0) -> Resource:
        return Resource(
            paid=self.by("group", paid, unit=unit),
            requested=self.by("workload", requested, unit=unit),
            used=self.by("workload", used, unit=unit),
        )

    @property
    def span(self) -> str:
        return format_duration(self.step)

    def looked_at(self, metric: str, **labels: str) -> str:
        """0 where the metric is there."""
        return f"(0 * max(max_over_time({self.of(metric, **labels)}[{self.span}])))"

    def seen_by_the_exporter(self, what: str) -> str:
        return f"(max(min_over_time({self.of('exporter_sees', what=what)}[{self.span}])) - 1)"


def read_record(prometheus: Prometheus, settings: StackSettings, since: timedelta, until: datetime) -> Record:
    """Of whole steps before `until`, an instant in the customer's zone."""
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
        waits=asking.by("pool", Recorded.WAITS, over="max", seen=asking.looked_at("pool_jobs")),
        budgets=asking.by("reason", Recorded.BUDGETS_OPEN, seen=asking.looked_at("budget_max_unavailable")),
        evictions=asking.by("workload", Recorded.EVICTIONS, seen=asking.seen_by_the_exporter("pods")),
        unremovable=asking.by("reason", Recorded.UNREMOVABLE),
    )


def _gpus(asking: _Asking, settings: StackSettings) -> Resource | None:
    """Without nodes that have GPUs there are no series, and where none was paid for none was used."""
    nodes = f"(0 * max(max_over_time({Recorded.NODES.of(settings.customer)}[{asking.span}])))"
    paid = asking.by("group", Recorded.PAID_GPUS, seen=nodes)
    requested = asking.by("workload", Recorded.REQUESTED_GPUS, seen=asking.seen_by_the_exporter("pods"))
    used = asking.by("workload", Recorded.USED_GPUS)
    wanted = any(entry.pod.gpu.count for entry in every_pod(settings))
    if not wanted and (isinstance(paid, Unknown) or not paid.values):
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
            seen=tuple(seen or none for seen, none in zip(used.seen, none_there, strict=True)),
        )
    return Resource(paid=paid, requested=requested, used=used)


def _filled(values: list[float | None], looked: list[bool]) -> Values:
    """A name that is not among those seen in a step had nothing then."""
    return tuple((value or 0.0) if seen else None for value, seen in zip(values, looked, strict=True))
