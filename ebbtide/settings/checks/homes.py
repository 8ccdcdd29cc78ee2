"""Pods whose file asks for nodes that no node group has: they would stay pending, and the autoscaler bring none.

Takes settings that were read, whatever else of the file was not. Silent about a pod whose groups could not be read, and
about one that no group of its kind has room for, which has a finding of its own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ebbtide.labels import NODE_GROUP, Architecture, NodeKind
from ebbtide.settings.checks.draft import WORKLOADS
from ebbtide.settings.file.pod_entries import RAY
from ebbtide.settings.file.problems import Finding, Location, show, value_at
from ebbtide.settings.file.service_entries import SERVICES, VARIANTS
from ebbtide.settings.fragment.nodes import NodeLabels, unmet
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.placement import (
    architecture,
    fits,
    gpus_suffice,
    head_size,
    home_kind,
    home_of,
    labels_of_nodes,
    node_of,
    pod_size,
)
from ebbtide.settings.sections.jobs import JobSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import RayGroup, RaySettings
from ebbtide.settings.sections.serving.services import ServiceSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.settings.sections.zones import is_id
from ebbtide.vocabulary.labels import Category

_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


class Placed(NamedTuple):
    """A pod, where it stands, and which nodes it may use besides what it says of them itself."""

    at: Location
    pod: PodSettings
    size: PodSize
    kind: NodeKind
    group: str = ""  # that it names


def to_place(
    workloads: Mapping[str, WorkloadSettings],
    pools: Mapping[str, Mapping[str, WorkerSettings | JobSettings]],
    ray: Mapping[str, RaySettings],
    services: Mapping[str, ServiceSettings],
) -> Iterator[Placed]:
    """`pools`: by section."""
    for name, workload in workloads.items():
        yield Placed((WORKLOADS, name), workload, pod_size(workload), home_of(workload))
    for name, service in services.items():
        for variant, it in service.variants.items():
            workload = it.workload(name, service)
            yield Placed((SERVICES, name, VARIANTS, variant), workload, pod_size(workload), home_of(workload))
    for section, named in pools.items():
        for name, pool in named.items():
            yield _of_worker((section, name), pool)
    for name, cluster in ray.items():
        yield Placed((RAY, name, "head"), cluster.head, head_size(cluster.head), NodeKind.FIXED)
        for key, group in cluster.groups.items():
            yield _of_worker((RAY, name, "groups", key), group)


def _of_worker(at: Location, pod: WorkerSettings | JobSettings | RayGroup) -> Placed:
    size = pod_size(pod)
    return Placed(at, pod, size, home_kind(Category.WORKER, size.gpu), pod.node_group)


def home_findings(
    pods: Iterable[Placed], groups: Mapping[str, NodeGroupSettings], region: str, zones: Collection[str]
) -> Iterator[Finding]:
    """`groups` are all that there are."""
    for each in pods:
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
        labels = [_labels(name, group, region, zones) for name, group in suited.items()]
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
