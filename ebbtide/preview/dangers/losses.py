"""Dangers of replacements and deletions: the reason, and the pods that they affect.

Important losses get a line each. A resource that goes with its component, such as a group's launch template, is not
reported again, and minor losses share one line. If the cluster or its network goes, that is the only danger.
"""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.findings import Severity
from ebbtide.preview.changes import FOLLOWS, identity
from ebbtide.preview.dangers.compared import Compared, counted, impact_on_all, listed
from ebbtide.preview.dangers.conflicts import TEMPLATES, ClaimChange, claim_change
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.dangers.provisioners import changed_in_place, in_place_fix, last_step
from ebbtide.preview.dangers.restarts import WORKLOAD_RESTARTED
from ebbtide.preview.document import ChangeKind, Danger, ResourceChange
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import Pods
from ebbtide.recording.state import node_group_name
from ebbtide.recording.values import value_at
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.settings.sections.ray import namespace_of_ray
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE, KEDA_NAMESPACE
from ebbtide.text.counts import verb
from ebbtide.text.pages import page_command
from ebbtide.vocabulary.labels import Category

EVERYTHING_LOST = danger_kind("everything-lost", "the cluster or its network is replaced or deleted", Severity.BLOCKING)
PROTECTED_LOST = danger_kind(
    "protected-lost", "a protected resource is replaced or deleted, which Pulumi refuses", Severity.BLOCKING
)
NAMESPACE_LOST = danger_kind(
    "namespace-lost", "a namespace is replaced or deleted, with all that is in it", Severity.BLOCKING, Severity.WARNING
)
NODE_GROUP_LOST = danger_kind("node-group-lost", "a node group is replaced or deleted", Severity.WARNING)
WORKLOAD_LOST = danger_kind(
    "workload-lost", "a workload or a job is replaced or deleted", Severity.BLOCKING, Severity.WARNING
)
QUEUES_LOST = danger_kind(
    "queues-lost", "Redis is replaced or deleted, with all waiting jobs", Severity.BLOCKING, Severity.WARNING
)
BUDGET_LOST = danger_kind("budget-lost", "a budget is deleted although its pods stay", Severity.BLOCKING)
RESOURCE_LOST = danger_kind(
    "resource-lost", "a resource without pods, such as a subnet, is replaced or deleted", Severity.WARNING
)
MINOR_LOSSES = danger_kind("minor-losses", "resources on which nothing runs are replaced or deleted", Severity.NOTE)
UNDECLARED_LOST = danger_kind(
    "undeclared-lost",
    "a resource that the files do not declare is replaced or deleted",
    Severity.BLOCKING,
    Severity.WARNING,
)

_GOING = (ChangeKind.REPLACE, ChangeKind.DELETE)
_NOT_NEEDED = "none needed: no section of the file uses this part of Ebbtide any more"
_EVERYTHING = ("Cluster", "Vpc")
_POD_MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "Pod")
_VERB = {ChangeKind.REPLACE: "replaces", ChangeKind.DELETE: "deletes"}

_WITHOUT_PODS: Mapping[str, tuple[str, str]] = {
    "AccessEntry": ("the users of this entry lose access to the cluster", "check that it is no longer needed"),
    "Addon": ("what it does in the cluster stops", "see that nothing needs it"),
    "Eip": ("traffic to the internet comes from another address", "inform the owners of allow-lists with the old one"),
    "LifecyclePolicy": (
        "no further snapshots are taken, and existing ones are no longer deleted",
        "back up the disks in another way, and delete unneeded snapshots",
    ),
    "NatGateway": ("private nodes lose the internet until the new gateway exists", "do it when no node starts"),
    "Subnet": ("every node in it", "do it when its groups are empty"),
    "StorageClass": ("existing volumes stay; new claims fail until it is back", "do it when no claim is made"),
}
"""Impact and fix for types without pods."""


def everything_goes(changes: Sequence[ResourceChange]) -> bool:
    return any(change.type in _EVERYTHING and change.kind in _GOING for change in changes)


def losses(compared: Compared) -> Iterator[Danger]:
    going = [change for change in compared.changes if change.kind in _GOING]
    if everything_goes(going):
        yield from (_everything_lost(change, compared) for change in going if change.type in _EVERYTHING)
        return
    going_nodes = (*compared.of("NodeGroup", *_GOING), *compared.of("NodePool", *_GOING))
    reported = {change.component for change in going_nodes}
    for change in going:
        danger = _loss_of(change, compared)
        if danger is not None:
            reported.add(change.component or change.name)
            yield danger
    yield from _node_groups_lost(compared)
    yield from _budgets_lost(compared)
    podless = [change for change in going if change.type in _WITHOUT_PODS and change.component not in reported]
    yield from _podless_losses(podless)
    minor = [change for change in going if change not in podless and change.component not in reported]
    yield from _minor_losses(minor, compared)


def _loss_of(change: ResourceChange, compared: Compared) -> Danger | None:
    if change.type == "ReplicationGroup" or (
        change.type == "StatefulSet" and _name(change, compared) == IN_CLUSTER_REDIS
    ):
        return _queues_lost(change)
    if change.type == "Job":
        return _job_stopped(change, compared)
    if change.type in _POD_MAKERS:
        return _workload_lost(change, compared)
    if change.protected:
        return _protected_lost(change, "it was protected against accidental deletion")
    if change.type == "Namespace":
        return _namespace_lost(change, compared)
    return None


def _name(change: ResourceChange, compared: Compared) -> object:
    """The object's name in the API."""
    return value_at(compared.former(change).inputs, "metadata.name")


def _podless_losses(going: Sequence[ResourceChange]) -> Iterator[Danger]:
    alike: dict[tuple[str, ChangeKind, tuple[str, ...]], list[ResourceChange]] = {}
    for change in going:
        alike.setdefault((change.type, change.kind, _paths(change.reasons)), []).append(change)
    for (type_, kind, _), parts in alike.items():
        impact, fix = _WITHOUT_PODS[type_]
        names = tuple(part.name for part in parts)
        yield RESOURCE_LOST.danger(
            subjects=names,
            text=f"{_VERB[kind]} {type_} {listed(names)}{_reasons_text(_reasons_of(parts))}",
            impact=impact,
            remedy=fix,
        )


def _everything_lost(change: ResourceChange, compared: Compared) -> Danger:
    impact = impact_on_all(compared.before)
    if change.protected:
        return _protected_lost(change, impact)
    return EVERYTHING_LOST.danger(
        subjects=(change.name,),
        text=_describe_loss(change),
        impact=impact,
        remedy=f"create a second stack and move; to destroy this one: {page_command('life#the-last-day')}",
    )


def _protected_lost(change: ResourceChange, impact: str) -> Danger:
    return PROTECTED_LOST.danger(
        subjects=(change.name,),
        text=f"{_describe_loss(change)}; it is protected, so up stops there",
        impact=impact,
        remedy=f"take the change back; to take the stack down on purpose: {page_command('life#the-last-day')}",
    )


def _workload_lost(change: ResourceChange, compared: Compared) -> Danger:
    pods = next((entry for entry in compared.before.pods if identity(entry.resource.urn) == identity(change.urn)), None)
    if pods is None:
        return WORKLOAD_LOST.danger(
            severity=Severity.WARNING,
            subjects=(change.name,),
            text=_describe_loss(change),
            impact="pods that neither file has",
            remedy="find out who made them; pulumi up --refresh may know better",
        )
    successors = {(entry.namespace, entry.name): entry for entry in compared.after.pods}
    successor = successors.get((pods.namespace, pods.name)) if change.kind is ChangeKind.DELETE else None
    never_moved = pods.category in (Category.FIXED, Category.WORKER)
    claims, alone = _claims(change, compared), all(reason.startswith(TEMPLATES) for reason in change.reasons)
    lost = compared.impact([pods]) or "its pods on every node"
    severe = never_moved and (change.kind is ChangeKind.REPLACE or successor is not None)
    return WORKLOAD_LOST.danger(
        severity=Severity.BLOCKING if severe else Severity.WARNING,
        subjects=(change.name,),
        text=_describe_loss(change) + (f"; a {successor.kind} takes its place" if successor else ""),
        impact="; ".join(part for part in (lost, "" if claims is None else claims.impact) if part),
        remedy=claims.fix
        if claims is not None and alone
        else _fix_for(pods, change, successor, compared.before.settings),
    )


def _job_stopped(change: ResourceChange, compared: Compared) -> Danger:
    replaced = change.kind is ChangeKind.REPLACE
    name = _name(change, compared)
    is_ours = isinstance(name, str) and name not in compared.before.settings.jobs
    return (WORKLOAD_RESTARTED if replaced else WORKLOAD_LOST).danger(
        severity=Severity.WARNING,
        subjects=(change.name,),
        text=_describe_loss(change) + ("; it runs again from its beginning, even if it has ended" if replaced else ""),
        impact="a run that has not ended is stopped; budgets do not apply",
        remedy=_NOT_NEEDED
        if is_ours
        else "wait until it has ended, and remove from the file a job that must not run again",
    )


def _claims(change: ResourceChange, compared: Compared) -> ClaimChange | None:
    old, new = (side.get(identity(change.urn)) for side in (compared.old, compared.new))
    return claim_change(old, new) if change.kind is ChangeKind.REPLACE and old and new else None


def _fix_for(pods: Pods, change: ResourceChange, successor: Pods | None, before: StackSettings) -> str:
    if change.kind is ChangeKind.REPLACE or successor is not None:
        return "give it another name: then the new one comes first, and the old one is removed in a later change"
    if POOL in pods.labels:
        return "let its queue run empty first: a running job may end, waiting ones stay without a worker"
    if pods.kind == "Deployment" and pods.name not in before.all_workloads:
        return _NOT_NEEDED
    return "see that nothing calls it any more, and save what it holds"


def _namespace_lost(change: ResourceChange, compared: Compared) -> Danger:
    """A namespace that is deleted with its section of the file is deleted on purpose."""
    name = _name(change, compared)
    pods_inside = [pods for pods in compared.before.pods if pods.namespace == name]
    ending_advice = (
        _section_namespaces(compared.before.settings).get(str(name)) if change.kind is ChangeKind.DELETE else None
    )
    return NAMESPACE_LOST.danger(
        severity=Severity.BLOCKING if ending_advice is None else Severity.WARNING,
        subjects=(change.name,),
        text=_describe_loss(change),
        impact=f"all that is in it: {compared.impact(pods_inside) or 'Secrets, claims and what others put there'}",
        remedy=ending_advice or "keep the namespace; budgets do not apply when it is deleted",
    )


def _section_namespaces(settings: StackSettings) -> Mapping[str, str]:
    """Namespaces that exist for one section of the file, and how to end their pods first."""
    return {
        KEDA_NAMESPACE: "none needed: the pods that it scaled keep their replicas",
        GATEWAY_NAMESPACE: "send the clients elsewhere first: requests in flight end with the gateway",
        **{
            namespace_of_ray(name): f"stop what drives it, and remove it when ebbtide why ray {name} reports that "
            "nothing runs there: budgets do not apply"
            for name in settings.ray
        },
        **{
            own_namespace(name): f"let the pods that {name} started end first, and start no others: budgets do not "
            "apply"
            for name, workload in settings.workloads.items()
            if workload.kubernetes is not None
        },
    }


def _queues_lost(change: ResourceChange) -> Danger:
    replaced = change.kind is ChangeKind.REPLACE
    return QUEUES_LOST.danger(
        severity=Severity.BLOCKING if replaced else Severity.WARNING,
        subjects=(change.name,),
        text=_describe_loss(change),
        impact="all waiting jobs, and the record of running ones",
        remedy="stop submitting and let the queues run empty first (ebbtide status)",
    )


def _node_groups_lost(compared: Compared) -> Iterator[Danger]:
    """The zones of a group share one line if they have the same change."""
    alike: dict[tuple[str, ChangeKind, tuple[str, ...]], list[ResourceChange]] = {}
    for change in compared.of("NodeGroup", *_GOING):
        name = node_group_name(compared.former(change))
        alike.setdefault((name, change.kind, _paths(change.reasons)), []).append(change)
    for (name, kind, _), parts in alike.items():
        group = compared.before.groups_over_zones.get(name)
        all_zones = group is None or len(parts) == len(group.zones)
        zones = "" if all_zones else f" ({', '.join(part.component for part in parts)})"
        yield NODE_GROUP_LOST.danger(
            subjects=(name,),
            text=f"{_VERB[kind]} node group {name}{zones}{_why(name, parts, compared)}",
            impact=_on_nodes(name, parts, compared),
            remedy=_fix_for_group(name, kind, compared),
        )
    for change in compared.of("NodePool", *_GOING):
        name = node_group_name(compared.former(change))
        yield NODE_GROUP_LOST.danger(
            subjects=(name,),
            text=f"{_VERB[change.kind]} NodePool {name}{_why(name, [change], compared)}",
            impact=_on_nodes(name, [change], compared),
            remedy=_fix_for_pool(name, compared),
        )


def _why(name: str, parts: Sequence[ResourceChange], compared: Compared) -> str:
    provisioner = changed_in_place(compared, name)
    return f": provisioner changes to {provisioner}" if provisioner else _reasons_text(_reasons_of(parts))


def _on_nodes(name: str, parts: Sequence[ResourceChange], compared: Compared) -> str:
    former = [compared.former(part).inputs for part in parts]
    most = sum(
        int(str(value_at(it, "scalingConfig.maxSize") or value_at(it, "spec.limits.nodes") or 0)) for it in former
    )
    nodes = f"up to {counted(most, 'node')}" if most else "nodes that neither file has"
    return f"{nodes}; {compared.impact(compared.before.pods_on({name})) or 'nothing of this stack runs there'}"


def _fix_for_pool(name: str, compared: Compared) -> str:
    waits = "Karpenter taints all its nodes and waits for closed budgets, and pulumi waits for an hour at most"
    if provisioner := changed_in_place(compared, name):
        return in_place_fix(name, provisioner, waits)
    return last_step(compared, name) or f"move what runs there first: {waits}"


def _fix_for_group(name: str, kind: ChangeKind, compared: Compared) -> str:
    """Source: EKS user guide, "Delete a managed node group"."""
    drained = "EKS drains the old nodes and ends remaining pods after some minutes, closed budgets or not"
    if provisioner := changed_in_place(compared, name):
        return in_place_fix(name, provisioner, drained)
    if kind is ChangeKind.DELETE:
        step = last_step(compared, name)
        return (
            f"{step}: {drained}"
            if step
            else f"move what runs there first, and remove the group when it is empty: {drained}"
        )
    return f"add a group beside {name} and remove this one when it is empty, or do it while nothing runs: {drained}"


def undeclared_lost(change: ResourceChange) -> Danger:
    return UNDECLARED_LOST.danger(
        severity=Severity.BLOCKING if change.protected else Severity.WARNING,
        subjects=(change.name,),
        text=f"{change.kind}s {change.type} {change.name}, which the files compared here do not declare",
        impact="not known: only the engine knows of it",
        remedy="see where it comes from (pulumi stack --show-urns) before it goes",
    )


def _budgets_lost(compared: Compared) -> Iterator[Danger]:
    """Budgets that are deleted although their pods stay and have no other budget."""
    uncovered = [old for old, new in compared.pairs if not compared.after.budgets_of(new)]
    staying = {budget.urn: pods for pods in uncovered for budget in compared.before.budgets_of(pods)}
    for change in compared.of("PodDisruptionBudget", *_GOING):
        pods = staying.get(compared.former(change).urn)
        if pods is not None:
            yield BUDGET_LOST.danger(
                subjects=(change.name,),
                text=_describe_loss(change),
                impact=f"{compared.before.most_pods(pods)} pods that anything may evict by day",
                remedy="keep the budget as long as its pods",
            )


def _minor_losses(changes: Sequence[ResourceChange], compared: Compared) -> Iterator[Danger]:
    """Leave out budgets, which go with their pods, and closers of a component that still has another closer."""
    closing = {
        change.component for change in compared.changes if change.type == "CronJob" and change.kind not in _GOING
    }
    small = [
        change
        for change in changes
        if change.type != "PodDisruptionBudget" and not (change.type == "CronJob" and change.component in closing)
    ]
    for kind, done in _VERB.items():
        parts = [change for change in small if change.kind is kind]
        if parts:
            yield MINOR_LOSSES.danger(
                subjects=tuple(part.name for part in parts),
                text=f"{done} {listed([f'{part.type} {part.name}' for part in parts])}",
                remedy="nothing runs on them; see the resource changes",
            )


def _describe_loss(change: ResourceChange) -> str:
    order = ", and the old one goes before the new one comes" if change.lowers else ""
    return f"{_VERB[change.kind]} {change.type} {change.name}{_reasons_text(change.reasons)}{order}"


def _paths(reasons: Sequence[str]) -> tuple[str, ...]:
    """The paths without the resource that they follow, since each zone of a group follows its own subnet."""
    return tuple(reason.split(FOLLOWS)[0] for reason in reasons)


def _reasons_of(parts: Sequence[ResourceChange]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for part in parts for reason in part.reasons))


def _reasons_text(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    plain = [reason for reason in reasons if FOLLOWS not in reason]
    changed = f"{', '.join(plain)} {verb(len(plain), 'changes', 'change')}" if plain else ""
    return ": " + "; ".join(part for part in (changed, *(reason for reason in reasons if FOLLOWS in reason)) if part)
