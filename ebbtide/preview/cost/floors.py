"""The minimum number of each pod through a year: a base, and the times at which the calendar requires more.

Business hours and planned nights wake what sleeps, and raise the minimum of services and pools. What sleeps when idle
counts as idle. An own autoscaler (`replicasOwner: hpa`) starts at `replicas`, which counts as its minimum.

The rules are the controllers' own (`controllers.workloads.sleep.calendar`, `controllers.workloads.floors.calendar`,
`controllers.scaler.workers.floors`), written as spans: asking the controllers about each change of a year takes too
long for hundreds of stacks. A property test compares both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from ebbtide.settings.capacity.placed import PlacedPod
from ebbtide.settings.capacity.process_documents import floors_of, sleepers_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.never_asleep import awake_spans
from ebbtide.settings.sections.ray import RayPod
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.durations import ONE_DAY
from ebbtide.vocabulary.windows import BusinessHours, Span, wall_to_instant
from ebbtide.vocabulary.workloads import FloorPolicy, SleepPolicy, SleepWhen, Wake

_MARGIN = 2 * ONE_DAY
"""Floors that begin this long before the year may reach into it, and a lead may begin in it."""


class Raised(NamedTuple):
    """A time at which the calendar requires at least `pods` pods."""

    start: datetime
    end: datetime
    pods: int


class Floor(NamedTuple):
    least: int
    raised: tuple[Raised, ...] = ()


def local_year(hours: BusinessHours, year: int) -> Span:
    """Return the year in the time zone of the hours."""
    start, end = (datetime(number, 1, 1, tzinfo=UTC).date() for number in (year, year + 1))
    return Span(*(wall_to_instant(hours.timezone, day, 0, last=False) for day in (start, end)))


@dataclass(frozen=True)
class Calendar:
    """The calendar of a stack in one year. Adopted pools are among its workers."""

    stack: StackSettings
    year: int

    @cached_property
    def hours(self) -> BusinessHours:
        return self.stack.business_hours.hours((self.year,))

    @cached_property
    def span(self) -> Span:
        return local_year(self.hours, self.year)

    def floor(self, pod: PlacedPod) -> Floor:
        match pod.pod:
            case WorkloadSettings() if pod.name in self._planned:
                policy = self._planned[pod.name]
                return Floor(policy.least, tuple(self._of_service(policy)))
            case WorkloadSettings() if pod.name in self._sleepers:
                policy = self._sleepers[pod.name]
                awake = awake_spans(policy, self.hours, self._begin, self._end - self._begin)
                return Floor(policy.asleep, tuple(Raised(span.start, span.end, policy.replicas) for span in awake))
            case ServedWorkload():
                return Floor(self._scale_min[pod.name])
            case WorkloadSettings():
                return Floor(pod.pod.replicas)
            case WorkerSettings():
                return Floor(pod.least, tuple(self._of_pool(pod.name, pod.pod)))
            case RayPod():
                return self._of_ray(str(pod.at[1]), pod.least)
            case _:
                return Floor(pod.least)

    @cached_property
    def _planned(self) -> Mapping[str, FloorPolicy]:
        return {policy.name: policy for policy in floors_of(self.stack)}

    @cached_property
    def _sleepers(self) -> Mapping[str, SleepPolicy]:
        return {policy.name: policy for policy in sleepers_of(self.stack)}

    @cached_property
    def _scale_min(self) -> Mapping[str, int]:
        services = self.stack.services.items()
        return {pods: variant.scale.min for name, service in services for pods, variant in service.pods(name).items()}

    def _of_service(self, policy: FloorPolicy) -> Iterator[Raised]:
        for span in self._open if policy.open is not None else ():
            yield Raised(span.start - policy.lead, span.end, min(policy.open or 0, policy.most))
        for event in policy.events:
            start = wall_to_instant(self.hours.timezone, event.day, event.at, last=False)
            yield Raised(start - policy.lead, start + event.lasting, min(event.pods, policy.most))
        for night in policy.overnight:
            for start in self._each_day(night.at):
                yield Raised(start - policy.lead, start + night.lasting, min(night.pods, policy.most))

    def _of_pool(self, name: str, pool: WorkerSettings) -> Iterator[Raised]:
        lead = self.stack.controller.node_startup
        for plan in self.stack.business_hours.overnight:
            if plan.pool == name:
                for start in self._each_day(plan.minutes):
                    yield Raised(start - lead, start + plan.for_, plan.workers)
        if (morning := pool.morning) is not None:
            for span in self._open:
                yield Raised(span.start - lead, span.start + morning.for_, morning.workers)

    def _of_ray(self, name: str, pods: int) -> Floor:
        """A cluster sleeps with its head. A lead is not needed: it wakes when business hours begin."""
        sleep = self.stack.ray[name].sleep
        if sleep.when is SleepWhen.NEVER:
            return Floor(pods)
        by_day = sleep.when is SleepWhen.OUTSIDE_HOURS or Wake.BUSINESS_HOURS in sleep.wake
        return Floor(0, tuple(Raised(span.start, span.end, pods) for span in self._open) if by_day else ())

    @cached_property
    def _open(self) -> Sequence[Span]:
        return tuple(self.hours.open_spans(self._begin, self._end))

    def _each_day(self, minutes: int) -> Iterator[datetime]:
        """Yield the instants of a wall time on each day."""
        day, last = self.hours.local(self._begin).date(), self.hours.local(self._end).date()
        while day <= last:
            yield wall_to_instant(self.hours.timezone, day, minutes, last=False)
            day += ONE_DAY

    @property
    def _begin(self) -> datetime:
        return self.span.start - _MARGIN

    @property
    def _end(self) -> datetime:
        return self.span.end + _MARGIN
