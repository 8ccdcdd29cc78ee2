"""The strategies that a replay sets side by side, as plans for the modelled cluster.

`fixed-flexible` is the product, and `fixed-flexible-spot` the product on another stack, with the workers on spot nodes
and checkpoints (`on_spot`): that is played only when it is named. Two are the product's own first steps: the same
workers and the same autoscaler, but one mixed group instead of fixed and flexible ones (`cluster-autoscaling`), and
then budgets that never open as well (`worker-autoscaling`). `keda-defaults` is that last one under KEDA and an
autoscaler with its own defaults. `fixed-fleet` and `peak-fleet` scale nothing, and `zero-wait-bound` is calculated, not
run: no strategy that keeps the stack's groups can cost less without queueing. GPU groups stay apart in all of them: no
one runs them mixed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.prices import (
    GroupRate,
    NoPrice,
    PricingAssumption,
    group_rate,
    hourly,
    instance_type,
    on_demand,
    spot_typical,
    usable,
)
from ebbtide.provisioning_labels import ARCH, GPU_TAINT_KEY, GPU_TAINT_VALUE, Architecture, NodeKind
from ebbtide.settings.model import StackSettings
from ebbtide.settings.placement import architecture, head_size, home_of, offered, pod_size, suits, takes
from ebbtide.settings.process_documents import sleep_of
from ebbtide.settings.sections.jobs import JobSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import RayGroup, RayHead, RaySettings
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.simulator.billing import Rates
from ebbtide.simulator.cluster.model import AutoscalerFlags, GroupModel, Taint, WorkloadModel
from ebbtide.simulator.world.ray.drivers import size_of
from ebbtide.simulator.world.ray.work import RayGroupPlan, RayPlan, workload_of_group, workload_of_head
from ebbtide.simulator.world.saves import saves_of
from ebbtide.simulator.world.schedules import every_job, workload_of
from ebbtide.simulator.world.world import ClusterPlan
from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND, Category

NODE_BOOT_S = 120.0  # from launch to a node that takes pods
POD_START_S = 15.0  # pull, import and registration of a worker; readiness of a service
KUBERNETES_GRACE_S = 30.0
"""Of a pod that states none."""

MIXED = "mixed"

FLAGS = AutoscalerFlags(
    scale_down_delay_after_add_s=180.0,
    scale_down_delay_local=True,
    unremovable_recheck_s=60.0,
    max_drain_parallelism=5,
    expander="priority,least-waste",
    skip_nodes_with_local_storage=False,
    skip_nodes_with_system_pods=False,
)
"""What the product tells the autoscaler for all groups; what it says of a group is in `UNNEEDED_S` and `THRESHOLD`."""

UNNEEDED_S: Mapping[NodeKind, float] = {NodeKind.FLEXIBLE: 60.0, NodeKind.GPU: 180.0, NodeKind.SPOT: 60.0}
THRESHOLD = 0.65
"""As the tags of the Auto Scaling groups say. Fixed groups have none: the autoscaler's careful defaults hold for them.
Where nobody set the product's flags, nobody set its tags either."""

_GPU_TAINT = Taint(GPU_TAINT_KEY, GPU_TAINT_VALUE)


class Strategy(StrEnum):
    """In the order of their results."""

    FIXED_FLEXIBLE = "fixed-flexible"
    FIXED_FLEXIBLE_SPOT = "fixed-flexible-spot"
    CLUSTER_AUTOSCALING = "cluster-autoscaling"
    WORKER_AUTOSCALING = "worker-autoscaling"
    FIXED_FLEET = "fixed-fleet"
    PEAK_FLEET = "peak-fleet"
    KEDA_DEFAULTS = "keda-defaults"
    ZERO_WAIT_BOUND = "zero-wait-bound"

    @property
    def separates(self) -> bool:
        """Whether fixed pods have nodes of their own."""
        return self not in (Strategy.CLUSTER_AUTOSCALING, Strategy.WORKER_AUTOSCALING, Strategy.KEDA_DEFAULTS)

    @property
    def opens_budgets(self) -> bool:
        return self in (Strategy.FIXED_FLEXIBLE, Strategy.FIXED_FLEXIBLE_SPOT, Strategy.CLUSTER_AUTOSCALING)

    @property
    def stops_safely(self) -> bool:
        """Whether a worker that is told to stop ends its job first."""
        return self is not Strategy.KEDA_DEFAULTS

    @property
    def gathers(self) -> bool:
        """Whether pods prefer nodes with pods of their category, and workers are not spread: components.pods.rules."""
        return self is not Strategy.KEDA_DEFAULTS

    @property
    def flags(self) -> AutoscalerFlags:
        """What the autoscaler is told; by whoever runs KEDA, nothing."""
        return AutoscalerFlags() if self is Strategy.KEDA_DEFAULTS else FLAGS


DEFAULT_STRATEGIES = tuple(strategy for strategy in Strategy if strategy is not Strategy.FIXED_FLEXIBLE_SPOT)
"""What is shown when nobody chooses: ways to run the stack as it is. The fleets and the bound take next to no time."""


def cluster_plan(settings: StackSettings, strategy: Strategy) -> ClusterPlan:
    """The strategy's cluster. Raises `ebbtide.prices.NoPrice` if a node cannot be priced."""
    homes = _separate_homes(settings) if strategy.separates else _mixed_homes(settings)
    groups = homes.groups.values()
    if strategy.flags is not FLAGS:
        groups = [replace(group, scale_down_unneeded_s=None, utilization_threshold=None) for group in groups]
    return ClusterPlan(
        groups=tuple(groups),
        money=_money(settings, homes),
        workloads=tuple(
            (_workload(name, spec, homes, _homes_of(settings, spec), gathers=strategy.gathers), spec.replicas)
            for name, spec in sorted(settings.all_workloads.items())
        ),
        workers={
            name: _worker(name, spec, homes, strategy, together=settings.stopped_together(spec))
            for name, spec in sorted(settings.workers.items())
        },
        saves=saves_of(settings.workers) if strategy.stops_safely else {},
        jobs=tuple(_job(name, spec, homes, strategy) for name, spec in sorted(every_job(settings).items())),
        ray=tuple(_ray(settings, name, spec, homes, strategy) for name, spec in sorted(settings.ray.items())),
    )


@dataclass(frozen=True, slots=True)
class _Homes:
    """The groups of a strategy, whose settings each has, and the groups and kinds that the mixed one took in."""

    groups: Mapping[str, GroupModel]
    source_of: Mapping[str, str]
    merged: frozenset[str] = frozenset()
    merged_kinds: frozenset[NodeKind] = frozenset()

    def of_kind(self, kind: NodeKind, names: frozenset[str]) -> dict[str, str]:
        """`names`: the groups of the kind that the pod may go to."""
        return {NODE_GROUP: MIXED} if self.mixes(kind, names) else {NODE_KIND: kind.value}

    def mixes(self, kind: NodeKind, names: frozenset[str]) -> bool:
        return kind in self.merged_kinds and not (names and names.isdisjoint(self.merged))

    def of_group(self, group: str) -> dict[str, str]:
        return {NODE_GROUP: MIXED if group in self.merged else group}


def _separate_homes(settings: StackSettings) -> _Homes:
    zones = settings.cluster.zones if any(spec.has_disks for spec in settings.all_workloads.values()) else ()
    groups = {name: _group(name, group, zones) for name, group in settings.node_groups.items()}
    return _Homes(groups, {name: name for name in groups})


def _mixed_homes(settings: StackSettings) -> _Homes:
    """One group of the largest flexible shape takes the place of all groups whose pods fit it."""
    separate = _separate_homes(settings)
    kinds = {name: group.kind for name, group in settings.node_groups.items()}
    flexible = [name for name, kind in kinds.items() if kind is NodeKind.FLEXIBLE]
    if not flexible:
        return separate

    def largest(name: str) -> tuple[bool, int, int, str]:
        shape = separate.groups[name]
        usual = architecture(settings.node_groups[name]) is Architecture.AMD64
        return usual, shape.cpu_m, shape.memory_mib, name

    pattern = max(flexible, key=largest)
    shape = separate.groups[pattern]
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
    kept = {name: group for name, group in separate.groups.items() if name not in merged}
    return _Homes(
        groups={MIXED: mixed, **kept},
        source_of={MIXED: pattern, **{name: name for name in kept}},
        merged=merged,
        merged_kinds=frozenset(kinds[name] for name in merged),
    )


def _all_fit(settings: StackSettings, group: str, kind: NodeKind, shape: GroupModel) -> bool:
    its_own = settings.node_groups[group]
    if kind is NodeKind.GPU or architecture(its_own) != shape.labels[ARCH]:
        return False
    pods: list[PodSettings] = [spec for spec in settings.all_workloads.values() if takes(its_own, spec)]
    pods += [spec for spec in settings.workers.values() if spec.node_group == group]
    pods += [spec for spec in every_job(settings).values() if spec.node_group == group]
    pods += [spec for ray in settings.ray.values() for spec in ray.groups.values() if spec.node_group == group]
    sizes = [pod_size(spec) for spec in pods]
    if kind is NodeKind.FIXED:
        sizes += [head_size(ray.head) for ray in settings.ray.values()]
    return all(size.cpu <= shape.cpu_m and size.memory <= shape.memory_mib and not size.gpu for size in sizes)


def _group(name: str, group: NodeGroupSettings, zones: tuple[str, ...]) -> GroupModel:
    room = offered(usable(instance_type(group.instance_types[0])), group.reserved)
    return GroupModel(
        name=name,
        min=group.min,
        max=group.max,
        cpu_m=room.cpu,
        memory_mib=room.memory,
        gpu=room.gpu,
        max_pods=room.pods,
        priority=group.growth_priority,
        labels={NODE_GROUP: name, NODE_KIND: group.kind.value, ARCH: architecture(group).value},
        taints=(_GPU_TAINT,) if room.gpu else (),
        boot_s=NODE_BOOT_S,
        initial=group.min,
        scale_down_unneeded_s=UNNEEDED_S.get(group.kind),
        utilization_threshold=THRESHOLD if group.kind in UNNEEDED_S else None,
        zones=zones,
    )


def _money(settings: StackSettings, homes: _Homes) -> Rates:
    """Spot groups at the typical spot price, whatever the plan, which covers none of them."""
    listed: dict[str, GroupRate] = {}
    assumed: dict[str, GroupRate] = {}
    for name, model in homes.groups.items():
        group = settings.node_groups[homes.source_of[name]]
        kind = group.instance_types[0]
        if group.kind is NodeKind.SPOT:
            listed[name] = assumed[name] = _spot_rate(settings.region, kind)
            continue
        listed[name] = group_rate(settings.region, kind, PricingAssumption.ON_DEMAND, floor=model.min)
        assumed[name] = group_rate(settings.region, kind, settings.costs.pricing_assumption, floor=model.min)
    return Rates(assumed=assumed, on_demand=listed, with_spot=on_spot(settings, assumed, homes.source_of))


def _spot_rate(region: str, instance: str) -> GroupRate:
    """On demand where no saving is known: `without_spot_price` names those."""
    usd = spot_or_none(region, instance)
    price = on_demand(region, instance) if usd is None else usd
    return GroupRate(floor=0, floor_usd=price, above_usd=price)


def without_spot_price(settings: StackSettings) -> tuple[str, ...]:
    """The spot groups that a replay bills on demand."""
    groups = {name: group for name, group in settings.node_groups.items() if group.kind is NodeKind.SPOT}
    return tuple(name for name, it in groups.items() if spot_or_none(settings.region, it.instance_types[0]) is None)


def on_spot(
    settings: StackSettings, rates: Mapping[str, GroupRate], source_of: Mapping[str, str]
) -> Mapping[str, GroupRate] | None:
    """The same rates with flexible nodes above the floor at typical spot prices; None if one is not known."""
    cheaper = dict(rates)
    for name, rate in rates.items():
        group = settings.node_groups[source_of[name]]
        if group.kind is NodeKind.FLEXIBLE:
            usd = spot_or_none(settings.region, group.instance_types[0])
            if usd is None:
                return None
            cheaper[name] = replace(rate, above_usd=usd)
    return cheaper


def spot_or_none(region: str, instance: str) -> float | None:
    """Typical spot dollars an hour of an instance type; None where no saving is known."""
    try:
        return spot_typical(region, instance)
    except NoPrice:
        return None


def steady_usd(settings: StackSettings, group: str) -> float:
    """US dollars an hour of one node that always runs, so that a plan can cover it. Raises `NoPrice`."""
    kind = settings.node_groups[group].instance_types[0]
    return hourly(settings.region, kind, settings.costs.pricing_assumption)


def _homes_of(settings: StackSettings, spec: WorkloadSettings) -> frozenset[str]:
    return frozenset(name for name, group in settings.node_groups.items() if takes(group, spec))


def _workload(
    name: str, spec: WorkloadSettings, homes: _Homes, names: frozenset[str], *, gathers: bool
) -> WorkloadModel:
    """On spot nodes all of them may be evicted, as a node's two minutes ask for, and none by the autoscaler."""
    size = pod_size(spec)
    kind = home_of(spec)
    return WorkloadModel(
        name=name,
        category=spec.category.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        gpu=size.gpu,
        node_selector=homes.of_kind(kind, names),
        groups=None if homes.mixes(kind, names) else names,
        tolerations=(_GPU_TAINT,) if size.gpu else (),
        pdb_max_unavailable=spec.replicas if spec.on_spot else 0,
        safe_to_evict=False if spec.on_spot else None,
        startup_s=POD_START_S,
        gathers=gathers,
        disks=spec.has_disks,
    )


def _worker(name: str, spec: WorkerSettings, homes: _Homes, strategy: Strategy, *, together: bool) -> WorkloadModel:
    """`together`: its budget is open to all at once, and the autoscaler kept away (docs/adr/0025)."""
    if not strategy.stops_safely:
        return _of_category_worker(name, spec, spec.node_group, homes, strategy, KUBERNETES_GRACE_S)
    model = _of_category_worker(name, spec, spec.node_group, homes, strategy, float(grace_seconds(spec)))
    return replace(model, pdb_max_unavailable=spec.max, safe_to_evict=False) if together else model


def _job(name: str, spec: JobSettings, homes: _Homes, strategy: Strategy) -> WorkloadModel:
    return _of_category_worker(workload_of(name), spec, spec.node_group, homes, strategy, KUBERNETES_GRACE_S)


def _ray(settings: StackSettings, name: str, spec: RaySettings, homes: _Homes, strategy: Strategy) -> RayPlan:
    grace_s = spec.grace.total_seconds()
    return RayPlan(
        name=name,
        head=_ray_head(name, spec.head, homes, _homes_of_head(settings, spec.head), gathers=strategy.gathers),
        groups=tuple(
            RayGroupPlan(
                worker=_ray_worker(workload_of_group(name, key), group, homes, strategy, grace_s),
                size=size_of(group),
                min=group.min,
                max=group.max,
                idle_after_s=group.idle_after.total_seconds(),
            )
            for key, group in sorted(spec.groups.items())
        ),
        drivers=tuple(pool for pool, worker in sorted(settings.workers.items()) if worker.ray == name),
        sleep=sleep_of(spec.sleep),
    )


def _homes_of_head(settings: StackSettings, head: RayHead) -> frozenset[str]:
    fixed = {name: group for name, group in settings.node_groups.items() if group.kind is NodeKind.FIXED}
    return frozenset(name for name, group in fixed.items() if suits(group, head))


def _ray_head(cluster: str, head: RayHead, homes: _Homes, names: frozenset[str], *, gathers: bool) -> WorkloadModel:
    size = head_size(head)
    return WorkloadModel(
        name=workload_of_head(cluster),
        category=Category.FIXED.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        node_selector=homes.of_kind(NodeKind.FIXED, names),
        groups=None if homes.mixes(NodeKind.FIXED, names) else names,
        pdb_max_unavailable=0,
        startup_s=POD_START_S,
        gathers=gathers,
    )


def _ray_worker(name: str, group: RayGroup, homes: _Homes, strategy: Strategy, grace_s: float) -> WorkloadModel:
    """A group on spot may be evicted as a whole, as its nodes' two minutes ask for, and never by the autoscaler."""
    model = _of_category_worker(name, group, group.node_group, homes, strategy, grace_s)
    return replace(model, pdb_max_unavailable=group.max, safe_to_evict=False) if group.spot else model


def _of_category_worker(
    name: str, spec: PodSettings, node_group: str, homes: _Homes, strategy: Strategy, grace_s: float
) -> WorkloadModel:
    size = pod_size(spec)
    return WorkloadModel(
        name=name,
        category=Category.WORKER.value,
        cpu_m=size.cpu,
        memory_mib=size.memory,
        gpu=size.gpu,
        node_selector=homes.of_group(node_group),
        tolerations=(_GPU_TAINT,) if size.gpu else (),
        pdb_max_unavailable=0,
        grace_s=grace_s,
        startup_s=POD_START_S,
        gathers=strategy.gathers,
        spreads=not strategy.gathers,
    )
