"""Checks that need several sections of the stack file: `RULES` lists all of them.

No fault is reported twice: a rule runs only if the sections that it names are valid, and rules do not overlap.
"""

from collections.abc import Iterator
from datetime import timedelta

from ebbtide.prices import PricingAssumption, has_rate, instance_type_names, nearest_type, priced_regions
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import with_node_sets
from ebbtide.settings.capacity.placement import home_kind
from ebbtide.settings.checks import (
    accounts,
    adopted,
    brokers,
    checkpoints,
    entrances,
    fallbacks,
    image_names,
    nodes,
    secrets,
    services,
)
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.entries import named_entries, pod_entries
from ebbtide.settings.file.keys import (
    ADOPTED,
    CLUSTER,
    COSTS,
    CRON_JOBS,
    GROUPS,
    HOURS,
    IMAGES,
    JOBS,
    NETWORK,
    RAY,
    REDIS,
    REDIS_PASSWORD,
    SERVICES,
    WORKER_WORDS,
    WORKERS,
    WORKLOADS,
)
from ebbtide.settings.file.problems import PLACEHOLDER, Finding, Location, did_you_mean, unknown_name, value_at
from ebbtide.settings.fragment.findings import fragment_findings
from ebbtide.settings.fragment.promises import PodFacts
from ebbtide.settings.fragment.values import is_mapping
from ebbtide.settings.sections.checkpoints import CHECKPOINTS_VOLUME
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.eks_versions import (
    KNOWN_VERSION,
    UNKNOWN_VERSION,
    VERSION_EXAMPLE,
    is_newer,
    to_use_a_newer,
)
from ebbtide.settings.sections.existing import unknown_nodes
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.pods.volumes import SHM
from ebbtide.settings.sections.ray import RAY_CONTAINER
from ebbtide.settings.sections.redis import SET_TOKEN, TOKEN_WANTED, RedisKind
from ebbtide.settings.sections.types import ZONE_LETTERS
from ebbtide.settings.sections.workers import WORKER_CONTAINER
from ebbtide.settings.sections.zones import is_id, zone_findings
from ebbtide.vocabulary.labels import Category

_HEAD = 3  # parts of the location of a Ray cluster's head; a group has one more

LONGEST_SPOT_JOB = timedelta(hours=1)
"""Spot nodes are reclaimed with two minutes' notice, so some jobs are lost: at most an hour of work."""


def cross_findings(parsed: ParsedSections) -> list[Finding]:
    return [finding for rule in RULES for finding in rule.findings(parsed)]


def _an_autoscaler_of_a_newer_version_is_named(parsed: ParsedSections) -> Iterator[Finding]:
    """The tables of this release have no autoscaler for it."""
    version = parsed.stack.cluster.version
    if is_newer(version) and parsed.stack.images.autoscaler is None:
        yield Finding(
            code=UNKNOWN_VERSION,
            at=(CLUSTER, "version"),
            wanted=KNOWN_VERSION,
            found=repr(version),
            example=VERSION_EXAMPLE,
            hint=to_use_a_newer(version),
        )


def _zones_have_eks(parsed: ParsedSections) -> Iterator[Finding]:
    yield from zone_findings(parsed.stack.cluster.zones, parsed.stack.region, (CLUSTER, "zones"))


def _subnets_cover_zones(parsed: ParsedSections) -> Iterator[Finding]:
    """A key that is not a zone letter may be a typo of a missing one."""
    vpc, zones = parsed.stack.network.vpc, parsed.stack.cluster.zones
    subnets = () if vpc is None else tuple(vpc.private_subnets)
    missing = [zone for zone in zones if zone not in subnets] if vpc is not None else []
    slips = [key for key in subnets if key not in ZONE_LETTERS and not is_id(key)]
    if len(missing) > len(slips):
        yield Finding(
            code="subnet.missing",
            at=(NETWORK, "vpc", "privateSubnets"),
            wanted=f"a subnet for each zone of the cluster: {', '.join(zones)}",
            found=f"none for {' and '.join(missing)}",
            example="{ a: subnet-0a1b2c3d, b: subnet-4e5f6071 }",
            hint="or leave the zone out of ebbtide:cluster.zones, whose default is [a, b]",
        )


def _drivers_have_a_cluster(parsed: ParsedSections) -> Iterator[Finding]:
    clusters = parsed.names(RAY)
    for pool, settings in parsed.stack.workers.items():
        if settings.ray is not None and parsed.lacks(RAY, settings.ray):
            yield Finding(
                code="ray.unknown-cluster",
                at=(WORKERS, pool, "ray"),
                wanted="the name of a Ray cluster of this file",
                found=repr(settings.ray),
                example=clusters[0] if clusters else f"{RAY}: {{ {settings.ray}: {{ … }} }}",
                hint=did_you_mean(settings.ray, clusters),
            )


def _one_pool_serves_a_queue(parsed: ParsedSections) -> Iterator[Finding]:
    first: dict[str, tuple[str, str | None]] = {}
    for at, name, pool in parsed.pools:
        for index, queue in enumerate(pool.source.queues):
            owner, broker = first.setdefault(queue, (name, pool.source.broker))
            if owner != name:
                # In Redis `ebbtide:workers:QUEUE` lists the workers of a queue, whichever broker holds it.
                elsewhere = "workers' reports name only the queue, so each pool would count the running jobs of both"
                yield Finding(
                    code="queue.shared",
                    at=(*at, "source", "queues", index),
                    wanted="a queue of only one pool",
                    found=f"{queue!r}, which pool {owner!r} serves",
                    hint="both pools would scale up for the same jobs" if broker == pool.source.broker else elsewhere,
                )


def _no_long_jobs_on_spot(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        saves = pool.checkpoints is not None and pool.checkpoints.required
        if parsed.stack.on_spot(pool) and not saves and pool.longest_job > LONGEST_SPOT_JOB:
            hint = f"with checkpoints of required: true jobs of any length may run there; or take a {_kind(pool)} group"
            yield _too_long_for_spot((WORKERS, name, "longestJob"), pool.longest_job, hint)


def _no_long_runs_on_spot(parsed: ParsedSections) -> Iterator[Finding]:
    for section, jobs in ((JOBS, parsed.stack.jobs), (CRON_JOBS, parsed.stack.cron_jobs)):
        for name, job in jobs.items():
            group = parsed.stack.node_groups.get(job.node_group)
            if group is not None and group.kind is NodeKind.SPOT and job.longest_run > LONGEST_SPOT_JOB:
                at: Location = (section, name, "longestRun")
                yield _too_long_for_spot(at, job.longest_run, f"put long jobs on a {_kind(job)} group")


def _kind(pod: GroupPodSettings) -> NodeKind:
    """Return the kind of group on demand that has nodes for the pod."""
    return home_kind(Category.WORKER, pod.gpu.count)


def _too_long_for_spot(at: Location, lasting: timedelta, hint: str) -> Finding:
    return Finding(
        code="spot.long-jobs",
        at=at,
        wanted="at most 1h on spot nodes, which are taken back with two minutes' notice",
        found=f"{lasting.total_seconds() / 3600:g}h",
        example="30m",
        hint=hint,
    )


def _names_of_the_workers_namespace_differ(parsed: ParsedSections) -> Iterator[Finding]:
    """Budgets of this namespace select by the name."""
    first: dict[str, str] = {}
    *others, last = (words.entry for words in WORKER_WORDS.values())
    for section, words in WORKER_WORDS.items():
        for name in parsed.names(section):
            owner = first.setdefault(name, section)
            if owner != section:
                yield Finding(
                    code="name.taken",
                    at=(section, name),
                    wanted=f"a name that no {', '.join(others)} or {last} has",
                    found=f"{name!r}, which is also in {owner}",
                    example=f"{name}-{words.ending}",
                    hint="one budget would cover the pods of both, and with two budgets every eviction fails",
                )


def _overnight_work_has_its_pool(parsed: ParsedSections) -> Iterator[Finding]:
    rules = named_entries(parsed.config.get(ADOPTED))
    adopted = [name for name, rule in rules if value_at(rule, ("pool",)) is not None]
    for index, plan in enumerate(parsed.stack.business_hours.overnight):
        if plan.pool not in adopted and parsed.lacks(WORKERS, plan.pool):
            at: Location = (HOURS, "overnight", index, "pool")
            yield unknown_name(at, "one of the worker pools", plan.pool, (*parsed.names(WORKERS), *adopted))


def _overnight_work_is_within_max(parsed: ParsedSections) -> Iterator[Finding]:
    pools = {name: pool for _, name, pool in parsed.pools}
    for index, plan in enumerate(parsed.stack.business_hours.overnight):
        pool = pools.get(plan.pool)
        if pool is not None and plan.workers > pool.max:
            yield Finding(
                code="overnight.above-max",
                at=(HOURS, "overnight", index, "workers"),
                wanted=f"at most the max of pool {plan.pool}, which is {pool.max}",
                found=str(plan.workers),
                example=str(pool.max),
            )


def _costs_name_groups(parsed: ParsedSections) -> Iterator[Finding]:
    costs = parsed.stack.costs
    for key, by_group in (("expectedNodeHours", costs.expected_node_hours), ("before", costs.before)):
        for name in by_group:
            if parsed.lacks(GROUPS, name):
                yield unknown_name((COSTS, key, name), "one of the node groups", name, parsed.names(GROUPS))


def _former_nodes_have_a_price(parsed: ParsedSections) -> Iterator[Finding]:
    """A type may have another size or processor than the group: this may be why the fleet was replaced."""
    groups, region = with_node_sets(parsed.stack).node_groups, parsed.stack.stated_region
    for name, former in parsed.stack.costs.before.items():
        kind = former.instance_type
        if not kind or (name in groups and groups[name].type_like(kind) is not None):
            continue
        if kind not in instance_type_names():
            near = nearest_type(kind)
            known, hint = "that the price tables know", f"did you mean {near}?" if near else ""
        elif region in priced_regions() and not has_rate(region, kind, PricingAssumption.ON_DEMAND):
            known, hint = f"with a price in {region}", f"from AWS: ebbtide prices update --region {region}"
        else:
            continue
        yield Finding(
            code="costs.before-type",
            at=(COSTS, "before", name, "instanceType"),
            wanted=f"an instance type {known}",
            found=repr(kind),
            example="m7i.2xlarge",
            hint=hint,
        )


def _pods_name_nodes_of_an_existing_cluster(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.pods:
        if placed.at[0] in WORKER_WORDS:
            yield from unknown_nodes((*placed.at, "nodeGroup"), placed.group, parsed.stack.cluster.node_selectors)


def _spot_variants_name_nodes_of_an_existing_cluster(parsed: ParsedSections) -> Iterator[Finding]:
    for placed in parsed.pods:
        if placed.kind is NodeKind.SPOT and NodeKind.SPOT.value not in parsed.stack.cluster.node_selectors:
            yield Finding(
                code="nodes.no-spot",
                at=(*placed.at, "spot"),
                wanted=f"the labels of spot nodes, under {CLUSTER}.nodeSelectors.spot",
                found="none",
                example=f"{CLUSTER}: {{ nodeSelectors: {{ spot: {{ pool: spot }} }} }}",
                hint=f"without labels for spot nodes pods of {placed.name} may run on any node and be evicted together",
            )


def _elasticache_is_possible(parsed: ParsedSections) -> Iterator[Finding]:
    if parsed.stack.redis.kind is not RedisKind.ELASTICACHE:
        return
    if parsed.existing:
        yield Finding(
            code="elasticache.existing-cluster",
            at=(REDIS, "kind"),
            wanted="in-cluster or url: ElastiCache needs a cluster that this stack creates",
            found="'elasticache'",
            example="url",
        )
        return
    fault = parsed.token_fault if REDIS_PASSWORD in parsed.config else "nothing"
    if fault:
        yield Finding(
            code="redis-password.token",
            at=(REDIS_PASSWORD,),
            wanted=TOKEN_WANTED,
            found=fault,
            hint=SET_TOKEN if parsed.token_fault else f"{SET_TOKEN}; until then write {{ secure: {PLACEHOLDER} }}",
        )


def _snapshots_need_eks(parsed: ParsedSections) -> Iterator[Finding]:
    """Only disks of a cluster that the stack creates are EBS volumes with Ebbtide's tag."""
    for name, workload in parsed.stack.workloads.items():
        for volume, settings in workload.volumes.items():
            if settings.snapshots is not None:
                yield Finding(
                    code="snapshots.existing-cluster",
                    at=(WORKLOADS, name, "volumes", volume, "snapshots"),
                    wanted="no snapshots on an existing cluster",
                    found="the key",
                    hint="Data Lifecycle Manager only takes snapshots of AWS disks; use the cluster's own tool",
                )


def _fragments_break_no_promise(parsed: ParsedSections) -> Iterator[Finding]:
    """Check each pod of the file, including invalid ones."""
    version_known = CLUSTER in parsed.valid and not parsed.existing
    minor = parsed.stack.cluster.version if version_known else None
    for at, name, raw in pod_entries(parsed.config):
        fragment = value_at(raw, ("pod",))
        if is_mapping(fragment):
            facts = PodFacts(main=_main(at, name), category=_category(at, raw), minor=minor, volumes=_volumes(raw))
            yield from fragment_findings(fragment, (*at, "pod"), facts)


def _main(at: Location, name: str) -> str:
    """Return the name of the pod's main container."""
    return {WORKERS: WORKER_CONTAINER, RAY: RAY_CONTAINER}.get(str(at[0]), name)


def _category(at: Location, raw: object) -> Category | None:
    """Return None if the file has no valid category."""
    if at[0] not in (WORKLOADS, SERVICES):
        return Category.FIXED if at[0] == RAY and len(at) == _HEAD else Category.WORKER
    category_text = value_at(raw, ("category",)) or (Category.FLEXIBLE if at[0] == SERVICES else None)
    return next((category for category in Category if category == category_text), None)


def _volumes(raw: object) -> frozenset[str]:
    """Return the names of the volumes that short keys create, including invalid ones."""
    shm = () if value_at(raw, ("shm",)) is None else (SHM,)
    claim = () if value_at(raw, ("checkpoints", "claim")) is None else (CHECKPOINTS_VOLUME,)
    return frozenset((*(name for name, _ in named_entries(value_at(raw, ("volumes",)))), *shm, *claim))


RULES: tuple[CheckRule, ...] = (
    *nodes.RULES,
    CheckRule((CLUSTER, IMAGES), _an_autoscaler_of_a_newer_version_is_named, on=ClusterKind.EKS),
    CheckRule((CLUSTER, REGION), _zones_have_eks, on=ClusterKind.EKS),
    CheckRule((CLUSTER, NETWORK), _subnets_cover_zones, on=ClusterKind.EKS),
    CheckRule((WORKERS,), _drivers_have_a_cluster),
    CheckRule((WORKERS, ADOPTED), _one_pool_serves_a_queue),
    CheckRule((WORKERS, GROUPS), _no_long_jobs_on_spot),
    CheckRule((JOBS, CRON_JOBS, GROUPS), _no_long_runs_on_spot),
    *brokers.RULES,
    *checkpoints.RULES,
    *fallbacks.RULES,
    *adopted.RULES,
    CheckRule((), _names_of_the_workers_namespace_differ),
    CheckRule((HOURS,), _overnight_work_has_its_pool),
    CheckRule((HOURS, WORKERS, ADOPTED), _overnight_work_is_within_max),
    CheckRule((COSTS, CLUSTER), _costs_name_groups, on=ClusterKind.EKS),
    CheckRule((COSTS, CLUSTER, GROUPS, REGION), _former_nodes_have_a_price),
    CheckRule((REDIS, CLUSTER, REDIS_PASSWORD), _elasticache_is_possible),
    CheckRule((CLUSTER,), _pods_name_nodes_of_an_existing_cluster, on=ClusterKind.EXISTING),
    CheckRule((CLUSTER, SERVICES), _spot_variants_name_nodes_of_an_existing_cluster, on=ClusterKind.EXISTING),
    *image_names.RULES,
    *secrets.RULES,
    *accounts.RULES,
    CheckRule((WORKLOADS, CLUSTER), _snapshots_need_eks, on=ClusterKind.EXISTING),
    CheckRule((), _fragments_break_no_promise),
    *entrances.RULES,
    *services.RULES,
)
