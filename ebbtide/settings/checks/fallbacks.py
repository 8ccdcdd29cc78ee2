"""Check the fallback of pools on spot nodes: the on-demand group of workers that get no spot node.

The workers' pods may use both groups, so both must suit them. What the autoscaler does without spot capacity:
docs/explanation/spot.md.
"""

from collections.abc import Iterator

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placed import PlacedPod, placed_pods
from ebbtide.settings.capacity.placement import architecture, disk_holds, fits, home_kind, node_of, room_text, suits
from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.keys import GROUPS, WORKERS
from ebbtide.settings.file.problems import Finding, Location, unknown_name
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.vocabulary.labels import Category


def _not_on_existing_clusters(parsed: ParsedSections) -> Iterator[Finding]:
    for name, pool in parsed.stack.workers.items():
        if pool.fallback:
            yield Finding(
                code="fallback.existing-cluster",
                at=(WORKERS, name, "fallback"),
                wanted="a fallback only on a cluster that this stack creates",
                found=repr(pool.fallback),
                hint="the cluster's administrator decides in which order its groups grow",
            )


def _fallbacks_take_the_workers(parsed: ParsedSections) -> Iterator[Finding]:
    groups = parsed.stack.node_groups
    for placed in placed_pods(parsed.stack, [WORKERS]):
        pool = placed.pod
        if not isinstance(pool, WorkerSettings) or not pool.fallback:
            continue
        at: Location = (*placed.at, "fallback")
        if not pool.node_group:
            yield _not_on_spot(at, "a pool without nodeGroup")
            continue
        first, second = groups.get(pool.node_group), groups.get(pool.fallback)
        if second is None:
            yield unknown_name(at, "one of the node groups", pool.fallback, tuple(groups))
        if first is not None and first.kind is not NodeKind.SPOT:
            yield _not_on_spot(at, f"nodeGroup {pool.node_group!r} of kind {first.kind}")
        elif first is not None and second is not None:
            yield from _unsuitable(at, placed, pool, first, second)


def _not_on_spot(at: Location, found: str) -> Finding:
    return Finding(
        code="fallback.not-on-spot",
        at=at,
        wanted="a fallback only beside a nodeGroup of kind spot",
        found=found,
        example="nodeGroup: gpu-spot, fallback: gpu",
        hint="workers on other groups need none: their nodes stay",
    )


def _unsuitable(
    at: Location, placed: PlacedPod, pool: WorkerSettings, first: NodeGroupSettings, second: NodeGroupSettings
) -> Iterator[Finding]:
    kind = home_kind(Category.WORKER, placed.size.gpu)
    if second.kind is not kind:
        yield Finding(
            code="fallback.kind",
            at=at,
            wanted=f"an on-demand group of kind {kind}",
            found=f"{pool.fallback!r} of kind {second.kind}",
            example=kind.value,
        )
        return
    if second.provisioner is not first.provisioner:
        yield Finding(
            code="fallback.provisioner",
            at=at,
            wanted=f"a group of the same provisioner as {pool.node_group}, which is {first.provisioner}",
            found=f"{pool.fallback!r} of {second.provisioner}",
            hint="two provisioners would each add a node for the same worker",
        )
    if first.min:
        yield Finding(
            code="fallback.spot-min",
            at=at,
            wanted=f"min: 0 of {pool.node_group}, the first choice",
            found=f"min: {first.min}",
            hint="without capacity the cluster autoscaler keeps waiting for a group's minimum and never turns to "
            "the fallback",
        )
    if pool.arch is None and architecture(first) is not architecture(second):
        yield Finding(
            code="fallback.architecture",
            at=at,
            wanted="nodes of one architecture, or arch: any for an image that is built for both",
            found=f"{pool.node_group} with {architecture(first)}, {pool.fallback} with {architecture(second)}",
            example="arch: any",
        )
    elif not fits(placed.size, node_of(second)):
        expected = f"a pod that fits a node of group {pool.fallback} too: {room_text(node_of(second))}"
        yield Finding(code="pod.too-large", at=placed.at, wanted=expected, found=str(placed.size))
    elif not suits(second, pool) or not disk_holds(second, pool.ephemeral_storage):
        yield Finding(
            code="fallback.unsuitable",
            at=at,
            wanted="a group whose nodes have all that the pool requests: arch, gpu.memory, ephemeralStorage and the "
            "node labels of its pod",
            found=repr(pool.fallback),
        )


RULES = (
    CheckRule((WORKERS,), _not_on_existing_clusters, on=ClusterKind.EXISTING),
    CheckRule((WORKERS, GROUPS), _fallbacks_take_the_workers, on=ClusterKind.EKS),
)
