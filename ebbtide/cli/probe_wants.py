"""What a stack asks of a cluster: rights for whoever brings it up, nodes, and room for its pods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.cli.probe_facts import NodeLabels, Right
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import home_kind
from ebbtide.settings.redis import IN_CLUSTER_REDIS, RedisKind
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, WORKER_NAMESPACE, NodeKind, ReplicasOwner

_BOTH = (NAMESPACE, WORKER_NAMESPACE)
_VERBS = ("get", "create", "patch", "delete")

KINDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {  # group, resource, namespaces
    "ConfigMap": ("", "configmaps", _BOTH),
    "CronJob": ("batch", "cronjobs", (NAMESPACE,)),
    "Deployment": ("apps", "deployments", _BOTH),
    "Lease": ("coordination.k8s.io", "leases", (NAMESPACE,)),
    "Namespace": ("", "namespaces", ("",)),
    "NetworkPolicy": ("networking.k8s.io", "networkpolicies", _BOTH),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets", _BOTH),
    "Role": ("rbac.authorization.k8s.io", "roles", _BOTH),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings", _BOTH),
    "Secret": ("", "secrets", _BOTH),
    "Service": ("", "services", (NAMESPACE,)),
    "ServiceAccount": ("", "serviceaccounts", _BOTH),
    "StatefulSet": ("apps", "statefulsets", (NAMESPACE,)),
    "ValidatingAdmissionPolicy": ("admissionregistration.k8s.io", "validatingadmissionpolicies", ("",)),
    "ValidatingAdmissionPolicyBinding": ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", ("",)),
}
"""What `pulumi up` makes on a cluster that is there already."""

_READ = ("get", "list", "watch")
_PODS = ("", "pods", _READ)
_EVENTS = tuple((group, "events", ("create", "patch")) for group in ("", "events.k8s.io"))

GRANTED: Mapping[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {  # group, resource, verbs by namespace
    NAMESPACE: (
        ("coordination.k8s.io", "leases", ("get", "update")),
        ("policy", "poddisruptionbudgets", (*_READ, "patch")),
        _PODS,
        *_EVENTS,
    ),
    WORKER_NAMESPACE: (
        ("apps", "deployments", _READ),
        ("apps", "replicasets", _READ),
        ("apps", "deployments/scale", ("get", "patch")),
        ("", "pods", (*_READ, "patch")),
        *_EVENTS,
    ),
}
"""What the controller's roles grant: the API server lets nobody grant what he lacks himself."""


def _rights() -> Iterator[Right]:
    for group, resource, namespaces in KINDS.values():
        for namespace in namespaces:
            yield from (Right(verb, group, resource, namespace) for verb in _VERBS)
    for namespace, rules in GRANTED.items():
        for group, resource, verbs in rules:
            yield from (Right(verb, group, resource, namespace) for verb in verbs)


RIGHTS = tuple(dict.fromkeys(_rights()))
"""What whoever runs `pulumi up`, and later `pulumi destroy`, must be allowed."""


class PodWant(NamedTuple):
    """The largest pod of its name."""

    name: str
    cpu: int  # millicores
    memory: int  # MiB
    gpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What one stack asks of a cluster; by default, what every stack does."""

    customer: str = ""
    image: str = ""  # of the controller
    cluster_id: str | None = None
    volumes: bool = True
    token: bool = False  # of a cache that AWS runs
    storage_class: str | None = None  # by name; None for the cluster's default
    metrics: bool = False
    nodes: Mapping[str, NodeLabels] | None = None  # by set of nodes; None where they are not there yet to be seen
    pods: Mapping[str, Sequence[PodWant]] = field(default_factory=dict[str, Sequence[PodWant]])  # by set of nodes


def _own_pods(settings: StackSettings) -> Iterator[PodWant]:
    """Small ones, so that any node will do that lets them in; but for the memory of Redis."""
    yield PodWant(CONTROLLER, 0, 0, 0)
    if settings.redis.kind is RedisKind.IN_CLUSTER:
        yield PodWant(IN_CLUSTER_REDIS, 0, settings.redis.memory_mib, 0)


def wants_of(settings: StackSettings) -> Wants:
    pods: dict[str, list[PodWant]] = {NodeKind.FIXED.value: [*_own_pods(settings)]}
    for name, workload in settings.workloads.items():
        home = home_kind(workload.category, workload.gpu).value
        pods.setdefault(home, []).append(PodWant(name, workload.cpu, workload.memory, workload.gpu))
    for name, pool in settings.workers.items():
        pods.setdefault(pool.node_group, []).append(PodWant(name, pool.cpu, pool.memory, pool.gpu))
    cluster = settings.cluster
    return Wants(
        customer=settings.customer,
        image=settings.controller.image,
        cluster_id=cluster.cluster_id,
        volumes=settings.redis.kind is RedisKind.IN_CLUSTER,
        token=settings.redis.kind is RedisKind.ELASTICACHE,
        storage_class=settings.redis.storage_class,
        metrics=any(workload.replicas_owner is ReplicasOwner.HPA for workload in settings.workloads.values()),
        nodes=None if cluster.context is None else {name: cluster.node_selectors.get(name, {}) for name in pods},
        pods=pods,
    )
