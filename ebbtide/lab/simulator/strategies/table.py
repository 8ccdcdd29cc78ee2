"""The strategies that a replay compares: one `Definition` for each.

`fixed-flexible` is the product. Two strategies are steps on the way to it: the same workers and the same cluster
autoscaler on one mixed group (`cluster-autoscaling`), and also with budgets that never open (`worker-autoscaling`).
`keda-defaults` runs the latter under KEDA, with an autoscaler on its defaults. `fixed-flexible-spot` is the product on
a changed stack, with workers on spot nodes and checkpoints; `karpenter`, `managed-groups` and `karpenter-defaults`
have one provisioner for all groups. These four run only if they are named. The fleets scale nothing, and
the bound is calculated: no strategy that keeps the stack's groups can cost less without queueing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.lab.simulator.billing import open_spans
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplaySetup
from ebbtide.lab.simulator.strategies.bound import zero_wait_bound
from ebbtide.lab.simulator.strategies.constant import keep_peak_fleet, keep_smallest_fleet
from ebbtide.lab.simulator.strategies.karpenter import (
    default_node_pools,
    each_type,
    our_node_pools,
    scaled_jobs,
    stack_nodes,
    with_windows,
)
from ebbtide.lab.simulator.strategies.keda import keda
from ebbtide.lab.simulator.strategies.on_spot import spot_groups
from ebbtide.lab.simulator.strategies.plans import (
    EBBTIDE,
    JOB_PODS,
    STOCK,
    Flags,
    Topology,
    mixed_group,
    plan_of,
    separate_groups,
)
from ebbtide.lab.simulator.strategies.run import Owner, Progress, StrategyRun, production
from ebbtide.lab.simulator.strategies.steady import steady_nodes
from ebbtide.lab.simulator.world.world import ClusterPlan, WorldSetup
from ebbtide.settings.capacity.fallbacks import first_backoff
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.controller_config import ControllerConfig


@dataclass(frozen=True, slots=True)
class Definition:
    topology: Callable[[StackSettings], Topology]  # the stack and its node groups
    budgets: Callable[[ControllerConfig], ControllerConfig]  # those that the controller opens
    owner: Owner  # sets the replicas of the workers
    flags: Flags


def opened(config: ControllerConfig) -> ControllerConfig:
    """Budgets open in the disruption window."""
    return config


def closed(config: ControllerConfig) -> ControllerConfig:
    """Budgets never open."""
    return replace(config, budgets=())


STRATEGIES: Mapping[Strategy, Definition] = {
    Strategy.FIXED_FLEXIBLE: Definition(stack_nodes, opened, with_windows, EBBTIDE),
    Strategy.FIXED_FLEXIBLE_SPOT: Definition(spot_groups, opened, with_windows, EBBTIDE),
    Strategy.KARPENTER: Definition(our_node_pools, opened, with_windows, EBBTIDE),
    Strategy.MANAGED_GROUPS: Definition(separate_groups, opened, production, EBBTIDE),
    Strategy.CLUSTER_AUTOSCALING: Definition(mixed_group, opened, production, EBBTIDE),
    Strategy.WORKER_AUTOSCALING: Definition(mixed_group, closed, production, EBBTIDE),
    Strategy.FIXED_FLEET: Definition(steady_nodes, closed, keep_smallest_fleet, EBBTIDE),
    Strategy.PEAK_FLEET: Definition(steady_nodes, closed, keep_peak_fleet, EBBTIDE),
    Strategy.KEDA_DEFAULTS: Definition(mixed_group, closed, keda, STOCK),
    Strategy.KARPENTER_DEFAULTS: Definition(default_node_pools, closed, scaled_jobs, JOB_PODS),
    Strategy.ZERO_WAIT_BOUND: Definition(each_type, closed, zero_wait_bound, EBBTIDE),
}


class StrategyResults:
    """The strategies of one replay. Each is run once, when its result is first requested."""

    def __init__(self, setup: ReplaySetup, progress: Progress = lambda _strategy, _share: None) -> None:
        self._setup = setup
        self._progress = progress
        self._results: dict[Strategy, StrategyResult] = {}

    def of(self, strategy: Strategy) -> StrategyResult:
        if strategy not in self._results:
            run = self.run_of(strategy)
            self._results[strategy] = in_vcpu_hours(STRATEGIES[strategy].owner(run), run.plan)
        return self._results[strategy]

    def run_of(self, strategy: Strategy) -> StrategyRun:
        topology, plan = cluster_of(self._setup.settings, strategy)
        setup = self._setup.on_stack(topology.settings)
        return StrategyRun(
            strategy=strategy,
            setup=setup,
            plan=_in_zones(plan, setup),
            config=STRATEGIES[strategy].budgets(setup.config),
            world=world_setup_of(setup, strategy),
            result_of=self.of,
            progress=self._progress,
        )


def in_vcpu_hours(result: StrategyResult, plan: ClusterPlan) -> StrategyResult:
    """Return the result with the vCPU-hours of its nodes."""
    vcpu_hours = sum(hours * plan.money.vcpus[group] for group, hours in result.node_hours_by_group.items())
    return replace(result, vcpu_hours=vcpu_hours)


def _in_zones(plan: ClusterPlan, setup: ReplaySetup) -> ClusterPlan:
    """The plan with the zones of groups whose capacity is modelled."""
    if setup.accidents is None or (capacity := setup.accidents.capacity) is None:
        return plan
    zones = {name: tuple(spans) for name, spans in capacity.without.items()}

    def zoned(shape: GroupModel) -> GroupModel:
        return replace(shape, zones=zones.get(shape.name, shape.zones))

    return replace(
        plan,
        groups=tuple(map(zoned, plan.groups)),
        node_pools=tuple(
            replace(pool, types=tuple(replace(kind, shape=zoned(kind.shape)) for kind in pool.types))
            for pool in plan.node_pools
        ),
    )


def other_provisioner(settings: StackSettings) -> Strategy | None:
    """Return the product with the provisioner that the stack does not have; None on an existing cluster."""
    if settings.cluster.context is not None:
        return None
    return Strategy.MANAGED_GROUPS if settings.karpenter_groups else Strategy.KARPENTER


def cluster_plan(settings: StackSettings, strategy: Strategy) -> ClusterPlan:
    """The cluster of a strategy."""
    return cluster_of(settings, strategy)[1]


def cluster_of(settings: StackSettings, strategy: Strategy) -> tuple[Topology, ClusterPlan]:
    """Return the topology and the cluster of a strategy. `fixed-flexible` leaves the stack unchanged."""
    definition = STRATEGIES[strategy]
    topology = definition.topology(settings)
    return topology, plan_of(topology, definition.flags)


def world_setup_of(setup: ReplaySetup, strategy: Strategy) -> WorldSetup:
    flags = STRATEGIES[strategy].flags
    cluster = setup.settings.cluster
    autoscaler = flags.autoscaler if cluster.context is None else STOCK.autoscaler
    if autoscaler is EBBTIDE.autoscaler:
        autoscaler = replace(
            autoscaler,
            max_drain_parallelism=cluster.parallel_drains,
            first_backoff_s=first_backoff(setup.settings).total_seconds(),
        )
    return WorldSetup(
        start=setup.start,
        end_s=setup.end_s,
        seed=setup.seed,
        flags=autoscaler,
        safe_stop=flags.safe_stop,
        rollouts=setup.rollouts,
        jobs=setup.runs,
        asleep=setup.asleep,
        accidents=setup.accidents,
        open_spans=open_spans(setup.config.hours, setup.start, setup.end_s),
    )


def stack_with_changes(settings: StackSettings, strategies: Sequence[Strategy]) -> StackSettings:
    """The stack with the changes of all these strategies. A constant fleet runs nothing, so its nodes are no change."""
    for strategy in strategies:
        if STRATEGIES[strategy].topology is not steady_nodes:
            settings = STRATEGIES[strategy].topology(settings).settings
    return settings
