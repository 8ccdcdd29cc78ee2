"""One setting of a service's scale on a history: what it would have cost, and missed.

A setting is a stack file: the changes are made in its text, and the text is read and checked as any other. So what is
played is what the patched file says, with the steps and the tolerance that follow from it.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from ebbtide.advice.services.stretches import Stretch, Stretches
from ebbtide.settings import StackInvalid, StackSettings
from ebbtide.settings.file.contents import Beside, no_files
from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.patch import Change, patched
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.serving.services import ALONE, ServiceSettings, VariantSettings, pod_name
from ebbtide.simulator.services.floors import Floor, ForecastFloor
from ebbtide.simulator.services.replay import ServiceCourse, ServiceOptions, held, service_course
from ebbtide.simulator.services.results import ServiceResult, result_of
from ebbtide.simulator.services.run import Served, play
from ebbtide.simulator.services.strategies import Autoscaled, hpa_of
from ebbtide.simulator.strategies.hpa import Hpa
from ebbtide.simulator.trace.counted import RequestTrace
from ebbtide.units.durations import DAY_S
from ebbtide.units.money import HOURS_PER_MONTH

SERVICES = "ebbtide:services"
FORECASTS_MARGIN = 1.0
"""What `floor: forecast` has, in the rules of Prometheus."""


@dataclass(frozen=True, kw_only=True)
class StackText:
    """A sound stack file as it is written, which a setting is a change of."""

    text: str
    file: str  # what messages and patches call it
    stack: str
    beside: Beside = no_files

    @cached_property
    def settings(self) -> StackSettings:
        return self.with_changes(())

    @cached_property
    def values(self) -> Mapping[str, object]:
        """Below `config:`, as YAML reads them."""
        return read_document(self.text, self.file).config

    def with_changes(self, changes: Sequence[Change]) -> StackSettings:
        """Raises `StackInvalid`."""
        return stack_of_text(self.changed(changes), stack=self.stack, file=self.file, beside=self.beside)

    def changed(self, changes: Sequence[Change]) -> str:
        return patched(self.text, self.file, changes) if changes else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What may be advised of the key `scale`. `metrics` as they are written: `{"inFlight": 3, "latency": "300ms"}`."""

    metrics: Mapping[str, object]
    min: int
    max: int

    @property
    def text(self) -> str:
        told = {"min": self.min, "max": self.max, **self.metrics}
        return ", ".join(f"{key} {_plain(value)}" for key, value in told.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return str(cast("Mapping[str, object]", value).get("target", ""))
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the scale of a service's variant stands in the stack file, and what it says."""

    service: str
    variant: str
    at: Location
    own: bool  # False: it stands at the service, for several variants
    written: Mapping[str, Any]  # the key `scale`; nothing where it is left out
    settings: VariantSettings
    of: ServiceSettings

    @property
    def pods(self) -> str:
        return pod_name(self.service, self.variant)

    @property
    def scale(self) -> Scale:
        metrics: Mapping[str, object] = self.written.get("metrics") or {}
        return Scale(metrics=metrics, min=self.settings.scale.min, max=self.settings.scale.max)


def place_of(stack: StackText, pods: str) -> Place | None:
    """Of the variant whose pods have this name."""
    for service, it in stack.settings.services.items():
        for variant, its in it.variants.items():
            if pod_name(service, variant) == pods:
                return _place(stack, service, variant, it, its)
    return None


def _place(stack: StackText, name: str, variant: str, service: ServiceSettings, its: VariantSettings) -> Place:
    at_service: Location = (SERVICES, name, "scale")
    at_variant: Location = (SERVICES, name, "variants", variant, "scale")
    own = variant != ALONE and value_at(stack.values, at_variant) is not None
    alone = len(service.variants) == 1
    return Place(
        service=name,
        variant=variant,
        at=at_service if variant == ALONE or (alone and not own) else at_variant,
        own=own or alone,
        written=cast("Mapping[str, Any]", value_at(stack.values, at_variant if own else at_service) or {}),
        settings=its,
        of=service,
    )


def changes_to(place: Place, wanted: Scale, reason: str) -> list[Change]:
    """What has to be written so that the file says this; nothing where it does.

    Where the scale stands at the service for several variants, the variant gets one of its own.
    """
    now, written = place.scale, place.written
    if wanted == now:
        return []
    if not place.own or not written:
        whole = {**written, "metrics": dict(wanted.metrics), "min": wanted.min, "max": wanted.max}
        return [Change(at=place.at, before=None, after=whole, reason=reason)]
    found: list[Change] = []
    if wanted.metrics.keys() == now.metrics.keys():
        found += [
            Change(at=(*place.at, "metrics", key), before=now.metrics[key], after=value, reason=reason)
            for key, value in wanted.metrics.items()
            if value != now.metrics[key]
        ]
    else:
        at = (*place.at, "metrics")
        found.append(Change(at=at, before=written.get("metrics"), after=dict(wanted.metrics), reason=reason))
    for key, before, after in (("min", now.min, wanted.min), ("max", now.max, wanted.max)):
        if before != after:
            found.append(Change(at=(*place.at, key), before=written.get(key), after=after, reason=reason))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one setting on some hours."""

    result: ServiceResult
    hours: float

    @property
    def within(self) -> float:
        """The share of requests answered within the SLO."""
        return 1 - self.result.beyond_slo

    @property
    def month_pod_hours(self) -> float:
        return self.result.pod_hours / self.hours * HOURS_PER_MONTH

    @property
    def month_usd(self) -> float | None:
        return None if self.result.usd is None else self.result.usd / self.hours * HOURS_PER_MONTH

    @property
    def usd_per_1000(self) -> float | None:
        """Of the requests that were answered."""
        result = self.result
        return None if result.usd is None or not result.answered else 1000 * result.usd / result.answered


@dataclass(slots=True)
class Trials:
    """Plays settings of one service on one history; none twice."""

    stack: StackText
    place: Place
    trace: RequestTrace
    options: ServiceOptions
    _courses: dict[str, ServiceCourse | None] = field(default_factory=dict[str, "ServiceCourse | None"])
    _known: dict[tuple[str, int], Outcome] = field(default_factory=dict[tuple[str, int], Outcome])

    def course(self, scale: Scale) -> ServiceCourse | None:
        """None: the stack file may not say so, for a reason that has nothing to do with the load."""
        key = repr(scale)
        if key not in self._courses:
            try:
                settings = self.stack.with_changes(changes_to(self.place, scale, "tried"))
            except StackInvalid:
                self._courses[key] = None
            else:
                self._courses[key] = service_course(settings, self.place.pods, self.trace, self.options)
        return self._courses[key]

    def played(self, scale: Scale, hours: Stretches) -> Outcome | None:
        key = (repr(scale), id(hours))
        course = self.course(scale)
        if course is None:
            return None
        if key not in self._known:
            self._known[key] = outcome(course, self.place.settings.scale.floor, hours, self.options.seed)
        return self._known[key]


def outcome(course: ServiceCourse, floor: FloorKind | None, hours: Stretches, seed: int) -> Outcome:
    service = course.service
    blanks = list(held(course.trace))
    found = [
        play(service, _decider(course, floor, stretch), stretch.coming, stretch.span, seed=seed, held=blanks)
        for stretch in hours.each
    ]
    return Outcome(result=result_of(_sum(found), service.slo_s, service.usd_per_pod_hour), hours=hours.hours)


def _decider(course: ServiceCourse, kind: FloorKind | None, stretch: Stretch) -> Autoscaled:
    service, begin = course.service, stretch.span.begin
    floor: Floor | None = None
    if kind is not None:
        floor = calendar = course.calendar.with_open(service.stated_open)
        if kind is FloorKind.FORECAST:
            floor = ForecastFloor(service, course.minutes, begin, calendar, FORECASTS_MARGIN)
    first = service.need(course.minutes.rates[round(begin / 60)] or 0.0)
    if floor is not None:
        first = max(first, floor(begin, ()))
    return Autoscaled(service, Hpa(hpa_of(service)), service.within(first), floor)


def _sum(served: Sequence[Served]) -> Served:
    together = Served(
        sent=sum(it.sent for it in served),
        lost=sum(it.lost for it in served),
        turned_away=sum(it.turned_away for it in served),
        pod_hours=sum(it.pod_hours for it in served),
        least_asked=min(it.least_asked for it in served),
        most_asked=max(it.most_asked for it in served),
    )
    together.latencies = array("d")
    for it in served:
        together.latencies.extend(it.latencies)
    return together


def whole_days(trace: RequestTrace) -> int:
    return int(len(trace.totals) * trace.window_s / DAY_S)
