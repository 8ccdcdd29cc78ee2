"""Karpenter in place of the cluster autoscaler.

A group that Karpenter provides is a NodePool with the types that its stack file lists: `stack_nodes`, the nodes of
`fixed-flexible`. By day these NodePools remove only empty nodes; in the window they also move pods, from a moment after
the pods' budgets open until `drain_guard` before business hours.

On an existing cluster a NodePool is a set of nodes that Karpenter provides (`ebbtide.settings.capacity.node_sets`),
with the types of `nodeShapes`. Ebbtide writes the budgets of the sets in `cluster.nodePools` only.

The strategies `karpenter` and `karpenter-defaults` also change the provisioner of flexible and GPU groups that have
the cluster autoscaler. Fixed groups stay managed groups, and so do spot groups, unless their fallback moves.

`karpenter` is the product with Karpenter: the scaler's workers, budgets and business hours, and the types of the stack
file. It offers Karpenter no other sizes, since Karpenter packs pods before it looks at prices: a smaller node for one
worker costs more per worker, and a larger one is paid until its last job ends.

`karpenter-defaults` is Karpenter as shipped (budget 10 %, no wait before consolidation, all sizes with the processor
and generation of the group's type), with KEDA's ScaledJobs: every 5 s each queue is polled, each job gets a pod, and
the pod ends with its job. These pods have `karpenter.sh/do-not-disrupt`, so no job is interrupted. Flexible pods may
move at any time, one of each workload.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from functools import cache
from typing import TypeAlias

from ebbtide.lab.simulator.cluster.karpenter import DisruptionBudget, DisruptionReason, NodePoolModel, TypeModel
from ebbtide.lab.simulator.cluster.karpenter.model import DEFAULT_BUDGETS
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.results import StrategyResult
from ebbtide.lab.simulator.strategies.plans import Topology, group_model, separate_groups, spot_rate
from ebbtide.lab.simulator.strategies.run import StrategyRun, controlled, play
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.world import BEFORE_THE_MODEL, ClusterPlan, World
from ebbtide.prices import InstanceType, NoPrice, instance_type, instance_type_names, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.node_sets import constant_groups
from ebbtide.settings.capacity.placement import node_of_type
from ebbtide.settings.capacity.process_documents import drain_guard
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings, shape_name
from ebbtide.vocabulary.controller_config import ControllerConfig

OPENS_AFTER_S = POLL_S = 5.0
_EMPTY, _UNDERUTILIZED = frozenset([DisruptionReason.EMPTY]), frozenset([DisruptionReason.UNDERUTILIZED])


def budgets_of(drains: int) -> tuple[DisruptionBudget, ...]:
    """Empty nodes may be removed at any time, other nodes `drains` at a time."""
    return (DisruptionBudget(nodes=drains, reasons=_UNDERUTILIZED), DisruptionBudget(percent=100, reasons=_EMPTY))


BY_DAY = budgets_of(0)

_STACK = (
    "Groups with provisioner karpenter are NodePools of Karpenter 1.14 with the instance types that they list; by day "
    "it removes only empty nodes, in the window parallelDrains nodes at a time. fixed-fleet, peak-fleet and the "
    "strategies with a mixed group have nodes of the largest type instead."
)
_STACK_ON_SPOT = (
    "The spot groups among them ({groups}) differ: fixed-fleet and peak-fleet have on-demand nodes, which the sentence "
    "on spot prices names, and the strategies with a mixed group have one managed group for each size with GPUs."
)
_OURS = (
    "karpenter: Karpenter 1.14 provides the flexible and GPU groups, each a NodePool of the types that the group "
    "lists; by day it removes only empty nodes, in the window parallelDrains nodes at a time."
)
_DEFAULTS = (
    "karpenter-defaults: NodePools with all sizes of the group's processor and generation, with a budget of "
    f"10 % at any time; a ScaledJob of KEDA for each pool, polled every {POLL_S:g} s, one pod with do-not-disrupt for "
    "each job, and one pod of a flexible workload at a time may move."
)
_DEFAULTS_ON_SPOT = "karpenter-defaults: NodePools on spot ({groups}) have the types that the group lists."

_SETS = (
    "Karpenter 1.14 provides the nodes of {sets}: cluster.nodePools or a label of cluster.nodeSelectors says so. Each "
    "set is one NodePool with the types and the max of cluster.nodeShapes, consolidateAfter 0 s, "
    "WhenEmptyOrUnderutilized and PREFERENCE_POLICY=Ignore; a min counts as 0."
)
_WRITTEN = (
    "Ebbtide writes the disruption budgets of the NodePools of {sets}: by day only empty nodes go, in the window "
    "parallelDrains nodes at a time in each set."
)
_UNWRITTEN = (
    "The disruption budgets of the NodePools of {sets} are their owner's and unknown: assumed is Karpenter's default, "
    "10 % of the nodes at any time, also in business hours. cluster.nodePools hands them to Ebbtide."
)
_NODE_CLASS = (
    "The NodeClass of {sets} is unknown: their instance types have the kubelet reservation, the pod limit and the "
    "system DaemonSets of EKS with AL2023."
)
LARGEST_TYPES = (
    "fixed-fleet, peak-fleet and the strategies with a mixed group have nodes of the largest type instead of several."
)
_DESCRIBED_CLASS = "The NodeClass of {sets} is unknown: their nodes have the sizes in the file."

_Offers: TypeAlias = tuple[tuple[InstanceType, float], ...]  # with dollars an hour
_PoolOf: TypeAlias = Callable[[str, NodeGroupSettings, tuple[TypeModel, ...]], NodePoolModel]


def stack_nodes(settings: StackSettings) -> Topology:
    """The nodes of the stack file: managed groups, and NodePools of the groups that Karpenter provides."""
    if not settings.karpenter_groups:
        return separate_groups(settings)
    if settings.cluster.context is None:
        spot = [name for name, group in settings.karpenter_groups.items() if group.kind is NodeKind.SPOT]
        on_spot = (_STACK_ON_SPOT.format(groups=", ".join(spot)),) if spot else ()
        return _with_node_pools(settings, settings.karpenter_groups, _listed, _stack_pool, (_STACK, *on_spot))

    def pool(name: str, group: NodeGroupSettings, types: tuple[TypeModel, ...]) -> NodePoolModel:
        stack_pool = _stack_pool(name, group, types)
        return stack_pool if name in settings.cluster.node_pools else replace(stack_pool, budgets=DEFAULT_BUDGETS)

    return _with_node_pools(settings, settings.karpenter_groups, _listed, pool, tuple(_existing(settings)))


def _existing(settings: StackSettings) -> Iterator[str]:
    """Yield the assumptions about NodePools of an existing cluster: its stack file does not describe them."""
    shapes, handed_over = settings.cluster.node_shapes, settings.cluster.node_pools
    sets = list(settings.karpenter_groups)
    for sentence, names in (
        (_SETS, sets),
        (_WRITTEN, [name for name in sets if name in handed_over]),
        (_UNWRITTEN, [name for name in sets if name not in handed_over]),
        (_NODE_CLASS, [name for name in sets if shapes[name].instance_types]),
        (_DESCRIBED_CLASS, [name for name in sets if not shapes[name].instance_types]),
    ):
        if names:
            yield sentence.format(sets=", ".join(names))
    yield LARGEST_TYPES


def each_type(settings: StackSettings) -> Topology:
    """The stack's groups, with a group for each type of a NodePool: a mix of them bounds what Karpenter may choose."""
    nodes = stack_nodes(settings)
    of_pools = {kind.shape.name: kind.shape for pool in nodes.node_pools for kind in pool.types}
    return replace(nodes, groups={**nodes.groups, **of_pools}, node_pools=(), assumptions=())


def our_node_pools(settings: StackSettings) -> Topology:
    """The stack with `provisioner: karpenter` in every flexible and GPU group, and no other change."""
    groups = {**_movable(settings), **settings.karpenter_groups}
    return _with_node_pools(settings, groups, _listed, _stack_pool, (_OURS,))


def default_node_pools(settings: StackSettings) -> Topology:
    def pool(name: str, group: NodeGroupSettings, types: tuple[TypeModel, ...]) -> NodePoolModel:
        return NodePoolModel(name=name, types=types, limits=_limits(group), spot=group.kind is NodeKind.SPOT)

    moved = _movable(settings)
    spot = [name for name, group in moved.items() if group.kind is NodeKind.SPOT]
    on_spot = (_DEFAULTS_ON_SPOT.format(groups=", ".join(spot)),) if spot else ()
    return _with_node_pools(settings, moved, _alike, pool, (_DEFAULTS, *on_spot))


def _movable(settings: StackSettings) -> dict[str, NodeGroupSettings]:
    """The flexible and GPU groups with an autoscaler, and the spot groups whose fallback is one of them."""
    constant = constant_groups(settings)
    kinds = (NodeKind.FLEXIBLE, NodeKind.GPU)
    return {
        name: group
        for name, group in settings.node_groups.items()
        if (group.kind in kinds or group.has_fallback) and name not in constant
    }


def _stack_pool(name: str, group: NodeGroupSettings, types: tuple[TypeModel, ...]) -> NodePoolModel:
    """The NodePool that `components.cluster.karpenter` creates."""
    return NodePoolModel(
        name=name,
        types=types,
        weight=group.growth_priority,
        limits={"nodes": group.max, "cpu_m": group.max * max(kind.vcpu for kind in group.types) * 1000},
        budgets=BY_DAY,
        spot=group.kind is NodeKind.SPOT,
    )


def _with_node_pools(
    settings: StackSettings,
    pools_of: Mapping[str, NodeGroupSettings],
    offers_of: Callable[[str, NodeGroupSettings], _Offers],
    pool_of: _PoolOf,
    assumptions: tuple[str, ...],
) -> Topology:
    separate = separate_groups(settings)
    groups, source_of = dict(separate.groups), dict(separate.source_of)
    types = dict(separate.types)
    pools: list[NodePoolModel] = []
    for name, group in pools_of.items():
        parts = [part for part, source in separate.source_of.items() if source == name]
        zones = groups[parts[0]].zones
        for part in parts:
            del groups[part]
            if part != name:
                del source_of[part], types[part]
        source_of[name] = name
        offers = {shape_name(name, kind): (kind, usd) for kind, usd in offers_of(settings.region, group)}
        offered = (
            TypeModel(shape=_shape(shape, name, group, kind, zones), usd=usd, capacity=_capacity(kind))
            for shape, (kind, usd) in offers.items()
        )
        pools.append(pool_of(name, group, tuple(offered)))
        for kind in pools[-1].types:
            source_of[kind.shape.name] = name
            types[kind.shape.name] = offers[kind.shape.name][0]
    return replace(
        separate, groups=groups, source_of=source_of, types=types, node_pools=tuple(pools), assumptions=assumptions
    )


def _shape(shape: str, name: str, group: NodeGroupSettings, kind: InstanceType, zones: tuple[str, ...]) -> GroupModel:
    """A node of one type. Every kubelet of a NodePool that the stack creates reserves what the largest type needs."""
    listed = kind in group.types
    model = group_model(name, group.of_type(kind) if listed else group.with_types((kind.name,)), zones)
    if listed and group.by_karpenter:
        node = node_of_type(group, kind)
        model = replace(model, cpu_m=node.cpu, memory_mib=node.memory)
    return replace(model, name=shape, min=0, initial=0)


def _capacity(kind: InstanceType) -> dict[str, int]:
    return {"cpu_m": kind.vcpu * 1000, "memory_mib": kind.memory_mib, "gpu": kind.gpu}


def _limits(group: NodeGroupSettings) -> dict[str, int]:
    """The resources that the group's `max` nodes would have."""
    gpu, vcpu = max((kind.gpu, kind.vcpu) for kind in group.types)
    limits = {"cpu_m": group.max * vcpu * 1000, "gpu": group.max * gpu}
    return {resource: most for resource, most in limits.items() if most and (resource == "gpu") == bool(gpu)}


def _listed(region: str, group: NodeGroupSettings) -> _Offers:
    """The types of the stack file with their prices, or their vCPUs if any of them has no price."""
    types = sorted(group.types, key=lambda kind: kind.name) if group.gpus_on_spot else group.types
    try:
        if group.kind is NodeKind.SPOT:
            return tuple((kind, spot_rate(region, kind).above_usd) for kind in types)
        return tuple((kind, on_demand(region, kind)) for kind in types)
    except NoPrice:
        return tuple((kind, float(kind.vcpu)) for kind in types)


def _alike(region: str, group: NodeGroupSettings) -> _Offers:
    """All sizes like the group's type; of a spot group the types that it lists, which may be of several families."""
    return _listed(region, group) if group.kind is NodeKind.SPOT else _of_family(region, group.types[0])


@cache
def _of_family(region: str, like: InstanceType) -> _Offers:
    """Types of the same processor and generation, of all sizes, with their prices; at least the type itself."""
    alike = _FAMILY.fullmatch(like.family)
    itself = ((like, like.usd_per_hour or float(like.vcpu)),)
    if alike is None:
        return itself
    offers: list[tuple[InstanceType, float]] = []
    for name in instance_type_names():
        other = _FAMILY.fullmatch(name.partition(".")[0])
        if other is None or other["model"] != alike["model"] or other["gpu"] != alike["gpu"] or ".metal" in name:
            continue
        kind = instance_type(name)
        if kind.gpu_model == like.gpu_model and kind.arch == like.arch and not kind.device:
            try:
                offers.append((kind, on_demand(region, kind)))
            except NoPrice:
                continue
    if like.name in (kind.name for kind, _ in offers):
        return tuple(offers)
    return itself


_FAMILY = re.compile(r"(?P<class>[cmr])(?P<model>\d.*)|(?P<gpu>[gp]\d.*)")


def with_windows(run: StrategyRun) -> StrategyResult:
    """The scaler owns the replicas; NodePools follow the window."""

    def control(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
        controlled_with_windows(config, world, tally, run.plan, run.setup.settings)

    return play(run, control)


def controlled_with_windows(
    config: ControllerConfig, world: World, tally: ActionCounts, plan: ClusterPlan, settings: StackSettings
) -> None:
    """Run the production loop to the end of the world, with the NodePools' budgets of the workload controller."""
    plan_node_budgets(config, world, plan, settings)
    controlled(config, world, tally)


def plan_node_budgets(config: ControllerConfig, world: World, plan: ClusterPlan, settings: StackSettings) -> None:
    """Plan the workload controller's writes of the NodePools' budgets.

    Budgets that Ebbtide writes begin closed; any others stay as they are.
    """
    written = [pool.name for pool in plan.node_pools if pool.budgets == BY_DAY]
    if written:
        closes_before = drain_guard(settings) - config.closing_guard
        by_night = budgets_of(settings.cluster.parallel_drains)
        for at, budgets in _turns(config, world, by_night, closes_before):
            world.timeline.at(at, _setter(written, world, budgets), BEFORE_THE_MODEL)


def _setter(pools: Sequence[str], world: World, budgets: tuple[DisruptionBudget, ...]) -> Callable[[], None]:
    def act() -> None:
        for pool in pools:
            world.cluster.set_node_budgets(pool, budgets)

    return act


def _turns(
    config: ControllerConfig, world: World, by_night: tuple[DisruptionBudget, ...], closes_before: timedelta
) -> list[tuple[float, tuple[DisruptionBudget, ...]]]:
    """The seconds at which the NodePools' budgets open, and close (`closes_before` earlier than the pods' budgets)."""
    begin = world.setup.start.astimezone(UTC)
    turns: list[tuple[float, tuple[DisruptionBudget, ...]]] = []
    if config.window.is_open(begin):
        turns.append((OPENS_AFTER_S, by_night))
    edge = config.window.next_change(begin)
    while edge is not None and (at := (edge - begin) / timedelta(seconds=1)) < world.setup.end_s:
        if config.window.is_open(edge):
            turns.append((at + OPENS_AFTER_S, by_night))
        else:
            turns.append((max(0.0, at - closes_before.total_seconds()), BY_DAY))
        edge = config.window.next_change(edge)
    return sorted(turns, key=lambda turn: turn[0])


def scaled_jobs(run: StrategyRun) -> StrategyResult:
    """KEDA starts a pod for each job; nothing else is scaled."""
    return play(run, _poll_queues)


def _poll_queues(config: ControllerConfig, world: World, tally: ActionCounts) -> None:  # noqa: ARG001 - a control's signature
    most = {pool.name: pool.max_workers for pool in config.pools}
    end_s = world.setup.end_s
    while world.timeline.now < end_s:
        world.notify_at = math.inf
        world.read_queues()
        idle = True
        for name, demand in world.views.demand.items():
            jobs = demand.waiting + demand.in_transit + demand.running
            if min(jobs, most[name]) > world.cluster.replicas(name):
                world.scale(name, min(jobs, most[name]))
            idle = idle and not jobs
        while idle and world.notify_at == math.inf and world.timeline.now < end_s:
            upcoming = world.timeline.next_time()
            world.timeline.run_until(end_s if upcoming is None else min(upcoming, end_s))
        poll_at = (world.timeline.now // POLL_S + 1) * POLL_S
        world.timeline.run_until(min(poll_at, end_s))
