"""Play one setting of a service's scale on a history: its cost, and the requests that miss the SLO.

A trial plays the patched file, with the scaling steps and the tolerance that follow from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ebbtide.lab.advice.services.place import ScaleEntry, StackText, VariantScale, changes_to
from ebbtide.lab.advice.services.stretches import Stretch, Stretches
from ebbtide.lab.simulator.services.counts import MINUTE_S
from ebbtide.lab.simulator.services.floors import ForecastTrigger
from ebbtide.lab.simulator.services.replay import ServiceCourse, ServiceOptions, held, service_course
from ebbtide.lab.simulator.services.results import ServiceResult, result_of
from ebbtide.lab.simulator.services.run import ServedRequests, play
from ebbtide.lab.simulator.services.strategies import Autoscaled, hpa_of, with_forecast
from ebbtide.lab.simulator.strategies.hpa import Hpa
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.settings import StackInvalid
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.types import MOST
from ebbtide.text.money import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOutcome:
    """Result of one setting on some hours."""

    result: ServiceResult
    hours: float

    @property
    def within(self) -> float:
        """Share of requests answered within the SLO."""
        return 1 - self.result.beyond_slo

    @property
    def month_pod_hours(self) -> float:
        return self.result.pod_hours / self.hours * HOURS_PER_MONTH

    @property
    def month_usd(self) -> float | None:
        return None if self.result.usd is None else self.result.usd / self.hours * HOURS_PER_MONTH

    @property
    def usd_per_1000(self) -> float | None:
        """US dollars per 1,000 answered requests."""
        result = self.result
        return None if result.usd is None or not result.answered else 1000 * result.usd / result.answered


@dataclass(slots=True)
class Trials:
    """Plays settings of one service on one history, each once."""

    stack: StackText
    place: ScaleEntry
    trace: RequestTrace
    options: ServiceOptions
    _courses: dict[str, ServiceCourse | None] = field(default_factory=dict[str, "ServiceCourse | None"])
    _outcomes: dict[tuple[str, int], SettingOutcome] = field(default_factory=dict[tuple[str, int], SettingOutcome])

    def course(self, scale: VariantScale) -> ServiceCourse | None:
        """Return None if the stack file would be invalid with this scale."""
        key = repr(scale)
        if key not in self._courses:
            try:
                settings = self.stack.with_changes(changes_to(self.place, scale, "tried"))
            except StackInvalid:
                self._courses[key] = None
            else:
                self._courses[key] = service_course(settings, self.place.pods, self.trace, self.options)
        return self._courses[key]

    def played(self, scale: VariantScale, hours: Stretches) -> SettingOutcome | None:
        key = (repr(scale), id(hours))
        course = self.course(scale)
        if course is None:
            return None
        if key not in self._outcomes:
            self._outcomes[key] = outcome(course, self.place.settings.scale.floor, hours, self.options.seed)
        return self._outcomes[key]


def outcome(course: ServiceCourse, floor: FloorKind | None, hours: Stretches, seed: int) -> SettingOutcome:
    service = course.service
    served = served_in(course, floor, hours, seed)
    return SettingOutcome(result=result_of(served, service.slo_s, service.usd_per_pod_hour), hours=hours.hours)


def served_in(course: ServiceCourse, floor: FloorKind | None, hours: Stretches, seed: int) -> ServedRequests:
    """Play all stretches and add them up, without series by minute. `floor` is the stack file's."""
    blanks = list(held(course.trace))
    return together(
        play(course.service, _decider(course, floor, part), part.coming, part.span, seed=seed, held=blanks)
        for part in hours.parts
    )


def _decider(course: ServiceCourse, kind: FloorKind | None, stretch: Stretch) -> Autoscaled:
    service, calendar, begin = course.service, course.calendar, stretch.span.begin
    first = service.within(service.need(course.minutes.rates[round(begin / MINUTE_S)] or 0.0))
    if kind is None:
        return Autoscaled(service, Hpa(hpa_of(service)), first)
    floor = calendar.with_open(service.stated_open)
    if kind is not FloorKind.FORECAST or service.forecast_rate is None:
        return Autoscaled(service, Hpa(hpa_of(service)), first, floor)
    forecast = ForecastTrigger(service, course.minutes, calendar.closed, begin, service.stated_margin or 1.0)
    return Autoscaled(service, Hpa(with_forecast(service)), first, floor, forecast)


def together(served: Iterable[ServedRequests]) -> ServedRequests:
    total = ServedRequests(fewest_replicas=MOST)
    for part in served:
        total.sent += part.sent
        total.lost += part.lost
        total.turned_away += part.turned_away
        total.pod_hours += part.pod_hours
        total.fewest_replicas = min(total.fewest_replicas, part.fewest_replicas)
        total.most_replicas = max(total.most_replicas, part.most_replicas)
        total.latencies.extend(part.latencies)
    return total


def mean_rate(trace: RequestTrace) -> float:
    """Return requests a second, over the recorded windows."""
    counts = [count for count in trace.totals if count is not None]
    return sum(counts) / (len(counts) * trace.window_s)
