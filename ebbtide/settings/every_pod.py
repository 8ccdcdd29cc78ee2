"""Every pod section of a stack, with the namespace that its pods live in."""

from collections.abc import Iterator
from typing import NamedTuple

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE, KEDA_NAMESPACE
from ebbtide.settings.sections.serving.services import pod_name
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.vocabulary.labels import NAMESPACE, Category

SYSTEM_NAMESPACE = "kube-system"


class PodEntry(NamedTuple):
    path: str  # as messages have it: workloads.api
    namespace: str
    pod: PodSettings


def namespace_of(name: str, workload: WorkloadSettings) -> str:
    return own_namespace(name) if workload.starts_pods else NAMESPACE


def rolling_pods(settings: StackSettings) -> Iterator[tuple[str, PodEntry, Category]]:
    """Those that run until somebody ends them, with their name: a job's next pod takes what is there when it starts."""
    for name, workload in settings.workloads.items():
        yield name, PodEntry(f"workloads.{name}", namespace_of(name, workload), workload), workload.category
    for name, service in settings.services.items():
        for variant, it in service.variants.items():
            path = f"services.{name}.variants.{variant}" if variant else f"services.{name}"
            yield pod_name(name, variant), PodEntry(path, NAMESPACE, it.workload(name, service)), it.category
    for name, pool in settings.workers.items():
        yield name, PodEntry(f"workers.{name}", WORKER_NAMESPACE, pool), Category.WORKER


def every_pod(settings: StackSettings) -> Iterator[PodEntry]:
    for _, entry, _ in rolling_pods(settings):
        yield entry
    for section, jobs in (("jobs", settings.jobs), ("cronJobs", settings.cron_jobs)):
        for name, job in jobs.items():
            yield PodEntry(f"{section}.{name}", WORKER_NAMESPACE, job)
    for name, cluster in settings.ray.items():
        yield PodEntry(f"ray.{name}.head", namespace_of_ray(name), cluster.head)
        for key, group in cluster.groups.items():
            yield PodEntry(f"ray.{name}.groups.{key}", namespace_of_ray(name), group)


def pull_secret_namespaces(settings: StackSettings) -> tuple[str, ...]:
    """Return the namespaces that need each secret of `images.pullSecrets`: all in which Ebbtide renders pods."""
    spaces = dict.fromkeys([NAMESPACE, WORKER_NAMESPACE, *(entry.namespace for entry in every_pod(settings))])
    if settings.cluster.context is None:
        needs = serving_needs(settings)
        spaces |= dict.fromkeys([SYSTEM_NAMESPACE, *([KEDA_NAMESPACE] if needs.keda else [])])
        spaces |= dict.fromkeys([GATEWAY_NAMESPACE] if needs.gateway else [])
    return tuple(spaces)
