"""Pods whose file asks for nodes that no node group has: they would stay pending, and the autoscaler bring none.

Silent about a pod that no group of its kind has room for, which has a finding of its own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.checks.read import Placed, Read, Rule
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.keys import CLUSTER, GROUPS
from ebbtide.settings.file.problems import Finding, Location, show, value_at
from ebbtide.settings.fragment.nodes import NodeLabels, unmet
from ebbtide.settings.placement import architecture, fits, gpus_suffice, labels_of_nodes, node_of
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.zones import is_id
from ebbtide.vocabulary.labels import NODE_GROUP

_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def _nodes_are_offered(read: Read) -> Iterator[Finding]:
    groups = read.stack.node_groups
    for each in read.pods:
        named = {each.group: groups[each.group]} if each.group in groups else {}
        of_kind = {name: group for name, group in groups.items() if group.kind is each.kind}
        found = {
            name: group
            for name, group in (named if each.group else of_kind).items()
            if gpus_suffice(group, each.pod) and fits(each.size, node_of(group))
        }
        if not found:
            continue
        arch = each.pod.arch
        suited = {name: it for name, it in found.items() if arch in (None, Architecture.ANY, architecture(it))}
        if not suited:
            yield _no_such_processor(each, found)
            continue
        labels = [_labels(name, group, read.stack.region, read.stack.cluster.zones) for name, group in suited.items()]
        where = unmet(each.pod.pod, labels)
        if where is not None:
            yield _no_such_labels(each, where, [*suited], labels)


def _no_such_processor(each: Placed, groups: Mapping[str, NodeGroupSettings]) -> Finding:
    offers = ", ".join(f"{name} {architecture(group)}" for name, group in groups.items())
    return Finding(
        code="arch.not-offered",
        at=(*each.at, "arch"),
        wanted=f"a processor that nodes which it may use have: {offers}",
        found=repr(str(each.pod.arch)),
        example=min(architecture(group) for group in groups.values()),
    )


def _no_such_labels(each: Placed, where: Location, groups: Sequence[str], labels: Sequence[NodeLabels]) -> Finding:
    names = ", ".join(groups)
    at, found = (*each.at, "pod", *where), show(value_at(each.pod.pod, where))
    values = sorted({value for nodes in labels for value in nodes.get(str(where[-1]), ())})
    if values:
        wanted = f"a node of {names} with this label; they have {', '.join(values)}"
        return Finding(code="pod.no-such-node", at=at, wanted=wanted, found=found, example=values[0])
    return Finding(
        code="pod.no-such-node",
        at=at,
        wanted=f"what nodes that it may use have: those of {names}",
        found=found,
        hint="arch, cpu, gpu and nodeGroup choose among node groups, whose nodes have no labels of your own",
    )


def _labels(name: str, group: NodeGroupSettings, region: str, zones: Collection[str]) -> NodeLabels:
    """With what one stack knows of all its nodes."""
    by_letter = {} if any(map(is_id, zones)) else {_ZONE: frozenset(f"{region}{zone}" for zone in zones)}
    return {**labels_of_nodes(group), NODE_GROUP: frozenset((name,)), _REGION: frozenset((region,)), **by_letter}


RULES = (Rule((GROUPS, CLUSTER, REGION), _nodes_are_offered, on=ClusterKind.EKS),)
