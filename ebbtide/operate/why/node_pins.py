"""Explain which pods pin a node, by the rules of the cluster autoscaler.

Pure: raw objects of the API in, sentences out. The rules: DaemonSet, mirror and finished pods never pin;
`safe-to-evict` overrides everything but a budget; then a pod pins if no controller would recreate it, if it runs in
kube-system without a budget, or if it keeps files on the node; and last if a budget allows no disruption.
On Karpenter's nodes a pod pins by a budget, or by Karpenter's own annotation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.operate.objects import at, labels_of, max_unavailable_of, words_at
from ebbtide.operate.ray.facts import RAY_CLUSTER
from ebbtide.operate.wording import reason_text
from ebbtide.provisioning_labels import POOL, SAFE_TO_EVICT
from ebbtide.recording.drainable import SAFE_VOLUMES, AutoscalerRules, Item, Pin, covers, local_volumes, pins
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, NAMESPACE, WORKLOAD, Category

MAY_GO = "may be evicted"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules(AutoscalerRules):
    """Options of this cluster's autoscaler, or `karpenter`, which has none."""

    karpenter: bool = False
    window_reason: str = ""  # why flexible budgets are open or closed, if known


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
    """Decide if this pod keeps its node, and why."""
    name = pod_name(pod)
    harmless = _harmless(pod)
    if harmless:
        return PodVerdict(name, note=harmless, owner=context.owners.get(name, ""))
    budgets = [budget for budget in context.budgets if covers(budget, pod)]
    reasons = [
        *_pod_reasons(pod, has_budget=bool(budgets), rules=context.rules),
        *_budget_reasons(pod, budgets, context.rules),
    ]
    reasons += [context.ray[name]] if reasons and name in context.ray else []
    note = "" if reasons else MAY_GO
    return PodVerdict(name, tuple(reasons), note, context.owners.get(name, ""))


def _harmless(pod: Item) -> str:
    annotations = words_at(pod, "metadata", "annotations")
    if any(owner.get("kind") == "DaemonSet" for owner in at(pod, "metadata", "ownerReferences") or ()):
        return "belongs to a DaemonSet, which never pins a node"
    if _MIRROR in annotations:
        return "is a static pod of the node itself"
    if at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return "has ended"
    if at(pod, "metadata", "deletionTimestamp"):
        seconds = at(pod, "metadata", "deletionGracePeriodSeconds") or 0
        return f"is terminating (it has up to {max(1, int(seconds) // 60)} min to finish)"
    return ""


def _pod_reasons(pod: Item, *, has_budget: bool, rules: Rules) -> list[str]:
    if rules.karpenter:
        return do_not_disrupt(pod)
    bare = not any(owner.get("controller") for owner in at(pod, "metadata", "ownerReferences") or ())
    words = {
        Pin.ANNOTATED: f"carries {SAFE_TO_EVICT}: false",
        Pin.BARE: "is a bare pod: nothing would recreate it",
        Pin.SYSTEM: "is a kube-system pod without a budget",
        Pin.LOCAL_VOLUMES: f"keeps files on the node: {', '.join(local_volumes(pod))} (allow it with {SAFE_VOLUMES})",
    }
    return [words[pin] for pin in pins(pod, rules, bare=bare, has_budget=has_budget)]


def do_not_disrupt(item: Item) -> list[str]:
    """Return the annotation of a pod or a node that keeps Karpenter off: `true`, or a time from the pod's start."""
    value = words_at(item, "metadata", "annotations").get(DO_NOT_DISRUPT)
    return [] if value in (None, "", "false") else [f"carries {DO_NOT_DISRUPT}: {value}"]


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
            gpu = " (a GPU job may be running)" if gpus_of(pod) else ""
            pool = labels.get(POOL)
            if RAY_CLUSTER in labels:
                return f"workers of Ray are not evicted{gpu}; Ray's autoscaler removes an idle one"
            if pool is None:
                return f"workers are never evicted{gpu}; this one is of no pool, and goes when it has ended"
            return f"workers are not evicted now{gpu}; pool {pool} removes it when idle: ebbtide why pool {pool}"
        case Category.FIXED:
            return "fixed workloads are never evicted outside a maintenance: ebbtide maintenance"
        case Category.FLEXIBLE:
            now = f" (now: {reason_text(rules.window_reason)})" if rules.window_reason else ""
            return f"flexible workloads are evicted in the disruption window only{now}"
        case _:
            return "its maxUnavailable is 0, and Ebbtide does not own it"


def gpus_of(pod: Item) -> int:
    containers = at(pod, "spec", "containers") or ()
    return sum(int(at(container, "resources", "requests", GPU_RESOURCE) or 0) for container in containers)
