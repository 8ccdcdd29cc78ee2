"""Placement, resources and anti-affinity of pods. Pure: settings in, plain values out.

**Categories apart.** The scheduler enforces required anti-affinity both ways, so terms on the few fixed pods also keep
flexible and worker pods off the fixed pods' nodes. The other nine in ten pods have no terms, which makes the cluster
autoscaler's loop faster; docs/adr/0012 describes the scheduler's part.

**Categories together.** Every pod prefers a node with pods of the same category. The scheduler spreads pods, and EKS
has no option to change its scoring; this preference fills a node before the next one is used.

**Soft spread.** Replicas of one workload prefer different hosts and zones: two pods of one budget on one node drain one
after the other, within the autoscaler's two minutes. The constraint is `ScheduleAnyway` because the autoscaler counts
only hard constraints when it looks for capacity elsewhere, so the spread never keeps a node alive at night. Workers are
not spread: they are independent, and packing them into full nodes empties the others.

**Preemption** respects budgets only on a best-effort basis, and DNS, the volume controller and the autoscaler, which
run on fixed nodes, have a class that preempts. Our pods there have the same class, so only a DaemonSet outranks them.
Elsewhere our pods have no class: with one, a pending pod would preempt workers instead of waiting for a node.

**GPU memory.** A pod may require nodes whose GPUs have enough memory. Otherwise the scheduler places it wherever a GPU
is free, and the first large batch ends in a CUDA error. The trap: terms of a required node affinity are alternatives,
so a separate term in addition to a fragment's terms would allow nodes that satisfy only the fragment. The requirement
is therefore added to each term.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from ebbtide.kube.taints import Toleration, gpu_tolerations
from ebbtide.provisioning_labels import ARCH, CUSTOMER, GPU_MEMORY, POOL, Architecture, NodeKind
from ebbtide.settings.sections.pods.pod import NO_GPU, Gpu
from ebbtide.text.quantities import cpu_quantity, memory_quantity
from ebbtide.vocabulary.labels import CATEGORY, NODE_GROUP, NODE_KIND, WORKLOAD, Category

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        NodeSelectorTermArgsDict,
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
"""The priority class of DNS and the autoscaler. Every cluster has this class: see docs/adr/0014."""

OLD_POD_FIRST: "DeploymentStrategyArgsDict" = {
    "type": "RollingUpdate",
    "rolling_update": {"max_surge": 0, "max_unavailable": 1},
}
"""Strategy of Deployments on fixed nodes. These are few and full, so a rollout with a surge pod may never end."""

OS = "kubernetes.io/os"
"""Label of every node. All nodes of a stack have the same value."""

CLOSED_BUDGET = 0
"""Budgets are created closed, except those of spot nodes. The controller opens the budgets of flexible workloads and of
pools with checkpoints."""

OPEN_TO_ALL = "100%"
"""For workers on spot nodes whose jobs must be saved (docs/adr/0025), and for variants of services there."""

USER = 1000  # a number, because the kubelet cannot prove that a named user is not root
OWN_KIND_WEIGHT = 50
FIRST_GROUP_WEIGHT = 100  # the highest that Kubernetes allows


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """Name and category of a pod. The selector contains only the name: a selector cannot change, a category may."""

    name: str
    category: Category
    customer: str
    ends: bool = False  # True for a job's pod, which has no pool label, since this refers to a pool's settings

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


def first_choice(group: str) -> "AffinityArgsDict":
    """Return a preference for nodes of a group, for pods that may use a second one.

    The provisioner chooses the group of a new node by its own order; the scheduler among existing nodes by this.
    """
    in_group: NodeSelectorTermArgsDict = {
        "match_expressions": [{"key": NODE_GROUP, "operator": "In", "values": [group]}]
    }
    return {
        "node_affinity": {
            "preferred_during_scheduling_ignored_during_execution": [
                {"weight": FIRST_GROUP_WEIGHT, "preference": in_group}
            ]
        }
    }


def spread(
    identity: PodIdentity, *, revision_label: str, same: str = NODE_GROUP
) -> "list[TopologySpreadConstraintArgsDict]":
    """Return a soft spread over hosts and zones. `revision_label` limits it to the pods of one rollout.

    `same` is a label that all candidate nodes of a worker have with the same value.
    """
    if identity.category is Category.WORKER:
        # This constraint has no effect. Without any constraint, the scheduler's defaults would spread the pods over
        # hosts.
        return [_soft_constraint(same, identity, [])]
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
    """Return the selector for a kind and an architecture, and for fixed nodes the priority class.

    Ebbtide's own pods name no architecture, since their images support both.
    """
    nodes: Home = {"node_selector": nodes_of_kind(kind) | nodes_of_architecture(arch)}
    return {**nodes, "priority_class_name": CLUSTER_CRITICAL} if kind is NodeKind.FIXED else nodes


class Priority(TypedDict, total=False):
    """A field of a pod's spec."""

    priority_class_name: str


def priority(value: int | None) -> Priority:
    """Return the stack's priority class of this value, which orders pending pods and preempts none."""
    return {} if value is None else {"priority_class_name": priority_class(value)}


def priority_class(value: int) -> str:
    return f"ebbtide-priority-{value}"


def nodes_of_group(group: str, arch: Architecture | None = None) -> dict[str, str]:
    return {NODE_GROUP: group} | nodes_of_architecture(arch)


def nodes_of_architecture(arch: Architecture | None) -> dict[str, str]:
    """Return no label if all nodes for the pod have the same architecture."""
    return {} if arch in (None, Architecture.ANY) else {ARCH: arch.value}


def tolerations(gpu: Gpu) -> "list[TolerationArgsDict]":
    """Return the tolerations of a pod with these GPUs."""
    return [*map(toleration_args, gpu_tolerations(gpu.resource))] if gpu.count else []


def toleration_args(toleration: Toleration) -> "TolerationArgsDict":
    return cast("TolerationArgsDict", toleration.document)


def resources(
    *,
    cpu: int,
    memory: int,
    gpu: Gpu = NO_GPU,
    ephemeral: int | None = None,
    most_cpu: int | None = None,
    most_memory: int | None = None,
) -> "ResourceRequirementsArgsDict":
    """Return requests and limits from millicores and MiB.

    By default the memory limit equals the request, so that one pod's growth never evicts another. CPU has no limit,
    because spare CPU would otherwise idle.
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
    """Return a context that, together with `container_security`, meets the restricted Pod Security level."""
    return {
        "run_as_non_root": True,
        "run_as_user": user,
        "run_as_group": user,
        "fs_group": user,
        "fs_group_change_policy": "OnRootMismatch",
        "seccomp_profile": {"type": "RuntimeDefault"},
    }


def container_security(*, read_only: bool = False) -> "SecurityContextArgsDict":
    """Return a restricted context. `read_only` is for Ebbtide's images; a customer's image may write to its root."""
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
    """Require NVIDIA's label, on existing clusters. Kubernetes has an operator for "more than", none for "at least"."""
    return NodeRequirement(key=GPU_MEMORY, operator="Gt", values=(str(mebibytes - 1),))


def one_of_groups(names: Iterable[str]) -> NodeRequirement:
    """Require one of the stack's node groups. The autoscaler knows this label even if a group has no nodes."""
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
