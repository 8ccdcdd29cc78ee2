"""`python -m benchmarks.study`: every strategy on every bundled trace, on the stack that Ebbtide suggests for it.

A case is a trace, a longest job, a shift of the start and a seed. Each finished case is a file below a digest of the
code and data on which it depends: an interrupted run continues, and figures of different code are never mixed. `--page`
writes docs/evidence/results.md from the cases, and its JSON next to them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cases import documents_of, folder_of
from benchmarks.study_page import BOUND, FLEET, PRODUCT, page
from ebbtide.lab.advice.adapt import adapted_stack
from ebbtide.lab.advice.suggest import suggested_stack
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, ClusterSeries, Strategy, as_json
from ebbtide.lab.simulator.setup import replay_setup_of
from ebbtide.lab.simulator.trace.alignment import shifted_starts
from ebbtide.lab.simulator.trace.traces import Trace, bundled, find_trace
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.prices import price_date
from ebbtide.settings import StackSettings
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import stack_of_text, stack_path
from ebbtide.text.files import write_file

ROOT = Path(__file__).parents[1]
HOUR = 3600.0
ALONE = "suggested"
SCOPES: dict[str, float | None] = {"all": None, "8h": 8 * HOUR}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCase:
    trace: str
    scope: str
    shift_h: int
    seed: int
    days: int | None
    strategies: tuple[str, ...]
    services_of: str | None = None

    @property
    def name(self) -> str:
        chosen = "-".join(strategy[0] + strategy.rpartition("-")[2][0] for strategy in self.strategies)
        when = f"{self.shift_h:+d}h_s{self.seed}_{self.days or 'all'}d"
        return f"{self.trace}_{self.services_of or ALONE}_{self.scope}_{when}_{chosen}"


def stack_for(trace: Trace, max_job_s: float | None, services_of: str | None = None) -> StackSettings:
    """The stack suggested for the trace: alone, or with the services of another stack instead of its pools."""
    if services_of is None:
        return stack_of_text(suggested_stack(trace, name=ALONE, max_job_s=max_job_s), stack=ALONE, file=ALONE)
    path = stack_path(services_of, ROOT)
    text = adapted_stack(path.read_text(encoding="utf-8"), str(path), files_in(path.parent), trace, max_job_s)
    return stack_of_text(text, stack=services_of, file=services_of)


def played(case: StudyCase) -> dict[str, Any]:
    """One case as plain values."""
    trace, max_job_s = find_trace(case.trace), SCOPES[case.scope]
    settings = stack_for(trace, max_job_s, case.services_of)
    days = None if case.days is None else min(case.days, trace.days)
    options = ReplayOptions(
        days=days, max_job_s=max_job_s, seed=case.seed, strategies=tuple(Strategy(name) for name in case.strategies)
    )
    setup = replay_setup_of(settings, trace, options)
    [start] = shifted_starts(setup.start, [timedelta(hours=case.shift_h)])
    replayed = replay(settings, trace, replace(options, start=start))
    document = as_json(replayed)
    del document["assumptions"]  # equal in every case; the page has those of the trace
    for result in document["strategies"].values():
        del result["usd_per_day"]
    return {
        "case": asdict(case),
        "aligned_start": setup.start.isoformat(),
        "price_date": price_date(settings.region).on_demand.isoformat(),
        "median_job_s": median(job.duration_s for job in setup.jobs),
        "launches": _launches(replayed.strategies[PRODUCT].series),
        "work_share_over_8h": _share_over(setup.jobs, settings, 8 * HOUR, setup.end_s),
        "work_share_over_24h": _share_over(setup.jobs, settings, 24 * HOUR, setup.end_s),
        **document,
    }


def _launches(series: ClusterSeries) -> int:
    """Nodes that were started in the replay, except those that were also terminated in the same instant."""
    return sum(max(0, after - before) for counts in series.nodes.values() for before, after in pairwise(counts))


def _share_over(jobs: Sequence[PooledJob], settings: StackSettings, length_s: float, end_s: float) -> float:
    """The share of longer jobs in the work of the replay, in GPU-hours if jobs use GPUs."""
    gpus = any(settings.workers[job.pool].gpu.count for job in jobs)

    def work(job: PooledJob) -> float:
        pool = settings.workers[job.pool]
        return job.members * (pool.gpu.count if gpus else pool.cpu) * min(job.duration_s, end_s - job.submitted_at)

    total = sum(work(job) for job in jobs)
    return sum(work(job) for job in jobs if job.duration_s > length_s) / total


def cases_of(chosen: argparse.Namespace) -> Iterator[StudyCase]:
    measured = {PRODUCT, FLEET, BOUND} | set(chosen.strategies)  # every figure of the page needs these three
    for trace in chosen.traces:
        for scope in chosen.scopes:
            for shift_h in chosen.shifts:
                for seed in range(chosen.seeds):
                    yield StudyCase(
                        trace=trace,
                        scope=scope,
                        shift_h=shift_h,
                        seed=seed,
                        days=chosen.days,
                        strategies=tuple(strategy.value for strategy in Strategy if strategy.value in measured),
                        services_of=chosen.services_of,
                    )


def main(arguments: Sequence[str]) -> None:
    chosen = _options().parse_args(arguments)
    place = folder_of(chosen.out, "benchmarks.study")
    rows = documents_of(played, {place / f"{case.name}.json": (case,) for case in cases_of(chosen)}, chosen.processes)
    if chosen.page is None:
        return
    command = " ".join(["python -m benchmarks.study", *arguments])
    assumed = {trace: find_trace(trace).assumptions for trace in chosen.traces}
    write_file(chosen.page, page(rows, command, assumed))
    figures = json.dumps({"command": command, "cases": rows}, indent=1) + "\n"
    write_file(chosen.out / f"{chosen.page.stem}.json", figures)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study", description=__doc__)
    parser.add_argument("--traces", nargs="+", choices=bundled(), default=list(bundled()))
    parser.add_argument("--services-of", metavar="STACK", help="a stack whose services run beside the jobs; e.g. demo")
    parser.add_argument("--scopes", nargs="+", choices=list(SCOPES), default=list(SCOPES))
    parser.add_argument("--shifts", nargs="+", type=int, default=[-6, 0, 6], help="hours added to the aligned start")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0")
    parser.add_argument("--days", type=int, help="of each trace at most; default: all")
    names = [strategy.value for strategy in Strategy]
    default = [strategy.value for strategy in DEFAULT_STRATEGIES]
    parser.add_argument("--strategies", nargs="+", choices=names, default=default)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/study"))
    parser.add_argument("--page", type=Path, help="write this Markdown page, and its JSON to --out")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
