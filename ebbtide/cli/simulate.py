"""`ebbtide simulate`: replay a trace of jobs on a stack, with other strategies, and on other stacks.

Reads only stack files, the trace and the price tables in use.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from ebbtide.cli.console import fail, finish, needs, read_with_bar, replay_with_bars, with_assumptions, write
from ebbtide.cli.options import (
    TRACE_HELP,
    AtOnce,
    Columns,
    Day,
    Days,
    JsonFile,
    MaxJob,
    Queue,
    Queues,
    Rate,
    Service,
    Since,
    Timezone,
    Where,
    duration_option,
    time_option,
    trace_reading,
)
from ebbtide.cli.simulate_nights import show_nights, stack_of_nights
from ebbtide.cli.simulate_service import ServiceRequest, describe_for, one_stack, serve
from ebbtide.lab.advice.places import cheaper_in_replay
from ebbtide.lab.report import strategy_table
from ebbtide.lab.simulator.replay import ReplayError, ReplayOptions
from ebbtide.lab.simulator.results import DEFAULT_STRATEGIES, Replay, Strategy, Typed, as_json
from ebbtide.lab.simulator.strategies.table import other_provisioner
from ebbtide.lab.simulator.trace.spot_capacity import read_spot_capacity
from ebbtide.lab.simulator.trace.traces import Reading, Trace, TraceError
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.spot_capacity import SYNTHETIC, CapacitySource, RecordedCapacity, SyntheticCapacity
from ebbtide.prices.tables import ENVIRONMENT
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.settings.sections.types import parse_positive_duration
from ebbtide.text.files import Unwritable
from ebbtide.text.terminal import console

command = typer.Typer(add_completion=False, rich_markup_mode=None)


def _shift(text: str) -> timedelta:
    try:
        return parse_positive_duration(text.removeprefix("-")) * (-1 if text.startswith("-") else 1)
    except ValueError:
        raise typer.BadParameter(f"wanted a duration, found {text!r} (for example 6h or -6h)") from None


_STACKS = "Names (demo for stacks/Pulumi.demo.yaml) or paths; further stacks are compared with the first."
_ALIGNED = "Local time of the trace's first second; default: its dates, or busy hours aligned with business hours."
_STRATEGIES = (
    "May be repeated; default: all but -spot and karpenter-defaults, and of karpenter and managed-groups only the one "
    "that the stack does not use."
)
_CAPACITY = "Hours without spot capacity and interruptions, by type and zone; synthetic: drawn from the seed."
_REPORT = "Write an HTML page; with --service and a .svg name, only the chart of one day."
_COMPARED = 90  # columns: enough for the figures of two stacks
_DESCRIBE = "Instead of a replay, describe a trace and the saving that scaling can reach."


@command.command(epilog="Example: ebbtide simulate demo --trace openb2023-a --days 7 --report report.html")
def simulate(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_STACKS)] = None,
    *,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help=TRACE_HELP)] = None,
    start: Annotated[datetime | None, typer.Option(parser=time_option, metavar="TIME", help=_ALIGNED)] = None,
    shift: Annotated[
        list[timedelta] | None,
        typer.Option(
            parser=_shift, metavar="6h", help="Repeat the replay with a start this much later; may be repeated."
        ),
    ] = None,
    days: Days = None,
    since: Since = None,
    columns: Columns = None,
    where: Where = None,
    timezone: Timezone = None,
    max_job: MaxJob = None,
    queues: Queues = None,
    strategy: Annotated[list[Strategy] | None, typer.Option(help=_STRATEGIES)] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same figures.")] = 0,
    report: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help=_REPORT)] = None,
    no_rollouts: Annotated[
        bool, typer.Option("--no-rollouts", help="Simulate without releases of the stack's services.")
    ] = False,
    json_file: JsonFile = None,
    spot_interruptions: Annotated[
        float,
        typer.Option(metavar="TIMES", help="Factor on AWS's interruption rate of each instance type; 0: none."),
    ] = 0.0,
    failed_boots: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of launches that never become a node.")
    ] = 0.0,
    slow_boots: Annotated[
        float,
        typer.Option(metavar="SPREAD", help="Spread of boot times; at 0.5 one node in 20 takes 2.3 times as long."),
    ] = 0.0,
    missed_notices: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of spot interruptions without a notice.")
    ] = 0.0,
    spot_capacity: Annotated[str | None, typer.Option(metavar="FILE", help=_CAPACITY)] = None,
    image_pull: Annotated[
        timedelta | None,
        typer.Option(parser=duration_option, metavar="60s", help="Additional start time of the first pod on a node."),
    ] = None,
    describe: Annotated[str | None, typer.Option(metavar="TRACE", help=_DESCRIBE)] = None,
    suggest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="With --describe: write a stack file for the trace, based on STACK if given.",
        ),
    ] = None,
    service: Service = None,
    queue: Queue = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    day: Day = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also print the assumptions, which --report always contains.")
    ] = False,
) -> None:
    """Replay a trace of jobs: node-hours, dollars, waits; with --service of requests: pod-hours, latency, losses.

    Without a trace, on a stack without pools: the nodes that go at night, and what that saves.
    """
    longest = None if max_job is None else max_job.total_seconds()
    if service is not None and describe is not None:
        describe_for(describe, stacks or [], service, at_once, json_file)
        return
    of_jobs = {
        "--shift": shift,
        "--max-job": max_job,
        "--queues": queues,
        "--strategy": strategy,
        "--spot-interruptions": spot_interruptions,
        "--failed-boots": failed_boots,
        "--slow-boots": slow_boots,
        "--missed-notices": missed_notices,
        "--image-pull": image_pull,
        "--spot-capacity": spot_capacity,
        "--suggest": suggest,
        "--from": since,
        "--columns": columns,
        "--where": where,
        "--timezone": timezone,
    }
    if service is not None:
        request = ServiceRequest(
            stack=one_stack(stacks or [], trace, {**of_jobs, "--no-rollouts": no_rollouts}),
            service=service,
            trace=str(trace),
            queue=queue,
            rate=rate,
            at_once=at_once,
            days=days,
            start=start,
            seed=seed,
            day=day,
        )
        if day is not None and report is None:
            raise typer.BadParameter("--day is the day that --report draws (for example --day 2 --report report.html)")
        serve(request, report, json_file, full=full)
        return
    if any(option is not None for option in (queue, rate, at_once, day)):
        raise typer.BadParameter(
            "--queue, --requests-per-second, --at-once and --day are for --service (for example --service embedder)"
        )
    reading = trace_reading(columns, since, days, timezone, queues, where)
    if describe is not None:
        like = _only_described(stacks or [], trace or queues, report)
        _describe(describe, longest, like, _Outputs(suggest, json_file), reading)
        return
    options = ReplayOptions(
        days=days,
        start=start,
        max_job_s=longest,
        strategies=tuple(strategy or DEFAULT_STRATEGIES),
        seed=seed,
        rollouts=not no_rollouts,
        failures=_failures(spot_interruptions, missed_notices, failed_boots, slow_boots, image_pull),
        spot_capacity=_capacity(spot_capacity),
    )
    if trace is None and (without_pools := stack_of_nights(stacks or [], of_jobs)) is not None:
        show_nights((stacks or [])[0], without_pools, options, report, json_file, full=full)
        return
    names = _replayable(stacks or [], trace, shift or [], suggest)
    settings, jobs = _read(names, str(trace), reading)
    reading = replace(reading, zone=settings[0].business_hours.timezone)
    prices = os.environ.get(ENVIRONMENT, "")
    typed = [Typed(stack=name, trace=str(trace), reading=reading, begin=jobs.start, prices=prices) for name in names]
    if len(settings) > 1 or shift:
        _compare(settings, jobs, options, shift or [], _Outputs(report, json_file), typed, full=full)
        return
    write_page = None if report is None else _page_writer(report)
    if not strategy and (other := other_provisioner(settings[0])) is not None:
        options = replace(options, strategies=(*options.strategies, other))
    replay = replay_with_bars(settings[0], jobs, options)
    if write_page is not None:
        write_page([replace(replay, typed=typed[0])])
    cheaper = () if str(json_file) == "-" else cheaper_in_replay(settings[0], jobs, options, replay)
    shown = Group(strategy_table(replay, assumptions=full), *cheaper)
    finish(json_file, as_json(replay), with_assumptions(shown, full=full))


def _failures(spot: float, missed: float, failed: float, slow: float, pull: timedelta | None) -> Failures:
    try:
        return Failures(
            spot_interruptions=spot,
            missed_notices=missed,
            failed_boots=failed,
            slow_boots=slow,
            image_pull_s=0.0 if pull is None else pull.total_seconds(),
        )
    except ValueError as error:
        raise typer.BadParameter(f"--{str(error).replace('_', '-', 1)}") from None


def _capacity(text: str | None) -> CapacitySource | None:
    if text is None:
        return None
    try:
        return SyntheticCapacity() if text == SYNTHETIC else RecordedCapacity(read_spot_capacity(Path(text)))
    except TraceError as error:
        fail(error)


def _only_described(stacks: Sequence[str], replayed: str | list[str] | None, report: Path | None) -> str | None:
    """Return the stack whose zone the hours have, and whose services a suggestion keeps, if one is named."""
    if replayed or report is not None or len(stacks) > 1:
        raise typer.BadParameter(
            "--describe is about a trace: no --trace, --queues or --report, and at most one stack, for its time zone "
            "and --suggest (for example: ebbtide simulate --describe openb2023-a)"
        )
    return stacks[0] if stacks else None


def _replayable(
    stacks: Sequence[str], trace: str | None, shifts: Sequence[timedelta], suggest: Path | None
) -> Sequence[str]:
    """Check options that exclude each other before any file is read."""
    if not stacks or trace is None:
        raise typer.BadParameter(
            "wanted a stack and --trace, or --describe (for example: ebbtide simulate demo --trace openb2023-a)"
        )
    if len(stacks) > 1 and shifts:
        raise typer.BadParameter("--shift is for one stack: several are compared at one start")
    if suggest is not None:
        raise typer.BadParameter(
            "--suggest requires --describe (for example: --describe openb2023-a --suggest my.yaml)"
        )
    return stacks


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Output files."""

    main: Path | None  # a report or a stack file
    json: Path | None


def _describe(trace: str, longest_s: float | None, like: str | None, outputs: _Outputs, reading: Reading) -> None:
    from ebbtide.lab.advice.described_load import described_load  # which no replay needs

    try:
        zone = load_stack(like).business_hours.timezone if like is not None else reading.timezone or reading.zone
        reading = replace(reading, zone=zone)
        described = described_load(trace, longest_s, outputs.main, like, read=lambda name: read_with_bar(name, reading))
    except (StackInvalid, ReplayError, TraceError) as error:
        fail(error)
    if outputs.main is not None:
        if described.stack is None:
            fail(described.refusal)
        write(outputs.main, described.stack)
    finish(outputs.json, described.document, described.shown)


def _compare(
    stacks: Sequence[StackSettings],
    trace: Trace,
    options: ReplayOptions,
    shifts: Sequence[timedelta],
    outputs: _Outputs,
    typed: Sequence[Typed],
    *,
    full: bool,
) -> None:
    from ebbtide.lab.advice.comparison import (
        comparison_json,
        comparison_table,
        replay_each,
        replay_shifted,
        shift_table,
        shifts_json,
    )

    write_page = None if outputs.main is None else _page_writer(outputs.main)
    if shifts:
        replays = replay_shifted(stacks[0], trace, options, shifts, replay_with_bars)
        document, shown = shifts_json(replays), shift_table(replays)
    else:
        replays = replay_each(stacks, trace, options, replay_with_bars)
        document, shown = comparison_json(replays), comparison_table(replays, assumptions=full)
    if write_page is not None:
        named = typed if len(typed) == len(replays) else [typed[0]] * len(replays)
        write_page([replace(replay, typed=names) for replay, names in zip(replays, named, strict=True)])
    out = console(fold=True, min_width=_COMPARED)
    finish(outputs.json, document, with_assumptions(shown, full=full), out)


def _page_writer(path: Path) -> Callable[[Sequence[Replay]], None]:
    needs("--report", "ebbtide.lab.report.pages.page")
    from ebbtide.lab.report.pages.comparison import write_comparison
    from ebbtide.lab.report.pages.page import write_report

    def write(replays: Sequence[Replay]) -> None:
        try:
            if len(replays) > 1:
                write_comparison(replays, path)
            else:
                write_report(replays[0], path)
        except Unwritable as error:
            fail(error)

    return write


def _read(stacks: Sequence[str], trace: str, reading: Reading) -> tuple[list[StackSettings], Trace]:
    try:
        settings = [load_stack(stack) for stack in stacks]
        return settings, read_with_bar(trace, reading, settings)
    except (StackInvalid, TraceError) as error:
        fail(error)
