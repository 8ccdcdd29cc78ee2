"""The cost of a replay: CPU and memory for weeks of a busy trace, and the cost of an event in longer replays.

A longer trace has the same load for longer: a thousand jobs of the busy trace are repeated, entire days apart. Jobs
over 8 h are excluded, since they would accumulate over the repetitions.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.measure import Figures, fresh_process, spread
from ebbtide.lab.advice.suggest import suggested_stack
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, ReplaySetup, replay_setup_of
from ebbtide.lab.simulator.strategies.keda import keda_controlled
from ebbtide.lab.simulator.strategies.run import Control, controlled, play
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import Job, Trace, find_trace
from ebbtide.lab.simulator.world.edges import ActionCounts
from ebbtide.lab.simulator.world.world import World
from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_of_text
from ebbtide.vocabulary.controller_config import ControllerConfig

BUSY, DAY_S, LONGEST_S = "surf2022-july", 86_400.0, 8 * 3600.0
PIECE, FROM_DAY = 1_000, 3
PLAYED = (
    Strategy.FIXED_FLEXIBLE,
    Strategy.CLUSTER_AUTOSCALING,
    Strategy.WORKER_AUTOSCALING,
    Strategy.KEDA_DEFAULTS,
)
"""The strategies with events; the others are calculated."""

ALL_STRATEGIES = f"""
from benchmarks.replay import suggested
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.trace.traces import find_trace
trace = find_trace({BUSY!r})
replay(suggested(trace), trace, ReplayOptions())
"""


def measured() -> dict[str, Figures]:
    return {**_per_strategy(), **_per_event()}


def suggested(trace: Trace) -> StackSettings:
    """The stack suggested for the trace."""
    return stack_of_text(suggested_stack(trace), stack="suggested", file="suggested")


def repeated(trace: Trace, jobs: int) -> Trace:
    """A trace of `jobs` jobs in equal pieces."""
    short = [job for job in trace.jobs if job.duration_s <= LONGEST_S and job.submitted_at >= FROM_DAY * DAY_S]
    piece = [replace(job, submitted_at=job.submitted_at - FROM_DAY * DAY_S) for job in short[:PIECE]]
    period = (piece[-1].submitted_at // DAY_S + 1) * DAY_S
    return Trace(trace.name, tuple(_moved(piece[i % PIECE], i // PIECE * period) for i in range(jobs)))


def _moved(job: Job, by: float) -> Job:
    return replace(job, submitted_at=job.submitted_at + by)


def _per_strategy() -> dict[str, Figures]:
    trace = find_trace(BUSY)
    setup = replay_setup_of(suggested(trace), trace, ReplayOptions())
    figures = {
        f"replay_{setup.end_s / DAY_S:.0f}_days_{len(setup.jobs)}_jobs_{strategy}_cpu_s": spread(
            [_played(setup, strategy)[0]], 1
        )
        for strategy in PLAYED
    }
    seconds, peaks = fresh_process(ALL_STRATEGIES, 1)
    return {
        **figures,
        "replay_all_strategies_with_start_cpu_s": spread(seconds, 1),
        "replay_all_strategies_peak_mib": spread(peaks, 0),
    }


def _per_event() -> dict[str, Figures]:
    trace = find_trace(BUSY)
    settings = suggested(repeated(trace, PIECE))
    figures: dict[str, Figures] = {}
    for jobs, runs in ((1_000, 5), (10_000, 3), (100_000, 1)):
        setup = replay_setup_of(settings, repeated(trace, jobs), ReplayOptions())
        measurements = [_played(setup, Strategy.FIXED_FLEXIBLE) for _ in range(runs)]
        figures[f"replay_{jobs}_jobs_cpu_us_per_event"] = spread(
            [1e6 * cpu / events for cpu, events in measurements], 1
        )
        figures[f"replay_{jobs}_jobs_events_per_job"] = spread([measurements[0][1] / jobs], 1)
    return {**figures, "replay_event_cost_100000_to_1000_jobs": {"ratio": _ratio(figures, (100_000, 1_000))}}


def _ratio(figures: dict[str, Figures], counts: Sequence[int]) -> float:
    many, few = (figures[f"replay_{jobs}_jobs_cpu_us_per_event"]["median"] for jobs in counts)
    return round(many / few, 2)


def _played(setup: ReplaySetup, strategy: Strategy) -> tuple[float, int]:
    """CPU seconds and events of one strategy."""
    worlds: list[World] = []
    plays: Control = keda_controlled if strategy is Strategy.KEDA_DEFAULTS else controlled

    def control(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
        worlds.append(world)
        plays(config, world, tally)

    began = time.process_time()
    play(StrategyResults(setup).run_of(strategy), control)
    return time.process_time() - began, worlds[0].timeline.events
