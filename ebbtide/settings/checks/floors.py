"""Floors of services against the rest of their scale and of the stack."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import combinations

from ebbtide.settings.checks.read import Read, Rule
from ebbtide.settings.file.keys import MONITORING
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.file.service_entries import SERVICES, VARIANTS
from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from ebbtide.settings.sections.serving.scale import EventSettings, FloorKind, ScaleSettings
from ebbtide.units.durations import format_duration

REMEMBERS = timedelta(days=8)
"""What a forecast asks of: this time of day, and an hour before it, on each of the last seven days."""


def _scales(read: Read) -> Iterator[tuple[Location, ScaleSettings]]:
    for name, service in read.stack.services.items():
        for variant, it in service.variants.items():
            yield (SERVICES, name, VARIANTS, variant, "scale"), it.scale


def _lie_between_min_and_max(read: Read) -> Iterator[Finding]:
    for at, scale in _scales(read):
        if scale.open is not None:
            yield from _lies_between((*at, "open"), "open", scale.open, scale)
        for index, night in enumerate(scale.overnight):
            yield from _lies_between((*at, "overnight", index, "min"), "a night's min", night.min, scale)
        for index, event in enumerate(scale.events):
            yield from _lies_between((*at, "events", index, "min"), "an event's min", event.min, scale)


def _lies_between(at: Location, key: str, pods: int, scale: ScaleSettings) -> Iterator[Finding]:
    if pods > scale.max:
        yield Finding(
            code="floor.above-max",
            at=at,
            wanted=f"at most max, which is {scale.max}",
            found=f"{pods}",
            example=f"{scale.max}",
        )
    elif pods <= scale.min:
        yield Finding(
            code="floor.within-min",
            at=at,
            wanted=f"{key} above min, which is {scale.min}: so many pods are there all the time",
            found=f"{pods}",
            example=f"{scale.min + 1}",
        )


def _events_are_apart(read: Read) -> Iterator[Finding]:
    for at, scale in _scales(read):
        yield from _overlaps(at, scale.events)


def _overlaps(at: Location, events: Sequence[EventSettings]) -> Iterator[Finding]:
    """Each that overlaps an earlier one, once: which number is meant could not be told."""
    by_time = sorted(enumerate(events), key=lambda item: (item[1].at, item[0]))
    told: set[int] = set()
    for (_, earlier), (index, later) in combinations(by_time, 2):
        if later.at < earlier.until and index not in told:
            told.add(index)
            yield Finding(
                code="floor.events-overlap",
                at=(*at, "events", index, "at"),
                wanted="events one after the other",
                found=f"{later.at:%Y-%m-%dT%H:%M}, while the one of {earlier.at:%Y-%m-%dT%H:%M} lasts until "
                f"{earlier.until:%Y-%m-%dT%H:%M}",
                example=f'"{earlier.until:%Y-%m-%dT%H:%M}"',
            )


def _forecasts_have_a_memory(read: Read) -> Iterator[Finding]:
    for at, scale in _scales(read):
        if scale.floor is FloorKind.FORECAST:
            yield from _has_a_memory((*at, "floor"), read.stack.monitoring)


def _has_a_memory(at: Location, monitoring: MonitoringSettings) -> Iterator[Finding]:
    if monitoring.prometheus is PrometheusKind.NONE:
        yield Finding(
            code="floor.no-prometheus",
            at=at,
            wanted="a Prometheus of this stack, whose rules make the forecast, or floor: calendar",
            found="ebbtide:monitoring without one",
            example="ebbtide:monitoring: { prometheus: bundled }",
        )
    elif monitoring.prometheus is PrometheusKind.BUNDLED and monitoring.kept_for < REMEMBERS:
        yield Finding(
            code="floor.short-memory",
            at=at,
            wanted=f"monitoring.retention of {REMEMBERS.days}d or more: a forecast is of the last seven days",
            found=format_duration(monitoring.kept_for),
            example="retention: 30d",
        )


RULES = (
    Rule((SERVICES,), _lie_between_min_and_max),
    Rule((SERVICES,), _events_are_apart),
    Rule((SERVICES, MONITORING), _forecasts_have_a_memory),
)
