"""The pods of a stack: one entry for each object that creates pods."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.provisioning_labels import POOL, NodeKind
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.values import mapping, mappings, mebibytes, millicores, texts, value_at, whole_number
from ebbtide.settings.capacity.placement import PodSize
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.settings.sections.pods.kubernetes import OWN_NAMESPACE_PREFIX
from ebbtide.text.quantities import cpu_quantity, memory_quantity
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NAMESPACE, NODE_KIND, SPEC, WORKLOAD, Category

LASTING = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Pod")
"""Kinds whose pods run until they are deleted. A Job ends by itself, and a DaemonSet's pod with its node."""

RAY_CLUSTER = "RayCluster"
WITHOUT_SCALE = ("Job", "CronJob", "Pod", RAY_CLUSTER)
"""Kinds without a scale subresource, for which a budget cannot use `maxUnavailable` (decision 24)."""

ADOPTED = "Adopted"
"""Placeholder for the kind of adopted pods' owner, which may be any."""

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
    """The pods that an object declares."""

    resource: Resource
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    replicas: int  # as declared; default: 1
    adopted: AdoptedSettings | None = None  # the rule, if other tools create the pods

    @property
    def category(self) -> Category | None:
        label = self.labels.get(CATEGORY, "")
        return Category(label) if label in set(Category) else None

    @property
    def lasting(self) -> bool:
        return self.kind in LASTING

    @property
    def has_scale(self) -> bool:
        """True if a scale subresource has the number of pods, or the budget does not need it (DaemonSet)."""
        return self.kind not in WITHOUT_SCALE if self.adopted is None else self.adopted.has_scale

    @property
    def in_own_namespace(self) -> bool:
        """True in Ebbtide's namespaces; the namespaces of workloads that start pods have a common prefix."""
        return self.namespace == NAMESPACE or self.namespace.startswith(OWN_NAMESPACE_PREFIX)

    @property
    def is_worker(self) -> bool:
        """True for the pods of a worker pool. Other pods of category worker are not scaled."""
        return self.category is Category.WORKER and POOL in self.labels and self.lasting

    @property
    def has_probe(self) -> bool:
        """True if a container has a probe that delays readiness; without one, a pod is ready when it starts."""
        return any(c.get("readinessProbe") or c.get("startupProbe") for c in self.all_containers)

    @property
    def node_selector(self) -> Mapping[str, str]:
        return texts(self.spec.get("nodeSelector"))

    @property
    def node_terms(self) -> tuple[Mapping[str, Any], ...]:
        """The terms of the required node affinity, which are alternatives."""
        path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        return mappings(value_at(self.spec, path))

    @property
    def selects_nodes(self) -> bool:
        return bool(self.node_selector or self.node_terms)

    @property
    def as_pod(self) -> Mapping[str, Any]:
        """One of the pods as an API object, for the rules that judge a pod."""
        metadata = {"namespace": self.namespace, "labels": self.labels, "annotations": self.annotations}
        return {"metadata": metadata, "spec": self.spec}

    @property
    def containers(self) -> tuple[Mapping[str, Any], ...]:
        """The main containers, without native sidecars."""
        return mappings(self.spec.get("containers"))

    @property
    def all_containers(self) -> tuple[Mapping[str, Any], ...]:
        return (*self.containers, *mappings(self.spec.get("initContainers")))

    @property
    def volumes(self) -> tuple[Mapping[str, Any], ...]:
        return mappings(self.spec.get("volumes"))

    @property
    def size(self) -> PodSize:
        """The scheduler's reservation: containers plus native sidecars, or the largest init step if that is more.

        An init step runs with the sidecars listed before it. Source: Kubernetes, "Resource sharing within containers".
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
    """Yield one entry, or none if the object creates no pods; for a Ray cluster one for the head and for each group."""
    kind = kind_of(resource)
    if kind == RAY_CLUSTER and not resource.read:
        yield from _of_ray(resource)
        return
    if resource.read or not (kind == "Pod" or kind in _TEMPLATES):
        return
    template = mapping(resource.inputs if kind == "Pod" else value_at(resource.inputs, _TEMPLATES[kind]))
    replicas = whole_number(value_at(resource.inputs, "spec.replicas"))
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


def adopted_pods(name: str, rule: AdoptedSettings, resource: Resource, kind: NodeKind) -> Pods:
    """Return the pods of a rule as its policy places them. `resource` represents their unknown owner."""
    requests = {
        "cpu": cpu_quantity(rule.cpu),
        "memory": memory_quantity(rule.memory),
        rule.gpu.resource: rule.gpu.count,
    }
    return Pods(
        resource=resource,
        kind=ADOPTED,
        namespace=rule.namespace,
        name=name,
        labels={key: values[0] for key, values in rule.selector.items()} | {CATEGORY: rule.category, WORKLOAD: name},
        annotations={},
        spec={
            "nodeSelector": {NODE_KIND: kind.value},
            "tolerations": [{"operator": "Exists"}] if rule.gpu.count else [],
            "containers": [{"name": name, "resources": {"requests": requests}}],
        },
        replicas=rule.count,
        adopted=rule,
    )


def _of_ray(resource: Resource) -> Iterator[Pods]:
    """Read the annotation that the workload controller copies into the spec."""
    annotation = texts(value_at(resource.inputs, "metadata.annotations")).get(SPEC, "")
    try:
        spec = mapping(json.loads(annotation))
    except ValueError:  # not known yet, or written by others
        return
    head = mapping(spec.get("headGroupSpec"))
    for part, replicas in ((head, 1), *((group, 0) for group in mappings(spec.get("workerGroupSpecs")))):
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
    """The container's requests; a missing request equals the limit."""
    requests = {
        **mapping(value_at(container, "resources.limits")),
        **mapping(value_at(container, "resources.requests")),
    }
    gpus = requests.get(GPU_RESOURCE, 0)
    return PodSize(
        cpu=millicores(requests.get("cpu")),
        memory=mebibytes(requests.get("memory")),
        gpu=int(gpus) if str(gpus).isdecimal() else 0,
    )
