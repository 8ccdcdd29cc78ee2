"""What a change means for nodes that stay: their number, their version, their launch template.

Sources: docs/life.md, "The size of a group" and "A new version of Kubernetes"; EKS user guide, "Update a managed node
group" for the quarter of an hour; Kubernetes' version skew policy for kubelets, which are never newer than the API
server and at most three minors older.
"""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.preview.compared import Compared
from ebbtide.preview.document import ChangeKind, Danger, ResourceChange, Severity
from ebbtide.preview.pods import NodeGroups, counted, in_words, listed
from ebbtide.preview.resources import Resource
from ebbtide.vocabulary.labels import NODE_GROUP, NodeKind

_OLDEST_KUBELET = 3  # minors behind the API server
_SIZES = "scalingConfig."
_DESIRED = "aws eks update-nodegroup-config --cluster-name … --nodegroup-name … --scaling-config desiredSize="


def node_dangers(seen: Compared) -> Iterator[Danger]:
    yield from _sizes(seen)
    yield from _cluster_version(seen)
    yield from _rolled_nodes(seen)


def version_skew(resources: Sequence[Resource]) -> Iterator[Danger]:
    """Of the later side alone, whatever it was before."""
    api = _version_of_cluster(resources)
    apart: dict[int, list[str]] = {}
    for resource in resources:
        nodes = _minor(resource.inputs.get("version")) if resource.type == "aws:eks/nodeGroup:NodeGroup" else None
        if api is not None and nodes is not None and not 0 <= api - nodes <= _OLDEST_KUBELET:
            apart.setdefault(nodes, []).append(resource.name)
    for nodes, names in apart.items():
        yield Danger(
            severity=Severity.BLOCKING,
            what=f"{listed(names)} would run version 1.{nodes} under a control plane of 1.{api}",
            blast="their nodes may not join the cluster",
            fix=f"give them 1.{api}: nodes are never newer, and at most {_OLDEST_KUBELET} minor versions older",
        )


def _sizes(seen: Compared) -> Iterator[Danger]:
    """Any changed minimum or maximum sends the desired size along, as Pulumi saw it last."""
    changed: dict[str, list[ResourceChange]] = {}
    for change in seen.of("NodeGroup", ChangeKind.UPDATE):
        if any(field.path.startswith(_SIZES) for field in change.fields):
            changed.setdefault(_group_name(seen.was(change)), []).append(change)
    for name, parts in changed.items():
        new = seen.new_groups[name]
        old = seen.old_groups.get(name, new)
        yield Danger(
            severity=Severity.WARNING,
            what=f"changes the size of node group {name}: {_size_words(old, new) or _each_size(parts)}",
            blast=f"up to {counted(old.most, 'node')}; {in_words(seen.old_pods_on([old])) or 'no pods of this stack'}",
            fix=" ".join(_size_steps(parts)),
        )


def _size_words(old: NodeGroups, new: NodeGroups) -> str:
    parts = [("min", old.least, new.least), ("max", old.most, new.most)]
    return ", ".join(f"{bound} {was} → {will}" for bound, was, will in parts if was != will)


def _each_size(parts: Sequence[ResourceChange]) -> str:
    """Where the totals are as they were: they are split over other zones."""
    sizes = [(part.name, field) for part in parts for field in part.fields if field.path.startswith(_SIZES)]
    return ", ".join(f"{name} {f.path.removeprefix(_SIZES)} {f.before} → {f.after}" for name, f in sizes)


def _size_steps(parts: Sequence[ResourceChange]) -> Iterator[str]:
    yield (
        "Apply it with pulumi up --refresh: without it AWS goes back to the number of nodes of Pulumi's last look, and "
        "nodes vanish."
    )
    raised = [f"{part.name}: {after}" for part in parts for before, after in _bounds(part, "minSize") if after > before]
    if raised:
        yield (
            "AWS refuses a minimum above the nodes that are there, so raise it in two steps: let the nodes come, by "
            f"jobs or with {_DESIRED}N ({', '.join(raised)}), then run up --refresh while they are there."
        )
    lowered = [part.name for part in parts for before, after in _bounds(part, "maxSize") if after < before]
    if lowered:
        yield f"AWS refuses a maximum below the nodes that run: wait until they have left {', '.join(lowered)}."


def _bounds(part: ResourceChange, bound: str) -> list[tuple[int, int]]:
    """Before and after, if it changes."""
    found = [(field.before, field.after) for field in part.fields if field.path == f"{_SIZES}{bound}"]
    return [(int(before), int(after)) for before, after in found if before.isdigit() and after.isdigit()]


def _cluster_version(seen: Compared) -> Iterator[Danger]:
    before, after = (_version_of_cluster(side.resources) for side in (seen.before, seen.after))
    if before is None or after is None or before == after:
        return
    step = after - before
    nodes = sum(group.most for group in seen.old_groups.values())
    words = f"1.{before} → 1.{after}"
    blast = f"the control plane, and up to {counted(nodes, 'node')}; {in_words(seen.old_pods)}"
    if step == 1:
        fix = "in a maintenance, one evening: docs/life.md, A new version of Kubernetes"
        what = f"updates Kubernetes {words}: the nodes of every group are replaced within budgets"
        yield Danger(severity=Severity.WARNING, what=what, blast=blast, fix=fix)
        return
    why = "EKS never goes back" if step < 0 else "EKS goes up by one minor version at a time"
    fix = f"stay on 1.{before}" if step < 0 else f"go to 1.{before + 1} first, and on when its nodes have followed"
    yield Danger(severity=Severity.BLOCKING, what=f"changes Kubernetes {words}: {why}", blast=blast, fix=fix)


def _rolled_nodes(seen: Compared) -> Iterator[Danger]:
    """A changed launch template replaces the nodes of its group; its own tags do not reach them."""
    if _version_of_cluster(seen.before.resources) != _version_of_cluster(seen.after.resources):
        return  # they are replaced anyway, and that is said
    rolled = {
        change.component
        for change in seen.of("LaunchTemplate", ChangeKind.UPDATE)
        if any(not field.path.startswith("tags") for field in change.fields)
    }
    replaced = {change.component for change in seen.of("NodeGroup", ChangeKind.REPLACE)}
    groups = _groups_of_components(seen, rolled - replaced)
    if groups:
        fixed = any(group.kind == NodeKind.FIXED for group in groups)
        nodes = sum(group.most for group in groups)
        yield Danger(
            severity=Severity.WARNING if fixed else Severity.NOTE,
            what=f"replaces the nodes of {', '.join(group.name for group in groups)}: the launch template changes",
            blast=f"up to {counted(nodes, 'node')}; {in_words(seen.old_pods_on(groups)) or 'no pods of this stack'}",
            fix="in a maintenance (docs/life.md): where budgets are closed EKS gives up after a quarter of an hour",
        )


def _groups_of_components(seen: Compared, components: set[str]) -> list[NodeGroups]:
    names = {
        _group_name(resource)
        for resource in seen.after.resources
        if resource.type.endswith(":NodeGroup") and resource.custom and resource.parent.split("::")[-1] in components
    }
    return [group for name, group in seen.old_groups.items() if name in names]


def _group_name(resource: Resource) -> str:
    labels: Mapping[str, str] = resource.inputs.get("labels") or {}
    return labels.get(NODE_GROUP, resource.name)


def _version_of_cluster(resources: Sequence[Resource]) -> int | None:
    versions = [r.inputs.get("version") for r in resources if r.type == "aws:eks/cluster:Cluster"]
    return _minor(versions[0]) if versions else None


def _minor(version: object) -> int | None:
    """EKS has versions of Kubernetes 1 alone."""
    _, dot, minor = str(version).partition(".")
    return int(minor) if dot and minor.isdigit() else None
