"""The nights of a stack without worker pools: which nodes go, for how long, and what that saves.

A stack of adopted pods has no queue, so no trace can be replayed on it. Its pods are there at all times, except while
they sleep. The production loop opens and closes their budgets in the modelled cluster, beside the same pods that never
sleep and whose budgets never open.

All pods wait for nodes at second 0, and the provisioners launch nodes for them together. A cluster that grew over weeks
is less tightly packed, so more of its nodes can go: only the running cluster shows that (`ebbtide adopt`).
"""

import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from ebbtide.lab.simulator.billing import open_spans, total, usd_per_day
from ebbtide.lab.simulator.replay.assumptions import estimated_prices, night_assumptions, price_dates
from ebbtide.lab.simulator.results import SCHEMA, ClusterSeries, Coverage, Replay, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplayOptions, ReplaySetup, night_setup_of
from ebbtide.lab.simulator.strategies.karpenter import LARGEST_TYPES, stack_nodes
from ebbtide.lab.simulator.strategies.plans import unpriced_groups
from ebbtide.lab.simulator.strategies.run import Progress, production
from ebbtide.lab.simulator.strategies.table import StrategyResults, closed, in_vcpu_hours
from ebbtide.lab.simulator.world.schedules import job_assumptions
from ebbtide.prices import GroupRate
from ebbtide.settings.capacity.node_sets import constant_groups
from ebbtide.settings.capacity.packing import Waiting, grown, nodes_of
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S, HOUR_S

WITH, WITHOUT = Strategy.FIXED_FLEXIBLE.value, "never-moved"
"""The product, and the same pods without it."""

_LAUNCHED_S = HOUR_S
"""The nodes of second 0 have started by this time. Earlier node counts are too low and are ignored."""

_PLACEMENT = (
    "At second 0 all pods wait for nodes, which are launched for them together, so they begin tightly packed. Pods of "
    "a cluster that grew over weeks are spread over more nodes: then more nodes go in the first nights than here."
)
_WITHOUT = (
    f"{WITHOUT} is the stack without Ebbtide: the same pods on the same kinds of nodes never sleep, and their budgets "
    "never open. Without any budgets, pods could also be moved in business hours; that is not replayed."
)
_SERVICES = "Services keep their replicas: no requests are replayed, and no autoscaler changes the number."


@dataclass(frozen=True, slots=True, kw_only=True)
class NightGroup:
    """The nodes of one group, or set of nodes, over the replay. Nodes of all types count alike."""

    name: str
    nodes: int  # at most, without Ebbtide
    at_night: int  # the fewest outside business hours
    hours_fewer: float  # with fewer nodes than without Ebbtide
    node_hours: float
    node_hours_without: float
    usd: float | None  # None: a node that ran has no price
    usd_without: float | None
    empty: float | None = None  # mean nodes without a pod outside business hours, if no autoscaler removes them


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReplay:
    """The result of `ebbtide simulate STACK` without a trace. `replay` has the two courses, `WITH` and `WITHOUT`."""

    replay: Replay
    groups: tuple[NightGroup, ...]
    too_many: Mapping[str, int]  # nodes that the pods need, of groups whose `max` is lower

    @property
    def result(self) -> StrategyResult:
        return self.replay.strategies[WITH]

    @property
    def without(self) -> StrategyResult:
        return self.replay.strategies[WITHOUT]


def has_pools(settings: StackSettings) -> bool:
    """True if the stack has pools of workers, which take the jobs of a trace."""
    return bool(with_adopted_pools(settings).workers)


def replay_nights(
    settings: StackSettings, options: ReplayOptions, progress: Progress = lambda _strategy, _share: None
) -> NightReplay:
    """Play the calendar of a stack without pools, with Ebbtide and without. Raises `ReplayError`."""
    began = time.perf_counter()
    setup = night_setup_of(settings, options)
    results = StrategyResults(setup, progress)
    run, played = results.run_of(Strategy.FIXED_FLEXIBLE), results.of(Strategy.FIXED_FLEXIBLE)
    unmoved = production(replace(run, config=closed(run.config), world=replace(run.world, asleep=())))
    unmoved = in_vcpu_hours(unmoved, run.plan)
    group_of = {shape.name: shape.name.partition("/")[0] for shape in run.plan.shapes}
    groups = _groups(setup, (played, unmoved), group_of, run.plan.rates)
    settings = setup.settings
    constant = {name: settings.node_groups[name].max for name in constant_groups(settings)}
    return NightReplay(
        replay=Replay(
            seed=options.seed,
            stack=settings.stack,
            trace="",
            start=setup.start,
            days=round(setup.end_s / DAY_S),
            max_job_s=None,
            assumptions=(
                _PLACEMENT,
                _WITHOUT,
                *([_SERVICES] if settings.services else []),
                *night_assumptions(settings, resync=setup.config.resync, rollouts=options.rollouts),
                *job_assumptions(settings),
                *(text for text in stack_nodes(settings).assumptions if text != LARGEST_TYPES),
            ),
            coverage=Coverage(jobs=1.0, cpu_hours=1.0),
            jobs_unfit={},
            open_spans=open_spans(setup.config.hours, setup.start, setup.end_s),
            strategies={WITH: played, WITHOUT: unmoved},
            replay_seconds=time.perf_counter() - began,
            rollouts=options.rollouts,
            price_dates=price_dates(settings.region),
            estimated_prices=estimated_prices(settings),
            unpriced=unpriced_groups(settings),
            constant_nodes=constant,
        ),
        groups=groups,
        too_many=_too_many(settings),
    )


def _too_many(settings: StackSettings) -> dict[str, int]:
    pods = [Waiting(pod.size, pod.initial, pod.groups(settings.node_groups)) for pod in resident_pods(settings)]
    needed = grown(pods, nodes_of(settings)).opened
    return {name: nodes for name, nodes in needed.items() if nodes > settings.node_groups[name].max}


def _groups(
    setup: ReplaySetup,
    results: tuple[StrategyResult, StrategyResult],
    group_of: Mapping[str, str],
    rates: Mapping[str, GroupRate],
) -> tuple[NightGroup, ...]:
    spans = open_spans(setup.config.hours, setup.start, setup.end_s)
    names = dict.fromkeys(group_of[shape] for result in results for shape in result.series.nodes)
    return tuple(
        _group(
            name, [shape for shape, group in group_of.items() if group == name], results, (spans, setup.end_s), rates
        )
        for name in names
    )


def _group(
    name: str,
    shapes: Collection[str],
    results: tuple[StrategyResult, StrategyResult],
    time_of: tuple[Sequence[tuple[float, float]], float],
    rates: Mapping[str, GroupRate],
) -> NightGroup:
    spans, end_s = time_of
    series, without = (_only(result.series, shapes) for result in results)
    steps = list(_steps(series, without, spans, end_s))
    night = [step.nodes for step in steps if not step.open and step.end > _LAUNCHED_S]
    return NightGroup(
        name=name,
        nodes=max((step.without for step in steps), default=0),
        at_night=min(night, default=0),
        hours_fewer=sum(step.hours for step in steps if step.nodes < step.without),
        node_hours=sum(step.hours * step.nodes for step in steps),
        node_hours_without=sum(step.hours * step.without for step in steps),
        usd=total(usd_per_day(series, rates, (end_s,))),
        usd_without=total(usd_per_day(without, rates, (end_s,))),
        empty=results[0].empty_nodes.get(name),
    )


def _only(series: ClusterSeries, shapes: Collection[str]) -> ClusterSeries:
    return replace(series, nodes={name: nodes for name, nodes in series.nodes.items() if name in shapes})


@dataclass(frozen=True, slots=True)
class _Step:
    begin: float
    end: float
    open: bool  # in business hours
    nodes: int
    without: int

    @property
    def hours(self) -> float:
        return (self.end - self.begin) / HOUR_S


def _steps(
    series: ClusterSeries, without: ClusterSeries, spans: Sequence[tuple[float, float]], end_s: float
) -> Iterator[_Step]:
    """Yield the times between two changes, of the nodes or of business hours."""
    edges = {0.0, end_s, *series.at, *without.at, *(edge for span in spans for edge in span)}
    instants = sorted(edge for edge in edges if 0 <= edge <= end_s)
    for begin, end in pairwise(instants):
        is_open = any(opens <= begin < closes for opens, closes in spans)
        yield _Step(begin, end, is_open, _nodes_at(series, begin), _nodes_at(without, begin))


def _nodes_at(series: ClusterSeries, instant: float) -> int:
    place = bisect_right(series.at, instant) - 1
    return sum(nodes[place] for nodes in series.nodes.values()) if place >= 0 else 0


def nights_json(nights: NightReplay) -> dict[str, Any]:
    """Plain values, keys in reading order. Equal replays give equal documents, except for `replay_seconds`."""
    replay = nights.replay
    return {
        "schema": SCHEMA,
        "stack": replay.stack,
        "start": replay.start.isoformat(),
        "days": replay.days,
        "seed": replay.seed,
        "rollouts": replay.rollouts,
        "node_hours": nights.result.node_hours,
        "node_hours_without": nights.without.node_hours,
        "usd": nights.result.usd,
        "usd_without": nights.without.usd,
        "groups": [asdict(group) for group in nights.groups],
        "node_hours_by_type": dict(nights.result.node_hours_by_group),
        "node_hours_by_type_without": dict(nights.without.node_hours_by_group),
        "survivors": dict(nights.result.survivors),
        "evictions_in_window": nights.result.evictions_in_window,
        "evictions_in_business_hours": nights.result.evictions_in_business_hours,
        "too_many": dict(nights.too_many),
        "constant_nodes": dict(replay.constant_nodes),
        "unpriced": [asdict(group) for group in replay.unpriced],
        "assumptions": list(replay.assumptions),
        "replay_seconds": replay.replay_seconds,
    }
