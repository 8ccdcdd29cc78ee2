"""`ebbtide sweep`: find the best setting for each stack and for all stacks, by many parallel replays.

Reads only stack files, traces and the price tables in use, and writes only results.
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.cli.console import fail, finish, progress_replays, read_with_bar, write
from ebbtide.cli.options import Columns, Days, JsonFile, MaxJob, Queues, Since, Timezone, Where, trace_reading
from ebbtide.jobs import __version__
from ebbtide.lab.report.pages.sweep import render_sweep
from ebbtide.lab.simulator.replay import ReplayOptions
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.sweep.calls import cores
from ebbtide.lab.sweep.cluster import NoCluster, code
from ebbtide.lab.sweep.objective import EXAMPLE
from ebbtide.lab.sweep.plan import SweepInvalid, SweepPlan, SweepRequest, own_prices, plan_of
from ebbtide.lab.sweep.run import run
from ebbtide.lab.sweep.store import ResultStore, ResultStoreError, rows_of
from ebbtide.lab.sweep.summary import as_json, summary_of
from ebbtide.lab.sweep.table import sweep_table
from ebbtide.lab.sweep.vary import EXAMPLE as VARY_EXAMPLE

command = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_EXAMPLE = "ebbtide sweep demo example-berlin --trace openb2023-a --days 7 --vary 'stabilizationWindow=30s,2m'"


_MOST_SEEDS = 1000


def _seeds(text: str) -> range:
    first, to, last = text.partition("-")
    try:
        seeds = range(int(first), int(last if to else first) + 1)
    except ValueError:
        seeds = range(0)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise typer.BadParameter(f"wanted a number or a range of up to {_MOST_SEEDS}, found {text!r} (for example 0-4)")
    return seeds


@command.command(epilog=f"Example: {_EXAMPLE}")
def sweep(
    stacks: Annotated[list[str], typer.Argument(metavar="STACK…", help="Names or paths of stack files.")],
    *,
    traces: Annotated[
        list[str], typer.Option("--trace", metavar="FILE", help="A trace, as for simulate; may be repeated.")
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help=f"Values of a key, for example {VARY_EXAMPLE}; may be repeated."),
    ] = None,
    seed: Annotated[
        list[range] | None,
        typer.Option(
            parser=_seeds, metavar="N", help="A random seed, or a range such as 0-4; may be repeated; default: 0."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, hidden=True)] = None,
    objective: Annotated[str, typer.Option(metavar="FIGURE", help=f"Figure to minimize, such as '{EXAMPLE}'.")] = "usd",
    strategy: Annotated[Strategy, typer.Option(help="Strategy to optimize.")] = Strategy.FIXED_FLEXIBLE,
    days: Days = None,
    since: Since = None,
    columns: Columns = None,
    where: Where = None,
    timezone: Timezone = None,
    max_job: MaxJob = None,
    queues: Queues = None,
    results: Annotated[
        str, typer.Option(metavar="FOLDER", help="Destination of the Parquet files: a folder, or s3://BUCKET/FOLDER.")
    ] = "out/sweep",
    resume: Annotated[bool, typer.Option("--resume", help="Run only the simulations that have no result yet.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes on this machine; default: one per core.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster, such as ray://HEAD:10001.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML page.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Simulate many stacks with many settings; print the best for each stack and the best for all."""
    if seeds is not None:
        if seed:
            raise typer.BadParameter("give only --seed, for example --seed 0-4", param_hint="--seeds")
        typer.echo(f"--seeds {seeds} is --seed 0-{seeds - 1} now; the next release no longer reads it", err=True)
    seed_ranges = seed or [range(seeds or 1)]
    plan, store = _checked(
        SweepRequest(
            stacks=stacks,
            traces=[name for names in traces for name in names.split(",")],
            vary=vary or [],
            seeds=tuple(dict.fromkeys(number for numbers in seed_ranges for number in numbers)),
            objective=objective,
            strategy=strategy,
            reading=trace_reading(columns, since, days, timezone, queues, where),
            read=read_with_bar,
            options=ReplayOptions(days=days, max_job_s=None if max_job is None else max_job.total_seconds()),
        ),
        results,
        ray,
        resume=resume,
    )
    try:
        missing = plan.without(store.done())
        with progress_replays(len(plan.tasks), len(plan.tasks) - len(missing.tasks)) as progress:
            ran = run(missing, store, processes=processes or cores(), ray=ray, progress=progress)
        rows = rows_of(store.rows(), (task.key for task in plan.tasks))
    except (ResultStoreError, NoCluster) as error:
        fail(error)
    summary = summary_of(plan, [row for row in rows if row["error"] is None], ran.errors)
    if report is not None:
        write(report, render_sweep(summary, shlex.join(["ebbtide", *sys.argv[1:]])))
    finish(json_file, as_json(summary), sweep_table(summary))
    if ran.interrupted:
        fail("interrupted; the same command with --resume goes on", code=130)
    if summary.missing:
        fail(f"{len(summary.missing)} replays failed; the same command with --resume tries them again")


def _checked(request: SweepRequest, results: str, ray: str | None, *, resume: bool) -> tuple[SweepPlan, ResultStore]:
    """Report all faults together, and write nothing if there is one."""
    faults: list[str] = []
    plan = store = None
    try:
        plan = plan_of(request)
    except SweepInvalid as error:
        faults += error.lines
    if ray is not None and own_prices():
        faults.append("--ray: wanted the shipped prices, found --prices: the cluster's nodes have no such directory")
    try:
        store = ResultStore(results, __version__, code())
        store.refuse_others(resume=resume)
        if not faults:
            store.try_writing()
    except ResultStoreError as error:
        faults.append(str(error))
    if faults or plan is None or store is None:
        fail(*faults)
    return plan, store
