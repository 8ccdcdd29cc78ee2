"""A stack's requirements for a cluster: rights for `pulumi up`, nodes for its pods, objects, Ray and services."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.operate.probe.adopted_facts import AdoptedWant
from ebbtide.operate.probe.facts import BrokerWant, NodeLabels, NodePoolWant, ObjectWant, RayWant, Right, ServingWant
from ebbtide.operate.probe.rights import rights_of, rights_of_accounts
from ebbtide.provisioning_labels import WORKER_NAMESPACE, Architecture, NodeKind, ReplicasOwner
from ebbtide.recording.resources import Resource
from ebbtide.settings.capacity.packing import nodes_at_maximum, one_at_a_time
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import home_kind, pod_size, with_adopted_pools
from ebbtide.settings.capacity.pods import (
    CLAIM,
    ingress_wants,
    pull_secret_namespaces,
    referenced_objects,
    serving_needs,
)
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.monitoring import Discovery, PrometheusKind
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import RAY_OPERATOR, TOKEN_KEY, head_name, namespace_of_ray, token_secret
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS, REDIS_SECRET, REDIS_SECRET_KEYS, RedisKind
from ebbtide.settings.sections.secrets import TLS_KEYS
from ebbtide.settings.sections.serving.gateway import GATEWAY_TLS_KEYS, Implementation
from ebbtide.settings.sections.shapes import NodeSetShape
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import CONTROLLER, GPU_RESOURCE, NAMESPACE, NODE_KIND, WORKLOADS

_BOTH = (NAMESPACE, WORKER_NAMESPACE)


class PodWant(NamedTuple):
    """The largest pod with this name."""

    name: str
    cpu: int  # millicores
    memory: int  # MiB
    gpu: int
    gpu_resource: str = GPU_RESOURCE
    gpu_memory: int | None = None  # MiB of each
    arch: str | None = None  # of its image; None for any, and if the file does not say
    most: int = 1  # maximum number of them at a time
    any_arch: bool = False  # its image is for every processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """Requirements of one stack; the defaults apply to every stack."""

    customer: str = ""
    image: str = ""  # of the controller
    cluster_id: str | None = None
    volumes: bool = True
    token: bool = False  # True if AWS runs the cache, which then needs a token
    storage_class: str | None = None  # by name; None for the cluster's default
    metrics: bool = False
    prometheus_operator: bool = False
    rights: tuple[Right, ...] = ()  # for `pulumi up`
    full: Sequence[str] = ()  # node groups of the stack that are too small for all pods that may run there
    nodes: Mapping[str, NodeLabels] | None = None  # by set of nodes; None if the stack creates them
    shapes: Mapping[str, NodeSetShape] = field(default_factory=dict[str, NodeSetShape])  # by set of nodes
    pods: Mapping[str, Sequence[PodWant]] = field(default_factory=dict[str, Sequence[PodWant]])  # by set of nodes
    objects: Sequence[ObjectWant] = ()  # each once
    ray: Sequence[RayWant] = ()
    serving: ServingWant | None = None  # None without services
    adopted: Sequence[AdoptedWant] = ()
    node_pools: Sequence[NodePoolWant] = ()
    brokers: Sequence[BrokerWant] = ()


def _pod_want(name: str, pod: PodSettings, most: int = 1) -> PodWant:
    size = pod_size(pod)
    arch = None if pod.arch in (None, Architecture.ANY) else pod.arch.value
    any_arch = pod.arch is Architecture.ANY
    return PodWant(name, size.cpu, size.memory, size.gpu, pod.gpu.resource, pod.gpu.memory, arch, most, any_arch)


def _own_pods(settings: StackSettings) -> Iterator[PodWant]:
    """Yield Ebbtide's own pods: small ones without a size, and Redis with its memory."""
    yield PodWant(CONTROLLER, 0, 0, 0, any_arch=True)
    if settings.redis.kind is RedisKind.IN_CLUSTER:
        yield PodWant(IN_CLUSTER_REDIS, 0, settings.redis.memory_mib, 0, any_arch=True)


def _objects(settings: StackSettings) -> Iterator[ObjectWant]:
    """Yield the objects that the file refers to but does not contain; several places may refer to the same one."""
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
    for name, broker in settings.brokers.items():
        logins = (("controller", NAMESPACE, broker.controller), ("workers", WORKER_NAMESPACE, broker.workers))
        for key, space, login in logins:
            if login is not None and login.secret not in settings.secrets:
                yield ObjectWant("Secret", space, login.secret, (REDIS_SECRET_KEYS[0],), f"brokers.{name}.{key}")
    certificate = settings.serving.tls
    if certificate is not None and certificate not in settings.secrets and serving_needs(settings).gateway:
        yield ObjectWant("Secret", NAMESPACE, certificate, GATEWAY_TLS_KEYS, "serving.tls")
    access = settings.serving.prometheus_access
    for _, entry in access.held if access is not None and serving_needs(settings).keda else ():
        if entry.secret not in settings.secrets:
            yield ObjectWant("Secret", NAMESPACE, entry.secret, (entry.key,), "serving.prometheusAccess")
    for declared in declared_pods(settings):
        path, space, pod = declared.path, declared.namespace, declared.pod
        for _, name, key in pod.secret_references():
            created = name in settings.secrets or (name == REDIS_SECRET and space in _BOTH)
            if not created:
                yield ObjectWant("Secret", space, name, () if key is None else (key,), path)
        written = {f"{path.partition('.')[2]}.{name}" for name in pod.volumes}  # ConfigMaps that Ebbtide creates
        for kind, name, key in referenced_objects(pod):
            if name not in written:
                keys = () if key is None else (key,)
                yield ObjectWant(kind, space, name, keys, path, pods=_at_once(pod))
        if isinstance(pod, WorkerSettings) and pod.checkpoints is not None and pod.checkpoints.claim is not None:
            at = f"{path}.checkpoints"  # even a pool of one may start its next pod on another node
            yield ObjectWant(CLAIM, space, pod.checkpoints.claim, wanted_by=at, pods=max(2, pod.max))
        for volume in pod.volumes.values():
            if volume.class_ is not None:
                yield ObjectWant("StorageClass", "", volume.class_, wanted_by=path)
    for name in ingress_wants(settings):
        if name is not None:
            yield ObjectWant("IngressClass", "", name, wanted_by="ingress")


def _at_once(pod: PodSettings) -> int:
    """Return how many pods run at the same time; a foreign autoscaler's number is unknown."""
    if isinstance(pod, WorkloadSettings) and pod.is_alone and pod.kind is WorkloadKind.DEPLOYMENT:
        return 1 if one_at_a_time(pod) else 2
    return pod.most


def merged_wants(wants: Iterable[ObjectWant]) -> tuple[ObjectWant, ...]:
    """Merge the wants of each object: all keys and all pods, and the name of the first user.

    A pod that names an object twice, for two of its keys, is one pod.
    """
    merged: dict[tuple[str, str, str], ObjectWant] = {}
    pods: dict[tuple[str, str, str], dict[str, int]] = {}
    for want in wants:
        first = merged.setdefault(want[:3], want)
        users = pods.setdefault(want[:3], {})
        users[want.wanted_by] = want.pods
        keys = tuple(dict.fromkeys((*first.keys, *want.keys)))
        merged[want[:3]] = first._replace(keys=keys, pods=sum(users.values()))
    return tuple(merged.values())


def wants_of(settings: StackSettings, resources: Sequence[Resource]) -> Wants:
    """Derive the wants; the rights follow from `resources`, which the stack registers."""
    pods: dict[str, list[PodWant]] = {NodeKind.FIXED.value: [*_own_pods(settings)]}
    modelled = with_adopted_pools(settings)
    for placed in placed_pods(modelled):
        pods.setdefault(placed.node_set, []).append(_pod_want(placed.name, placed.pod, placed.most))
    cluster = settings.cluster
    full = [name for name, needed in nodes_at_maximum(modelled).items() if needed > settings.node_groups[name].max]
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
        rights=rights_of(resources),
        full=full,
        nodes=None if cluster.context is None else {name: cluster.node_selectors.get(name, {}) for name in pods},
        shapes=cluster.node_shapes,
        pods=pods,
        objects=merged_wants(_objects(settings)),
        ray=tuple(ray_wants(settings, resources)),
        serving=serving_want(settings),
        adopted=tuple(_adopted(settings)),
        node_pools=tuple(_node_pools(modelled)),
        brokers=tuple(_brokers(modelled)),
    )


def _brokers(modelled: StackSettings) -> Iterator[BrokerWant]:
    """Yield the brokers that hold queues. `modelled` includes adopted pools."""
    for name, broker in modelled.brokers.items():
        pools = tuple(pool for pool, settings in modelled.workers.items() if settings.source.broker == name)
        if pools:
            yield BrokerWant(name, pools, broker.consumer_timeout)


def _node_pools(modelled: StackSettings) -> Iterator[NodePoolWant]:
    """Yield an existing cluster's NodePools, and those that the stack creates. `modelled` includes adopted pools."""
    with_jobs = {placed.group for placed in placed_pods(modelled)}
    for node_set, names in modelled.cluster.node_pools.items():
        yield from (NodePoolWant(name, node_set, workers=node_set in with_jobs) for name in names)
    yield from (NodePoolWant(name, "", workers=name in with_jobs) for name in modelled.karpenter_groups)


def _adopted(settings: StackSettings) -> Iterator[AdoptedWant]:
    selectors = settings.cluster.node_selectors
    for name, rule in sorted(settings.adopted.items()):
        kind = home_kind(rule.category, rule.gpu.count).value
        own = settings.cluster.context is None
        yield AdoptedWant(name, rule, {NODE_KIND: kind} if own else selectors.get(kind, {}))


def ray_wants(settings: StackSettings, resources: Sequence[Resource]) -> Iterator[RayWant]:
    bundled = settings.cluster.ray_operator is RayOperatorSource.BUNDLED
    for name, ray in settings.ray.items():
        namespace = namespace_of_ray(name)
        head = ray.head.service_account or head_name(name)
        names = {
            (NAMESPACE, RAY_OPERATOR): "operator",
            (namespace, head): "autoscaler",
            (NAMESPACE, WORKLOADS): "workload controller",
        }
        granted = rights_of_accounts(resources, namespace)
        yield RayWant(
            cluster=name,
            namespace=namespace,
            tokens=tuple(
                ObjectWant("Secret", space, token_secret(name), (TOKEN_KEY,))
                for space in (namespace, WORKER_NAMESPACE, NAMESPACE)
            ),
            accounts={
                f"system:serviceaccount:{space}:{account}": (display_name, granted[space, account])
                for (space, account), display_name in names.items()
                if (space, account) in granted
            },
            brings_operator=bundled,
        )


def serving_want(settings: StackSettings) -> ServingWant | None:
    needs, serving, existing = serving_needs(settings), settings.serving, settings.cluster.context is not None
    if not needs.any:
        return None
    envoy = needs.gateway and serving.implementation is Implementation.ENVOY_GATEWAY
    apis = {
        "gateway.networking.k8s.io/v1": needs.gateway,
        "gateway.envoyproxy.io/v1alpha1": envoy,
        "keda.sh/v1alpha1": needs.keda or serving.keda,
        "autoscaling.k8s.io/v1": needs.vertical,
    }
    return ServingWant(
        brings=not existing,
        apis=tuple(api for api, needed in apis.items() if needed),
        keda=needs.keda,
        gateway_class=serving.gateway_class if existing and needs.gateway else None,
        implementation=serving.implementation,
    )
