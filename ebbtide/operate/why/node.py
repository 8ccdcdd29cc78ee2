"""Explain why a node still exists: the node itself, its pods, its group, and the autoscaler's or Karpenter's state.

Uses only the API server, with the operator's own rights, since the controller may not read nodes. `node_facts` reads
raw objects; `explain_node` turns them into lines and is pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, cast

import yaml

from components.aws.node_shape import group_options
from controllers.adapters.kube_api import Json, KubeApi
from controllers.scaler.budgets import window_at
from ebbtide.operate.api import CannotOperate, controller_config_of, find, items, readable
from ebbtide.operate.node_pools import budgets_text, nodes_text
from ebbtide.operate.objects import at, parse_instant, quantity, rows_at, utilisation, words_at
from ebbtide.operate.owners import Owners
from ebbtide.operate.ray.facts import RAY_CLUSTER
from ebbtide.operate.why.node_pins import (
    DISRUPTED,
    MAY_GO,
    NODE_POOL,
    Item,
    PodContext,
    PodVerdict,
    is_on,
    judge,
    node_marks,
    pod_name,
    rule_of,
    rules_of,
)
from ebbtide.operate.why.ray import reasons_on_node
from ebbtide.operate.wording import reason_text
from ebbtide.provisioning_labels import NodeKind
from ebbtide.text.durations import whole_minutes
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import CONTROLLER, GPU_RESOURCE, NODE_GROUP, NODE_KIND
from ebbtide.vocabulary.node_pools import PATH

_AUTOSCALER = "cluster-autoscaler"
_SYSTEM = "kube-system"
_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
_BEING_REMOVED = "ToBeDeletedByClusterAutoscaler"
_EKS_GROUP = "eks.amazonaws.com/nodegroup"
_EKS_SUFFIX = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of an Auto Scaling group's name
_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_GO_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)(h|ms|m|us|ns|s)")
_SHOWN = 8  # pods that do not pin; further ones are only counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    now: datetime
    node: Item
    pods: Sequence[Item] = ()  # on this node
    budgets: Sequence[Item] = ()  # of every namespace
    flags: Mapping[str, str] | None = None  # the autoscaler's command-line flags; None: not found
    autoscaler_status: str | None = None  # its ConfigMap `cluster-autoscaler-status`
    growth: Sequence[Item] = ()  # nodes whose creation delays the removal of this one: of its group, or of all groups
    node_pool: Item | None = None  # if Karpenter created the node
    window_reason: str = ""  # why flexible budgets are open or closed by the clock
    ray: Mapping[str, str] = field(default_factory=dict[str, str])  # by Ray pod: its cluster, and why it stays
    owners: Mapping[str, str] = field(default_factory=dict[str, str])  # by adopted pod: its owner and its rule
    unread: Sequence[str] = field(default=())  # parts that could not be read


def node_facts(api: KubeApi, name: str, namespace: str) -> NodeFacts:
    """Read all objects. Raises `ApiError` if a necessary one is refused, `CannotOperate` for an unknown node."""
    node = find(api, f"/api/v1/nodes/{name}")
    if node is None:
        raise CannotOperate(f"no node is called {name}: it was removed, or never existed", 2)
    unread: list[str] = []
    now, pods = datetime.now(UTC), items(api, "/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
    budgets = items(api, "/apis/policy/v1/poddisruptionbudgets")
    pool, flags, status = words_at(node, "metadata", "labels").get(NODE_POOL), None, None
    growth: Sequence[Item] = ()
    if not pool:
        flags = readable("the autoscaler's flags", unread, lambda: autoscaler_flags(api))
        status = readable("the autoscaler's status", unread, lambda: autoscaler_status(api))
        selector = _growth_selector(node, flags)
        if selector is not None:
            growth = readable("the other nodes", unread, lambda: _nodes(api, selector)) or ()
    return NodeFacts(
        now=now,
        node=node,
        flags=flags,
        autoscaler_status=status,
        growth=growth,
        node_pool=readable("its NodePool", unread, lambda: find(api, f"{PATH}/{pool}")) if pool else None,
        window_reason=readable("the disruption window", unread, lambda: _window_reason(api, namespace)) or "",
        pods=pods,
        ray=readable("its pods of Ray", unread, lambda: _ray(api, namespace, pods, now)) or {},
        budgets=budgets,
        owners=_owners(api, pods, budgets),
        unread=unread,
    )


def _owners(api: KubeApi, pods: Sequence[Item], budgets: Sequence[Item]) -> dict[str, str]:
    owners = Owners(api)
    adopted = [(pod, rule) for pod in pods if (rule := rule_of(pod, budgets))]
    return {pod_name(pod): f"{owners.of(pod)}, rule {rule}" for pod, rule in adopted}


def _ray(api: KubeApi, namespace: str, pods: Sequence[Item], now: datetime) -> dict[str, str]:
    """Explain Ray's pods; without any on the node, nothing is read."""
    if not any(RAY_CLUSTER in words_at(pod, "metadata", "labels") for pod in pods):
        return {}
    return reasons_on_node(api, namespace, controller_config_of(api, namespace), pods, now)


def autoscaler_flags(api: KubeApi) -> dict[str, str] | None:
    """Return the flags of the autoscaler's Deployment; None if there is none under that name."""
    item = find(api, f"/apis/apps/v1/namespaces/{_SYSTEM}/deployments/{_AUTOSCALER}")
    if item is None:
        return None
    containers: list[Json] = at(item, "spec", "template", "spec", "containers") or []
    texts = [text for container in containers for text in (*container.get("command", ()), *container.get("args", ()))]
    words = [word for text in texts for word in str(text).split()]  # a shell has the whole command in one text
    flags: dict[str, str] = {}
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            flags[name] = value if equals else "true" if following.startswith("-") else following
    return flags


def _is_local(flags: Mapping[str, str] | None) -> bool:
    """Return True if growth delays the removal of nodes of the same group only; by default it delays all groups."""
    return is_on(flags, "scale-down-delay-type-local", default=False)


def _growth_selector(node: Item, flags: Mapping[str, str] | None) -> str | None:
    """Return the labels of nodes whose creation delays the removal of this one; None if its group is not known."""
    if not _is_local(flags):
        return ""
    labels = words_at(node, "metadata", "labels")
    return next((f"{key}={labels[key]}" for key in (_EKS_GROUP, NODE_GROUP) if key in labels), None)


def _nodes(api: KubeApi, selector: str) -> list[Item]:
    query = {"labelSelector": selector} if selector else {}
    return [
        each for each in items(api, "/api/v1/nodes", **query) if NODE_POOL not in words_at(each, "metadata", "labels")
    ]


def autoscaler_status(api: KubeApi) -> str | None:
    """Return the text of the autoscaler's ConfigMap; None if there is none."""
    item = find(api, f"/api/v1/namespaces/{_SYSTEM}/configmaps/cluster-autoscaler-status")
    return at(item, "data", "status")


def _window_reason(api: KubeApi, namespace: str) -> str:
    """Return the window's reason; empty if Ebbtide is not installed."""
    if find(api, f"/api/v1/namespaces/{namespace}/configmaps/{CONTROLLER}") is None:
        return ""
    return window_at(datetime.now(UTC), controller_config_of(api, namespace).window).decision.reason


def explain_node(facts: NodeFacts) -> list[str]:
    """Return sentences for an operator; the first one is the short answer."""
    rules = rules_of(facts.node, facts.flags, now=facts.now, window_reason=facts.window_reason)
    context = PodContext(
        budgets=facts.budgets,
        rules=rules,
        ray=facts.ray,
        owners=facts.owners,
        node_group=_labels(facts).get(NODE_GROUP, ""),
    )
    verdicts = [judge(pod, context) for pod in facts.pods]
    own_reasons = [f"it {mark}" for mark in node_marks(facts.node, rules)]
    own_reasons += _karpenter_reasons(facts, verdicts) if rules.karpenter else node_reasons(facts)
    pinning = [verdict for verdict in verdicts if verdict.reasons]
    return [
        _short(facts, pinning, own_reasons),
        *(f"  - {line}" for line in own_reasons),
        *_pod_lines(verdicts),
        *autoscaler_lines(facts),
        *_node_pool_lines(facts),
        *([] if pinning or own_reasons or rules.karpenter else _not_known(facts)),
        *(f"not known: {part}" for part in facts.unread),
    ]


def _short(facts: NodeFacts, pinning: Sequence[PodVerdict], own_reasons: Sequence[str]) -> str:
    name = facts.node["metadata"]["name"]
    group = _labels(facts).get(NODE_GROUP, "no group of Ebbtide")
    node = f"{name} ({group}{', by Karpenter' if _by_karpenter(facts) else ''})"
    taints = {taint.get("key") for taint in at(facts.node, "spec", "taints") or ()}
    if DISRUPTED in taints:
        return f"{node} is being removed by Karpenter now: it waits for a replacement, or for its pods to leave."
    if _BEING_REMOVED in taints:
        return f"{node} is being removed by the cluster autoscaler now."
    if pinning:
        count = len(pinning)
        return f"{node} is still here: {count} pod{'s pin' if count > 1 else ' pins'} it."
    if own_reasons:
        return f"{node} is still here, though no pod pins it:"
    if _by_karpenter(facts):
        return f"{node}: nothing that is known here keeps it; Karpenter removes it if its pods cost less elsewhere."
    needed, remark = _unneeded_time(facts)
    recheck = _duration_of((facts.flags or {}).get("unremovable-node-recheck-timeout", "5m"))
    removal = f"the autoscaler removes it when it has found it unneeded for {whole_minutes(needed)}{remark}"
    again = f"waits {whole_minutes(recheck)} before it rechecks a node that it could not remove"
    return f"{node}: nothing that is known here keeps it; {removal}, and {again}."


def _by_karpenter(facts: NodeFacts) -> bool:
    return bool(_labels(facts).get(NODE_POOL))


def _karpenter_reasons(facts: NodeFacts, verdicts: Sequence[PodVerdict]) -> list[str]:
    """Return the reasons why its NodePool keeps a Karpenter node."""
    disruption = at(facts.node_pool, "spec", "disruption")
    window = reason_text(facts.window_reason)
    if at(disruption, "consolidateAfter") == "Never":
        return ["its NodePool removes no node to save cost: consolidateAfter is Never"]
    if _closed_for("Empty", disruption) and _closed_for("Underutilized", disruption):
        return [f"its NodePool lets no node go now; {window}".rstrip("; ")]
    if not any(verdict.reasons or verdict.note == MAY_GO for verdict in verdicts):
        return []
    reasons: list[str] = []
    if at(disruption, "consolidationPolicy") == "WhenEmpty":
        reasons.append("it has pods, and its NodePool removes only empty nodes: consolidationPolicy is WhenEmpty")
    if _closed_for("Underutilized", disruption):
        reasons.append(f"it has pods, and its NodePool lets only empty nodes go now; {window}".rstrip("; "))
    return reasons


def _closed_for(reason: str, disruption: object) -> bool:
    """Return True if a budget without a schedule allows no disruption for this reason."""
    return any(
        str(budget.get("nodes")) in ("0", "0%")
        and not budget.get("schedule")
        and reason in (budget.get("reasons") or [reason])
        for budget in rows_at(disruption, "budgets")
    )


def _node_pool_lines(facts: NodeFacts) -> list[str]:
    pool = facts.node_pool
    if pool is None:
        return []
    return [f"NodePool {pool['metadata']['name']}: {nodes_text(pool)} nodes; budgets in force: {budgets_text(pool)}"]


def node_reasons(facts: NodeFacts) -> list[str]:
    """Return the reasons that keep the node independently of its pods."""
    never = not is_on(facts.flags, "scale-down-enabled", default=True)
    return [
        *(["the autoscaler removes no node at all: scale-down-enabled is false"] if never else []),
        *_fixed(facts),
        *_too_full(facts),
        *_growing(facts),
        *_at_minimum(facts),
        *_waiting(facts),
    ]


def _labels(facts: NodeFacts) -> Mapping[str, str]:
    return words_at(facts.node, "metadata", "labels")


def _kind(facts: NodeFacts) -> NodeKind | None:
    kind = _labels(facts).get(NODE_KIND)
    return NodeKind(kind) if kind in list(NodeKind) else None


def _fixed(facts: NodeFacts) -> list[str]:
    reason = "it is a fixed node: fixed nodes stay day and night, down to their group's minimum"
    return [reason] if _kind(facts) is NodeKind.FIXED else []


def option(facts: NodeFacts, name: str, flag: str, default: str) -> str:
    """Return the group's option, which Ebbtide sets by tag, else the autoscaler's flag, else its default."""
    kind = _kind(facts)
    by_tag = group_options(kind, gpus=_has_gpus(facts)) if kind is not None else {}
    return by_tag.get(name) or (facts.flags or {}).get(flag) or default


def _has_gpus(facts: NodeFacts) -> bool:
    return bool(quantity(at(facts.node, "status", "allocatable", GPU_RESOURCE)))


def _too_full(facts: NodeFacts) -> list[str]:
    gpu = "gpu" if _has_gpus(facts) else ""
    flag = f"scale-down-{'gpu-' if gpu else ''}utilization-threshold"
    threshold = float(option(facts, f"scaledown{gpu}utilizationthreshold", flag, "0.5"))
    daemons_count = not is_on(facts.flags, "ignore-daemonsets-utilization", default=False)
    used = utilisation(facts.node, facts.pods, daemons_count=daemons_count)
    if used < threshold:
        return []
    return [f"its pods request {used:.0%} of it, and from {threshold:.0%} on the autoscaler never considers a node"]


def _not_known(facts: NodeFacts) -> list[str]:
    """Name the autoscaler's delays that no object shows."""
    where = "its group" if _is_local(facts.flags) else "a group"
    failed = _duration_of((facts.flags or {}).get("scale-down-delay-after-failure", "3m"))
    deleted = _duration_of((facts.flags or {}).get("scale-down-delay-after-delete", "0s"))
    after = f", or one succeeded less than {whole_minutes(deleted)} ago" if deleted else ""
    return [f"not known: whether a removal in {where} failed less than {whole_minutes(failed)} ago{after}"]


def _growing(facts: NodeFacts) -> list[str]:
    """Explain the delay after growth. It begins with the decision to grow, shortly before the new node is created."""
    delay = _duration_of((facts.flags or {}).get("scale-down-delay-after-add", "10m"))
    local = _is_local(facts.flags)
    default = "" if facts.flags is not None else " by default"
    who = "its group may not" if local else "no group may"
    follows = f"{who} shrink for {whole_minutes(delay)}{default} after"
    status = _group_status(facts) if local else at(_status_document(facts), "clusterWide")
    if at(status, "scaleUp", "status") == "InProgress":
        return [f"{'its' if local else 'a'} group is growing now, and {follows} that"]
    created = [
        (born, str(at(node, "metadata", "name")))
        for node in (facts.node, *facts.growth)
        if (born := parse_instant(at(node, "metadata", "creationTimestamp"))) is not None
    ]
    born, name = max(created, default=(datetime.min.replace(tzinfo=UTC), ""))
    if facts.now - born >= delay:
        return []
    youngest = f"{name}, the youngest node of {'its group' if local else 'the autoscaler'},"
    who = "it" if name == at(facts.node, "metadata", "name") else youngest
    return [f"{who} is {whole_minutes(facts.now - born)} old, and {follows} {'it' if local else 'one'} grew"]


def _unneeded_time(facts: NodeFacts) -> tuple[timedelta, str]:
    """Return how long a node must be unneeded before its removal, and a remark for a node that is not ready."""
    if any(
        row.get("type") == "Ready" and row.get("status") != "True"
        for row in rows_at(facts.node, "status", "conditions")
    ):
        unready = option(facts, "scaledownunreadytime", "scale-down-unready-time", "20m")
        return _duration_of(unready), ", since it is not ready"
    return _duration_of(option(facts, "scaledownunneededtime", "scale-down-unneeded-time", "10m")), ""


def _waiting(facts: NodeFacts) -> list[str]:
    """Explain the wait for removal: the autoscaler's taint on an unneeded node has the second of that decision."""
    taints = at(facts.node, "spec", "taints") or ()
    since = next((taint.get("value") for taint in taints if taint.get("key") == _CANDIDATE), None)
    if since is None:
        return []
    needed, remark = _unneeded_time(facts)
    removed = f"removes it after {whole_minutes(needed)}{remark}"
    if not str(since).isdecimal():
        return [f"the autoscaler has found it unneeded and {removed}"]
    waited = facts.now - datetime.fromtimestamp(int(since), UTC)
    return [f"the autoscaler has found it unneeded for {whole_minutes(waited)} and {removed}"]


def _at_minimum(facts: NodeFacts) -> list[str]:
    group = _group_status(facts)
    health = at(group, "health")
    least = at(health, "minSize") if at(health, "minSize") is not None else at(group, "minSize")
    target = at(health, "cloudProviderTarget")
    if isinstance(least, int) and isinstance(target, int) and least > 0 and target <= least:
        return [f"its group {at(group, 'name')} is at its minimum of {least}"]
    return []


def _group_status(facts: NodeFacts) -> Mapping[str, Any]:
    """Return the autoscaler's entry for this node's group; EKS adds a prefix and a suffix to the group's name."""
    labels = _labels(facts)
    group = labels.get(_EKS_GROUP) or labels.get(NODE_GROUP)
    groups = at(_status_document(facts), "nodeGroups")
    if not group or not isinstance(groups, list):
        return {}
    of_group = re.compile(rf"(eks-)?{re.escape(group)}|eks-{re.escape(group)}-{_EKS_SUFFIX}")
    for entry in cast("list[object]", groups):
        name = str(at(entry, "name") or "")
        if of_group.fullmatch(name):
            return cast("Mapping[str, Any]", entry)
    return {}


def _status_document(facts: NodeFacts) -> object:
    return parsed_status(facts.autoscaler_status)


def parsed_status(text: str | None) -> object:
    """Return the autoscaler's status; None if it is missing or malformed."""
    try:
        return yaml.safe_load(text or "")
    except yaml.YAMLError:
        return None


def autoscaler_lines(facts: NodeFacts) -> list[str]:
    """Return the autoscaler's status and its group's; the plain text of older autoscalers is not parsed."""
    if facts.autoscaler_status is None:
        return []
    document = _status_document(facts)
    if at(document, "clusterWide") is None:
        return [f"the autoscaler says: {collapsed(facts.autoscaler_status)[:200]}"]
    statuses = [f"scale-down of the cluster: {at(document, 'clusterWide', 'scaleDown', 'status')}"]
    group = _group_status(facts)
    if group:
        status = at(group, "scaleDown", "status")
        statuses.append(
            f"of group {at(group, 'name')}: {status}, {at(group, 'scaleDown', 'candidates') or 0} candidates"
        )
    written = at(document, "time")
    return [f"the autoscaler says{f' (at {written})' if written else ''}: {'; '.join(statuses)}"]


def _duration_of(flag: str) -> timedelta:
    """Parse a duration in Go's format from the autoscaler's flags; return 10 min if it is malformed."""
    parts = _GO_PART.findall(flag)
    if flag == "0" or (parts and "".join(number + unit for number, unit in parts) == flag):
        return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))
    return timedelta(minutes=10)


def _pod_lines(verdicts: Sequence[PodVerdict]) -> list[str]:
    lines = [f"  - {verdict.title} {'; '.join(verdict.reasons)}" for verdict in verdicts if verdict.reasons]
    harmless = [verdict for verdict in verdicts if not verdict.reasons]
    lines += [f"    {verdict.title} {verdict.note}" for verdict in harmless[:_SHOWN]]
    if len(harmless) > _SHOWN:
        lines.append(f"    and {len(harmless) - _SHOWN} more that do not pin it")
    return lines
