"""The whole answer to "why is this node still here": the node itself, its pods, its group, the autoscaler's own words.

Pure: `NodeFacts` holds raw objects, `story` returns lines.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import yaml

from components.autoscaler_flags import group_options
from ebbtide.cli.cluster_access import instant_of
from ebbtide.cli.controller_status import at, words_at
from ebbtide.cli.instants import lasting
from ebbtide.cli.node_pins import Item, PodVerdict, Rules, Surroundings, judge
from ebbtide.cli.node_use import utilisation
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND, NodeKind

NO_SCALE_DOWN = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
_CONDEMNED = "ToBeDeletedByClusterAutoscaler"
_EKS_GROUP = "eks.amazonaws.com/nodegroup"
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SHOWN = 8  # pods that do not pin, before the rest is only counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    now: datetime
    node: Item
    pods: Sequence[Item] = ()  # on this node
    budgets: Sequence[Item] = ()  # of every namespace
    flags: Mapping[str, str] | None = None  # of the autoscaler's command line; None: it was not found
    autoscaler_status: str | None = None  # its ConfigMap `cluster-autoscaler-status`
    night: str = ""
    unseen: Sequence[str] = field(default=())  # what could not be read


def story(facts: NodeFacts) -> list[str]:
    """Sentences for an operator; the first one is the answer in short."""
    flags = facts.flags or {}
    rules = Rules(
        local_storage_pins=flags.get("skip-nodes-with-local-storage", "true") != "false",
        system_pods_pin=flags.get("skip-nodes-with-system-pods", "true") != "false",
        night=facts.night,
    )
    around = Surroundings(budgets=facts.budgets, rules=rules)
    verdicts = [judge(pod, around) for pod in facts.pods]
    itself = about_node(facts)
    pinning = [verdict for verdict in verdicts if verdict.reasons]
    return [
        _short(facts, pinning, itself),
        *(f"  - {line}" for line in itself),
        *_pod_lines(verdicts),
        *autoscaler_words(facts),
        *(f"not known: {what}" for what in facts.unseen),
    ]


def _short(facts: NodeFacts, pinning: Sequence[PodVerdict], itself: Sequence[str]) -> str:
    name = facts.node["metadata"]["name"]
    group = _labels(facts).get(NODE_GROUP, "no group of Ebbtide")
    what = f"{name} ({group})"
    if any(taint.get("key") == _CONDEMNED for taint in at(facts.node, "spec", "taints") or ()):
        return f"{what} is being removed by the cluster autoscaler now."
    if pinning:
        count = len(pinning)
        return f"{what} is still here: {count} pod{'s pin' if count > 1 else ' pins'} it."
    if itself:
        return f"{what} is still here, though no pod pins it:"
    return f"{what}: nothing that is known here keeps it; the autoscaler should remove it at one of its next looks."


def about_node(facts: NodeFacts) -> list[str]:
    """What keeps the node whatever its pods are."""
    return [
        *_asked_to_stay(facts),
        *_too_full(facts),
        *_too_young(facts),
        *_at_minimum(facts),
        *_waiting(facts),
    ]


def _labels(facts: NodeFacts) -> Mapping[str, str]:
    return words_at(facts.node, "metadata", "labels")


def _kind(facts: NodeFacts) -> NodeKind | None:
    found = _labels(facts).get(NODE_KIND)
    return NodeKind(found) if found in list(NodeKind) else None


def _asked_to_stay(facts: NodeFacts) -> list[str]:
    annotations = words_at(facts.node, "metadata", "annotations")
    found = [f"it carries {NO_SCALE_DOWN}: true"] if annotations.get(NO_SCALE_DOWN) == "true" else []
    if _kind(facts) is NodeKind.FIXED:
        found.append("it is a fixed node: fixed nodes stay day and night, down to their group's minimum")
    return found


def option(facts: NodeFacts, name: str, flag: str, default: str) -> str:
    """An option of the group, which Ebbtide sets by tag, else the autoscaler's flag, else its default."""
    kind = _kind(facts)
    by_tag = group_options(kind) if kind is not None else {}
    return by_tag.get(name) or (facts.flags or {}).get(flag) or default


def _too_full(facts: NodeFacts) -> list[str]:
    threshold = float(option(facts, "scaledownutilizationthreshold", "scale-down-utilization-threshold", "0.5"))
    daemons_count = (facts.flags or {}).get("ignore-daemonsets-utilization") != "true"
    used = utilisation(facts.node, facts.pods, daemons_count=daemons_count)
    if used < threshold:
        return []
    return [f"its pods request {used:.0%} of it, and from {threshold:.0%} on the autoscaler never considers a node"]


def _too_young(facts: NodeFacts) -> list[str]:
    born = instant_of(at(facts.node, "metadata", "creationTimestamp"))
    delay = _go_duration((facts.flags or {}).get("scale-down-delay-after-add", "10m"))
    if born is None or facts.now - born >= delay:
        return []
    age = lasting(facts.now - born)
    return [f"it is {age} old, and after a node was added its group may not shrink for {lasting(delay)}"]


def _waiting(facts: NodeFacts) -> list[str]:
    """The autoscaler marks a node that it no longer needs with the second at which it found that out."""
    taints = at(facts.node, "spec", "taints") or ()
    since = next((taint.get("value") for taint in taints if taint.get("key") == _CANDIDATE), None)
    if since is None:
        return []
    needed = _go_duration(option(facts, "scaledownunneededtime", "scale-down-unneeded-time", "10m"))
    if not str(since).isdecimal():
        return [f"the autoscaler finds it unneeded and waits {lasting(needed)} before it removes it"]
    waited = facts.now - datetime.fromtimestamp(int(since), UTC)
    return [f"the autoscaler finds it unneeded for {lasting(waited)} and removes it after {lasting(needed)}"]


def _at_minimum(facts: NodeFacts) -> list[str]:
    group = _group_status(facts)
    health = at(group, "health")
    least = at(health, "minSize") if at(health, "minSize") is not None else at(group, "minSize")
    target = at(health, "cloudProviderTarget")
    if isinstance(least, int) and isinstance(target, int) and least > 0 and target <= least:
        return [f"its group {at(group, 'name')} is at its minimum of {least}"]
    return []


def _group_status(facts: NodeFacts) -> Mapping[str, Any]:
    """The autoscaler's entry for this node's group: EKS puts its own prefix and suffix around the group's name."""
    labels = _labels(facts)
    ours = labels.get(_EKS_GROUP) or labels.get(NODE_GROUP)
    groups = at(_status_document(facts), "nodeGroups")
    if not ours or not isinstance(groups, list):
        return {}
    names = (ours, f"eks-{ours}")
    for entry in cast("list[object]", groups):
        name = str(at(entry, "name") or "")
        if name in names or name.startswith(f"eks-{ours}-"):
            return cast("Mapping[str, Any]", entry)
    return {}


def _status_document(facts: NodeFacts) -> object:
    try:
        return yaml.safe_load(facts.autoscaler_status or "")
    except yaml.YAMLError:
        return None


def autoscaler_words(facts: NodeFacts) -> list[str]:
    """What the autoscaler says of itself and of the group; older ones write plain text, which is not taken apart."""
    if facts.autoscaler_status is None:
        return []
    document = _status_document(facts)
    if at(document, "clusterWide") is None:
        return [f"the autoscaler says: {' '.join(facts.autoscaler_status.split())[:200]}"]
    told = [f"scale-down of the cluster: {at(document, 'clusterWide', 'scaleDown', 'status')}"]
    group = _group_status(facts)
    if group:
        status = at(group, "scaleDown", "status")
        told.append(f"of group {at(group, 'name')}: {status}, {at(group, 'scaleDown', 'candidates') or 0} candidates")
    written = at(document, "time")
    return [f"the autoscaler says{f' (at {written})' if written else ''}: {'; '.join(told)}"]


def _go_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        return timedelta(minutes=10)
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _pod_lines(verdicts: Sequence[PodVerdict]) -> list[str]:
    lines = [f"  - {verdict.pod} {'; '.join(verdict.reasons)}" for verdict in verdicts if verdict.reasons]
    free = [verdict for verdict in verdicts if not verdict.reasons]
    lines += [f"    {verdict.pod} {verdict.note}" for verdict in free[:_SHOWN]]
    if len(free) > _SHOWN:
        lines.append(f"    and {len(free) - _SHOWN} more that do not pin it")
    return lines
