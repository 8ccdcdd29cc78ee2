"""A request trace replayed on a service of a stack, once for each strategy.

One constant scales the trace's counts, since a public trace has another size: unless the user sets a mean rate, the
busiest window needs BUSIEST_SHARE of the pods that `max` allows. The trace's last days are played; the days before are
history for the forecast and the tuning.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from time import perf_counter

from ebbtide.lab.simulator.billing import open_spans
from ebbtide.lab.simulator.services.backtest import JUDGED_DAYS, NOTHING_COUNTED, Backtest, TooLittle, Way, backtest
from ebbtide.lab.simulator.services.counts import MINUTE_S, Minutes, arrivals, busiest_rate, minutes_of
from ebbtide.lab.simulator.services.floors import CalendarFloor, ForecastTrigger
from ebbtide.lab.simulator.services.results import STEP_MINUTES, ReplayedStrategy, ServiceReplay, result_of
from ebbtide.lab.simulator.services.run import Decider, TraceSpan, play
from ebbtide.lab.simulator.services.served import USED, ServiceModel, simulated
from ebbtide.lab.simulator.services.strategies import (
    Autoscaled,
    Fixed,
    ServiceStrategy,
    hpa_of,
    keda_defaults,
    with_forecast,
    with_headroom,
)
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.strategies.hpa import Hpa
from ebbtide.lab.simulator.trace.alignment import REFERENCE_MONDAY, busiest_hours, start_for
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.lab.simulator.world.sleep import Asleep, planned_sleep
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S, HOUR_S
from ebbtide.vocabulary.windows import zone_of

BUSIEST_SHARE = 0.8
MOST_REQUESTS = 4_000_000
"""The limit for one strategy, about ten seconds of replay. A service with more requests is played for fewer hours."""
SETTLES_S = 120.0
USUAL_HEADROOM = 0.3
"""The headroom if the history is too short for tuning."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """`rate`: mean requests a second. `start` None: the trace's busy hours are aligned with business hours."""

    days: int | None = None
    start: datetime | None = None
    rate: float | None = None
    at_once: int | None = None
    seed: int = 0
    strategies: tuple[ServiceStrategy, ...] = tuple(ServiceStrategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCourse:
    """The inputs that all strategies share."""

    service: ServiceModel
    trace: RequestTrace
    factor: float  # requests to the service per request of the trace
    minutes: Minutes
    calendar: CalendarFloor
    start: datetime
    asleep: tuple[Asleep, ...] = ()

    def backtest(self) -> Backtest:
        """Raises `TooLittle`."""
        by_minute = self.calendar.by_minute(len(self.minutes.rates))
        return backtest(self.service, self.minutes, by_minute, self.calendar.closed, self.trace.name)


def service_course(settings: StackSettings, name: str, trace: RequestTrace, options: ServiceOptions) -> ServiceCourse:
    """Raises `ReplayError`."""
    service = simulated(settings, name, options.at_once)
    most = max(1, ceil(trace.days))
    if options.days is not None and options.days > most:
        raise ReplayError(f"trace {trace.name}: wanted 1 to {most} days, found {options.days} (for example {most})")
    start = options.start
    year = (REFERENCE_MONDAY if start is None else start).year
    hours = settings.business_hours.hours([year - 1, year, year + 1])
    if start is None:
        start = start_for(_busiest(trace), hours)
    elif start.tzinfo is None:
        start = start.replace(tzinfo=zone_of(hours.timezone))
    factor = _factor(trace, service, options.rate)
    return ServiceCourse(
        service=service,
        trace=trace,
        factor=factor,
        minutes=minutes_of(trace, factor),
        calendar=CalendarFloor(service.calendar, hours, start),
        start=start,
        asleep=tuple(
            nap for nap in planned_sleep(settings, hours, start, trace.days * DAY_S) if nap.workload == service.name
        ),
    )


def _busiest(trace: RequestTrace) -> int:
    by_hour: Counter[int] = Counter()
    for place, count in enumerate(trace.totals):
        by_hour[int(place * trace.window_s // HOUR_S) % 24] += round(count or 0)
    return busiest_hours(by_hour)


def _factor(trace: RequestTrace, service: ServiceModel, rate: float | None) -> float:
    counts = [count for count in trace.totals if count is not None]
    if rate is not None:
        return rate * trace.window_s * len(counts) / sum(counts)
    return BUSIEST_SHARE * service.most * service.pod_rate / busiest_rate(trace)


def replay_service(
    course: ServiceCourse, options: ServiceOptions, progress: Progress = lambda _name, _share: None
) -> ServiceReplay:
    """Play the course with the options from which it was built."""
    began = perf_counter()
    span = span_of(course, options.days)
    try:
        tested, too_little = course.backtest(), ""
    except TooLittle as error:
        tested, too_little = None, str(error)
    deciders, left_out = _deciders(course, span, tested, too_little)
    played: dict[str, ReplayedStrategy] = {}
    for strategy in options.strategies:
        if strategy in deciders:
            progress(strategy.value, 0.0)
            played[strategy.value] = _played(course, deciders[strategy], span, options.seed)
            progress(strategy.value, 1.0)
    rates = [rate for rate in course.minutes.rates if rate is not None]
    return ServiceReplay(
        stack=course.service.stack,
        service=course.service.name,
        trace=course.trace.name,
        seed=options.seed,
        start=course.start,
        begin_s=span.begin,
        end_s=span.end,
        mean_rate=sum(rates) / len(rates),
        busiest_rate=course.factor * busiest_rate(course.trace),
        slo_s=course.service.slo_s,
        assumptions=tuple(_assumptions(course, span, tested)),
        strategies=played,
        left_out={name.value: why for name, why in left_out.items() if name in options.strategies},
        replay_seconds=perf_counter() - began,
        open_spans=open_spans(course.calendar.hours, course.start, span.end),
        gaps=tuple((gap.begin, gap.end) for gap in _missing(course.trace)),
        tested=tested,
    )


def span_of(course: ServiceCourse, days: int | None) -> TraceSpan:
    """The last days: a week if the trace is longer, and fewer hours if it has too many requests."""
    trace_days = course.trace.days
    played_days = days if days is not None else (JUDGED_DAYS if trace_days > JUDGED_DAYS else trace_days)
    end = len(course.minutes.rates) * MINUTE_S
    begin = max(0.0, end - played_days * DAY_S)
    hourly = HOUR_S * max(1e-9, course.minutes.mean(round(begin / MINUTE_S), round(end / MINUTE_S)) or 0.0)
    hours = max(1, int(MOST_REQUESTS // hourly))
    return TraceSpan(max(begin, end - hours * HOUR_S), end)


def _deciders(
    course: ServiceCourse, span: TraceSpan, tested: Backtest | None, too_little: str
) -> tuple[Mapping[ServiceStrategy, Decider], Mapping[ServiceStrategy, str]]:
    """The strategies that can be played, and the reason why each of the others cannot."""
    service, minutes = course.service, course.minutes
    begin, until = round(span.begin / MINUTE_S), round(span.end / MINUTE_S)
    rates = [rate for rate in minutes.rates[begin:until] if rate is not None]
    busiest = max(rates, default=0.0)
    deciders: dict[ServiceStrategy, Decider] = {
        ServiceStrategy.FIXED_REPLICAS: Fixed(service.within(service.need(busiest)), course.asleep)
    }
    left_out: dict[ServiceStrategy, str] = {}
    if not service.metrics:
        why = "the service does not grow: its min is its max"
        return deciders, {strategy: why for strategy in ServiceStrategy if strategy not in deciders}
    first = service.within(service.need(minutes.rates[begin] or 0.0))
    headroom = USUAL_HEADROOM if tested is None else tested.tuned[Way.HEADROOM].number
    deciders[ServiceStrategy.HPA_ONLY] = Autoscaled(service, Hpa(hpa_of(service)), first)
    deciders[ServiceStrategy.CONSTANT_HEADROOM] = Autoscaled(service, Hpa(with_headroom(service, headroom)), first)
    deciders[ServiceStrategy.KEDA_DEFAULTS] = Autoscaled(
        service, Hpa(keda_defaults(service)), first, missing_is_zero=True
    )
    at_open, by_date = service.stated_open, bool(service.calendar.events or service.calendar.overnight)
    if at_open is None and tested is not None and not by_date:
        at_open = round(tested.tuned[Way.CALENDAR].number)
    if at_open is None and not by_date:
        left_out[ServiceStrategy.CALENDAR_FLOOR] = (
            f"no scale.open in the stack file, and none can be found: {too_little}"
        )
    else:
        calendar = course.calendar.with_open(at_open)
        deciders[ServiceStrategy.CALENDAR_FLOOR] = Autoscaled(service, Hpa(hpa_of(service)), first, calendar)
    if service.forecast_rate is None:
        left_out[ServiceStrategy.FORECAST_FLOOR] = NOTHING_COUNTED
    elif tested is None:
        left_out[ServiceStrategy.FORECAST_FLOOR] = too_little
    else:
        stated = service.stated_margin
        margin = tested.tuned[Way.FORECAST].number if stated is None else stated
        below = course.calendar.with_open(service.stated_open)
        forecast = ForecastTrigger(service, minutes, course.calendar.closed, span.begin, margin)
        deciders[ServiceStrategy.FORECAST_FLOOR] = Autoscaled(
            service, Hpa(with_forecast(service)), first, below, forecast
        )
    return deciders, left_out


def _played(course: ServiceCourse, decider: Decider, span: TraceSpan, seed: int) -> ReplayedStrategy:
    service = course.service
    requests = arrivals(course.trace, course.factor, seed, span.begin)
    served = play(service, decider, requests, span, seed=seed, held=list(held(course.trace)))
    return ReplayedStrategy(
        result=result_of(served, service.slo_s, service.usd_per_pod_hour),
        series=served.series,
        p95_s=tuple(served.series.p95(served.latencies, STEP_MINUTES)),
    )


def held(trace: RequestTrace) -> Iterator[TraceSpan]:
    """Missing windows, each with the time until requests are in flight again: until then the metrics are 0."""
    for gap in _missing(trace):
        yield TraceSpan(gap.begin, gap.end + SETTLES_S)


def _missing(trace: RequestTrace) -> Iterator[TraceSpan]:
    for place, count in enumerate(trace.totals):
        if count is None:
            yield TraceSpan(place * trace.window_s, (place + 1) * trace.window_s)


def _assumptions(course: ServiceCourse, span: TraceSpan, tested: Backtest | None) -> Iterator[str]:
    service, pod = course.service, course.service.pod
    yield (
        f"Requests per window are the trace's counts times {course.factor:.3g}; arrivals within a window are drawn, by "
        "iat_cv if the trace has it. The last "
        f"{(span.end - span.begin) / HOUR_S:,.0f} hours are played; the hours before are history."
    )
    yield (
        f"A pod serves requests {pod.at_once} at a time, {pod.request_s:g} s each on average (log-normal, coefficient "
        f"of variation {pod.spread:g}). It is ready {pod.starts_s:g} s after its node, which boots in "
        f"{pod.node_boot_s:g} s and holds {pod.per_node}. By its targets, and busy at most {USED:.0%} of the time, a "
        f"pod serves {service.pod_rate:.3g} requests a second; {service.full_rate:.3g} keep it busy all the time."
    )
    yield (
        "One gateway sees all requests in flight without delay; slow start, outliers and Prometheus' delays are left "
        "out. No pod and no node fails."
    )
    if course.asleep:
        yield f"{service.name} sleeps by the workload controller's own calendar; requests are lost meanwhile."
    missing = sum(gap.end - gap.begin for gap in _missing(course.trace) if span.holds(gap.begin))
    if missing:
        yield f"{missing / HOUR_S:.3g} of these hours are missing: no requests come then, and the number of pods stays."
    if service.usd_per_pod_hour is not None:
        yield f"Dollars are the pods' shares of on-demand nodes, {service.usd_per_pod_hour:.4g} per pod-hour."
    if tested is not None:
        stated = service.stated_open is not None
        margin = service.stated_margin
        played = "" if margin is None else f" (the replay uses the stack file's, {margin:.2f})"
        yield (
            f"Tuned on the days before the last week: a margin of {tested.tuned[Way.FORECAST].number:.2f} on the "
            f"forecast{played}, {tested.tuned[Way.HEADROOM].number:.0%} headroom"
            + ("." if stated else f", {tested.tuned[Way.CALENDAR].number:.0f} pods in business hours.")
        )
        yield f"The forecast, by a backtest of that week: {tested.reason}"
