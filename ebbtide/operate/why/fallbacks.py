"""Explain on which node groups the workers of a pool with a fallback run, and why its first choice does not grow.

`fallback_facts` reads with the operator's rights; `fallback_lines` is pure. The groups are those of the pool's
Deployment. The cluster autoscaler's status names the groups that it does not grow after a failed launch; Karpenter
writes Events on pending pods instead.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.aws.node_shape import name_stem
from controllers.adapters.kube_api import KubeApi
from ebbtide.operate.api import items, readable
from ebbtide.operate.objects import Document, at, labels_of, rows_at
from ebbtide.operate.why.node import autoscaler_status, parsed_status
from ebbtide.operate.why.node_pins import first_choice, required_groups
from ebbtide.provisioning_labels import NodeKind
from ebbtide.text.counts import several
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import PoolPolicy
from ebbtide.vocabulary.labels import NODE_GROUP, WORKLOAD

_SHAPE, _ZONE = "[0-9]+x[0-9]+x[0-9]+", "[a-z0-9]"
_ADDED_TO_NAME = "[0-9a-f]{26}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # by the provider and by EKS


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackFacts:
    first: str  # node group
    second: str
    pods: Sequence[Document] | None  # None: not readable
    group_of: Mapping[str, str]  # by node
    autoscaler_status: str | None = None
    unread: Sequence[str] = ()


def fallback_facts(api: KubeApi, policy: PoolPolicy, deployment: Document) -> FallbackFacts | None:
    """Return None for a pool without a fallback."""
    template = at(deployment, "spec", "template")
    first, others = first_choice(template), required_groups(template) - {first_choice(template)}
    if not first or len(others) != 1:
        return None
    unread: list[str] = []
    nodes = readable("the nodes", unread, lambda: items(api, "/api/v1/nodes")) or ()
    return FallbackFacts(
        first=first,
        second=others.pop(),
        pods=readable(
            "its pods",
            unread,
            lambda: items(
                api, f"/api/v1/namespaces/{policy.namespace}/pods", labelSelector=f"{WORKLOAD}={policy.deployment}"
            ),
        ),
        group_of={str(at(node, "metadata", "name")): labels_of(node).get(NODE_GROUP, "") for node in nodes},
        autoscaler_status=readable("the autoscaler's status", unread, lambda: autoscaler_status(api)),
        unread=unread,
    )


def fallback_lines(facts: FallbackFacts) -> list[str]:
    """Return sentences for an operator."""
    order = f"Workers start on {facts.first} first, else on {facts.second}; in business hours none moves back."
    lines = [f"{_workers_text(facts)}{order}"]
    paused = [_paused_text(group) for group in _paused(facts)]
    if paused:
        failed = several(len(paused), "Auto Scaling group")
        first = paused[0] if len(paused) == 1 else f"for example {paused[0]}"
        lines.append(f"After a failed launch the autoscaler does not grow {failed} of {facts.first} now: {first}.")
    return [*lines, *(f"Not known: {part}." for part in facts.unread)]


def _workers_text(facts: FallbackFacts) -> str:
    if not facts.pods:
        return ""
    nodes = [str(at(pod, "spec", "nodeName") or "") for pod in facts.pods]
    groups = Counter(facts.group_of.get(node) for node in nodes if node)
    waiting = nodes.count("")
    unknown = len(nodes) - waiting - groups[facts.first] - groups[facts.second]
    counts = [
        *(f"{groups[group]} on {group}" for group in (facts.first, facts.second) if groups[group]),
        *([f"{waiting} without a node"] if waiting else []),
        *([f"{unknown} on nodes of an unknown group"] if unknown else []),
    ]
    return f"Its workers: {', '.join(counts)}. "


def _paused(facts: FallbackFacts) -> list[Document]:
    """Return the Auto Scaling groups of the first choice, one for each shape and zone, that have failed to grow."""
    whole, of_a_shape = (name_stem(name, NodeKind.SPOT) for name in (facts.first, f"{facts.first}-"))
    ours = re.compile(f"eks-({whole}|{of_a_shape}{_SHAPE})-{_ZONE}-{_ADDED_TO_NAME}")
    groups = rows_at(parsed_status(facts.autoscaler_status), "nodeGroups")
    return [
        group
        for group in groups
        if at(group, "scaleUp", "status") == "Backoff" and ours.fullmatch(str(group.get("name")))
    ]


def _paused_text(group: Document) -> str:
    """Return the name with the reason that the autoscaler gives."""
    reason = at(group, "scaleUp", "backoffInfo", "errorMessage") or at(group, "scaleUp", "backoffInfo", "errorCode")
    return f"{group.get('name')} ({collapsed(str(reason))[:200]})" if reason else str(group.get("name"))
