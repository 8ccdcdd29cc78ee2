"""Check services, and the floors of their scale, against each other and against the other sections."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import combinations

from ebbtide.settings.capacity.pods import idle_prometheus
from ebbtide.settings.checks.entrances import certificate_of_another_region, no_public_subnets
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.entries import pod_entries
from ebbtide.settings.file.keys import (
    ADOPTED,
    CLUSTER,
    MONITORING,
    NETWORK,
    SECRETS,
    SERVICES,
    SERVING,
    VARIANTS,
    WORKLOADS,
)
from ebbtide.settings.file.problems import Finding, Location, did_you_mean, value_at
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.monitoring import MonitoringSettings, PrometheusKind
from ebbtide.settings.sections.secrets import set_command
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS, Implementation
from ebbtide.settings.sections.serving.routes import RouteProtocol, When, matches
from ebbtide.settings.sections.serving.scale import EventSettings, FloorKind, ScaleSettings
from ebbtide.settings.sections.serving.services import ServiceSettings
from ebbtide.settings.sections.sleep import SleepTimes
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.durations import format_duration

_EKS_ALONE = ("public", "sources", "certificate", "proxies")
_EXISTING_ALONE = ("gatewayClass", "implementation", "keda")


def _names_are_free(parsed: ParsedSections) -> Iterator[Finding]:
    first: dict[str, str] = dict.fromkeys(parsed.names(WORKLOADS), "a workload")
    pods = [*pod_entries(parsed.config, (SERVICES,))]
    for at, name, _ in pods:
        owner = first.setdefault(name, f"service {at[1]!r}")
        if owner != f"service {at[1]!r}":
            yield Finding(
                code="name.taken",
                at=at,
                wanted="a name for its pods that no workload and no other service has",
                found=f"{name!r}, which is the name of the pods of {owner}",
                hint="pods are named SERVICE-VARIANT",
            )
    for at, _, raw in pods:
        owner = first.setdefault(str(at[1]), f"service {at[1]!r}")
        if value_at(raw, ("spot",)) is True and owner != f"service {at[1]!r}":
            yield Finding(
                code="name.taken",
                at=(*at, "spot"),
                wanted="a service name that no other pods have: its Service in the cluster has the same name",
                found=f"{str(at[1])!r}, which is the name of the pods of {owner}",
            )


def _routes_differ(parsed: ParsedSections) -> Iterator[Finding]:
    """Compare rendered matches, since a model may also be in the path. One finding per service."""
    first: dict[tuple[object, ...], tuple[str, Location, When | None]] = {}
    for name, service in parsed.stack.services.items():
        route = service.route
        if route is None:
            continue
        claims = [(at, when, match) for at, when in _whens(name, service) for match in matches(route, when)]
        for at, when, match in claims:
            owner, owner_at, owner_when = first.setdefault((route.host, *match.key), (name, at, when))
            if owner_at == at or (owner == name and when == owner_when):  # reported by the service's own check
                continue
            yield _taken(
                name, at, f"{route.host}{match.text}", _whose(owner, owner_at) if owner == name else repr(owner)
            )
            break


def _whens(name: str, service: ServiceSettings) -> Iterator[tuple[Location, When | None]]:
    """Yield the conditions of a service's route. Variants without a condition share one."""
    yield (SERVICES, name, "route"), None
    for variant, settings in service.variants.items():
        if settings.when is not None:
            yield (SERVICES, name, VARIANTS, variant, "when"), settings.when


def _whose(service: str, at: Location) -> str:
    return f"variant {at[3]!r} of {service!r}" if len(at) > 3 else f"{service!r} itself"


def _taken(service: str, at: Location, requests: str, owner: str) -> Finding:
    return Finding(
        code="route.taken",
        at=at,
        wanted="requests of only one service, and of one of its variants",
        found=f"{requests}, which leads to {owner}",
        example=f"model: {service}",
        hint="name its own model, path or host",
    )


def _metrics_have_a_source(parsed: ParsedSections) -> Iterator[Finding]:
    for name, service in parsed.stack.services.items():
        for variant, settings in service.variants.items():
            at: Location = (SERVICES, name, VARIANTS, variant, "scale", "metrics")
            for metric in settings.scale.metrics.external:
                yield from _metric_has_source(
                    parsed, (*at, metric), of_gateway=metric in settings.scale.metrics.of_gateway
                )


def _metric_has_source(parsed: ParsedSections, at: Location, *, of_gateway: bool) -> Iterator[Finding]:
    metric, serving, monitoring = str(at[-1]), parsed.stack.serving, parsed.stack.monitoring
    if serving.prometheus is None and monitoring.address is None:
        yield Finding(
            code="scale.no-prometheus",
            at=at,
            wanted=f"a Prometheus that is queried for {metric}",
            found="none" if monitoring.prometheus is PrometheusKind.NONE else "one whose address is not known",
            example=f"{SERVING}: {{ prometheus: http://prometheus.monitoring.svc:9090 }}"
            if parsed.existing or monitoring.prometheus is PrometheusKind.EXISTING
            else "ebbtide:monitoring: { prometheus: bundled }",
            hint="cpu and memory need none",
        )
    elif parsed.existing and not serving.keda:
        yield Finding(
            code="scale.no-keda",
            at=at,
            wanted="cpu or memory, on an existing cluster without KEDA",
            found=metric,
            example=f"{SERVING}: {{ keda: true }}",
            hint="set it if the cluster has KEDA",
        )
    elif parsed.existing and of_gateway and serving.implementation is Implementation.OTHER:
        yield Finding(
            code="scale.not-counted",
            at=at,
            wanted="cpu, memory, gpu, queue or query: it is unknown how this gateway counts",
            found=metric,
            example="query: { promql: sum(my_backlog), target: 10 }",
        )


def _keys_have_effect(parsed: ParsedSections) -> Iterator[Finding]:
    keys = parsed.names(SERVING)
    for key in _EKS_ALONE if parsed.existing else _EXISTING_ALONE:
        if key in keys:
            yield Finding(
                code="serving.other-cluster",
                at=(SERVING, key),
                wanted=f"this key only with cluster.kind: {'eks' if parsed.existing else 'existing'}",
                found="the key",
                hint="the gateway of an existing cluster has its own entrance"
                if parsed.existing
                else "on EKS the stack brings its own gateway and KEDA",
            )


def _gateway_exists(parsed: ParsedSections) -> Iterator[Finding]:
    routed = [name for name, service in parsed.stack.services.items() if service.route is not None]
    if parsed.existing and routed and parsed.stack.serving.gateway_class is None:
        yield Finding(
            code="serving.no-gateway",
            at=(SERVICES, routed[0], "route"),
            wanted="the GatewayClass of the cluster that serves it",
            found="none",
            example=f"{SERVING}: {{ gatewayClass: eg }}",
        )


def _load_balancer_has_subnets(parsed: ParsedSections) -> Iterator[Finding]:
    if parsed.stack.serving.public:
        yield from no_public_subnets((SERVING, "public"), parsed.stack.network)


def _certificate_is_in_region(parsed: ParsedSections) -> Iterator[Finding]:
    yield from certificate_of_another_region(
        (SERVING, "certificate"), parsed.stack.serving.certificate, parsed.stack.region
    )


def _grpc_finds_http2(parsed: ParsedSections) -> Iterator[Finding]:
    """EKS' Service controller cannot set an ALPN policy, and without ALPN clients use HTTP/1.1."""
    for name, service in parsed.stack.services.items() if parsed.stack.serving.certificate is not None else ():
        if service.route is not None and service.route.protocol is RouteProtocol.GRPC:
            yield Finding(
                code="route.grpc-certificate",
                at=(SERVICES, name, "route", "protocol"),
                wanted="http together with serving.certificate, since the load balancer's TLS offers no HTTP/2",
                found="grpc",
                example="http",
                hint="gRPC clients need HTTP/2: use serving.tls, with which the gateway terminates TLS",
            )


def _secrets_exist(parsed: ParsedSections) -> Iterator[Finding]:
    """The stack creates the namespaces of the gateway and KEDA, so they cannot hold external Secrets."""
    names, serving = parsed.names(SECRETS), parsed.stack.serving
    if serving.tls is not None and serving.tls not in names:
        yield Finding(
            code="serving.tls-unknown",
            at=(SERVING, "tls"),
            wanted=f"a Secret of {SECRETS}",
            found=repr(serving.tls),
            hint=did_you_mean(serving.tls, names) or set_command(serving.tls, GATEWAY_TLS_KEYS[0]),
        )
    for key, reference in serving.prometheus_access.held if serving.prometheus_access is not None else ():
        if reference.secret not in names:
            yield Finding(
                code="serving.secret-unknown",
                at=(SERVING, "prometheusAccess", key, "secret"),
                wanted=f"a Secret of {SECRETS}",
                found=repr(reference.secret),
                hint=did_you_mean(reference.secret, names) or set_command(reference.secret, reference.key),
            )


FORECAST_HISTORY = timedelta(days=8)
"""A forecast queries this time of day, and an hour before it, on each of the last seven days."""


def _scales(parsed: ParsedSections) -> Iterator[tuple[Location, ScaleSettings]]:
    for name, service in parsed.stack.services.items():
        for variant, settings in service.variants.items():
            yield (SERVICES, name, VARIANTS, variant, "scale"), settings.scale


def _lie_between_min_and_max(parsed: ParsedSections) -> Iterator[Finding]:
    for at, scale in _scales(parsed):
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
            wanted=f"{key} above min, which is {scale.min}: that many pods always run",
            found=f"{pods}",
            example=f"{scale.min + 1}",
        )


def _events_are_apart(parsed: ParsedSections) -> Iterator[Finding]:
    for at, scale in _scales(parsed):
        yield from _overlaps(at, scale.events)


def _overlaps(at: Location, events: Sequence[EventSettings]) -> Iterator[Finding]:
    """Yield each event that overlaps an earlier one, once: their numbers of pods would contradict."""
    by_time = sorted(enumerate(events), key=lambda item: (item[1].at, item[0]))
    reported: set[int] = set()
    for (_, earlier), (index, later) in combinations(by_time, 2):
        if later.at < earlier.until and index not in reported:
            reported.add(index)
            yield Finding(
                code="floor.events-overlap",
                at=(*at, "events", index, "at"),
                wanted="events one after the other",
                found=f"{later.at:%Y-%m-%dT%H:%M}, while the one of {earlier.at:%Y-%m-%dT%H:%M} lasts until "
                f"{earlier.until:%Y-%m-%dT%H:%M}",
                example=f'"{earlier.until:%Y-%m-%dT%H:%M}"',
            )


def _forecasts_have_history(parsed: ParsedSections) -> Iterator[Finding]:
    for at, scale in _scales(parsed):
        if scale.floor is FloorKind.FORECAST:
            yield from _has_history((*at, "floor"), parsed.stack.monitoring)


def _has_history(at: Location, monitoring: MonitoringSettings) -> Iterator[Finding]:
    if monitoring.prometheus is PrometheusKind.NONE:
        yield Finding(
            code="floor.no-prometheus",
            at=at,
            wanted="a Prometheus of this stack, whose rules make the forecast, or floor: calendar",
            found="ebbtide:monitoring without one",
            example="ebbtide:monitoring: { prometheus: bundled }",
        )
    elif monitoring.prometheus is PrometheusKind.BUNDLED and monitoring.kept_for < FORECAST_HISTORY:
        yield Finding(
            code="floor.short-memory",
            at=at,
            wanted=f"monitoring.retention of {FORECAST_HISTORY.days}d or more: a forecast uses the last seven days",
            found=format_duration(monitoring.kept_for),
            example="retention: 30d",
        )


def _idle_is_measured(parsed: ParsedSections) -> Iterator[Finding]:
    sleeps = ((it.at, it.pod.sleep) for it in parsed.pods if isinstance(it.pod, WorkloadSettings))
    yield from _unmeasured(parsed, sleeps)


def _idle_of_adopted_pods_is_measured(parsed: ParsedSections) -> Iterator[Finding]:
    yield from _unmeasured(parsed, (((ADOPTED, name), rule.sleep) for name, rule in parsed.stack.adopted.items()))


def _unmeasured(parsed: ParsedSections, sleeps: Iterable[tuple[Location, SleepTimes | None]]) -> Iterator[Finding]:
    for at, sleep in sleeps:
        if sleep is not None and sleep.idle_for is not None and not idle_prometheus(parsed.stack):
            yield Finding(
                code="sleep.no-prometheus",
                at=(*at, "sleep", "when"),
                wanted="a Prometheus that shows what is idle, at a known address and without credentials",
                found="idle without one",
                example="ebbtide:monitoring: { prometheus: bundled }",
            )


RULES = (
    CheckRule((), _names_are_free),
    CheckRule((SERVICES,), _routes_differ),
    CheckRule((SERVICES, SERVING, MONITORING, CLUSTER), _metrics_have_a_source),
    CheckRule((CLUSTER,), _keys_have_effect),
    CheckRule((SERVICES, SERVING, CLUSTER), _gateway_exists),
    CheckRule((SERVING, NETWORK, CLUSTER), _load_balancer_has_subnets, on=ClusterKind.EKS),
    CheckRule((SERVING, REGION, CLUSTER), _certificate_is_in_region, on=ClusterKind.EKS),
    CheckRule((SERVICES, SERVING, CLUSTER), _grpc_finds_http2, on=ClusterKind.EKS),
    CheckRule((SERVING, CLUSTER), _secrets_exist, on=ClusterKind.EKS),
    CheckRule((SERVICES,), _lie_between_min_and_max),
    CheckRule((SERVICES,), _events_are_apart),
    CheckRule((SERVICES, MONITORING), _forecasts_have_history),
    CheckRule((SERVING, MONITORING), _idle_is_measured),
    CheckRule((ADOPTED, SERVING, MONITORING), _idle_of_adopted_pods_is_measured),
)
