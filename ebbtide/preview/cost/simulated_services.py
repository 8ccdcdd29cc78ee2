"""Each service replayed over one trace of requests on both sides of a change, as its stack file has it.

What is played is what the file asks for: the autoscaler alone, with a floor of the calendar, or with a forecast's. Both
sides get the same requests: their number is scaled once, to the side before the change where there is one, since it
would follow `max` otherwise; and the same start, since the busy hours would move along with business hours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ebbtide.preview.cost.simulated import DAYS, Unreplayable
from ebbtide.preview.document import SimulatedService, SimulatedServices
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.serving.services import VariantSettings, pod_name
from ebbtide.simulator.services.replay import ServiceCourse, ServiceOptions, replay_service, service_course
from ebbtide.simulator.services.results import ServiceResult
from ebbtide.simulator.services.strategies import ServiceStrategy
from ebbtide.simulator.setup import ReplayError
from ebbtide.simulator.trace.counted import RequestTrace


def replayable(settings: StackSettings) -> bool:
    """Whether a trace of requests says anything of its services; if not, it may be work for its pools."""
    return any(service.request_takes is not None for service in settings.services.values())


def simulated_services(
    before: StackSettings | None, after: StackSettings, trace: RequestTrace, days: int = DAYS
) -> SimulatedServices:
    """Raises: `Unreplayable`, when no service of the side after the change can be replayed."""
    played_days = min(days, int(trace.days)) or None
    options = ServiceOptions(days=played_days)
    found = tuple(_both(before, after, trace, options))
    if not any(it.pod_hours[1] is not None for it in found):
        raise Unreplayable("; ".join(dict.fromkeys(it.note for it in found if it.note)))
    return SimulatedServices(
        trace=trace.name, days=trace.days if played_days is None else played_days, trace_days=trace.days, services=found
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One service on one side. `result` None: it cannot be played, and `why` says why."""

    strategy: ServiceStrategy
    course: ServiceCourse | None
    result: ServiceResult | None
    why: str = ""


def _both(
    before: StackSettings | None, after: StackSettings, trace: RequestTrace, options: ServiceOptions
) -> Iterator[SimulatedService]:
    old: Mapping[str, ServiceStrategy] = {} if before is None else _strategies(before)
    new = _strategies(after)
    for name in dict.fromkeys((*old, *new)):
        earlier = later = None
        if before is not None and name in old:
            earlier = _played(before, name, old[name], trace, options)
        if name in new:
            same_load = options
            if earlier is not None and (course := earlier.course) is not None:
                same_load = replace(options, rate=_rate(course), start=course.start)
            later = _played(after, name, new[name], trace, same_load, like=earlier)
        yield _line(name, earlier, later)


def _strategies(settings: StackSettings) -> Mapping[str, ServiceStrategy]:
    """What the stack file asks for, by the name of the pods."""
    return {
        pod_name(name, variant): _strategy(it)
        for name, service in settings.services.items()
        for variant, it in service.variants.items()
    }


def _strategy(variant: VariantSettings) -> ServiceStrategy:
    if not variant.scale.grows:
        return ServiceStrategy.FIXED_REPLICAS
    if variant.scale.floor is FloorKind.FORECAST:
        return ServiceStrategy.FORECAST_FLOOR
    return ServiceStrategy.CALENDAR_FLOOR if variant.scale.planned else ServiceStrategy.HPA_ONLY


def _rate(course: ServiceCourse) -> float:
    rates = [rate for rate in course.minutes.rates if rate is not None]
    return sum(rates) / len(rates)


def _played(
    settings: StackSettings,
    name: str,
    strategy: ServiceStrategy,
    trace: RequestTrace,
    options: ServiceOptions,
    like: _Side | None = None,
) -> _Side:
    """What is the same as `like` is not played again."""
    options = replace(options, strategies=(strategy,))
    try:
        course = service_course(settings, name, trace, options)
    except ReplayError as error:
        return _Side(strategy, None, None, str(error))
    if like is not None and like.result is not None and like.strategy is strategy and _alike(like.course, course):
        return like
    found = replay_service(course, options)
    if strategy in found.strategies:
        return _Side(strategy, course, found.strategies[strategy].result)
    return _Side(strategy, course, None, f"{name}: {found.left_out[strategy]}")


def _alike(one: ServiceCourse | None, other: ServiceCourse) -> bool:
    return one is not None and (one.service, one.calendar.hours) == (other.service, other.calendar.hours)


def _line(name: str, before: _Side | None, after: _Side | None) -> SimulatedService:
    old, new = (None if side is None else side.result for side in (before, after))
    notes = [
        f"not replayed {when} the change: {side.why}"
        for when, side in (("before", before), ("after", after))
        if side is not None and side.result is None
    ]
    return SimulatedService(
        name=name,
        strategy=(before and before.strategy.value, after and after.strategy.value),
        pod_hours=(old and old.pod_hours, new and new.pod_hours),
        usd=(old and old.usd, new and new.usd),
        p95_s=(old and old.p95_s, new and new.p95_s),
        beyond_slo=(old and old.beyond_slo, new and new.beyond_slo),
        lost=(old and old.lost + old.turned_away, new and new.lost + new.turned_away),
        note="; ".join(notes),
    )
