"""Checks that take two sections of the stack file. They run on what could be read, beside every other fault.

Each rule is one function from a draft to findings; `RULES` is the whole list. A rule says only what holds however the
fields that could not be read are put right: those have findings already, and no fault is told twice.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias

from ebbtide.prices import instance_type, instance_type_names
from ebbtide.settings.defaults import SPOT_TYPES
from ebbtide.settings.draft import (
    COSTS,
    GROUPS,
    HOURS,
    NETWORK,
    REDIS,
    REDIS_PASSWORD,
    WORKERS,
    WORKLOADS,
    Draft,
    GroupDraft,
    PodDraft,
    PoolDraft,
)
from ebbtide.settings.existing import unknown_nodes
from ebbtide.settings.image_names import IMAGES
from ebbtide.settings.packing import Nodes, nodes_needed
from ebbtide.settings.placement import fits, home_kind, room_text
from ebbtide.settings.problems import Finding, Location, did_you_mean
from ebbtide.settings.redis import RedisKind
from ebbtide.settings.redis_token import SET_TOKEN, TOKEN_WANTED
from ebbtide.settings.types import ZONE_LETTERS
from ebbtide.vocabulary.labels import Category, NodeKind

LONGEST_SPOT_JOB = timedelta(hours=1)
"""Spot nodes are taken back with two minutes' notice, so a job there is lost now and then: an hour of work at most."""

FEWEST_SPOT_TYPES = 4
"""AWS takes spot nodes back type by type; how many types are enough nobody says, and four is what we ask for."""

Kinds: TypeAlias = tuple[NodeKind, ...]
Rule: TypeAlias = Callable[[Draft], Iterator[Finding]]


def cross_findings(draft: Draft) -> list[Finding]:
    rules = [rule for rule in RULES if not (draft.existing and rule in _OF_NODE_GROUPS)]
    return [finding for rule in rules for finding in rule(draft)]


def _one_shape_per_group(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        facts = [instance_type(kind) for kind in group.types]
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
        for fact in map(instance_type, group.types if group.kind else ()):
            if (fact.gpu > 0) is not (group.kind is NodeKind.GPU):
                wanted = "types with GPUs" if group.kind is NodeKind.GPU else "types without GPUs, or kind: gpu"
                found = f"{fact.name} with {fact.gpu} GPU in a {group.kind} group"
                yield Finding(at=(GROUPS, name, "instanceTypes"), wanted=wanted, found=found, example="g5.2xlarge")
                break


def _spot_groups_have_a_choice(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        if group.kind is NodeKind.SPOT and 0 < group.choice < FEWEST_SPOT_TYPES:
            yield Finding(
                at=(GROUPS, name, "instanceTypes"),
                wanted=f"at least {FEWEST_SPOT_TYPES} types of one shape for spot nodes",
                found=f"{group.choice}: {', '.join(group.types)}" if group.types else str(group.choice),
                example=f"[{', '.join(_spot_example(group.types))}]",
                hint=_spot_hint(group.types),
            )


def _spot_example(types: Sequence[str]) -> Sequence[str]:
    """Types of the group's own shape, where there are enough."""
    known = _of_same_shape(types)
    return known[:FEWEST_SPOT_TYPES] if len(known) >= FEWEST_SPOT_TYPES else SPOT_TYPES


def _spot_hint(types: Sequence[str]) -> str:
    known = _of_same_shape(types)
    if 0 < len(known) < FEWEST_SPOT_TYPES:
        return f"of this shape only {', '.join(known)} are known: take another one"
    return "AWS gives nodes of the type that it will take back least soon: the fewer types, the sooner"


def _of_same_shape(types: Sequence[str]) -> Sequence[str]:
    """The types themselves, and all others of their shape; nothing where they have several."""
    shapes = {instance_type(name).shape for name in types}
    if len(shapes) != 1:
        return ()
    twins = [name for name in instance_type_names() if instance_type(name).shape in shapes]
    return [*types, *(name for name in twins if name not in types)]


def _groups_reach_every_zone(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        if group.max is not None and group.max < draft.zones:
            yield Finding(
                at=(GROUPS, name, "max"),
                wanted=f"at least {draft.zones}, one node for each zone",
                found=str(group.max),
                example=str(draft.zones),
                hint="max is the total of all zones",
            )


def _workloads_fit(draft: Draft) -> Iterator[Finding]:
    for name, workload in draft.workloads.items():
        categories = (workload.category,) if workload.category else (Category.FIXED, Category.FLEXIBLE)
        yield from _must_fit(draft, (WORKLOADS, name), workload.pod, _possible_kinds(workload.pod, *categories))


def _workers_fit(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        at: Location = (WORKERS, name)
        if not pool.node_group:
            yield from _must_fit(draft, at, pool.pod, _pool_kinds(pool))
            continue
        group = draft.groups.get(pool.node_group)
        wrong = list(_unsuitable(draft, (*at, "nodeGroup"), pool, group))
        yield from wrong
        if group is None or wrong:
            yield from _must_fit(draft, at, pool.pod, _pool_kinds(pool))
        elif (node := group.node) is not None and not fits(pool.pod.least, node):
            wanted = f"a pod that fits a node of group {pool.node_group}: {room_text(node)}"
            yield Finding(at=at, wanted=wanted, found=str(pool.pod.least))


def _unsuitable(draft: Draft, at: Location, pool: PoolDraft, group: GroupDraft | None) -> Iterator[Finding]:
    """What is wrong with the group that a pool names, its size aside."""
    name, kinds = str(pool.node_group), _pool_kinds(pool)
    if group is None:
        yield from _unknown_name(draft, GROUPS, at, name)
    elif group.kind is not None and group.kind not in kinds:
        yield Finding(
            at=at,
            wanted=f"a group of kind {' or '.join(kinds)}",
            found=f"{name!r} of kind {group.kind}",
            hint="" if pool.pod.gpu else "workers scale to zero; on fixed nodes nothing would be saved",
        )


def _pool_kinds(pool: PoolDraft) -> Kinds:
    """The kinds of group that a pool may run on. Spot is only ever named."""
    kinds = _possible_kinds(pool.pod, Category.WORKER)
    return (*kinds, NodeKind.SPOT) if pool.node_group != "" and NodeKind.FLEXIBLE in kinds else kinds


def _possible_kinds(pod: PodDraft, *categories: Category) -> Kinds:
    sure = dict.fromkeys(home_kind(category, pod.least.gpu) for category in categories)
    return (*sure, NodeKind.GPU) if pod.gpu is None else tuple(sure)


def _must_fit(draft: Draft, at: Location, pod: PodDraft, kinds: Kinds) -> Iterator[Finding]:
    """Silent while a group might be the one: its kind or all of its types could not be read."""
    candidates = [group for group in draft.groups.values() if group.kind is None or group.kind in kinds]
    offers = [node for group in candidates if (node := group.node) is not None]
    unsure = len(offers) < len(candidates) or GROUPS in draft.nameless
    if unsure or any(fits(pod.least, node) for node in offers):
        return
    kind = " or ".join(kinds)
    if not offers:
        example = f"{GROUPS}: {{ {kinds[0]}: {{ max: 8 }} }}"
        yield Finding(at=at, wanted=f"a node group of kind {kind} for it", found="none", example=example)
        return
    yield Finding(
        at=at,
        wanted=f"a pod that fits a {kind} node; the largest that would: {room_text(max(offers))}",
        found=str(pod.least),
        hint="each node also runs system pods, so less than its nominal size is left",
    )


def _fixed_workloads_fit_together(draft: Draft) -> Iterator[Finding]:
    """Silent while a group might be fixed or larger, and about a pod too large for any node, which has a finding."""
    nodes: dict[str, Nodes] = {}
    for name, group in draft.groups.items():
        if group.kind not in (None, NodeKind.FIXED):
            continue
        if group.kind is None or group.node is None or group.max is None:
            return
        nodes[name] = Nodes(each=group.node, most=group.max)
    pods = [
        (workload.pod.least, workload.replicas)
        for workload in draft.workloads.values()
        if workload.pod.whole and workload.replicas and workload.category is Category.FIXED and not workload.pod.gpu
    ]
    for name, needed in nodes_needed(pods, nodes).items():
        if needed > nodes[name].most:
            yield Finding(
                at=(GROUPS, name, "max"),
                wanted=f"at least {needed}, the nodes that the fixed workloads need together",
                found=str(nodes[name].most),
                example=str(needed),
                hint="fixed pods never move, so the ones without room would wait for ever",
            )


def _one_pool_per_queue(draft: Draft) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, pool in draft.workers.items():
        for index, queue in pool.queues.items():
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
        group = draft.groups.get(pool.node_group or "")
        on_spot = group is not None and group.kind is NodeKind.SPOT
        if on_spot and pool.longest_job is not None and pool.longest_job > LONGEST_SPOT_JOB:
            yield Finding(
                at=(WORKERS, name, "longestJob"),
                wanted="at most 1h on spot nodes, which are taken back with two minutes' notice",
                found=f"{pool.longest_job.total_seconds() / 3600:g}h",
                example="30m",
                hint="put long jobs on a flexible group",
            )


def _overnight_work_is_possible(draft: Draft) -> Iterator[Finding]:
    for index, plan in enumerate(draft.plans):
        at: Location = (HOURS, "overnight", index)
        if plan.pool is None:
            continue
        pool = draft.workers.get(plan.pool)
        if pool is None:
            yield from _unknown_name(draft, WORKERS, (*at, "pool"), plan.pool)
        elif pool.max is not None and plan.workers is not None and plan.workers > pool.max:
            yield Finding(
                at=(*at, "workers"),
                wanted=f"at most the max of pool {plan.pool}, which is {pool.max}",
                found=str(plan.workers),
                example=str(pool.max),
            )


def _expected_hours_name_groups(draft: Draft) -> Iterator[Finding]:
    for name in draft.expected_hours:
        if name not in draft.groups:
            yield from _unknown_name(draft, GROUPS, (COSTS, "expectedNodeHours", name), name)


def _given_subnets_cover_the_zones(draft: Draft) -> Iterator[Finding]:
    """A key that is no zone's letter may be meant for one that is missing."""
    if draft.given_subnets is None:
        return
    missing = [zone for zone in draft.zone_letters if zone not in draft.given_subnets]
    slips = [key for key in draft.given_subnets if key not in ZONE_LETTERS]
    if len(missing) > len(slips):
        yield Finding(
            at=(NETWORK, "vpc", "privateSubnets"),
            wanted=f"a subnet for each zone of the cluster: {', '.join(draft.zone_letters)}",
            found=f"none for {' and '.join(missing)}",
            example="{ a: subnet-0a1b2c3d, b: subnet-4e5f6071 }",
            hint="or leave the zone out of ebbtide:cluster.zones, which is [a, b] unless given",
        )


def _pools_name_nodes_of_an_existing_cluster(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items() if draft.existing else ():
        yield from unknown_nodes(name, pool.node_group, draft.node_sets)


def _redis_fits(draft: Draft) -> Iterator[Finding]:
    if draft.redis.kind is RedisKind.IN_CLUSTER:
        yield from _must_fit(draft, (REDIS, "memory"), draft.redis.pod, (NodeKind.FIXED,))


def _elasticache_is_possible(draft: Draft) -> Iterator[Finding]:
    if draft.redis.kind is not RedisKind.ELASTICACHE:
        return
    if draft.existing:
        yield Finding(
            at=(REDIS, "kind"),
            wanted="in-cluster or url: the network of an existing cluster is not ours to put a cache into",
            found="'elasticache'",
            example="url",
        )
        return
    fault = draft.redis.token_fault if draft.redis.has_password else "nothing"
    if fault:
        yield Finding(at=(REDIS_PASSWORD,), wanted=TOKEN_WANTED, found=fault, hint=SET_TOKEN)


def _images_are_named_by_digest(draft: Draft) -> Iterator[Finding]:
    if draft.images.require_digests:
        yield from draft.images.without_digest(frozenset(_brought(draft)))


def _images_are_used(draft: Draft) -> Iterator[Finding]:
    """A key that would do nothing is refused."""
    used = frozenset(_brought(draft))
    for key, own in draft.images.brought.items():
        if own is not None and key not in used:
            hint = "this stack runs none of its own"
            yield Finding(at=(IMAGES, key), wanted="this key left out", found=repr(own), hint=hint)


def _brought(draft: Draft) -> Iterator[str]:
    """The keys of the images that Ebbtide brings to this stack, or may: what could not be read is given the doubt."""
    if draft.redis.kind in (None, RedisKind.IN_CLUSTER):
        yield "redis"
    if not draft.existing:
        yield "autoscaler"
        if any(group.kind in (None, NodeKind.GPU) for group in draft.groups.values()):
            yield "devicePlugin"


def _unknown_name(draft: Draft, section: str, at: Location, name: str) -> Iterator[Finding]:
    """Silent while the section that should hold the name could not be read at all."""
    if section not in draft.nameless:
        known = tuple(draft.groups if section == GROUPS else draft.workers)
        what = "one of the node groups" if section == GROUPS else "one of the worker pools"
        yield Finding(at=at, wanted=what, found=repr(name), hint=did_you_mean(name, known))


RULES: tuple[Rule, ...] = (
    _one_shape_per_group,
    _gpus_are_on_gpu_groups,
    _spot_groups_have_a_choice,
    _groups_reach_every_zone,
    _workloads_fit,
    _workers_fit,
    _fixed_workloads_fit_together,
    _one_pool_per_queue,
    _no_long_jobs_on_spot,
    _overnight_work_is_possible,
    _expected_hours_name_groups,
    _given_subnets_cover_the_zones,
    _redis_fits,
    _elasticache_is_possible,
    _pools_name_nodes_of_an_existing_cluster,
    _images_are_named_by_digest,
    _images_are_used,
)

_OF_NODE_GROUPS: frozenset[Rule] = frozenset(
    {_workloads_fit, _workers_fit, _redis_fits, _expected_hours_name_groups, _given_subnets_cover_the_zones}
)
"""Rules about what EKS is told to make: of an existing cluster there are neither shapes nor subnets to check."""
