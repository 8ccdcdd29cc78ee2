"""Services against each other and against what the stack stands on, as far as they can be read."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ebbtide.settings.checks.floors import FloorDraft, floor_drafts
from ebbtide.settings.file.pod_entries import named_entries, raw_pods
from ebbtide.settings.file.problems import Finding, Location, did_you_mean, value_at
from ebbtide.settings.file.service_entries import SERVICES, VARIANTS
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.entrance import CERTIFICATE
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.secrets import SECRETS, SecretReference, set_command
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS, Implementation, ServingSettings
from ebbtide.settings.sections.serving.matches import Match, matches
from ebbtide.settings.sections.serving.routes import RouteProtocol, RouteSettings, When
from ebbtide.settings.sections.serving.scale import MetricSettings
from ebbtide.settings.sections.serving.services import ServiceSettings, VariantSettings
from ebbtide.settings.sections.workloads import Vertical, WorkloadSettings

SERVING = "ebbtide:serving"
WORKLOADS = "ebbtide:workloads"

PROMETHEUS_ACCESS = "prometheusAccess"

_EKS_ALONE = {"public": "public", "sources": "sources", "certificate": "certificate", "proxies": "proxies"}
_EXISTING_ALONE = {"gateway_class": "gatewayClass", "implementation": "implementation", "keda": "keda"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDraft:
    route: RouteSettings | None
    whens: tuple[tuple[Location, When | None], ...]  # where each choice among variants stands; the rest first

    @property
    def claims(self) -> Iterator[tuple[Location, When | None, Match]]:
        """What the service wants to answer."""
        if self.route is not None:
            for at, when in self.whens:
                yield from ((at, when, match) for match in matches(self.route, when))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesDraft:
    """What could not be read is nowhere."""

    services: Mapping[str, ServiceDraft]
    pods: tuple[tuple[Location, str], ...]  # where each variant stands, and the name of its pods
    shared: tuple[
        tuple[Location, str], ...
    ]  # Services over several variants: where a variant on spot stands, and a name
    external: tuple[tuple[Location, bool], ...]  # metrics by way of KEDA; whether the gateway counts it
    vertical: bool  # requests are set by the Vertical Pod Autoscaler
    floors: tuple[FloorDraft, ...]
    workloads: frozenset[str]
    serving: ServingSettings | None
    given: frozenset[str]  # keys of the section of serving that the file has
    region: str | None
    no_public_subnets: str

    def images(self) -> Iterator[str]:
        """The keys of the images that come along, or may."""
        if self.external:
            yield from ("keda", "kedaMetrics")
        if any(it.route is not None for it in self.services.values()):
            yield from ("envoyGateway", "envoy")
        if self.vertical:
            yield from ("vpaRecommender", "vpaUpdater", "vpaAdmission", "vpaCertgen")

    def findings(
        self, monitoring: PrometheusKind | None, secrets: Collection[str], *, existing: bool
    ) -> Iterator[Finding]:
        yield from self._names_are_free()
        yield from self._routes_differ()
        yield from self._metrics_have_a_source(monitoring, existing=existing)
        for floor in self.floors:
            yield from floor.findings(monitoring)
        yield from self._keys_do_something(existing=existing)
        yield from self._gateway_is_there(existing=existing)
        if not existing:
            yield from self._balancer_can_be_made()
            yield from self._grpc_finds_http2()
            yield from self._certificate_is_there(secrets)
            yield from self._secrets_of_prometheus_are_there(secrets)

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
        for at, name in self.shared:
            owner = first.setdefault(name, f"service {name!r}")
            if owner != f"service {name!r}":
                yield Finding(
                    code="name.taken",
                    at=at,
                    wanted="a name of its service that no other pods have: its Service in the cluster is called so",
                    found=f"{name!r}, which is the name of the pods of {owner}",
                )

    def _routes_differ(self) -> Iterator[Finding]:
        """By what the gateway is told, since a model stands in the path too. One finding for each service."""
        first: dict[tuple[object, ...], tuple[str, Location, When | None]] = {}
        for name, service in self.services.items():
            for at, when, match in service.claims:
                host = "" if service.route is None else service.route.host
                owner, there, other = first.setdefault((host, *match.key), (name, at, when))
                if there == at or (owner == name and when == other):  # the service itself is told of two alike
                    continue
                yield _taken(name, at, f"{host}{match.text}", _whose(owner, there) if owner == name else repr(owner))
                break

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

    def _grpc_finds_http2(self) -> Iterator[Finding]:
        """The Service controller of EKS can set no ALPN policy, and without ALPN a client speaks HTTP/1.1."""
        if self.serving is None or self.serving.certificate is None:
            return
        for name, it in self.services.items():
            if it.route is not None and it.route.protocol is RouteProtocol.GRPC:
                yield Finding(
                    code="route.grpc-certificate",
                    at=(SERVICES, name, "route", "protocol"),
                    wanted="http beside serving.certificate, since the load balancer's TLS offers no HTTP/2",
                    found="grpc",
                    example="http",
                    hint="gRPC clients need it offered: use serving.tls, with which the gateway ends TLS",
                )

    def _certificate_is_there(self, secrets: Collection[str]) -> Iterator[Finding]:
        """The namespace of the gateway is made by the stack: nobody could have put a Secret there before."""
        tls = None if self.serving is None else self.serving.tls
        if tls is not None and tls not in secrets:
            yield Finding(
                code="serving.tls-unknown",
                at=(SERVING, "tls"),
                wanted=f"a Secret of {SECRETS}",
                found=repr(tls),
                hint=did_you_mean(tls, tuple(secrets)) or set_command(tls, GATEWAY_TLS_KEYS[0]),
            )

    def _secrets_of_prometheus_are_there(self, secrets: Collection[str]) -> Iterator[Finding]:
        """KEDA reads Secrets of its own namespace alone, which is made by the stack too."""
        access = None if self.serving is None else self.serving.prometheus_access
        for key, held in access.held if access is not None else ():
            if held.secret not in secrets:
                yield Finding(
                    code="serving.secret-unknown",
                    at=(SERVING, PROMETHEUS_ACCESS, key, "secret"),
                    wanted=f"a Secret of {SECRETS}",
                    found=repr(held.secret),
                    hint=did_you_mean(held.secret, tuple(secrets)) or set_command(held.secret, held.key),
                )


def _whose(service: str, at: Location) -> str:
    return f"variant {at[3]!r} of {service!r}" if len(at) > 3 else f"{service!r} itself"


def serving_references(config: Mapping[str, object]) -> Iterator[SecretReference]:
    read = readable(ServingSettings, config.get(SERVING, {}))
    tls, access = read.get("tls"), read.get("prometheus_access")
    if tls is not None:
        yield SecretReference((SERVING, "tls"), tls, GATEWAY_TLS_KEYS)
    for key, held in access.held if access is not None else ():
        yield SecretReference((SERVING, PROMETHEUS_ACCESS, key, "key"), held.secret, (held.key,))


def _taken(service: str, at: Location, requests: str, owner: str) -> Finding:
    return Finding(
        code="route.taken",
        at=at,
        wanted="requests of one service alone, and of one of its variants",
        found=f"{requests}, which leads to {owner}",
        example=f"model: {service}",
        hint="name a model, a path or a host of its own",
    )


def services_draft(config: Mapping[str, object], *, region: str | None, no_public_subnets: str) -> ServicesDraft:
    raw_serving = config.get(SERVING, {})
    read = readable(ServingSettings, raw_serving)
    whole = len(read) == len(ServingSettings.model_fields)
    return ServicesDraft(
        services={name: _service(name, raw) for name, raw in named_entries(config.get(SERVICES))},
        pods=tuple((pod.at, pod.name) for pod in raw_pods(config, (SERVICES,))),
        shared=tuple(_shared(config)),
        external=tuple(
            ((*at, key), key in metrics.of_gateway) for at, metrics in _metrics(config) for key in metrics.external
        ),
        vertical=any(_verticals(config)),
        floors=tuple(floor_drafts(config)),
        workloads=frozenset(name for name, _ in named_entries(config.get(WORKLOADS))),
        serving=ServingSettings.model_construct(None, **read) if whole else None,
        given=frozenset(key for key, _ in named_entries(raw_serving)),
        region=region,
        no_public_subnets=no_public_subnets,
    )


def _service(name: str, raw: object) -> ServiceDraft:
    read = readable(ServiceSettings, raw)
    return ServiceDraft(route=read.get("route"), whens=tuple(_whens((SERVICES, name), raw)))


def _whens(at: Location, raw: object) -> Iterator[tuple[Location, When | None]]:
    """Variants with weights have one choice in common, as have those without a condition."""
    conditions = [
        ((*at, VARIANTS, variant, "when"), readable(VariantSettings, inner).get("when"))
        for variant, inner in named_entries(value_at(raw, (VARIANTS,)))
    ]
    yield (*at, "route"), None
    yield from ((where, when) for where, when in conditions if when is not None)


def _shared(config: Mapping[str, object]) -> Iterator[tuple[Location, str]]:
    for pod in raw_pods(config, (SERVICES,)):
        if value_at(pod.raw, ("spot",)) is True:
            yield (*pod.at, "spot"), str(pod.at[1])


def _metrics(config: Mapping[str, object]) -> Iterator[tuple[Location, MetricSettings]]:
    for pod in raw_pods(config, (SERVICES,)):
        read = readable(MetricSettings, value_at(pod.raw, ("scale", "metrics")))
        known = {name: read.get(name) for name in MetricSettings.model_fields}
        yield (*pod.at, "scale", "metrics"), MetricSettings.model_construct(None, **known)


def _verticals(config: Mapping[str, object]) -> Iterator[bool]:
    models: Mapping[str, type[PodSettings]] = {SERVICES: VariantSettings, WORKLOADS: WorkloadSettings}
    for pod in raw_pods(config, tuple(models)):
        read = readable(models[str(pod.at[0])], pod.raw)
        yield read.get("vertical", Vertical.OFF) is not Vertical.OFF
