"""`python -m benchmarks.spot`: the savings of spot nodes with checkpoints on the bundled traces of jobs.

Each trace is replayed on the stack that Ebbtide suggests for it: unchanged, with its GPU pools on spot nodes by a stack
file (`benchmarks.spot_file`), and with all workers on spot nodes, with checkpoints and without. `--page` writes
docs/evidence/results-on-spot.md. Each finished case is a file, as in `benchmarks.study`.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import spot_file
from benchmarks.cases import documents_of, folder_of
from benchmarks.spot_file import MOST_COMPLETION, MOST_DOLLARS, MOST_LOST
from benchmarks.study import stack_for
from ebbtide.lab.simulator.outcome import busy_s
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy, StrategyResult
from ebbtide.lab.simulator.strategies.on_spot import moved_to_spot
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.traces import find_trace
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.saves import SAVE_S
from ebbtide.prices import price_date
from ebbtide.settings import StackSettings
from ebbtide.text.durations import DAY_S
from ebbtide.text.files import write_file
from ebbtide.vocabulary.labels import NODE_GROUP

TRACES = ("openb2023-a", "surf2022-july", "itp2021-a")
ALSO_WITHOUT = TRACES[:2]
"""The traces that are also played without checkpoints: enough to see why checkpoints are required."""
TODAY, SPOT = Strategy.FIXED_FLEXIBLE, Strategy.FIXED_FLEXIBLE_SPOT
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCase:
    trace: str
    rate: float  # times the published one
    missed: float = 0.0
    checkpoints: bool = True
    days: int | None = None

    @property
    def name(self) -> str:
        saves = "saves" if self.checkpoints else "plain"
        return f"{self.trace}_x{self.rate:g}_missed{self.missed:g}_{saves}_{self.days or 'all'}d"


def cases_of(traces: Sequence[str], days: int | None) -> list[SpotCase]:
    return [
        SpotCase(trace=trace, rate=rate, missed=missed, checkpoints=checkpoints, days=days)
        for trace in traces
        for rate, missed, checkpoints in (
            (1, 0.0, True),
            (20, 0.0, True),
            (20, 1.0, True),
            (1, 0.0, False),
            (20, 0.0, False),
        )
        if checkpoints or trace in ALSO_WITHOUT
    ]


def played(case: SpotCase) -> dict[str, Any]:
    trace = find_trace(case.trace)
    stack = stack_for(trace, None)
    moved = moved_to_spot(stack)
    failures = Failures(spot_interruptions=case.rate, missed_notices=case.missed)
    days = None if case.days is None else min(case.days, trace.days)
    if case.checkpoints:
        replayed = replay(stack, trace, ReplayOptions(days=days, strategies=(TODAY, SPOT), failures=failures))
        today, spot = replayed.strategies[TODAY], replayed.strategies[SPOT]
    else:
        options = ReplayOptions(days=days, strategies=(TODAY,), failures=failures)
        replayed = replay(_without_checkpoints(moved), trace, options)
        today, spot = None, replayed.strategies[TODAY]
    return {
        "case": asdict(case),
        "price_date": price_date(stack.region).spot.isoformat(),
        "jobs": replayed.jobs,
        "days": replayed.days,
        "today": None if today is None else _figures(today, replayed.days * DAY_S),
        "spot": _figures(spot, replayed.days * DAY_S),
        "rates": _prices(stack, moved),
    }


def _figures(result: StrategyResult, end_s: float) -> dict[str, float]:
    busy = busy_s(result.series, end_s)
    return {
        "usd": result.usd or math.nan,
        "node_hours": result.node_hours,
        "completion_p95_s": result.completion_p95_s,
        "interrupted": result.jobs_interrupted,
        "lost_share": result.lost_work_share,
        "saving_share": result.saving_s / busy,
        "done": result.jobs_done,
    }


def _without_checkpoints(stack: StackSettings) -> StackSettings:
    """The stack without checkpoints, which `check` refuses for jobs of more than an hour."""
    pools = {name: pool.model_copy(update={"checkpoints": None}) for name, pool in stack.workers.items()}
    return stack.model_copy(update={"workers": pools})


def _prices(stack: StackSettings, moved: StackSettings) -> dict[str, float]:
    """Return the price of a node of each spot group, relative to the pool's original group."""
    plans = [cluster_plan(settings, TODAY) for settings in (stack, moved)]
    relative: dict[str, float] = {}
    for name, pool in stack.workers.items():
        group = moved.workers[name].node_group
        (twin,) = (model.name for model in plans[1].groups if model.labels[NODE_GROUP] == group)
        relative[twin] = plans[1].rates[twin].above_usd / plans[0].rates[pool.node_group].above_usd
    return relative


def page(rows: Sequence[Row], file_rows: Sequence[Row], command: str) -> str:
    by_file = spot_file.section(file_rows) if file_rows else ()
    parts = (_head(rows, command), by_file, _with(rows), _verdicts(rows), _without(rows))
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(rows: Sequence[Row], command: str) -> Iterator[str]:
    dates = " and ".join(sorted({row["price_date"] for row in rows}))
    yield "# Results on spot nodes"
    yield ""
    (days,) = {row["case"]["days"] for row in rows}
    shown = f" Replayed: the first {days} days of each trace." if days else ""
    yield f"Written by `{command}`; typical spot prices and bands of {dates}.{shown}"
    yield ""
    yield (
        "Each trace is replayed on the stack that `ebbtide simulate --describe TRACE --suggest FILE` suggests for it: "
        "as it is (*today*, `fixed-flexible`), and with the workers of all pools on spot nodes of the same type, with "
        "required checkpoints every 5 minutes (`fixed-flexible-spot`). "
        f"**That a save takes {SAVE_S:g} s is an assumption**, and so is that every job can save. "
        "For one stack: `ebbtide simulate STACK --trace TRACE --strategy fixed-flexible --strategy "
        "fixed-flexible-spot`. What is modelled, and what not: [the simulator](../explanation/simulator.md)."
    )
    yield ""


def _with(rows: Sequence[Row]) -> Iterator[str]:
    yield "## All pools, on spot nodes of the same type"
    yield ""
    yield (
        "*Rate*: times the published one. *Notices*: whether workers are told two minutes ahead. *Lost*, "
        "*saving*: of the time in which workers held a job."
    )
    yield ""
    yield (
        "| trace | rate | notices | $ today | $ on spot | of today's | p95 completion today | on spot "
        "| of today's | interruptions | lost | saving |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in _rows_with(rows, checkpoints=True):
        case, today, spot = row["case"], row["today"], row["spot"]
        cells = (
            case["trace"],
            f"{case['rate']:g}",
            "none" if case["missed"] else "all",
            f"{today['usd']:,.0f}",
            f"{spot['usd']:,.0f}",
            f"{spot['usd'] / today['usd']:.2f}",
            f"{today['completion_p95_s'] / 3600:.2f} h",
            f"{spot['completion_p95_s'] / 3600:.2f} h",
            f"{spot['completion_p95_s'] / today['completion_p95_s']:.3f}",
            f"{spot['interrupted']:,}",
            _share(spot["lost_share"]),
            _share(spot["saving_share"]),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _verdicts(rows: Sequence[Row]) -> Iterator[str]:
    yield "## Goals"
    yield ""
    yield (
        f"Wanted: dollars at most {MOST_DOLLARS:g} times today's, p95 completion at most {MOST_COMPLETION:g} times, "
        f"lost work at most {_share(MOST_LOST)}."
    )
    yield ""
    for row in _rows_with(rows, checkpoints=True):
        case = row["case"]
        notices = "without notices" if case["missed"] else "with notices"
        yield f"- **{case['trace']}, {case['rate']:g} times the rate, {notices}**: {verdict(row)}"
    yield ""


def verdict(row: Row) -> str:
    """The missed goals with their figures, and the reason."""
    today, spot = row["today"], row["spot"]
    missed: list[str] = []
    dollars = spot["usd"] / today["usd"]
    if dollars > MOST_DOLLARS:
        missed.append(f"{dollars:.2f} times the dollars")
    completion = spot["completion_p95_s"] / today["completion_p95_s"]
    if completion > MOST_COMPLETION:
        missed.append(f"{completion:.2f} times the p95 completion")
    if spot["lost_share"] > MOST_LOST:
        missed.append(f"{_share(spot['lost_share'])} of the work lost")
    prices = " to ".join(dict.fromkeys(f"{edge(row['rates'].values()):.2f}" for edge in (min, max)))
    reached = f"missed: {'; '.join(missed)}" if missed else "all reached"
    return f"{reached}. A spot node of its groups costs {prices} times one on demand."


def _without(rows: Sequence[Row]) -> Iterator[str]:
    today = {row["case"]["trace"]: row["today"] for row in _rows_with(rows, checkpoints=True)}
    yield "## Without checkpoints"
    yield ""
    yield (
        "The same spot nodes, but an interrupted job starts from zero at the end of its queue, and no worker is told. "
        "`check` refuses this for jobs of more than an hour; here is why."
    )
    yield ""
    yield "| trace | rate | $ on spot, of today's | p95 completion, of today's | interruptions | lost | jobs done |"
    yield "|---|---|---|---|---|---|---|"
    for row in _rows_with(rows, checkpoints=False):
        case, spot = row["case"], row["spot"]
        baseline = today[case["trace"]]
        cells = (
            case["trace"],
            f"{case['rate']:g}",
            f"{spot['usd'] / baseline['usd']:.2f}",
            f"{spot['completion_p95_s'] / baseline['completion_p95_s']:.3f}",
            f"{spot['interrupted']:,}",
            _share(spot["lost_share"]),
            f"{spot['done'] - baseline['done']:+,}",
        )
        yield f"| {' | '.join(cells)} |"


def _rows_with(rows: Sequence[Row], *, checkpoints: bool) -> list[Row]:
    return [row for row in rows if row["case"]["checkpoints"] == checkpoints]


def _share(share: float) -> str:
    return f"{100 * share:.2g} %"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spot", description=__doc__)
    parser.add_argument("--traces", nargs="+", choices=TRACES, default=list(TRACES))
    parser.add_argument("--days", type=int, help="of each trace at most; default: all")
    parser.add_argument("--seeds", type=int, default=spot_file.SEEDS, help="of the cases by a stack file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/spot"))
    parser.add_argument("--page", type=Path, help="write this Markdown page")
    chosen = parser.parse_args(arguments)
    place = folder_of(chosen.out, "benchmarks.spot")
    by_file = spot_file.cases_of(
        [name for name in chosen.traces if name in spot_file.TRACES], chosen.days, chosen.seeds
    )
    of_file = {place / f"file_{case.name}.json": (case,) for case in by_file}
    file_rows = documents_of(spot_file.played, of_file, chosen.processes)
    cases = cases_of(chosen.traces, chosen.days)
    rows = documents_of(played, {place / f"{case.name}.json": (case,) for case in cases}, chosen.processes)
    if chosen.page is not None:
        write_file(chosen.page, page(rows, file_rows, " ".join(["python -m benchmarks.spot", *arguments])))


if __name__ == "__main__":
    main(sys.argv[1:])
