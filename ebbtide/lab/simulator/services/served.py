"""The model of a service, from the stack file: the capacity of a pod, its scaling and its price.

Two values are not in the stack file and are assumed: the number of requests in work per pod (its target in flight,
rounded up, or one), and the distribution of request times (log-normal with the mean `requestTakes`). The replay lists
them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

from ebbtide.lab.simulator.setup import ReplayError, with_known_nodes
from ebbtide.lab.simulator.strategies.hpa import TOLERANCE, HpaBehavior, HpaMetric, HpaPolicy, HpaRules, TargetKind
from ebbtide.lab.simulator.strategies.plans import NODE_BOOT_S
from ebbtide.settings.capacity.homes import home_groups, pod_usd_per_hour, pods_per_node
from ebbtide.settings.capacity.process_documents import floor_policy
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.routes import BalanceKind
from ebbtide.settings.sections.serving.scale import FloorKind, MetricSettings
from ebbtide.settings.sections.serving.services import ServedWorkload, ServiceSettings, VariantSettings, pod_name
from ebbtide.settings.sections.serving.steps import Step, knows_tolerance, steps_of
from ebbtide.vocabulary.workloads import FloorPolicy

SPREAD = 0.5
"""Coefficient of variation of request times: an assumption."""
USED = 0.7
"""The largest share of its time that a pod should be busy: above it waits grow fast. An assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodModel:
    """Times in seconds."""

    request_s: float  # mean, on an idle pod
    spread: float  # its coefficient of variation
    at_once: int  # requests in work; others wait in the pod, first come, first served
    starts_s: float  # from a node with capacity to a ready pod
    stop_s: float  # from SIGTERM to the end of an idle pod
    node_boot_s: float
    per_node: int  # pods on a node

    def times(self, parts: int = 4096) -> list[float]:
        """Request times of equal probability."""
        if not self.spread:
            return [self.request_s]
        sigma = math.sqrt(math.log(1 + self.spread**2))
        normal = NormalDist()
        factors = [math.exp(sigma * normal.inv_cdf((part + 0.5) / parts)) for part in range(parts)]
        mean = sum(factors) / parts
        return [self.request_s * factor / mean for factor in factors]


@dataclass(frozen=True, slots=True)
class PlayedMetric:
    """A metric that the simulator can measure, by its key in the stack file."""

    key: str
    target: HpaMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceModel:
    """One variant of a service: its pods scale together."""

    name: str  # of the pods
    stack: str
    calendar: FloorPolicy
    stated_open: int | None  # pods in business hours, if set in the stack file
    stated_margin: float | None  # of the forecast, if the stack file has one
    pod: PodModel
    metrics: tuple[PlayedMetric, ...]
    behavior: HpaBehavior
    least: int
    most: int
    longest_s: float  # the time after which a request is cancelled and lost
    max_in_flight: int | None
    slo_s: float
    balance: BalanceKind
    usd_per_pod_hour: float | None  # None: its node has no price

    @property
    def pod_rate(self) -> float:
        """Requests a second per pod by its targets, ignoring waits, and at most `USED` of its full rate."""
        rates = [_rate(metric, self.pod) for metric in self.metrics]
        return min(self.full_rate * USED, *(rate for rate in rates if rate is not None), math.inf)

    @property
    def full_rate(self) -> float:
        """Requests a second that keep a pod busy all the time: with more the queue grows without limit."""
        return self.pod.at_once / self.pod.request_s

    @property
    def forecast_rate(self) -> float | None:
        """Requests a second per pod by the target of the forecast's metric; None without such a metric."""
        targets = {metric.key: metric.target.target for metric in self.metrics}
        if "inFlight" in targets:
            return targets["inFlight"] / self.pod.request_s
        return targets.get("throughput")

    @property
    def lead_s(self) -> float:
        """The time from the request for a pod to its readiness, on a new node."""
        return self.pod.node_boot_s + self.pod.starts_s

    def need(self, rate: float) -> int:
        """The pods for a rate of requests, without the service's limits."""
        return math.ceil(rate / self.pod_rate - 1e-9)

    def within(self, pods: int) -> int:
        return max(self.least, min(self.most, pods))


def _rate(metric: PlayedMetric, pod: PodModel) -> float | None:
    target = metric.target.target
    match metric.key:
        case "inFlight":
            return min(target, pod.at_once) / pod.request_s
        case "throughput":
            return target
        case "cpu" | "gpu":
            return target / 100 * pod.at_once / pod.request_s
        case _:  # latency and queue imply no rate
            return None


def simulated(settings: StackSettings, name: str, at_once: int | None = None) -> ServiceModel:
    """The service or variant with this name. Raises `ReplayError`."""
    settings = with_known_nodes(settings)
    service, variant, pods = _find(settings, name)
    if service.request_takes is None:
        raise ReplayError(
            f"{settings.stack}, services.{name}: wanted requestTakes, the duration of one request on an idle pod, "
            "found none (for example requestTakes: 150ms)"
        )
    workload = settings.all_workloads[pods]
    if not isinstance(workload, ServedWorkload):
        raise TypeError(f"{pods} is no pod of a service")
    metrics = tuple(_metrics(variant.scale.metrics))
    if variant.scale.grows and not metrics:
        raise ReplayError(
            f"{settings.stack}, services.{name}: wanted a metric that requests determine, found "
            f"{', '.join(variant.scale.metrics.keys)}, for which a trace has no data (for example inFlight: 3)"
        )
    target = variant.scale.metrics.in_flight
    takes, home = service.request_takes.total_seconds(), home_groups(settings).get(pods)
    pod = PodModel(
        request_s=takes,
        spread=SPREAD,
        at_once=at_once or (1 if target is None else math.ceil(target)),
        starts_s=variant.starts_within.total_seconds(),
        stop_s=service.stop_delay.total_seconds(),
        node_boot_s=NODE_BOOT_S,
        per_node=pods_per_node(settings, home, workload),
    )
    policy = floor_policy(settings, pods, variant)
    slo = service.longest_request if service.slo is None else service.slo.p95
    return ServiceModel(
        name=pods,
        stack=settings.stack,
        calendar=replace(policy, least=max(1, policy.least)),
        stated_open=policy.open,
        stated_margin=variant.scale.margin if variant.scale.floor is FloorKind.FORECAST else None,
        pod=pod,
        metrics=metrics,
        behavior=behavior_of(settings, service, variant),
        least=max(1, variant.scale.min),
        most=variant.scale.max,
        longest_s=service.longest_request.total_seconds(),
        max_in_flight=service.max_in_flight,
        slo_s=slo.total_seconds(),
        balance=service.balance.kind,
        usd_per_pod_hour=pod_usd_per_hour(settings, home, workload),
    )


def _find(settings: StackSettings, name: str) -> tuple[ServiceSettings, VariantSettings, str]:
    """Return service, variant and the name of its pods."""
    variants = {
        pod_name(service_name, variant_name): (service, variant, pod_name(service_name, variant_name))
        for service_name, service in settings.services.items()
        for variant_name, variant in service.variants.items()
    }
    if name in variants:
        return variants[name]
    names = f"they are {', '.join(variants)}" if variants else "it has no services"
    raise ReplayError(
        f"{settings.stack}: wanted the name of a service, and of its variant where it has several, found {name!r} "
        f"({names})"
    )


def _metrics(metrics: MetricSettings) -> Iterator[PlayedMetric]:
    """The metrics that requests determine. A trace has no data for a query, and requests do not change memory."""
    if metrics.cpu is not None:
        yield PlayedMetric("cpu", HpaMetric(TargetKind.USE, metrics.cpu))
    if metrics.in_flight is not None:
        yield PlayedMetric("inFlight", HpaMetric(TargetKind.TOTAL, metrics.in_flight))
    if metrics.latency is not None:
        yield PlayedMetric("latency", HpaMetric(TargetKind.RATIO, metrics.latency.total_seconds()))
    if metrics.throughput is not None:
        yield PlayedMetric("throughput", HpaMetric(TargetKind.TOTAL, metrics.throughput))
    if metrics.queue is not None:
        yield PlayedMetric("queue", HpaMetric(TargetKind.TOTAL, metrics.queue.target))
    if metrics.gpu is not None:
        yield PlayedMetric("gpu", HpaMetric(TargetKind.RATIO, metrics.gpu))


def behavior_of(settings: StackSettings, service: ServiceSettings, variant: VariantSettings) -> HpaBehavior:
    """The scaling steps that the service's autoscaler is rendered with."""
    steps = steps_of(service, variant)
    has_tolerance = settings.cluster.context is None and knows_tolerance(settings.cluster.version)
    return HpaBehavior(
        up=_rules(steps.up, steps.up_tolerance if has_tolerance else TOLERANCE), down=_rules(steps.down, TOLERANCE)
    )


def _rules(step: Step, tolerance: float) -> HpaRules:
    period = step.period.total_seconds()
    return HpaRules(
        policies=(HpaPolicy(period, percent=step.percent), HpaPolicy(period, pods=step.pods)),
        stabilization_s=step.stabilization.total_seconds(),
        tolerance=tolerance,
    )
