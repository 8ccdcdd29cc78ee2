"""The spec of a RayCluster from its section of the stack file. Pure, except for outputs in it.

The spec is an annotation of the RayCluster, and the workload controller writes into `spec` those changes that interrupt
nothing (docs/adr/0027). So the annotation never contains `suspend`, nor the numbers of Ray's autoscaler, `replicas` and
`scaleStrategy`.

Decisions:

- **The head has no CPUs**, so that no task competes with the processes that all tasks need.
- **A stopping worker drains.** Ray finishes the running work, moves objects away and accepts no new work. The drain has
  a minute less than the pod's grace period, so that Ray gives up before the kubelet does.
- **No list is empty.** If a head's state outlives its pod, KubeRay's operator adds a finalizer by an update of the
  entire object, which drops empty lists: the spec would differ from the annotation until the cluster sleeps.
- **The home folder is `/tmp`**, a separate volume: an image's home may belong to another user, and Ray writes its
  session to `/tmp`.
- **Shared memory holds objects**, three tenths of the pod's memory, which is Ray's default; objects that do not fit are
  spilled to a volume on the node's disk. Neither stops the cluster autoscaler from removing the node.

**State of the head.** With a state in the stack's Redis, a new head continues where the old one stopped. KubeRay passes
address, password and a key prefix, the RayCluster's UID, to the head's pod. So clusters never share keys, and a
recreated cluster starts empty. Sleep keeps the keys: a cluster sleeps only without drivers, jobs and actors, so a
waking head restores only finished work. When a RayCluster is deleted, the operator creates a Job from the head's own
pod, which removes the keys. Ray accepts address, user and password, but no database number: its keys are in database 0,
like the queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pulumi

from components.cluster.existing import NodeSelectors, translated
from components.context import StackContext
from components.pods.account import account_fields
from components.pods.container import main_container, pod_template, pod_volumes
from components.pods.fragment import merged, wire_form
from components.pods.redis_access import CA_FILE, PASSWORD_KEY, PUBLIC, SECRET, RedisAuthority
from components.pods.rules import (
    NodeRequirement,
    PodIdentity,
    affinity,
    container_security,
    home,
    nodes_of_group,
    pod_security,
    required,
    resources,
    spread,
    tolerations,
)
from ebbtide.provisioning_labels import SAFE_TO_EVICT, NodeKind
from ebbtide.settings.sections.pods.volumes import Volume
from ebbtide.settings.sections.ray import (
    AUTOSCALER_CPU,
    AUTOSCALER_MEMORY,
    HOME,
    RAY_CONTAINER,
    RayGroup,
    RayPod,
    RaySettings,
    group_name,
    head_name,
    token_secret,
)
from ebbtide.text.quantities import memory_quantity
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict, PodSpecArgsDict

_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
"""The path of the system's certificates on Debian and Ubuntu, the bases of Ray's images."""


@dataclass(frozen=True, kw_only=True)
class HeadState:
    """The Redis that stores a head's state."""

    endpoint: RedisEndpoint
    authority: RedisAuthority
    host: pulumi.Input[str] | None = None  # ElastiCache's host, in place of the endpoint's

    def options(self) -> dict[str, Any]:
        """Return a RayCluster's `gcsFaultToleranceOptions`."""
        scheme = "rediss" if self.endpoint.tls else "redis"
        host = self.endpoint.host if self.host is None else self.host
        user = {"redisUsername": {"value": self.endpoint.username}} if self.endpoint.username else {}
        return {
            "redisAddress": pulumi.Output.format("{0}://{1}:{2}", scheme, host, self.endpoint.port),
            "redisPassword": {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": PASSWORD_KEY}}},
            **user,
        }

    def variables(self) -> "list[EnvVarArgsDict]":
        """Return variables for the head's container. Ray's client trusts only an authority that is configured."""
        if not self.endpoint.tls:
            return []
        return [{"name": "RAY_REDIS_CA_CERT", "value": CA_FILE if self.authority.secret else _SYSTEM_CA}]


SPILL = "/var/lib/ray-spill"
_TMP_MIB = 10 * 1024  # sessions and their logs, which Ray rotates
_OBJECTS = 0.3
"""The share of memory for objects: Ray's default (ray-project/ray, DEFAULT_OBJECT_STORE_MEMORY_PROPORTION)."""
_GIVES_UP_BEFORE_S = 60
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SharedValues:
    """The values that all Ray pods of a stack share."""

    stack: StackContext
    node_sets: NodeSelectors | None = None  # of an existing cluster
    gpu_nodes: Mapping[str, NodeRequirement] | None = None  # for GPUs, by group
    state: HeadState | None = None  # for heads whose state outlives their pod


def ray_cluster_spec(name: str, settings: RaySettings, shared: SharedValues) -> dict[str, Any]:
    """Return the spec of the RayCluster `name` in the API's form. Labels and annotations may contain outputs."""
    return {
        "rayVersion": settings.version,
        "authOptions": {"mode": "token", "secretName": token_secret(name)},
        **({} if shared.state is None else {"gcsFaultToleranceOptions": shared.state.options()}),
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": int(min(group.idle_after for group in settings.groups.values()).total_seconds()),
            "securityContext": wire_form(container_security(), "SecurityContext"),
            "resources": resources(cpu=AUTOSCALER_CPU, memory=AUTOSCALER_MEMORY),
            "env": [{"name": "HOME", "value": HOME}],
        },
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", **_objects(settings.head)},
            "template": _head_template(name, settings, shared),
        },
        "workerGroupSpecs": [
            {
                "groupName": key,
                "minReplicas": group.min,
                "maxReplicas": group.max,
                "idleTimeoutSeconds": int(group.idle_after.total_seconds()),
                "rayStartParams": {"num-cpus": str(group.cpu // 1000), **_objects(group)},
                "template": _group_template(name, key, settings, shared),
            }
            for key, group in settings.groups.items()
        ],
    }


def head_identity(cluster: str, customer: str) -> PodIdentity:
    return PodIdentity(name=head_name(cluster), category=Category.FIXED, customer=customer)


def group_identity(cluster: str, group: str, customer: str) -> PodIdentity:
    """Return an identity without the pool label, which is for queue workers."""
    return PodIdentity(name=group_name(cluster, group), category=Category.WORKER, customer=customer, ends=True)


def _head_template(name: str, settings: RaySettings, shared: SharedValues) -> dict[str, Any]:
    identity = head_identity(name, shared.stack.customer)
    # The autoscaler in the head's pod calls the API server with the pod's account.
    account = account_fields(identity.name, settings.head, calls_api=True)
    pod = {**home(NodeKind.FIXED, settings.head.arch), **account}
    if shared.state is None:
        return _template(settings.head, identity, pod, [], shared)
    return _template(settings.head, identity, pod, shared.state.variables(), shared, trusts=shared.state.authority)


def _group_template(cluster: str, key: str, settings: RaySettings, shared: SharedValues) -> dict[str, Any]:
    group: RayGroup = settings.groups[key]
    identity = group_identity(cluster, key, shared.stack.customer)
    grace = int(settings.grace.total_seconds())
    tolerated = tolerations(group.gpu)
    pod = {
        "node_selector": nodes_of_group(group.node_group, group.arch),
        **({"tolerations": tolerated} if tolerated else {}),
        "termination_grace_period_seconds": grace,
        **account_fields(identity.name, group),
    }
    drain: EnvVarArgsDict = {
        "name": "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
        "value": str(grace - _GIVES_UP_BEFORE_S),
    }
    if group.spot:  # the budget is open for drains before an interruption, but the autoscaler must not evict these pods
        group = group.model_copy(update={"annotations": {**group.annotations, SAFE_TO_EVICT: "false"}})
    return _template(group, identity, pod, [drain], shared, (shared.gpu_nodes or {}).get(key))


def _template(
    given: RayPod,
    identity: PodIdentity,
    own: Mapping[str, Any],
    env: "list[EnvVarArgsDict]",
    shared: SharedValues,
    nodes: NodeRequirement | None = None,
    trusts: RedisAuthority = PUBLIC,
) -> dict[str, Any]:
    settings = _with_room(given)
    always: list[EnvVarArgsDict] = [
        {"name": "HOME", "value": HOME},
        {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"},
        *env,
    ]
    common: PodSpecArgsDict = {
        "affinity": affinity(identity.category),
        "topology_spread_constraints": spread(identity, revision_label="ray.io/group"),
        "security_context": pod_security(settings.user),
        "containers": [main_container(settings, RAY_CONTAINER, env=always)],
        **pod_volumes(settings, identity.name),
    }
    pod = trusts.trusted_by(cast("PodSpecArgsDict", {**common, **own}))
    connected = shared.stack.images.pulled(
        shared.stack.egress.through(required(merged(pod, settings.pod, main=RAY_CONTAINER), nodes))
    )
    placed = connected if shared.node_sets is None else cast("PodSpecArgsDict", translated(connected, shared.node_sets))
    metadata = pod_template(settings, identity, connected, shared.stack.secrets).get("metadata")
    return {"metadata": metadata, "spec": wire_form(placed)}


def _with_room(pod: RayPod) -> RayPod:
    """Add scratch volumes for Ray's writes. Scratch volumes let the autoscaler remove the node."""
    rooms = {
        "ray-tmp": Volume.model_validate({"scratch": memory_quantity(_TMP_MIB), "at": HOME}),
        "ray-spill": Volume.model_validate({"scratch": memory_quantity(pod.spill), "at": SPILL}),
    }
    return pod.model_copy(update={"volumes": {**pod.volumes, **rooms}, "shm": _shared_memory(pod)})


def _shared_memory(pod: RayPod) -> int:
    """Return the size of the object store in MiB."""
    return pod.shm if pod.shm is not None else int(pod.memory * _OBJECTS)


def _objects(pod: RayPod) -> dict[str, str]:
    return {
        "object-store-memory": str(_shared_memory(pod) * _MEBIBYTE),
        "object-spilling-directory": SPILL,
    }
