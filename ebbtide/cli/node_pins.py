"""Why a node is still here: what pins it, pod by pod, in the words of the rules that the cluster autoscaler follows.

Pure: raw objects of the API in, sentences out. The rules are the autoscaler's: DaemonSet, mirror and finished pods
never pin; `safe-to-evict` overrules everything but a budget; then a pod pins that has no owner to make it anew, that
lives in kube-system without a budget, or that keeps files on the node; and last a budget that allows no disruption.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ebbtide.cli.controller_status import at, most_unavailable, words_at
from ebbtide.cli.wording import reason_text
from ebbtide.preview.eviction_rules import SAFE_TO_EVICT, SAFE_VOLUMES, Item, covers, local_volumes
from ebbtide.vocabulary.labels import CATEGORY, GPU_RESOURCE, POOL, Category

_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the autoscaler of this cluster was told; the defaults are its own."""

    local_storage_pins: bool = True
    system_pods_pin: bool = True
    night: str = ""  # why flexible budgets are as they are, where that is known


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """`reasons` are what pins the node; without one, `note` says why the pod does not."""

    pod: str  # namespace/name
    reasons: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a pod is judged against."""

    budgets: Sequence[Item] = ()
    rules: Rules = field(default=Rules())


def judge(pod: Item, around: Surroundings) -> PodVerdict:
    """Whether this pod keeps its node, and why."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    harmless = _harmless(pod)
    if harmless:
        return PodVerdict(name, note=harmless)
    budgets = [budget for budget in around.budgets if covers(budget, pod)]
    reasons = [*_about_pod(pod, has_budget=bool(budgets), rules=around.rules), *_about_budgets(pod, budgets, around)]
    return PodVerdict(name, tuple(reasons), "" if reasons else "may be evicted")


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
        return f"is on its way out (it has up to {max(1, int(seconds) // 60)} min to finish)"
    return ""


def _about_pod(pod: Item, *, has_budget: bool, rules: Rules) -> list[str]:
    annotations = words_at(pod, "metadata", "annotations")
    safe = annotations.get(SAFE_TO_EVICT)
    if safe == "true":
        return []
    found = [f"carries {SAFE_TO_EVICT}: false"] if safe == "false" else []
    if not any(owner.get("controller") for owner in at(pod, "metadata", "ownerReferences") or ()):
        found.append("is a bare pod: nothing would make it anew")
    if rules.system_pods_pin and not has_budget and at(pod, "metadata", "namespace") == "kube-system":
        found.append("is a kube-system pod without a budget")
    volumes = local_volumes(pod, annotations.get(SAFE_VOLUMES, ""))
    if rules.local_storage_pins and volumes:
        found.append(f"keeps files on the node: {', '.join(volumes)} (allow it with {SAFE_VOLUMES})")
    return found


def _about_budgets(pod: Item, budgets: Sequence[Item], around: Surroundings) -> list[str]:
    names = [str(budget["metadata"]["name"]) for budget in budgets]
    if len(budgets) > 1:
        return [f"is under several budgets ({', '.join(names)}): the Eviction API then refuses always"]
    return [found for budget in budgets if (found := budget_refusal(budget, pod, around.rules))]


def budget_refusal(budget: Item, pod: Item, rules: Rules) -> str:
    """Why this budget allows no disruption of the pod now; empty if it does."""
    name = budget["metadata"]["name"]
    if at(pod, "status", "phase") == "Pending":
        return ""  # the Eviction API asks no budget about a pod that never ran
    unready = not _is_ready(pod)
    if unready and at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return ""
    behind = (at(budget, "status", "observedGeneration") or 0) < (at(budget, "metadata", "generation") or 0)
    if behind:
        return f"its budget {name} has just changed, and its status has not caught up"
    if (at(budget, "status", "disruptionsAllowed") or 0) > 0:
        return ""
    if most_unavailable(budget) in (0, "0%"):
        return f"its budget {name} is closed: {_why_closed(pod, rules)}"
    healthy, wanted = at(budget, "status", "currentHealthy") or 0, at(budget, "status", "desiredHealthy") or 0
    return f"its budget {name} allows no disruption: {healthy} pods are healthy and {wanted} must be"


def _is_ready(pod: Item) -> bool:
    conditions = at(pod, "status", "conditions") or ()
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)


def _why_closed(pod: Item, rules: Rules) -> str:
    labels = words_at(pod, "metadata", "labels")
    match labels.get(CATEGORY):
        case Category.WORKER:
            gpu = " (a GPU job may be running)" if gpus_of(pod) else ""
            pool = labels.get(POOL, "its pool")
            return (
                f"workers are never evicted{gpu}; it goes when pool {pool} has nothing for it: ebbtide why pool {pool}"
            )
        case Category.FIXED:
            return "fixed workloads never move, day or night, but in a maintenance: ebbtide maintenance"
        case Category.FLEXIBLE:
            return (
                f"flexible workloads move at night only{f' (now: {reason_text(rules.night)})' if rules.night else ''}"
            )
        case _:
            return "its maxUnavailable is 0, and Ebbtide does not own it"


def gpus_of(pod: Item) -> int:
    containers = at(pod, "spec", "containers") or ()
    return sum(int(at(container, "resources", "requests", GPU_RESOURCE) or 0) for container in containers)
