"""Dangers for nodes that stay: their number, version and launch template, and pods that move to another processor.

Sources: docs/how-to/life.md, "The size of a group" and "A new version of Kubernetes"; EKS user guide, "Update a managed
node group" for the 15 minutes; aws/karpenter-provider-aws v1.14.1, pkg/apis/v1/ec2nodeclass.go, for the fields of the
hash whose change makes all nodes drift.
"""

from collections.abc import Iterator, Sequence

from components.cluster.karpenter.pools import class_name
from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, counted, listed, paths_text
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import ChangeKind, Danger, ResourceChange
from ebbtide.provisioning_labels import Architecture, NodeKind
from ebbtide.recording.state import NODE_GROUP_TYPE, GroupOverZones, node_group_name
from ebbtide.recording.values import value_at
from ebbtide.settings.capacity.packing import PodRequests, pod_requests
from ebbtide.settings.capacity.placement import architecture
from ebbtide.settings.model import StackSettings
from ebbtide.text.pages import page_command

_NEW_VERSION = page_command("life#a-new-version-of-kubernetes-a-new-image-of-nodes")

GROUP_RESIZED = danger_kind("group-resized", "the minimum or the maximum of a node group changes", Severity.WARNING)
KUBERNETES_UPDATED = danger_kind("kubernetes-updated", "Kubernetes goes up by one minor version", Severity.WARNING)
KUBERNETES_REFUSED = danger_kind(
    "kubernetes-refused", "Kubernetes goes back, or up by more than one minor version", Severity.BLOCKING
)
NODES_REPLACED = danger_kind(
    "nodes-replaced",
    "nodes are replaced, since their launch template or EC2NodeClass changes",
    Severity.WARNING,
    Severity.NOTE,
)
PROCESSOR_CHANGED = danger_kind("processor-changed", "pods move to nodes with another processor", Severity.WARNING)

_SIZES = "scalingConfig."
_HASHED = tuple(f"spec.{field}" for field in ("kubelet", "blockDeviceMappings", "metadataOptions", "tags"))
_DESIRED = "aws eks update-nodegroup-config --cluster-name … --nodegroup-name … --scaling-config desiredSize="


def node_dangers(compared: Compared) -> Iterator[Danger]:
    yield from _resized_groups(compared)
    yield from _kubernetes_version(compared)
    yield from _replaced_nodes(compared)
    yield from _drifting_nodes(compared)


def _resized_groups(compared: Compared) -> Iterator[Danger]:
    """Any changed minimum or maximum also sends the desired size that Pulumi saw last."""
    changed: dict[str, list[ResourceChange]] = {}
    for change in compared.of("NodeGroup", ChangeKind.UPDATE):
        if any(field.path.startswith(_SIZES) for field in change.fields):
            changed.setdefault(node_group_name(compared.former(change)), []).append(change)
    for name, parts in changed.items():
        new = compared.after.groups_over_zones[name]
        old = compared.before.groups_over_zones.get(name, new)
        yield GROUP_RESIZED.danger(
            subjects=(name,),
            text=f"changes the size of node group {name}: {_size_words(old, new) or _each_size(parts)}",
            impact=compared.impact_on_groups([old]),
            remedy=" ".join(_size_steps(parts)),
        )


def _size_words(old: GroupOverZones, new: GroupOverZones) -> str:
    parts = [("min", old.least, new.least), ("max", old.most, new.most)]
    return ", ".join(f"{bound} {before} → {after}" for bound, before, after in parts if before != after)


def _each_size(parts: Sequence[ResourceChange]) -> str:
    """Sizes per zone, for equal totals that are split over other zones."""
    sizes = [(part.name, field) for part in parts for field in part.fields if field.path.startswith(_SIZES)]
    return ", ".join(f"{name} {f.path.removeprefix(_SIZES)} {f.before} → {f.after}" for name, f in sizes)


def _size_steps(parts: Sequence[ResourceChange]) -> Iterator[str]:
    yield (
        "Apply it with pulumi up --refresh: otherwise AWS goes back to the number of nodes that Pulumi saw last, "
        "and nodes vanish."
    )
    raised = [f"{part.name}: {after}" for part in parts for before, after in _bounds(part, "minSize") if after > before]
    if raised:
        yield (
            "AWS refuses a minimum above the current number of nodes, so raise it in two steps: start the nodes, by "
            f"jobs or with {_DESIRED}N ({', '.join(raised)}), then run up --refresh while they run."
        )
    lowered = [part.name for part in parts for before, after in _bounds(part, "maxSize") if after < before]
    if lowered:
        yield f"AWS refuses a maximum below the nodes that run: wait until they have left {', '.join(lowered)}."


def _bounds(part: ResourceChange, bound: str) -> list[tuple[int, int]]:
    """The bound before and after, if it changes."""
    bounds = [(field.before, field.after) for field in part.fields if field.path == f"{_SIZES}{bound}"]
    return [(int(before), int(after)) for before, after in bounds if before.isdigit() and after.isdigit()]


def _kubernetes_version(compared: Compared) -> Iterator[Danger]:
    before, after = compared.before.control_plane_minor, compared.after.control_plane_minor
    if before is None or after is None or before == after:
        return
    step = after - before
    nodes = sum(group.most for group in compared.before.groups)
    words = f"1.{before} → 1.{after}"
    impact = f"the control plane, and up to {counted(nodes, 'node')}; {compared.impact(compared.before.pods)}"
    if step == 1:
        yield KUBERNETES_UPDATED.danger(
            text=f"updates Kubernetes {words}: the nodes of every group are replaced within budgets",
            impact=impact,
            remedy=f"in a maintenance, one evening: {_NEW_VERSION}",
        )
        return
    why = "EKS never goes back" if step < 0 else "EKS goes up by one minor version at a time"
    yield KUBERNETES_REFUSED.danger(
        text=f"changes Kubernetes {words}: {why}",
        impact=impact,
        remedy=f"stay on 1.{before}"
        if step < 0
        else f"go to 1.{before + 1} first, and on when its nodes have followed",
    )


def _replaced_nodes(compared: Compared) -> Iterator[Danger]:
    """A changed launch template replaces the nodes of its group, but a change of the template's own tags does not."""
    if compared.before.control_plane_minor != compared.after.control_plane_minor:
        return  # KUBERNETES_UPDATED reports that all nodes are replaced
    templates = {
        change.component
        for change in compared.of("LaunchTemplate", ChangeKind.UPDATE)
        if any(not field.path.startswith("tags") for field in change.fields)
    }
    replaced = {change.component for change in compared.of("NodeGroup", ChangeKind.REPLACE)}
    groups = _groups_of_components(compared, templates - replaced)
    if groups:
        names = tuple(group.name for group in groups)
        yield NODES_REPLACED.danger(
            severity=Severity.WARNING if any(group.kind == NodeKind.FIXED for group in groups) else Severity.NOTE,
            subjects=names,
            text=f"replaces the nodes of {', '.join(names)}: the launch template changes",
            impact=compared.impact_on_groups(groups),
            remedy=f"in a maintenance ({_NEW_VERSION}): where budgets are closed EKS gives up after 15 minutes",
        )


def _drifting_nodes(compared: Compared) -> Iterator[Danger]:
    """Karpenter replaces all nodes of a NodePool whose EC2NodeClass has other hashed fields, within open budgets."""
    changed: dict[str, list[str]] = {}
    for change in compared.of("EC2NodeClass", ChangeKind.UPDATE):
        if fields := [field.path for field in change.fields if field.path.startswith(_HASHED)]:
            changed[str(value_at(compared.former(change).inputs, "metadata.name"))] = fields
    old = compared.before.settings
    for name, group in compared.before.groups_over_zones.items():
        if fields := changed.get(class_name(name)):
            pools = old.workers.items()
            saving = [each for each, pool in pools if old.stopped_together(pool) and name in old.groups_of(pool)]
            yield NODES_REPLACED.danger(
                severity=Severity.WARNING if saving else Severity.NOTE,
                subjects=(name,),
                text=f"replaces the nodes of {name}, all of which drift under Karpenter: {paths_text(fields)}",
                impact=compared.impact_on_groups([group]),
                remedy=f"it begins outside business hours; the budget of {listed(saving)} is open: their jobs are "
                "interrupted, save and go on"
                if saving
                else "none needed: it begins outside business hours, and nodes with closed budgets stay",
            )


def _groups_of_components(compared: Compared, components: set[str]) -> list[GroupOverZones]:
    resources = compared.after.of_type(NODE_GROUP_TYPE)
    names = {node_group_name(resource) for resource in resources if resource.parent.split("::")[-1] in components}
    return [group for name, group in compared.before.groups_over_zones.items() if name in names]


def processor_dangers(compared: Compared) -> Iterator[Danger]:
    """Pods that move to nodes with another processor, on which an image for the old processor does not start.

    A group of the file replaces the default one of its kind (`ebbtide.settings.sections.node_groups`), so this may
    happen to pods whose section does not change. Pods with `arch: any` have images for both, and arm64 appears only if
    the file says so.
    """
    before, after = compared.before.settings, compared.after.settings
    old = {entry.name: entry for entry in pod_requests(before)}
    alike: dict[tuple[str, str], list[PodRequests]] = {}
    for new in pod_requests(after):
        old_arch, new_arch = _processors(before, old.get(new.name)), _processors(after, new)
        if old_arch and set(new_arch) - set(old_arch) and new.arch not in (Architecture.ANY, Architecture.ARM64):
            alike.setdefault((" or ".join(old_arch), " or ".join(new_arch)), []).append(new)
    for (old_arch, new_arch), pods in alike.items():
        names = tuple(entry.name for entry in pods)
        old_groups = dict.fromkeys(group for name in names for group in old[name].groups)
        removed = [group for group in old_groups if group not in after.node_groups]
        groups = listed([*dict.fromkeys(group for entry in pods for group in entry.groups)])
        keep = f"name {listed(removed)} in the file" if removed else "keep a group with the old types"
        yield PROCESSOR_CHANGED.danger(
            subjects=names,
            text=f"moves {listed(names)} from {old_arch} to {new_arch} nodes, on which images only for {old_arch} do "
            "not start",
            impact=compared.impact(pods for pods, _ in compared.pairs if pods.name in names),
            remedy=f"{keep} beside {groups}, or set arch of pods whose images are also for {new_arch}",
        )


def _processors(settings: StackSettings, pods: PodRequests | None) -> Sequence[Architecture]:
    """Processors of the nodes that the pods may run on; none if the nodes are not known."""
    groups = () if pods is None else pods.groups
    return sorted({architecture(settings.node_groups[name]) for name in groups if name in settings.node_groups})
