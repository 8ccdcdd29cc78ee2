"""What the workload controller is told, from a stack: which Ray clusters there are, who drives each, and which services
have a floor."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import SleepSettings, namespace_of_ray
from ebbtide.settings.sections.serving.scale import EventSettings
from ebbtide.settings.sections.serving.services import VariantSettings, pod_name
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.workloads import (
    FloorPolicy,
    PlannedEvent,
    PlannedNight,
    RayPolicy,
    Sleep,
    Wake,
    When,
    WorkloadsConfig,
)

DASHBOARD_PORT = 8265
"""Of a head of Ray: its API of jobs."""


def head_service(cluster: str) -> str:
    """As KubeRay names it."""
    return f"{cluster}-head-svc.{namespace_of_ray(cluster)}.svc"


def sleep_of(sleep: SleepSettings) -> Sleep:
    """When a Ray cluster sleeps, as the workload controller decides it."""
    wake = frozenset(Wake(reason.value) for reason in sleep.wake)
    return Sleep(when=When(sleep.when.value), after=sleep.after, wake=wake)


def workloads_config(
    settings: StackSettings, token_file: Callable[[str], str], years: Sequence[int] | None = None
) -> WorkloadsConfig:
    """`years` are those whose holidays are listed; None: as the other controller has them."""
    return WorkloadsConfig(
        namespace=NAMESPACE,
        hours=settings.business_hours.hours(years),
        ray=tuple(
            RayPolicy(
                name=name,
                namespace=namespace_of_ray(name),
                head=f"http://{head_service(name)}:{DASHBOARD_PORT}",
                token_file=token_file(name),
                pools=tuple(sorted(pool for pool, it in settings.workers.items() if it.ray == name)),
            )
            for name in settings.ray
        ),
        pool_namespace=WORKER_NAMESPACE,
        floors=tuple(floors_of(settings)),
    )


def has_workloads(settings: StackSettings) -> bool:
    """Whether there is anything for the workload controller to write."""
    return bool(settings.ray) or any(floors_of(settings))


def floors_of(settings: StackSettings) -> Iterator[FloorPolicy]:
    """Of the variants whose minimum follows the calendar, by name: Pulumi hands the file over sorted."""
    for name, service in sorted(settings.services.items()):
        for variant, it in sorted(service.variants.items()):
            if it.scale.planned:
                yield floor_policy(settings, pod_name(name, variant), it)


def lead_of(settings: StackSettings, variant: VariantSettings) -> timedelta:
    """From the wish for one of its pods to its first request, where a node has to come first."""
    return settings.controller.node_startup + variant.starts_within


def floor_policy(settings: StackSettings, pods: str, variant: VariantSettings) -> FloorPolicy:
    """What the calendar says of a variant's pods; `pods` is their name."""
    scale = variant.scale
    return FloorPolicy(
        name=pods,
        namespace=NAMESPACE,
        keda=bool(scale.metrics.external),
        least=scale.min,
        most=scale.max,
        lead=lead_of(settings, variant),
        open=scale.open,
        events=tuple(_event(event) for event in scale.events),
        overnight=tuple(PlannedNight(at=it.minutes, lasting=it.for_, pods=it.min) for it in scale.overnight),
    )


def _event(event: EventSettings) -> PlannedEvent:
    at = event.at
    return PlannedEvent(day=at.date(), at=at.hour * 60 + at.minute, lasting=event.for_, pods=event.min)
