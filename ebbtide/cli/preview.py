"""`ebbtide preview`: show the effect of a change on resources, cost, dangers and the coming nights before it is merged.

Offline: reads stack files, the git repository and the shipped tables; no cloud, no cluster, no network and no Pulumi
CLI. With `--plan` it shows the engine's changes instead of the differences between the recordings.

Exit code 0: safe, or "needs attention". Exit code 1: a customer is blocked, or a requested part could not be read, so
that an incomplete preview does not pass in CI.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.console import read_with_bar
from ebbtide.cli.options import TRACE_HELP, Columns, Queues, Since, Timezone, Where, trace_reading
from ebbtide.preview.document import PreviewDocument, StackVerdict
from ebbtide.preview.page import PageRequest, preview
from ebbtide.preview.plan import EnginePlan, PlanUnusable, read_plan
from ebbtide.preview.render.as_json import as_json
from ebbtide.preview.render.comment import as_comment
from ebbtide.preview.render.text import text_parts
from ebbtide.settings import StackInvalid, StackSettings, load_stack, stack_names
from ebbtide.settings.load import project_root
from ebbtide.text.terminal import console

if TYPE_CHECKING:
    from ebbtide.lab.advice.change import ChangeReplay
    from ebbtide.lab.simulator.trace.traces import Reading, Trace

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_FILE_WIDTH = 120  # without a terminal


class PreviewFormat(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


_STACKS_HELP = "Names (demo for stacks/Pulumi.demo.yaml) or paths."
_AGAINST_HELP = "Git ref with the previous stack files, such as origin/main; default: none, so everything is new."
_PLAN_HELP = "Output of `pulumi preview --json` for one stack; may be repeated."
_DAYS_HELP = "With --trace: days to replay (the first days of jobs, the last days of requests); default: 7, or all."


@command.command("preview", epilog="Example: ebbtide preview demo --against origin/main --format markdown")
def preview_command(
    stacks: Annotated[list[str] | None, typer.Argument(metavar="STACK", help=_STACKS_HELP)] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All stacks in stacks/.")] = False,
    against: Annotated[str | None, typer.Option(metavar="GIT_REF", help=_AGAINST_HELP)] = None,
    format_: Annotated[
        PreviewFormat, typer.Option("--format", help="Output for a terminal, a comment, or tools.")
    ] = PreviewFormat.TEXT,
    plan: Annotated[list[Path] | None, typer.Option(metavar="FILE", help=_PLAN_HELP)] = None,
    simulate: Annotated[
        str | None, typer.Option("--trace", metavar="TRACE", help=f"Replay it before and after. {TRACE_HELP}")
    ] = None,
    days: Annotated[int | None, typer.Option(metavar="N", min=1, help=_DAYS_HELP)] = None,
    since: Since = None,
    columns: Columns = None,
    where: Where = None,
    timezone: Timezone = None,
    queues: Queues = None,
    full: Annotated[bool, typer.Option("--full", help="Show everything instead of the short text.")] = False,
) -> None:
    """Preview a change: dangers, cost, coming nights."""
    names = _stack_names(stacks or [], all_=all_)
    problems: list[str] = []
    replay = None
    if simulate is not None or any((columns, where, since, days, timezone, queues)):
        reading = trace_reading(columns, since, days, timezone, queues, where)
        if simulate is None:
            raise typer.BadParameter(
                "--days, --from, --columns, --where, --timezone and --queues: wanted --trace TRACE too"
            )
        replay = _replay(simulate, reading, names, problems)
    request = PageRequest(
        now=datetime.now(UTC),
        against=against,
        plans=_plans(plan or [], problems),
        replay=replay,
    )
    previewed = preview(names, project_root(), request)
    document = replace(previewed, problems=(*problems, *previewed.problems))
    _show(document, format_, full=full)
    if _is_refused(document):
        raise typer.Exit(1)


def _stack_names(stacks: list[str], *, all_: bool) -> tuple[str, ...]:
    if bool(stacks) == all_:
        raise typer.BadParameter("wanted the names of stacks, or --all (for example: ebbtide preview demo)")
    names = stack_names() if all_ else tuple(dict.fromkeys(stacks))
    if not names:
        raise typer.BadParameter("--all: there is no stacks/Pulumi.<name>.yaml here")
    return names


def _plans(paths: list[Path], problems: list[str]) -> tuple[EnginePlan, ...]:
    plans: list[EnginePlan] = []
    for path in paths:
        try:
            plans.append(read_plan(path))
        except PlanUnusable as unusable:
            problems.append(str(unusable))
    return tuple(plans)


def _replay(trace: str, reading: "Reading", stacks: Sequence[str], problems: list[str]) -> "ChangeReplay | None":
    """Read the trace, as jobs in each stack's zone and as requests if it counts them; None if it cannot be read."""
    from ebbtide.lab.advice.change import DAYS, ChangeReplay
    from ebbtide.lab.simulator.trace.counted import find_requests
    from ebbtide.lab.simulator.trace.traces import TraceError

    settings: list[StackSettings] = []
    for stack in stacks:
        with suppress(StackInvalid):  # the preview of the stack shows its problems
            settings.append(load_stack(stack))
    traces: dict[str, Trace] = {}
    try:
        for stack in settings:
            if (zone := stack.business_hours.timezone) not in traces:
                traces[zone] = read_with_bar(trace, reading, [stack, *settings])
        requests = find_requests(trace) if any(read.counted for read in traces.values()) else None
    except TraceError as error:
        problems.append(f"not simulated: {error}")
        return None
    return ChangeReplay(traces=traces, requests=requests, days=reading.days or DAYS)


def _show(document: PreviewDocument, format_: PreviewFormat, *, full: bool) -> None:
    if format_ is PreviewFormat.TEXT:
        out = console(fold=True)
        if not out.is_terminal:
            out = console(fold=True, min_width=_FILE_WIDTH)
        for part in text_parts(document, full=full):
            out.print(part)
    else:
        typer.echo(as_json(document) if format_ is PreviewFormat.JSON else as_comment(document), nl=False)


def _is_refused(document: PreviewDocument) -> bool:
    """True if a customer is blocked or a requested part is not shown."""
    blocked = any(customer.verdict is StackVerdict.BLOCKED for customer in document.customers)
    return blocked or bool(document.problems) or any(customer.incomplete for customer in document.customers)
