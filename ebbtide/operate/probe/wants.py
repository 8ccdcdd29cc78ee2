"""What a stack asks of a cluster: rights for whoever brings it up, nodes, and room for its pods."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from components.monitoring.targets import targets
from ebbtide.labels import GPU_RESOURCE, WORKER_NAMESPACE, Architecture, NodeKind, ReplicasOwner
from ebbtide.operate.probe.facts import NodeLabels, ObjectWant, RayWant, Right, ServingWant
from ebbtide.operate.probe.ray_wants import ray_rights, ray_wants
from ebbtide.operate.probe.serving_wants import serving_rights, serving_want
from ebbtide.settings.entrances import ingress_wants
from ebbtide.settings.every_pod import every_pod, namespace_of, pull_secret_namespaces
from ebbtide.settings.model import StackSettings
from ebbtide.settings.named_objects import CLAIM, objects_named
from ebbtide.settings.placement import home_of, pod_size
from ebbtide.settings.room import nodes_at_most, one_at_a_time
from ebbtide.settings.sections.jobs import JobSettings
from ebbtide.settings.sections.monitoring import Discovery, PrometheusKind
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import group_name, head_name
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, REDIS_SECRET, REDIS_SECRET_KEYS, RedisKind
from ebbtide.settings.sections.secrets import TLS_KEYS
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.settings.serving_needs import serving_needs
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

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

OF_JOBS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "Job": ("batch", "jobs", (WORKER_NAMESPACE,)),
    "CronJob": ("batch", "cronjobs", (WORKER_NAMESPACE,)),
}
"""What it makes besides for a stack with jobs or cron jobs."""

OF_PRIORITIES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "PriorityClass": ("scheduling.k8s.io", "priorityclasses", ("",)),
}
"""For a stack whose pods have priorities."""

OF_CALLED_POOLS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "Service": ("", "services", (WORKER_NAMESPACE,)),
}
"""For a stack with ports on a pool."""

_OF_THE_OPERATOR = "monitoring.coreos.com"
INGRESSES = ("networking.k8s.io", "ingresses")

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


def _to_make(kinds: Mapping[str, tuple[str, str, tuple[str, ...]]]) -> Iterator[Right]:
    for group, resource, namespaces in kinds.values():
        for namespace in namespaces:
            yield from (Right(verb, group, resource, namespace) for verb in _VERBS)


def _rights() -> Iterator[Right]:
    yield from _to_make(KINDS)
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
    gpu_resource: str = GPU_RESOURCE
    gpu_memory: int | None = None  # MiB of each
    arch: str | None = None  # that its image is for; None where any will do
    most: int = 1  # of them at a time


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
    prometheus_operator: bool = False
    rights: tuple[Right, ...] = RIGHTS  # of whoever brings it up
    full: Sequence[str] = ()  # node groups of the stack that are too small for all that may run there
    nodes: Mapping[str, NodeLabels] | None = None  # by set of nodes; None where they are not there yet to be seen
    pods: Mapping[str, Sequence[PodWant]] = field(default_factory=dict[str, Sequence[PodWant]])  # by set of nodes
    objects: Sequence[ObjectWant] = ()  # each once
    ray: Sequence[RayWant] = ()
    serving: ServingWant | None = None  # None without services


def _pod_want(name: str, pod: PodSettings, most: int = 1) -> PodWant:
    size = pod_size(pod)
    arch = None if pod.arch in (None, Architecture.ANY) else pod.arch.value
    return PodWant(name, size.cpu, size.memory, size.gpu, pod.gpu.resource, pod.gpu.memory, arch, most)


def _own_pods(settings: StackSettings) -> Iterator[PodWant]:
    """Small ones, so that any node will do that lets them in; but for the memory of Redis."""
    yield PodWant(CONTROLLER, 0, 0, 0)
    if settings.redis.kind is RedisKind.IN_CLUSTER:
        yield PodWant(IN_CLUSTER_REDIS, 0, settings.redis.memory_mib, 0)


def _objects(settings: StackSettings) -> Iterator[ObjectWant]:
    """What the file names and does not hold; each may be named in several places."""
    for name in settings.images.pull_secrets:
        if name not in settings.secrets:
            for space in pull_secret_namespaces(settings):
                yield ObjectWant("Secret", space, name, wanted_by="images.pullSecrets")
    redis, tls = settings.redis, settings.redis.tls
    if tls is not None and tls.secret not in settings.secrets:
        *_, authority = TLS_KEYS
        server = TLS_KEYS if redis.kind is RedisKind.IN_CLUSTER else (authority,)
        yield ObjectWant("Secret", NAMESPACE, tls.secret, server, "redis.tls")
        yield ObjectWant("Secret", WORKER_NAMESPACE, tls.secret, (authority,), "redis.tls")
    reader = redis.controller
    if reader is not None and reader.secret not in settings.secrets:
        yield ObjectWant("Secret", NAMESPACE, reader.secret, (REDIS_SECRET_KEYS[0],), "redis.controller")
    certificate = settings.serving.tls
    if certificate is not None and certificate not in settings.secrets and serving_needs(settings).gateway:
        yield ObjectWant("Secret", NAMESPACE, certificate, GATEWAY_TLS_KEYS, "serving.tls")
    access = settings.serving.prometheus_access
    for _, held in access.held if access is not None and serving_needs(settings).keda else ():
        if held.secret not in settings.secrets:
            yield ObjectWant("Secret", NAMESPACE, held.secret, (held.key,), "serving.prometheusAccess")
    for path, space, pod in every_pod(settings):
        for _, name, key in pod.secret_references():
            made = name in settings.secrets or (name == REDIS_SECRET and space in _BOTH)
            if not made:
                yield ObjectWant("Secret", space, name, () if key is None else (key,), path)
        own = {f"{path.partition('.')[2]}.{name}" for name in pod.volumes}  # of the files that Ebbtide writes
        for kind, name, key in objects_named(pod):
            if name not in own:
                keys = () if key is None else (key,)
                yield ObjectWant(kind, space, name, keys, path, pods=_at_once(pod))
        if isinstance(pod, WorkerSettings) and pod.checkpoints is not None and pod.checkpoints.claim is not None:
            at = f"{path}.checkpoints"  # the next pod of a pool of one may be on another node, too
            yield ObjectWant(CLAIM, space, pod.checkpoints.claim, wanted_by=at, pods=max(2, pod.max))
        for volume in pod.volumes.values():
            if volume.class_ is not None:
                yield ObjectWant("StorageClass", "", volume.class_, wanted_by=path)
    for name in ingress_wants(settings):
        if name is not None:
            yield ObjectWant("IngressClass", "", name, wanted_by="ingress")


def _at_once(pod: PodSettings) -> int:
    """Pods that run beside each other; how many an autoscaler of others makes of them, nobody knows."""
    match pod:
        case WorkloadSettings():
            comes_beside = pod.is_alone and pod.kind is WorkloadKind.DEPLOYMENT and not one_at_a_time(pod)
            return 2 if comes_beside else pod.replicas
        case WorkerSettings():
            return pod.max
        case JobSettings():
            return pod.parallelism
        case _:
            return 1


def each_once(wants: Iterable[ObjectWant]) -> tuple[ObjectWant, ...]:
    """One for each object, with all keys that somebody wants of it and all pods; the first who wants it is named.

    A pod that names an object twice, for two keys of it, is one pod.
    """
    merged: dict[tuple[str, str, str], ObjectWant] = {}
    pods: dict[tuple[str, str, str], dict[str, int]] = {}
    for want in wants:
        known = merged.setdefault(want[:3], want)
        users = pods.setdefault(want[:3], {})
        users[want.wanted_by] = want.pods
        keys = tuple(dict.fromkeys((*known.keys, *want.keys)))
        merged[want[:3]] = known._replace(keys=keys, pods=sum(users.values()))
    return tuple(merged.values())


_IN_OWN_NAMESPACE = frozenset(
    {
        *("ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Secret"),
        *("Service", "ServiceAccount", "StatefulSet"),
    }
)


def _rights_of_some(settings: StackSettings) -> Iterator[Right]:
    """To make what a stack has only where its file asks for it."""
    if settings.jobs or settings.cron_jobs:
        yield from _to_make(OF_JOBS)
    if any(pod.priority is not None for _, _, pod in every_pod(settings)):
        yield from _to_make(OF_PRIORITIES)
    if any(pool.ports for pool in settings.workers.values()):
        yield from _to_make(OF_CALLED_POOLS)
    spaces = [namespace_of(name, workload) for name, workload in settings.workloads.items() if workload.ingress]
    yield from _to_make({"Ingress": (*INGRESSES, tuple(dict.fromkeys(spaces)))})


def _rights_of_saved_pools(settings: StackSettings) -> Iterator[Right]:
    """To grant the controller the budgets that it opens: beyond those of whoever only makes them."""
    opened = [pool for pool in settings.workers.values() if pool.checkpoints and not settings.told_together(pool)]
    for verb in (*_READ, "patch") if opened else ():
        yield Right(verb, "policy", "poddisruptionbudgets", WORKER_NAMESPACE)


def _rights_of_starters(settings: StackSettings) -> Iterator[Right]:
    """In the namespaces of workloads that start pods, what is made there and what their roles grant."""
    for name, workload in settings.workloads.items():
        if workload.kubernetes is None:
            continue
        namespace = own_namespace(name)
        for group, resource, _ in (KINDS[kind] for kind in sorted(_IN_OWN_NAMESPACE)):
            yield from (Right(verb, group, resource, namespace) for verb in _VERBS)
        for rule in workload.kubernetes.rules:
            for group, resource in product(rule.groups, rule.resources):
                yield from (Right(verb, group, resource, namespace) for verb in rule.verbs)


def _rights_of_monitoring(settings: StackSettings) -> Iterator[Right]:
    """To make the accounts' roles, those of the whole cluster too, and to grant what they grant."""
    monitoring = settings.monitoring
    if monitoring.prometheus is PrometheusKind.NONE:
        return
    rbac = "rbac.authorization.k8s.io"
    made: dict[str, tuple[str, str, tuple[str, ...]]] = {
        kind: (rbac, f"{kind.lower()}s", ("",)) for kind in ("ClusterRole", "ClusterRoleBinding")
    }
    hpas = "autoscaling", "horizontalpodautoscalers"
    spaces = dict.fromkeys((NAMESPACE, *(it.namespace for it in every_pod(settings))))
    read = [("", "nodes", ""), ("", "pods", ""), ("batch", "cronjobs", NAMESPACE), *((*hpas, it) for it in spaces)]
    yield from (Right(verb, group, resource, where) for group, resource, where in read for verb in _READ)
    if monitoring.prometheus is PrometheusKind.BUNDLED:
        yield Right("get", "", "nodes/metrics")
    elif monitoring.discovery is Discovery.CONFIG_MAP:
        made["ConfigMap"] = ("", "configmaps", (monitoring.namespace or NAMESPACE,))
    else:
        scraped = tuple(dict.fromkeys(target.namespace for target in targets(settings)))
        made["PodMonitor"] = (_OF_THE_OPERATOR, "podmonitors", scraped)
        made["PrometheusRule"] = (_OF_THE_OPERATOR, "prometheusrules", (NAMESPACE,))
    yield from _to_make(made)


def wants_of(settings: StackSettings) -> Wants:
    pods: dict[str, list[PodWant]] = {NodeKind.FIXED.value: [*_own_pods(settings)]}
    for name, workload in settings.all_workloads.items():
        home = home_of(workload).value
        pods.setdefault(home, []).append(_pod_want(name, workload, workload.most))
    for name, pool in settings.workers.items():
        pods.setdefault(pool.node_group, []).append(_pod_want(name, pool, pool.max))
    for name, job in {**settings.jobs, **settings.cron_jobs}.items():
        pods.setdefault(job.node_group, []).append(_pod_want(name, job, min(job.parallelism, job.completions)))
    for name, ray in settings.ray.items():
        pods[NodeKind.FIXED.value].append(_pod_want(head_name(name), ray.head))
        for key, group in ray.groups.items():
            pods.setdefault(group.node_group, []).append(_pod_want(group_name(name, key), group, group.max))
    cluster = settings.cluster
    full = [name for name, needed in nodes_at_most(settings).items() if needed > settings.node_groups[name].max]
    return Wants(
        customer=settings.customer,
        image=settings.controller.image,
        cluster_id=cluster.cluster_id,
        volumes=settings.redis.kind is RedisKind.IN_CLUSTER,
        token=settings.redis.kind is RedisKind.ELASTICACHE,
        storage_class=settings.redis.storage_class,
        metrics=any(workload.replicas_owner is ReplicasOwner.HPA for workload in settings.all_workloads.values()),
        prometheus_operator=settings.monitoring.prometheus is PrometheusKind.EXISTING
        and settings.monitoring.discovery is not Discovery.CONFIG_MAP,
        rights=tuple(
            dict.fromkeys(
                (
                    *RIGHTS,
                    *_rights_of_some(settings),
                    *_rights_of_saved_pools(settings),
                    *_rights_of_starters(settings),
                    *_rights_of_monitoring(settings),
                    *ray_rights(settings),
                    *serving_rights(settings),
                )
            )
        ),
        full=full,
        nodes=None if cluster.context is None else {name: cluster.node_selectors.get(name, {}) for name in pods},
        pods=pods,
        objects=each_once(_objects(settings)),
        ray=tuple(ray_wants(settings)),
        serving=serving_want(settings),
    )
