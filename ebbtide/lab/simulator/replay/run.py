"""A stack's strategies over one trace: the production loop in virtual time, once per strategy.

Measured: node-hours from second 0 to the end of the last day; jobs submitted in that time; a job that has not ended by
then is unfinished. Equal inputs and seed give an equal `Replay`, except for `replay_seconds`.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from ebbtide.lab.simulator.billing import open_spans
from ebbtide.lab.simulator.replay.assumptions import assumptions_of, estimated_prices, price_dates, ray_assumptions
from ebbtide.lab.simulator.results import BASELINE, Replay, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplayOptions, replay_setup_of, with_known_nodes
from ebbtide.lab.simulator.strategies.overload import overloads_of
from ebbtide.lab.simulator.strategies.plans import Topology, unpriced_groups, without_spot_price
from ebbtide.lab.simulator.strategies.run import Progress
from ebbtide.lab.simulator.strategies.table import STRATEGIES, StrategyResults, stack_with_changes
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.lab.simulator.world.failures import failure_assumptions, spot_types
from ebbtide.lab.simulator.world.pools import gang_assumptions, queue_assumption
from ebbtide.lab.simulator.world.saves import saves_of
from ebbtide.lab.simulator.world.schedules import job_assumptions
from ebbtide.lab.simulator.world.spot_capacity import Period, capacity_assumptions, spot_capacity_of
from ebbtide.settings.capacity.node_sets import constant_groups
from ebbtide.settings.model import StackSettings
from ebbtide.text.durations import DAY_S


def replay(
    settings: StackSettings, trace: Trace, options: ReplayOptions, progress: Progress = lambda _strategy, _share: None
) -> Replay:
    """Play `trace` on every strategy. Raises `ReplayError`."""
    began = time.perf_counter()
    settings = with_known_nodes(settings)
    topologies = [STRATEGIES[strategy].topology(settings) for strategy in options.strategies]
    interruptions = max((topology.spot_interruptions for topology in topologies), default=0.0)
    failures = replace(options.failures, spot_interruptions=options.failures.spot_interruptions or interruptions)
    options, source = replace(options, failures=failures), options.spot_capacity
    changed = stack_with_changes(settings, options.strategies)
    setup = replay_setup_of(settings, trace, options)
    results = StrategyResults(setup, progress)
    baseline, bound = results.of(BASELINE), results.of(Strategy.ZERO_WAIT_BOUND)
    constant = {name: settings.node_groups[name].max for name in constant_groups(settings)}
    overloads = tuple(overloads_of(setup, results.run_of(BASELINE).plan.ray))
    states_saving = not overloads and not constant
    shown: dict[str, StrategyResult] = {}
    for strategy in Strategy:
        if strategy in options.strategies:
            result = results.of(strategy)
            progress(strategy, 1.0)
            saving = _saving(result, baseline) if states_saving and strategy is not BASELINE else None
            shown[strategy.value] = replace(result, saving_vs_fixed_fleet=saving)
    return Replay(
        seed=options.seed,
        stack=settings.stack,
        trace=trace.name,
        start=setup.start,
        days=round(setup.end_s / DAY_S),
        max_job_s=options.max_job_s,
        assumptions=(
            *trace.assumptions,
            *assumptions_of(
                settings,
                aligned=options.start is None and trace.start is None,
                left_out=setup.left_out,
                resync=setup.config.resync,
                rollouts=options.rollouts,
                saves=saves_of(changed.workers),
                capacity_varies=source is not None,
            ),
            queue_assumption(setup.assignment),
            *gang_assumptions(setup.assignment),
            *job_assumptions(settings),
            *ray_assumptions(settings.ray, [job.ray for job in setup.jobs if job.ray is not None]),
            *(sentence for topology in topologies for sentence in topology.assumptions),
            *failure_assumptions(failures, changed, timed=source is not None),
            *_capacity_assumptions(options, changed, setup.period, topologies),
        ),
        coverage=setup.assignment.coverage,
        jobs_unfit=setup.assignment.unfit,
        open_spans=open_spans(setup.config.hours, setup.start, setup.end_s),
        gaps=tuple((begin, min(until, setup.end_s)) for begin, until in trace.gaps if begin < setup.end_s),
        strategies=shown,
        replay_seconds=time.perf_counter() - began,
        jobs=len(setup.jobs),
        rollouts=options.rollouts,
        price_dates=price_dates(settings.region),
        estimated_prices=estimated_prices(settings),
        without_spot_price=", ".join(f"{name} ({kind.name})" for name, kind in without_spot_price(changed).items()),
        failures={name: value for name, value in asdict(failures).items() if value},
        attainable=_saving(bound, baseline) if states_saving else None,
        overloads=overloads,
        constant_nodes=constant,
        spot_capacity="" if source is None else source.name,
        spot_capacity_origin="" if source is None else source.origin,
        queue_names=trace.queue_names,
        by_queue=setup.assignment.by_queue,
        queues_not_served=setup.assignment.queues_not_served,
        unpriced=unpriced_groups(settings),
    )


def _capacity_assumptions(
    options: ReplayOptions, changed: StackSettings, period: Period, topologies: Sequence[Topology]
) -> Iterator[str]:
    source = options.spot_capacity
    modelled = {name for topology in topologies for name in topology.source_of}
    types = {name: kind for name, kind in spot_types(changed).items() if name in modelled}
    capacity = spot_capacity_of(source, types, changed, period)
    if source is not None and capacity is not None:
        yield from capacity_assumptions(source, capacity, types, period.end_s)


def _saving(result: StrategyResult, baseline: StrategyResult) -> float | None:
    return None if result.usd is None or not baseline.usd else 1 - result.usd / baseline.usd
