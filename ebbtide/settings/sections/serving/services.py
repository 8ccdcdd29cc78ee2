"""The section of services: models that respond to requests, each in one or more variants.

A **variant** is one Deployment with its own image, size and hardware. Pod keys of the service apply to each of its
variants unless the variant has the key; `ebbtide.settings.file.entries` copies them before validation. A service
without variants is its only variant.

The pods of a variant are a workload (`VariantSettings.workload`), so budgets, placement, prices and policies need no
special cases.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field, Strict, ValidatorFunctionWrapHandler, WrapValidator

from ebbtide.provisioning_labels import SERVES, ReplicasOwner
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.pods.env import EnvVariable
from ebbtide.settings.sections.pods.pod import METRICS_PORT, Gpu, ScrapedPodSettings
from ebbtide.settings.sections.pods.probes import PortName
from ebbtide.settings.sections.pods.volumes import Volume, one_node_for_one_pod
from ebbtide.settings.sections.redis import REDIS_SECRET, REDIS_SECRET_KEYS
from ebbtide.settings.sections.serving.routes import (
    LEAST_REQUEST,
    MODEL_HEADER,
    Balance,
    BalanceKind,
    RouteProtocol,
    RouteSettings,
    When,
)
from ebbtide.settings.sections.serving.scale import ScaleSettings
from ebbtide.settings.sections.serving.spot import (
    forecasts_are_of_one_variant,
    others_fill_last,
    requests_end_in_time,
    spot_is_beside_another,
    spot_is_not_fixed,
    spot_keeps_no_state,
    spot_leaves_the_choice,
    spot_needs_no_gpu,
)
from ebbtide.settings.sections.sleep import SleepKey, WorkloadSleep, fewer_pods, idle_suits_pod
from ebbtide.settings.sections.types import Latency, Percent, Positive, PositiveDuration, ShortName
from ebbtide.settings.sections.workloads import (
    VERTICAL_CHECKS,
    VERTICAL_MIN,
    Vertical,
    VerticalFloor,
    VerticalText,
    WorkloadKind,
    WorkloadSettings,
)
from ebbtide.text.durations import format_duration, latency_text
from ebbtide.vocabulary.labels import GPU_RESOURCE, Category

SINGLE_VARIANT = ""
"""Name of the only variant of a service without variants."""

STOP_DELAY = timedelta(seconds=5)
"""Time from a pod's deletion to its signal, in which gateways and proxies stop using it.

With it none of 600 requests was lost at a scale-down, without it 26.
"""

GRACE_MARGIN = timedelta(seconds=5)
"""Time after the longest request: to send the last response and exit."""

STARTS_WITHIN = timedelta(seconds=30)

_AT_ONCE = "an autoscaler removes pods, and a fixed one is never removed"


def _variant(name: object, short_name: ValidatorFunctionWrapHandler) -> object:
    return name if name == SINGLE_VARIANT else short_name(name)


VariantName: TypeAlias = Annotated[ShortName, WrapValidator(_variant)]


class Hardware(StrEnum):
    CPU = "cpu"
    GPU = "gpu"


class SloSettings(Settings):
    """Service level objective, used by alerts, advice and the simulator."""

    p95: Latency = Field(description="95 % of requests are answered within this time", examples=["400ms"])
    errors: Percent = Field(
        default=0.1, description="share of requests that may fail, the error budget of 30 days", examples=["0.1%"]
    )


class SessionSettings(Settings):
    """State of a service that outlives pods."""

    redis: Annotated[bool, Strict()] = Field(
        default=False,
        description="give its pods the stack's Redis as REDIS_URL and a prefix for their keys as SESSION_PREFIX",
        examples=["true"],
    )

    def env(self, service: str) -> Mapping[str, EnvVariable]:
        """Return the variables of a service's pods."""
        if not self.redis:
            return {}
        _, url, _ = REDIS_SECRET_KEYS
        return {
            "REDIS_URL": EnvVariable(secret=REDIS_SECRET, key=url),
            "SESSION_PREFIX": EnvVariable(value=f"session:{service}:"),
        }


def _hardware_suits_gpu(hardware: Hardware | None, gpu: Gpu) -> None:
    if hardware is Hardware.GPU and not gpu.count:
        raise wanted("variant.hardware", "gpu with hardware: gpu", found="no gpu", example="gpu: 1", at="gpu")
    if hardware is Hardware.CPU and gpu.count:
        expected = "hardware: gpu, or no gpu"
        raise wanted("variant.hardware", expected, found=f"cpu with gpu: {gpu.count}", example="gpu", at="hardware")


def _gpu_metric_has_gpus(scale: ScaleSettings, gpu: Gpu) -> None:
    if scale.metrics.gpu is None:
        return
    if not gpu.count or gpu.resource != GPU_RESOURCE:
        expected = f"the metric gpu only with pods that have {GPU_RESOURCE}"
        actual = "pods without a GPU" if not gpu.count else gpu.resource
        raise wanted("scale.gpu-without-gpu", expected, found=actual, example="gpu: 1", at=("scale", "metrics", "gpu"))


def _fixed_stays(category: Category, scale: ScaleSettings) -> None:
    if category is Category.FIXED and scale.grows:
        actual = f"min: {scale.min}, max: {scale.max}"
        expected = f"min equal to max for a fixed service, since {_AT_ONCE}"
        raise wanted("scale.fixed", expected, found=actual, example="category: flexible", at="scale")


def _claims_suit_pods(volumes: Mapping[str, Volume], scale: ScaleSettings) -> None:
    if scale.max > 1:
        one_node_for_one_pod(volumes, pods=f"scale.max: {scale.max}")


def _queue_has_a_port(scale: ScaleSettings, ports: Mapping[str, int], metrics: str | None) -> None:
    if scale.metrics.queue is not None and metrics is None and METRICS_PORT not in ports:
        expected = (
            "a metrics port, where the pods report how many requests wait in them: `metrics: http`, or one of that name"
        )
        actual = ", ".join(ports) or "no ports"
        raise wanted(
            "scale.queue-unseen", expected, found=actual, example="metrics: 9100", at=("scale", "metrics", "queue")
        )


def _sleeps_alone(sleep: WorkloadSleep | None, scale: ScaleSettings) -> None:
    if sleep is not None and sleep.sleeps and scale.grows:
        expected = "no sleep with an autoscaler, which writes replicas: `scale.min: 0` lets it end all pods"
        actual = f"min: {scale.min}, max: {scale.max}"
        raise wanted("sleep.second-owner", expected, found=actual, example=f"max: {scale.min}", at="sleep")
    fewer_pods(sleep, max(1, scale.min))


def _one_autoscaler(scale: ScaleSettings, vertical: Vertical) -> None:
    if vertical is not Vertical.OFF and scale.metrics.of_pods:
        key = scale.metrics.of_pods[0]
        expected = f"off with the metric {key}: they would undo each other's changes"
        raise wanted("vertical.scaled", expected, found=vertical.value, example='"off"', at="vertical")


class VariantSettings(ScrapedPodSettings):
    """A variant of a service: image, size, and the requests that it receives."""

    checks: ClassVar[tuple[Check, ...]] = (
        *ScrapedPodSettings.checks,
        *VERTICAL_CHECKS,
        Check(("hardware", "gpu"), _hardware_suits_gpu),
        Check(("scale", "gpu"), _gpu_metric_has_gpus),
        Check(("category", "scale"), _fixed_stays),
        Check(("volumes", "scale"), _claims_suit_pods),
        Check(("scale", "ports", "metrics"), _queue_has_a_port),
        Check(("scale", "vertical"), _one_autoscaler),
        Check(("category", "sleep", "ports"), idle_suits_pod),
        Check(("sleep", "scale"), _sleeps_alone),
        Check(("spot", "hardware", "gpu"), spot_needs_no_gpu),
        Check(("spot", "category"), spot_is_not_fixed),
        Check(("spot", "kind"), spot_keeps_no_state),
    )
    instead_of: ClassVar[dict[str, str]] = {
        "replicas": "the key is scale: { min, max }",
        "replicasOwner": "the autoscaler of scale is the owner",
        "ingress": "the key is route, served by the gateway",
        "expose": "the key is route; ebbtide:serving sets how the gateway is reached",
    }

    category: Annotated[
        Category,
        *choice("flexible", "fixed", planned={"worker": "queue workers belong under ebbtide:workers"}),
    ] = Field(
        default=Category.FLEXIBLE,
        description="flexible pods may be evicted outside business hours; fixed pods never, and they do not scale",
        examples=["flexible"],
    )
    kind: WorkloadKind = Field(
        default=WorkloadKind.DEPLOYMENT,
        description="kind of object; stateful-set for a model with a disk for each pod",
        examples=["deployment"],
    )
    hardware: Annotated[Hardware, *choice(*Hardware, planned={})] | None = Field(
        default=None, description="node group; default: gpu if it requests a GPU", examples=["gpu"]
    )
    when: When | None = Field(
        default=None,
        description="requests of this variant, by header or model; all others go to the variant without when",
        examples=['{ header: "x-model-size: large" }'],
    )
    weight: Annotated[int, Strict(), Field(ge=0, le=100)] | None = Field(
        default=None, description="share of the requests in percent; set it for all variants or none", examples=["90"]
    )
    spot: Annotated[bool, Strict()] = Field(
        default=False,
        description="on spot nodes, in addition to the variant without when or weight, whose requests it shares",
        examples=["true"],
    )
    scale: ScaleSettings = Field(
        default=ScaleSettings(),
        description="number of pods and the metric that scales them; default: one pod",
        examples=["{ metrics: { inFlight: 3 }, min: 1, max: 12 }"],
    )
    vertical: VerticalText = Field(
        default=Vertical.OFF,
        description="requests set by the Vertical Pod Autoscaler: off; initial: for new pods; inPlace: also "
        "for running pods",
        examples=["initial"],
    )
    vertical_min: VerticalFloor | None = Field(
        default=None, description=VERTICAL_MIN, examples=["{ cpu: 250m, memory: 2Gi }"]
    )
    sleep: SleepKey = None
    starts_within: PositiveDuration = Field(
        default=STARTS_WITHIN,
        description="time until a new pod is ready, including image pull and model load; scaling uses it",
        examples=["2m"],
    )

    @property
    def takes_the_rest(self) -> bool:
        """True if it has neither a condition nor a weight, and so receives all other requests."""
        return self.when is None and self.weight is None

    def workload(self, name: str, service: "ServiceSettings") -> "ServedWorkload":
        """Return its pods as a workload. `name` is the service's.

        Pods for all other requests have the service's name in a label, with and without a variant on spot nodes: none
        has to be recreated when such a variant is added or removed, and requests always have a pod.
        """
        of_pod: dict[str, Any] = {field: getattr(self, field) for field in ScrapedPodSettings.model_fields}
        of_pod["env"] = {**service.session.env(name), **self.env}
        if self.takes_the_rest:
            of_pod["labels"] = {**self.labels, SERVES: name}
        owner = ReplicasOwner.HPA if self.scale.grows else ReplicasOwner.PULUMI
        return ServedWorkload.model_construct(
            None,
            **of_pod,
            category=self.category,
            kind=self.kind,
            replicas=max(1, self.scale.min),
            grows_to=self.scale.max,
            replicas_owner=owner,
            sleep=self.sleep,
            vertical=self.vertical,
            vertical_min=self.vertical_min,
            h2c=service.route is not None and service.route.protocol is RouteProtocol.GRPC,
            served_port=service.port,
            moves=self.category is Category.FLEXIBLE and self.scale.min > 1 and not self.spot,
            spot=self.spot,
            stop_delay=service.stop_delay,
            grace=service.grace,
            keeps_sessions=service.session.redis,
        )


class ServedWorkload(WorkloadSettings):
    """The pods of a variant, derived from it and in no file."""

    h2c: bool  # its port speaks HTTP/2 without TLS
    served_port: str
    grows_to: int
    moves: bool  # outside business hours; a lone pod stays, since no other pod would serve
    spot: bool
    stop_delay: timedelta
    grace: timedelta
    keeps_sessions: bool  # in the stack's Redis

    @property
    def opens(self) -> bool:
        return self.moves

    @property
    def on_spot(self) -> bool:
        return self.spot

    @property
    def most(self) -> int:
        return self.grows_to


_OF_ONE_VARIANT = ("when", "weight", "spot")
INHERITED = frozenset(
    field.alias or name for name, field in VariantSettings.model_fields.items() if name not in _OF_ONE_VARIANT
)
"""Keys that a service may set for all its variants, as the file spells them."""


def _variants_share_out(variants: Mapping[str, VariantSettings]) -> None:
    """Variants on spot nodes do not count: they share the requests of another variant."""
    variants = {name: pods for name, pods in variants.items() if not pods.spot}
    weights = {name: pods.weight for name, pods in variants.items() if pods.weight is not None}
    if not weights:
        _one_takes_the_rest(variants)
        return
    missing = [name for name in variants if name not in weights]
    if missing:
        expected = "a weight for each variant, or for none"
        actual = f"none for {', '.join(missing)}"
        raise wanted(
            "variants.weight-missing", expected, found=actual, example="10", at=("variants", missing[0], "weight")
        )
    total = sum(weights.values())
    if total != 100:
        last = next(reversed(weights))
        fitting = weights[last] + 100 - total
        example = f"weight: {fitting}" if 0 <= fitting <= 100 else "90 and 10"
        actual = f"{total}: {', '.join(f'{name} {weight}' for name, weight in weights.items())}"
        expected = "weights that add up to 100"
        raise wanted("variants.weights", expected, found=actual, example=example, at=("variants", last, "weight"))


def _one_takes_the_rest(variants: Mapping[str, VariantSettings]) -> None:
    unconditional = [name for name, pods in variants.items() if pods.when is None]
    if len(unconditional) > 1:
        expected = "exactly one variant without when, which takes all other requests"
        hint = "or give each one a weight"
        actual = f"{len(unconditional)}: {', '.join(unconditional)}"
        raise wanted("variants.no-when", expected, found=actual, hint=hint, at=("variants", unconditional[1]))
    if variants and not unconditional:
        expected = "exactly one variant without when, which takes all other requests"
        raise wanted("variants.no-rest", expected, found="none", at="variants")


def _weights_exclude_when(variants: Mapping[str, VariantSettings]) -> None:
    for name, pods in variants.items():
        if pods.weight is not None and pods.when is not None:
            expected = "when or weight: a share of all requests, or those that match"
            raise wanted("variants.when-and-weight", expected, found="both", at=("variants", name, "when"))


def _whens_differ(variants: Mapping[str, VariantSettings]) -> None:
    first: dict[str, str] = {}
    for name, pods in variants.items():
        if pods.when is not None and first.setdefault(pods.when.text, name) != name:
            expected = "each when of only one variant"
            actual = f"{pods.when.text}, which leads to {first[pods.when.text]}"
            raise wanted("variants.when-twice", expected, found=actual, at=("variants", name, "when"))


def _models_are_named_as_models(variants: Mapping[str, VariantSettings], route: RouteSettings | None) -> None:
    """A route may match each header once."""
    for name, pods in variants.items():
        header = "" if pods.when is None or pods.when.header is None else pods.when.header
        if route is not None and route.model is not None and header.startswith(f"{MODEL_HEADER}: "):
            model = header.partition(": ")[2]
            expected = f"a model by the key model, with route.model: {route.model}"
            raise wanted(
                "variants.when-header", expected, found=header, example=f"{{ model: {model} }}", at=_when(name)
            )


def _when(variant: str) -> tuple[str, ...]:
    return "variants", variant, "when"


def _whens_need_a_route(variants: Mapping[str, VariantSettings], route: RouteSettings | None) -> None:
    if route is None and sum(not pods.spot for pods in variants.values()) > 1:
        expected = "a route, for a service with several variants: the gateway chooses between them"
        raise wanted("variants.no-route", expected, example="route: { host: models.acme.internal }", at="route")


def _variants_have_the_port(port: str, variants: Mapping[str, VariantSettings]) -> None:
    for name, pods in variants.items():
        if port not in pods.ports:
            names = ", ".join(pods.ports)
            expected = f"one of its ports: {names}" if names else "a port of its pods, under `ports`"
            at = ("variants", name, "ports") if name else ("port",)
            raise wanted("service.no-such-port", expected, found=repr(port), example=next(iter(pods.ports), ""), at=at)


def _ports_have_a_probe(port: str, variants: Mapping[str, VariantSettings]) -> None:
    for name, pods in variants.items():
        if pods.probes.readiness is None:
            raise wanted(
                "service.no-probe",
                "a readiness probe: without one a pod receives requests before its model is loaded",
                found="none",
                example=f"{{ readiness: {{ http: /healthz, port: {port} }} }}",
                at=("variants", name, "probes"),
            )


def _times_fit(longest: timedelta, takes: timedelta | None, slo: SloSettings | None) -> None:
    if takes is not None and takes > longest:
        expected = f"at most longestRequest, which is {format_duration(longest)}"
        raise wanted("service.takes-too-long", expected, found=latency_text(takes), example="150ms", at="requestTakes")
    if slo is None:
        return
    if takes is not None and slo.p95 < takes:
        expected = f"at least what one request takes, {latency_text(takes)}: no number of pods makes it faster"
        raise wanted("slo.too-short", expected, found=latency_text(slo.p95), example=latency_text(2 * takes), at=_P95)
    if slo.p95 > longest:
        expected = f"at most longestRequest, which is {format_duration(longest)}: the gateway ends a request then"
        raise wanted("slo.too-long", expected, found=latency_text(slo.p95), example="400ms", at=_P95)


_P95 = ("slo", "p95")


def _latency_is_possible(takes: timedelta | None, variants: Mapping[str, VariantSettings]) -> None:
    for name, pods in variants.items():
        target = pods.scale.metrics.latency
        if takes is not None and target is not None and target < takes:
            raise wanted(
                "scale.latency-too-short",
                f"at least what one request takes, {latency_text(takes)}",
                found=latency_text(target),
                example=latency_text(2 * takes),
                at=("variants", name, "scale", "metrics", "latency"),
            )


def _counted_at_the_gateway(route: RouteSettings | None, variants: Mapping[str, VariantSettings]) -> None:
    for name, pods in variants.items():
        for key in pods.scale.metrics.of_gateway if route is None else ():
            raise wanted(
                "scale.no-route",
                f"a route with the metric {key}, which is counted at the gateway",
                found="no route",
                example="route: { host: models.acme.internal }",
                at=("variants", name, "scale", "metrics", key),
            )


def _sessions_need_one_pod(balance: Balance, variants: Mapping[str, VariantSettings]) -> None:
    if balance.kind is BalanceKind.CONSISTENT_HASH and any(pods.weight is not None for pods in variants.values()):
        expected = "no weights with consistentHash: a session would alternate between variants"
        raise wanted("balance.weights", expected, found="both", example="leastRequest", at="balance")


class ServiceSettings(Settings):
    """A model server."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("variants",), _weights_exclude_when),
        Check(("variants",), _variants_share_out),
        Check(("variants",), _whens_differ),
        Check(("variants", "route"), _whens_need_a_route),
        Check(("variants", "route"), _models_are_named_as_models),
        Check(("port", "variants"), _variants_have_the_port),
        Check(("port", "variants"), _ports_have_a_probe),
        Check(("longest_request", "request_takes", "slo"), _times_fit),
        Check(("request_takes", "variants"), _latency_is_possible),
        Check(("route", "variants"), _counted_at_the_gateway),
        Check(("balance", "variants"), _sessions_need_one_pod),
        Check(("variants",), spot_leaves_the_choice),
        Check(("variants",), spot_is_beside_another),
        Check(("variants",), others_fill_last),
        Check(("variants",), forecasts_are_of_one_variant),
        Check(("longest_request", "variants"), requests_end_in_time),
    )
    instead_of: ClassVar[dict[str, str]] = {
        **VariantSettings.instead_of,
        "spot": "spot is a key of a variant, next to a variant that is not on spot nodes",
    }

    port: PortName = Field(description="the port of `ports` that receives requests", examples=["http"])
    longest_request: PositiveDuration = Field(
        description="longest duration of a request; determines grace, drain and timeouts", examples=["60s"]
    )
    request_takes: Latency | None = Field(
        default=None, description="duration of a request on an idle pod", examples=["150ms"]
    )
    max_in_flight: Positive | None = Field(
        default=None,
        description="maximum of requests in flight, including waiting ones; further requests get 429 with "
        "Retry-After; default: no limit",
        examples=["200"],
    )
    drains: Annotated[bool, Strict()] = Field(
        default=True,
        description="the server finishes its requests on SIGTERM; false: SIGTERM is sent only after the "
        "longest request",
        examples=["false"],
    )
    slo: SloSettings | None = Field(
        default=None,
        description="service level objective; without it no alert fires",
        examples=["{ p95: 400ms, errors: 0.1% }"],
    )
    route: RouteSettings | None = Field(
        default=None,
        description="route at the gateway; default: only callable inside the cluster, by its name",
        examples=["{ host: models.acme.internal, path: /embed }"],
    )
    balance: Balance = Field(
        default=LEAST_REQUEST,
        description="load balancing between pods: leastRequest, roundRobin, random or { consistentHash: HEADER }",
        examples=["leastRequest"],
    )
    session: SessionSettings = Field(
        default=SessionSettings(), description="state that outlives pods", examples=["{ redis: true }"]
    )
    variants: dict[VariantName, VariantSettings] = Field(
        default={},
        description="variants by name; default: one variant with the service's own keys",
        examples=['{ large: { gpu: 1, when: { header: "x-model-size: large" } } }'],
    )

    @property
    def stop_delay(self) -> timedelta:
        return STOP_DELAY if self.drains else STOP_DELAY + self.longest_request

    @property
    def grace(self) -> timedelta:
        """Return the time from a pod's deletion until it is killed."""
        return STOP_DELAY + self.longest_request + GRACE_MARGIN

    @property
    def weighted(self) -> bool:
        return any(pods.weight is not None for pods in self.variants.values())

    @property
    def by_place(self) -> Sequence[str]:
        """Return the variants in the order of the route: weight 0 last, so that removing one moves no other's index."""
        return sorted(self.variants, key=lambda variant: self.variants[variant].weight == 0)

    @property
    def on_spot(self) -> Mapping[str, VariantSettings]:
        """Return the variants on spot nodes."""
        return {variant: pods for variant, pods in self.variants.items() if pods.spot}

    @property
    def base(self) -> str | None:
        """Return the variant that shares its requests with those on spot nodes, or None if there are none."""
        candidates = (variant for variant, pods in self.variants.items() if pods.takes_the_rest and not pods.spot)
        return next(candidates, None) if self.on_spot else None

    def sharing(self, name: str) -> Sequence[str]:
        """Return the names of the pods behind the service's common Service; none without spot nodes."""
        together = {pod_name(name, variant) for variant in (self.base, *self.on_spot) if variant is not None}
        return [pods for pods in self.pods(name) if pods in together]

    def pods(self, name: str) -> Mapping[str, VariantSettings]:
        """Return the variants by the name of their pods, Service and other objects."""
        return {pod_name(name, variant): variant_settings for variant, variant_settings in self.variants.items()}


def pod_name(service: str, variant: str) -> str:
    return service if variant == SINGLE_VARIANT else f"{service}-{variant}"


def served_workloads(services: Mapping[str, ServiceSettings]) -> Iterator[tuple[str, ServedWorkload]]:
    """Return the pods of all variants by name."""
    for name, service in services.items():
        for pods, variant in service.pods(name).items():
            yield pods, variant.workload(name, service)
