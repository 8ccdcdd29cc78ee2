"""Recording rules and alerts about services.

**The error budget** is the share of requests that `slo.errors` lets fail in 30 days. Two pairs of windows watch it: at
14.4 times the rate that uses it up in 30 days, one hour takes 2 % of it, and at 6 times, six hours take 5 %. The short
window of each pair ends the alert soon after the fault. Source: Google, The Site Reliability Workbook, chapter 5,
table 5-8.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from ebbtide.monitoring import forecast
from ebbtide.monitoring.closed_days import closed_day
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Alert, AlertSeverity, Metrics, RecordingRule
from ebbtide.monitoring.serving import (
    CONNECTED,
    PERCENTILE,
    counts_requests,
    envoy_cluster,
    failed_share,
    failing_query,
    for_each_pod,
    gpu_query,
    in_flight_query,
    of_gateway,
    quantile,
    queue_query,
    throughput_query,
    turned_away_query,
)
from ebbtide.settings.capacity.process_documents import lead_of
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.calendars import coming_years
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings, pod_name
from ebbtide.text.durations import latency_text
from ebbtide.vocabulary.labels import NAMESPACE

BURNS = (
    (14.4, Recorded.ERRORS_1H, Recorded.ERRORS_5M),
    (6.0, Recorded.ERRORS_6H, Recorded.ERRORS_30M),
)
_WINDOWS = {
    Recorded.ERRORS_5M: timedelta(minutes=5),
    Recorded.ERRORS_30M: timedelta(minutes=30),
    Recorded.ERRORS_1H: timedelta(hours=1),
    Recorded.ERRORS_6H: timedelta(hours=6),
}
_LATELY = timedelta(minutes=5)
_SOON, _SHORT, _WHILE = timedelta(minutes=3), timedelta(minutes=10), timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    of: Metrics
    service: str
    name: str
    settings: VariantSettings
    lead: timedelta  # until a new node and its pod are ready
    cluster: str | None  # None without a route: its requests are not counted
    shared: bool  # other variants share its load
    tells: bool  # True if its series hold the cluster's counts; one variant does so for a shared cluster
    last: bool  # True if no other variant grows after it

    @property
    def pods(self) -> str:
        return pod_name(self.service, self.name)

    @property
    def labels(self) -> Mapping[str, str]:
        return {"service": self.service, "variant": self.name}

    def recorded(self, record: Recorded) -> str:
        return record.of(self.of.customer, **self.labels)

    def of_hpa(self, metric: str) -> str:
        return self.of.highest(f"hpa_{metric}", namespace=NAMESPACE, hpa=self.pods)


def serving_recordings(settings: StackSettings) -> Iterator[RecordingRule]:
    """Yield the rules in the order of their evaluation: the kind of day comes first."""
    if any(
        variant.cluster is not None and variant.settings.scale.floor is FloorKind.FORECAST
        for variant in _variants(settings)
    ):
        hours = settings.business_hours.hours()
        expr = closed_day(hours, date(min(coming_years()), 1, 1))
        yield RecordingRule(record=Recorded.CLOSED_DAY, expr=expr, labels={CUSTOMER: settings.customer})
    for variant in _variants(settings):
        for record, expr in _of_variant(variant).items():
            # GPU metrics of an existing cluster have no label `customer`.
            yield RecordingRule(record=record, expr=expr, labels={CUSTOMER: settings.customer, **variant.labels})
    for name, service, clusters in _routed(settings):
        labels = {"service": name}
        for record, window in _WINDOWS.items():
            yield RecordingRule(record=record, expr=failed_share(settings.customer, clusters, window), labels=labels)
        if service.slo is not None:
            share = f"sum by ({CUSTOMER}) ({Recorded.ERRORS_1H.of(settings.customer, service=name)})"
            spent = f"max by ({CUSTOMER}) ({share} / {_budget(service):g})"
            yield RecordingRule(record=Recorded.BURN, expr=spent, labels=labels)
    if any(_routed(settings)):
        yield RecordingRule(record=Recorded.NO_POD, expr=of_gateway(settings.customer))


def _of_variant(variant: _Variant) -> Mapping[Recorded, str]:
    expressions: dict[Recorded, str] = {}
    if variant.cluster is not None and variant.tells:
        customer, clusters = variant.of.customer, [variant.cluster]
        expressions |= {
            Recorded.IN_FLIGHT: in_flight_query(customer, clusters),
            Recorded.MEDIAN_LATENCY: quantile(customer, clusters, 0.5, _LATELY),
            Recorded.P95_LATENCY: quantile(customer, clusters, PERCENTILE, _LATELY),
            Recorded.THROUGHPUT: throughput_query(customer, clusters),
            Recorded.FAILING: failing_query(customer, clusters, _LATELY),
            Recorded.TURNED_AWAY: turned_away_query(customer, clusters, _LATELY),
        }
    if variant.settings.scale.grows:
        expressions |= {
            Recorded.PODS: variant.of_hpa("replicas"),
            Recorded.PODS_WANTED: variant.of_hpa("wanted_replicas"),
            Recorded.PODS_AT_MOST: variant.of_hpa("max_replicas"),
        }
    if variant.cluster is not None and variant.settings.scale.floor is FloorKind.FORECAST:
        expressions |= _forecast(variant)
    if variant.settings.gpu.count:
        expressions[Recorded.GPU_BUSY] = gpu_query(variant.pods)
    return expressions


def _forecast(variant: _Variant) -> Mapping[Recorded, str]:
    """Return the rules in their order. With both metrics inFlight is used, since it includes waiting requests."""
    metrics = variant.settings.scale.metrics
    counted, target = (
        (Recorded.THROUGHPUT, metrics.throughput)
        if metrics.in_flight is None
        else (Recorded.IN_FLIGHT, metrics.in_flight)
    )
    if target is None:
        return {}
    series, usual, level = (variant.recorded(record) for record in (counted, Recorded.USUAL, Recorded.LEVEL))
    closed = Recorded.CLOSED_DAY.of(variant.of.customer)
    scale, ahead = variant.settings.scale, forecast.horizon(variant.lead)
    return {
        Recorded.USUAL: forecast.usual(series, closed, ahead),
        Recorded.LEVEL: forecast.level(series, closed, target),
        Recorded.FORECAST_PODS: forecast.pods(
            series, target, ahead, usual=usual, level=level, margin=scale.margin, most=scale.max
        ),
    }


def serving_alerts(settings: StackSettings) -> Iterator[Alert]:
    for name, service, clusters in _routed(settings):
        yield from _of_slo(settings.customer, name, service, clusters)
    for variant in _variants(settings):
        yield from _of_scaling(variant)
    if any(_routed(settings)):
        yield from _of_the_gateway(settings.customer)


def _of_slo(customer: str, name: str, service: ServiceSettings, clusters: list[str]) -> Iterator[Alert]:
    if service.slo is None:
        return
    labels = {"service": name}
    p95 = service.slo.p95.total_seconds()
    yield Alert(
        name="EbbtideServiceSlow",
        expr=f"{quantile(customer, clusters, PERCENTILE, _LATELY)} > {p95:g}",
        lasting=_SHORT,
        severity=AlertSeverity.CRITICAL,
        summary=f"5 in 100 answers of {name} take longer than {{{{ $value | humanizeDuration }}}}, and slo.p95 "
        f"says {latency_text(service.slo.p95)}.",
        runbook="service-slow",
        stacks="for services with `slo` and a route",
        labels=labels,
    )
    budget = _budget(service)
    burns = [
        f"({long.of(customer, service=name)} > {factor * budget:g} and on (customer, service) "
        f"{short.of(customer, service=name)} > {factor * budget:g})"
        for factor, long, short in BURNS
    ]
    yield Alert(
        name="EbbtideServiceBurnsErrorBudget",
        expr=f"max by (customer, service) ({' or '.join(burns)})",
        lasting=timedelta(minutes=2),
        severity=AlertSeverity.CRITICAL,
        summary=f"{{{{ $value | humanizePercentage }}}} of the requests to {name} fail, and slo.errors allows "
        f"{service.slo.errors:g}%.",
        runbook="service-burns-error-budget",
        stacks="for services with `slo` and a route",
        labels=labels,
    )


def _of_scaling(variant: _Variant) -> Iterator[Alert]:
    scale = variant.settings.scale
    if not scale.grows:
        return
    called = f"the pods {variant.pods}"
    target = scale.metrics.in_flight
    if target is not None and variant.cluster is not None and variant.last:
        in_flight = in_flight_query(variant.of.customer, [variant.cluster])
        most, of_what = target * scale.max, ""
        if variant.shared:
            in_flight, most = for_each_pod(variant.of.customer, [variant.cluster], in_flight), target
            of_what = " for each pod of the service"
        yield Alert(
            name="EbbtideServiceAtMax",
            expr=f"({in_flight}) > {most:g} and on ({CUSTOMER}) ({variant.of_hpa('replicas')} >= {scale.max})",
            lasting=_WHILE,
            severity=AlertSeverity.WARNING,
            summary=f"The pods {variant.pods} are at their max of {scale.max}, with {{{{ $value | humanize }}}} "
            f"requests in flight{of_what}: the target for each pod is {target:g}.",
            runbook="service-at-max",
            stacks="for variants that scale by `inFlight`",
            labels=variant.labels,
        )
    awake = f"({variant.of_hpa('replicas')} > 0)"
    blind = f"{variant.of_hpa('scaling_active')} == 0 and on ({CUSTOMER}) {awake}"
    # A service that sleeps has no pods that report their queue.
    unless_asleep = f" and on () {awake}" if scale.min == 0 else ""
    missing = [f"absent({query}){unless_asleep}" for query in _needed(variant)]
    yield Alert(
        name="EbbtideServiceMetricMissing",
        expr=f"max by ({CUSTOMER}) ({' or '.join([blind, *missing])})",
        # Pods that have not started have no CPU and memory metrics.
        lasting=_SOON + (variant.settings.starts_within if scale.metrics.of_pods else timedelta()),
        severity=AlertSeverity.CRITICAL,
        summary=f"A metric that {called} scale by is missing: their number stays as it is, whatever the load.",
        runbook="service-metric-missing",
        fires_after="with `cpu` or `memory` after `startsWithin`, + 3 min",
        labels=variant.labels,
    )


def _needed(variant: _Variant) -> Iterator[str]:
    """Yield the triggers' queries, but not the file's `query`: a mistake in it makes Prometheus refuse all rules."""
    metrics = variant.settings.scale.metrics
    if variant.cluster is not None and metrics.of_gateway:
        yield in_flight_query(variant.of.customer, [variant.cluster])
    if metrics.queue is not None:
        yield queue_query(variant.of.customer, metrics.queue.metric, variant.pods)
    if metrics.gpu is not None:
        yield gpu_query(variant.pods)


def _of_the_gateway(customer: str) -> Iterator[Alert]:
    connected = f'{CONNECTED}{{{CUSTOMER}="{customer}"}}'
    yield Alert(
        name="EbbtideGatewayProxiesFew",
        expr=f"count by ({CUSTOMER}) ({connected}) < 2 or absent({connected})",
        lasting=_SHORT,
        severity=AlertSeverity.CRITICAL,
        summary="Fewer than two of the gateway's Envoys are seen: if the last one fails, no request is answered.",
        runbook="gateway-proxies-few",
    )
    yield Alert(
        name="EbbtideGatewayUnled",
        expr=f"max by ({CUSTOMER}) ({connected}) == 0",
        lasting=_SOON,
        severity=AlertSeverity.CRITICAL,
        summary="No Envoy of the gateway hears from Envoy Gateway: requests go only to pods that it knew before.",
        runbook="gateway-unled",
    )


def _budget(service: ServiceSettings) -> float:
    """Return the budget as a fraction."""
    return 0.0 if service.slo is None else service.slo.errors / 100


def _variants(settings: StackSettings) -> Iterator[_Variant]:
    counted = {name for name, _, _ in _routed(settings)}
    for name, service in sorted(settings.services.items()):
        for variant, variant_settings in service.variants.items():
            cluster = envoy_cluster(settings, name, variant) if name in counted else None
            base = service.base
            yield _Variant(
                of=Metrics(settings.customer),
                service=name,
                name=variant,
                settings=variant_settings,
                lead=lead_of(settings, variant_settings),
                cluster=cluster,
                shared=pod_name(name, variant) in service.sharing(name),
                tells=not variant_settings.spot,
                last=not (variant_settings.spot and base is not None and service.variants[base].scale.grows),
            )


def _routed(settings: StackSettings) -> Iterator[tuple[str, ServiceSettings, list[str]]]:
    """Yield services whose requests a known gateway counts, with their names in Envoy."""
    for name, service in sorted(settings.services.items()):
        if service.route is not None and counts_requests(settings):
            clusters = (envoy_cluster(settings, name, variant) for variant in service.variants)
            yield name, service, [*dict.fromkeys(clusters)]
