"""The nodes and pods of a strategy, as a plan for the modelled cluster.

A *topology* is the stack that a strategy runs, with its node groups: separate ones as in the stack file, or one mixed
group instead of the fixed and flexible ones. GPU groups are never mixed. *Flags* are the settings of pods and of the
cluster autoscaler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from ebbtide.kube.autoscaler import DELAY_AFTER_ADD, EXPANDER, THRESHOLD, UNREMOVABLE_RECHECK, unneeded_time
from ebbtide.kube.taints import GPU_TAINT, gpu_tolerations
from ebbtide.lab.simulator.billing import GroupRates
from ebbtide.lab.simulator.cluster.karpenter import NodePoolModel
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, GroupModel, WorkloadModel
from ebbtide.lab.simulator.results import UnpricedGroup
from ebbtide.lab.simulator.world.ray.drivers import size_of
from ebbtide.lab.simulator.world.ray.work import RayGroupPlan, RayPlan, workload_of_group, workload_of_head
from ebbtide.lab.simulator.world.saves import saves_of
from ebbtide.lab.simulator.world.schedules import every_job, workload_of
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.prices import (
    GroupRate,
    InstanceType,
    NoPrice,
    PricingAssumption,
    group_rate,
    has_rate,
    instance_type_names,
    on_demand,
    spot_typical,
    steady,
    unknown_spot_prices,
    usable,
)
from ebbtide.provisioning_labels import ARCH, Architecture, NodeKind
from ebbtide.settings.capacity.placed import PlacedPod, placed_pods, resident_pods
from ebbtide.settings.capacity.placement import (
    architecture,
    growth_ranks,
    head_size,
    home_of,
    offered,
    pod_size,
    suits,
    takes,
)
from ebbtide.settings.capacity.shapes_of_group import managed_parts, types_of_nodes
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.group import GroupPodSettings
from ebbtide.settings.sections.ray import RayGroup, RayHead, RaySettings
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.documents import from_settings
from ebbtide.vocabulary.labels import GPU_RESOURCE, NODE_GROUP, NODE_KIND, Category
from ebbtide.vocabulary.workloads import Sleep

NODE_BOOT_S = 120.0  # from launch to a node that takes pods
POD_START_S = 15.0  # pull, import and registration of a worker; readiness of a service
KUBERNETES_GRACE_S = 30.0
"""The grace period of a pod that does not set one."""

MIXED = "mixed"

FLAGS = AutoscalerFlags(
    scale_down_delay_after_add_s=DELAY_AFTER_ADD.total_seconds(),
    scale_down_delay_local=True,
    unremovable_recheck_s=UNREMOVABLE_RECHECK.total_seconds(),
    max_drain_parallelism=5,
    expander=EXPANDER,
    skip_nodes_with_local_storage=False,
    skip_nodes_with_system_pods=False,
)
"""Ebbtide's flags of the cluster autoscaler. `unneeded_time` and `THRESHOLD` are set for each group."""

_TOLERATES_GPUS = gpu_tolerations(GPU_RESOURCE)


@dataclass(frozen=True, slots=True)
class Flags:
    """The settings of pods and of the cluster autoscaler that a strategy has."""

    autoscaler: AutoscalerFlags
    tunes_groups: bool  # a group sets its unneeded time and its threshold
    safe_stop: bool  # a worker ends its job after SIGTERM
    gathers: bool  # pods prefer nodes with pods of their category, and workers are not spread: components.pods.rules
    job_pods: bool = False  # a pod ends with its job, and asks Karpenter not to disrupt it; services may move


EBBTIDE = Flags(FLAGS, tunes_groups=True, safe_stop=True, gathers=True)
STOCK = Flags(AutoscalerFlags(), tunes_groups=False, safe_stop=False, gathers=False)
"""The defaults of Kubernetes and of the cluster autoscaler."""
JOB_PODS = replace(STOCK, job_pods=True)


@dataclass(frozen=True, slots=True)
class Topology:
    """The stack that a strategy runs, its node groups, and the groups and kinds that the mixed group replaces."""

    settings: StackSettings
    groups: Mapping[str, GroupModel]
    source_of: Mapping[str, str]  # by group: the group of the stack file whose settings it has
    merged: frozenset[str] = frozenset()
    merged_kinds: frozenset[NodeKind] = frozenset()
    spot_interruptions: float = 0.0  # times the published rate, for a replay that sets no number
    assumptions: tuple[str, ...] = ()
    types: Mapping[str, InstanceType] = field(default_factory=dict[str, InstanceType])
    """The types of groups that are a part of a group of the stack file: a shape of a NodePool, or a managed group."""
    node_pools: tuple[NodePoolModel, ...] = ()

    def of_kind(self, kind: NodeKind, names: frozenset[str]) -> dict[str, str]:
        """The node selector of a pod that may run on the groups `names` of this kind."""
        return {NODE_GROUP: MIXED} if self.mixes(kind, names) else {NODE_KIND: kind.value}

    def mixes(self, kind: NodeKind, names: frozenset[str]) -> bool:
        return kind in self.merged_kinds and not (names and names.isdisjoint(self.merged))

    def type_of(self, name: str) -> InstanceType:
        """The instance type of a group, or of a shape of a NodePool."""
        return self.types.get(name) or self.settings.node_groups[self.source_of[name]].types[0]

    def shapes_of(self, names: frozenset[str]) -> frozenset[str]:
        """These groups of the stack file, as the modelled cluster names them."""
        return names | frozenset(name for name in self.types if self.source_of[name] in names)

    def of_group(self, group: str) -> dict[str, str]:
        return {NODE_GROUP: MIXED if group in self.merged else group}


def plan_of(topology: Topology, flags: Flags) -> ClusterPlan:
    """The cluster of a strategy."""
    settings = topology.settings
    groups = topology.groups.values()
    if not flags.tunes_groups:
        groups = [replace(group, scale_down_unneeded_s=None, utilization_threshold=None) for group in groups]
    return ClusterPlan(
        groups=tuple(groups),
        node_pools=topology.node_pools,
        job_pods=flags.job_pods,
        money=_money(topology),
        workloads=tuple(
            (_resident(pod, topology, flags), pod.initial)
            for pod in sorted(resident_pods(settings), key=lambda pod: pod.name)
        ),
        workers={name: _worker(name, spec, topology, flags) for name, spec in sorted(settings.workers.items())},
        saves=saves_of(settings.workers) if flags.safe_stop else {},
        jobs=tuple(
            _worker_pod(workload_of(name), spec, topology, flags, KUBERNETES_GRACE_S)
            for name, spec in sorted(every_job(settings).items())
        ),
        ray=tuple(_ray(name, spec, topology, flags) for name, spec in sorted(settings.ray.items())),
    )


def separate_groups(settings: StackSettings) -> Topology:
    """The managed groups of the stack file: a spot group with GPUs has one for each shape."""
    source_of: dict[str, str] = {}
    managed: dict[str, NodeGroupSettings] = {}
    for name, group in settings.node_groups.items():
        parts = managed_parts(name, group)
        managed |= parts
        source_of |= dict.fromkeys(parts, name)
    return topology_of(settings, managed, source_of)


def topology_of(
    settings: StackSettings, managed: Mapping[str, NodeGroupSettings], source_of: Mapping[str, str]
) -> Topology:
    """Managed groups with nodes of their first type. `source_of`: the group of the stack file, by managed group."""
    on_eks = settings.cluster.context is None
    zones = settings.cluster.zones if on_eks and any(spec.has_disks for spec in settings.all_workloads.values()) else ()
    ranks = growth_ranks(managed, settings.region)
    models = {name: replace(group_model(name, group, zones), rank=ranks[name]) for name, group in managed.items()}
    return Topology(
        settings,
        {name: replace(model, labels={**model.labels, NODE_GROUP: source_of[name]}) for name, model in models.items()},
        source_of,
        types={name: group.types[0] for name, group in managed.items() if name != source_of[name]},
    )


def mixed_group(settings: StackSettings) -> Topology:
    """One group of the largest flexible shape replaces all groups whose pods fit it.

    An existing cluster keeps its sets of nodes.
    """
    separate = separate_groups(settings)
    kinds = {name: group.kind for name, group in settings.node_groups.items()}
    flexible = [name for name, kind in kinds.items() if kind is NodeKind.FLEXIBLE]
    if not flexible or settings.cluster.context is not None:
        return separate

    def largest(name: str) -> tuple[bool, int, int, str]:
        shape = separate.groups[name]
        is_amd64 = architecture(settings.node_groups[name]) is Architecture.AMD64
        return is_amd64, shape.cpu_m, shape.memory_mib, name

    source = max(flexible, key=largest)
    shape = separate.groups[source]
    merged = frozenset(name for name, kind in kinds.items() if _all_fit(settings, name, kind, shape))
    mixed = GroupModel(
        name=MIXED,
        min=sum(settings.node_groups[name].min for name in merged),
        max=sum(settings.node_groups[name].max for name in merged),
        cpu_m=shape.cpu_m,
        memory_mib=shape.memory_mib,
        max_pods=shape.max_pods,
        priority=shape.priority,
        labels={NODE_GROUP: MIXED, ARCH: shape.labels[ARCH]},
        boot_s=NODE_BOOT_S,
        initial=sum(settings.node_groups[name].min for name in merged),
        scale_down_unneeded_s=shape.scale_down_unneeded_s,
        utilization_threshold=shape.utilization_threshold,
        zones=shape.zones,
    )
    unmerged = {name: group for name, group in separate.groups.items() if name not in merged}
    return Topology(
        settings,
        groups={MIXED: mixed, **unmerged},
        source_of={MIXED: source, **{name: separate.source_of[name] for name in unmerged}},
        types=separate.types,
        merged=merged,
        merged_kinds=frozenset(kinds[name] for name in merged),
    )


def sizes_on(settings: StackSettings, group: str) -> list[PodSize]:
    """Return the sizes of the pods that may run on the group's nodes."""
    return [pod.size for pod in placed_pods(settings) if group in pod.groups(settings.node_groups)]


def _all_fit(settings: StackSettings, group: str, kind: NodeKind, shape: GroupModel) -> bool:
    """True if nodes of `shape` can run every pod that may use the group."""
    replaced = settings.node_groups[group]
    if replaced.has_gpus or architecture(replaced) != shape.labels[ARCH]:
        return False
    sizes = sizes_on(settings, group)
    if kind is NodeKind.FIXED:
        sizes += [head_size(ray.head) for ray in settings.ray.values()]
    return all(size.cpu <= shape.cpu_m and size.memory <= shape.memory_mib and not size.gpu for size in sizes)


def group_model(name: str, group: NodeGroupSettings, zones: tuple[str, ...]) -> GroupModel:
    capacity = offered(usable(group.types[0]), group.reserved)
    ours = not group.existing  # Ebbtide taints its GPU nodes and sets the autoscaler's options of each group
    unneeded = unneeded_time(group.kind, gpus=group.has_gpus) if ours else None
    return GroupModel(
        name=name,
        min=group.min,
        max=group.max,
        cpu_m=capacity.cpu,
        memory_mib=capacity.memory,
        gpu=capacity.gpu,
        max_pods=capacity.pods,
        priority=group.growth_priority,
        labels={NODE_GROUP: name, NODE_KIND: group.kind.value, ARCH: architecture(group).value},
        taints=(GPU_TAINT,) if capacity.gpu and ours else (),
        boot_s=NODE_BOOT_S,
        initial=group.min,
        scale_down_unneeded_s=None if unneeded is None else unneeded.total_seconds(),
        utilization_threshold=None if unneeded is None else THRESHOLD,
        zones=zones,
    )


def _money(topology: Topology) -> GroupRates:
    """Spot groups have the typical spot price under every pricing assumption: no commitment covers them."""
    settings = topology.settings
    listed: dict[str, GroupRate] = {}
    assumed: dict[str, GroupRate] = {}
    floors = {name: model.min for name, model in topology.groups.items()}
    floors |= dict.fromkeys((name for name in topology.types if name not in floors), 0)
    for name, floor in floors.items():
        group = settings.node_groups[topology.source_of[name]]
        kind = topology.type_of(name)
        if list_price(settings.region, kind) is None:
            continue
        if group.kind is NodeKind.SPOT:
            listed[name] = assumed[name] = spot_rate(settings.region, kind)
            continue
        listed[name] = group_rate(settings.region, kind, PricingAssumption.ON_DEMAND, floor=floor)
        assumed[name] = group_rate(settings.region, kind, settings.costs.pricing_assumption, floor=floor)
    return GroupRates(
        assumed=assumed,
        on_demand=listed,
        with_spot=on_spot(settings, assumed, topology.source_of, topology.types),
        vcpus={name: topology.type_of(name).vcpu for name in topology.source_of},
    )


def spot_rate(region: str, instance: InstanceType) -> GroupRate:
    """The spot price; if no saving is known the on-demand price, the most that it costs (see `without_spot_price`)."""
    usd = spot_or_none(region, instance)
    price = on_demand(region, instance) if usd is None else usd
    return GroupRate(floor=0, floor_usd=price, above_usd=price)


def without_spot_price(settings: StackSettings) -> Mapping[str, InstanceType]:
    """Return the spot groups that a replay bills on demand, since no spot saving of their type is known.

    A type without a list price is not billed at all (`unpriced_groups`).
    """
    spot = {name: group for name, group in settings.node_groups.items() if group.kind is NodeKind.SPOT}
    types = types_of_nodes(settings.model_copy(update={"node_groups": spot}))
    return {name: kind for name, kind in types.items() if unknown_spot_prices(settings.region, (kind,))}


def on_spot(
    settings: StackSettings,
    rates: Mapping[str, GroupRate],
    source_of: Mapping[str, str],
    types: Mapping[str, InstanceType] | None = None,
) -> Mapping[str, GroupRate] | None:
    """The rates with flexible nodes above the floor at typical spot prices; None if a price is unknown."""
    cheaper = dict(rates)
    for name, rate in rates.items():
        group = settings.node_groups[source_of[name]]
        if group.kind is NodeKind.FLEXIBLE:
            usd = spot_or_none(settings.region, (types or {}).get(name) or group.types[0])
            if usd is None:
                return None
            cheaper[name] = replace(rate, above_usd=usd)
    return cheaper


def spot_or_none(region: str, instance: InstanceType) -> float | None:
    """Typical spot dollars an hour of an instance type; None if no saving is known."""
    try:
        return spot_typical(region, instance)
    except NoPrice:
        return None


def without_plan_rate(settings: StackSettings) -> tuple[str, ...]:
    """The groups whose steady nodes a replay bills on demand, since no discount of the assumed plan is known."""
    assumption = settings.costs.pricing_assumption
    groups = {name: group for name, group in settings.node_groups.items() if group.kind is not NodeKind.SPOT}
    return tuple(
        name
        for name, group in groups.items()
        if listed_usd(settings, name) is not None and not has_rate(settings.region, group.types[0], assumption)
    )


def listed_usd(settings: StackSettings, group: str) -> float | None:
    """On-demand dollars an hour of a group's node; None if it has no price."""
    return list_price(settings.region, settings.node_groups[group].types[0])


def list_price(region: str, kind: InstanceType) -> float | None:
    """On-demand dollars an hour; None without a price."""
    try:
        return on_demand(region, kind)
    except NoPrice:
        return None


def unpriced_groups(
    settings: StackSettings, types: Mapping[str, InstanceType] | None = None
) -> tuple[UnpricedGroup, ...]:
    """Return the groups whose nodes have no price. `types`: by group; None: those of the stack's replays.

    No region has a price for nodes of an existing cluster whose size the stack file describes.
    """
    created = settings.cluster.context is None
    return tuple(
        UnpricedGroup(
            name=name,
            instance_type=kind.name,
            region=settings.stated_region if created or kind.name in instance_type_names() else "",
        )
        for name, kind in (types_of_nodes(settings) if types is None else types).items()
        if list_price(settings.region, kind) is None
    )


def none_priced(settings: StackSettings) -> bool:
    """True if no node of the stack has a price."""
    return len(unpriced_groups(settings)) == len(types_of_nodes(settings))


def steady_usd(settings: StackSettings, group: str) -> float | None:
    """Dollars an hour of a node that always runs, so a commitment can cover it; None if it has no price."""
    if listed_usd(settings, group) is None:
        return None
    return steady(settings.region, settings.node_groups[group].types[0], settings.costs.pricing_assumption)


def vcpus(settings: StackSettings, group: str) -> int:
    """vCPUs of a group's node: the measure of fleets whose nodes have no price."""
    return settings.node_groups[group].types[0].vcpu


def node_weights(settings: StackSettings) -> Mapping[str, float]:
    """Return the hourly dollars of a steady node of each group, or its vCPUs if any group lacks a price.

    Use the weights to choose between groups. Dollars of some groups cannot be compared with vCPUs of others.
    """
    priced = {name: usd for name in settings.node_groups if (usd := steady_usd(settings, name)) is not None}
    return priced if len(priced) == len(settings.node_groups) else {n: vcpus(settings, n) for n in settings.node_groups}


def _resident(placed: PlacedPod, topology: Topology, flags: Flags) -> WorkloadModel:
    match placed.pod:
        case WorkloadSettings():
            return _workload(placed.name, placed.pod, topology, flags)
        case GroupPodSettings():  # a service or a pool may have its name
            return _worker_pod(placed.path, placed.pod, topology, flags, KUBERNETES_GRACE_S)
        case _:
            raise TypeError(type(placed.pod))


def _workload(name: str, spec: WorkloadSettings, topology: Topology, flags: Flags) -> WorkloadModel:
    """All pods on spot nodes may be evicted at once, within the two minutes of notice, but not by the autoscaler."""
    size = pod_size(spec)
    kind = home_of(spec)
    names = frozenset(name for name, group in topology.settings.node_groups.items() if takes(group, spec))
    return WorkloadModel(
        name=name,
        category=spec.category.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        gpu=size.gpu,
        node_selector=topology.of_kind(kind, names),
        groups=None if topology.mixes(kind, names) else topology.shapes_of(names),
        tolerations=_TOLERATES_GPUS if size.gpu else (),
        pdb_max_unavailable=spec.replicas if spec.on_spot else int(flags.job_pods and kind is not NodeKind.FIXED),
        safe_to_evict=False if spec.on_spot else None,
        startup_s=POD_START_S,
        gathers=flags.gathers,
        disks=spec.has_disks,
        spreads=spec.category is not Category.WORKER,  # the scheduler spreads no pods without a controller
    )


def _worker(name: str, spec: WorkerSettings, topology: Topology, flags: Flags) -> WorkloadModel:
    if not flags.safe_stop:
        return _worker_pod(name, spec, topology, flags, KUBERNETES_GRACE_S)
    model = _worker_pod(name, spec, topology, flags, float(grace_seconds(spec)))
    if not topology.settings.stopped_together(spec):
        return model
    # Its budget is open for all workers at once, and the autoscaler may not evict them (docs/adr/0025).
    return replace(model, pdb_max_unavailable=spec.max, safe_to_evict=False)


def _ray(name: str, spec: RaySettings, topology: Topology, flags: Flags) -> RayPlan:
    grace_s = spec.grace.total_seconds()
    return RayPlan(
        name=name,
        head=_ray_head(name, spec.head, topology, flags),
        groups=tuple(
            RayGroupPlan(
                worker=_ray_worker(workload_of_group(name, key), group, topology, flags, grace_s),
                size=size_of(group),
                min=group.min,
                max=group.max,
                idle_after_s=group.idle_after.total_seconds(),
            )
            for key, group in sorted(spec.groups.items())
        ),
        drivers=tuple(pool for pool, worker in sorted(topology.settings.workers.items()) if worker.ray == name),
        sleep=from_settings(Sleep, spec.sleep),
    )


def _ray_head(cluster: str, head: RayHead, topology: Topology, flags: Flags) -> WorkloadModel:
    size = head_size(head)
    groups = topology.settings.node_groups.items()
    names = frozenset(name for name, group in groups if group.kind is NodeKind.FIXED and suits(group, head))
    return WorkloadModel(
        name=workload_of_head(cluster),
        category=Category.FIXED.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        node_selector=topology.of_kind(NodeKind.FIXED, names),
        groups=None if topology.mixes(NodeKind.FIXED, names) else topology.shapes_of(names),
        pdb_max_unavailable=0,
        startup_s=POD_START_S,
        gathers=flags.gathers,
    )


def _ray_worker(name: str, group: RayGroup, topology: Topology, flags: Flags, grace_s: float) -> WorkloadModel:
    """All pods of a spot group may be evicted at once, within the two minutes of notice, but not by the autoscaler."""
    model = _worker_pod(name, group, topology, flags, grace_s)
    return replace(model, pdb_max_unavailable=group.max, safe_to_evict=False) if group.spot else model


class _Nodes(TypedDict):
    """Fields of a workload's model."""

    node_selector: Mapping[str, str]
    one_of: frozenset[str] | None
    prefers: str


def _nodes_of(spec: GroupPodSettings, topology: Topology) -> _Nodes:
    if isinstance(spec, WorkerSettings) and spec.fallback:
        labels = [topology.of_group(group)[NODE_GROUP] for group in topology.settings.groups_of(spec)]
        return {"node_selector": {}, "one_of": frozenset(labels), "prefers": labels[0]}
    return {"node_selector": topology.of_group(spec.node_group), "one_of": None, "prefers": ""}


def _worker_pod(name: str, spec: GroupPodSettings, topology: Topology, flags: Flags, grace_s: float) -> WorkloadModel:
    size = pod_size(spec)
    return WorkloadModel(
        name=name,
        category=Category.WORKER.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        gpu=size.gpu,
        **_nodes_of(spec, topology),
        tolerations=_TOLERATES_GPUS if size.gpu else (),
        pdb_max_unavailable=None if flags.job_pods else 0,
        do_not_disrupt=flags.job_pods,
        grace_s=grace_s,
        startup_s=POD_START_S,
        gathers=flags.gathers,
        spreads=not flags.gathers,
    )
