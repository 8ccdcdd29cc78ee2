"""What the Ray clusters of a stack ask of a cluster: what is made in their namespaces, and which account may do what.

Each table is one that `components/` renders; tests compare them.
"""

from collections.abc import Iterator, Mapping

from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.operate.probe.facts import ObjectWant, RayWant, Right
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.cluster import RayOperatorSource
from ebbtide.settings.sections.ray import (
    RAY_OPERATOR,
    TOKEN_KEY,
    RaySettings,
    head_name,
    namespace_of_ray,
    token_secret,
)
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.workloads import WORKLOADS

_MAKE = ("get", "create", "patch", "delete")
_READ = ("get", "list", "watch")
_WRITE = (*_READ, "create", "delete", "patch", "update")
_EVENTS = tuple((group, "events", ("create", "patch")) for group in ("", "events.k8s.io"))

MADE_IN_ITS_NAMESPACE: Mapping[str, tuple[str, str]] = {  # group, resource
    "ConfigMap": ("", "configmaps"),
    "NetworkPolicy": ("networking.k8s.io", "networkpolicies"),
    "PodDisruptionBudget": ("policy", "poddisruptionbudgets"),
    "RayCluster": ("ray.io", "rayclusters"),
    "Role": ("rbac.authorization.k8s.io", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings"),
    "Secret": ("", "secrets"),
    "ServiceAccount": ("", "serviceaccounts"),
}

Rules = tuple[tuple[str, str, tuple[str, ...]], ...]  # group, resource, verbs

OF_THE_OPERATOR: Rules = (
    ("ray.io", "rayclusters", (*_READ, "patch", "update")),
    ("ray.io", "rayclusters/status", ("get", "patch", "update")),
    ("ray.io", "rayclusters/finalizers", ("update",)),
    ("ray.io", "rayjobs", _READ),
    ("ray.io", "rayservices", _READ),
    ("", "pods", (*_WRITE, "deletecollection")),
    ("", "services", _WRITE),
    ("", "secrets", _READ),
    ("", "serviceaccounts", _READ),
    ("rbac.authorization.k8s.io", "roles", _READ),
    ("rbac.authorization.k8s.io", "rolebindings", _READ),
    ("batch", "jobs", _READ),
    ("discovery.k8s.io", "endpointslices", _READ),
    *_EVENTS,
)
CLEAN_UP: Rules = (("batch", "jobs", ("create",)),)
"""Beside them, where a head's state outlives it."""
OF_THE_AUTOSCALER: Rules = (
    ("", "pods", (*_READ, "patch")),
    ("ray.io", "rayclusters", ("get", "patch")),
)
OF_THE_WORKLOAD_CONTROLLER: Rules = (("ray.io", "rayclusters", (*_READ, "patch")), *_EVENTS)
"""Of these `patch` of a RayCluster is granted by its name."""


def _of(rules: Rules, namespace: str) -> tuple[Right, ...]:
    return tuple(Right(verb, group, resource, namespace) for group, resource, verbs in rules for verb in verbs)


def _by_name(right: Right, cluster: str) -> Right:
    return right._replace(name=cluster) if (right.verb, right.resource) == ("patch", "rayclusters") else right


def ray_rights(settings: StackSettings) -> Iterator[Right]:
    """Of whoever runs `pulumi up`: to make what is in Ray's namespaces, and to grant what is granted there."""
    if not settings.ray:
        return
    bundled = _brings_operator(settings)
    for verb in _MAKE if bundled else ():
        yield Right(verb, "apiextensions.k8s.io", "customresourcedefinitions")
    for name, ray in settings.ray.items():
        here = namespace_of_ray(name)
        for group, resource in MADE_IN_ITS_NAMESPACE.values():
            yield from (Right(verb, group, resource, here) for verb in _MAKE)
        operator = _of_the_operator(ray) if bundled else ()
        for rules in (operator, OF_THE_AUTOSCALER, OF_THE_WORKLOAD_CONTROLLER):
            yield from _of(rules, here)


def _brings_operator(settings: StackSettings) -> bool:
    return settings.cluster.ray_operator is RayOperatorSource.BUNDLED


def _of_the_operator(ray: RaySettings) -> Rules:
    return (*OF_THE_OPERATOR, *(CLEAN_UP if ray.remembers else ()))


def ray_wants(settings: StackSettings) -> Iterator[RayWant]:
    bundled = _brings_operator(settings)
    for name, ray in settings.ray.items():
        here = namespace_of_ray(name)
        head = ray.head.service_account or head_name(name)
        writes = tuple(_by_name(right, name) for right in _of(OF_THE_WORKLOAD_CONTROLLER, here))
        accounts = {
            **({(NAMESPACE, RAY_OPERATOR): ("operator", _of(_of_the_operator(ray), here))} if bundled else {}),
            (here, head): ("autoscaler", _of(OF_THE_AUTOSCALER, here)),
            (NAMESPACE, WORKLOADS): ("workload controller", writes),
        }
        yield RayWant(
            cluster=name,
            namespace=here,
            tokens=tuple(
                ObjectWant("Secret", space, token_secret(name), (TOKEN_KEY,))
                for space in (here, WORKER_NAMESPACE, NAMESPACE)
            ),
            accounts={f"system:serviceaccount:{space}:{name}": it for (space, name), it in accounts.items()},
            brings_operator=bundled,
        )
