"""Explain which pods pin a node, by the rules of whatever removes it: the cluster autoscaler, or Karpenter.

Pure: raw objects of the API in, sentences out. The autoscaler's rules: DaemonSet, mirror and finished pods never pin;
`safe-to-evict` overrides everything but a budget. A pod pins if it has no controller or a controller of a kind that the
autoscaler does not know, if it runs in kube-system without a budget, if it keeps files on the node, or if a budget
allows no disruption.
On Karpenter's nodes a pod pins because of a budget or of Karpenter's own annotation, which counts on DaemonSet and
mirror pods, too (Karpenter 1.14, `ValidatePodsDisruptable`). Both programs also read an annotation of the node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ebbtide.kube.taints import Taint, toleration_of
from ebbtide.operate.objects import (
    annotations_of,
    at,
    labels_of,
    max_unavailable_of,
    parse_instant,
    requested,
    rows_at,
    sync_failure,
    words_at,
)
from ebbtide.operate.ray.facts import RAY_CLUSTER
from ebbtide.operate.wording import reason_text
from ebbtide.provisioning_labels import POOL, SAFE_TO_EVICT
from ebbtide.recording.drainable import (
    SAFE_VOLUMES,
    AutoscalerRules,
    Item,
    Pin,
    controller_kind,
    covers,
    local_volumes,
    pins,
)
from ebbtide.text.durations import read_duration
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NAMESPACE, NODE_GROUP, WORKLOAD, Category

MAY_GO = "may be evicted"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
NO_SCALE_DOWN = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
NODE_POOL = "karpenter.sh/nodepool"
DISRUPTED = "karpenter.sh/disrupted"
_MIRROR = "kubernetes.io/config.mirror"
_CUSTOM_FLAG = "skip-nodes-with-custom-controller-pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(AutoscalerRules):
    """Options of this cluster's autoscaler, or `karpenter`, which has none."""

    karpenter: bool = False
    now: datetime | None = None  # None: unknown, so an annotation with a duration never expires
    window_reason: str = ""  # why flexible budgets are open or closed, if known


def rules_of(
    node: Item | None, flags: Mapping[str, str] | None, *, now: datetime | None = None, window_reason: str = ""
) -> Rules:
    """Return the rules that decide about the pods of this node. `flags` are the cluster autoscaler's."""
    return Rules(
        karpenter=bool(words_at(node, "metadata", "labels").get(NODE_POOL)),
        local_storage_pins=is_on(flags, "skip-nodes-with-local-storage", default=True),
        system_pods_pin=is_on(flags, "skip-nodes-with-system-pods", default=True),
        custom_controllers_pin=is_on(flags, _CUSTOM_FLAG, default=True),
        now=now,
        window_reason=window_reason,
    )


def is_on(flags: Mapping[str, str] | None, name: str, *, default: bool) -> bool:
    """Return the value of a boolean flag of the autoscaler, which also accepts `1`, `t` and `True`."""
    text = (flags or {}).get(name, "").lower()
    return text in ("1", "t", "true") if text else default


def node_marks(node: Item, rules: Rules) -> list[str]:
    """Return the annotation that keeps the node independently of its pods."""
    key = DO_NOT_DISRUPT if rules.karpenter else NO_SCALE_DOWN
    return [f"carries {key}: true"] if annotations_of(node).get(key) == "true" else []


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """`reasons` pin the node; without one, `note` says why the pod does not."""

    pod: str  # namespace/name
    reasons: tuple[str, ...] = ()
    note: str = ""
    owner: str = ""  # of an adopted pod, with its rule

    @property
    def title(self) -> str:
        return f"{self.pod} ({self.owner})" if self.owner else self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """Budgets, rules, owners and Ray's explanations that a pod is judged by."""

    budgets: Sequence[Item] = ()
    rules: Rules = field(default=Rules())
    ray: Mapping[str, str] = field(default_factory=dict[str, str])  # by pod of Ray: its cluster, and why it stays
    owners: Mapping[str, str] = field(default_factory=dict[str, str])  # by adopted pod
    node_group: str = ""  # of the node, if known


def pod_name(pod: Item) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def rule_of(pod: Item, budgets: Sequence[Item]) -> str:
    """Return the rule that adopts the pod, by its label or, for a pod that is older than the rule, by its budget."""
    namespace = str(pod["metadata"]["namespace"])
    if namespace == NAMESPACE or namespace.startswith(f"{NAMESPACE}-"):
        return ""
    labelled = (pod, *(budget for budget in budgets if covers(budget, pod)))
    return next((rule for item in labelled if (rule := labels_of(item).get(WORKLOAD))), "")


def judge(pod: Item, context: PodContext) -> PodVerdict:
    """Decide whether this pod keeps its node, and why."""
    name = pod_name(pod)
    rules, owner, note = context.rules, context.owners.get(name, ""), _of_the_node(pod) or MAY_GO
    if gone := _gone(pod):
        return PodVerdict(name, note=gone, owner=owner)
    if note != MAY_GO and not rules.karpenter:
        return PodVerdict(name, note=note, owner=owner)
    budgets = [budget for budget in context.budgets if covers(budget, pod)]
    reasons = _pod_reasons(pod, has_budget=bool(budgets), rules=rules)
    if not (rules.karpenter and left_alone(pod)):
        reasons += _budget_reasons(pod, budgets, rules)
    reasons += [context.ray[name]] if reasons and name in context.ray else []
    reasons += _on_its_fallback(pod, context.node_group) if reasons else []
    return PodVerdict(name, tuple(reasons), "" if reasons else note, owner)


def first_choice(pod: Item) -> str:
    """Return the node group that a pod or template prefers; empty if it may use one group only."""
    rows = rows_at(pod, "spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    return next((group for row in rows for group in _groups_of_term(row.get("preference"))), "")


def required_groups(pod: Item) -> set[str]:
    """Return the node groups that a pod's or template's node affinity requires."""
    required = at(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return {group for term in rows_at(required, "nodeSelectorTerms") for group in _groups_of_term(term)}


def _groups_of_term(term: object) -> list[str]:
    rows = [row for row in rows_at(term, "matchExpressions") if row.get("key") == NODE_GROUP]
    return [str(value) for row in rows for value in row.get("values") or ()]


def _on_its_fallback(pod: Item, node_group: str) -> list[str]:
    first = first_choice(pod)
    if not node_group or first in ("", node_group):
        return []
    return [f"its first choice is {first}; nothing moves it back in business hours, and it goes when idle"]


def _of_the_node(pod: Item) -> str:
    if any(owner.get("kind") == "DaemonSet" for owner in rows_at(pod, "metadata", "ownerReferences")):
        return "belongs to a DaemonSet, and every node has such pods"
    return "is a static pod of the node itself" if _MIRROR in annotations_of(pod) else ""


def left_alone(pod: Item) -> bool:
    """Return True if Karpenter does not evict the pod when it removes the node, so that no budget matters."""
    tolerations = map(toleration_of, rows_at(pod, "spec", "tolerations"))
    return _MIRROR in annotations_of(pod) or Taint(DISRUPTED).tolerated_by(tolerations)


def _gone(pod: Item) -> str:
    if at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return "has ended"
    if at(pod, "metadata", "deletionTimestamp"):
        seconds = at(pod, "metadata", "deletionGracePeriodSeconds") or 0
        return f"is terminating (it has up to {max(1, int(seconds) // 60)} min to finish)"
    return ""


def _pod_reasons(pod: Item, *, has_budget: bool, rules: Rules) -> list[str]:
    if rules.karpenter:
        return _do_not_disrupt(pod, rules.now)
    bare = not any(owner.get("controller") for owner in at(pod, "metadata", "ownerReferences") or ())
    words = {
        Pin.ANNOTATED: f"carries {SAFE_TO_EVICT}: false",
        Pin.BARE: "is a bare pod: nothing would recreate it",
        Pin.CUSTOM: f"is a {controller_kind(pod)}'s: the autoscaler does not move it without {_CUSTOM_FLAG}=false",
        Pin.SYSTEM: "is a kube-system pod without a budget",
        Pin.LOCAL_VOLUMES: f"keeps files on the node: {', '.join(local_volumes(pod))} (allow it with {SAFE_VOLUMES})",
    }
    return [words[pin] for pin in pins(pod, rules, bare=bare, has_budget=has_budget)]


def _do_not_disrupt(pod: Item, now: datetime | None) -> list[str]:
    """Return the annotation that keeps Karpenter off: `true`, or a duration from the pod's start that has not ended."""
    value = annotations_of(pod).get(DO_NOT_DISRUPT)
    if value in (None, "", "false"):
        return []
    protected, started = read_duration(value), parse_instant(at(pod, "status", "startTime"))
    if protected is not None and started is not None and now is not None and now - started >= protected:
        return []
    return [f"carries {DO_NOT_DISRUPT}: {value}"]


def _budget_reasons(pod: Item, budgets: Sequence[Item], rules: Rules) -> list[str]:
    names = [str(budget["metadata"]["name"]) for budget in budgets]
    if len(budgets) > 1:
        return [f"is under several budgets ({', '.join(names)}): the Eviction API then always refuses"]
    return [refusal for budget in budgets if (refusal := budget_refusal(budget, pod, rules))]


def budget_refusal(budget: Item, pod: Item, rules: Rules) -> str:
    """Return why this budget allows no disruption of the pod now; empty if it does."""
    name = budget["metadata"]["name"]
    if at(pod, "status", "phase") == "Pending":
        return ""  # the Eviction API ignores budgets for a pod that never ran
    if not _is_ready(pod) and at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return ""
    if failure := sync_failure(budget):  # the status then stays behind, too
        return f"its budget {name} allows no disruption: Kubernetes cannot calculate it (SyncFailed: {failure})"
    behind = (at(budget, "status", "observedGeneration") or 0) < (at(budget, "metadata", "generation") or 0)
    if behind:
        return f"its budget {name} has just changed, and its status has not caught up"
    if (at(budget, "status", "disruptionsAllowed") or 0) > 0:
        return ""
    if max_unavailable_of(budget) in (0, "0%"):
        return f"its budget {name} is closed: {_why_closed(pod, budget, rules)}"
    healthy, required = at(budget, "status", "currentHealthy") or 0, at(budget, "status", "desiredHealthy") or 0
    return f"its budget {name} allows no disruption: {healthy} pods are healthy and {required} must be"


def _is_ready(pod: Item) -> bool:
    conditions = at(pod, "status", "conditions") or ()
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)


def _why_closed(pod: Item, budget: Item, rules: Rules) -> str:
    labels = labels_of(pod)
    match labels.get(CATEGORY) or labels_of(budget).get(CATEGORY):
        case Category.WORKER:
            gpu = " (a GPU job may be running)" if requested(pod, GPU_RESOURCE) else ""
            pool = labels.get(POOL)
            if RAY_CLUSTER in labels:
                return f"workers of Ray are not evicted{gpu}; Ray's autoscaler removes an idle one"
            if pool is None:
                return f"workers are never evicted{gpu}; this one belongs to no pool, and goes when it has ended"
            return f"workers are not evicted now{gpu}; pool {pool} removes it when idle: ebbtide why pool {pool}"
        case Category.FIXED:
            return "fixed workloads are never evicted outside a maintenance: ebbtide maintenance"
        case Category.FLEXIBLE:
            now = f" (now: {reason_text(rules.window_reason)})" if rules.window_reason else ""
            return f"flexible workloads are evicted in the disruption window only{now}"
        case _:
            return "its maxUnavailable is 0, and Ebbtide does not own it"
