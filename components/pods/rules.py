"""Placement, resources and anti-affinity of pods. Pure: settings in, plain values out.

**Categories apart.** The scheduler enforces required anti-affinity both ways, so terms on the few fixed pods keep
flexible and worker pods off their nodes as well. The other nine in ten pods carry no terms, which makes the cluster
autoscaler's loop faster; docs/adr/0012 has the scheduler's part.

**Categories together.** Every pod prefers a node that already holds its own category. The scheduler scores by spreading
and EKS offers no way to change that; this preference fills a node before the next one is used.

**Soft spread.** Replicas of one workload prefer different hosts and zones: two pods of one budget on one node drain one
after the other, within the autoscaler's two minutes. The constraint is `ScheduleAnyway` because the autoscaler counts
only hard constraints when it looks for room elsewhere, so the spread never keeps a node alive at night. Workers are not
spread: they are independent, and full nodes are what lets the other nodes go.

**Preemption** respects budgets only on a best-effort basis, and DNS, the volume controller and the autoscaler, which
run on fixed nodes, have a class that preempts. Our pods there have the same class, so only a DaemonSet outranks them.
Elsewhere our pods have no class: a pending pod would preempt workers instead of waiting for a node.

**GPU memory.** A pod may require nodes whose GPUs have enough memory. Otherwise the scheduler puts it wherever a GPU is
free, and the first large batch ends in an error of CUDA. The trap: terms of a required node affinity are alternatives,
so a separate term beside those of a fragment would allow nodes that satisfy only the fragment. The requirement is
therefore added to each term.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from ebbtide.provisioning_labels import (
    ARCH,
    CUSTOMER,
    GPU_MEMORY,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    NVIDIA,
    POOL,
    Architecture,
    NodeKind,
)
from ebbtide.settings.sections.pods.pod import NO_GPU, Gpu
from ebbtide.units.quantities import cpu_quantity, memory_quantity
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NODE_GROUP, NODE_KIND, WORKLOAD, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        PodSecurityContextArgsDict,
        PodSpecArgsDict,
        ResourceRequirementsArgsDict,
        SecurityContextArgsDict,
        TolerationArgsDict,
        TopologySpreadConstraintArgsDict,
    )

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

CLUSTER_CRITICAL = "system-cluster-critical"
"""The class of DNS and of the autoscaler, which every cluster has: see docs/adr/0014."""

OLD_POD_FIRST: "DeploymentStrategyArgsDict" = {
    "type": "RollingUpdate",
    "rolling_update": {"max_surge": 0, "max_unavailable": 1},
}
"""Strategy of Deployments on fixed nodes. They are few and full, so a rollout with a surge pod may never end."""

CLOSED_BUDGET = 0
"""Budgets are created closed, except those of spot nodes. The controller opens the budgets of flexible workloads and of
pools with checkpoints."""

OPEN_TO_ALL = "100%"
"""For workers on spot nodes whose jobs must be saved (docs/adr/0025), and for variants of services there."""

USER = 1000  # a number, because the kubelet cannot prove that a named user is not root
OWN_KIND_WEIGHT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """Name and category of a pod. The selector contains the name only: it cannot change, and the category may."""

    name: str
    category: Category
    customer: str
    ends: bool = False  # a job's pod has no label of a pool, since that refers to a pool's settings

    @property
    def labels(self) -> dict[str, str]:
        labels = {
            "app.kubernetes.io/name": self.name,
            WORKLOAD: self.name,
            CATEGORY: self.category.value,
            CUSTOMER: self.customer,
        }
        return labels | {POOL: self.name} if self.category is Category.WORKER and not self.ends else labels

    @property
    def selector(self) -> dict[str, str]:
        return {WORKLOAD: self.name}


def affinity(category: Category) -> "AffinityArgsDict":
    """Return a preference for the same category and, for fixed pods, the terms that keep the categories apart."""
    own_kind: AffinityArgsDict = {
        "pod_affinity": {
            "preferred_during_scheduling_ignored_during_execution": [
                {
                    "weight": OWN_KIND_WEIGHT,
                    "pod_affinity_term": {
                        "label_selector": {"match_labels": {CATEGORY: category.value}},
                        "namespace_selector": {},
                        "topology_key": HOST,
                    },
                }
            ]
        }
    }
    if category is not Category.FIXED:
        return own_kind
    return {
        **own_kind,
        "pod_anti_affinity": {
            "required_during_scheduling_ignored_during_execution": [
                {
                    "label_selector": {
                        "match_expressions": [
                            {
                                "key": CATEGORY,
                                "operator": "In",
                                "values": [Category.FLEXIBLE.value, Category.WORKER.value],
                            }
                        ]
                    },
                    "namespace_selector": {},  # every namespace; the default is the pod's namespace
                    "topology_key": HOST,
                }
            ]
        },
    }


def spread(identity: PodIdentity, *, revision_label: str) -> "list[TopologySpreadConstraintArgsDict]":
    """Return a soft spread over hosts and zones. `revision_label` limits the comparison to pods of one rollout."""
    if identity.category is Category.WORKER:
        # All candidates share a node group, so this has no effect. A pod without any constraint gets the scheduler's
        # defaults, which spread it over hosts.
        return [_soft_constraint(NODE_GROUP, identity, [])]
    return [_soft_constraint(key, identity, [revision_label]) for key in (HOST, ZONE)]


def _soft_constraint(key: str, identity: PodIdentity, revision: list[str]) -> "TopologySpreadConstraintArgsDict":
    constraint: TopologySpreadConstraintArgsDict = {
        "max_skew": 1,
        "topology_key": key,
        "when_unsatisfiable": "ScheduleAnyway",
        "label_selector": {"match_labels": identity.selector},
    }
    return {**constraint, "match_label_keys": revision} if revision else constraint


def nodes_of_kind(kind: NodeKind) -> dict[str, str]:
    return {NODE_KIND: kind.value}


class Home(TypedDict):
    """Fields of a pod's spec."""

    node_selector: dict[str, str]
    priority_class_name: NotRequired[str]


def home(kind: NodeKind, arch: Architecture | None = None) -> Home:
    """Return the selector of a kind and an architecture, and on fixed nodes the priority class.

    Ebbtide's own pods name no architecture, since their images support both.
    """
    nodes: Home = {"node_selector": nodes_of_kind(kind) | nodes_of_architecture(arch)}
    return {**nodes, "priority_class_name": CLUSTER_CRITICAL} if kind is NodeKind.FIXED else nodes


class Priority(TypedDict, total=False):
    """A field of a pod's spec."""

    priority_class_name: str


def priority(value: int | None) -> Priority:
    """Return the stack's class of that value, which orders pending pods and preempts none."""
    return {} if value is None else {"priority_class_name": priority_class(value)}


def priority_class(value: int) -> str:
    return f"ebbtide-priority-{value}"


def nodes_of_group(group: str, arch: Architecture | None = None) -> dict[str, str]:
    return {NODE_GROUP: group} | nodes_of_architecture(arch)


def nodes_of_architecture(arch: Architecture | None) -> dict[str, str]:
    """Return no label if all nodes for the pod have the same architecture."""
    return {} if arch in (None, Architecture.ANY) else {ARCH: arch.value}


def tolerations(gpu: Gpu) -> "list[TolerationArgsDict]":
    """Tolerate the usual taint of NVIDIA's nodes, and one with the name of another plugin's resource."""
    if gpu.count == 0:
        return []
    nvidia: TolerationArgsDict = {
        "key": GPU_TAINT_KEY,
        "operator": "Equal",
        "value": GPU_TAINT_VALUE,
        "effect": "NoSchedule",
    }
    resource_taint: TolerationArgsDict = {"key": gpu.resource, "operator": "Exists", "effect": "NoSchedule"}
    if gpu.resource == GPU_RESOURCE:
        return [nvidia]
    return [nvidia, resource_taint] if gpu.resource.startswith(NVIDIA) else [resource_taint]


def resources(
    *,
    cpu: int,
    memory: int,
    gpu: Gpu = NO_GPU,
    ephemeral: int | None = None,
    most_cpu: int | None = None,
    most_memory: int | None = None,
) -> "ResourceRequirementsArgsDict":
    """Requests and limits from millicores and MiB.

    By default memory is limited to its request, so that one pod's growth never evicts another. CPU is not limited,
    because the spare CPU would only idle.
    """
    equal_requests = {gpu.resource: str(gpu.count)} if gpu.count else {}
    if ephemeral is not None:
        equal_requests["ephemeral-storage"] = memory_quantity(ephemeral)
    limits = {"memory": memory_quantity(most_memory or memory)} | equal_requests
    if most_cpu is not None:
        limits["cpu"] = cpu_quantity(most_cpu)
    return {
        "requests": {"cpu": cpu_quantity(cpu), "memory": memory_quantity(memory)} | equal_requests,
        "limits": limits,
    }


def pod_security(user: int = USER) -> "PodSecurityContextArgsDict":
    """Together with `container_security`, meet the restricted Pod Security level."""
    return {
        "run_as_non_root": True,
        "run_as_user": user,
        "run_as_group": user,
        "fs_group": user,
        "fs_group_change_policy": "OnRootMismatch",
        "seccomp_profile": {"type": "RuntimeDefault"},
    }


def container_security(*, read_only: bool = False) -> "SecurityContextArgsDict":
    """`read_only` is for Ebbtide's images. A customer's image may write to its root file system."""
    return {
        "allow_privilege_escalation": False,
        "capabilities": {"drop": ["ALL"]},
        "read_only_root_filesystem": read_only,
    }


_REQUIRED = "required_during_scheduling_ignored_during_execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirement:
    """A required label of a pod's node."""

    key: str
    operator: str
    values: tuple[str, ...]


def labelled_memory(mebibytes: int) -> NodeRequirement:
    """Require NVIDIA's label, on existing clusters. Kubernetes has "more than" and no "at least"."""
    return NodeRequirement(key=GPU_MEMORY, operator="Gt", values=(str(mebibytes - 1),))


def one_of_groups(names: Iterable[str]) -> NodeRequirement:
    """Require one of the stack's node groups. The autoscaler knows this label also for a group without nodes."""
    return NodeRequirement(key=NODE_GROUP, operator="In", values=tuple(sorted(names)))


def required(pod: "PodSpecArgsDict", nodes: NodeRequirement | None) -> "PodSpecArgsDict":
    """Return the pod with the requirement. A term without an expression matches no node and stays unchanged."""
    if nodes is None:
        return pod
    more = {"key": nodes.key, "operator": nodes.operator, "values": list(nodes.values)}
    affinity = cast("dict[str, Any]", pod.get("affinity") or {})
    of_nodes = cast("dict[str, Any]", affinity.get("node_affinity") or {})
    terms = cast("list[dict[str, Any]]", of_nodes.get(_REQUIRED, {}).get("node_selector_terms", []))
    narrowed = [
        {**term, "match_expressions": [*term.get("match_expressions", []), more]} if any(term.values()) else term
        for term in terms
    ]
    selector = {"node_selector_terms": narrowed or [{"match_expressions": [more]}]}
    narrowed_affinity = {**affinity, "node_affinity": {**of_nodes, _REQUIRED: selector}}
    return cast("PodSpecArgsDict", {**pod, "affinity": narrowed_affinity})
