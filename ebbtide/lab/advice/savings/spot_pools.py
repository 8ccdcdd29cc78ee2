"""Offer spot nodes for GPU pools with checkpoints, if a replay says that they cost less.

The pools move together: each to a spot group of its node group's types, with the old group as its fallback. Nodes are
interrupted at the published rate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ebbtide.lab.advice.adapt import group_keys
from ebbtide.lab.report.pages.sentences import small_share
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Replay, Strategy
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.strategies.on_spot import spot_twin
from ebbtide.lab.simulator.strategies.plans import without_spot_price
from ebbtide.lab.simulator.strategies.run import Progress
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.preview.cost.alternatives import WORTH_SAYING
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import fits, node_of, pod_size, suits
from ebbtide.settings.capacity.shapes_of_group import LONGEST_NAME
from ebbtide.settings.checks.checkpoints import LONGEST_SPOT_SAVE
from ebbtide.settings.checks.spot_cautions import spot_cautions
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.text.counts import percent
from ebbtide.text.durations import duration
from ebbtide.text.money import dollars

_STRATEGY = Strategy.FIXED_FLEXIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOffer:
    """Pools that would cost less on spot nodes; dollars of the replayed time."""

    pools: dict[str, str]  # the new node group of each pool
    lines: tuple[str, ...]  # to write into the stack file
    usd: float
    usd_on_spot: float
    completion_p95_s: float
    completion_p95_on_spot_s: float
    lost_work_share: float
    cautions: tuple[str, ...]  # of the changed stack, about the new node groups
    capacity: str  # the file of missing capacity; empty: AWS always has some

    def sentences(self) -> Iterator[str]:
        yield (
            f"On spot nodes the GPU pools with checkpoints ({', '.join(self.pools)}) cost less: {_STRATEGY} costs "
            f"{dollars(self.usd_on_spot)} instead of {dollars(self.usd)} in this replay "
            f"({percent(1 - self.usd_on_spot / self.usd)} less). 95 % of the jobs complete within "
            f"{duration(self.completion_p95_on_spot_s)} instead of {duration(self.completion_p95_s)}, and "
            f"{small_share(self.lost_work_share)} of the work is repeated."
        )
        capacity = f"capacity is that of {self.capacity}" if self.capacity else "AWS always has capacity"
        yield f"Nodes are interrupted at the published rate here, and {capacity}. Write:"
        yield from (f"  {line}" for line in self.lines)
        yield from self.cautions


def spot_offer(
    settings: StackSettings,
    trace: Trace,
    options: ReplayOptions,
    replay: Replay,
    progress: Progress = lambda _strategy, _share: None,
) -> SpotOffer | None:
    """Replay the stack with the pools on spot nodes; None if no pool can move, or if it costs about the same or more.

    A cost with fewer jobs done is no saving, so there is no offer if more jobs remain unfinished.

    `replay` is that of the stack with `options`. A type without a typical spot price makes no offer.
    """
    today = replay.strategies.get(_STRATEGY)
    moved, pools = with_gpu_pools_on_spot(settings)
    unknown = without_spot_price(moved).keys() - without_spot_price(settings).keys()
    if today is None or not today.usd or not replay.states_saving or not pools or unknown:
        return None
    interrupted = replace(options.failures, spot_interruptions=options.failures.spot_interruptions or 1.0)
    same = replace(options, start=replay.start, strategies=(_STRATEGY,), failures=interrupted)
    spot = StrategyResults(replay_setup_of(moved, trace, same), progress).of(_STRATEGY)
    if spot.jobs_unfinished > today.jobs_unfinished:
        return None
    if spot.usd is None or spot.usd > (1 - WORTH_SAYING) * today.usd:
        return None
    return SpotOffer(
        pools=pools,
        lines=tuple(offer_lines(settings, moved, pools)),
        usd=today.usd,
        usd_on_spot=spot.usd,
        completion_p95_s=today.completion_p95_s,
        completion_p95_on_spot_s=spot.completion_p95_s,
        lost_work_share=spot.lost_work_share,
        cautions=tuple(cautions_of(moved, pools)),
        capacity="" if options.spot_capacity is None else options.spot_capacity.name,
    )


def with_gpu_pools_on_spot(settings: StackSettings) -> tuple[StackSettings, dict[str, str]]:
    """Return the stack with its GPU pools with checkpoints on spot groups, and the new group of each pool."""
    groups, workers = dict(settings.node_groups), dict(settings.workers)
    pools = {name: pool for name, pool in settings.workers.items() if _can_move(settings, pool)}
    spot: dict[str, str] = {}
    for name, pool in pools.items():
        spot[pool.node_group] = spot.get(pool.node_group) or _free_name(pool.node_group, groups)
        groups[spot[pool.node_group]] = spot_twin(groups[pool.node_group]).with_fallback()
        saved = pool.checkpoints and pool.checkpoints.model_copy(update={"required": True})
        update = {"node_group": spot[pool.node_group], "fallback": pool.node_group, "checkpoints": saved}
        workers[name] = pool.model_copy(update=update)
    changed = settings.model_copy(update={"node_groups": groups, "workers": workers})
    return changed, {name: workers[name].node_group for name in pools}


def _can_move(settings: StackSettings, pool: WorkerSettings) -> bool:
    group = settings.node_groups.get(pool.node_group)
    return (
        group is not None
        and group.kind is NodeKind.GPU
        and group.shape is None
        and pool.checkpoints is not None
        and pool.checkpoints.save_within <= LONGEST_SPOT_SAVE
        and suits(spot_twin(group), pool)
        and fits(pod_size(pool), node_of(spot_twin(group)))  # Karpenter's smaller types may not hold the pod
    )


def _free_name(group: str, taken: Mapping[str, object]) -> str:
    names = (f"{group}-spot", *(f"spot-{number}" for number in range(1, len(taken) + 2)))
    return next(name for name in names if name not in taken and len(name) <= LONGEST_NAME)


def offer_lines(settings: StackSettings, moved: StackSettings, pools: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the stack file that move the pools."""
    yield "ebbtide:nodeGroups:"
    for name in dict.fromkeys(pools.values()):
        keys = group_keys(name, moved.node_groups[name], settings.cluster.provisioner)
        yield f"  {name}: {{ {', '.join(keys)} }}"
    yield "ebbtide:workers:"
    for name, group in pools.items():
        checkpoints = settings.workers[name].checkpoints
        required = "" if checkpoints and checkpoints.required else ", checkpoints: { …, required: true }"
        yield f"  {name}: {{ …, nodeGroup: {group}, fallback: {settings.workers[name].node_group}{required} }}"
    yield "# add instance types to the spot groups: each is one more chance for a node"


def cautions_of(moved: StackSettings, pools: dict[str, str]) -> Iterator[str]:
    """Yield the cautions of `check` about the new groups."""
    places = tuple(f"nodeGroups.{group}." for group in pools.values())
    yield from (
        f"{caution.place}: {caution.text}" for caution in spot_cautions(moved) if caution.place.startswith(places)
    )
