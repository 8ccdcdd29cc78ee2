"""Policies that a stack's settings are certain to break.

`ebbtide.policies` judges the rendered resources, and rendering needs Pulumi. Where the settings decide by themselves,
`check` reports the same breach, and a test compares both.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ebbtide.provisioning_labels import NodeKind, ReplicasOwner
from ebbtide.settings.capacity.placement import home_kind
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.fragment.values import mapping
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.adopted import adopted_budget
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.eks_versions import is_newer
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, Category

_SCHEME = "alb.ingress.kubernetes.io/scheme"
_MINOR = re.compile(r":v?([0-9]+\.[0-9]+)\.")
_ZONE = "topology.kubernetes.io/zone"
_ALONE = "flexible with one replica: each night that its node goes is an outage; set 2, or make it fixed"
_FIXED_ON_GPUS = "fixed on GPU nodes: its budget never opens, so its node stays all night; make it flexible"


class PolicyBreach(NamedTuple):
    code: str
    policy: str
    resources: tuple[str, ...]  # names that an exception may use
    path: str
    text: str
    blocks: bool = False


def policy_breaches(settings: StackSettings) -> Iterator[PolicyBreach]:
    yield from _public_ingresses(settings)
    yield from _other_autoscalers(settings)
    yield from _bad_nights(settings)
    yield from _bad_nights_of_adopted_pods(settings)


def _public_ingresses(settings: StackSettings) -> Iterator[PolicyBreach]:
    for name, workload in settings.workloads.items():
        if workload.ingress is not None and workload.ingress.annotations.get(_SCHEME) == "internet-facing":
            yield PolicyBreach(
                "ingress.internet-facing",
                "EB033",
                _resource_names("Ingress", NAMESPACE, name),
                f"workloads.{name}.ingress.annotations",
                f"{_SCHEME}: internet-facing creates a load balancer that is reachable from the internet; set "
                "internal, use expose with public: true, or write an exception that names the allowed clients",
                blocks=True,
            )


def _other_autoscalers(settings: StackSettings) -> Iterator[PolicyBreach]:
    """The key is refused for existing clusters."""
    minor = _MINOR.search(settings.images.autoscaler or "")
    version = settings.cluster.version
    if settings.cluster.kind is ClusterKind.EKS and minor is not None and minor[1] != version:
        alternative = "write an exception for autoscaler-deployment" if is_newer(version) else "leave it out"
        yield PolicyBreach(
            "image.autoscaler-version",
            "EB025",
            ("autoscaler-deployment", *_resource_names("Deployment", "kube-system", "cluster-autoscaler")),
            "images.autoscaler",
            f"for {minor[1]}, while the cluster has {version}, whose scheduler it cannot simulate; name one for "
            f"{version}, or {alternative}",
            blocks=True,
        )


def _bad_nights(settings: StackSettings) -> Iterator[PolicyBreach]:
    for entry in declared_pods(settings):
        pod = entry.pod
        if not isinstance(pod, WorkloadSettings):
            continue
        resources = _resource_names("Deployment", entry.namespace, entry.name)
        stays = pod.replicas_owner is not ReplicasOwner.HPA and not pod.gone_at_night
        if pod.opens and pod.replicas == 1 and stays:
            yield PolicyBreach("workload.one-replica", "EB019", resources, f"{entry.path}.replicas", _ALONE)
        if _fixed_elsewhere(pod.category, pod.gpu, settings):
            yield PolicyBreach("workload.fixed-elsewhere", "EB041", resources, f"{entry.path}.category", _FIXED_ON_GPUS)
        zone = mapping(mapping(pod.pod).get("nodeSelector")).get(_ZONE)
        if zone is not None and pod.replicas > 1:
            text = f"all {pod.replicas} replicas are bound to the zone {zone}, and stop with it"
            yield PolicyBreach("workload.one-zone", "EB018", resources, f"{entry.path}.pod.nodeSelector", text)


def _bad_nights_of_adopted_pods(settings: StackSettings) -> Iterator[PolicyBreach]:
    for name, rule in settings.adopted.items():
        budget, path = adopted_budget(name, rule), f"adopted.{name}"
        shown = f"{rule.namespace}/{budget}"
        resources = (f"adopted-{budget}-budget", budget, shown, f"PodDisruptionBudget {shown}")
        if rule.opens and rule.count == 1 and not rule.gone_at_night:
            key = "replicas" if rule.has_scale else "pods"
            yield PolicyBreach("workload.one-replica", "EB019", resources, f"{path}.{key}", _ALONE)
        if _fixed_elsewhere(rule.category, rule.gpu, settings):
            yield PolicyBreach("workload.fixed-elsewhere", "EB041", resources, f"{path}.category", _FIXED_ON_GPUS)


def _fixed_elsewhere(category: Category, gpu: Gpu, settings: StackSettings) -> bool:
    """Nodes of an existing cluster may be fixed and have GPUs."""
    elsewhere = category is Category.FIXED and home_kind(category, gpu.count) is not NodeKind.FIXED
    return elsewhere and settings.cluster.kind is ClusterKind.EKS


def _resource_names(kind: str, namespace: str, name: str) -> tuple[str, ...]:
    return name, f"{name}-{kind.lower()}", f"{namespace}/{name}", f"{kind} {namespace}/{name}"
