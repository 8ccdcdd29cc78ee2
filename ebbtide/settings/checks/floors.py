"""Floors of services against the rest of their scale and of the stack, as far as they can be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

from ebbtide.settings.file.pod_entries import raw_pods
from ebbtide.settings.file.problems import Finding, Location, value_at
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.sections.checked import readable, readable_items
from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from ebbtide.settings.sections.serving.scale import EventSettings, FloorKind, NightSettings, ScaleSettings
from ebbtide.units.durations import format_duration

REMEMBERS = timedelta(days=8)
"""What a forecast asks of: this time of day, and an hour before it, on each of the last seven days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorDraft:
    """The floor of one variant. None: it could not be read, or is not given."""

    at: Location  # of the scale
    kind: FloorKind | None
    least: int | None
    most: int | None
    during: int | None  # `open`
    overnight: Mapping[int, NightSettings]  # by position, as the events
    events: Mapping[int, EventSettings]
    retention: timedelta | None

    def findings(self, monitoring: PrometheusKind | None) -> Iterator[Finding]:
        if self.during is not None:
            yield from self._lies_between((*self.at, "open"), "open", self.during)
        for index, night in self.overnight.items():
            yield from self._lies_between((*self.at, "overnight", index, "min"), "a night's min", night.min)
        for index, event in self.events.items():
            yield from self._lies_between((*self.at, "events", index, "min"), "an event's min", event.min)
        yield from self._events_are_apart()
        if self.kind is FloorKind.FORECAST:
            yield from self._has_a_memory(monitoring)

    def _has_a_memory(self, monitoring: PrometheusKind | None) -> Iterator[Finding]:
        if monitoring is PrometheusKind.NONE:
            yield Finding(
                code="floor.no-prometheus",
                at=(*self.at, "floor"),
                wanted="a Prometheus of this stack, whose rules make the forecast, or floor: calendar",
                found="ebbtide:monitoring without one",
                example="ebbtide:monitoring: { prometheus: bundled }",
            )
        elif monitoring is PrometheusKind.BUNDLED and self.retention is not None and self.retention < REMEMBERS:
            yield Finding(
                code="floor.short-memory",
                at=(*self.at, "floor"),
                wanted=f"monitoring.retention of {REMEMBERS.days}d or more: a forecast is of the last seven days",
                found=format_duration(self.retention),
                example="retention: 30d",
            )

    def _lies_between(self, at: Location, key: str, pods: int) -> Iterator[Finding]:
        if self.most is not None and pods > self.most:
            yield Finding(
                code="floor.above-max",
                at=at,
                wanted=f"at most max, which is {self.most}",
                found=f"{pods}",
                example=f"{self.most}",
            )
        elif self.least is not None and pods <= self.least:
            yield Finding(
                code="floor.within-min",
                at=at,
                wanted=f"{key} above min, which is {self.least}: so many pods are there all the time",
                found=f"{pods}",
                example=f"{self.least + 1}",
            )

    def _events_are_apart(self) -> Iterator[Finding]:
        """Each that overlaps an earlier one, once: which number is meant could not be told."""
        by_time = sorted(self.events.items(), key=lambda item: (item[1].at, item[0]))
        told: set[int] = set()
        for (_, earlier), (index, later) in combinations(by_time, 2):
            if later.at < earlier.until and index not in told:
                told.add(index)
                yield Finding(
                    code="floor.events-overlap",
                    at=(*self.at, "events", index, "at"),
                    wanted="events one after the other",
                    found=f"{later.at:%Y-%m-%dT%H:%M}, while the one of {earlier.at:%Y-%m-%dT%H:%M} lasts until "
                    f"{earlier.until:%Y-%m-%dT%H:%M}",
                    example=f'"{earlier.until:%Y-%m-%dT%H:%M}"',
                )


def floor_drafts(config: Mapping[str, object]) -> Iterator[FloorDraft]:
    retention = readable(MonitoringSettings, config.get("ebbtide:monitoring", {})).get("retention")
    for pod in raw_pods(config, (SERVICES,)):
        raw = value_at(pod.raw, ("scale",))
        read = readable(ScaleSettings, raw)
        yield FloorDraft(
            at=(*pod.at, "scale"),
            kind=read.get("floor"),
            least=read.get("min"),
            most=read.get("max"),
            during=read.get("open"),
            overnight=readable_items(ScaleSettings, "overnight", value_at(raw, ("overnight",))),
            events=readable_items(ScaleSettings, "events", value_at(raw, ("events",))),
            retention=retention,
        )
