"""Many draws of one scenario, and the one that stands for them.

What the real autoscaler does is in part a matter of chance, so one run of the model is one draw of many. The run that
is shown is chosen among them without a look at what was recorded: it is the one that would hold, by the yardstick of
`scenario.differences`, for the greatest number of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fidelity.scenario import (
    AutoscalerScenario,
    Plateau,
    ScenarioRun,
    close_in_time,
    differences,
    plateaus,
    run_scenario,
    seconds_apart,
)


@dataclass(frozen=True, slots=True)
class Draws:
    shown: ScenarioRun
    holding: int  # of so many draws, those in which the recording holds
    of: int
    apart_s: float  # of those that hold, the greatest distance in time from the recording


def draw(scenario: AutoscalerScenario, draws: int) -> Draws:
    """Seeds 0, 1, ...: the same scenario gives the same figures."""
    runs = [run_scenario(scenario, seed) for seed in range(draws)]
    holding = [run for run in runs if not differences(scenario, run)]
    apart_s = max((seconds_apart(scenario, run) for run in holding), default=0.0)
    return Draws(most_typical(runs, float(scenario["end_s"])), len(holding), draws, apart_s)


def most_typical(runs: Sequence[ScenarioRun], end_s: float) -> ScenarioRun:
    """Of runs alike, the first."""
    seen = [plateaus(run.nodes, end_s) for run in runs]

    def likeness(number: int) -> tuple[int, int]:
        alike = [_alike((runs[number], seen[number]), (other, rows)) for other, rows in zip(runs, seen, strict=True)]
        return sum(parts == ALL_PARTS for parts in alike), sum(alike)

    return runs[max(range(len(runs)), key=lambda number: (likeness(number), -number))]


ALL_PARTS = 4


def _alike(one: tuple[ScenarioRun, list[Plateau]], other: tuple[ScenarioRun, list[Plateau]]) -> int:
    """How many of the parts that are compared are the same: numbers of nodes, times, packing, reasons."""
    (run, rows), (other_run, other_rows) = one, other
    same_counts = [counts for _, counts in rows] == [counts for _, counts in other_rows]
    same_times = same_counts and all(
        close_in_time(then, now) for (then, _), (now, _) in zip(other_rows, rows, strict=True)
    )
    same_packing = run.final_packing == other_run.final_packing
    return same_counts + same_times + same_packing + (run.unremovable_reasons == other_run.unremovable_reasons)
