"""`python -m benchmarks.defaults`: the gain of the product's defaults on each week of every trace.

A *piece* is a week of a trace on the stack suggested for that trace, or on the demo's, whose services run at night. On
each piece the product runs with different settings, and its dollars on demand are relative to the zero-wait bound of
that piece. Cross-validation by week: a held-out piece is played with the choice that is best on all other pieces, so
the gain is that of a choice made without it.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from benchmarks.cases import documents_of, folder_of
from benchmarks.defaults_page import PlayedChoice, page
from benchmarks.study import SCOPES, stack_for
from ebbtide.demo import STACK_FILE
from ebbtide.lab.simulator.cluster.model import GroupModel
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, ReplaySetup, replay_setup_of
from ebbtide.lab.simulator.strategies.bound import discounts_of, zero_wait
from ebbtide.lab.simulator.strategies.run import StrategyRun, controlled, play
from ebbtide.lab.simulator.strategies.table import StrategyResults, cluster_plan
from ebbtide.lab.simulator.trace.traces import Trace, find_trace
from ebbtide.lab.simulator.world.world import ClusterPlan
from ebbtide.settings import StackSettings, load_stack
from ebbtide.text.durations import WEEK_S
from ebbtide.text.files import write_file

DEMO, OF_THE_DEMO = "demo", "openb2023-a"  # the demo's pools fit this trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Dials:
    """Seconds: stabilization window of workers, unneeded time of nodes without and with GPUs, delay after a group grew,
    re-check of unremovable nodes. Then the number of nodes drained at a time, and the utilization above which a node
    stays.
    """

    stabilization: float
    flexible: float
    gpu: float
    rest: float
    recheck: float = 60
    drains: int = 5
    threshold: float = 0.65

    def __str__(self) -> str:
        return (
            f"stabilization {self.stabilization:g}, unneeded {self.flexible:g} / GPU {self.gpu:g}, rest {self.rest:g}, "
            f"re-check {self.recheck:g}, drains {self.drains}, threshold {self.threshold:g}"
        )


BEFORE = Dials(stabilization=120, flexible=180, gpu=300, rest=180)
NOW = replace(BEFORE, flexible=60, gpu=180)
CHOICES: Mapping[str, Dials] = {
    "before": BEFORE,
    "now": NOW,
    "stabilization 60": replace(BEFORE, stabilization=60),
    "stabilization 30": replace(BEFORE, stabilization=30),
    "unneeded 120": replace(BEFORE, flexible=120, gpu=120),
    "unneeded 60": replace(BEFORE, flexible=60, gpu=60),
    "unneeded 30": replace(BEFORE, flexible=30, gpu=30),
    "rest 10": replace(BEFORE, rest=10),
    "now and stabilization 60": replace(NOW, stabilization=60),
    "stabilization 60, unneeded 60, rest 10": replace(BEFORE, stabilization=60, flexible=60, gpu=60, rest=10),
    "now and drains 1": replace(NOW, drains=1),
    "now and re-check 300": replace(NOW, recheck=300),
    "now and threshold 0.5": replace(NOW, threshold=0.5),
    "now and threshold 0.8": replace(NOW, threshold=0.8),
}
OF_NIGHTS = tuple(name for name in CHOICES if name.startswith(("now and drains", "now and re-", "now and thr")))
"""Choices that matter if services are moved at night; suggested stacks have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    trace: str
    scope: str
    week: int
    stack: str  # "suggested" or a stack of the project

    def __str__(self) -> str:
        return f"{self.trace}, {self.scope}, week {self.week + 1}, {self.stack}"


def pieces_of(chosen: argparse.Namespace) -> Iterator[Piece]:
    for name in chosen.traces:
        whole_weeks = find_trace(name).days // 7
        for scope in chosen.scopes:
            for week in range(min(chosen.weeks, whole_weeks)):
                for stack in chosen.stacks:
                    if stack != DEMO or name == OF_THE_DEMO:
                        yield Piece(trace=name, scope=scope, week=week, stack=stack)


def week_of(trace: Trace, week: int) -> Trace:
    begin = week * WEEK_S
    jobs = (
        replace(job, submitted_at=job.submitted_at - begin)
        for job in trace.jobs
        if begin <= job.submitted_at < begin + WEEK_S
    )
    return replace(trace, jobs=tuple(jobs))


def played(piece: Piece, choice: str) -> dict[str, str | float | int]:
    """One choice on one piece. The week begins as the trace does, so every week has the same business hours."""
    whole, max_job_s = find_trace(piece.trace), SCOPES[piece.scope]
    settings = load_stack(str(STACK_FILE)) if piece.stack == DEMO else stack_for(whole, max_job_s)
    week = week_of(whole, piece.week)
    options = ReplayOptions(max_job_s=max_job_s, days=week.days)
    start = replay_setup_of(settings, whole, replace(options, days=None)).start
    setup = replay_setup_of(_stabilized(settings, CHOICES[choice].stabilization), week, replace(options, start=start))
    result = play(_run(setup, CHOICES[choice]), controlled)
    least = zero_wait(
        cluster_plan(settings, Strategy.ZERO_WAIT_BOUND),
        setup.jobs,
        busy=setup.busy,
        discounts=discounts_of(settings),
        end_s=setup.end_s,
        day_ends=setup.day_ends,
    )
    return PlayedChoice(
        piece=str(piece),
        choice=choice,
        usd_of_bound=(result.usd_on_demand or 0.0) / (least.usd_on_demand or math.nan),
        node_hours_of_bound=result.node_hours / sum(least.node_hours.values()),
        wait_p50_s=result.wait_p50_s,
        wait_p95_s=result.wait_p95_s,
        wait_p99_s=result.wait_p99_s,
        interrupted=result.jobs_interrupted,
        evictions=result.evictions_in_window,
    ).as_dict()


def _stabilized(settings: StackSettings, seconds: float) -> StackSettings:
    pools = {
        name: pool.model_copy(update={"stabilization_window": timedelta(seconds=seconds)})
        for name, pool in settings.workers.items()
    }
    return settings.model_copy(update={"workers": pools})


def _run(setup: ReplaySetup, dials: Dials) -> StrategyRun:
    run = StrategyResults(setup).run_of(Strategy.FIXED_FLEXIBLE)
    flags = replace(
        run.world.flags,
        scale_down_delay_after_add_s=dials.rest,
        unremovable_recheck_s=dials.recheck,
        max_drain_parallelism=dials.drains,
    )
    return replace(run, plan=_tuned(run.plan, dials), world=replace(run.world, flags=flags))


def _tuned(plan: ClusterPlan, dials: Dials) -> ClusterPlan:
    def tuned(group: GroupModel) -> GroupModel:
        if group.scale_down_unneeded_s is None:
            return group
        unneeded_s = dials.gpu if group.gpu else dials.flexible
        return replace(group, scale_down_unneeded_s=unneeded_s, utilization_threshold=dials.threshold)

    return replace(plan, groups=tuple(tuned(group) for group in plan.groups))


def main(arguments: Sequence[str], shown: Callable[[str], None] = print) -> None:
    chosen = _options().parse_args(arguments)
    place = folder_of(chosen.out, "benchmarks.defaults")
    calls = {
        place / f"{piece}_{choice.replace('/', '-')}.json": (piece, choice)
        for piece in pieces_of(chosen)
        for choice in chosen.choices
    }
    choices = [PlayedChoice(**document) for document in documents_of(played, calls, chosen.processes, shown)]
    if chosen.page is not None:
        settings = {name: str(CHOICES[name]) for name in chosen.choices}
        write_file(chosen.page, page(choices, settings, " ".join(["python -m benchmarks.defaults", *arguments])))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    traces = ["openb2023-a", "surf2022-july", "itp2021-a", "requests-servegen-m-small"]
    parser.add_argument("--traces", nargs="+", default=traces)
    default_choices = [name for name in CHOICES if name not in OF_NIGHTS]
    parser.add_argument("--scopes", nargs="+", choices=list(SCOPES), default=["8h"])
    parser.add_argument("--stacks", nargs="+", choices=["suggested", DEMO], default=["suggested", DEMO])
    parser.add_argument("--weeks", type=int, default=4, help="of each trace at most")
    parser.add_argument("--choices", nargs="+", choices=list(CHOICES), default=default_choices)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/defaults"))
    parser.add_argument("--page", type=Path, help="write this Markdown page")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
