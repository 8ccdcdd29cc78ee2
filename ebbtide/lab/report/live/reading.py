"""Read the recorded values of a stack from Prometheus.

**Calm is not a gap**: without an open budget or an eviction there is no series. So such a query has a second half, a
series without a label that is 0 where the exporter or controller could see, and -1 where it could not. Of waits each
pool has such a series.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ebbtide.lab.report.live.record import Band, Part, Record, ResourceSeries, Values
from ebbtide.lab.simulator.billing import open_spans
from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.monitoring.history import TimeRange, history
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import Metrics
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import format_duration

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
    ends: TimeRange  # of the steps

    def by(
        self, label: str, series: Recorded, *, zero: str = "", zero_by: str = "", over: str = "avg", unit: float = 1.0
    ) -> Part:
        """Read a series by label. In recorded steps a name without a value is 0.

        `zero`: an expression without labels that is 0 in recorded steps. `zero_by`: one with the label instead, 0 where
        a name is known to have no value, -1 where its value is unknown, which it then stays.
        """
        per_step = f"{over}_over_time({series.of(self.of.customer)}[{self.span}])"
        expression = f"sum by ({label}) ({per_step})" if label else f"sum({per_step})"
        query = f"{expression} or {zero or zero_by}" if zero or zero_by else expression
        found = history(self.prometheus, query, self.ends, by=(label,), called=series)
        if isinstance(found, UnknownAnswer):
            return found
        by_name = {
            name: [value / unit if value is not None and value >= 0 else None for value in self.ends.values(points)]
            for (name,), points in found.items()
        }
        recorded = [any(value is not None for value in step) for step in zip(*by_name.values(), strict=True)]
        if not any(recorded):
            return UnknownAnswer(f"{self.prometheus.where} has nothing for {series.value}")
        if zero_by:
            answered = tuple(any(at in points for points in found.values()) for at in self.ends.instants)
            return Band(values={name: tuple(values) for name, values in by_name.items()}, recorded=answered)
        if zero and not any(by_name.get("", ())):
            by_name.pop("", None)
        named = {name or _UNNAMED.get(label, "all"): values for name, values in by_name.items()}
        return Band(
            values={name: _filled(values, recorded) for name, values in named.items()}, recorded=tuple(recorded)
        )

    def single(self, series: Mapping[str, Recorded]) -> Part:
        """Read series without labels as one band; unknown if any of them is."""
        parts: dict[str, Band] = {}
        for name, entry in series.items():
            part = self.by("", entry)
            if isinstance(part, UnknownAnswer):
                return part
            parts[name] = part
        recorded = [any(step) for step in zip(*(part.recorded for part in parts.values()), strict=True)]
        return Band(values={name: part.total for name, part in parts.items()}, recorded=tuple(recorded))

    def resource(self, paid: Recorded, requested: Recorded, used: Recorded, unit: float = 1.0) -> ResourceSeries:
        return ResourceSeries(
            paid=self.by("group", paid, unit=unit),
            requested=self.by("workload", requested, unit=unit),
            used=self.by("workload", used, unit=unit),
        )

    @property
    def span(self) -> str:
        return format_duration(self.ends.step)

    def zero_of(self, metric: str, **labels: str) -> str:
        """Return an expression that is 0 where the metric exists."""
        return f"(0 * max(max_over_time({self.of(metric, **labels)}[{self.span}])))"

    def zero_of_exporter(self, kind: str) -> str:
        return f"(max(min_over_time({self.of('exporter_sees', what=kind)}[{self.span}])) - 1)"


def read_record(prometheus: Prometheus, settings: StackSettings, since: timedelta, until: datetime) -> Record:
    """Read full steps before `until`, an instant in the customer's zone."""
    step = step_of(since)
    steps = max(1, int(since / step))
    start = (until.astimezone(UTC) - steps * step).astimezone(until.tzinfo)
    ends = TimeRange(since=start.astimezone(UTC) + step, until=until, step=step)
    asking = _Asking(prometheus, Metrics(settings.customer), ends)
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
        waits=asking.by("pool", Recorded.WAITS, over="max", zero_by=asking.of.without_waits(asking.span)),
        budgets=asking.by("reason", Recorded.BUDGETS_OPEN, zero=asking.zero_of("budget_max_unavailable")),
        evictions=asking.by("workload", Recorded.EVICTIONS, zero=asking.zero_of_exporter("pods")),
        unremovable=asking.by("reason", Recorded.UNREMOVABLE),
    )


def _gpus(asking: _Asking, settings: StackSettings) -> ResourceSeries | None:
    """Read GPUs: without GPU nodes there are no series, and steps without paid GPUs have no used ones."""
    nodes = f"(0 * max(max_over_time({Recorded.NODES.of(settings.customer)}[{asking.span}])))"
    paid = asking.by("group", Recorded.PAID_GPUS, zero=nodes)
    requested = asking.by("workload", Recorded.REQUESTED_GPUS, zero=asking.zero_of_exporter("pods"))
    used = asking.by("workload", Recorded.USED_GPUS)
    requests_gpus = any(declared.pod.gpu.count for declared in declared_pods(settings))
    if not requests_gpus and (isinstance(paid, UnknownAnswer) or not paid.values):
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
    return ResourceSeries(paid=paid, requested=requested, used=used)


def _filled(values: list[float | None], recorded: list[bool]) -> Values:
    """Set a name without a value to 0 in recorded steps."""
    return tuple((value or 0.0) if is_recorded else None for value, is_recorded in zip(values, recorded, strict=True))
