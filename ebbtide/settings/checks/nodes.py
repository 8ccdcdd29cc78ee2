"""Check node groups, and pods against the nodes that they would run on. Nodes of existing clusters are unknown.

Pods that select labels which no node group has would stay pending, since the autoscaler adds no node for them. A pod
that is too large for every group of its kind has one finding only.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ebbtide.prices import InstanceType, instance_type, instance_type_names, is_suggested
from ebbtide.provisioning_labels import Architecture, NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.packing import Nodes, nodes_needed
from ebbtide.settings.capacity.placed import PlacedPod
from ebbtide.settings.capacity.placement import (
    architecture,
    fits,
    gpu_memory,
    gpus_suffice,
    labels_of_nodes,
    names_rightly,
    node_of,
    room_on_disk,
    room_text,
    smallest_node,
)
from ebbtide.settings.capacity.shapes_of_group import LONGEST_NAME, has_parts, parts_of
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.keys import ADOPTED, CLUSTER, GROUPS, RAY, REDIS, SERVICES, WORKLOADS
from ebbtide.settings.file.not_here import page_section
from ebbtide.settings.file.problems import Finding, Location, show, unknown_name, value_at
from ebbtide.settings.fragment.nodes import NodeLabels, unmet
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.node_groups import SPOT_TYPES, NodeGroupSettings
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.ray import RayGroup
from ebbtide.settings.sections.redis import CPU, RedisKind
from ebbtide.settings.sections.zones import is_id
from ebbtide.text.quantities import memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_GROUP, Category

FEWEST_SPOT_TYPES = 4
"""AWS reclaims spot nodes type by type. No source says how many types are enough; Ebbtide requires four."""

Groups: TypeAlias = Mapping[str, NodeGroupSettings]


def _types_have_one_shape(parsed: ParsedSections) -> Iterator[Finding]:
    for name, group in parsed.stack.node_groups.items():
        facts = group.types
        shapes = "; ".join(f"{f.name} {f.vcpu} vCPU {f.memory_mib // 1024} GiB {f.gpu} GPU {f.arch}" for f in facts)
        if group.gpus_on_spot:
            if len({fact.arch for fact in facts}) > 1:
                yield Finding(
                    code="node-group.processors",
                    at=(GROUPS, name, "instanceTypes"),
                    wanted="types of one processor",
                    found=shapes,
                    example="[g6e.2xlarge, g5.2xlarge, g6.4xlarge]",
                    hint="an image starts on one processor: make a group for each",
                )
        elif group.by_karpenter:
            if not all(_no_larger(kind, facts[0]) for kind in facts):
                yield Finding(
                    code="node-group.no-largest",
                    at=(GROUPS, name, "instanceTypes"),
                    wanted="types of one processor, one of them with at least the CPU, memory and GPUs of each other",
                    found=shapes,
                    example="[m7i.4xlarge, m7i.2xlarge, c7i.4xlarge]",
                    hint="pods must fit the largest type: make a group for each of the others",
                )
        elif len({fact.shape for fact in facts}) > 1:
            yield Finding(
                code="node-group.shapes",
                at=(GROUPS, name, "instanceTypes"),
                wanted="instance types of one shape",
                found=shapes,
                hint="the autoscaler takes one node as the pattern for all: make a group for each shape, or set "
                "provisioner: karpenter",
            )


def _no_larger(kind: InstanceType, largest: InstanceType) -> bool:
    smaller = kind.vcpu <= largest.vcpu and kind.memory_mib <= largest.memory_mib and kind.gpu <= largest.gpu
    return smaller and kind.arch == largest.arch


def _nodes_have_an_image(parsed: ParsedSections) -> Iterator[Finding]:
    for name, group in parsed.stack.node_groups.items():
        reasons = ((kind.name, _why_no_image(kind)) for kind in group.types)
        if refused := next((f"{kind}, {reason}" for kind, reason in reasons if reason), ""):
            yield Finding(
                code="node-group.no-image",
                at=(GROUPS, name, "instanceTypes"),
                wanted="types whose devices work with EKS images and the NVIDIA device plugin",
                found=refused,
                example="g6.2xlarge",
                hint=page_section("nodes"),
            )


def _why_no_image(kind: InstanceType) -> str:
    if kind.device == "aws.amazon.com/neuron":
        return "which needs the device plugin of AWS Neuron, which Ebbtide does not install"
    if kind.device:
        return "whose AMD GPU has no driver in the EKS images"
    if kind.family == "g7":
        return "which needs NVIDIA driver 595, while the EKS images that Ebbtide supports have 580"
    return ""


def _gpus_are_on_gpu_groups(parsed: ParsedSections) -> Iterator[Finding]:
    for name, group in parsed.stack.node_groups.items():
        of_gpus = group.kind is NodeKind.GPU or group.gpus_on_spot
        types = [kind for kind in group.types if not _why_no_image(kind)]
        wrong = next((kind for kind in types if (kind.gpu > 0) is not of_gpus), None)
        if wrong is not None:
            expected = "types with GPUs" if of_gpus else "types without GPUs, or kind: gpu or spot"
            yield Finding(
                code="node-group.gpus",
                at=(GROUPS, name, "instanceTypes"),
                wanted=f"{expected}, since another type has some" if group.gpus_on_spot else expected,
                found=f"{wrong.name} with {wrong.gpu} GPU in a {group.kind} group",
                example="g5.2xlarge",
            )


def _names_of_parts_are_free(parsed: ParsedSections) -> Iterator[Finding]:
    groups = parsed.stack.node_groups
    parts = {part: name for name, group in groups.items() if has_parts(group) for part in parts_of(name, group)}
    for name in sorted(parts.keys() & groups.keys()):
        yield Finding(
            code="node-group.name-of-part",
            at=(GROUPS, name),
            wanted=f"another name than the managed groups of {parts[name]}, which end in the shape of their nodes",
            found=repr(name),
            example=f"{groups[name].kind}-2",
        )
    for name in dict.fromkeys(parts.values()):
        if len(name) > LONGEST_NAME:
            yield Finding(
                code="node-group.long-name",
                at=(GROUPS, name),
                wanted=f"at most {LONGEST_NAME} characters for a spot group with GPUs",
                found=f"{len(name)}",
                example="gpu-spot",
                hint="the names of its managed groups in EKS also have the shape, and EKS allows 63 characters",
            )


def _spot_groups_have_a_choice(parsed: ParsedSections) -> Iterator[Finding]:
    for name, group in parsed.stack.node_groups.items():
        types = group.instance_types
        if group.kind is NodeKind.SPOT and not group.has_gpus and len(types) < FEWEST_SPOT_TYPES:
            yield Finding(
                code="spot.few-types",
                at=(GROUPS, name, "instanceTypes"),
                wanted=f"at least {FEWEST_SPOT_TYPES} types of one shape for spot nodes",
                found=f"{len(types)}: {', '.join(types)}",
                example=f"[{', '.join(_spot_example(group))}]",
                hint=_spot_hint(group),
            )


def _spot_example(group: NodeGroupSettings) -> Sequence[str]:
    """Return types of the group's shape if there are enough."""
    twins = _types_of_same_shape(group)
    return twins[:FEWEST_SPOT_TYPES] if len(twins) >= FEWEST_SPOT_TYPES else SPOT_TYPES


def _spot_hint(group: NodeGroupSettings) -> str:
    twins = _types_of_same_shape(group)
    if 0 < len(twins) < FEWEST_SPOT_TYPES:
        return f"of this shape only {', '.join(twins)} are common: take another one"
    return "AWS chooses the type that it will reclaim last: the fewer types, the sooner it reclaims"


def _types_of_same_shape(group: NodeGroupSettings) -> Sequence[str]:
    """Return the group's types and all others of their shape, or none if they have several or a described one."""
    types, shapes = group.instance_types, {kind.shape for kind in group.types}
    if len(shapes) != 1 or group.shape is not None:
        return ()
    twins = [name for name in instance_type_names() if is_suggested(name) and instance_type(name).shape in shapes]
    return [*types, *(name for name in twins if name not in types)]


def _reserved_leaves_capacity(parsed: ParsedSections) -> Iterator[Finding]:
    for name, group in parsed.stack.node_groups.items():
        node = node_of(group)
        if not (node.cpu and node.memory):
            yield Finding(
                code="node-group.all-reserved",
                at=(GROUPS, name, "reserved"),
                wanted=f"less than a node offers: {room_text(replace(smallest_node(group.types_to_fit), gpu=0))}",
                found="all of it",
                example="{ cpu: 500m, memory: 1Gi }",
            )


def _groups_reach_every_zone(parsed: ParsedSections) -> Iterator[Finding]:
    zones = len(parsed.stack.cluster.zones)
    for name, group in parsed.stack.node_groups.items():
        shapes = len(parts_of(name, group))
        least, several = zones * shapes, shapes > 1
        if group.max < least and not group.by_karpenter:
            yield Finding(
                code="node-group.max-below-zones",
                at=(GROUPS, name, "max"),
                wanted=f"at least {least}, one node for each zone{f' and each of {shapes} sizes' if several else ''}",
                found=str(group.max),
                example=str(least),
                hint=f"max is the total of all zones{' and sizes' if several else ''}",
            )


def _pods_fit_their_nodes(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.placed_pods:
        wrong = [*_unsuitable(parsed, placed)] if placed.group else []
        yield from wrong
        if not placed.group or wrong:
            yield from _must_fit(parsed, placed.at, placed.size, _kinds(placed))
            continue
        group = parsed.stack.node_groups[placed.group]
        node = node_of(group)
        if not fits(placed.size, node) and (node.gpu or not group.has_gpus):  # else types without GPUs are among them
            expected = f"a pod that fits a node of group {placed.group}: {room_text(node)}"
            yield Finding(code="pod.too-large", at=placed.at, wanted=expected, found=str(placed.size))


def _pods_fit_described_nodes(parsed: ParsedSections) -> Iterator[Finding]:
    groups = with_node_sets(parsed.stack).node_groups
    for placed in parsed.placed_pods:
        name = placed.group or placed.kind.value
        if name in groups and not fits(placed.size, node_of(groups[name])):
            expected = f"a pod that fits a node of cluster.nodeShapes.{name}: {room_text(node_of(groups[name]))}"
            yield Finding(code="pod.too-large", at=placed.at, wanted=expected, found=str(placed.size))


def _unsuitable(parsed: ParsedSections, placed: PlacedPod) -> Iterator[Finding]:
    """Check the group that a pod names, apart from its size."""
    at, group = (*placed.at, "nodeGroup"), parsed.stack.node_groups.get(placed.group)
    if group is None:
        yield unknown_name(at, "one of the node groups", placed.group, tuple(parsed.stack.node_groups))
    elif not _may_name(placed, group):
        yield Finding(
            code="node-group.kind",
            at=at,
            wanted=f"a group of kind {' or '.join(_kinds(placed))}{_gpus_of_spot(placed, group)}",
            found=f"{placed.group!r} of kind {group.kind}{_gpus_of(group)}",
            hint=_why_not(placed, group),
        )


def _gpus_of_spot(placed: PlacedPod, group: NodeGroupSettings) -> str:
    """Return which spot nodes are meant, if the pod names others."""
    if group.kind is not NodeKind.SPOT or NodeKind.SPOT not in _kinds(placed):
        return ""
    return " with GPUs" if placed.size.gpu else " without GPUs"


def _gpus_of(group: NodeGroupSettings) -> str:
    if group.kind is not NodeKind.SPOT:
        return ""
    return ", whose nodes have GPUs" if group.has_gpus else ", whose nodes have no GPUs"


def _why_not(placed: PlacedPod, group: NodeGroupSettings) -> str:
    if placed.size.gpu:
        return "Ray's workers with GPUs run on demand" if group.gpus_on_spot else ""
    if group.kind is NodeKind.FIXED and isinstance(placed.pod, GroupPodSettings):
        return f"{placed.pod.not_on_fixed}; on fixed nodes nothing would be saved"
    return ""


def _may_name(placed: PlacedPod, group: NodeGroupSettings) -> bool:
    return group.kind in _kinds(placed) and names_rightly(group, placed.kind)


def _kinds(placed: PlacedPod) -> tuple[NodeKind, ...]:
    """Return the kinds of group that a pod may run on. Spot only if the pod names the group."""
    on_spot = placed.kind is NodeKind.FLEXIBLE or (placed.kind is NodeKind.GPU and not isinstance(placed.pod, RayGroup))
    return (placed.kind, NodeKind.SPOT) if placed.group and on_spot else (placed.kind,)


def _redis_fits(parsed: ParsedSections) -> Iterator[Finding]:
    redis = parsed.stack.redis
    if redis.kind is RedisKind.IN_CLUSTER:
        size = PodSize(cpu=CPU, memory=redis.memory_mib, gpu=0)
        yield from _must_fit(parsed, (REDIS, "memory"), size, (NodeKind.FIXED,))


def _must_fit(parsed: ParsedSections, at: Location, size: PodSize, kinds: Sequence[NodeKind]) -> Iterator[Finding]:
    groups = parsed.stack.node_groups.values()
    offers = [node_of(group) for group in _for_any_pod(parsed.stack.node_groups).values() if group.kind in kinds]
    kind = " or ".join(kinds)
    others = " without GPUs" if any(group.gpus_on_spot and group.kind in kinds for group in groups) else ""
    if not offers:
        yield Finding(
            code="node-group.missing",
            at=at,
            wanted=f"a node group of kind {kind}{others} for it",
            found="none",
            example=f"{GROUPS}: {{ {kinds[0]}: {{ max: 8 }} }}",
        )
    elif not any(fits(size, node) for node in offers):
        yield Finding(
            code="pod.too-large",
            at=at,
            wanted=f"a pod that fits a {kind} node; the largest that would: {room_text(max(offers))}",
            found=str(size),
            hint="each node also runs system pods, so less than its nominal size is left",
        )


def _suitable(parsed: ParsedSections, placed: PlacedPod) -> Groups:
    """Return the groups that a pod may use and fits. A pod that is too large has its own finding."""
    groups = parsed.stack.node_groups
    of_kind = {name: group for name, group in _for_any_pod(groups).items() if group.kind in _kinds(placed)}
    usable = {placed.group: groups[placed.group]} if placed.group in groups else of_kind
    return {name: group for name, group in usable.items() if fits(placed.size, node_of(group))}


def _for_any_pod(groups: Groups) -> Groups:
    """Return the groups that pods may use without naming them."""
    return {name: group for name, group in groups.items() if not group.gpus_on_spot}


def _gpus_have_the_memory(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.placed_pods:
        requested = placed.pod.gpu.memory
        suitable = {name: group for name, group in _suitable(parsed, placed).items() if group.has_gpus}
        if not placed.size.gpu or requested is None or not suitable:
            continue
        most = {name: gpu_memory(group) or 0 for name, group in suitable.items()}
        if requested > max(most.values()) > 0:
            offers = ", ".join(f"{name} {memory_text(most[name])} ({_models(suitable[name])})" for name in most)
            yield Finding(
                code="gpu.too-much-memory",
                at=(*placed.at, "gpu", "memory"),
                wanted=f"at most what a GPU of the node groups for it has: {offers}",
                found=memory_text(requested),
                example=memory_text(max(most.values())),
                hint=f"by AWS's figures, which are below the maker's rounded ones{_types_with_memory(requested)}",
            )


def _types_with_memory(memory: int) -> str:
    types = map(instance_type, filter(is_suggested, instance_type_names()))
    families = sorted({fact.family for fact in types if fact.gpu_memory_mib >= memory})
    return f"; types with as much: {', '.join(families)}" if families else ""


def _models(group: NodeGroupSettings) -> str:
    """Return the models with the least memory."""
    return " or ".join(
        dict.fromkeys(kind.gpu_model for kind in group.types if kind.gpu_memory_mib == gpu_memory(group))
    )


def _gpus_are_offered(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.placed_pods:
        if placed.pod.gpu.count and placed.pod.gpu.resource != GPU_RESOURCE:
            yield Finding(
                code="gpu.resource-not-offered",
                at=(*placed.at, "gpu", "resource"),
                wanted=f"{GPU_RESOURCE}, the only GPU resource of a cluster that this stack creates",
                found=placed.pod.gpu.resource,
                example=GPU_RESOURCE,
                hint="other devices and slices need a cluster of kind: existing, whose owner runs their device plugin",
            )


def _disks_hold_the_pods(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.pods:
        rooms = [room_on_disk(group.disk_size) for group in _suitable(parsed, placed).values()]
        requested = placed.pod.ephemeral_storage or 0
        if rooms and requested > 1024 * max(rooms):
            yield Finding(
                code="pod.disk-too-large",
                at=(*placed.at, "ephemeralStorage"),
                wanted=f"at most {max(rooms)}Gi, the part of a node's disk that is left for pods",
                found=memory_text(requested),
                example=f"{max(rooms)}Gi",
                hint="or raise diskSize of its node group: it could start on no node",
            )


def _fixed_pods_fit_together(parsed: ParsedSections) -> Iterator[Finding]:
    """Ignore pods that are too large for any node, which have their own finding."""
    nodes = {
        name: Nodes(each=node_of(group), most=group.max)
        for name, group in parsed.stack.node_groups.items()
        if group.kind is NodeKind.FIXED
    }
    pods = [
        (placed.size, placed.most)
        for placed in parsed.placed_pods
        if placed.category is Category.FIXED and not placed.size.gpu
    ]
    for name, needed in nodes_needed(pods, nodes).items():
        if needed > nodes[name].most:
            yield Finding(
                code="fixed.no-room",
                at=(GROUPS, name, "max"),
                wanted=f"at least {needed}, the nodes that the fixed workloads need in total",
                found=str(nodes[name].most),
                example=str(needed),
                hint="fixed pods never move, so those without room would stay pending",
            )


_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def _nodes_are_offered(parsed: ParsedSections) -> Iterator[Finding]:
    groups, cluster = parsed.stack.node_groups, parsed.stack.cluster
    for placed in parsed.pods:
        named_group = {placed.group: groups[placed.group]} if placed.group in groups else {}
        of_kind = {name: group for name, group in _for_any_pod(groups).items() if group.kind is placed.kind}
        fitting = {
            name: group
            for name, group in (named_group if placed.group else of_kind).items()
            if gpus_suffice(group, placed.pod) and fits(placed.size, node_of(group))
        }
        if not fitting:
            continue
        arch = placed.pod.arch
        suited = {
            name: group for name, group in fitting.items() if arch in (None, Architecture.ANY, architecture(group))
        }
        if not suited:
            yield _no_such_processor(placed, fitting)
            continue
        labels = [_labels(name, group, parsed.stack.region, cluster.zones) for name, group in suited.items()]
        where = unmet(placed.pod.pod, labels)
        if where is not None:
            yield _no_such_labels(placed, where, [*suited], labels)


def _no_such_processor(placed: PlacedPod, groups: Mapping[str, NodeGroupSettings]) -> Finding:
    offers = ", ".join(f"{name} {architecture(group)}" for name, group in groups.items())
    return Finding(
        code="arch.not-offered",
        at=(*placed.at, "arch"),
        wanted=f"a processor of the nodes that it may use: {offers}",
        found=repr(str(placed.pod.arch)),
        example=min(architecture(group) for group in groups.values()),
    )


def _no_such_labels(placed: PlacedPod, where: Location, groups: Sequence[str], labels: Sequence[NodeLabels]) -> Finding:
    names = ", ".join(groups)
    at, value = (*placed.at, "pod", *where), show(value_at(placed.pod.pod, where))
    values = sorted({value for nodes in labels for value in nodes.get(str(where[-1]), ())})
    if values:
        expected = f"a node of {names} with this label; they have {', '.join(values)}"
        return Finding(code="pod.no-such-node", at=at, wanted=expected, found=value, example=values[0])
    return Finding(
        code="pod.no-such-node",
        at=at,
        wanted=f"a requirement that nodes of {names} meet",
        found=value,
        hint="arch, cpu, gpu and nodeGroup choose among node groups, whose nodes have no labels of your own",
    )


def _labels(name: str, group: NodeGroupSettings, region: str, zones: Collection[str]) -> NodeLabels:
    """Return the labels that all nodes of a group in this stack have."""
    by_letter = {} if any(map(is_id, zones)) else {_ZONE: frozenset(f"{region}{zone}" for zone in zones)}
    return {**labels_of_nodes(group), NODE_GROUP: frozenset((name,)), _REGION: frozenset((region,)), **by_letter}


RULES = (
    CheckRule((GROUPS,), _types_have_one_shape),
    CheckRule((GROUPS,), _nodes_have_an_image),
    CheckRule((GROUPS,), _gpus_are_on_gpu_groups),
    CheckRule((GROUPS,), _names_of_parts_are_free),
    CheckRule((GROUPS,), _spot_groups_have_a_choice),
    CheckRule((GROUPS,), _reserved_leaves_capacity),
    CheckRule((GROUPS, CLUSTER), _groups_reach_every_zone),
    CheckRule((GROUPS, CLUSTER), _pods_fit_their_nodes, on=ClusterKind.EKS),
    CheckRule((GROUPS, CLUSTER), _pods_fit_described_nodes, on=ClusterKind.EXISTING),
    CheckRule((GROUPS, CLUSTER), _gpus_have_the_memory, on=ClusterKind.EKS),
    CheckRule((CLUSTER,), _gpus_are_offered, on=ClusterKind.EKS),
    CheckRule((GROUPS, CLUSTER), _disks_hold_the_pods, on=ClusterKind.EKS),
    CheckRule((GROUPS, WORKLOADS, SERVICES, RAY, ADOPTED), _fixed_pods_fit_together),
    CheckRule((GROUPS, REDIS, CLUSTER), _redis_fits, on=ClusterKind.EKS),
    CheckRule((GROUPS, CLUSTER, REGION), _nodes_are_offered, on=ClusterKind.EKS),
)
