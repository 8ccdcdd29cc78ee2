"""`ebbtide simulate --service`: replay a trace of requests on a service, with cost and latency."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ebbtide.cli.console import fail, finish, needs, progress_bars, with_assumptions, write
from ebbtide.lab.simulator.replay import ReplayError
from ebbtide.lab.simulator.trace.traces import TraceError
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.text.files import Unwritable

if TYPE_CHECKING:
    from ebbtide.lab.simulator.services.results import ServiceReplay
    from ebbtide.lab.simulator.trace.counted import RequestTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """The options of a service's replay. `day`: the replayed day to draw."""

    stack: str
    service: str
    trace: str
    queue: str | None
    rate: float | None
    at_once: int | None
    days: int | None
    start: datetime | None
    seed: int
    day: int | None

    def command(self) -> str:
        """The command line that repeats this replay."""
        words = ["ebbtide", "simulate", self.stack, "--service", self.service, "--trace", self.trace]
        options = {
            "--queue": self.queue,
            "--requests-per-second": None if self.rate is None else f"{self.rate:g}",
            "--at-once": self.at_once,
            "--days": self.days,
            "--start": None if self.start is None else self.start.isoformat(),
            "--day": self.day,
        }
        words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
        return shlex.join([*words, "--seed", str(self.seed), "--report", "report.html"])


def one_stack(stacks: Sequence[str], trace: str | None, jobs_only: Mapping[str, object]) -> str:
    """Return the stack; options that exclude --service are refused before any file is read."""
    refused = [name for name, value in jobs_only.items() if value]
    if refused:
        raise typer.BadParameter(f"{', '.join(refused)}: for a replay of jobs, found --service")
    if len(stacks) != 1 or trace is None:
        raise typer.BadParameter(
            "wanted one stack and --trace with --service (for example: ebbtide simulate STACK --service embedder "
            "--trace requests-servegen-m-small)"
        )
    return stacks[0]


def serve(request: ServiceRequest, report: Path | None, json_file: Path | None, *, full: bool) -> None:
    from ebbtide.lab.report.charts.services import NoSuchDay, days_of, require_day
    from ebbtide.lab.report.pages.services import service_table
    from ebbtide.lab.simulator.services.replay import (
        ServiceOptions,
        ServiceStrategy,
        replay_service,
        service_course,
        span_of,
    )
    from ebbtide.lab.simulator.services.results import as_json
    from ebbtide.lab.simulator.trace.counted import find_requests

    if report is not None and not _is_picture(report):
        needs("--report", "ebbtide.lab.report.pages.service_page")
    options = ServiceOptions(
        days=request.days, start=request.start, rate=request.rate, at_once=request.at_once, seed=request.seed
    )
    try:
        settings, requests = load_stack(request.stack), find_requests(request.trace, request.queue)
        course = service_course(settings, request.service, requests, options)
        if request.day is not None:
            span = span_of(course, request.days)
            require_day(days_of(course.start, span.begin, span.end), request.day)
    except (StackInvalid, TraceError, ReplayError, NoSuchDay) as error:
        fail(error)
    with progress_bars(ServiceStrategy) as report_progress:
        replay = replay_service(course, options, report_progress)
    if report is not None:
        _write_report(replay, requests, request, report)
    finish(json_file, as_json(replay), with_assumptions(service_table(replay, assumptions=full), full=full))


def _is_picture(path: Path) -> bool:
    return path.suffix == ".svg"


def _write_report(replay: "ServiceReplay", requests: "RequestTrace", request: ServiceRequest, path: Path) -> None:
    """Write the page, or only its chart."""
    if _is_picture(path):
        from ebbtide.lab.report import served_day_picture

        write(path, served_day_picture(replay, request.day) + "\n")
        return
    from ebbtide.lab.advice.describe_requests import describe_requests, load_sheet
    from ebbtide.lab.report.pages.service_page import write_service_report

    load = load_sheet(describe_requests(requests))
    try:
        write_service_report(replay, path, request.command(), day=request.day, load=load)
    except Unwritable as error:
        fail(error)


def describe_for(trace: str, stacks: Sequence[str], service: str, at_once: int | None, json_file: Path | None) -> None:
    """Describe a trace, with the capacity of one pod of the service."""
    from ebbtide.lab.advice.described_load import described_load
    from ebbtide.lab.simulator.services.served import simulated

    if len(stacks) != 1:
        raise typer.BadParameter(
            "wanted one stack with --describe and --service (for example: ebbtide simulate STACK --service embedder "
            "--describe requests-servegen-m-small)"
        )
    try:
        served_by = simulated(load_stack(stacks[0]), service, at_once)
        described = described_load(trace, None, None, None, served_by)
    except (StackInvalid, ReplayError, TraceError) as error:
        fail(error)
    finish(json_file, described.document, described.shown)
