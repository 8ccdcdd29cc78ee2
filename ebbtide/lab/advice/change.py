"""Replays of one trace before and after a change: jobs on the worker pools, or requests on the services.

Jobs: the replays of `ebbtide simulate BEFORE AFTER` with the product's own strategy. Both sides get the same trace,
seed and start.

Requests: each service scales as in its stack file: by the autoscaler only, or with a floor from the calendar or from a
forecast. Both sides get the same requests. The side before the change, if it exists, sets their number, which would
otherwise follow `max`. Both sides start at the same time; otherwise the busy hours would move with business hours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ebbtide.lab.advice.comparison import replay_each
from ebbtide.lab.report.pages.sentences import BY_QUEUE, provisioner_line, queue_line, slow_line
from ebbtide.lab.simulator.replay import replay
from ebbtide.lab.simulator.results import Replay, Strategy
from ebbtide.lab.simulator.services.replay import ServiceCourse, ServiceOptions, replay_service, service_course
from ebbtide.lab.simulator.services.results import ServiceResult
from ebbtide.lab.simulator.services.strategies import ServiceStrategy
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions
from ebbtide.lab.simulator.strategies.table import other_provisioner
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.preview.document import Simulated, SimulatedService, SimulatedServices, Unreplayable
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.serving.services import VariantSettings, pod_name

_PRODUCT = Strategy.FIXED_FLEXIBLE
DAYS = 7
"""A week of a longer trace shows working days and a weekend in a fraction of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReplay:
    """Replays one trace before and after the change of any stack; picklable, for the processes of a preview."""

    traces: Mapping[str, Trace]  # the trace as read in each stack's time zone, by zone
    requests: RequestTrace | None = None  # the same trace, if it counts requests
    days: int = DAYS

    def __call__(self, before: StackSettings | None, after: StackSettings) -> Simulated | SimulatedServices | None:
        """Replay requests on the services if possible, otherwise jobs on the pools; None without a trace.

        Raises: `Unreplayable`.
        """
        trace = self.traces.get(after.business_hours.timezone)
        if trace is None:
            return None
        if self.requests is not None and replayable(after):
            return simulated_services(before, after, self.requests, self.days)
        return simulated(before, after, trace, self.days)


def simulated(before: StackSettings | None, after: StackSettings, trace: Trace, days: int = DAYS) -> Simulated:
    """Raises: `Unreplayable` if the side after the change cannot be replayed; the side before it is optional."""
    options = ReplayOptions(strategies=(_PRODUCT,), days=min(days, trace.days))
    replays, note = _replays(before, after, trace, options)
    sides = [replay.strategies[_PRODUCT] for replay in replays]
    new, old = sides[-1], sides[0] if len(sides) > 1 else None
    return Simulated(
        trace=trace.name,
        node_hours=(None if old is None else old.node_hours, new.node_hours),
        usd=(None if old is None else old.usd, new.usd),
        p95_wait=(None if old is None else old.wait_p95_s, new.wait_p95_s),
        days=replays[-1].days,
        trace_days=trace.days,
        interrupted=(None if old is None else old.jobs_interrupted, new.jobs_interrupted),
        unfinished=(None if old is None else old.jobs_unfinished, new.jobs_unfinished),
        coverage=(None if old is None else replays[0].coverage.jobs, replays[-1].coverage.jobs),
        note=" ".join([note] * bool(note) + _notes(replays[-1])),
    )


def _notes(replay: Replay) -> list[str]:
    overloaded = [f"Demand exceeds the stack: {overload}." for overload in replay.overloads]
    slow, line = slow_line(replay), queue_line(replay)
    other = provisioner_line(replay)
    return [*overloaded, *([slow] if slow else []), *([] if line == BY_QUEUE else [line]), *([other] if other else [])]


def _replays(
    before: StackSettings | None, after: StackSettings, trace: Trace, options: ReplayOptions
) -> tuple[list[Replay], str]:
    """Return both sides' replays, or only the later side's and the reason why the other is missing."""
    other = other_provisioner(after)

    def play(stack: StackSettings, trace: Trace, options: ReplayOptions) -> Replay:
        more = (other,) if other is not None and stack is after else ()
        return replay(stack, trace, replace(options, strategies=(*options.strategies, *more)))

    note = ""
    if before is not None:
        try:
            return replay_each((before, after), trace, options, play), ""
        except ReplayError as error:
            note = f"not replayed before the change: {error}"  # used only if the side after it can be replayed
    try:
        return replay_each((after,), trace, options, play), note
    except ReplayError as error:
        raise Unreplayable(str(error)) from None


def replayable(settings: StackSettings) -> bool:
    """True if a trace of requests can be replayed on its services; otherwise the trace may be work for its pools."""
    return any(service.request_takes is not None for service in settings.services.values())


def simulated_services(
    before: StackSettings | None, after: StackSettings, trace: RequestTrace, days: int = DAYS
) -> SimulatedServices:
    """Raises: `Unreplayable` if no service of the side after the change can be replayed."""
    played_days = min(days, int(trace.days)) or None
    options = ServiceOptions(days=played_days)
    services = tuple(_both(before, after, trace, options))
    if not any(service.pod_hours[1] is not None for service in services):
        raise Unreplayable("; ".join(dict.fromkeys(service.note for service in services if service.note)))
    return SimulatedServices(trace=trace.name, days=played_days or trace.days, trace_days=trace.days, services=services)


@dataclass(frozen=True, slots=True)
class _Side:
    """One service on one side. Without a `result` it cannot be replayed, and `why` is the reason."""

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
            earlier = _replayed(before, name, old[name], trace, options)
        if name in new:
            same_load = options
            if earlier is not None and (course := earlier.course) is not None:
                same_load = replace(options, rate=_rate(course), start=course.start)
            later = _replayed(after, name, new[name], trace, same_load, like=earlier)
        yield _line(name, earlier, later)


def _strategies(settings: StackSettings) -> Mapping[str, ServiceStrategy]:
    """The strategies of the stack file, by the name of the pods."""
    return {
        pod_name(name, key): _strategy(variant)
        for name, service in settings.services.items()
        for key, variant in service.variants.items()
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


def _replayed(
    settings: StackSettings,
    name: str,
    strategy: ServiceStrategy,
    trace: RequestTrace,
    options: ServiceOptions,
    like: _Side | None = None,
) -> _Side:
    """Return `like` if the course is the same, without another replay."""
    options = replace(options, strategies=(strategy,))
    try:
        course = service_course(settings, name, trace, options)
    except ReplayError as error:
        return _Side(strategy, None, None, str(error))
    if like is not None and like.result is not None and like.strategy is strategy and _same_course(like.course, course):
        return like
    replay = replay_service(course, options)
    if strategy in replay.strategies:
        return _Side(strategy, course, replay.strategies[strategy].result)
    return _Side(strategy, course, None, f"{name}: {replay.left_out[strategy]}")


def _same_course(old: ServiceCourse | None, new: ServiceCourse) -> bool:
    return old is not None and (old.service, old.calendar.hours) == (new.service, new.calendar.hours)


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
