"""Checks that take two sections of the stack file. They run on what could be read, beside every other fault.

Each rule is one function from a draft to findings; `RULES` is the whole list. A rule says nothing about an entry that
could not be read: that has a finding already.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import TypeAlias

from ebbtide.prices import instance_type_names
from ebbtide.settings.model import (
    BusinessHoursSettings,
    ClusterSettings,
    CostSettings,
    NodeGroupSettings,
    WorkerSettings,
    WorkloadSettings,
)
from ebbtide.settings.packing import Nodes, nodes_needed
from ebbtide.settings.placement import PodSize, fits, kinds_for, known_types, room_text, smallest_node
from ebbtide.settings.problems import Finding, Location, did_you_mean
from ebbtide.vocabulary.labels import Category, NodeKind

LONGEST_SPOT_JOB = timedelta(hours=1)
"""Spot nodes are taken back with two minutes' notice, so a job there is lost now and then: an hour of work at most."""

GROUPS = "ebbtide:nodeGroups"
WORKERS = "ebbtide:workers"
WORKLOADS = "ebbtide:workloads"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The readable part of a stack. `named_*` are all names in the file, those of unreadable entries included."""

    hours: BusinessHoursSettings | None = None
    cluster: ClusterSettings | None = None
    costs: CostSettings | None = None
    groups: Mapping[str, NodeGroupSettings] = field(default_factory=dict[str, NodeGroupSettings])
    workloads: Mapping[str, WorkloadSettings] = field(default_factory=dict[str, WorkloadSettings])
    workers: Mapping[str, WorkerSettings] = field(default_factory=dict[str, WorkerSettings])
    named_groups: tuple[str, ...] = ()
    named_workers: tuple[str, ...] = ()


Rule: TypeAlias = Callable[[Draft], Iterator[Finding]]


def cross_findings(draft: Draft) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(draft)]


def _instance_types_are_known(draft: Draft) -> Iterator[Finding]:
    names = instance_type_names()
    for name, group in draft.groups.items():
        for index, kind in enumerate(group.instance_types):
            if kind not in names:
                near = get_close_matches(kind, names, n=1)
                yield Finding(
                    at=(GROUPS, name, "instanceTypes", index),
                    wanted="an instance type that the price tables know",
                    found=repr(kind),
                    example="m7i.4xlarge",
                    hint=f"did you mean {near[0]}?" if near else "",
                )


def _one_shape_per_group(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        facts = known_types(group)
        if len({fact.shape for fact in facts}) > 1:
            shapes = "; ".join(f"{f.name} {f.vcpu} vCPU {f.memory_mib // 1024} GiB {f.gpu} GPU {f.arch}" for f in facts)
            yield Finding(
                at=(GROUPS, name, "instanceTypes"),
                wanted="instance types of one shape",
                found=shapes,
                hint="the autoscaler takes one node as the pattern for all: make a group for each shape",
            )


def _gpus_are_on_gpu_groups(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        for fact in known_types(group):
            if (fact.gpu > 0) is not (group.kind is NodeKind.GPU):
                wanted = "types with GPUs" if group.kind is NodeKind.GPU else "types without GPUs, or kind: gpu"
                found = f"{fact.name} with {fact.gpu} GPU in a {group.kind} group"
                yield Finding(at=(GROUPS, name, "instanceTypes"), wanted=wanted, found=found, example="g5.2xlarge")
                break


def _groups_reach_every_zone(draft: Draft) -> Iterator[Finding]:
    zones = len(draft.cluster.zones) if draft.cluster else 0
    for name, group in draft.groups.items():
        if group.max < zones:
            yield Finding(
                at=(GROUPS, name, "max"),
                wanted=f"at least {zones}, one node for each zone",
                found=str(group.max),
                example=str(zones),
                hint="max is the total of all zones",
            )


def _workloads_fit(draft: Draft) -> Iterator[Finding]:
    for name, workload in draft.workloads.items():
        size = PodSize(cpu=workload.cpu, memory=workload.memory, gpu=workload.gpu)
        yield from _must_fit(draft, (WORKLOADS, name), size, kinds_for(workload.category, size))


def _workers_fit(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        size = PodSize(cpu=pool.cpu, memory=pool.memory, gpu=pool.gpu)
        at: Location = (WORKERS, name)
        if not pool.node_group:
            yield from _must_fit(draft, at, size, kinds_for(Category.WORKER, size))
        elif pool.node_group not in draft.named_groups:
            yield Finding(
                at=(*at, "nodeGroup"),
                wanted="one of the node groups",
                found=repr(pool.node_group),
                hint=did_you_mean(pool.node_group, draft.named_groups),
            )
        elif (group := draft.groups.get(pool.node_group)) is not None:
            yield from _named_group_suits(at, size, pool.node_group, group)


def _named_group_suits(at: Location, size: PodSize, name: str, group: NodeGroupSettings) -> Iterator[Finding]:
    kinds = (NodeKind.GPU,) if size.gpu else (NodeKind.FLEXIBLE, NodeKind.SPOT)
    node = smallest_node(group)
    if group.kind not in kinds:
        yield Finding(
            at=(*at, "nodeGroup"),
            wanted=f"a group of kind {' or '.join(kinds)}",
            found=f"{name!r} of kind {group.kind}",
            hint="workers scale to zero; on fixed nodes nothing would be saved" if not size.gpu else "",
        )
    elif node is not None and not fits(size, node):
        yield Finding(at=at, wanted=f"a pod that fits a node of group {name}: {room_text(node)}", found=str(size))


def _must_fit(draft: Draft, at: Location, size: PodSize, kinds: tuple[NodeKind, ...]) -> Iterator[Finding]:
    """Silent while a group of these kinds could not be read: it might have been the one."""
    if set(draft.named_groups) - set(draft.groups):
        return
    nodes = [smallest_node(group) for group in draft.groups.values() if group.kind in kinds]
    offers = [node for node in nodes if node is not None]
    if len(offers) < len(nodes) or any(fits(size, node) for node in offers):
        return
    kind = " or ".join(kinds)
    if not offers:
        yield Finding(
            at=at,
            wanted=f"a node group of kind {kind} for it",
            found="none",
            example=f"{GROUPS}: {{ {kind}: {{ max: 8 }} }}",
        )
        return
    largest = max(offers)
    yield Finding(
        at=at,
        wanted=f"a pod that fits a {kind} node; the largest that would: {room_text(largest)}",
        found=str(size),
        hint="each node also runs system pods, so less than its nominal size is left",
    )


def _fixed_workloads_fit_together(draft: Draft) -> Iterator[Finding]:
    """Silent while a group could not be read, and about a pod too large for any node, which has a finding already."""
    fixed = {name: group for name, group in draft.groups.items() if group.kind is NodeKind.FIXED}
    offers = {name: node for name, group in fixed.items() if (node := smallest_node(group)) is not None}
    if set(draft.named_groups) - set(draft.groups) or len(offers) < len(fixed):
        return
    sizes = (
        (PodSize(cpu=workload.cpu, memory=workload.memory, gpu=workload.gpu), workload)
        for workload in draft.workloads.values()
    )
    pods = [
        (size, workload.replicas) for size, workload in sizes if NodeKind.FIXED in kinds_for(workload.category, size)
    ]
    nodes = {name: Nodes(each=offers[name], most=group.max) for name, group in fixed.items()}
    for name, needed in nodes_needed(pods, nodes).items():
        if needed > fixed[name].max:
            yield Finding(
                at=(GROUPS, name, "max"),
                wanted=f"at least {needed}, the nodes that the fixed workloads need together",
                found=str(fixed[name].max),
                example=str(needed),
                hint="fixed pods never move, so the ones without room would wait for ever",
            )


def _one_pool_per_queue(draft: Draft) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, pool in draft.workers.items():
        for index, queue in enumerate(pool.source.queues):
            owner = first.setdefault(queue, name)
            if owner != name:
                yield Finding(
                    at=(WORKERS, name, "source", "queues", index),
                    wanted="a queue of one pool alone",
                    found=f"{queue!r}, which pool {owner!r} serves",
                    hint="two pools would both grow for the same jobs",
                )


def _no_long_jobs_on_spot(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        group = draft.groups.get(pool.node_group)
        if group is not None and group.kind is NodeKind.SPOT and pool.longest_job > LONGEST_SPOT_JOB:
            yield Finding(
                at=(WORKERS, name, "longestJob"),
                wanted="at most 1h on spot nodes, which are taken back with two minutes' notice",
                found=f"{pool.longest_job.total_seconds() / 3600:g}h",
                example="30m",
                hint="put long jobs on a flexible group",
            )


def _overnight_work_is_possible(draft: Draft) -> Iterator[Finding]:
    for index, plan in enumerate(draft.hours.overnight if draft.hours else ()):
        at: Location = ("ebbtide:businessHours", "overnight", index)
        pool = draft.workers.get(plan.pool)
        if plan.pool not in draft.named_workers:
            yield Finding(
                at=(*at, "pool"),
                wanted="one of the worker pools",
                found=repr(plan.pool),
                hint=did_you_mean(plan.pool, draft.named_workers),
            )
        elif pool is not None and plan.workers > pool.max:
            yield Finding(
                at=(*at, "workers"),
                wanted=f"at most the max of pool {plan.pool}, which is {pool.max}",
                found=str(plan.workers),
                example=str(pool.max),
            )


def _expected_hours_name_groups(draft: Draft) -> Iterator[Finding]:
    for name in draft.costs.expected_node_hours if draft.costs else ():
        if name not in draft.named_groups:
            yield Finding(
                at=("ebbtide:costs", "expectedNodeHours", name),
                wanted="one of the node groups",
                found=repr(name),
                hint=did_you_mean(name, draft.named_groups),
            )


RULES: tuple[Rule, ...] = (
    _instance_types_are_known,
    _one_shape_per_group,
    _gpus_are_on_gpu_groups,
    _groups_reach_every_zone,
    _workloads_fit,
    _workers_fit,
    _fixed_workloads_fit_together,
    _one_pool_per_queue,
    _no_long_jobs_on_spot,
    _overnight_work_is_possible,
    _expected_hours_name_groups,
)
