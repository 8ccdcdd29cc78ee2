"""The pods of a stack: one entry for each object that makes pods."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.values import mapping, mappings, mebibytes, millicores, texts, value_at, whole
from ebbtide.settings.placement import PodSize
from ebbtide.settings.sections.pods.kubernetes import OWN_NAMESPACE_PREFIX
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NAMESPACE, SPEC, WORKLOAD, Category

LASTING = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Pod")
"""What runs until somebody ends it. A Job ends by itself, and a DaemonSet comes and goes with its node."""

RAY_CLUSTER = "RayCluster"
WITHOUT_SCALE = ("Job", "CronJob", "Pod", RAY_CLUSTER)
"""What no scale subresource counts the pods of, so that no budget by `maxUnavailable` can (decision 24)."""

_TEMPLATES = {
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """What an object says of the pods that it makes."""

    resource: Resource
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    replicas: int  # as declared: 1 where nothing is said

    @property
    def category(self) -> Category | None:
        label = self.labels.get(CATEGORY, "")
        return Category(label) if label in set(Category) else None

    @property
    def lasting(self) -> bool:
        return self.kind in LASTING

    @property
    def counted(self) -> bool:
        """Whether a scale subresource says how many there should be; of a DaemonSet's, which has none, nobody asks."""
        return self.kind not in WITHOUT_SCALE

    @property
    def ours(self) -> bool:
        """In a namespace that Ebbtide made: those of workloads that start pods begin like the workers'."""
        return self.namespace == NAMESPACE or self.namespace.startswith(OWN_NAMESPACE_PREFIX)

    @property
    def is_worker(self) -> bool:
        """Whether it serves a queue: a Job's pods are of the same category, and nobody scales or wakes them."""
        return self.category is Category.WORKER and self.lasting

    @property
    def has_probe(self) -> bool:
        """Whether a container has a probe that the pod's readiness waits for; without one, to start is to be ready."""
        return any(it.get("readinessProbe") or it.get("startupProbe") for it in self.all_containers)

    @property
    def node_selector(self) -> Mapping[str, str]:
        return texts(self.spec.get("nodeSelector"))

    @property
    def as_pod(self) -> Mapping[str, Any]:
        """As the API shows one of them, for the rules that judge a pod."""
        metadata = {"namespace": self.namespace, "labels": self.labels, "annotations": self.annotations}
        return {"metadata": metadata, "spec": self.spec}

    @property
    def containers(self) -> tuple[Mapping[str, Any], ...]:
        """Those that run side by side, native sidecars aside."""
        return mappings(self.spec.get("containers"))

    @property
    def all_containers(self) -> tuple[Mapping[str, Any], ...]:
        return (*self.containers, *mappings(self.spec.get("initContainers")))

    @property
    def volumes(self) -> tuple[Mapping[str, Any], ...]:
        return mappings(self.spec.get("volumes"))

    @property
    def size(self) -> PodSize:
        """What the scheduler reserves: containers plus native sidecars, or the largest step before them.

        A step runs beside the sidecars that stand before it. Source: Kubernetes, "Resource sharing within containers".
        """
        sidecars, steps = list[PodSize](), list[list[PodSize]]()
        for container in mappings(self.spec.get("initContainers")):
            size = _requests(container)
            if container.get("restartPolicy") == "Always":
                sidecars.append(size)
            else:
                steps.append([*sidecars, size])
        together = [[*map(_requests, self.containers), *sidecars], *steps]
        return PodSize(
            cpu=max(sum(size.cpu for size in sizes) for sizes in together),
            memory=max(sum(size.memory for size in sizes) for sizes in together),
            gpu=max(sum(size.gpu for size in sizes) for sizes in together),
        )


def pods_of(resource: Resource) -> Iterator[Pods]:
    """One entry, or none where the object makes no pods; of a Ray cluster its head's, and one for each group."""
    kind = kind_of(resource)
    if kind == RAY_CLUSTER and not resource.read:
        yield from _of_ray(resource)
        return
    if resource.read or not (kind == "Pod" or kind in _TEMPLATES):
        return
    template = mapping(resource.inputs if kind == "Pod" else value_at(resource.inputs, _TEMPLATES[kind]))
    replicas = whole(value_at(resource.inputs, "spec.replicas"))
    yield Pods(
        resource=resource,
        kind=kind,
        namespace=namespace_of(resource),
        name=name_of(resource),
        labels=texts(value_at(template, "metadata.labels")),
        annotations=texts(value_at(template, "metadata.annotations")),
        spec=mapping(template.get("spec")),
        replicas=1 if replicas is None else replicas,
    )


def _of_ray(resource: Resource) -> Iterator[Pods]:
    """From the annotation, which the workload controller writes into the spec."""
    annotation = texts(value_at(resource.inputs, "metadata.annotations")).get(SPEC, "")
    try:
        wanted = mapping(json.loads(annotation))
    except ValueError:  # not known yet, or not by Ebbtide
        return
    head = mapping(wanted.get("headGroupSpec"))
    for part, replicas in ((head, 1), *((group, 0) for group in mappings(wanted.get("workerGroupSpecs")))):
        labels = texts(value_at(part, "template.metadata.labels"))
        yield Pods(
            resource=resource,
            kind=RAY_CLUSTER,
            namespace=namespace_of(resource),
            name=labels.get(WORKLOAD, name_of(resource)),
            labels=labels,
            annotations=texts(value_at(part, "template.metadata.annotations")),
            spec=mapping(value_at(part, "template.spec")),
            replicas=replicas,
        )


def _requests(container: Mapping[str, Any]) -> PodSize:
    """A request that is left out is as large as the limit."""
    asked = {**mapping(value_at(container, "resources.limits")), **mapping(value_at(container, "resources.requests"))}
    gpus = asked.get(GPU_RESOURCE, 0)
    return PodSize(
        cpu=millicores(asked.get("cpu")),
        memory=mebibytes(asked.get("memory")),
        gpu=int(gpus) if str(gpus).isdecimal() else 0,
    )
