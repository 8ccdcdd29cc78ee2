"""Convert a pod's spec to the modelled cluster. Pure.

Features that the model lacks are named and not dropped: a reader of `unmodelled` can refuse, or keep the pod's node.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ebbtide.kube.taints import toleration_of
from ebbtide.lab.simulator.cluster.autoscaler.removal import SYSTEM_CATEGORY
from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.operate.objects import at, requested_units, words_at
from ebbtide.recording.drainable import SAFE_TO_EVICT, local_volumes
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NODE_GROUP, WORKLOAD

Item: TypeAlias = Mapping[str, Any]

HOST = "kubernetes.io/hostname"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodModel:
    """`unmodelled`: features of the spec that the model lacks, in words."""

    model: WorkloadModel
    unmodelled: tuple[str, ...] = ()


def pod_model_of(pod: Item, name: str, startup_s: float = 0.0) -> PodModel:
    """Convert a pod, or a template with its namespace; `name` is that of its workload."""
    spec: Item = at(pod, "spec") or {}
    labels, annotations = words_at(pod, "metadata", "labels"), words_at(pod, "metadata", "annotations")
    terms = list(_anti_affinity(spec))
    safe = annotations.get(SAFE_TO_EVICT)
    model = WorkloadModel(
        name=name,
        category=_category(at(pod, "metadata", "namespace") or "", labels),
        cpu_m=requested_units(pod, "cpu"),
        memory_mib=requested_units(pod, "memory"),
        gpu=requested_units(pod, GPU_RESOURCE),
        node_selector=words_at(spec, "nodeSelector"),
        one_of=_one_of(spec),
        one_per_node=any(_is_own(term, labels) for term in terms),
        anti_affinity_with=tuple(category for term in terms for category in _categories(term)),
        empty_dir=bool(local_volumes(pod)),
        safe_to_evict=None if safe is None else safe == "true",
        grace_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        tolerations=tuple(toleration_of(toleration) for toleration in spec.get("tolerations") or ()),
        startup_s=startup_s,
    )
    return PodModel(model=model, unmodelled=tuple(_unmodelled(spec, labels)))


def _category(namespace: str, labels: Mapping[str, str]) -> str:
    return SYSTEM_CATEGORY if namespace == "kube-system" else labels.get(CATEGORY, "")


def _one_of(spec: Item) -> frozenset[str] | None:
    """Return the node groups of a required affinity that has one term with this label only."""
    terms = at(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms") or ()
    expressions = at(terms[0], "matchExpressions") if len(terms) == 1 and set(terms[0]) == {"matchExpressions"} else ()
    if len(expressions) != 1 or (expressions[0].get("key"), expressions[0].get("operator")) != (NODE_GROUP, "In"):
        return None
    return frozenset(map(str, expressions[0]["values"]))


def _anti_affinity(spec: Item) -> Iterator[Item]:
    yield from at(spec, "affinity", "podAntiAffinity", _REQUIRED) or ()


def _categories(term: Item) -> tuple[str, ...]:
    """Return the categories that a term excludes; empty for other terms, and those of some namespaces only."""
    if term.get("topologyKey") != HOST or term.get("namespaceSelector") != {}:
        return ()
    exact, expressions = words_at(term, "labelSelector", "matchLabels"), at(term, "labelSelector", "matchExpressions")
    if list(exact) == [CATEGORY] and not expressions:
        return (exact[CATEGORY],)
    first: Item = expressions[0] if expressions and len(expressions) == 1 and not exact else {}
    if (first.get("key"), first.get("operator")) == (CATEGORY, "In"):
        return tuple(str(value) for value in first["values"])
    return ()


def _is_own(term: Item, labels: Mapping[str, str]) -> bool:
    """Return True for a term against pods of the same workload."""
    exact = words_at(term, "labelSelector", "matchLabels")
    return term.get("topologyKey") == HOST and bool(exact) and exact == {WORKLOAD: labels.get(WORKLOAD)}


def _unmodelled(spec: Item, labels: Mapping[str, str]) -> Iterator[str]:
    if at(spec, "affinity", "nodeAffinity", _REQUIRED) and _one_of(spec) is None:
        yield "required node affinity other than to node groups"
    if at(spec, "affinity", "podAffinity", _REQUIRED):
        yield "required pod affinity"
    if any(not _categories(term) and not _is_own(term, labels) for term in _anti_affinity(spec)):
        yield "required anti-affinity other than by category or against itself"
    constraints = at(spec, "topologySpreadConstraints") or ()
    if any(constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in constraints):
        yield "a hard spread over nodes or zones"
    volumes = at(spec, "volumes") or ()
    if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes):
        yield "a volume that is bound to a place"
    containers = at(spec, "containers") or ()
    if any(port.get("hostPort") for container in containers for port in at(container, "ports") or ()):
        yield "a port of the host"
    if at(spec, "resourceClaims"):
        yield "devices that are claimed by name"
