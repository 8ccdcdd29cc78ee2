"""What a change takes away: replacements and deletions, with the reason and with what runs there.

Only what matters gets a line of its own. What goes with its component, as a group's launch template with the group, is
not named twice; the small rest is one line. Where the cluster or its network goes, nothing else needs to be said.
"""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.preview.changes import FOLLOWS, identity
from ebbtide.preview.compared import Compared
from ebbtide.preview.document import ChangeKind, Danger, ResourceChange, Severity
from ebbtide.preview.pods import Pods, counted, in_words, listed
from ebbtide.preview.replacing import value_at
from ebbtide.settings.redis import IN_CLUSTER_REDIS
from ebbtide.vocabulary.labels import NODE_GROUP, POOL, Category

_GOING = (ChangeKind.REPLACE, ChangeKind.DELETE)
_EVERYTHING = ("Cluster", "Vpc")
_POD_MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "Pod")
_VERB = {ChangeKind.REPLACE: "replaces", ChangeKind.DELETE: "deletes"}

_ALONE: Mapping[str, tuple[str, str]] = {
    "AccessEntry": ("whoever had this entry can no longer reach the cluster", "see that nobody needs it any more"),
    "Addon": ("what it does in the cluster stops", "see that nothing needs it"),
    "Eip": ("traffic to the internet comes from another address", "tell whoever has the old one in an allow-list"),
    "NatGateway": ("private nodes lose the internet until the new one is there", "do it when no node starts"),
    "Subnet": ("every node in it", "do it when its groups are empty"),
    "StorageClass": ("volumes that exist stay; new claims fail until it is back", "do it when no claim is made"),
}
"""Blast and fix of what has no pods of its own."""


def everything_goes(changes: Sequence[ResourceChange]) -> bool:
    return any(change.type in _EVERYTHING and change.kind in _GOING for change in changes)


def losses(seen: Compared) -> Iterator[Danger]:
    going = [change for change in seen.changes if change.kind in _GOING]
    if everything_goes(going):
        yield from (_everything(change, seen) for change in going if change.type in _EVERYTHING)
        return
    spoken = {change.component for change in seen.of("NodeGroup", *_GOING)}
    for change in going:
        danger = _of_one(change, seen)
        if danger is not None:
            spoken.add(change.component or change.name)
            yield danger
    yield from _of_groups(seen)
    yield from _of_budgets(seen)
    alone = [change for change in going if change.type in _ALONE and change.component not in spoken]
    yield from _of_podless(alone)
    rest = [change for change in going if change not in alone and change.component not in spoken]
    yield from _small_rest(rest, seen)


def _of_one(change: ResourceChange, seen: Compared) -> Danger | None:
    if change.type == "ReplicationGroup" or (change.type == "StatefulSet" and _name(change, seen) == IN_CLUSTER_REDIS):
        return _of_queues(change)
    if change.type in _POD_MAKERS:
        return _of_pods(change, seen)
    if change.protected:
        return _protected(change, "it was protected so that nobody deletes it by accident")
    if change.type == "Namespace":
        return _of_namespace(change, seen)
    return None


def _name(change: ResourceChange, seen: Compared) -> object:
    """As the API knows it."""
    return value_at(seen.was(change).inputs, "metadata.name")


def _of_podless(going: Sequence[ResourceChange]) -> Iterator[Danger]:
    alike: dict[tuple[str, ChangeKind, tuple[str, ...]], list[ResourceChange]] = {}
    for change in going:
        alike.setdefault((change.type, change.kind, _paths(change.reasons)), []).append(change)
    for (type_, kind, _), parts in alike.items():
        blast, fix = _ALONE[type_]
        names = listed([part.name for part in parts])
        what = f"{_VERB[kind]} {type_} {names}{_because(_together(parts))}"
        yield Danger(severity=Severity.WARNING, what=what, blast=blast, fix=fix)


def _everything(change: ResourceChange, seen: Compared) -> Danger:
    nodes = sum(group.most for group in seen.old_groups.values())
    blast = f"everything: up to {nodes} nodes; {in_words(seen.old_pods)}"
    if change.protected:
        return _protected(change, blast)
    fix = "build a second stack beside it and move; to take this one down: docs/life.md, The last day"
    return Danger(severity=Severity.BLOCKING, what=_what(change), blast=blast, fix=fix)


def _protected(change: ResourceChange, blast: str) -> Danger:
    return Danger(
        severity=Severity.BLOCKING,
        what=f"{_what(change)}; it is protected, so up stops there",
        blast=blast,
        fix="take the change back; to take the stack down on purpose: docs/life.md, The last day",
    )


def _of_pods(change: ResourceChange, seen: Compared) -> Danger:
    pods = next((each for each in seen.old_pods if identity(each.urn) == identity(change.urn)), None)
    if pods is None:
        blast, fix = "pods that neither file has", "find out who made them; pulumi up --refresh may know better"
        return Danger(severity=Severity.WARNING, what=_what(change), blast=blast, fix=fix)
    known = {(each.namespace, each.name): each for each in seen.new_pods}
    successor = known.get((pods.namespace, pods.name)) if change.kind is ChangeKind.DELETE else None
    never_moved = pods.category in (Category.FIXED, Category.WORKER)
    severe = never_moved and (change.kind is ChangeKind.REPLACE or successor is not None)
    return Danger(
        severity=Severity.BLOCKING if severe else Severity.WARNING,
        what=_what(change) + (f"; a {successor.kind} takes its place" if successor else ""),
        blast=in_words([pods]) or "its pods on every node",
        fix=_fix_for(pods, change, successor),
    )


def _fix_for(pods: Pods, change: ResourceChange, successor: Pods | None) -> str:
    if change.kind is ChangeKind.REPLACE or successor is not None:
        return "give it another name: then the new one comes first, and the old one is removed in a later change"
    if POOL in pods.labels:
        return "let its queue run empty first: a running job may end, waiting ones stay without a worker"
    return "see that nothing calls it any more, and save what it holds"


def _of_namespace(change: ResourceChange, seen: Compared) -> Danger:
    name = _name(change, seen)
    inside = [pods for pods in seen.old_pods if pods.namespace == name]
    return Danger(
        severity=Severity.BLOCKING,
        what=_what(change),
        blast=f"all that is in it: {in_words(inside) or 'Secrets, claims and what others put there'}",
        fix="keep the namespace; budgets are not asked when it goes",
    )


def _of_queues(change: ResourceChange) -> Danger:
    replaced = change.kind is ChangeKind.REPLACE
    return Danger(
        severity=Severity.BLOCKING if replaced else Severity.WARNING,
        what=_what(change),
        blast="all waiting jobs, and the record of running ones",
        fix="stop submitting and let the queues run empty first (ebbtide status)",
    )


def _of_groups(seen: Compared) -> Iterator[Danger]:
    """The zones of one group are one line, if the same happens to them."""
    alike: dict[tuple[str, ChangeKind, tuple[str, ...]], list[ResourceChange]] = {}
    for change in seen.of("NodeGroup", *_GOING):
        labels: Mapping[str, str] = seen.was(change).inputs.get("labels") or {}
        name = labels.get(NODE_GROUP, change.name)
        alike.setdefault((name, change.kind, _paths(change.reasons)), []).append(change)
    for (name, kind, _), parts in alike.items():
        group = seen.old_groups.get(name)
        most = sum(_max_size(part, seen) for part in parts)
        whole = group is None or len(parts) == len(group.urns)
        zones = "" if whole else f" ({', '.join(part.component for part in parts)})"
        yield Danger(
            severity=Severity.WARNING,
            what=f"{_VERB[kind]} node group {name}{zones}{_because(_together(parts))}",
            blast=_on_nodes(most, seen.old_pods_on([group] if group else [])),
            fix=_fix_for_group(name, kind),
        )


def _max_size(part: ResourceChange, seen: Compared) -> int:
    return int(value_at(seen.was(part).inputs, "scalingConfig.maxSize") or 0)


def _on_nodes(most: int, pods: Sequence[Pods]) -> str:
    nodes = f"up to {counted(most, 'node')}" if most else "nodes that neither file has"
    return f"{nodes}; {in_words(pods) or 'nothing of this stack runs there'}"


def _fix_for_group(name: str, kind: ChangeKind) -> str:
    """EKS user guide, "Delete a managed node group"."""
    drained = "EKS drains the old nodes and ends what has not left after some minutes, closed budgets or not"
    if kind is ChangeKind.DELETE:
        return f"move what runs there first, and remove the group when it is empty: {drained}"
    return f"add a group beside {name} and remove this one when it is empty, or do it while nothing runs: {drained}"


def _of_budgets(seen: Compared) -> Iterator[Danger]:
    """A budget that goes while its pods stay."""
    staying = {(pods.namespace, budget.name): pods for pods, _ in seen.pairs for budget in pods.budgets}
    for change in seen.of("PodDisruptionBudget", *_GOING):
        metadata = seen.was(change).inputs["metadata"]
        name = (metadata.get("namespace", "default"), metadata.get("name"))
        if name in staying:
            yield Danger(
                severity=Severity.BLOCKING,
                what=_what(change),
                blast=f"{staying[name].most} pods that anything may evict by day",
                fix="keep the budget as long as its pods",
            )


def _small_rest(rest: Sequence[ResourceChange], seen: Compared) -> Iterator[Danger]:
    """Without what goes with its pods, and a closer whose hour another one of its component has."""
    closing = {change.component for change in seen.changes if change.type == "CronJob" and change.kind not in _GOING}
    small = [
        change
        for change in rest
        if change.type != "PodDisruptionBudget" and not (change.type == "CronJob" and change.component in closing)
    ]
    for kind, verb in _VERB.items():
        names = [f"{change.type} {change.name}" for change in small if change.kind is kind]
        if names:
            yield Danger(
                severity=Severity.NOTE,
                what=f"{verb} {listed(names)}",
                blast="",
                fix="nothing runs on them; see the differences",
            )


def _what(change: ResourceChange) -> str:
    gap = ", and the old one goes before the new one comes" if change.lowers else ""
    return f"{_VERB[change.kind]} {change.type} {change.name}{_because(change.reasons)}{gap}"


def _paths(reasons: Sequence[str]) -> tuple[str, ...]:
    """Without whom they follow: the zones of a group follow a subnet each."""
    return tuple(reason.split(FOLLOWS)[0] for reason in reasons)


def _together(parts: Sequence[ResourceChange]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))


def _because(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    plain = [reason for reason in reasons if FOLLOWS not in reason]
    changed = f"{', '.join(plain)} change{'s' if len(plain) == 1 else ''}" if plain else ""
    return ": " + "; ".join(part for part in (changed, *(reason for reason in reasons if FOLLOWS in reason)) if part)
