"""The pods of a stack as the rules look at them: one entry for each object that makes pods."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.policies.values import at, mapping, mappings, mebibytes, millicores, texts, whole
from ebbtide.preview.resources import Resource
from ebbtide.settings.placement import PodSize
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NAMESPACE, WORKER_NAMESPACE, Category

SYSTEM_NAMESPACE = "kube-system"
LASTING = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Pod")
"""What runs until somebody ends it. A Job ends by itself, and a DaemonSet comes and goes with its node."""

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
    def ours(self) -> bool:
        """In a namespace that Ebbtide made."""
        return self.namespace in (NAMESPACE, WORKER_NAMESPACE)

    @property
    def is_worker(self) -> bool:
        return self.category is Category.WORKER

    @property
    def tells_when_ready(self) -> bool:
        """Whether a container has a probe that the pod's readiness waits for; without one, to start is to be ready."""
        return any(it.get("readinessProbe") or it.get("startupProbe") for it in self.all_containers)

    @property
    def node_selector(self) -> Mapping[str, str]:
        return texts(self.spec.get("nodeSelector"))

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
        """What the scheduler reserves: containers and native sidecars together, or the largest step before them."""
        side_by_side, steps = list(self.containers), list[Mapping[str, Any]]()
        for container in mappings(self.spec.get("initContainers")):
            (side_by_side if container.get("restartPolicy") == "Always" else steps).append(container)
        asked, before = [_requests(c) for c in side_by_side], [_requests(c) for c in steps]
        return PodSize(
            cpu=max([sum(size.cpu for size in asked), *(size.cpu for size in before)]),
            memory=max([sum(size.memory for size in asked), *(size.memory for size in before)]),
            gpu=max([sum(size.gpu for size in asked), *(size.gpu for size in before)]),
        )


def pods_of(resource: Resource) -> Iterator[Pods]:
    """One entry, or none where the object makes no pods."""
    kind = kind_of(resource)
    if resource.read or not (kind == "Pod" or kind in _TEMPLATES):
        return
    template = mapping(resource.inputs if kind == "Pod" else at(resource.inputs, _TEMPLATES[kind]))
    replicas = whole(at(resource.inputs, "spec.replicas"))
    yield Pods(
        resource=resource,
        kind=kind,
        namespace=namespace_of(resource),
        name=name_of(resource),
        labels=texts(at(template, "metadata.labels")),
        annotations=texts(at(template, "metadata.annotations")),
        spec=mapping(template.get("spec")),
        replicas=1 if replicas is None else replicas,
    )


def kind_of(resource: Resource) -> str:
    """The kind of an object in the cluster; "" for everything else."""
    return resource.type.rsplit(":", 1)[-1] if resource.type.startswith("kubernetes:") else ""


def name_of(resource: Resource) -> str:
    name = at(resource.inputs, "metadata.name")
    return name if isinstance(name, str) else resource.name


def namespace_of(resource: Resource) -> str:
    namespace = at(resource.inputs, "metadata.namespace")
    return namespace if isinstance(namespace, str) else "default"


def described(resource: Resource) -> str:
    """As people know it: "Deployment ebbtide/api" in the cluster, "NodeGroup fixed-a-nodes" in AWS."""
    kind = resource.type.rsplit(":", 1)[-1]
    if not kind_of(resource):
        return f"{kind} {resource.name}"
    namespace = at(resource.inputs, "metadata.namespace")
    where = f"{namespace}/" if isinstance(namespace, str) else ""
    return f"{kind} {where}{name_of(resource)}"


def _requests(container: Mapping[str, Any]) -> PodSize:
    """A request that is left out is as large as the limit."""
    asked = {**mapping(at(container, "resources.limits")), **mapping(at(container, "resources.requests"))}
    gpus = asked.get(GPU_RESOURCE, 0)
    return PodSize(
        cpu=millicores(asked.get("cpu")),
        memory=mebibytes(asked.get("memory")),
        gpu=int(gpus) if str(gpus).isdecimal() else 0,
    )
