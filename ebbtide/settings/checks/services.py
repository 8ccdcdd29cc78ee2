"""Services against each other and against what the stack stands on, as far as they can be read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from ebbtide.settings.checks.floors import FloorDraft, floor_drafts
from ebbtide.settings.file.pod_entries import named_entries, raw_pods
from ebbtide.settings.file.problems import Finding, Location, value_at
from ebbtide.settings.file.service_entries import SERVICES
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.entrance import CERTIFICATE
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.serving.gateway import Implementation, ServingSettings
from ebbtide.settings.sections.serving.routes import RouteSettings
from ebbtide.settings.sections.serving.scale import MetricSettings
from ebbtide.settings.sections.serving.services import ServiceSettings
from ebbtide.units.durations import format_duration

SERVING = "ebbtide:serving"

LONGEST_BEHIND_NLB = timedelta(seconds=350)
"""A network load balancer forgets a connection on which nothing is sent for so long, and a request that is being
computed sends nothing. Source: Elastic Load Balancing, "Network Load Balancers", connection idle timeout."""

_EKS_ALONE = {"public": "public", "sources": "sources", "certificate": "certificate", "proxies": "proxies"}
_EXISTING_ALONE = {"gateway_class": "gatewayClass", "implementation": "implementation", "keda": "keda"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDraft:
    route: RouteSettings | None
    longest: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesDraft:
    """What could not be read is nowhere."""

    services: Mapping[str, ServiceDraft]
    pods: tuple[tuple[Location, str], ...]  # where each variant stands, and the name of its pods
    external: tuple[tuple[Location, bool], ...]  # metrics by way of KEDA; whether the gateway counts it
    floors: tuple[FloorDraft, ...]
    workloads: frozenset[str]
    serving: ServingSettings | None
    given: frozenset[str]  # keys of the section of serving that the file has
    region: str | None
    no_public_subnets: str

    def findings(self, monitoring: PrometheusKind | None, *, existing: bool) -> Iterator[Finding]:
        yield from self._names_are_free()
        yield from self._routes_differ()
        yield from self._metrics_have_a_source(monitoring, existing=existing)
        for floor in self.floors:
            yield from floor.findings(monitoring)
        yield from self._keys_do_something(existing=existing)
        yield from self._gateway_is_there(existing=existing)
        if not existing:
            yield from self._balancer_waits_long_enough()
            yield from self._balancer_can_be_made()

    def _names_are_free(self) -> Iterator[Finding]:
        first: dict[str, str] = dict.fromkeys(self.workloads, "a workload")
        for at, name in self.pods:
            owner = first.setdefault(name, f"service {at[1]!r}")
            if owner != f"service {at[1]!r}":
                yield Finding(
                    code="name.taken",
                    at=at,
                    wanted="a name for its pods that no workload and no other service has",
                    found=f"{name!r}, which is the name of the pods of {owner}",
                    hint="pods are named SERVICE-VARIANT",
                )

    def _routes_differ(self) -> Iterator[Finding]:
        first: dict[tuple[str, str, str | None], str] = {}
        for name, service in self.services.items():
            if service.route is None:
                continue
            route = service.route
            key = (route.host, route.path.rstrip("/"), route.model)
            owner = first.setdefault(key, name)
            if owner != name:
                yield Finding(
                    code="route.taken",
                    at=(SERVICES, name, "route"),
                    wanted="a host, path and model of one service alone",
                    found=f"{route.host}{route.path}, which leads to service {owner!r}",
                    example=f"model: {name}",
                    hint="name a model, a path or a host of its own",
                )

    def _metrics_have_a_source(self, monitoring: PrometheusKind | None, *, existing: bool) -> Iterator[Finding]:
        if self.serving is None or monitoring is None:
            return
        told = self.serving.prometheus is not None or monitoring is PrometheusKind.BUNDLED
        for at, of_gateway in self.external:
            metric = str(at[-1])
            if not told:
                yield Finding(
                    code="scale.no-prometheus",
                    at=at,
                    wanted=f"a Prometheus, which {metric} is asked of",
                    found="none" if monitoring is PrometheusKind.NONE else "one whose address is not known",
                    example=f"{SERVING}: {{ prometheus: http://prometheus.monitoring.svc:9090 }}"
                    if existing or monitoring is PrometheusKind.EXISTING
                    else "ebbtide:monitoring: { prometheus: bundled }",
                    hint="cpu and memory need none",
                )
            elif existing and not self.serving.keda:
                yield Finding(
                    code="scale.no-keda",
                    at=at,
                    wanted="cpu or memory, on an existing cluster without KEDA",
                    found=metric,
                    example=f"{SERVING}: {{ keda: true }}",
                    hint="where KEDA is there, say so",
                )
            elif existing and of_gateway and self.serving.implementation is Implementation.OTHER:
                yield Finding(
                    code="scale.not-counted",
                    at=at,
                    wanted="cpu, memory, gpu, queue or query: how this gateway counts is not known",
                    found=metric,
                    example="query: { promql: sum(my_backlog), target: 10 }",
                )

    def _keys_do_something(self, *, existing: bool) -> Iterator[Finding]:
        wrong = _EKS_ALONE if existing else _EXISTING_ALONE
        for key in wrong.values():
            if key in self.given:
                yield Finding(
                    code="serving.other-cluster",
                    at=(SERVING, key),
                    wanted=f"this key with cluster.kind: {'eks' if existing else 'existing'} alone",
                    found="the key",
                    hint="the gateway of a cluster that is there has its own way in"
                    if existing
                    else "on EKS the stack brings a gateway and KEDA of its own",
                )

    def _gateway_is_there(self, *, existing: bool) -> Iterator[Finding]:
        routed = [name for name, it in self.services.items() if it.route is not None]
        if existing and routed and self.serving is not None and self.serving.gateway_class is None:
            yield Finding(
                code="serving.no-gateway",
                at=(SERVICES, routed[0], "route"),
                wanted="the GatewayClass of the cluster that serves it",
                found="none",
                example=f"{SERVING}: {{ gatewayClass: eg }}",
            )

    def _balancer_waits_long_enough(self) -> Iterator[Finding]:
        for name, it in self.services.items():
            if it.route is not None and it.longest is not None and it.longest > LONGEST_BEHIND_NLB:
                yield Finding(
                    code="service.longer-than-balancer",
                    at=(SERVICES, name, "longestRequest"),
                    wanted="at most 350s: the load balancer forgets a connection that is silent for longer",
                    found=format_duration(it.longest),
                    example="300s",
                    hint="longer work belongs in a queue, under ebbtide:workers",
                )

    def _balancer_can_be_made(self) -> Iterator[Finding]:
        serving = self.serving
        if serving is None:
            return
        if serving.public and self.no_public_subnets:
            yield Finding(
                code="expose.no-public-subnets",
                at=(SERVING, "public"),
                wanted=f"false: {self.no_public_subnets}",
                found="true",
                example="public: false",
            )
        place = re.fullmatch(CERTIFICATE, serving.certificate or "")
        if place is not None and self.region is not None and place[1] != self.region:
            yield Finding(
                code="expose.certificate-region",
                at=(SERVING, "certificate"),
                wanted=f"a certificate of the stack's region, {self.region}",
                found=f"one of {place[1]}",
                hint="a load balancer takes no other",
            )


def services_draft(config: Mapping[str, object], *, region: str | None, no_public_subnets: str) -> ServicesDraft:
    raw_serving = config.get(SERVING, {})
    read = readable(ServingSettings, raw_serving)
    whole = len(read) == len(ServingSettings.model_fields)
    return ServicesDraft(
        services={name: _service(raw) for name, raw in named_entries(config.get(SERVICES))},
        pods=tuple((pod.at, pod.name) for pod in raw_pods(config, (SERVICES,))),
        external=tuple(_external(config)),
        floors=tuple(floor_drafts(config)),
        workloads=frozenset(name for name, _ in named_entries(config.get("ebbtide:workloads"))),
        serving=ServingSettings.model_construct(None, **read) if whole else None,
        given=frozenset(key for key, _ in named_entries(raw_serving)),
        region=region,
        no_public_subnets=no_public_subnets,
    )


def _service(raw: object) -> ServiceDraft:
    read = readable(ServiceSettings, raw)
    return ServiceDraft(route=read.get("route"), longest=read.get("longest_request"))


def _external(config: Mapping[str, object]) -> Iterator[tuple[Location, bool]]:
    for pod in raw_pods(config, (SERVICES,)):
        read = readable(MetricSettings, value_at(pod.raw, ("scale", "metrics")))
        metrics = MetricSettings.model_construct(None, **{name: read.get(name) for name in MetricSettings.model_fields})
        for key in metrics.external:
            yield (*pod.at, "scale", "metrics", key), key in metrics.of_gateway
