"""GPU pools on spot nodes through a stack file: a section of the page of `benchmarks.spot`.

The suggested stack is replayed unchanged, and with each GPU pool on a spot group with its old group as fallback, over
seeds: with one shape and two, at several rates of interruption, with and without notices, and with and without hours
without capacity, which are synthetic.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from benchmarks.spot_stack import on_spot, stack_of, text_for
from ebbtide.lab.simulator.outcome import busy_s
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.saves import SAVE_S
from ebbtide.lab.simulator.world.spot_capacity import (
    ALONE_WITH_H,
    ALONE_WITHOUT_H,
    TOGETHER_WITH_H,
    TOGETHER_WITHOUT_H,
    SyntheticCapacity,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import StackSettings
from ebbtide.text.counts import several

TRACES = ("openb2023-a", "itp2021-a")
"""The traces with jobs for GPUs."""
SEEDS = 5
MOST_DOLLARS, MOST_COMPLETION, MOST_LOST = 0.6, 1.1, 0.01
"""The goals: dollars and p95 completion relative to today's, lost work relative to all work."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCase:
    trace: str
    seed: int
    shapes: int = 0  # 0: today's stack
    rate: float = 0.0  # times the published one
    missed: float = 0.0
    shortages: bool = False
    days: int | None = None

    @property
    def name(self) -> str:
        capacity = "shortages" if self.shortages else "capacity"
        kind = f"{self.shapes}shapes_x{self.rate:g}_missed{self.missed:g}_{capacity}" if self.shapes else "today"
        return f"{self.trace}_{kind}_s{self.seed}_{self.days or 'all'}d"


def cases_of(traces: Sequence[str], days: int | None, seeds: int) -> Iterator[FileCase]:
    for seed, trace in product(range(seeds), traces):
        yield FileCase(trace=trace, seed=seed, days=days)
        for shapes, shortages, (rate, missed) in product((1, 2), (False, True), product((1, 20), (0.0, 1.0))):
            yield FileCase(
                trace=trace, seed=seed, shapes=shapes, rate=rate, missed=missed, shortages=shortages, days=days
            )


def played(case: FileCase) -> dict[str, Any]:
    trace = find_trace(case.trace)
    text = text_for(trace)
    stack = stack_of(on_spot(text, shapes=case.shapes) if case.shapes else text)
    options = ReplayOptions(
        days=None if case.days is None else min(case.days, trace.days),
        seed=case.seed,
        failures=Failures(spot_interruptions=case.rate, missed_notices=case.missed),
        spot_capacity=SyntheticCapacity() if case.shortages else None,
    )
    setup = replay_setup_of(stack, trace, options)
    result = StrategyResults(setup).of(Strategy.FIXED_FLEXIBLE)
    return {"case": asdict(case), "jobs": len(setup.jobs), **_figures(result, stack, setup.end_s)}


def _figures(result: StrategyResult, stack: StackSettings, end_s: float) -> dict[str, float]:
    busy = busy_s(result.series, end_s)
    hours = result.node_hours_by_group
    gpu_hours = {name: hours[name] for name in hours if _has_gpus(stack, name)}
    spot_hours = sum(number for name, number in gpu_hours.items() if name not in stack.node_groups)
    return {
        "usd": math.nan if result.usd is None else result.usd,
        "completion_p95_s": result.completion_p95_s,
        "wait_p95_s": result.wait_quantiles_s[95],
        "interrupted": result.jobs_interrupted,
        "resumes": result.resumes,
        "lost_share": result.lost_work_share,
        "saving_share": result.saving_s / busy,
        "done": result.jobs_done,
        "unfinished": result.jobs_unfinished,
        "on_spot": spot_hours / sum(gpu_hours.values()),
    }


def _has_gpus(stack: StackSettings, name: str) -> bool:
    group = stack.node_groups.get(name)
    return group is None or group.kind is NodeKind.GPU


def section(rows: Sequence[Row]) -> Iterator[str]:
    """The section of the page. `rows` have each case of a trace for the same seeds."""
    yield "## GPU pools on spot nodes, by a stack file"
    yield ""
    yield (
        "Each GPU pool of the suggested stack moves to a spot group of its node group's type (1 shape), or of it and "
        "the next larger type (2 shapes; no larger type holds the workers of `g6.48xlarge`), with its old group as "
        "`fallback` and required checkpoints. CPU pools stay on demand, so nothing without a checkpoint can be "
        f"interrupted. A save takes {SAVE_S:g} s, which is an assumption. Ranges are over "
        f"{len({row['case']['seed'] for row in rows})} seeds."
    )
    yield ""
    yield (
        "*Shortages*: **synthetic** hours without spot capacity, drawn from the seed for each type: "
        f"{TOGETHER_WITHOUT_H:g} hours in all zones after {TOGETHER_WITH_H:g} with capacity on average, and in each "
        f"zone alone {ALONE_WITHOUT_H:g} after {ALONE_WITH_H:g}. The lengths are those of one older GPU type in one "
        "region in 2023 ([the simulator](../explanation/simulator.md#spot-capacity)). *On spot*: of the GPU "
        "node-hours. *Repeated*: of the time in which workers held a job. *Not ended*: jobs at the end of the replay, "
        "compared with today."
    )
    yield ""
    runs = [row for row in rows if row["case"]["shapes"]]
    told = [row for row in runs if not row["case"]["missed"]]
    lost = sum(row["jobs"] - row["done"] - row["unfinished"] for row in runs)
    yield (
        f"In {len(runs)} runs {lost} jobs are lost. With notices, {sum(row['interrupted'] for row in told):,} jobs are "
        f"interrupted and {sum(row['resumes'] for row in told):,} go on from a save."
    )
    yield ""
    by_trace: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_trace[row["case"]["trace"]].append(row)
    for trace, of_trace in by_trace.items():
        yield from _table(trace, of_trace)


def _table(trace: str, rows: Sequence[Row]) -> Iterator[str]:
    today = {row["case"]["seed"]: row for row in rows if not row["case"]["shapes"]}
    yield f"### {trace}"
    yield ""
    usd, completion = _range(today.values(), "usd", _count), _range(today.values(), "completion_p95_s", _hours)
    yield f"Today: {usd} dollars, p95 completion {completion}, {_range(today.values(), 'done', _count)} jobs done."
    yield ""
    yield (
        "| shapes | shortages | rate | notices | $ of today's | p95 completion of today's | on spot | interruptions "
        "| repeated | not ended |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    cases: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    runs, off_goal = Counter[tuple[int, bool]](), Counter[tuple[int, bool]]()
    for row in rows:
        case = row["case"]
        if case["shapes"]:
            cases[case["shapes"], case["shortages"], case["rate"], case["missed"]].append(row)
    for (shapes, shortages, rate, missed), of_case in cases.items():
        relative = [
            {
                "usd": row["usd"] / today[row["case"]["seed"]]["usd"],
                "completion": row["completion_p95_s"] / today[row["case"]["seed"]]["completion_p95_s"],
                "unfinished": row["unfinished"] - today[row["case"]["seed"]]["unfinished"],
            }
            for row in of_case
        ]
        cells = (
            str(shapes),
            "synthetic" if shortages else "none",
            f"{rate:g}",
            "none" if missed else "all",
            _range(relative, "usd", lambda value: f"{value:.2f}"),
            _range(relative, "completion", lambda value: f"{value:.3f}"),
            _range(of_case, "on_spot", lambda value: f"{100 * value:.0f} %"),
            _range(of_case, "interrupted", _count),
            _range(of_case, "lost_share", lambda value: f"{100 * value:.2g} %"),
            _range(relative, "unfinished", lambda value: f"{value:+,.0f}" if value else "="),
        )
        yield f"| {' | '.join(cells)} |"
        runs[shapes, shortages] += len(relative)
        off_goal[shapes, shortages] += sum(
            figures["usd"] > MOST_DOLLARS or figures["completion"] > MOST_COMPLETION or row["lost_share"] > MOST_LOST
            for figures, row in zip(relative, of_case, strict=True)
        )
    yield ""
    yield f"Runs that miss a [goal](#goals): {'; '.join(_missed(runs, off_goal))}."
    yield ""


def _missed(runs: Mapping[tuple[int, bool], int], missed: Mapping[tuple[int, bool], int]) -> Iterator[str]:
    for (shapes, shortages), number in runs.items():
        which = f"{several(shapes, 'shape')} {'with' if shortages else 'without'} shortages"
        yield f"{missed[shapes, shortages]} of {number} with {which}"


def _range(rows: Iterable[Row], key: str, text: Callable[[float], str]) -> str:
    values = [row[key] for row in rows]
    ends = [text(edge(values)) for edge in (min, max)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _hours(value: float) -> str:
    return f"{value / 3600:.2f} h"
