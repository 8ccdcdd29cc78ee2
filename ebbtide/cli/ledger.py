"""`ebbtide ledger`: what the nodes of a month cost, what alternatives would have cost, and who caused the cost.

A committed month is read from its file: its recording is gone after 45 days, and it must not change. A bill is shown
alone if Prometheus has no recording of its month.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.cli.console import fail, finish
from ebbtide.cli.options import (
    Context,
    JsonFile,
    Kubeconfig,
    PrometheusToken,
    PrometheusUrl,
    closed_month,
    given_path,
    written_path,
)
from ebbtide.operate.api import CannotOperate
from ebbtide.operate.prometheus import prometheus_of
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.settings.load import project_root
from ebbtide.text.durations import ONE_HOUR
from ebbtide.text.files import Unwritable, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

    from ebbtide.lab.ledger.bill.bill import Bill
    from ebbtide.lab.ledger.month import Month
    from ebbtide.monitoring.client import Prometheus
    from ebbtide.settings.model import StackSettings

command = typer.Typer(add_completion=False, rich_markup_mode=None)


_BILL_HELP = "A file or folder of AWS' Cost and Usage Report 2.0, or several; adds the bill of the same month."
_FOCUS_HELP = "With --bill: write the bill with the shares of pools and workloads as FOCUS 1.2 (CSV)."
_WRITE_HELP = "Add the month to stacks/ledger/STACK/MONTH.json. Existing entries are never changed."
_ALL_HELP = "Instead of one stack: the newest committed month of every stack, or --month."


@command.command(epilog="Example: ebbtide ledger demo --month 2026-11 --report ledger.html")
def ledger(
    stack: Annotated[
        str | None, typer.Argument(metavar="STACK", help="A name (demo for stacks/Pulumi.demo.yaml) or a path.")
    ] = None,
    *,
    month: Annotated[
        str,
        typer.Option(
            metavar="2026-11",
            help="A month; default: the last one that has ended. The running one is shown to date.",
            show_default=False,
        ),
    ] = "",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", parser=written_path, help="HTML page to write.")
    ] = None,
    json_file: JsonFile = None,
    bill: Annotated[list[Path] | None, typer.Option(metavar="PATH", parser=given_path, help=_BILL_HELP)] = None,
    focus: Annotated[Path | None, typer.Option(metavar="FILE", parser=written_path, help=_FOCUS_HELP)] = None,
    write: Annotated[bool, typer.Option("--write", help=_WRITE_HELP)] = False,
    all_: Annotated[bool, typer.Option("--all", help=_ALL_HELP)] = False,
    prometheus: PrometheusUrl = "",
    token_file: PrometheusToken = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the nodes of a month cost, what was saved, and which pools and workloads caused it."""
    if all_ != (stack is None) or (all_ and (report or bill or focus or write)) or (focus and not bill):
        raise typer.BadParameter(
            "expected STACK or --all; --report, --bill, --focus and --write with STACK; --focus with --bill"
        )
    from ebbtide.lab.ledger.month import LedgerError

    try:
        if stack is None:
            _show_all(month, json_file)
            return
        settings = load_stack(stack)
        asked = _Asked(
            settings=settings,
            month=closed_month(month, settings, or_running=True),
            now=datetime.now(UTC),
            connect=partial(prometheus_of, settings, prometheus, token_file, context, kubeconfig),
            needs_prometheus=bool(prometheus),
            report=report,
            json_file=json_file,
            bill=bill,
            focus=focus,
            write=write,
        )
        show = _show_running if asked.month.end > asked.now else _show_closed
        show(asked)
    except CannotOperate as error:
        fail(error, code=error.code)
    except (StackInvalid, LedgerError, Unwritable) as error:
        fail(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options for one stack. `needs_prometheus`: its address was given, so a bill alone is no answer."""

    settings: "StackSettings"
    month: "Month"
    now: datetime
    connect: "Callable[[], Prometheus]"
    needs_prometheus: bool
    report: Path | None
    json_file: Path | None
    bill: "Sequence[Path] | None"
    focus: Path | None
    write: bool

    def write_page(self, page: "Callable[[], str]") -> None:
        if self.report is not None:
            write_file(self.report, page())

    def finish(self, document: "Mapping[str, object]", shown: "RenderableType") -> None:
        finish(self.json_file, {"schema": 1, **document}, shown)


def _show_all(month: str, json_file: Path | None) -> None:
    from ebbtide.lab.ledger.overview import overview

    stacks, shown = overview(project_root(), month)
    finish(json_file, {"schema": 1, "stacks": stacks}, shown)


def _show_running(asked: _Asked) -> None:
    from ebbtide.lab.ledger.month import last_month
    from ebbtide.lab.ledger.month_before import month_before
    from ebbtide.lab.ledger.reading import read_nodes
    from ebbtide.lab.ledger.running import running_of

    settings, month = asked.settings, asked.month
    last = last_month(asked.now, month.zone)
    options = {"--bill": asked.bill, "--focus": asked.focus, "--write": asked.write}
    if refused := [name for name, value in options.items() if value]:
        fail(f"{' and '.join(refused)}: wanted a month that has ended, found {month.name}, which is not over")
    until = month.begin + (asked.now - month.begin) // ONE_HOUR * ONE_HOUR
    if until == month.begin:
        fail(f"--month: wanted a month that began an hour ago or more, found {month.name} (for example {last.name})")
    prometheus = asked.connect()
    recording = read_nodes(prometheus, settings.customer, month, until)
    read_last = partial(read_nodes, prometheus, settings.customer, last, last.end)
    before = month_before(project_root(), settings, last, read_last)
    running = running_of(recording, settings, month, until, before)
    asked.write_page(running.as_page)
    asked.finish(running.as_json(), running.as_text())


def _show_closed(asked: _Asked) -> None:
    from ebbtide.lab.ledger.bill.difference import difference_of
    from ebbtide.lab.ledger.bill.focus import focus_text
    from ebbtide.lab.ledger.bill.reading import read_bill
    from ebbtide.lab.ledger.build import ledger_of
    from ebbtide.lab.ledger.month import LedgerError, plain
    from ebbtide.lab.ledger.month_file import add_entry, committed, month_path, refuse_cut, written_bill
    from ebbtide.lab.ledger.page import render_page
    from ebbtide.lab.ledger.reading import read_month
    from ebbtide.lab.ledger.sheets import as_text, view_of

    settings, month, root = asked.settings, asked.month, project_root()
    path = month_path(root, settings.stack, month.name)
    unchecked = refuse_cut(path, root)
    billed = read_bill(asked.bill, settings, month) if asked.bill else None
    if path.exists():
        found, difference = committed(path)
    else:
        try:
            recording = read_month(asked.connect(), settings.customer, month, settings.costs.labels)
        except (CannotOperate, LedgerError) as missing:
            if billed is None or (isinstance(missing, CannotOperate) and asked.needs_prometheus):
                raise
            _show_bill_alone(asked, billed, str(missing))
            return
        found, difference, unchecked = ledger_of(recording, settings, month, asked.now), None, ""
    difference = difference if billed is None else difference_of(found, billed)
    added = written_bill(path) if billed is None else {"bill": plain(billed), "difference": plain(difference)}
    document = plain(found)
    view = view_of(found, billed, difference, unchecked)
    if billed is not None and asked.focus is not None:
        write_file(asked.focus, focus_text(billed, found))
    asked.write_page(partial(render_page, view))
    if asked.write and found.incomplete:
        fail(f"--write: wanted a closed month, found {month.name} incomplete: {found.incomplete}")
    if asked.write:
        is_new = add_entry(path, {"ledger": document, **added}, asked.now)
        typer.echo(f"{'written' if is_new else 'unchanged'}: {path}", err=True)
    asked.finish({**document, **added}, as_text(view))


def _show_bill_alone(asked: _Asked, billed: "Bill", why: str) -> None:
    from ebbtide.lab.ledger.bill_alone import BillAlone

    if asked.focus or asked.write:
        option = "--focus" if asked.focus else "--write"
        fail(f"{option}: wanted the month's recording in Prometheus, found: {why}")
    alone = BillAlone(settings=asked.settings, bill=billed, why=why)
    asked.write_page(alone.as_page)
    asked.finish(alone.as_json(), alone.as_text())
