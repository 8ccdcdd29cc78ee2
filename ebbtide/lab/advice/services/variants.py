"""Compare a service's variants on one history by cost and latency: each alone, and in the file's shares.

Alone, a variant gets all of the service's requests, its own metrics and `min`, and a `max` large enough for them. In
the file's shares each gets its part and its own limits. The stack file has one `requestTakes` for all variants; the
caller may state another time for each, or read the latency at quiet times from Prometheus.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ebbtide.lab.advice.services.stretches import Stretches, stretches
from ebbtide.lab.advice.services.trial import SettingOutcome, mean_rate, outcome, served_in, together
from ebbtide.lab.simulator.services.counts import MINUTE_S
from ebbtide.lab.simulator.services.replay import ServiceCourse, ServiceOptions, service_course
from ebbtide.lab.simulator.services.results import result_of
from ebbtide.lab.simulator.services.run import ServedRequests, TraceSpan
from ebbtide.lab.simulator.setup import ReplayError, with_known_nodes
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.services import SINGLE_VARIANT, ServiceSettings, VariantSettings, pod_name
from ebbtide.text.durations import DAY_S
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.text.records import plain_values

SCHEMA = 1
PLAYED_DAYS = 7
PLAYED_REQUESTS = 600_000
ROOM = 3.0
"""`max` of a variant that gets all requests, as a multiple of the busiest minute's need."""
REQUEST_TAKES = "requestTakes"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ServiceTime:
    takes: timedelta
    source: str  # `requestTakes`, `--service-time`, or Prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    name: str
    pod: str  # its size
    time: ServiceTime
    at_once: int
    usd_per_pod_hour: float | None
    most: int  # maximum pods, in this replay
    outcome: SettingOutcome

    def keeps(self, slo_s: float) -> bool:
        return _keeps(self.outcome, slo_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAdvice:
    stack: str
    service: str
    trace: str
    requests_per_second: float
    hours: Stretches
    slo_s: float
    rows: tuple[VariantRow, ...]
    shares: Mapping[str, float]  # by variant; empty if they are not known, or for one variant
    shared: SettingOutcome | None
    why_not_shared: str

    @property
    def cheapest(self) -> VariantRow | None:
        """Cheapest variant that keeps the SLO: 95 of 100 requests within it, and none lost."""
        keeping = [row for row in self.rows if row.keeps(self.slo_s) and row.outcome.usd_per_1000 is not None]
        return min(keeping, key=lambda row: row.outcome.usd_per_1000 or 0.0, default=None)


def _keeps(outcome: SettingOutcome, slo_s: float) -> bool:
    return outcome.result.p95_s <= slo_s and outcome.result.lost == 0


def service_of(settings: StackSettings, name: str) -> ServiceSettings:
    """Raises `ReplayError`."""
    settings = with_known_nodes(settings)
    if name not in settings.services:
        services = f"they are {', '.join(settings.services)}" if settings.services else "it has no services"
        raise ReplayError(f"{settings.stack}: wanted the name of a service, found {name!r} ({services})")
    return settings.services[name]


def variant_advice(
    settings: StackSettings,
    name: str,
    trace: RequestTrace,
    options: ServiceOptions,
    times: Mapping[str, ServiceTime],
    stated: Mapping[str, float],
    progress: Progress = lambda _done, _total: None,
) -> VariantAdvice:
    """Play all variants; `times` and `stated` (shares from 0 to 1) are by variant, if known. Raises `ReplayError`."""
    service = service_of(settings, name)
    rate = mean_rate(trace) if options.rate is None else options.rate
    options = replace(options, rate=rate)
    service_times = {
        variant: times.get(variant) or _stated_time(settings, name, service) for variant in service.variants
    }
    shares, why_not = _shares(service, stated)
    total = len(service.variants) + len(shares)
    rows: list[VariantRow] = []
    hours: Stretches | None = None
    for variant, variant_settings in service.variants.items():
        course = _course(settings, name, variant, service_times[variant], trace, options)
        hours = hours or _hours(course, options.seed)
        rows.append(_alone(course, variant_settings, variant or name, service_times[variant], hours, options.seed))
        progress(len(rows), total)
    if hours is None:
        raise ReplayError(f"{settings.stack}, services.{name}: wanted a variant, found none")
    shared: list[tuple[ServedRequests, float | None]] = []
    for variant, share in shares.items():
        if share:
            part = replace(options, rate=rate * share)
            course = _course(settings, name, variant, service_times[variant], trace, part)
            served = served_in(
                course, service.variants[variant].scale.floor, _hours(course, options.seed), options.seed
            )
            shared.append((served, course.service.usd_per_pod_hour))
        progress(len(rows) + len(shared), total)
    slo = service.longest_request if service.slo is None else service.slo.p95
    return VariantAdvice(
        stack=settings.stack,
        service=name,
        trace=trace.name,
        requests_per_second=rate,
        hours=hours,
        slo_s=slo.total_seconds(),
        rows=tuple(rows),
        shares=shares,
        shared=_mixed(shared, slo.total_seconds(), hours) if shared else None,
        why_not_shared=why_not,
    )


def _stated_time(settings: StackSettings, name: str, service: ServiceSettings) -> ServiceTime:
    if service.request_takes is None:
        raise ReplayError(
            f"{settings.stack}, services.{name}: wanted requestTakes, or --service-time for each variant, found none "
            f"(for example --service-time {next(iter(service.variants)) or name}=150ms)"
        )
    return ServiceTime(service.request_takes, REQUEST_TAKES)


def _shares(service: ServiceSettings, stated: Mapping[str, float]) -> tuple[Mapping[str, float], str]:
    """Return the shares by variant; or none, and the reason."""
    if len(service.variants) == 1:
        return {}, ""
    if service.on_spot:
        return {}, "variants on spot nodes take each other's requests, and the simulator plays one at a time"
    if service.weighted and not stated:
        return {variant: (entry.weight or 0) / 100 for variant, entry in service.variants.items()}, ""
    remainder = next((variant for variant, entry in service.variants.items() if entry.takes_the_rest), None)
    unknown = [variant for variant in service.variants if variant != remainder and variant not in stated]
    if unknown:
        return {}, (
            f"a trace does not show the share of {', '.join(unknown)}: state it, for example --share {unknown[0]}=20%"
        )
    shares = {variant: stated.get(variant, 0.0) for variant in service.variants}
    if remainder is not None:
        shares[remainder] = max(0.0, 1 - sum(share for variant, share in shares.items() if variant != remainder))
    return shares, ""


def _course(
    settings: StackSettings, name: str, variant: str, time: ServiceTime, trace: RequestTrace, options: ServiceOptions
) -> ServiceCourse:
    """Return the variant of the stack file with this request time."""
    timed = settings.services[name].model_copy(update={"request_takes": time.takes})
    changed = settings.model_copy(update={"services": {**settings.services, name: timed}})
    return service_course(changed, pod_name(name, variant), trace, options)


def _hours(course: ServiceCourse, seed: int) -> Stretches:
    """Return the last days; the same for each variant, since only the load decides."""
    end = len(course.minutes.rates) * MINUTE_S
    span = TraceSpan(max(0.0, end - PLAYED_DAYS * DAY_S), end)
    return stretches(course.trace, course.factor, course.minutes, span, PLAYED_REQUESTS, seed)


def _alone(
    course: ServiceCourse, settings: VariantSettings, name: str, time: ServiceTime, hours: Stretches, seed: int
) -> VariantRow:
    service = course.service
    busiest = max((rate for rate in course.minutes.rates if rate is not None), default=0.0)
    most = max(service.most, round(ROOM * service.need(busiest))) if settings.scale.grows else service.most
    wide = replace(course, service=replace(service, most=most))
    return VariantRow(
        name=name,
        pod=_pod(settings),
        time=time,
        at_once=service.pod.at_once,
        usd_per_pod_hour=service.usd_per_pod_hour,
        most=most,
        outcome=outcome(wide, settings.scale.floor, hours, seed),
    )


def _pod(settings: VariantSettings) -> str:
    gpu = f", gpu {settings.gpu.count}" if settings.gpu.count else ""
    spot = ", spot" if settings.spot else ""
    return f"cpu {cpu_text(settings.cpu)}, memory {memory_text(settings.memory)}{gpu}{spot}"


def _mixed(parts: list[tuple[ServedRequests, float | None]], slo_s: float, hours: Stretches) -> SettingOutcome:
    usd = [None if price is None else served.pod_hours * price for served, price in parts]
    priced = [cost for cost in usd if cost is not None]
    result = result_of(together(served for served, _ in parts), slo_s, None)
    return SettingOutcome(
        result=replace(result, usd=sum(priced) if len(priced) == len(usd) else None), hours=hours.hours
    )


def as_json(advice: VariantAdvice) -> dict[str, Any]:
    """Return plain values; money in US dollars."""
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "service": advice.service,
        "trace": advice.trace,
        "requests_per_second": advice.requests_per_second,
        "hours": {"played": advice.hours.hours, "of": advice.hours.of_hours},
        "slo_s": advice.slo_s,
        "cheapest": None if advice.cheapest is None else advice.cheapest.name,
        "variants": {row.name: _row_json(row, advice.slo_s) for row in advice.rows},
        "shares": dict(advice.shares),
        "shared": None if advice.shared is None else _figures(advice.shared, advice.slo_s),
        "why_not_shared": advice.why_not_shared,
    }


def _row_json(row: VariantRow, slo_s: float) -> dict[str, Any]:
    return {
        "pod": row.pod,
        "request_s": row.time.takes.total_seconds(),
        "request_s_from": row.time.source,
        "at_once": row.at_once,
        "usd_per_pod_hour": row.usd_per_pod_hour,
        "max": row.most,
        **_figures(row.outcome, slo_s),
    }


def _figures(outcome: SettingOutcome, slo_s: float) -> dict[str, Any]:
    return {
        "keeps": _keeps(outcome, slo_s),
        "usd_per_1000": outcome.usd_per_1000,
        "month_usd": outcome.month_usd,
        **plain_values(outcome.result),
    }


def variant_names(service: ServiceSettings, name: str) -> Iterator[tuple[str, str]]:
    """Yield each variant's display name and key; a variant without a name is shown as its service."""
    for variant in service.variants:
        yield (name if variant == SINGLE_VARIANT else variant), variant
