"""Checks that take two sections of the stack file. They run on what could be read, beside every other fault.

Each rule is one function from a draft to findings; `RULES` is the whole list. A rule says only what holds however the
fields that could not be read are put right: those have findings already, and no fault is told twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from ebbtide.labels import GPU_RESOURCE, NodeKind
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.settings.checks.accounts import account_findings
from ebbtide.settings.checks.checkpoints import claim_of_one_pod, save_too_long_for_spot
from ebbtide.settings.checks.draft import (
    CLUSTER,
    COSTS,
    CRON_JOBS,
    GROUPS,
    HOURS,
    NETWORK,
    REDIS,
    REDIS_PASSWORD,
    WORKERS,
    WORKLOADS,
    Draft,
    GroupDraft,
    JobDraft,
    PodDraft,
    PoolDraft,
    WorkloadDraft,
)
from ebbtide.settings.checks.image_names import IMAGES
from ebbtide.settings.checks.secrets import wrong_keys_of_redis, wrong_references
from ebbtide.settings.checks.snapshots import snapshot_findings
from ebbtide.settings.defaults import SPOT_TYPES
from ebbtide.settings.file.pod_entries import RAY
from ebbtide.settings.file.problems import Finding, Location, did_you_mean
from ebbtide.settings.fragment.findings import fragment_findings
from ebbtide.settings.fragment.promises import PodFacts
from ebbtide.settings.fragment.values import is_mapping
from ebbtide.settings.packing import Nodes, nodes_needed
from ebbtide.settings.placement import fits, gpu_memory, home_kind, room_on_disk, room_text, smallest_node
from ebbtide.settings.sections.cluster import ClusterKind, ClusterSettings, RayOperatorSource
from ebbtide.settings.sections.eks_versions import (
    KNOWN_VERSION,
    UNKNOWN_VERSION,
    VERSION_EXAMPLE,
    is_newer,
    to_use_a_newer,
)
from ebbtide.settings.sections.existing import unknown_nodes
from ebbtide.settings.sections.images import ImageSettings
from ebbtide.settings.sections.ray import RAY_CONTAINER
from ebbtide.settings.sections.redis import SET_TOKEN, TOKEN_WANTED, RedisKind
from ebbtide.settings.sections.types import ZONE_LETTERS
from ebbtide.settings.sections.workers import WORKER_CONTAINER
from ebbtide.settings.sections.zones import is_id
from ebbtide.units.quantities import memory_text
from ebbtide.vocabulary.labels import Category

LONGEST_SPOT_JOB = timedelta(hours=1)
"""Spot nodes are taken back with two minutes' notice, so a job there is lost now and then: an hour of work at most."""

FEWEST_SPOT_TYPES = 4
"""AWS takes spot nodes back type by type; how many types are enough nobody says, and four is what we ask for."""

Kinds: TypeAlias = tuple[NodeKind, ...]
Rule: TypeAlias = Callable[[Draft], Iterator[Finding]]


def cross_findings(draft: Draft) -> list[Finding]:
    rules = [rule for rule in RULES if not (draft.existing and rule in _OF_NODE_GROUPS)]
    return [finding for rule in rules for finding in rule(draft)]


def autoscaler_of_a_newer_version(cluster: ClusterSettings, images: ImageSettings) -> Iterator[Finding]:
    """No table names it, so the file does."""
    if cluster.kind is ClusterKind.EKS and is_newer(cluster.version) and images.autoscaler is None:
        yield Finding(
            code=UNKNOWN_VERSION,
            at=(CLUSTER, "version"),
            wanted=KNOWN_VERSION,
            found=repr(cluster.version),
            example=VERSION_EXAMPLE,
            hint=to_use_a_newer(cluster.version),
        )


def _one_shape_per_group(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        facts = [instance_type(kind) for kind in group.types]
        if len({fact.shape for fact in facts}) > 1:
            shapes = "; ".join(f"{f.name} {f.vcpu} vCPU {f.memory_mib // 1024} GiB {f.gpu} GPU {f.arch}" for f in facts)
            yield Finding(
                code="node-group.shapes",
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
                yield Finding(
                    code="node-group.gpus",
                    at=(GROUPS, name, "instanceTypes"),
                    wanted=wanted,
                    found=found,
                    example="g5.2xlarge",
                )
                break


def _spot_groups_have_a_choice(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        if group.kind is NodeKind.SPOT and 0 < group.choice < FEWEST_SPOT_TYPES:
            yield Finding(
                code="spot.few-types",
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


def _something_is_left_of_a_node(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        node = group.node
        if node is not None and not (node.cpu and node.memory):
            yield Finding(
                code="node-group.all-reserved",
                at=(GROUPS, name, "reserved"),
                wanted=f"less than a node offers: {room_text(replace(smallest_node(group.types), gpu=0))}",
                found="all of it",
                example="{ cpu: 500m, memory: 1Gi }",
            )


def _groups_reach_every_zone(draft: Draft) -> Iterator[Finding]:
    for name, group in draft.groups.items():
        if group.max is not None and group.max < draft.zones:
            yield Finding(
                code="node-group.max-below-zones",
                at=(GROUPS, name, "max"),
                wanted=f"at least {draft.zones}, one node for each zone",
                found=str(group.max),
                example=str(draft.zones),
                hint="max is the total of all zones",
            )


def _workloads_fit(draft: Draft) -> Iterator[Finding]:
    for workload in draft.workloads.values():
        yield from _must_fit(draft, workload.at, workload.pod, _kinds_of(workload))


def _workers_fit(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        yield from _fits_its_group(draft, (WORKERS, name), pool)


def _jobs_fit(draft: Draft) -> Iterator[Finding]:
    for job in (*draft.jobs, *draft.ray_groups):
        yield from _fits_its_group(draft, job.at, job)


def _ray_heads_fit(draft: Draft) -> Iterator[Finding]:
    for name, head in draft.ray_heads.items():
        yield from _must_fit(draft, (RAY, name, "head"), head, (NodeKind.FIXED,))


def _drivers_have_a_cluster(draft: Draft) -> Iterator[Finding]:
    for pool, cluster in draft.drivers.items():
        if cluster not in draft.ray_heads:
            known = tuple(draft.ray_heads)
            yield Finding(
                code="ray.unknown-cluster",
                at=(WORKERS, pool, "ray"),
                wanted="the name of a Ray cluster of this file",
                found=repr(cluster),
                example=known[0] if known else f"{RAY}: {{ {cluster}: {{ … }} }}",
                hint=did_you_mean(cluster, known),
            )


def _fits_its_group(draft: Draft, at: Location, pool: PoolDraft | JobDraft) -> Iterator[Finding]:
    if not pool.node_group:
        yield from _must_fit(draft, at, pool.pod, _pool_kinds(pool))
        return
    group = draft.groups.get(pool.node_group)
    wrong = list(_unsuitable(draft, (*at, "nodeGroup"), pool, group))
    yield from wrong
    if group is None or wrong:
        yield from _must_fit(draft, at, pool.pod, _pool_kinds(pool))
    elif (node := group.node) is not None and not fits(pool.pod.least, node):
        wanted = f"a pod that fits a node of group {pool.node_group}: {room_text(node)}"
        yield Finding(code="pod.too-large", at=at, wanted=wanted, found=str(pool.pod.least))


def _unsuitable(draft: Draft, at: Location, pool: PoolDraft | JobDraft, group: GroupDraft | None) -> Iterator[Finding]:
    """What is wrong with the group that a pool or a job names, its size aside."""
    name, kinds = str(pool.node_group), _pool_kinds(pool)
    if group is None:
        yield from _unknown_name(draft, GROUPS, at, name)
    elif group.kind is not None and group.kind not in kinds:
        yield Finding(
            code="node-group.kind",
            at=at,
            wanted=f"a group of kind {' or '.join(kinds)}",
            found=f"{name!r} of kind {group.kind}",
            hint="" if pool.pod.gpu else f"{_why_not_fixed(pool)}; on fixed nodes nothing would be saved",
        )


def _why_not_fixed(pool: PoolDraft | JobDraft) -> str:
    if isinstance(pool, JobDraft):
        return "a job ends" if pool.group is None else "Ray's workers come and go"
    return "workers scale to zero"


def _pool_kinds(pool: PoolDraft | JobDraft) -> Kinds:
    """The kinds of group that a pool or a job may run on. Spot is only ever named."""
    kinds = _possible_kinds(pool.pod, Category.WORKER)
    return (*kinds, NodeKind.SPOT) if pool.node_group != "" and NodeKind.FLEXIBLE in kinds else kinds


def _kinds_of(workload: WorkloadDraft) -> Kinds:
    if workload.spot and not workload.pod.least.gpu:
        return (NodeKind.SPOT,)
    categories = (workload.category,) if workload.category else (Category.FIXED, Category.FLEXIBLE)
    return _possible_kinds(workload.pod, *categories)


def _possible_kinds(pod: PodDraft, *categories: Category) -> Kinds:
    sure = dict.fromkeys(home_kind(category, pod.least.gpu) for category in categories)
    return (*sure, NodeKind.GPU) if pod.gpu is None else tuple(sure)


def _must_fit(draft: Draft, at: Location, pod: PodDraft, kinds: Kinds) -> Iterator[Finding]:
    """Silent while a group might be the one: its kind or all of its types could not be read."""
    candidates = _of_kinds(draft, kinds)
    offers = [node for group in candidates if (node := group.node) is not None]
    unsure = len(offers) < len(candidates) or GROUPS in draft.nameless
    if unsure or any(fits(pod.least, node) for node in offers):
        return
    kind = " or ".join(kinds)
    if not offers:
        example = f"{GROUPS}: {{ {kinds[0]}: {{ max: 8 }} }}"
        yield Finding(
            code="node-group.missing",
            at=at,
            wanted=f"a node group of kind {kind} for it",
            found="none",
            example=example,
        )
        return
    yield Finding(
        code="pod.too-large",
        at=at,
        wanted=f"a pod that fits a {kind} node; the largest that would: {room_text(max(offers))}",
        found=str(pod.least),
        hint="each node also runs system pods, so less than its nominal size is left",
    )


def _gpus_have_the_memory(draft: Draft) -> Iterator[Finding]:
    """Silent about a pod too large in other ways, which has a finding, and while a group's types could not be read."""
    for at, pod, groups in _gpu_pods(draft):
        suitable = {name: group for name, group in groups.items() if group.node is None or fits(pod.least, group.node)}
        if not suitable or any(not group.types or group.kind is None for group in suitable.values()):
            continue
        most = {name: gpu_memory(group.types) for name, group in suitable.items()}
        if pod.gpu_memory is not None and pod.gpu_memory > max(most.values()) > 0:
            offers = ", ".join(f"{name} {memory_text(most[name])} ({_models(suitable[name])})" for name in most)
            yield Finding(
                code="gpu.too-much-memory",
                at=(*at, "gpu", "memory"),
                wanted=f"at most what a GPU of the node groups for it has: {offers}",
                found=memory_text(pod.gpu_memory),
                example=memory_text(max(most.values())),
                hint=f"by the figures of AWS, which are below a maker's round ones{_with_as_much(pod.gpu_memory)}",
            )


def _with_as_much(memory: int) -> str:
    types = map(instance_type, instance_type_names())
    families = sorted({fact.family for fact in types if fact.gpu_memory_mib >= memory})
    return f"; types with as much: {', '.join(families)}" if families else ""


def _models(group: GroupDraft) -> str:
    return " or ".join(dict.fromkeys(instance_type(name).gpu_model for name in group.types))


def _gpus_are_offered(draft: Draft) -> Iterator[Finding]:
    for at, pod, _ in _gpu_pods(draft):
        if pod.gpu_resource != GPU_RESOURCE:
            yield Finding(
                code="gpu.resource-not-offered",
                at=(*at, "gpu", "resource"),
                wanted=f"{GPU_RESOURCE}, all that the GPU nodes of a cluster made here offer",
                found=pod.gpu_resource,
                example=GPU_RESOURCE,
                hint="other devices and slices take a cluster of kind: existing, whose owner runs their device plugin",
            )


def _gpu_pods(draft: Draft) -> Iterator[tuple[Location, PodDraft, Mapping[str, GroupDraft]]]:
    """Each pod that asks for GPUs, where it stands, and the groups that it may go to."""
    of_kind = {name: group for name, group in draft.groups.items() if group.kind in (None, NodeKind.GPU)}
    for workload in draft.workloads.values():
        if workload.pod.gpu:
            yield workload.at, workload.pod, of_kind
    named: dict[Location, PoolDraft | JobDraft] = {(WORKERS, name): pool for name, pool in draft.workers.items()}
    named |= {job.at: job for job in (*draft.jobs, *draft.ray_groups)}
    for at, pool in named.items():
        if pool.pod.gpu:
            own = of_kind.get(pool.node_group or "")
            yield at, pool.pod, of_kind if own is None else {str(pool.node_group): own}


def _disks_hold_the_pods(draft: Draft) -> Iterator[Finding]:
    for workload in draft.workloads.values():
        groups = _of_kinds(draft, _kinds_of(workload))
        yield from _must_fit_the_disk((*workload.at, "ephemeralStorage"), workload.pod, groups)
    for name, pool in draft.workers.items():
        named = draft.groups.get(pool.node_group or "")
        groups = _of_kinds(draft, _pool_kinds(pool)) if named is None else [named]
        yield from _must_fit_the_disk((WORKERS, name, "ephemeralStorage"), pool.pod, groups)


def _of_kinds(draft: Draft, kinds: Kinds) -> list[GroupDraft]:
    return [group for group in draft.groups.values() if group.kind is None or group.kind in kinds]


def _must_fit_the_disk(at: Location, pod: PodDraft, groups: Sequence[GroupDraft]) -> Iterator[Finding]:
    """Silent about a pod too large in other ways, which has a finding, and while a disk's size could not be read."""
    suitable = [group for group in groups if group.node is None or fits(pod.least, group.node)]
    rooms = [room_on_disk(group.disk) for group in suitable if group.disk is not None]
    if pod.disk and rooms and len(rooms) == len(suitable) and pod.disk > 1024 * max(rooms):
        yield Finding(
            code="pod.disk-too-large",
            at=at,
            wanted=f"at most {max(rooms)}Gi, what is left for pods of the disk of a node",
            found=memory_text(pod.disk),
            example=f"{max(rooms)}Gi",
            hint="or raise diskSize of its node group: there is no node that it could start on",
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
    pods += [(head.least, 1) for head in draft.ray_heads.values() if head.whole]
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


def _one_pool_per_queue(draft: Draft) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, pool in draft.workers.items():
        for index, queue in pool.queues.items():
            owner = first.setdefault(queue, name)
            if owner != name:
                yield Finding(
                    code="queue.shared",
                    at=(WORKERS, name, "source", "queues", index),
                    wanted="a queue of one pool alone",
                    found=f"{queue!r}, which pool {owner!r} serves",
                    hint="two pools would both grow for the same jobs",
                )


def _no_long_jobs_on_spot(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        group = draft.groups.get(pool.node_group or "")
        on_spot = group is not None and group.kind is NodeKind.SPOT
        saves = pool.checkpoints is not None and pool.checkpoints.may_suit_spot
        if on_spot and not saves and pool.longest_job is not None and pool.longest_job > LONGEST_SPOT_JOB:
            hint = "with checkpoints of required: true jobs of any length may run there; or take a flexible group"
            yield _too_long_for_spot((WORKERS, name, "longestJob"), pool.longest_job, hint)


def _checkpoints_are_possible(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items():
        group = draft.groups.get(pool.node_group or "")
        if group is not None and group.kind is NodeKind.SPOT:
            yield from save_too_long_for_spot((WORKERS, name), pool.checkpoints)
        yield from claim_of_one_pod((WORKERS, name), pool.checkpoints, draft.own_claims)
        if pool.checkpoints is not None and name in draft.workloads:
            yield Finding(
                code="name.taken",
                at=(WORKERS, name),
                wanted="a name that no workload has, for a pool with checkpoints",
                found=f"{name!r}, which is also in {WORKLOADS}",
                example=f"{name}-jobs",
                hint="the controller knows the budgets that it opens by their names alone",
            )


def _no_long_runs_on_spot(draft: Draft) -> Iterator[Finding]:
    for job in draft.jobs:
        group = draft.groups.get(job.node_group or "")
        on_spot = group is not None and group.kind is NodeKind.SPOT
        if on_spot and job.longest_run is not None and job.longest_run > LONGEST_SPOT_JOB:
            at: Location = (job.section, job.name, "longestRun")
            yield _too_long_for_spot(at, job.longest_run, "put long jobs on a flexible group")


def _too_long_for_spot(at: Location, lasting: timedelta, hint: str) -> Finding:
    return Finding(
        code="spot.long-jobs",
        at=at,
        wanted="at most 1h on spot nodes, which are taken back with two minutes' notice",
        found=f"{lasting.total_seconds() / 3600:g}h",
        example="30m",
        hint=hint,
    )


def _one_name_in_the_workers_namespace(draft: Draft) -> Iterator[Finding]:
    """Pools, jobs and cron jobs share a namespace, and budgets there select by the name."""
    first = dict.fromkeys(draft.workers, WORKERS)
    for job in draft.jobs:
        section = first.setdefault(job.name, job.section)
        if section != job.section:
            yield Finding(
                code="name.taken",
                at=(job.section, job.name),
                wanted="a name that no worker pool, job or cron job has",
                found=f"{job.name!r}, which is also in {section}",
                example=f"{job.name}-nightly" if job.section == CRON_JOBS else f"{job.name}-once",
                hint="one budget would cover the pods of both, and two budgets refuse every eviction",
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
                code="overnight.above-max",
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
    slips = [key for key in draft.given_subnets if key not in ZONE_LETTERS and not is_id(key)]
    if len(missing) > len(slips):
        yield Finding(
            code="subnet.missing",
            at=(NETWORK, "vpc", "privateSubnets"),
            wanted=f"a subnet for each zone of the cluster: {', '.join(draft.zone_letters)}",
            found=f"none for {' and '.join(missing)}",
            example="{ a: subnet-0a1b2c3d, b: subnet-4e5f6071 }",
            hint="or leave the zone out of ebbtide:cluster.zones, which is [a, b] unless given",
        )


def _pools_name_nodes_of_an_existing_cluster(draft: Draft) -> Iterator[Finding]:
    for name, pool in draft.workers.items() if draft.existing else ():
        yield from unknown_nodes((WORKERS, name, "nodeGroup"), pool.node_group, draft.node_sets)
    for job in draft.jobs if draft.existing else ():
        yield from unknown_nodes((job.section, job.name, "nodeGroup"), job.node_group, draft.node_sets)


def _spot_variants_name_nodes_of_an_existing_cluster(draft: Draft) -> Iterator[Finding]:
    for name, workload in draft.workloads.items() if draft.existing else ():
        if workload.spot and NodeKind.SPOT.value not in draft.node_sets:
            yield Finding(
                code="nodes.no-spot",
                at=(*workload.at, "spot"),
                wanted=f"the labels of spot nodes, under {CLUSTER}.nodeSelectors.spot",
                found="none",
                example=f"{CLUSTER}: {{ nodeSelectors: {{ spot: {{ pool: spot }} }} }}",
                hint=f"{name} could come to any node, and all its pods there be evicted at once",
            )


def _redis_fits(draft: Draft) -> Iterator[Finding]:
    if draft.redis.kind is RedisKind.IN_CLUSTER:
        yield from _must_fit(draft, (REDIS, "memory"), draft.redis.pod, (NodeKind.FIXED,))


def _elasticache_is_possible(draft: Draft) -> Iterator[Finding]:
    if draft.redis.kind is not RedisKind.ELASTICACHE:
        return
    if draft.existing:
        yield Finding(
            code="elasticache.existing-cluster",
            at=(REDIS, "kind"),
            wanted="in-cluster or url: the network of an existing cluster is not ours to put a cache into",
            found="'elasticache'",
            example="url",
        )
        return
    fault = draft.redis.token_fault if draft.redis.has_password else "nothing"
    if fault:
        yield Finding(
            code="redis-password.token", at=(REDIS_PASSWORD,), wanted=TOKEN_WANTED, found=fault, hint=SET_TOKEN
        )


def _images_are_named_by_digest(draft: Draft) -> Iterator[Finding]:
    if draft.images.require_digests:
        yield from draft.images.without_digest(frozenset(_brought(draft)))


def _images_are_used(draft: Draft) -> Iterator[Finding]:
    """A key that would do nothing is refused."""
    used = frozenset(_brought(draft))
    for key, own in draft.images.brought.items():
        if own is not None and key not in used:
            hint = "this stack runs none of its own"
            yield Finding(code="image.unused", at=(IMAGES, key), wanted="this key left out", found=repr(own), hint=hint)


def _accounts_can_be_made(draft: Draft) -> Iterator[Finding]:
    yield from account_findings(draft.accounts, existing=draft.existing)


def _snapshots_can_be_taken(draft: Draft) -> Iterator[Finding]:
    yield from snapshot_findings(draft.snapshots, existing=draft.existing)


def _entrances_lead_somewhere(draft: Draft) -> Iterator[Finding]:
    yield from draft.entrances.findings(existing=draft.existing)


def _monitoring_is_possible(draft: Draft) -> Iterator[Finding]:
    yield from draft.monitoring.findings(draft.secrets, existing=draft.existing)


def _services_are_possible(draft: Draft) -> Iterator[Finding]:
    yield from draft.services.findings(draft.monitoring.kind, draft.secrets, existing=draft.existing)


def _brought(draft: Draft) -> Iterator[str]:
    """The keys of the images that Ebbtide brings to this stack, or may: what could not be read is given the doubt."""
    if draft.redis.kind in (None, RedisKind.IN_CLUSTER):
        yield "redis"
    if draft.ray_heads and draft.ray_operator is RayOperatorSource.BUNDLED:
        yield "rayOperator"
    gpus = not draft.existing and any(group.kind in (None, NodeKind.GPU) for group in draft.groups.values())
    if not draft.existing:
        yield "autoscaler"
        if gpus:
            yield "devicePlugin"
    yield from draft.monitoring.images(gpus=gpus)
    if not draft.existing:
        yield from draft.services.images()


def _secrets_have_the_keys(draft: Draft) -> Iterator[Finding]:
    yield from wrong_references(draft.references, draft.secrets)
    yield from wrong_keys_of_redis(draft.references)


def _fragments_break_no_promise(draft: Draft) -> Iterator[Finding]:
    """Of a fragment that is no mapping its section has said so."""
    for at, main, category, pod in _all_pods(draft):
        facts = PodFacts(main=main, category=category, minor=draft.version, volumes=pod.volumes)
        if is_mapping(pod.fragment):
            yield from fragment_findings(pod.fragment, (*at, "pod"), facts)


def _all_pods(draft: Draft) -> Iterator[tuple[Location, str, Category | None, PodDraft]]:
    """Where each stands, the name of its own container, and its category."""
    for name, workload in draft.workloads.items():
        yield workload.at, name, workload.category, workload.pod
    for name, pool in draft.workers.items():
        yield (WORKERS, name), WORKER_CONTAINER, Category.WORKER, pool.pod
    for job in draft.jobs:
        yield job.at, job.name, Category.WORKER, job.pod
    for name, head in draft.ray_heads.items():
        yield (RAY, name, "head"), RAY_CONTAINER, Category.FIXED, head
    for group in draft.ray_groups:
        yield group.at, RAY_CONTAINER, Category.WORKER, group.pod


def _unknown_name(draft: Draft, section: str, at: Location, name: str) -> Iterator[Finding]:
    """Silent while the section that should hold the name could not be read at all."""
    if section not in draft.nameless:
        known = tuple(draft.groups if section == GROUPS else draft.workers)
        what = "one of the node groups" if section == GROUPS else "one of the worker pools"
        yield Finding(code="name.unknown", at=at, wanted=what, found=repr(name), hint=did_you_mean(name, known))


RULES: tuple[Rule, ...] = (
    _one_shape_per_group,
    _gpus_are_on_gpu_groups,
    _spot_groups_have_a_choice,
    _something_is_left_of_a_node,
    _groups_reach_every_zone,
    _workloads_fit,
    _workers_fit,
    _jobs_fit,
    _ray_heads_fit,
    _drivers_have_a_cluster,
    _gpus_have_the_memory,
    _gpus_are_offered,
    _disks_hold_the_pods,
    _fixed_workloads_fit_together,
    _one_pool_per_queue,
    _no_long_jobs_on_spot,
    _no_long_runs_on_spot,
    _checkpoints_are_possible,
    _one_name_in_the_workers_namespace,
    _overnight_work_is_possible,
    _expected_hours_name_groups,
    _given_subnets_cover_the_zones,
    _redis_fits,
    _elasticache_is_possible,
    _pools_name_nodes_of_an_existing_cluster,
    _spot_variants_name_nodes_of_an_existing_cluster,
    _images_are_named_by_digest,
    _images_are_used,
    _secrets_have_the_keys,
    _accounts_can_be_made,
    _snapshots_can_be_taken,
    _fragments_break_no_promise,
    _entrances_lead_somewhere,
    _monitoring_is_possible,
    _services_are_possible,
)

_OF_NODE_GROUPS: frozenset[Rule] = frozenset(
    {
        _workloads_fit,
        _workers_fit,
        _jobs_fit,
        _ray_heads_fit,
        _gpus_have_the_memory,
        _gpus_are_offered,
        _disks_hold_the_pods,
        _redis_fits,
        _expected_hours_name_groups,
        _given_subnets_cover_the_zones,
    }
)
"""Rules about what EKS is told to make: of an existing cluster there are neither shapes nor subnets to check."""
